//! Descriptors: pairs of sockets, pipes, readiness.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
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

/// Whether a descriptor is open in this process.
pub fn is_open(fd: RawFd) -> bool {
    // SAFETY: takes numbers.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Closes this process's copy of a descriptor that something else owns: after a fork, where that something is not used any more.
pub fn close_copy(fd: RawFd) {
    // SAFETY: takes a number; what owns it here never runs again.
    unsafe { libc::close(fd) };
}

/// A copy of a descriptor, close-on-exec.
pub fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let copy = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: just made, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The pipe that a descriptor writes to, opened once more: whoever gets that may make it non-blocking without doing so to those who have the first one. None
/// if it is no pipe, or may not be opened.
pub fn reopen_pipe(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: zero is a value of this plain structure.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a live structure to write.
    check(unsafe { libc::fstat(fd, &raw mut about) }).ok()?;
    if about.st_mode & libc::S_IFMT != libc::S_IFIFO {
        return None;
    }
    let mut options = OpenOptions::new();
    // It does not wait for a reader, as one with a name would; but writes shall wait.
    let again = options
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{fd}"))
        .ok()?;
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(again.as_raw_fd(), libc::F_SETFL, 0) }).ok()?;
    Some(again.into())
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

/// Descriptors that one message may carry.
const MOST_DESCRIPTORS: usize = 8;
/// Room for them and their header, aligned as that wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

fn envelope(part: &mut libc::iovec, control: &mut Control, length: usize) -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid value of this plain structure.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = length;
    header
}

/// Sends one message with copies of `descriptors`, at least one and at most eight. Never waits.
pub fn send_descriptors(fd: RawFd, message: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    assert!((1..=MOST_DESCRIPTORS).contains(&descriptors.len()));
    let bytes = std::mem::size_of_val(descriptors) as u32;
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: message.as_ptr().cast_mut().cast(),
        iov_len: message.len(),
    };
    // SAFETY: computes from a number.
    let (space, length) = unsafe { (libc::CMSG_SPACE(bytes), libc::CMSG_LEN(bytes)) };
    let header = envelope(&mut part, &mut control, space as usize);
    // SAFETY: the control buffer has room for one header and that many descriptors, and is aligned for it.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = length as usize;
        libc::CMSG_DATA(first).copy_from_nonoverlapping(descriptors.as_ptr().cast(), bytes as usize);
    }
    // SAFETY: header, message and control buffer live through the call.
    retry(|| unsafe { libc::sendmsg(fd, &raw const header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) }).map(drop)
}

/// Takes one message with the descriptors that came with it; waits for it. No bytes mean end-of-file.
pub fn receive_descriptors(fd: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut header = envelope(&mut part, &mut control, 64);
    // SAFETY: header, buffer and control buffer live through the call.
    let got = retry(|| unsafe { libc::recvmsg(fd, &raw mut header, libc::MSG_CMSG_CLOEXEC) })?;
    let mut descriptors = Vec::new();
    // SAFETY: the system has filled the control buffer; the macros stay inside its length.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&raw const header);
        while !at.is_null() {
            if (*at).cmsg_level == libc::SOL_SOCKET && (*at).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*at).cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(at).cast::<RawFd>();
                for i in 0..bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            at = libc::CMSG_NXTHDR(&raw const header, at);
        }
    }
    Ok((got, descriptors))
}

/// The process at the other end of a connected local socket, as it was when it connected, and its user.
pub fn peer_process(fd: RawFd) -> io::Result<(libc::pid_t, libc::uid_t)> {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure is writable and has that size.
    check(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut who).cast(), &raw mut size) })?;
    Ok((who.pid, who.uid))
}

/// Connects to a local socket whose name is none of the file system, and waits for `limit` at most where too many others do.
pub fn connect_to_name(name: &[u8], limit: Duration) -> io::Result<UnixStream> {
    // SAFETY: takes numbers.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: just returned, and nobody else knows it.
    let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    stream.set_write_timeout(Some(limit))?;
    // SAFETY: plain data, for which zero is a value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let room = &mut address.sun_path[1..];
    if name.len() > room.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in room.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    // SAFETY: an address of that length.
    retry(|| unsafe { libc::connect(fd, (&raw const address).cast(), length as libc::socklen_t) as isize })?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Whether the other end of a socket or pipe is closed everywhere, or `fd` is. Async-signal-safe.
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
    fn descriptors_travel() {
        let (a, b) = seqpacket_pair().unwrap();
        let (reader, writer) = pipe().unwrap();
        send_descriptors(a.as_raw_fd(), b"two", &[writer.as_raw_fd(), reader.as_raw_fd()]).unwrap();
        drop(writer);
        let mut buffer = [0; 16];
        let (n, got) = receive_descriptors(b.as_raw_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..n], got.len()), (&b"two"[..], 2));
        write_all(got[0].as_raw_fd(), b"through").unwrap();
        assert_eq!(read(reader.as_raw_fd(), &mut buffer).unwrap(), 7);
        send(a.as_raw_fd(), b"none").unwrap();
        assert_eq!(receive_descriptors(b.as_raw_fd(), &mut buffer).unwrap().1.len(), 0);
        assert_eq!(peer_process(b.as_raw_fd()).unwrap().0, std::process::id() as i32);
    }

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
    fn a_pipe_opened_again_has_flags_of_its_own() {
        // SAFETY: takes numbers.
        let flags = |fd: &OwnedFd| unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) } & libc::O_NONBLOCK;
        let (reader, writer) = pipe().unwrap();
        let again = reopen_pipe(writer.as_raw_fd()).unwrap();
        assert_eq!((flags(&writer), flags(&again)), (0, 0));
        set_nonblocking(&again).unwrap();
        assert_eq!((flags(&writer), flags(&again)), (0, libc::O_NONBLOCK));
        write_all(again.as_raw_fd(), b"there").unwrap();
        assert_eq!(read(reader.as_raw_fd(), &mut [0; 16]).unwrap(), 5);
        assert!(reopen_pipe(seqpacket_pair().unwrap().0.as_raw_fd()).is_none());
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
