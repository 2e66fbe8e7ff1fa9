//! `gex_EP_t`: the endpoints of this process.
//!
//! Endpoint 0 is made at initialisation. Others get the next numbers in the order of their
//! creation, and live as long as the process.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::am::table::Table;
use crate::flags::Flags;
use crate::segment::Segment;
use crate::types::EpIndex;
use gasnet_sys::atomic::Mutex;

/// Endpoints that a process can have: `GASNET_MAXEPS`.
pub const MAX_ENDPOINTS: usize = 64;

/// A local endpoint.
#[derive(Debug)]
pub struct Endpoint {
    /// Position among this process's endpoints; 0 is the primordial one.
    pub index: EpIndex,
    /// As passed at creation.
    pub flags: Flags,
    /// Its AM handlers.
    pub handlers: Table,
    /// The bound segment, or null.
    pub segment: AtomicPtr<Segment>,
    /// Client data (`cdata`).
    pub cdata: AtomicPtr<std::ffi::c_void>,
}

impl Endpoint {
    /// An endpoint without segment and handlers, for ever. Not by way of the stack, which may be
    /// small.
    pub fn leak(index: EpIndex, flags: Flags) -> &'static Self {
        let place = Box::leak(Box::<Self>::new_uninit()).as_mut_ptr();
        // SAFETY: room for `Self`, all of which is written.
        unsafe {
            (&raw mut (*place).index).write(index);
            (&raw mut (*place).flags).write(flags);
            Table::write_empty(&raw mut (*place).handlers);
            (&raw mut (*place).segment).write(AtomicPtr::new(ptr::null_mut()));
            (&raw mut (*place).cdata).write(AtomicPtr::new(ptr::null_mut()));
            &*place
        }
    }

    /// The bound segment.
    pub fn bound(&self) -> Option<&'static Segment> {
        // SAFETY: null, or a segment. `create::destroy` frees one only after `unbind`, and when no
        // other thread can have loaded it before.
        unsafe { self.segment.load(Ordering::Acquire).as_ref() }
    }

    /// Binds a segment. False if one is bound.
    pub fn bind(&self, segment: &'static Segment) -> bool {
        let segment = ptr::from_ref(segment).cast_mut();
        let none = ptr::null_mut();
        let bound = self
            .segment
            .compare_exchange(none, segment, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if bound && self.index == 0 {
            primordial_is_not_attached();
        }
        bound
    }
}

/// Endpoints beyond the primordial one, in a table that readers need no lock for.
static OTHERS: [AtomicPtr<Endpoint>; MAX_ENDPOINTS - 1] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_ENDPOINTS - 1];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static MAKING: Mutex<()> = Mutex::new(());

/// Creates an endpoint. None if there are [`MAX_ENDPOINTS`].
pub fn create(flags: Flags) -> Option<&'static Endpoint> {
    let _whole = gasnet_sys::cancel::disable();
    let _making = gasnet_sys::lock(&MAKING);
    let count = COUNT.load(Ordering::Relaxed);
    let slot = OTHERS.get(count)?;
    let endpoint = Endpoint::leak(count as EpIndex + 1, flags);
    slot.store(ptr::from_ref(endpoint).cast_mut(), Ordering::Release);
    COUNT.store(count + 1, Ordering::Release);
    Some(endpoint)
}

/// The endpoint with `index`, which is not 0.
pub fn other(index: EpIndex) -> Option<&'static Endpoint> {
    let slot = OTHERS.get(usize::from(index).wrapping_sub(1))?;
    // SAFETY: null, or leaked by `create`.
    unsafe { slot.load(Ordering::Acquire).as_ref() }
}

/// All of them.
pub fn others() -> impl Iterator<Item = &'static Endpoint> {
    (1..=COUNT.load(Ordering::Acquire)).filter_map(|index| other(index as EpIndex))
}

/// Whether `ep` is an endpoint beyond the primordial one.
pub fn is_other(ep: *const Endpoint) -> bool {
    OTHERS.iter().any(|slot| std::ptr::eq(slot.load(Ordering::Acquire), ep))
}

/// Unbinds a segment, before its destruction, from all its endpoints.
pub fn unbind(primordial: &'static Endpoint, segment: &'static Segment) {
    for endpoint in others().chain([primordial]) {
        let known = ptr::from_ref(segment).cast_mut();
        let none = ptr::null_mut();
        let _ = endpoint
            .segment
            .compare_exchange(known, none, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Whether primordial endpoints have memory that was not attached (bound, or in EVERYTHING all of
/// it): neighbours do not map that.
static NOT_ATTACHED: AtomicBool = AtomicBool::new(false);

/// Primordial endpoints have memory that was not attached.
pub fn primordial_is_not_attached() {
    NOT_ATTACHED.store(true, Ordering::Relaxed);
}

/// Whether the segment of this endpoint, here or elsewhere, is one that was attached (or that will
/// be).
#[inline]
pub fn is_attached(index: EpIndex) -> bool {
    index == 0 && !NOT_ATTACHED.load(Ordering::Relaxed)
}
