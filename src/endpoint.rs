//! `gex_EP_t`.

use std::ptr;
use std::sync::atomic::AtomicPtr;

use crate::am::table::Table;
use crate::am::EpIndex;
use crate::segment::Segment;

/// A local endpoint.
#[derive(Debug)]
pub struct Endpoint {
    /// Position among this process's endpoints; 0 is the primordial one.
    pub index: EpIndex,
    /// Its AM handlers.
    pub handlers: Table,
    /// The bound segment, or null.
    pub segment: AtomicPtr<Segment>,
    /// The client's own.
    pub cdata: AtomicPtr<std::ffi::c_void>,
}

impl Endpoint {
    /// An endpoint without segment and handlers.
    pub fn new(index: EpIndex) -> Self {
        Self {
            index,
            handlers: Table::new(),
            segment: AtomicPtr::new(ptr::null_mut()),
            cdata: AtomicPtr::new(ptr::null_mut()),
        }
    }
}
