//! Events for a descriptor: asynchronous ones of a context, or those of a completion channel. The
//! queue is in shared memory; the descriptor is a datagram socket that holds a doorbell exactly
//! while the queue is not empty, so that `poll` and `O_NONBLOCK` work as on hardware.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use crate::process::Process;
use crate::reclaim::{destroy_events, events_path};
use crate::shm::Events;

/// Events that a queue holds at most; more are lost. An armed CQ makes one.
const CAPACITY: u32 = 1 << 14;
const STRIDE: u32 = 2;

/// An event: `ibv_event_type` (channels: 0), and the key of an object or the number of a port.
pub type Event = (u32, u32);

/// The address of the socket of a queue.
fn address(process: &Process, index: u32) -> libc::sockaddr_un {
    // SAFETY: all zero is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as _;
    for (to, from) in address.sun_path.iter_mut().zip(events_path(process, index).as_bytes()) {
        *to = *from as _;
    }
    address
}

/// Makes a queue and its descriptor.
pub fn create(process: &Process) -> Result<(u32, OwnedFd)> {
    let no_memory = || Error::from_raw_os_error(libc::ENOMEM);
    let index = process.take(&process.fabric.events).ok_or_else(no_memory)?;
    let made = bind(process, index);
    let ring = &process.fabric.events.at(index).ring;
    if made.is_err() || ring.make(process, CAPACITY, STRIDE).is_none() {
        destroy_events(process, index);
        return Err(made.err().unwrap_or_else(no_memory));
    }
    made.map(|descriptor| (index, descriptor))
}

fn bind(process: &Process, index: u32) -> Result<OwnedFd> {
    let address = address(process, index);
    // SAFETY: plain calls on a new descriptor; the path ends with zero.
    unsafe {
        let descriptor = libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if descriptor == -1 {
            return Err(Error::last_os_error());
        }
        let descriptor = OwnedFd::from_raw_fd(descriptor);
        libc::unlink(events_path(process, index).as_ptr());
        let size = size_of_val(&address) as libc::socklen_t;
        match libc::bind(descriptor.as_raw_fd(), (&raw const address).cast(), size) {
            0 => Ok(descriptor),
            _ => Err(Error::last_os_error()),
        }
    }
}

/// Adds an event and rings.
pub fn push(process: &Process, index: u32, event: Event) {
    if index == 0 {
        return;
    }
    let events: &Events = process.fabric.events.at(index);
    let _guard = events.entry.lock.lock();
    if events.entry.owner.load(Relaxed) == 0 {
        return;
    }
    let first = events.ring.is_empty();
    if events
        .ring
        .push(process.words, &[u64::from(event.0), u64::from(event.1)])
        && first
    {
        let address = address(process, index);
        // SAFETY: the address is valid. A lost doorbell would mean that the owner is gone.
        unsafe {
            libc::sendto(
                process.socket.as_raw_fd(),
                c"!".as_ptr().cast(),
                1,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            );
        }
    }
}

/// Takes the oldest event of which `find` finds the object. Empty: blocks, or EAGAIN on a
/// descriptor with O_NONBLOCK.
pub fn wait<T>(process: &Process, index: u32, descriptor: &OwnedFd, find: impl Fn(Event) -> Option<T>) -> Result<T> {
    loop {
        if let Some(found) = find(pop(process, index, descriptor.as_raw_fd())?) {
            return Ok(found);
        }
    }
}

fn pop(process: &Process, index: u32, descriptor: i32) -> Result<Event> {
    let events: &Events = process.fabric.events.at(index);
    loop {
        {
            let _guard = events.entry.lock.lock();
            if let Some(record) = events.ring.peek(process.words, 0) {
                let event = (record[0].load(Relaxed) as u32, record[1].load(Relaxed) as u32);
                events.ring.pop();
                if events.ring.is_empty() {
                    silence(descriptor);
                }
                return Ok(event);
            }
            silence(descriptor);
        }
        // SAFETY: plain calls on one descriptor.
        unsafe {
            let is_nonblocking = libc::fcntl(descriptor, libc::F_GETFL) & libc::O_NONBLOCK != 0;
            let mut wait = libc::pollfd {
                fd: descriptor,
                events: libc::POLLIN,
                revents: 0,
            };
            if libc::poll(&mut wait, 1, if is_nonblocking { 0 } else { -1 }) == -1 {
                return Err(Error::last_os_error());
            }
            if wait.revents & libc::POLLHUP != 0 {
                return Err(Error::from_raw_os_error(libc::EIO));
            }
            if is_nonblocking {
                return Err(Error::from_raw_os_error(libc::EAGAIN));
            }
        }
    }
}

/// Takes the doorbells out of a descriptor.
fn silence(descriptor: i32) {
    let mut bytes = [0_u8; 8];
    // SAFETY: at most as many bytes as there is room for.
    while unsafe { libc::recv(descriptor, bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) } > 0 {}
}

/// Removes the events of a destroyed object. `is_type` chooses which types name such objects.
pub fn forget(process: &Process, index: u32, key: u32, is_type: impl Fn(u32) -> bool) {
    if index == 0 {
        return;
    }
    let events = process.fabric.events.at(index);
    let _guard = events.entry.lock.lock();
    events.ring.retain(process.words, |record| {
        record[1].load(Relaxed) as u32 != key || !is_type(record[0].load(Relaxed) as u32)
    });
}
