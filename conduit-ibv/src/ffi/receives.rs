//! Shared receive queues, and posting of receive buffers.

use super::made::{Made, ReceiveQueueOf, SharedReceiveQueue};
use super::region::Domain;
use super::{Context, Errno, Pair};
use gasnet_ibv_abi as abi;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

/// Most buffers that one call posts.
pub const BATCH: usize = 32;

/// A shared receive queue.
pub struct Shared {
    pub(super) made: SharedReceiveQueue,
    /// The same, for the fast path.
    raw: *mut abi::ibv_srq,
    /// Its number, if it is for XRC.
    pub number: Option<u32>,
    post: unsafe extern "C" fn(*mut abi::ibv_srq, *mut abi::ibv_recv_wr, *mut *mut abi::ibv_recv_wr) -> i32,
}

// SAFETY: verbs may be called by any thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Attributes of a queue for this number of buffers.
pub(super) fn of_length(buffers: usize) -> abi::ibv_srq_attr {
    abi::ibv_srq_attr {
        max_wr: buffers as u32,
        max_sge: 1,
        srq_limit: 0,
    }
}

impl Shared {
    /// A queue for this number of buffers.
    pub fn new(context: &Context, domain: &Domain, buffers: usize) -> Result<Self, Errno> {
        let mut attributes = abi::ibv_srq_init_attr {
            srq_context: ptr::null_mut(),
            attr: of_length(buffers),
        };
        // SAFETY: a domain of the device.
        let raw = unsafe { (context.library.create_srq)(domain.raw(), &raw mut attributes) };
        // SAFETY: just made, or null.
        unsafe { Self::of_raw(context, raw, (Arc::clone(&domain.made), None)) }
    }

    /// Takes over the object that a call has made of these; null: it failed.
    ///
    /// # Safety
    /// Nothing else ends it.
    pub(super) unsafe fn of_raw(
        context: &Context,
        raw: *mut abi::ibv_srq,
        parents: ReceiveQueueOf,
    ) -> Result<Self, Errno> {
        // SAFETY: the caller's.
        let made = Arc::new(unsafe { Made::new(raw, context.library.destroy_srq, parents)? });
        let Some(post) = context.ops().post_srq_recv else {
            panic!("defect: a device without ibv_post_srq_recv");
        };
        Ok(Self {
            made,
            raw,
            number: None,
            post,
        })
    }
}

/// The queue to which receive buffers are posted.
pub enum ReceiveQueue<'a> {
    /// One queue for all peers.
    Shared(&'a Shared),
    /// That of a queue pair.
    Own(&'a Pair),
}

/// A receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveBuffer {
    /// Name of the completion.
    pub id: u64,
    /// First byte.
    pub address: usize,
    /// Length.
    pub bytes: usize,
    /// Key of its region.
    pub lkey: u32,
}

impl ReceiveQueue<'_> {
    /// Posts at most [`BATCH`] buffers.
    ///
    /// # Safety
    /// They are registered, and nobody touches them until they complete.
    pub unsafe fn post(&self, buffers: impl Iterator<Item = ReceiveBuffer>) -> Result<(), Errno> {
        let mut requests = [const { MaybeUninit::<abi::ibv_recv_wr>::uninit() }; BATCH];
        let mut parts = [const { MaybeUninit::<abi::ibv_sge>::uninit() }; BATCH];
        let mut last: *mut abi::ibv_recv_wr = ptr::null_mut();
        for ((request, part), buffer) in requests.iter_mut().zip(&mut parts).zip(buffers) {
            let part = part.write(abi::ibv_sge {
                addr: buffer.address as u64,
                length: buffer.bytes as u32,
                lkey: buffer.lkey,
            });
            let request = request.write(abi::ibv_recv_wr {
                wr_id: buffer.id,
                next: ptr::null_mut(),
                sg_list: part,
                num_sge: 1,
            });
            // SAFETY: null, or the previous request of this array.
            if let Some(last) = unsafe { last.as_mut() } {
                last.next = request;
            }
            last = request;
        }
        if last.is_null() {
            return Ok(());
        }
        let (first, mut refused) = (requests.as_mut_ptr().cast(), ptr::null_mut());
        // SAFETY: a queue, and a list that lives until the call returns.
        Errno::check(unsafe {
            match self {
                Self::Shared(queue) => (queue.post)(queue.raw, first, &raw mut refused),
                Self::Own(pair) => pair.post_receives(first, &raw mut refused),
            }
        })
    }
}
