//! An eventfd that ends the sleep of a thread.

use crate::{cancel, check};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

/// An eventfd that ends a thread's sleep.
#[derive(Debug)]
pub struct Eventfd(OwnedFd);

impl Eventfd {
    /// A new eventfd, not signalled.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the call just made this descriptor; nothing else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Readable after [`Eventfd::wake`].
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Ends the current sleep, or the next one. Async-signal-safe.
    pub fn wake(&self) {
        let _whole = cancel::disable();
        let one = 1u64;
        // SAFETY: eight live bytes. The write fails only after some 10^19 wakes without a wait.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of_val(&one)) };
    }

    /// Undoes every `wake` since the last sleep. Async-signal-safe.
    pub fn clear(&self) {
        let _whole = cancel::disable();
        let mut count = 0u64;
        // SAFETY: eight live bytes. The read fails only if there was no wake.
        let _ = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of_val(&count)) };
    }

    /// Sleeps until `wake` is called, `other` is readable, or `limit` has passed. Returns whether
    /// `other` is readable.
    pub fn wait(&self, other: Option<RawFd>, limit: Duration) -> bool {
        let _whole = cancel::disable();
        let item = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // The kernel ignores negative descriptors.
        let mut items = [item(self.0.as_raw_fd()), item(other.unwrap_or(-1))];
        let limit = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos().into(),
        };
        // SAFETY: two live items, a live time; no mask.
        let ready = unsafe { libc::ppoll(items.as_mut_ptr(), 2, &raw const limit, ptr::null()) };
        if ready <= 0 {
            return false;
        }
        if items[0].revents != 0 {
            self.clear();
        }
        items[1].revents != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_are_merged() {
        let (eventfd, other) = (Eventfd::new().unwrap(), Eventfd::new().unwrap());
        assert!(!eventfd.wait(None, Duration::ZERO));
        eventfd.wake();
        eventfd.wake();
        let long = Duration::from_secs(60);
        assert!(!eventfd.wait(Some(other.0.as_raw_fd()), long));
        assert!(!eventfd.wait(Some(other.0.as_raw_fd()), Duration::from_micros(10)));
        other.wake();
        assert!(eventfd.wait(Some(other.0.as_raw_fd()), long));
        other.clear();
        other.clear();
        assert!(!eventfd.wait(Some(other.0.as_raw_fd()), Duration::ZERO));
    }
}
