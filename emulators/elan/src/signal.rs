//! Signals to all processes of a job.

use std::sync::atomic::Ordering::Relaxed;

use libc::c_char;

use crate::attachment::attached;
use crate::process::{existing, Process};
use crate::start::explain;

/// All other living processes of the jobs that this process is attached to.
fn others(process: &Process) -> Vec<i32> {
    let members = attached(process).into_iter().flat_map(|attachment| attachment.members);
    let endpoints = members.filter_map(|key| process.fabric.endpoints.find(key.load(Relaxed) as u32));
    let slots = endpoints.filter_map(|endpoint| endpoint.entry.owner.load(Relaxed).checked_sub(1));
    let mut slots: Vec<u32> = slots.collect();
    slots.sort_unstable();
    slots.dedup();
    let living = slots
        .into_iter()
        .filter(|&slot| slot != process.slot && process.alive(slot));
    living.map(|slot| process.pid_of(slot)).filter(|&pid| pid > 0).collect()
}

pub extern "C" fn signal_job(signal: libc::c_int, why: *mut c_char, why_bytes: usize) -> libc::c_int {
    let Some(process) = existing().filter(|process| !attached(process).is_empty()) else {
        explain("the process is not attached to a job", why, why_bytes);
        return 1;
    };
    for pid in others(process) {
        // SAFETY: a plain call.
        unsafe { libc::kill(pid, signal) };
    }
    // SAFETY: a plain call.
    let result = unsafe { libc::kill(process.pid, signal) };
    if result != 0 {
        explain(&std::io::Error::last_os_error().to_string(), why, why_bytes);
    }
    result
}
