//! System calls for Unix sockets of type `SOCK_SEQPACKET` and for epoll. All descriptors are
//! non-blocking and close-on-exec.

use gasnet_sys::cancel;
use std::io::{self, IoSlice};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// An abstract socket address that the kernel chose: NUL and five hexadecimal digits, see unix(7).
pub type SocketName = [u8; 6];

const ADDRESS_BYTES: libc::socklen_t =
    (offset_of!(libc::sockaddr_un, sun_path) + size_of::<SocketName>()) as libc::socklen_t;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Takes ownership of a descriptor that a system call returned.
fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the system call just created this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(name: SocketName) -> libc::sockaddr_un {
    let mut sun_path = [0; 108];
    sun_path[..name.len()].copy_from_slice(&name.map(|byte| byte as libc::c_char));
    let sun_family = libc::AF_UNIX as libc::sa_family_t;
    libc::sockaddr_un { sun_family, sun_path }
}

/// A new socket that can send packets of `bytes`, with space for several if the kernel grants it.
pub fn socket(bytes: usize) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let fd = owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    set_send_buffer(&fd, bytes)?;
    Ok(fd)
}

fn set_send_buffer(fd: &OwnedFd, bytes: usize) -> io::Result<()> {
    // The kernel reserves 32 bytes of the buffer.
    let (needed, mut value) = (bytes + 32, 4 * bytes as libc::c_int);
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    let (fd, level, name) = (fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF);
    // SAFETY: `value` is live and of the length given.
    check(unsafe { libc::setsockopt(fd, level, name, ptr::from_ref(&value).cast(), length) })?;
    // SAFETY: both are live, and `length` is the size of `value`.
    check(unsafe { libc::getsockopt(fd, level, name, ptr::from_mut(&mut value).cast(), &mut length) })?;
    if (value as usize) < needed {
        let why = format!(
            "packets need send buffers of {needed} bytes, but the kernel grants {value}. Raise net.core.wmem_max"
        );
        return Err(io::Error::other(why));
    }
    Ok(())
}

/// A listening socket with an abstract name that the kernel chooses, which ends with the socket.
pub fn listener(bytes: usize) -> io::Result<(OwnedFd, SocketName)> {
    let fd = socket(bytes)?;
    let mut address = address(SocketName::default());
    let family_only = offset_of!(libc::sockaddr_un, sun_path) as libc::socklen_t;
    // SAFETY: `address` is live; the length says that only the family is given, which asks for an
    // abstract name.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), family_only) })?;
    let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: both are live, and `length` is the size of `address`.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), ptr::from_mut(&mut address).cast(), &mut length) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), 4096) })?;
    if length != ADDRESS_BYTES {
        return Err(io::Error::other("the kernel chose a socket name of unexpected length"));
    }
    Ok((fd, std::array::from_fn(|i| address.sun_path[i] as u8)))
}

/// Accepts the next connection at a listener.
pub fn accept(listener: &OwnedFd, bytes: usize) -> io::Result<OwnedFd> {
    let _whole = cancel::disable();
    let (none, flags) = (ptr::null_mut(), libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    // SAFETY: null is allowed for an address that is not wanted.
    let fd = owned(unsafe { libc::accept4(listener.as_raw_fd(), none, ptr::null_mut(), flags) })?;
    set_send_buffer(&fd, bytes)?;
    Ok(fd)
}

/// Connects to a listener. Does not wait; a full backlog is `WouldBlock`.
pub fn connect(fd: &OwnedFd, name: SocketName) -> io::Result<()> {
    let _whole = cancel::disable();
    let address = address(name);
    // SAFETY: `address` is live and longer than the length given.
    check(unsafe { libc::connect(fd.as_raw_fd(), ptr::from_ref(&address).cast(), ADDRESS_BYTES) })?;
    Ok(())
}

/// A message header for slices. An [`IoSlice`] is documented to be an iovec.
fn message(slices: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: a msghdr is plain data (with padding on some systems), for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (slices, count as _);
    message
}

/// Sends the concatenation of `slices` as one packet: all of it, or nothing and an error. Never
/// raises `SIGPIPE`.
pub fn send(fd: &OwnedFd, slices: &[IoSlice<'_>]) -> io::Result<()> {
    let _whole = cancel::disable();
    let message = message(slices.as_ptr().cast_mut().cast(), slices.len());
    // SAFETY: `message` and the slices in it are live for the call, which only reads them.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    usize::try_from(sent).map(drop).map_err(|_| io::Error::last_os_error())
}

/// Receives one packet into `slices`. Returns its length: 0 at the end of the connection, and more
/// than the slices if the packet was truncated.
pub fn receive(fd: &OwnedFd, slices: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
    let _whole = cancel::disable();
    let mut message = message(slices.as_mut_ptr().cast(), slices.len());
    // SAFETY: `message`, the slices and the memory that they name are live and exclusively borrowed
    // for the call.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// A set of descriptors to watch for input.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Self)
    }

    /// Readable while a member is readable.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Adds a descriptor, under a number that [`Epoll::ready`] returns.
    pub fn add(&self, fd: RawFd, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: number,
        };
        // SAFETY: `event` is live for the call.
        check(unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_ADD, fd, &mut event) })?;
        Ok(())
    }

    /// Removes a descriptor, if it is there.
    pub fn remove(&self, fd: RawFd) {
        // SAFETY: a null event is allowed for removal. The only error is that the descriptor is not
        // there.
        unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) };
    }

    /// The numbers of at most `N` descriptors that are readable. Does not block.
    pub fn ready<const N: usize>(&self) -> impl Iterator<Item = u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; N];
        let _whole = cancel::disable();
        // SAFETY: `events` is live and has room for N.
        let count = unsafe { libc::epoll_wait(self.fd(), events.as_mut_ptr(), N as libc::c_int, 0) };
        events.into_iter().take(count.max(0) as usize).map(|event| event.u64)
    }
}
