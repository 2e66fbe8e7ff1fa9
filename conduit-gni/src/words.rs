//! Words of barriers in the regions of peers.

use crate::ffi::SyncFlag;
use crate::net::Net;
use crate::operations::CompletionAction;
use crate::posts::{FIRST, MESSAGE};
use crate::wire::Kind;
use gasnet_conduit::{Busy, JobRank, Words};
use gasnet_gni_abi as abi;
use std::sync::atomic::AtomicU64;

impl Words for Net {
    fn own(&self) -> &[AtomicU64] {
        self.messages.region.barrier_words()
    }

    /// The word is the flag behind a put of no bytes: the NIC stores it as a whole. A receiver that
    /// sleeps needs an event.
    fn write(&self, peer: JobRank, index: usize, word: u64) -> Result<bool, Busy> {
        let (posts, layout) = (self.posts(), &self.messages.region.layout);
        if posts.peers.states.is_stopped() {
            return Err(Busy);
        }
        let mut queue = posts.lock(FIRST);
        let mut post = queue.take().ok_or(Busy)?;
        let to = posts.peers.in_region(peer, layout.barrier_word(index));
        let (modes, event) = if self.peers_sleep {
            (MESSAGE, Some(posts.peers.event(Kind::Barrier, 0)))
        } else {
            (abi::GNI_CQMODE_GLOBAL_EVENT, None)
        };
        let from = post.inline_address();
        post.peer = peer;
        post.done = CompletionAction::Nothing;
        post.put(modes, from, 0, to);
        post.and_flag(SyncFlag {
            value: word,
            address: to.address,
        });
        // SAFETY: no memory is read.
        unsafe { queue.post(post, event) };
        Ok(true)
    }
}
