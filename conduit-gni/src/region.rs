//! The memory that peers write messages into, registered as one region of the same layout in all
//! processes:
//!
//! | part | contents |
//! |---|---|
//! | words | for each process: the space that it has granted, and the credits that it has returned |
//! | barriers | words of barriers |
//! | engine | results of the collective engine |
//! | slots | own requests under way, each with its reply's place |
//! | reply buffers | replies that are not the first to their request, until they are fetched |
//! | rendezvous buffers | requests and such replies that are fetched from their senders |
//! | spaces | requests that peers write |

use crate::ffi::{Arrivals, Code, Domain, Local};
use crate::settings::{Settings, MOST_UNITS};
use gasnet_conduit::{words, JobRank};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::record;
use gasnet_gni_abi as abi;
use std::io;
use std::sync::atomic::AtomicU64;

/// Bytes in front of a packet, with its head.
pub const FRONT: usize = 16;
/// Offset of the head: directly in front of the packet. That of a reply is in front of that of its
/// request.
pub const HEAD: usize = 8;
/// Bytes of the words of a process.
const WORDS: usize = 32;
/// Replies that may wait in reply buffers, and rendezvous buffers for those of peers.
pub const REPLY_BUFFERS: usize = 4;
/// Bytes for results of the collective engine.
const RESULT: usize = 64;

/// The words that a peer writes.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    /// Index of the space for this process's requests, plus one.
    Grant = 0,
    /// By unit or slot: toggled when a request without reply has run.
    Released = 1,
    /// By unit: toggled when a request with a reply has run.
    Replied = 2,
}

record! {
    /// Offsets of the parts, in bytes from the begin of the region.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Layout {
        barriers: usize,
        /// The place for results of the collective engine, aligned to 64 bytes.
        pub engine: usize,
        slots: usize,
        /// Bytes of a slot, or of a buffer.
        pub slot_bytes: usize,
        reply_buffers: usize,
        rendezvous_buffers: usize,
        spaces: usize,
        /// Bytes and number of the units of a space.
        pub unit_bytes: usize,
        pub units: usize,
        /// Numbers of slots, rendezvous buffers and spaces.
        pub slot_count: usize,
        pub rendezvous_count: usize,
        pub space_count: usize,
        /// Bytes of the region.
        pub bytes: usize,
    }
}

impl Layout {
    /// For a job of `size` processes, of which `eager` may get space.
    pub fn new(settings: &Settings, size: u32, eager: usize) -> Self {
        let slot_bytes = (FRONT + settings.max_packet).next_multiple_of(64);
        let units = settings.depth.min(MOST_UNITS);
        // As many of the largest messages as the manuals promise, their front included.
        let space = settings.space / (settings.max_packet - 64).max(1) * slot_bytes;
        let unit_bytes = (space.max(slot_bytes) / units).next_multiple_of(FRONT);
        let barriers = (WORDS * size as usize).next_multiple_of(64);
        let engine = barriers + 8 * words::COUNT;
        let slots = engine + RESULT;
        let reply_buffers = slots + slot_bytes * settings.total_depth;
        let rendezvous_buffers = reply_buffers + slot_bytes * REPLY_BUFFERS;
        let rendezvous_count = REPLY_BUFFERS + settings.fetches;
        let spaces = rendezvous_buffers + slot_bytes * rendezvous_count;
        Self {
            barriers,
            engine,
            slots,
            slot_bytes,
            reply_buffers,
            rendezvous_buffers,
            spaces,
            unit_bytes,
            units,
            slot_count: settings.total_depth,
            rendezvous_count,
            space_count: eager,
            bytes: spaces + unit_bytes * units * eager,
        }
    }

    /// A word of process `rank`, where it writes.
    #[inline]
    pub fn word(rank: JobRank, word: Word) -> usize {
        WORDS * rank.index() + 8 * word as usize
    }

    /// A word of barriers.
    #[inline]
    pub fn barrier_word(&self, index: usize) -> usize {
        assert!(index < words::COUNT, "defect: there is no word {index}");
        self.barriers + 8 * index
    }

    /// A slot for a request.
    #[inline]
    pub fn slot(&self, index: usize) -> usize {
        self.slots + self.slot_bytes * index
    }

    /// A reply buffer.
    pub fn reply_buffer(&self, index: usize) -> usize {
        self.reply_buffers + self.slot_bytes * index
    }

    /// A rendezvous buffer. The first [`REPLY_BUFFERS`] are for replies.
    #[inline]
    pub fn rendezvous_buffer(&self, index: usize) -> usize {
        self.rendezvous_buffers + self.slot_bytes * index
    }

    /// A unit of a space.
    #[inline]
    pub fn unit(&self, space: usize, unit: usize) -> usize {
        self.spaces + self.unit_bytes * (self.units * space + unit)
    }

    /// Units that a packet takes.
    #[inline]
    pub fn units_of(&self, bytes: usize) -> usize {
        (FRONT + bytes).div_ceil(self.unit_bytes)
    }
}

/// The region of this process.
#[derive(Debug)]
pub struct Region {
    memory: Mapped,
    pub layout: Layout,
    /// Its registration.
    pub handle: abi::gni_mem_handle_t,
}

impl Region {
    /// Maps it.
    pub fn new(layout: Layout) -> io::Result<Self> {
        Ok(Self {
            memory: Mapped::new(layout.bytes)?,
            layout,
            handle: abi::gni_mem_handle_t::default(),
        })
    }

    /// Registers it.
    pub fn register<A>(&mut self, domain: &Domain<A>) -> Result<(), Code> {
        let flags = abi::GNI_MEM_STRICT_PI_ORDERING | abi::GNI_MEM_PI_FLUSH;
        let range = (self.base(), self.layout.bytes);
        // SAFETY: unmapped after it is deregistered.
        self.handle = unsafe { domain.register_all(range, Arrivals::Ours, flags)? };
        Ok(())
    }

    /// Reverts it.
    pub fn deregister<A>(&self, domain: &Domain<A>) {
        domain.deregister(self.handle);
    }

    /// Memory of the region.
    #[inline]
    pub fn local(&self, offset: usize) -> Local {
        Local {
            address: self.base() + offset,
            handle: self.handle,
        }
    }

    /// First byte.
    #[inline]
    pub fn base(&self) -> usize {
        self.memory.address()
    }

    /// An aligned word that peers write, or this process for them.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset % 8 == 0 && offset < self.layout.bytes,
            "defect: no word at {offset}"
        );
        // SAFETY: inside the region, aligned, and accessed as an atomic only.
        unsafe { &*((self.base() + offset) as *const AtomicU64) }
    }

    /// The words of barriers.
    pub fn barrier_words(&self) -> &[AtomicU64] {
        let first = self.word(self.layout.barrier_word(0));
        // SAFETY: as many words of the region, accessed as atomics only.
        unsafe { std::slice::from_raw_parts(first, words::COUNT) }
    }

    /// The packet of a message at `offset`.
    ///
    /// # Safety
    /// Nobody else uses it meanwhile, and `bytes` are within the place of the message.
    #[inline]
    #[allow(
        clippy::mut_from_ref,
        reason = "memory that peers write, of which the caller has this part"
    )]
    pub unsafe fn packet(&self, offset: usize, bytes: usize) -> &mut [u8] {
        // SAFETY: by contract.
        unsafe { std::slice::from_raw_parts_mut((self.base() + offset + FRONT) as *mut u8, bytes) }
    }
}
