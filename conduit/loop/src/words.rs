//! Words: the NIC of the receiver stores them.
#![forbid(unsafe_code)]

use crate::queue::Work;
use crate::start::Net;
use gasnet_conduit::{Busy, JobRank, Words};
use gasnet_sys::lock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

impl Words for Net {
    fn own(&self) -> &[AtomicU64] {
        &self.words
    }

    fn write(&self, peer: JobRank, index: usize, word: u64) -> Result<bool, Busy> {
        if self.stopped.load(Relaxed) {
            return Err(Busy);
        }
        lock(&self.queue).post(Work::Word(peer, index, word));
        self.ring();
        Ok(true)
    }
}
