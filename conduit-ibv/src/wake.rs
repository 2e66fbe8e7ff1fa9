//! The descriptor that wakes sleeping threads: completions and asynchronous events of all HCAs.

use crate::rail::Rail;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// One descriptor for several.
#[derive(Debug)]
pub struct WakeUp(OwnedFd);

impl WakeUp {
    /// That of these HCAs. None if threads do not sleep.
    pub fn new(rails: &[Rail]) -> io::Result<Option<Self>> {
        let channels: Vec<RawFd> = rails
            .iter()
            .filter_map(|rail| Some(rail.channel.as_ref()?.fd()))
            .collect();
        if channels.is_empty() {
            return Ok(None);
        }
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call just made this descriptor; nothing else has it.
        let wake = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let events = rails.iter().map(|rail| rail.context.event_fd());
        for waited in channels.into_iter().chain(events) {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: 0,
            };
            // SAFETY: open descriptors, and a live event.
            if unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, waited, &raw mut event) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Some(wake))
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
