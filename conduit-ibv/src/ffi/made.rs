//! Objects of the library, ended in the right order.
//!
//! The library frees an object at its end, whatever was made from it: a queue pair that outlives
//! its device is used after free. So each object holds those that it was made from, and the last
//! holder ends it. No order in which a program drops them is wrong.

use super::Errno;
use gasnet_ibv_abi as abi;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// An object, and `P`, those that it was made from.
pub(super) struct Made<T, P> {
    raw: NonNull<T>,
    end: unsafe extern "C" fn(*mut T) -> i32,
    /// Dropped after the object was ended.
    #[allow(dead_code, reason = "held")]
    parents: P,
}

// SAFETY: verbs may be called by any thread (ibv_open_device(3)).
unsafe impl<T, P: Send> Send for Made<T, P> {}
// SAFETY: as above.
unsafe impl<T, P: Sync> Sync for Made<T, P> {}

impl<T, P> Made<T, P> {
    /// Takes over the object that a call has made; null: it failed.
    ///
    /// # Safety
    /// `end` ends it, and nothing else does.
    pub(super) unsafe fn new(raw: *mut T, end: unsafe extern "C" fn(*mut T) -> i32, parents: P) -> Result<Self, Errno> {
        let raw = NonNull::new(raw).ok_or_else(Errno::last)?;
        Ok(Self { raw, end, parents })
    }

    #[inline(always)]
    pub(super) fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T, P> fmt::Debug for Made<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Made").field(&self.raw).finish()
    }
}

impl<T, P> Drop for Made<T, P> {
    fn drop(&mut self) {
        // SAFETY: made once, and what was made from it is gone, as that would hold it.
        unsafe { (self.end)(self.raw.as_ptr()) };
    }
}

pub(super) type OpenDevice = Arc<Made<abi::ibv_context, ()>>;
pub(super) type ProtectionDomain = Arc<Made<abi::ibv_pd, OpenDevice>>;
pub(super) type CompletionChannel = Arc<Made<abi::ibv_comp_channel, OpenDevice>>;
pub(super) type CompletionQueue = Arc<Made<abi::ibv_cq, (OpenDevice, Option<CompletionChannel>)>>;
pub(super) type OpenXrcDomain = Arc<Made<abi::ibv_xrcd, OpenDevice>>;
/// One for XRC has a domain and a completion queue of its own.
pub(super) type ReceiveQueueOf = (ProtectionDomain, Option<(OpenXrcDomain, CompletionQueue)>);
pub(super) type SharedReceiveQueue = Arc<Made<abi::ibv_srq, ReceiveQueueOf>>;

/// Objects that a queue pair was made from.
#[allow(dead_code, reason = "held")]
pub(super) enum PairOf {
    Domain(ProtectionDomain, CompletionQueue, Option<SharedReceiveQueue>),
    /// One that receives over XRC.
    Xrc(OpenXrcDomain),
}
