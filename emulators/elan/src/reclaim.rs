//! The end of an attachment: by `stop`, or when another process finds its process dead.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use emulator_common::fabric::Member;

use crate::port_entry::destroy_port;
use crate::ring;
use crate::shm::{Fabric, Job};

/// Frees what the process of a slot has left.
pub fn reclaim(member: &Member<Fabric>, slot: u32) {
    for index in member.owned(&member.fabric.endpoints, slot) {
        // The process may have been killed while it was about to access its own memory.
        member.fabric.endpoints.at(index).users.store(0, SeqCst);
        destroy_endpoint(member, index);
    }
}

/// Frees an endpoint and all that belongs to it, and its job if it was the last.
pub fn destroy_endpoint(member: &Member<Fabric>, index: u32) {
    let fabric = member.fabric;
    let endpoint = fabric.endpoints.at(index);
    let key = fabric.endpoints.key(index);
    endpoint.live.store(0, SeqCst);
    let owner = endpoint.entry.slot();
    for index in member.owned_with(&fabric.queues, owner, |queue| &queue.endpoint, key) {
        ring::destroy(member, index);
    }
    for index in member.owned_with(&fabric.ports, owner, |port| &port.endpoint, key) {
        destroy_port(member, index);
    }
    let _starting = fabric.starting.lock();
    let job_index = endpoint.job.load(Relaxed);
    let job = fabric.jobs.at(job_index);
    let members = members(member, job);
    let mine = members.iter().find(|m| m.load(Relaxed) == u64::from(key));
    if let Some(place) = mine {
        place.store(0, SeqCst);
        if job.complete.load(Relaxed) == 0 {
            job.joined.fetch_sub(1, Relaxed);
        }
    }
    let was_last = job.attached.fetch_sub(1, Relaxed) == 1;
    let _guard = member.allocation();
    member.give_bytes(endpoint.pages.load(Relaxed), endpoint.page_bytes.load(Relaxed));
    fabric.endpoints.give(index);
    if was_last {
        member.give_bytes(job.members.load(Relaxed), u64::from(job.size.load(Relaxed)) * 8);
        fabric.jobs.give(job_index);
    }
}

/// Keys of the endpoints of a job, by vp.
pub fn members(member: &Member<Fabric>, job: &Job) -> &'static [AtomicU64] {
    member.block(job.members.load(Relaxed), u64::from(job.size.load(Relaxed)) * 8)
}
