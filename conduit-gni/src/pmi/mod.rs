//! Cray's PMI, by which aprun and native Slurm start the processes of a job. It is used at the
//! start and at the end, to gather what node agents need to find each other.
//!
//! - [`library`] has the functions of libpmi
//! - [`order`] sorts: the all-gather returns contributions in an order of its own, the same in all
//!   processes, so the first one gathers ranks
//!
//! Cray's launchers take an exit without finalisation for a failure, and end the job.

mod library;
pub mod order;

use gasnet_conduit::config::{self, HostDetect};
use gasnet_conduit::{Bootstrap, BootstrapPlace, ConduitError, SystemLauncher};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::{fd, lock};
use library::Functions;
use order::Order;

/// Most bytes of each process in a call of the library, whose limit is not documented.
const CHUNK: usize = 64 << 10;

/// The system.
#[derive(Debug, Default)]
pub struct CrayPmi {
    joined: Mutex<Option<Joined>>,
}

#[derive(Debug)]
struct Joined {
    order: Order,
    /// Another library of the process has joined before, such as an MPI, and finalises.
    is_shared: bool,
    /// Connections that the library has opened.
    descriptors: Vec<i32>,
}

/// Whether variables say that Cray's launcher has started the process. The credentials alone do
/// not, because they may be those of an allocation, or of an emulator.
fn is_started(variable: impl Fn(&str) -> bool) -> bool {
    let has_credentials = variable("PMI_GNI_PTAG") || variable("PMI_GNI_COOKIE") || variable("CRAY_COOKIES");
    // A batch script has the rank 0, but is no step.
    let is_task = variable("SLURM_PROCID") && variable("SLURM_STEP_ID");
    let is_by_slurm = is_task && variable("CRAY_COOKIES");
    variable("ALPS_APP_PE") || has_credentials && (variable("PMI_FORK_RANK") || is_by_slurm)
}

fn failed(why: String) -> ConduitError {
    ConduitError { message: why + "." }
}

/// The node of a process, among those of all ranks. The error is a message without a full stop.
fn node(rank: u32, nodes: &[u32], count: u32) -> Result<u32, String> {
    let own = nodes[rank as usize];
    let here = nodes.iter().filter(|node| **node == own).count();
    if here == count as usize {
        return Ok(own);
    }
    Err(format!(
        "Cray's PMI contradicts itself: {here} ranks are on node {own} of rank {rank} by PMI_Get_nidlist_ptr, but \
         {count} by PMI_Get_numpes_on_smp"
    ))
}

/// Hosts are what the library calls nodes. The error is a message without a full stop.
fn check_detection() -> Result<(), String> {
    let config = config::get();
    if !config.is_set(&config::HOST_DETECT) || config.get(&config::HOST_DETECT) == HostDetect::Conduit {
        return Ok(());
    }
    Err("GASNET_HOST_DETECT: the gni conduit identifies hosts by Cray's PMI, so only conduit is possible".into())
}

impl CrayPmi {
    pub const fn new() -> Self {
        Self {
            joined: Mutex::new(None),
        }
    }

    fn start(&self) -> Result<BootstrapPlace, String> {
        let functions = Functions::get()
            .map_err(|why| format!("this process was started by aprun or srun of a Cray, but {why}"))?;
        check_detection()?;
        let is_shared = functions.is_initialised();
        let before = fd::open_sockets();
        let (rank, size) = functions.init()?;
        let ranks = functions.allgather(&rank.to_ne_bytes(), size as usize)?;
        let order = Order::new(&ranks, size as usize);
        let order = order.ok_or("PMI_Allgather of Cray's PMI has not gathered each rank once")?;
        let nodes = functions.nodes(size as usize)?;
        let node = nodes.map(|(nodes, count)| node(rank, &nodes, count)).transpose()?;
        let opened = fd::open_sockets().into_iter().filter(|fd| !before.contains(fd));
        *lock(&self.joined) = Some(Joined {
            order,
            is_shared,
            descriptors: opened.collect(),
        });
        Ok(BootstrapPlace {
            system: format!("Cray's PMI ({})", functions.path),
            rank,
            size,
            node,
        })
    }
}

impl Bootstrap for CrayPmi {
    fn has_started_this(&self) -> bool {
        is_started(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
    }

    /// Only aprun starts processes on the compute nodes of a Cray with ALPS.
    fn launcher(&self) -> Option<SystemLauncher> {
        Some(SystemLauncher {
            program: "aprun",
            companion: None,
        })
    }

    fn join(&self) -> Result<BootstrapPlace, ConduitError> {
        self.start().map_err(failed)
    }

    fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, ConduitError> {
        let joined = lock(&self.joined);
        let Some(joined) = &*joined else {
            return Err(failed("defect: an exchange before the start".into()));
        };
        let functions = Functions::get().map_err(failed)?;
        let size = joined.order.size();
        let mut all = vec![0; bytes.len() * size];
        for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
            let gathered = functions.allgather(chunk, size).map_err(failed)?;
            joined.order.place(&gathered, chunk.len(), &mut all, index * CHUNK);
        }
        Ok(all)
    }

    fn leave(&self, whole: bool) {
        // If the lock is taken, another thread is in a call that does not return.
        let joined = self.joined.try_lock().ok().and_then(|mut held| held.take());
        if let (Some(joined), Ok(functions)) = (joined, Functions::get()) {
            if (whole || !joined.is_shared) && functions.is_initialised() {
                functions.finalize();
            }
        }
    }

    fn abort(&self) {
        let joined = self.joined.try_lock().ok().and_then(|mut held| held.take());
        if let (Some(_), Ok(functions)) = (joined, Functions::get()) {
            functions.abort(c"libgasnet ends the job");
        }
    }

    fn descriptors(&self) -> Vec<i32> {
        lock(&self.joined)
            .as_ref()
            .map_or_else(Vec::new, |joined| joined.descriptors.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_recognised() {
        let started = |names: &str| is_started(|name| names.split(' ').any(|known| known == name));
        for by_cray in [
            "ALPS_APP_PE",
            "PMI_FORK_RANK CRAY_COOKIES",
            "PMI_FORK_RANK PMI_GNI_COOKIE PMI_GNI_PTAG",
            "CRAY_COOKIES SLURM_PROCID SLURM_STEP_ID",
        ] {
            assert!(started(by_cray), "{by_cray}");
        }
        for by_others in [
            "",
            "PMI_GNI_PTAG PMI_GNI_COOKIE",
            "CRAY_COOKIES",
            "PMI_FORK_RANK",
            "CRAY_COOKIES SLURM_PROCID PMI_GNI_COOKIE",
            "SLURM_PROCID SLURM_STEP_ID PMI_GNI_COOKIE",
        ] {
            assert!(!started(by_others), "{by_others}");
        }
    }

    #[test]
    fn nodes_are_counted() {
        assert_eq!(node(2, &[7, 7, 9], 1), Ok(9));
        assert!(node(0, &[7, 7, 9], 3).unwrap_err().contains("2 ranks are on node 7"));
    }
}
