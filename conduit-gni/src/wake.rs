//! Wake-up of sleeping threads.

use crate::barrier::Rounds;
use crate::net::Net;
use crate::posts::FIRST;
use gasnet_conduit::Wake;
use std::os::fd::RawFd;

impl Wake for Net {
    fn fd(&self) -> RawFd {
        self.posts().channel().map_or(-1, |channel| channel.fd)
    }

    fn devices(&self) -> Vec<String> {
        vec![format!("kgni{}", self.posts().domains[FIRST].device)]
    }

    fn arm(&self) -> bool {
        // What waits for room is tried again by polls, and what has arrived delivered. The engine's
        // result comes without an event.
        let has_work = self.rounds.as_ref().is_some_and(Rounds::is_active)
            || self.receiver.has_arrivals()
            || !self.messages.queued.is_empty()
            || !self.posts().refused.is_empty()
            || !self.rma.stalled.is_empty();
        !has_work && self.posts().try_lock(FIRST).is_some_and(|mut queue| queue.arm())
    }
}
