//! What a dead process left in the fabric is freed when another one joins.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use gasnet_ibv_abi as abi;

use crate::process::Process;
use crate::{cq, event, qp, srq};

/// Frees all objects of a slot whose process is dead. Living peers may be about to use one, so each
/// is locked, as its owner would.
pub fn reclaim(process: &Process, slot: u32) {
    let fabric = process.fabric;
    for index in owned(process, || fabric.mrs.owned(slot).collect()) {
        fabric.mrs.at(index).pd.store(0, SeqCst);
        let _guard = process.allocation();
        fabric.mrs.give(index);
    }
    for index in owned(process, || fabric.qps.owned(slot).collect()) {
        let qp = fabric.qps.at(index);
        let _lock = qp.entry.lock.lock();
        // What others have opened lives on. Handles that the dead has opened are not known.
        if qp.handles.load(Relaxed) > 1 {
            qp.handles.fetch_sub(1, Relaxed);
            qp.entry.owner.store(process.slot + 1, Relaxed);
            continue;
        }
        qp.state.store(abi::IBV_QPS_RESET, Relaxed);
        let _guard = process.allocation();
        qp::release(process, index);
    }
    for index in owned(process, || fabric.srqs.owned(slot).collect()) {
        srq::destroy(process, index);
    }
    for index in owned(process, || fabric.cqs.owned(slot).collect()) {
        cq::destroy(process, index);
    }
    for index in owned(process, || fabric.events.owned(slot).collect()) {
        let _lock = fabric.events.at(index).entry.lock.lock();
        event::destroy(process, index);
    }
}

/// Indices that are looked up under the allocation lock.
fn owned(process: &Process, find: impl Fn() -> Vec<u32>) -> Vec<u32> {
    let _guard = process.allocation();
    find()
}
