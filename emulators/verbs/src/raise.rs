//! Asynchronous events that faults make: option `event`, and those of ports and devices that fail.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::Arc;
use std::time::Duration;

use gasnet_ibv_abi as abi;

use crate::event::{self, Event};
use crate::nic::{Nic, Task};
use crate::process::{self, now_ns, Process};
use crate::qp::is_of_qp;
use crate::shm::INDEX_BITS;

/// Option `event`: an event of a device, its first port, or all objects of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Raised {
    pub kind: u32,
    pub device: u32,
    pub port: u32,
    pub after: Duration,
}

/// The names of `ibv_event_type`, by number.
const NAMES: [&str; 19] = [
    "cq_err",
    "qp_fatal",
    "qp_req_err",
    "qp_access_err",
    "comm_est",
    "sq_drained",
    "path_mig",
    "path_mig_err",
    "device_fatal",
    "port_active",
    "port_err",
    "lid_change",
    "pkey_change",
    "sm_change",
    "srq_err",
    "srq_limit_reached",
    "qp_last_wqe_reached",
    "client_reregister",
    "gid_change",
];

/// The event of a name.
pub fn named(name: &str) -> Option<u32> {
    NAMES.iter().position(|other| *other == name).map(|kind| kind as u32)
}

/// An opened device, for tasks that outlive it.
#[derive(Clone)]
pub struct Opened {
    pub device: u32,
    pub is_open: Arc<AtomicBool>,
    /// Of `Fabric::events`, and its descriptor.
    pub events: u32,
    pub descriptor: RawFd,
}

/// An event that comes so long after the first `ibv_open_device`.
pub struct Awaiting {
    after_ns: u64,
    opened: Opened,
    event: Event,
}

/// The time of faults, in nanoseconds: since the first `ibv_open_device`.
pub fn time_ns(process: &Process) -> u64 {
    let fabric = process.fabric;
    if process.config.steps {
        return fabric.stepped_ns.load(Relaxed);
    }
    match fabric.opened_ns.load(Relaxed) {
        0 => 0,
        opened => now_ns() - opened,
    }
}

/// Option `steps`: lets so much time pass for faults, and makes the events that are due, for this
/// process. False, with no effect, without that option.
#[no_mangle]
extern "C" fn emu_verbs_step(milliseconds: u32) -> bool {
    let Some(process) = process::current().ok().filter(|process| process.config.steps) else {
        return false;
    };
    let step = u64::from(milliseconds) * 1_000_000;
    let now = process.fabric.stepped_ns.fetch_add(step, Relaxed) + step;
    let mut awaiting = process.awaiting.lock().unwrap();
    awaiting.sort_by_key(|awaiting| awaiting.after_ns);
    let due = awaiting.partition_point(|awaiting| awaiting.after_ns <= now);
    for Awaiting { opened, event, .. } in awaiting.drain(..due) {
        notify(process, &opened, event);
    }
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
        if after_ns < time_ns(process) {
            return;
        }
        if process.config.steps {
            let awaiting = Awaiting {
                after_ns,
                opened,
                event,
            };
            process.awaiting.lock().unwrap().push(awaiting);
        } else {
            Nic::at(process, start + after_ns, Task::Notify { opened, event });
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
    let fabric = process.fabric;
    let is_ours = |events: &AtomicU32| events.load(Relaxed) == opened.events;
    let push = |key: u32| event::push(process, opened.events, (kind, key));
    match kind {
        kind if is_of_qp(kind) => {
            let qps = fabric
                .qps
                .owned(process.slot)
                .filter(|&i| is_ours(&fabric.qps.at(i).events));
            qps.for_each(|index| push(fabric.qps.key(index, INDEX_BITS)));
        }
        abi::IBV_EVENT_SRQ_ERR | abi::IBV_EVENT_SRQ_LIMIT_REACHED => {
            let srqs = fabric
                .srqs
                .owned(process.slot)
                .filter(|&i| is_ours(&fabric.srqs.at(i).events));
            srqs.for_each(|index| push(fabric.srqs.key(index, INDEX_BITS)));
        }
        abi::IBV_EVENT_CQ_ERR => {
            let cqs = fabric
                .cqs
                .owned(process.slot)
                .filter(|&i| is_ours(&fabric.cqs.at(i).events));
            cqs.for_each(|index| push(fabric.cqs.key(index, INDEX_BITS)));
        }
        _ => push(port),
    }
    if kind == abi::IBV_EVENT_DEVICE_FATAL && process.config.unplug.contains(&opened.device) {
        // From now on the descriptor reports that it hangs up.
        // SAFETY: the device is open, so the descriptor is.
        unsafe { libc::shutdown(opened.descriptor, libc::SHUT_RDWR) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_header() {
        for (name, kind) in [
            ("cq_err", abi::IBV_EVENT_CQ_ERR),
            ("comm_est", abi::IBV_EVENT_COMM_EST),
            ("device_fatal", abi::IBV_EVENT_DEVICE_FATAL),
            ("srq_limit_reached", abi::IBV_EVENT_SRQ_LIMIT_REACHED),
            ("gid_change", abi::IBV_EVENT_GID_CHANGE),
        ] {
            assert_eq!(named(name), Some(kind));
        }
    }
}
