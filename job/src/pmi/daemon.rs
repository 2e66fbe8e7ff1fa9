//! A process manager's daemon: the process that started the ranks of a host (hydra_pmi_proxy,
//! slurmstepd, prted, apinit, or mpirun itself). It outlives them; if it is killed, nobody else
//! would end them.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;

use gasnet_sys::process::{self, Pid, Watched};

/// Variables that a process manager sets for each process. Scripts and shells in between inherit
/// them.
const MARKS: [&str; 9] = [
    "PMI_FD",
    "PMI_RANK",
    "PMI_ID",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "ALPS_APP_PE",
    "PMI_FORK_RANK",
    "SLURM_PROCID",
    "RMS_RANK",
];
/// Most scripts and shells between the daemon and a rank.
const DEPTH: usize = 32;

/// A daemon to watch.
#[derive(Debug)]
pub struct ManagerDaemon {
    pub pid: Pid,
    pub name: String,
    pub process: Watched,
}

impl ManagerDaemon {
    /// Watches those of these processes that exist.
    pub fn watch(pids: BTreeSet<Pid>) -> Vec<Self> {
        let open = |pid: Pid| {
            let process = Watched::open(pid).ok()?;
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = name.trim().to_owned();
            Some(Self { pid, name, process })
        };
        pids.into_iter().filter_map(open).collect()
    }
}

/// The daemon that has started this process: the nearest ancestor with other values of these
/// variables. None if it cannot be found.
pub fn of_this() -> Option<Pid> {
    let own = marks(&fs::read("/proc/self/environ").ok()?);
    let mut pid = process::parent();
    for _ in 0..DEPTH {
        if own.is_empty() || pid <= 1 {
            return None;
        }
        // The environment of another user's process is not readable.
        match fs::read(format!("/proc/{pid}/environ")) {
            Ok(environment) if marks(&environment) == own => pid = process::parent_of(pid)?,
            _ => return Some(pid),
        }
    }
    None
}

/// The variables of a process that are marks, as assignments.
pub fn marks(environment: &[u8]) -> BTreeSet<Vec<u8>> {
    let is_mark = |entry: &&[u8]| {
        let name = entry
            .split(|&byte| byte == b'=')
            .next()
            .filter(|name| name.len() < entry.len());
        MARKS.iter().any(|mark| name == Some(mark.as_bytes()))
    };
    let entries = environment.split(|&byte| byte == 0);
    entries.filter(is_mark).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_whole_names() {
        let found = marks(b"PMI_RANK=3\0PMI_RANKS=4\0HOME=/\0PMI_RANK\0PMIX_RANK=\0");
        assert_eq!(found, BTreeSet::from([b"PMI_RANK=3".to_vec(), b"PMIX_RANK=".to_vec()]));
    }

    #[test]
    fn parents() {
        assert_eq!(process::parent_of(process::pid()), Some(process::parent()));
        assert_eq!(process::parent_of(0), None);
    }
}
