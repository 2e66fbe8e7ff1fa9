//! Unix sockets of type `SOCK_SEQPACKET` with abstract names. All are non-blocking and
//! close-on-exec.
#![forbid(unsafe_code)]

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

fn address(name: u64) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(
        format!("gasnet-loop-{name:016x}").as_bytes(),
    )?)
}

/// A listening socket of this name.
pub fn listener(name: u64) -> io::Result<OwnedFd> {
    let fd = socket()?;
    net::bind(&fd, &address(name)?)?;
    net::listen(&fd, 4096)?;
    Ok(fd)
}

/// A connection to the listener of this name. The listener need not have accepted it yet.
pub fn connect(name: u64) -> io::Result<OwnedFd> {
    let fd = socket()?;
    net::connect(&fd, &address(name)?)?;
    Ok(fd)
}

/// The next connection at a listener.
pub fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(net::accept_with(
        listener,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
    )?)
}
