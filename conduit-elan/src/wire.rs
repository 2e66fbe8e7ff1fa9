//! Messages: in a slot of a queue, and while they wait for the payload that they announce.

use crate::buffers::Buffer;
use gasnet_conduit::{Class, JobRank};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_conduit_util::parts::concatenate;
use std::mem::MaybeUninit;

/// Bytes of the head of a message in a queue: its sender and its length, 32 bits each, and as much
/// again, so that messages are aligned.
pub const HEAD: usize = 16;
/// Most bytes of a slot of a queue; libelan's have 320 or 2048.
pub const MOST_SLOT: usize = 2048;

/// The memory of a slot.
#[repr(C, align(16))]
pub struct Slot(pub MaybeUninit<[u8; MOST_SLOT]>);

impl Slot {
    pub const fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// Writes a message with its head. Returns all of it.
    #[inline]
    pub fn fill(&mut self, own: JobRank, bytes: usize, parts: &[&[u8]]) -> &[u8] {
        assert!(HEAD + bytes <= MOST_SLOT, "defect: {bytes} bytes in a slot");
        let start = self.0.as_mut_ptr().cast::<u8>();
        let head = u128::from(own.0) | (bytes as u128) << 32;
        // SAFETY: aligned, and the parts have `bytes` bytes together, for which there is room.
        unsafe {
            start.cast::<u128>().write(head);
            concatenate(parts, start.add(HEAD));
            std::slice::from_raw_parts(start, HEAD + bytes)
        }
    }

    /// The number of the sender of a message, and the message. None: its length is impossible.
    ///
    /// # Safety
    /// A message was received in it.
    #[inline]
    pub unsafe fn message(&mut self, slot_bytes: usize) -> (JobRank, Option<&mut [u8]>) {
        let start = self.0.as_mut_ptr().cast::<u8>();
        // SAFETY: by contract, a whole slot was written.
        let head = unsafe { start.cast::<u128>().read() };
        let bytes = (head >> 32) as u32 as usize;
        let fits = bytes <= slot_bytes - HEAD;
        // SAFETY: as above.
        let message = fits.then(|| unsafe { std::slice::from_raw_parts_mut(start.add(HEAD), bytes) });
        (JobRank(head as u32), message)
    }
}

/// A message that has its credit and waits for the payload that it announces.
#[derive(Debug)]
pub struct QueuedMessage {
    pub peer: JobRank,
    pub class: Class,
    pub content: Content,
}

/// Its bytes.
#[derive(Debug)]
pub enum Content {
    /// With its head.
    Short(AlignedCopy),
    Long(Buffer, usize),
}
