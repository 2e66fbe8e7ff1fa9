//! Shared receive queues.

use emulator_common::table::set;

use crate::process::Process;
use crate::receive;
use crate::reclaim::destroy_srq;
use crate::shm::Srq;

/// Attributes of a new SRQ; `xrcd`, `cq`: 0 unless it is for XRC.
pub struct Attributes {
    pub device: u32,
    pub pd: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub xrcd: u32,
    /// Key of the CQ.
    pub cq: u32,
    pub events: u32,
}

/// The live SRQ of a key, which is also its number.
pub fn find(process: &Process, key: u32) -> Option<&Srq> {
    process.fabric.srqs.find(key)
}

pub fn create(process: &Process, attributes: &Attributes) -> Option<u32> {
    let index = process.take(&process.fabric.srqs)?;
    let srq = process.fabric.srqs.at(index);
    set([
        (&srq.device, attributes.device),
        (&srq.pd, attributes.pd),
        (&srq.xrcd, attributes.xrcd),
        (&srq.cq, attributes.cq),
        (&srq.events, attributes.events),
    ]);
    if receive::create(process, &srq.receives, attributes.max_wr, attributes.max_sge).is_none() {
        destroy_srq(process, index);
        return None;
    }
    Some(index)
}
