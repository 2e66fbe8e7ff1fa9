//! Completion queues in shared memory: the thread that completes an operation appends, the owner
//! reads.

use std::sync::atomic::Ordering::Relaxed;

use emulator_common::table::set;
use gasnet_gni_abi as abi;

use crate::channel;
use crate::entry;
use crate::object::{Cq, Nic, Object, Role};
use crate::process::{take, Process};
use crate::reclaim;
use crate::refuse::{complain, die, invalid, quiet, refusal, Outcome};
use crate::request::Requests;
use crate::shm;
use crate::status;

/// Makes the shared part of a queue. Returns its index.
pub fn create(nic: &'static Nic, capacity: u32) -> Outcome<u32> {
    let process = nic.process;
    let no_memory = quiet(abi::GNI_RC_ERROR_NOMEM);
    if !take(&nic.hardware.cq, process.config.cqs()) {
        return Err(refusal(
            abi::GNI_RC_ERROR_RESOURCE,
            "the NIC has no completion queue left",
        ));
    }
    let Some(index) = process.take(&process.fabric.cqs) else {
        nic.hardware.cq.fetch_sub(1, Relaxed);
        return Err(no_memory);
    };
    let cq = process.fabric.cqs.at(index);
    set([
        (&cq.address, nic.address),
        (&cq.domain, nic.domain),
        (&cq.overrun, 0),
        (&cq.armed, 0),
        (&cq.channel, 0),
    ]);
    if cq.ring.make(process, capacity, 1).is_none() {
        reclaim::destroy_cq(process, index);
        return Err(no_memory);
    }
    Ok(index)
}

/// Appends an entry to a destination queue, if it still exists.
pub fn push(process: &Process, key: u32, entry: u64) {
    let Some(cq) = process.fabric.cqs.find(key) else {
        return;
    };
    let _guard = cq.entry.lock.lock();
    if process.fabric.cqs.find(key).is_some() {
        append(process, cq, entry);
    }
}

/// Appends an entry to a source queue of this process.
#[inline(always)]
pub fn complete(cq: &Cq, entry: u64) {
    let process = cq.nic.process;
    if cq.is_private.get() {
        append(process, cq.shared, entry);
    } else {
        push(process, cq.key, entry);
    }
}

/// Appends, under the lock or in a queue that only one thread uses. A full queue loses the entry.
#[inline(always)]
fn append(process: &Process, cq: &shm::Cq, entry: u64) {
    if !cq.ring.push(process.words, &[entry]) {
        cq.overrun.store(1, Relaxed);
        return;
    }
    if cq.armed.load(Relaxed) != 0 {
        channel::ring(process, cq);
    }
}

/// A poll found nothing: with option `yield` some of them yield the core.
#[inline(always)]
pub fn miss(cq: &Cq) {
    cq.misses.count(cq.nic.process.config.yields);
}

/// Takes the oldest entry. Err: there is none.
#[inline(always)]
fn pop(cq: &Cq) -> Option<u64> {
    let Some(record) = cq.shared.ring.peek(cq.nic.process.words, 0) else {
        miss(cq);
        return None;
    };
    let mut entry = record[0].load(Relaxed);
    if cq.shared.overrun.load(Relaxed) != 0 {
        cq.shared.overrun.store(0, Relaxed);
        entry |= entry::OVERRUN;
    }
    cq.shared.ring.pop();
    Some(entry)
}

/// Takes an entry for the program: Ok, or a code with the entry.
#[inline(always)]
pub fn get_event(cq: &Cq) -> Result<u64, (abi::gni_return_t, u64)> {
    let entry = loop {
        let entry = pop(cq).ok_or((abi::GNI_RC_NOT_DONE, 0))?;
        if !is_request(entry) || process_event(cq, entry) {
            break entry;
        }
    };
    let result = match (entry & entry::OVERRUN, entry::status(entry)) {
        (0, 0) => Ok(entry),
        (0, status) => {
            fatal(cq, status);
            Err((abi::GNI_RC_TRANSACTION_ERROR, entry))
        }
        _ => Err((abi::GNI_RC_ERROR_RESOURCE, entry)),
    };
    if let (Some(handler), Ok(_) | Err((abi::GNI_RC_TRANSACTION_ERROR, _))) = (cq.handler, result) {
        let mut entry = entry;
        // SAFETY: the program gave the handler and its context for such calls.
        unsafe { handler(&mut entry, cq.context as *mut _) };
    }
    result
}

/// Option `kill`: what a failed operation does to a process that did not ask to live.
fn fatal(cq: &Cq, status: u8) {
    if cq.nic.process.config.kill && !cq.nic.cdm.has(abi::GNI_CDM_MODE_ERR_NO_KILL) {
        die("the NIC", status::name(status));
    }
}

/// Whether an entry belongs to a request.
#[inline(always)]
fn is_request(entry: u64) -> bool {
    matches!(entry::from(entry), entry::SOURCE_BTE | entry::SOURCE_SSID)
        && entry::kind(entry) == abi::GNI_CQ_EVENT_TYPE_POST
}

/// The event bits that an entry stands for. An error ends a request at once, unless fault
/// `late-event` lets its LOCAL event follow.
fn events_of(cq: &Cq, entry: u64, waiting: u16) -> u16 {
    let is_followed = cq.nic.process.config.late_event && waiting & abi::GNI_CQMODE_GLOBAL_EVENT != 0;
    match (entry::status(entry), entry::from(entry)) {
        (0, entry::SOURCE_BTE) => abi::GNI_CQMODE_LOCAL_EVENT,
        (status, _) if status == 0 || is_followed => abi::GNI_CQMODE_GLOBAL_EVENT,
        _ => waiting,
    }
}

/// Restores the descriptor of a request. False: the request was cancelled, so the program must not
/// see the entry.
#[inline(always)]
fn process_event(cq: &Cq, entry: u64) -> bool {
    let index = entry::request(entry);
    let Some(requests) = cq.requests() else { return false };
    let Some(request) = requests.get(index) else {
        return false;
    };
    let events = events_of(cq, entry, request.waiting);
    request.waiting &= !events;
    if request.cancelled {
        if request.waiting == 0 {
            request.cancelled = false;
            requests.give(index);
        }
        return false;
    }
    request.fetched |= events;
    let descriptor = request.descriptor;
    // SAFETY: the program keeps the descriptor until GNI_GetCompleted has returned it.
    unsafe {
        (*descriptor).post_id = request.post_id;
        (*descriptor).cq_mode_complete |= events;
        (*descriptor).status = u64::from(match entry::status(entry) {
            0 => abi::GNI_RC_SUCCESS,
            _ => abi::GNI_RC_TRANSACTION_ERROR,
        });
    }
    true
}

/// The descriptor of an event, with the code to return. A request ends with its last event.
pub fn completed(cq: &Cq, entry: u64) -> Outcome<(*mut abi::gni_post_descriptor_t, abi::gni_return_t)> {
    if !is_request(entry) {
        return Err(quiet(abi::GNI_RC_DESCRIPTOR_ERROR));
    }
    let unknown = invalid("no request has this event, or it was called for it before");
    let index = entry::request(entry);
    let requests = cq.requests().ok_or(unknown)?;
    let request = requests.get(index).ok_or(unknown)?;
    let events = events_of(cq, entry, request.fetched);
    if request.fetched & events == 0 {
        return Err(unknown);
    }
    request.fetched &= !events;
    let descriptor = request.descriptor;
    if request.waiting | request.fetched == 0 {
        if let Some(endpoint) = request.endpoint {
            endpoint.outstanding.set(endpoint.outstanding.get() - 1);
        }
        requests.give(index);
    }
    let code = match entry::status(entry) {
        0 => abi::GNI_RC_SUCCESS,
        _ => abi::GNI_RC_TRANSACTION_ERROR,
    };
    Ok((descriptor, code))
}

/// Makes a queue a source queue, with a table of requests.
pub fn make_source(cq: &Cq) -> Outcome {
    if cq.role.get() == Role::Destination {
        return Err(invalid("the completion queue is that of registered memory"));
    }
    cq.role.set(Role::Source);
    if cq.requests().is_none() {
        let capacity = cq.shared.ring.capacity();
        let dual = cq.nic.cdm.has(abi::GNI_CDM_MODE_DUAL_EVENTS);
        let requests = Requests::new(if dual { capacity / 2 } else { capacity });
        // SAFETY: one thread is in the domain, and nothing refers to the table yet.
        unsafe { *cq.requests.get() = Some(requests) };
    }
    Ok(())
}

/// Ends a queue.
pub fn destroy(cq: &Cq) {
    cq.retire();
    reclaim::destroy_cq(cq.nic.process, cq.index);
}

/// Reports an overrun of a source queue, which loses requests for ever.
pub fn warn_of_overrun(cq: &Cq, code: abi::gni_return_t) {
    if cq.role.get() == Role::Source && code == abi::GNI_RC_ERROR_RESOURCE {
        complain("GNI_CqGetEvent", code, "a source queue has lost entries");
    }
}
