//! Receive buffers, each for one message.
//!
//! With a shared receive queue their number grows with that of connected peers, up to a limit. A
//! message is delivered in place, and its buffer posted again afterwards. When few buffers are
//! posted, a request is copied first, so that what its handler waits for can arrive.
//!
//! Without one, each queue pair has buffers of its own ([`crate::receive::plan`]), and the same
//! rule.

pub mod deliver;
pub mod fetch;
pub mod offer;
pub mod plan;

use crate::ffi::{Access, Domain, Errno, ReceiveBuffer, ReceiveQueue, Region, Shared, Wc, BATCH};
use crate::receive::plan::ReceivePlan;
use crate::send::queue::{name_of_receive, SendQueue};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_ibv_abi as abi;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32};

/// Buffers that are registered together.
const CHUNK: usize = 16;
/// One of this number of buffers is in reserve.
const RESERVE: usize = 4;

/// The receive buffers of an HCA.
pub struct Receives {
    /// Bytes of each.
    bytes: usize,
    /// The largest number of them.
    most: usize,
    /// Of each queue pair; 0: they are shared.
    pub each: usize,
    /// Shared buffers that are posted.
    posted: AtomicI64,
    /// Shared buffers below which requests are copied.
    reserve: AtomicI64,
    /// By chunk.
    lkeys: Box<[AtomicU32]>,
    /// The queue of each buffer, by buffer, if they are not shared.
    owners: Box<[AtomicPtr<SendQueue>]>,
    // Before the memory that its regions are of.
    growth: Mutex<Growth>,
    /// The buffers, used as far as needed.
    memory: Mapped,
}

#[derive(Default)]
struct Growth {
    /// Buffers that were given out.
    count: usize,
    /// By chunk.
    regions: Vec<Region>,
}

impl Receives {
    /// Room for the buffers of a plan.
    pub fn new(plan: ReceivePlan) -> Result<Self, Errno> {
        let ReceivePlan { each, count: most, .. } = plan;
        let bytes = plan.bytes.next_multiple_of(64);
        let chunks = most.div_ceil(CHUNK);
        let owned = if each == 0 { 0 } else { most };
        let no_owner = || AtomicPtr::new(ptr::null_mut());
        Ok(Self {
            memory: Mapped::new(bytes * CHUNK * chunks)?,
            bytes,
            most,
            each,
            posted: AtomicI64::new(0),
            reserve: AtomicI64::new(0),
            lkeys: std::iter::repeat_with(|| AtomicU32::new(0)).take(chunks).collect(),
            owners: std::iter::repeat_with(no_owner).take(owned).collect(),
            growth: Mutex::default(),
        })
    }

    /// Bytes of all buffers that there may be.
    pub fn most_bytes(&self) -> usize {
        self.most * self.bytes
    }

    /// Address of a buffer.
    #[inline]
    pub fn address(&self, index: usize) -> usize {
        self.memory.address() + index * self.bytes
    }

    fn buffer(&self, index: usize) -> ReceiveBuffer {
        ReceiveBuffer {
            id: name_of_receive(index),
            address: self.address(index),
            bytes: self.bytes,
            lkey: self.lkeys[index / CHUNK].load(Ordering::Relaxed),
        }
    }

    /// Registers more buffers, up to the limit. Returns their numbers: fewer if no more memory can
    /// be locked, but `least` of them.
    fn grow(&self, domain: &Domain, more: usize, least: usize) -> Result<std::ops::Range<usize>, Errno> {
        let mut growth = lock(&self.growth);
        let first = growth.count;
        let mut end = (first + more).min(self.most);
        while growth.regions.len() * CHUNK < end {
            let chunk = growth.regions.len();
            let address = self.address(chunk * CHUNK);
            // SAFETY: unmapped after the region is dropped.
            let region = match unsafe { domain.register(address, self.bytes * CHUNK, Access::LOCAL) } {
                Err(Errno::NO_MEMORY) if chunk * CHUNK >= first + least => {
                    end = chunk * CHUNK;
                    break;
                }
                region => region?,
            };
            self.lkeys[chunk].store(region.lkey, Ordering::Relaxed);
            growth.regions.push(region);
        }
        growth.count = end;
        Ok(first..end)
    }

    /// Posts up to `more` further shared buffers. The first ones must be; senders wait for buffers
    /// that there are.
    pub fn add_shared(&self, domain: &Domain, shared: &Shared, more: usize) -> Result<(), Errno> {
        let least = usize::from(self.reserve.load(Ordering::Relaxed) == 0);
        let added = self.grow(domain, more, least)?;
        self.reserve.fetch_max((added.end / RESERVE) as i64, Ordering::Relaxed);
        let all: Vec<usize> = added.collect();
        self.post_shared(shared, &all)
    }

    /// Posts shared buffers.
    pub fn post_shared(&self, shared: &Shared, buffers: &[usize]) -> Result<(), Errno> {
        self.posted.fetch_add(buffers.len() as i64, Ordering::Relaxed);
        self.post(&ReceiveQueue::Shared(shared), buffers)
    }

    /// Posts the buffers of a queue pair, before it is connected.
    pub fn add_owned(&self, domain: &Domain, owner: &SendQueue) -> Result<(), Errno> {
        /// Fewer would stop the peer for a while with each message.
        const LEAST: usize = 4;
        let added = self.grow(domain, self.each, LEAST.min(self.each))?;
        for index in added.clone() {
            self.owners[index].store(ptr::from_ref(owner).cast_mut(), Ordering::Release);
        }
        let all: Vec<usize> = added.collect();
        self.post_own(owner, &all)
    }

    fn post_own(&self, owner: &SendQueue, buffers: &[usize]) -> Result<(), Errno> {
        owner.receives.fetch_add(buffers.len() as i64, Ordering::Relaxed);
        self.post(&ReceiveQueue::Own(&owner.pair), buffers)
    }

    /// The queue of a buffer, if it is not shared.
    #[inline]
    fn owner(&self, index: usize) -> Option<&SendQueue> {
        let owner = self.owners.get(index)?.load(Ordering::Acquire);
        // SAFETY: a queue that lives as long as the conduit; null is no owner.
        unsafe { owner.as_ref() }
    }

    fn post(&self, queue: &ReceiveQueue<'_>, buffers: &[usize]) -> Result<(), Errno> {
        buffers.chunks(BATCH).try_for_each(|some| {
            // SAFETY: registered, and nobody has them.
            unsafe { queue.post(some.iter().map(|index| self.buffer(*index))) }
        })
    }

    /// Whether the completion of a receive is that of a message of this conduit, of which the
    /// buffer has all bytes. The length of an RDMA write with immediate data is that of the write.
    #[inline]
    pub fn holds(&self, completion: &Wc) -> bool {
        completion.opcode == abi::IBV_WC_RECV
            && completion.wc_flags & abi::IBV_WC_WITH_IMM != 0
            && completion.byte_len as usize <= self.bytes
    }

    /// A message has arrived in a buffer. Whether a handler may run on it in place.
    #[inline]
    pub fn note_arrival(&self, index: usize) -> bool {
        match self.owner(index) {
            None => self.posted.fetch_sub(1, Ordering::Relaxed) > self.reserve.load(Ordering::Relaxed),
            Some(owner) => owner.receives.fetch_sub(1, Ordering::Relaxed) > (self.each / RESERVE) as i64,
        }
    }

    /// Posts buffers again: their messages are delivered.
    #[inline]
    pub fn post_again(&self, shared: Option<&Shared>, buffers: &[usize]) -> Result<(), Errno> {
        if let Some(shared) = shared {
            return self.post_shared(shared, buffers);
        }
        let owner = |index: &usize| self.owner(*index);
        let is_of_one = |a: &usize, b: &usize| owner(a).map(ptr::from_ref) == owner(b).map(ptr::from_ref);
        let mut runs = buffers.chunk_by(is_of_one);
        runs.try_for_each(|run| owner(&run[0]).map_or(Ok(()), |owner| self.post_own(owner, run)))
    }
}
