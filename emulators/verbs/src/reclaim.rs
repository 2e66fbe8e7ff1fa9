//! What a dead process left in the fabric is freed when another one joins.

use crate::process::Process;
use crate::{cq, event, qp, srq};

/// Frees all objects of a slot whose process is dead.
pub fn reclaim(process: &Process, slot: u32) {
    let fabric = process.fabric;
    let _guard = process.allocation();
    let mrs: Vec<u32> = fabric.mrs.owned(slot).collect();
    let qps: Vec<u32> = fabric.qps.owned(slot).collect();
    let srqs: Vec<u32> = fabric.srqs.owned(slot).collect();
    let cqs: Vec<u32> = fabric.cqs.owned(slot).collect();
    let events: Vec<u32> = fabric.events.owned(slot).collect();
    for index in mrs {
        fabric.mrs.give(index);
    }
    for index in qps {
        qp::release(process, index);
    }
    for index in srqs {
        srq::release(process, index);
    }
    for index in cqs {
        cq::release(process, index);
    }
    for index in events {
        event::release(process, index);
    }
}
