//! Words of barriers in the memory of peers, which offer it together with a ring
//! ([`crate::eager_rdma`]): the same conditions make a word visible after earlier puts.

use crate::ffi::{Local, Work};
use crate::net::Net;
use crate::operations::CompletionAction;
use gasnet_conduit::{Busy, JobRank, Words};
use std::sync::atomic::AtomicU64;

impl Words for Net {
    fn own(&self) -> &[AtomicU64] {
        self.progress.inbox.words()
    }

    fn write(&self, peer: JobRank, index: usize, word: u64) -> Result<bool, Busy> {
        let fabric = self.fabric();
        let Some(connection) = self.messages().reach(peer)? else {
            return Ok(false);
        };
        let source = Local {
            address: (&raw const word) as usize,
            bytes: size_of::<u64>(),
            lkey: 0,
        };
        let to = connection.rings.word(index).filter(|_| source.bytes <= fabric.inline);
        let Some(to) = to else { return Ok(false) };
        let mut work = Work::write(&source, to);
        work.inline();
        fabric.post(connection.queue(0), work, CompletionAction::Nothing)?;
        Ok(true)
    }
}
