//! Posting a work request, and what becomes of its peer if the HCA refuses it.

use crate::fabric::Fabric;
use crate::ffi::{Errno, Work};
use crate::operations::CompletionAction;
use crate::route::Route;
use gasnet_conduit::Busy;

impl Fabric {
    /// A call for a peer failed: what it was to do. Anything but a lack of room loses the peer,
    /// unless the HCA has failed.
    #[cold]
    pub fn refused(&self, queue: Route<'_>, what: &str, why: Errno) -> Busy {
        if why == Errno::NO_MEMORY {
            return Busy;
        }
        self.take_events(self.rail(&queue));
        if !self.peers.states.has_failed() {
            let text = format!("{}: {what} failed: {why}", self.name(queue.path));
            self.peers.states.lose(queue.peer(), text);
        }
        Busy
    }

    /// Posts one work request of an operation.
    #[inline(always)]
    pub fn post(&self, queue: Route<'_>, work: Work, done: CompletionAction) -> Result<(), Busy> {
        let Some(mut guard) = self.lock_queue(queue) else {
            done.release();
            return Err(Busy);
        };
        // SAFETY: the runtime keeps its memory until completion, and buffers are released then.
        let posted = unsafe { guard.post(work, done) };
        drop(guard);
        posted.map_err(|(done, why)| {
            let what = done.name();
            done.release();
            self.refused(queue, what, why)
        })
    }
}
