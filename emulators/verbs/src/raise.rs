//! Asynchronous events of faults: option `event`, and ports and devices that fail.

use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use emulator_common::fabric::now_ns;
use emulator_common::lock::locked;
use gasnet_ibv_abi as abi;

use crate::event::{self, Event};
use crate::process::{current, Process};
use crate::qp::is_of_qp;
use crate::shm::Port;

/// An opened device, for tasks that outlive it.
#[derive(Clone)]
pub struct Opened {
    pub device: u32,
    pub is_open: Arc<AtomicBool>,
    /// Index in `Fabric::events`, and its descriptor.
    pub events: u32,
    pub descriptor: RawFd,
}

/// Option `steps`: lets time pass for faults, and makes the events that are due, for this process.
/// False, with no effect, without that option.
#[no_mangle]
extern "C" fn emu_verbs_step(milliseconds: u32) -> bool {
    let Some(process) = current().ok().filter(|process| process.config.steps) else {
        return false;
    };
    let step = u64::from(milliseconds) * 1_000_000;
    let now = process.fabric.stepped_ns.fetch_add(step, Relaxed) + step;
    let mut awaiting = locked(&process.awaiting);
    awaiting.sort_by_key(|(after_ns, _)| *after_ns);
    let due = awaiting.partition_point(|(after_ns, _)| *after_ns <= now);
    awaiting.drain(..due).for_each(|(_, task)| task());
    true
}

/// Schedules the events that faults make for an opened device.
pub fn schedule(process: &'static Process, opened: &Opened) {
    let first = process.fabric.opened_ns.compare_exchange(0, now_ns(), Relaxed, Relaxed);
    let start = match first {
        Ok(_) => process.fabric.opened_ns.load(Relaxed),
        Err(before) => before,
    };
    let at = |after: Duration, event: Event| {
        let (opened, after_ns) = (opened.clone(), after.as_nanos() as u64);
        if after_ns < process.fault_time_ns() {
            return;
        }
        let task = move || notify(process, &opened, event);
        if process.config.steps {
            locked(&process.awaiting).push((after_ns, Box::new(task)));
        } else {
            process.later.at(start + after_ns, task);
        }
    };
    let (config, device) = (&process.config, opened.device);
    for fault in config.port_down.iter().filter(|fault| fault.device == device) {
        at(fault.after, (abi::IBV_EVENT_PORT_ERR, fault.port + 1));
        if let Some(up) = fault.up {
            at(up, (abi::IBV_EVENT_PORT_ACTIVE, fault.port + 1));
        }
    }
    for (_, after) in config.device_fatal.iter().filter(|fault| fault.0 == device) {
        at(*after, (abi::IBV_EVENT_DEVICE_FATAL, 0));
    }
    for raised in config.events.iter().filter(|raised| raised.device == device) {
        at(raised.after, (raised.kind, raised.port));
    }
}

/// Makes an event of an opened device: of each object, if it is one of objects.
pub fn notify(process: &Process, opened: &Opened, (kind, port): Event) {
    if !opened.is_open.load(Relaxed) {
        return;
    }
    if kind == abi::IBV_EVENT_GID_CHANGE && process.config.gid_gone.contains(&opened.device) {
        process.config.of_ports.remove_addresses(opened.device);
    }
    if let Some(port) = port.checked_sub(1) {
        let device = opened.device;
        process.config.of_ports.change(kind, Port { device, port });
    }
    let fabric = process.fabric;
    let push = |key: u32| event::push(process, opened.events, (kind, key));
    // The objects of the device have its queue of events.
    let (slot, own) = (process.slot, opened.events);
    match kind {
        kind if is_of_qp(kind) => {
            for index in process.owned_with(&fabric.qps, slot, |qp| &qp.events, own) {
                push(fabric.qps.key(index));
            }
        }
        abi::IBV_EVENT_SRQ_ERR | abi::IBV_EVENT_SRQ_LIMIT_REACHED => {
            for index in process.owned_with(&fabric.srqs, slot, |srq| &srq.events, own) {
                push(fabric.srqs.key(index));
            }
        }
        abi::IBV_EVENT_CQ_ERR => {
            for index in process.owned_with(&fabric.cqs, slot, |cq| &cq.events, own) {
                push(fabric.cqs.key(index));
            }
        }
        _ => push(port),
    }
    if kind == abi::IBV_EVENT_DEVICE_FATAL && process.config.unplug.contains(&opened.device) {
        // From now on the descriptor reports that it hangs up.
        // SAFETY: the device is open, so the descriptor is.
        unsafe { libc::shutdown(opened.descriptor, libc::SHUT_RDWR) };
    }
}
