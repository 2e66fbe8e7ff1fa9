//! The wake-up of sleeping threads.

use crate::net::Net;
use gasnet_conduit::Wake;

impl Wake for Net {
    fn fd(&self) -> i32 {
        self.link().worker.wake
    }

    fn devices(&self) -> Vec<String> {
        let resources = &self.link().worker.resources;
        if resources.is_empty() {
            vec!["UCX".into()]
        } else {
            resources.clone()
        }
    }

    /// Polls deliver what has arrived, and start flushes.
    fn arm(&self) -> bool {
        let link = self.link();
        let has_work = link.has_upcalls() || !link.peers.to_flush.is_empty();
        !has_work && link.worker.try_turn().is_some_and(|turn| turn.may_sleep())
    }
}
