//! File descriptors: socket pairs, pipes, readiness, messages with descriptors.
//!
//! Descriptors are numbers here, because signal handlers and forked children use some that other
//! parts own. A number that is not open gives `EBADF`.

use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{retry_on_intr, FdFlags};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;

use super::{cancel, check, signal};

/// A descriptor for the length of one call.
fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // -1 is no value of the type; no other negative number is open either.
    let fd = if fd == -1 { RawFd::MIN } else { fd };
    // SAFETY: not -1. If it is not open, the call it is made for fails.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// A pair of connected, close-on-exec sockets that keep message boundaries. A read at one end
/// returns end-of-file once the last copy of the other end is closed.
pub fn seqpacket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// A close-on-exec pipe: read end, write end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// Whether a descriptor is open in this process.
pub fn is_open(fd: RawFd) -> bool {
    rustix::io::fcntl_getfd(borrow(fd)).is_ok()
}

/// Sockets that are open in this process. None if `/proc` is not readable.
pub fn open_sockets() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_socket = |target: &std::path::Path| target.to_str().is_some_and(|target| target.starts_with("socket:"));
    let sockets = entries.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| is_socket(&target)));
    sockets
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Closes a forked child's copy of a descriptor whose owner the child never uses again.
pub fn close_copy(fd: RawFd) {
    // SAFETY: takes a number; its owner in this process never runs again.
    unsafe { libc::close(fd) };
}

/// The file behind a descriptor: its device and number. None if `fd` is closed. Async-signal-safe.
pub fn file_id(fd: RawFd) -> Option<(u64, u64)> {
    let status = rustix::fs::fstat(borrow(fd)).ok()?;
    Some((status.st_dev, status.st_ino))
}

/// A close-on-exec copy of a descriptor, numbered 3 or higher.
pub fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(borrow(fd), 3)?)
}

/// Leaves a descriptor open in the program that this process executes.
pub fn keep_over_exec(fd: RawFd) {
    let _ = rustix::io::fcntl_setfd(borrow(fd), FdFlags::empty());
}

/// Opens the pipe behind a write descriptor a second time, so that the new descriptor can be made
/// non-blocking without affecting the other holders of the old one. None if it is not a pipe, or
/// may not be opened.
pub fn reopen_pipe(fd: RawFd) -> Option<OwnedFd> {
    let status = rustix::fs::fstat(borrow(fd)).ok()?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Fifo {
        return None;
    }
    let mut options = OpenOptions::new();
    // Without O_NONBLOCK the open would block until there is a reader; writes shall block.
    let again = options
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{fd}"))
        .ok()?;
    rustix::fs::fcntl_setfl(&again, OFlags::empty()).ok()?;
    Some(again.into())
}

/// Makes reads and writes of an open file non-blocking.
pub fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    let fd = borrow(fd.as_raw_fd());
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

/// Sends one message. Never blocks, never raises SIGPIPE. Async-signal-safe.
pub fn send(fd: RawFd, message: &[u8]) -> io::Result<usize> {
    let _whole = cancel::disable();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(retry_on_intr(|| rustix::net::send(borrow(fd), message, flags))?)
}

/// Receives one message. Never blocks. 0 means end-of-file.
pub fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let _whole = cancel::disable();
    let (received, _) = retry_on_intr(|| rustix::net::recv(borrow(fd), &mut *buffer, RecvFlags::DONTWAIT))?;
    Ok(received)
}

/// Descriptors that one message may carry.
const MAX_DESCRIPTORS: usize = 8;
/// Bytes of control data for that many.
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

/// Sends one message with copies of `descriptors`, of which there are one to eight. Never blocks.
pub fn send_descriptors(fd: RawFd, message: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    assert!((1..=MAX_DESCRIPTORS).contains(&descriptors.len()));
    let descriptors: Vec<_> = descriptors.iter().copied().map(borrow).collect();
    let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut room);
    let fits = control.push(rustix::net::SendAncillaryMessage::ScmRights(&descriptors));
    debug_assert!(fits);
    let (parts, flags) = ([io::IoSlice::new(message)], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    retry_on_intr(|| rustix::net::sendmsg(borrow(fd), &parts, &mut control, flags))?;
    Ok(())
}

/// Blocks until a message arrives, and returns its length and its descriptors. No bytes mean
/// end-of-file.
pub fn receive_descriptors(fd: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = rustix::net::RecvAncillaryBuffer::new(&mut room);
    let mut parts = [io::IoSliceMut::new(buffer)];
    let message =
        retry_on_intr(|| rustix::net::recvmsg(borrow(fd), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let mut descriptors = Vec::new();
    for item in control.drain() {
        if let rustix::net::RecvAncillaryMessage::ScmRights(rights) = item {
            descriptors.extend(rights);
        }
    }
    Ok((message.bytes, descriptors))
}

/// The process at the other end of a connected local socket, as it was when it connected, and its
/// user. The process is 0 if it is not visible in this pid namespace.
pub fn peer_process(fd: RawFd) -> io::Result<(libc::pid_t, libc::uid_t)> {
    // Not rustix: its result cannot hold process 0.
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure is writable and has that size.
    check(unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    })?;
    Ok((peer.pid, peer.uid))
}

/// Longest time of a process from `bind` to `listen`.
const LISTENS: Duration = Duration::from_secs(1);

/// Connects to a local socket in the abstract namespace. Blocks for at most `limit` while the
/// listener's queue is full, and for a second while nobody listens yet.
pub fn connect_to_name(name: &[u8], limit: Duration) -> io::Result<UnixStream> {
    let end = Instant::now() + LISTENS;
    loop {
        match try_connect_to_name(name, limit) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

fn try_connect_to_name(name: &[u8], limit: Duration) -> io::Result<UnixStream> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let stream = UnixStream::from(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?);
    stream.set_write_timeout(Some(limit))?;
    let address = rustix::net::SocketAddrUnix::new_abstract_name(name)?;
    retry_on_intr(|| rustix::net::connect(&stream, &address))?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// The events of `fd` that are ready now, of `events` and those that are always reported.
fn ready(fd: RawFd, events: libc::c_short) -> libc::c_short {
    let mut items = [libc::pollfd { fd, events, revents: 0 }];
    poll(&mut items, Some(Duration::ZERO)).map_or(0, |_| items[0].revents)
}

/// Whether all copies of the other end of a socket or pipe are closed, or `fd` itself is.
/// Async-signal-safe.
pub fn peer_is_gone(fd: RawFd) -> bool {
    ready(fd, libc::POLLIN) & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// Whether a write to `fd` would make progress now. Also true if `fd` is closed or broken.
/// Async-signal-safe.
pub fn is_writable(fd: RawFd) -> bool {
    ready(fd, libc::POLLOUT) != 0
}

/// A poll item that waits for input.
pub fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Blocks until one of `items` is ready or `limit` has passed (for ever without one); returns how
/// many are ready. A signal ends the wait early, with 0. Async-signal-safe.
pub fn poll(items: &mut [libc::pollfd], limit: Option<Duration>) -> io::Result<usize> {
    let _whole = cancel::disable();
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

/// Reads once; restarts after a signal. 0 means end-of-file.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let _whole = cancel::disable();
    Ok(retry_on_intr(|| rustix::io::read(borrow(fd), &mut *buffer))?)
}

/// Writes all of `bytes`; blocks while a non-blocking descriptor is full. Returns at the first
/// error. Async-signal-safe.
pub fn write_all(fd: RawFd, bytes: &[u8]) -> io::Result<()> {
    write_with(fd, bytes, || {
        let events = libc::POLLOUT;
        poll(&mut [libc::pollfd { fd, events, revents: 0 }], None).map(drop)
    })
}

/// Writes all of `bytes`, like [`write_all`], except that a full non-blocking descriptor is an
/// error. Async-signal-safe.
pub fn write_all_now(fd: RawFd, bytes: &[u8]) -> io::Result<()> {
    write_with(fd, bytes, || Err(io::ErrorKind::WouldBlock.into()))
}

/// Writes all of `bytes`, and calls `full` when the descriptor takes none for now.
fn write_with(fd: RawFd, mut bytes: &[u8], full: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let _whole = cancel::disable();
    while !bytes.is_empty() {
        match retry_on_intr(|| rustix::io::write(borrow(fd), bytes)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::AGAIN) => full()?,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Writes two bytes into a non-blocking pipe: both or none, because a pipe does not split short
/// writes. Preserves `errno`. Async-signal-safe.
pub fn write_pair(fd: RawFd, first: u8, second: bool) {
    signal::preserving_errno(|| {
        let _ = rustix::io::write(borrow(fd), &[first, u8::from(second)]);
    });
}

/// Makes `to` a copy of `from` that survives exec.
pub fn replace(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    check(unsafe { libc::dup2(from, to) }).map(drop)
}

/// Opens `/dev/null` for each closed standard stream, so that none of our descriptors gets the
/// number of one.
pub fn open_standard_streams() {
    for fd in 0..3 {
        if !is_open(fd) {
            // The lowest free number is `fd`.
            if let Ok(null) = rustix::fs::open(c"/dev/null", OFlags::RDWR, Mode::empty()) {
                let _ = null.into_raw_fd();
            }
        }
    }
}

/// Makes standard input empty, or closes it if `/dev/null` cannot be opened.
pub fn empty_stdin() {
    match rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Err(_) => close_copy(0),
        // Standard input was closed, so the new descriptor got its number. It must survive exec.
        Ok(null) if null.as_raw_fd() == 0 => {
            let _ = rustix::io::fcntl_setfd(&null, FdFlags::empty());
            let _ = null.into_raw_fd();
        }
        Ok(null) => {
            let _ = replace(null.as_raw_fd(), 0);
        }
    }
}

/// Makes the kernel send `signal` to this process whenever the state of `fd` changes. Use a
/// real-time signal: it carries the descriptor's number, and its default action is termination.
pub fn signal_on_change(fd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let raw = fd.as_raw_fd();
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(raw, libc::F_SETOWN, super::process::pid()) })?;
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(raw, F_SETSIG, signal) })?;
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::ASYNC | OFlags::NONBLOCK)?)
}

/// Linux's number; the libc crate lacks it for some targets.
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
        assert!(peer_is_gone(b.as_raw_fd()) && peer_is_gone(1 << 20) && !is_open(-1));
        assert_eq!(receive(b.as_raw_fd(), &mut buffer).unwrap(), 0);
        assert_eq!(send(b.as_raw_fd(), b"x").unwrap_err().raw_os_error(), Some(libc::EPIPE));
    }

    #[test]
    fn connects_when_the_other_listens_at_last() {
        let name = format!("gasnet-late-{}", std::process::id());
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        let address = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        let refused = try_connect_to_name(name.as_bytes(), LISTENS).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        std::thread::scope(|scope| {
            let connecting = scope.spawn(|| connect_to_name(name.as_bytes(), LISTENS));
            std::thread::sleep(Duration::from_millis(20));
            rustix::net::listen(&socket, 1).unwrap();
            connecting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn abstract_names_connect() {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixListener};
        let name = format!("sys-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let stream = connect_to_name(name.as_bytes(), Duration::from_secs(10)).unwrap();
        assert_eq!(stream.write_timeout().unwrap(), None);
        listener.accept().unwrap();
        assert!(connect_to_name(&[b'x'; 200], Duration::from_secs(10)).is_err());
    }

    #[test]
    fn a_reopened_pipe_has_its_own_flags() {
        let flags = |fd: &OwnedFd| rustix::fs::fcntl_getfl(fd).unwrap() & OFlags::NONBLOCK;
        let (reader, writer) = pipe().unwrap();
        let again = reopen_pipe(writer.as_raw_fd()).unwrap();
        assert_eq!((flags(&writer), flags(&again)), (OFlags::empty(), OFlags::empty()));
        set_nonblocking(&again).unwrap();
        assert_eq!((flags(&writer), flags(&again)), (OFlags::empty(), OFlags::NONBLOCK));
        write_all(again.as_raw_fd(), b"there").unwrap();
        assert_eq!(read(reader.as_raw_fd(), &mut [0; 16]).unwrap(), 5);
        assert!(reopen_pipe(seqpacket_pair().unwrap().0.as_raw_fd()).is_none());
    }

    #[test]
    fn a_full_pipe_is_not_writable() {
        let (reader, writer) = pipe().unwrap();
        assert!(is_writable(writer.as_raw_fd()));
        set_nonblocking(&writer).unwrap();
        let full = write_all_now(writer.as_raw_fd(), &vec![0; 4 << 20]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(!is_writable(writer.as_raw_fd()));
        drop(reader);
        assert!(is_writable(writer.as_raw_fd()));
    }
}
