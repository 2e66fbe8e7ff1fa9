//! The end of shared objects: by their owner, or when another process joins and finds it dead.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use emulator_common::fabric::Member;

use crate::shm::{Fabric, Nic, FIRST_ADDRESS};

fn nic(fabric: &Fabric, address: u32) -> &Nic {
    &fabric.nics[address.wrapping_sub(FIRST_ADDRESS) as usize % crate::shm::NICS]
}

/// Frees all objects of a slot whose process is dead. Living peers may be about to use one, so each
/// is locked, as its owner would. This process may be killed amid it: then things stay counted, but
/// nothing is freed twice.
pub fn reclaim(member: &Member<Fabric>, slot: u32) {
    let fabric = member.fabric;
    for index in member.owned(&fabric.regions, slot) {
        let region = fabric.regions.at(index);
        let address = region.address.swap(0, SeqCst);
        let _guard = member.allocation();
        fabric.regions.give(index);
        if address != 0 {
            region.leave(nic(fabric, address));
        }
    }
    for index in member.owned(&fabric.engines, slot) {
        let _lock = fabric.reductions.lock();
        let address = fabric.engines.at(index).address.load(Relaxed);
        let _guard = member.allocation();
        fabric.engines.give(index);
        nic(fabric, address).ce.fetch_sub(1, Relaxed);
    }
    for index in member.owned(&fabric.datagrams, slot) {
        let _lock = fabric.matching.lock();
        let _guard = member.allocation();
        fabric.datagrams.give(index);
    }
    for index in member.owned(&fabric.cqs, slot) {
        destroy_cq(member, index);
    }
    for index in member.owned(&fabric.domains, slot) {
        destroy_domain(member, index);
    }
}

/// Frees a CQ. Regions may still name it.
pub fn destroy_cq(member: &Member<Fabric>, index: u32) {
    let cq = member.fabric.cqs.at(index);
    let _lock = cq.entry.lock.lock();
    let _guard = member.allocation();
    cq.ring.free(member);
    member.fabric.cqs.give(index);
    nic(member.fabric, cq.address.load(Relaxed)).cq.fetch_sub(1, Relaxed);
}

pub fn destroy_domain(member: &Member<Fabric>, index: u32) {
    let domain = member.fabric.domains.at(index);
    let (dedicated, address) = (domain.dedicated.load(Relaxed), domain.address.load(Relaxed));
    let _guard = member.allocation();
    member.fabric.domains.give(index);
    if dedicated != 0 {
        nic(member.fabric, address).fma.fetch_sub(1, Relaxed);
    }
}
