//! Unix sockets of type `SOCK_SEQPACKET` with abstract names, and event descriptors. All are
//! non-blocking and close-on-exec.
#![forbid(unsafe_code)]

use rustix::event::EventfdFlags;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

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

/// A descriptor that is readable from `set` to `clear`.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// An event that is not set.
    pub fn new() -> io::Result<Self> {
        Ok(Self(rustix::event::eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    /// Makes the descriptor readable. Async-signal-safe.
    pub fn set(&self) {
        // Fails only if it is set already, 2^64 - 2 times.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Undoes `set`.
    pub fn clear(&self) {
        // Fails only if it is not set.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
