//! What sleeping threads wait for.

use crate::barrier::Rounds;
use crate::ffi::Channel;
use crate::net::{Net, FIRST};
use gasnet_conduit::Wake;
use gasnet_sys::atomic::Ordering;
use std::os::fd::RawFd;

impl Wake for Net {
    fn fd(&self) -> RawFd {
        self.domains[FIRST].channel.as_ref().map_or(-1, Channel::fd)
    }

    fn devices(&self) -> Vec<String> {
        vec![format!("kgni{}", self.domains[FIRST].device)]
    }

    fn arm(&self) -> bool {
        // What waits for room is tried again by polls, and what has arrived delivered. The engine's
        // result comes without an event.
        let is_reducing = |rounds: &Rounds| rounds.is_active() && rounds.engine.is_some();
        let has_work = self.rounds.as_ref().is_some_and(is_reducing)
            || self.has_arrivals.load(Ordering::Relaxed)
            || !self.messages.is_empty()
            || !self.refused.is_empty()
            || !self.stalled.is_empty();
        !has_work && self.domains[FIRST].try_turn().is_some_and(|mut turn| turn.arm())
    }
}
