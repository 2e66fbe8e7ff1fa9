//! What sleeping threads wait for: completions and asynchronous events of all HCAs.

use crate::net::Net;
use crate::rail::Rail;
use gasnet_conduit::Wake;
use gasnet_sys::atomic::Ordering;
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
}

impl Wake for Net {
    fn fd(&self) -> RawFd {
        self.wake.as_ref().map_or(-1, |wake| wake.0.as_raw_fd())
    }

    fn devices(&self) -> Vec<String> {
        self.rails.iter().map(|rail| rail.context.name.clone()).collect()
    }

    fn arm(&self) -> bool {
        self.rails.iter().for_each(|rail| self.take_events(rail));
        // Polls start what is stalled, and deliver what is deferred or fetched.
        if !self.stalled.is_empty() || !self.deferred.is_empty() || self.fetches.has_work() {
            return false;
        }
        // The datagrams' events go to the first HCA's channel: armed after that was drained.
        if !self.rails.iter().all(Rail::arm) {
            return false;
        }
        if self.is_complete {
            return true;
        }
        // Before it sleeps, a thread has looked once since they were armed.
        let has_looked = !self.may_be_asked.swap(true, Ordering::Relaxed);
        self.connector.arm() && has_looked
    }
}
