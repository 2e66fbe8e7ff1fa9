//! System calls for Unix sockets of type `SOCK_SEQPACKET` and for epoll. All descriptors are
//! non-blocking and close-on-exec.
#![forbid(unsafe_code)]

use gasnet_sys::cancel;
use rustix::event::{epoll, Timespec};
use rustix::net::{self, sockopt, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

/// An abstract socket address that the kernel chose: five hexadecimal digits, see unix(7).
pub type SocketName = [u8; 5];

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A new socket that can send packets of `bytes`, with space for several if the kernel grants it.
pub fn socket(bytes: usize) -> io::Result<OwnedFd> {
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
    set_send_buffer(&fd, bytes)?;
    Ok(fd)
}

fn set_send_buffer(fd: &OwnedFd, bytes: usize) -> io::Result<()> {
    // The kernel reserves 32 bytes of the buffer.
    let needed = bytes + 32;
    sockopt::set_socket_send_buffer_size(fd, 4 * bytes)?;
    let granted = sockopt::socket_send_buffer_size(fd)?;
    if granted < needed {
        let why = format!(
            "packets need send buffers of {needed} bytes, but the kernel grants {granted}. Raise net.core.wmem_max"
        );
        return Err(io::Error::other(why));
    }
    Ok(())
}

/// A listening socket with an abstract name that the kernel chooses, which ends with the socket.
pub fn listener(bytes: usize) -> io::Result<(OwnedFd, SocketName)> {
    let fd = socket(bytes)?;
    net::bind(&fd, &SocketAddrUnix::new_unnamed())?;
    net::listen(&fd, 4096)?;
    let address = SocketAddrUnix::try_from(net::getsockname(&fd)?)?;
    let name = address.abstract_name().and_then(|name| name.try_into().ok());
    let name = name.ok_or_else(|| io::Error::other("the kernel chose a socket name of unexpected length"))?;
    Ok((fd, name))
}

/// Accepts the next connection at a listener.
pub fn accept(listener: &OwnedFd, bytes: usize) -> io::Result<OwnedFd> {
    let _whole = cancel::disable();
    let fd = net::accept_with(listener, FLAGS)?;
    set_send_buffer(&fd, bytes)?;
    Ok(fd)
}

/// Connects to a listener. Does not wait; a full backlog is `WouldBlock`.
pub fn connect(fd: &OwnedFd, name: SocketName) -> io::Result<()> {
    let _whole = cancel::disable();
    Ok(net::connect(fd, &SocketAddrUnix::new_abstract_name(&name)?)?)
}

/// Sends the concatenation of `slices` as one packet: all of it, or nothing and an error. Never
/// raises `SIGPIPE`.
pub fn send(fd: &OwnedFd, slices: &[IoSlice<'_>]) -> io::Result<()> {
    let _whole = cancel::disable();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    net::sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), flags)?;
    Ok(())
}

/// Receives one packet. Returns its length: 0 at the end of the connection, and more than the
/// buffer if the packet was truncated.
pub fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    let _whole = cancel::disable();
    let (_, bytes) = net::recv(fd, buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC)?;
    Ok(bytes)
}

/// A set of descriptors to watch for input. Its own is readable while that of a member is.
#[derive(Debug)]
pub struct Epoll(pub OwnedFd);

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor, under a number that [`Epoll::ready`] returns.
    pub fn add(&self, fd: impl AsFd, number: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(number);
        Ok(epoll::add(&self.0, fd, data, epoll::EventFlags::IN)?)
    }

    /// Removes a descriptor, if it is there.
    pub fn remove(&self, fd: impl AsFd) {
        // The only error is that it is not there.
        let _ = epoll::delete(&self.0, fd);
    }

    /// The numbers of at most `N` descriptors that are readable. Does not block.
    pub fn ready<const N: usize>(&self) -> impl Iterator<Item = u64> {
        let (flags, data) = (epoll::EventFlags::empty(), epoll::EventData::new_u64(0));
        let mut events = [epoll::Event { flags, data }; N];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _whole = cancel::disable();
        let count = epoll::wait(&self.0, &mut events, Some(&at_once)).unwrap_or(0);
        events.into_iter().take(count).map(|event| event.data.u64())
    }
}
