//! Descriptors: pairs of sockets, pipes, readiness.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::{check, retry};

fn pair(fds: [RawFd; 2]) -> (OwnedFd, OwnedFd) {
    // SAFETY: called with what a system call has just returned and nobody else knows.
    (unsafe { OwnedFd::from_raw_fd(fds[0]) }, unsafe {
        OwnedFd::from_raw_fd(fds[1])
    })
}

/// A pair of connected sockets that keep message boundaries, close-on-exec. A read at one end gives end-of-file when the last copy of
/// the other is closed.
pub fn seqpacket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    // SAFETY: the array has two elements.
    check(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr()) })?;
    Ok(pair(fds))
}

/// A pipe (read end, write end), close-on-exec.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    // SAFETY: the array has two elements.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok(pair(fds))
}

/// Makes reads and writes of an open file return at once.
pub fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Sends one message. Never waits, never raises SIGPIPE. Async-signal-safe.
pub fn send(fd: RawFd, message: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    retry(|| unsafe {
        libc::send(
            fd,
            message.as_ptr().cast(),
            message.len(),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    })
}

/// Takes one message if there is one. 0 means end-of-file.
pub fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    retry(|| unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) })
}

/// Whether the other end of a socket is closed everywhere. Async-signal-safe.
pub fn peer_is_gone(fd: RawFd) -> bool {
    let mut item = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one element.
    let ready = unsafe { libc::poll(&raw mut item, 1, 0) };
    ready == 1 && item.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// Whether a write to `fd` would make progress now. True also for a descriptor that is closed or broken. Async-signal-safe.
pub fn is_writable(fd: RawFd) -> bool {
    let mut item = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one element.
    unsafe { libc::poll(&raw mut item, 1, 0) == 1 }
}

/// Waits until one of `items` is ready or `limit` has passed (forever when none). A signal ends the wait early.
pub fn poll(items: &mut [libc::pollfd], limit: Option<Duration>) -> io::Result<usize> {
    // Rounded up, so that a caller with a deadline does not spin through its last millisecond.
    let timeout = limit.map_or(-1, |d| d.as_nanos().div_ceil(1_000_000).min(1 << 30) as i32);
    // SAFETY: the slice is valid for its length.
    let ready = unsafe { libc::poll(items.as_mut_ptr(), items.len() as libc::nfds_t, timeout) };
    match check(ready) {
        Ok(n) => Ok(n as usize),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(e) => Err(e),
    }
}

/// Reads what is there. 0 means end-of-file.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    retry(|| unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// Writes all of `bytes`, unless an error ends it. Async-signal-safe.
pub fn write_all(fd: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the buffer is valid for its length.
        let written = match retry(|| unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) }) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                poll(
                    &mut [libc::pollfd {
                        fd,
                        events: libc::POLLOUT,
                        revents: 0,
                    }],
                    None,
                )?;
                0
            }
            other => other?,
        };
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Writes two bytes into a pipe that does not wait: both or none, because a pipe keeps short writes together. Keeps `errno`.
/// Async-signal-safe.
pub fn write_pair(fd: RawFd, first: u8, second: bool) {
    let bytes = [first, u8::from(second)];
    // SAFETY: no preconditions; the location belongs to this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // SAFETY: the buffer has two bytes.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), 2) };
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Makes `to` a copy of `from` that survives exec.
pub fn replace(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::dup2(from, to) }).map(drop)
}

/// Puts `/dev/null` where a standard stream is closed, so that no descriptor of ours is taken for one.
pub fn open_standard_streams() {
    for fd in 0..3 {
        // SAFETY: takes numbers.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            // SAFETY: a C string. The lowest free number is `fd`.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
}

/// Makes standard input empty. When even `/dev/null` is missing, it is closed.
pub fn empty_stdin() {
    // SAFETY: a C string.
    let fd = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        // SAFETY: takes a number.
        unsafe { libc::close(0) };
    } else if fd != 0 {
        let _ = replace(fd, 0);
        // SAFETY: the descriptor was opened above.
        unsafe { libc::close(fd) };
    } else {
        // Standard input was closed, so that the new descriptor took its number: it must survive exec.
        // SAFETY: takes numbers.
        unsafe { libc::fcntl(0, libc::F_SETFD, 0) };
    }
}

/// Makes the kernel send `signal` to this process whenever the state of `fd` changes. A real-time signal keeps the descriptor's
/// number and has termination as its default action.
pub fn signal_on_change(fd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let fd = fd.as_raw_fd();
    // SAFETY: no preconditions.
    let pid = unsafe { libc::getpid() };
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(fd, libc::F_SETOWN, pid) })?;
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(fd, F_SETSIG, signal) })?;
    // SAFETY: takes numbers.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Linux's number; the libc crate does not have it everywhere.
const F_SETSIG: i32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_end_of_file() {
        let (a, b) = seqpacket_pair().unwrap();
        let mut buffer = [0; 16];
        assert_eq!(
            receive(b.as_raw_fd(), &mut buffer).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        send(a.as_raw_fd(), b"one").unwrap();
        send(a.as_raw_fd(), b"three").unwrap();
        assert_eq!(receive(b.as_raw_fd(), &mut buffer).unwrap(), 3);
        assert_eq!(receive(b.as_raw_fd(), &mut buffer).unwrap(), 5);
        assert!(!peer_is_gone(b.as_raw_fd()));
        drop(a);
        assert!(peer_is_gone(b.as_raw_fd()));
        assert_eq!(receive(b.as_raw_fd(), &mut buffer).unwrap(), 0);
        assert_eq!(send(b.as_raw_fd(), b"x").unwrap_err().raw_os_error(), Some(libc::EPIPE));
    }

    #[test]
    fn a_full_pipe_is_not_writable() {
        let (reader, writer) = pipe().unwrap();
        assert!(is_writable(writer.as_raw_fd()));
        set_nonblocking(&writer).unwrap();
        let block = [0u8; 4096];
        // SAFETY: the buffer is valid.
        while unsafe { libc::write(writer.as_raw_fd(), block.as_ptr().cast(), block.len()) } > 0 {}
        assert!(!is_writable(writer.as_raw_fd()));
        drop(reader);
        assert!(is_writable(writer.as_raw_fd()));
    }
}
