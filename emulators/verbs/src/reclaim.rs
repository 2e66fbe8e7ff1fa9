//! The end of shared objects: by their owner, or when another process joins and finds it dead.

use std::ffi::CString;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use emulator_common::fabric::Member;
use gasnet_ibv_abi as abi;

use crate::shm::Fabric;

/// Frees all objects of a slot whose process is dead. Living peers may be about to use one, so each
/// is locked, as its owner would.
pub fn reclaim(member: &Member<Fabric>, slot: u32) {
    let fabric = member.fabric;
    for index in member.owned(&fabric.mrs, slot) {
        fabric.mrs.at(index).pd.store(0, SeqCst);
        let _guard = member.allocation();
        fabric.mrs.give(index);
    }
    for index in member.owned(&fabric.qps, slot) {
        let qp = fabric.qps.at(index);
        let _lock = qp.entry.lock.lock();
        // A QP that others have opened lives on. Handles that the dead has opened are not known.
        if qp.handles.load(Relaxed) > 1 {
            qp.handles.fetch_sub(1, Relaxed);
            qp.entry.owner.store(member.slot + 1, Relaxed);
            continue;
        }
        qp.state.store(abi::IBV_QPS_RESET, Relaxed);
        release_qp(member, index);
    }
    for index in member.owned(&fabric.srqs, slot) {
        destroy_srq(member, index);
    }
    for index in member.owned(&fabric.cqs, slot) {
        destroy_cq(member, index);
    }
    for index in member.owned(&fabric.events, slot) {
        let _lock = fabric.events.at(index).entry.lock.lock();
        destroy_events(member, index);
    }
}

/// Frees the place of a QP. The caller holds its lock, or nobody else knows it.
pub fn release_qp(member: &Member<Fabric>, index: u32) {
    let _guard = member.allocation();
    member.fabric.qps.at(index).receives.ring.free(member);
    member.fabric.qps.give(index);
}

pub fn destroy_srq(member: &Member<Fabric>, index: u32) {
    let srq = member.fabric.srqs.at(index);
    let _lock = srq.entry.lock.lock();
    let _guard = member.allocation();
    srq.receives.ring.free(member);
    member.fabric.srqs.give(index);
}

pub fn destroy_cq(member: &Member<Fabric>, index: u32) {
    let cq = member.fabric.cqs.at(index);
    let _lock = cq.entry.lock.lock();
    let _guard = member.allocation();
    cq.ring.free(member);
    member.fabric.cqs.give(index);
}

/// The path of the socket of a queue of events.
pub fn events_path(member: &Member<Fabric>, index: u32) -> CString {
    CString::new(format!("{}/e{index}", member.dir)).unwrap_or_default()
}

/// Frees a queue of events, and unlinks its socket.
pub fn destroy_events(member: &Member<Fabric>, index: u32) {
    // SAFETY: a valid path.
    unsafe { libc::unlink(events_path(member, index).as_ptr()) };
    let _guard = member.allocation();
    member.fabric.events.at(index).ring.free(member);
    member.fabric.events.give(index);
}
