//! Words in the memory of peers.

use std::sync::atomic::AtomicU64;

use crate::{Busy, JobRank};

/// Words of each process.
pub const COUNT: usize = 8192;

/// Words of 8 bytes in the memory of each process, which the others write and it polls. For
/// barriers. Offered in [`crate::Abilities`], in all processes or in none.
///
/// # What the runtime may rely on
///
/// - A word is written as a whole and once, some time after [`Words::write`] has returned. No call
///   reports that, and words overtake each other.
/// - A reader of a word (acquire) also sees data of its writer's puts that were complete before the
///   call, and whatever the writer has seen in the same way.
/// - A process whose threads sleep ([`crate::Wake`]) is woken, and its next poll finds something;
///   or `write` refuses words to it.
///
/// # What a conduit may rely on
///
/// - The runtime writes a word again only after it knows that the last one was read.
/// - Peers are in other neighbourhoods, except in tests.
pub trait Words: Sync {
    /// The own words, [`COUNT`] in number, zero at first. The process itself may store them, too.
    fn own(&self) -> &[AtomicU64];

    /// Writes a word of a peer. False: this peer takes no words now, and nothing was written; send
    /// it a packet instead. Does not block.
    fn write(&self, peer: JobRank, index: usize, word: u64) -> Result<bool, Busy>;
}
