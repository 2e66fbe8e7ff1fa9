//! The part of a process manager that has started the ranks of a host: hydra_pmi_proxy, slurmstepd, prted, or mpirun itself. It lives longer than they do,
//! unless somebody ends it; then nobody else would end them.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;

use gasnet_sys::process::{Pid, PidFd};

/// A process to look after.
#[derive(Debug)]
pub struct Daemon {
    /// Its number.
    pub pid: Pid,
    /// What it is called.
    pub name: String,
    /// It, held.
    pub process: PidFd,
}

impl Daemon {
    /// Those of these that are there.
    pub fn watch(pids: BTreeSet<Pid>) -> Vec<Self> {
        let open = |pid: Pid| {
            let process = PidFd::open(pid).ok()?;
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = name.trim().to_owned();
            Some(Self { pid, name, process })
        };
        pids.into_iter().filter_map(open).collect()
    }
}
