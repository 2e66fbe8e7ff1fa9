//! Shared receive queues.

use std::sync::atomic::Ordering::Relaxed;

use emulator_common::table::set;
use gasnet_ibv_abi as abi;

use crate::event;
use crate::process::Process;
use crate::receive::{self, Posted};
use crate::reclaim::destroy_srq;
use crate::shm::Srq;

/// Attributes of a new SRQ; `xrcd`, `cq`: 0 unless it is for XRC.
pub struct Attributes {
    pub device: u32,
    pub pd: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub limit: u32,
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
        (&srq.limit, attributes.limit),
        (&srq.events, attributes.events),
    ]);
    if receive::create(process, &srq.receives, attributes.max_wr, attributes.max_sge).is_none() {
        destroy_srq(process, index);
        return None;
    }
    Some(index)
}

/// Takes a receive; below the limit the owner gets an event, once.
pub fn take(process: &Process, key: u32, srq: &Srq) -> Option<Posted> {
    let (posted, left) = receive::take(process, &srq.receives)?;
    let limit = srq.limit.load(Relaxed);
    if left < limit && srq.limit.compare_exchange(limit, 0, Relaxed, Relaxed).is_ok() {
        event::push(
            process,
            srq.events.load(Relaxed),
            (abi::IBV_EVENT_SRQ_LIMIT_REACHED, key),
        );
    }
    Some(posted)
}

/// Arms the limit event; at once if it is already reached.
pub fn arm(process: &Process, key: u32, srq: &Srq, limit: u32) {
    let _guard = srq.receives.lock.lock();
    let reached = srq.receives.ring.len() < limit;
    srq.limit.store(if reached { 0 } else { limit }, Relaxed);
    if reached {
        event::push(
            process,
            srq.events.load(Relaxed),
            (abi::IBV_EVENT_SRQ_LIMIT_REACHED, key),
        );
    }
}
