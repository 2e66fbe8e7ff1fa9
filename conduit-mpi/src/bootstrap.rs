//! The start of jobs by MPI: any launcher of an MPI starts the processes, and `MPI_Init_thread`
//! finds them.

use crate::ffi::{Failure, Joined};
use crate::settings;
use crate::start::failed;
use gasnet_conduit::{Bootstrap, BootstrapPlace, ConduitError};
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::{fd, lock};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time for all ranks to come to the end, beyond which MPI is not finalized.
const LAST: Duration = Duration::from_secs(5);

/// MPI as the system that has started this process.
pub struct MpiBootstrap {
    /// Sockets that MPI has opened or, of hydra, inherited.
    sockets: Mutex<Vec<i32>>,
    /// Whether threads have left MPI for good.
    has_left: Mutex<Option<Box<dyn Fn() -> bool + Send>>>,
    is_in_use: AtomicBool,
}

impl MpiBootstrap {
    pub const fn new() -> Self {
        Self {
            sockets: Mutex::new(Vec::new()),
            has_left: Mutex::new(None),
            is_in_use: AtomicBool::new(false),
        }
    }

    /// Asks this, at the end, whether threads have left MPI for good.
    pub fn ask_at_end(&self, has_left: impl Fn() -> bool + Send + 'static) {
        *lock(&self.has_left) = Some(Box::new(has_left));
    }

    fn joined() -> Result<Joined, ConduitError> {
        Joined::join(settings::level()).map_err(failed)
    }
}

/// Variables in which launchers tell the number of their processes.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// The error of a process that is alone although its launcher has started others: MPI and launcher
/// do not fit together, and each process would be a job of its own.
fn alone_among_others(variable: impl Fn(&str) -> Option<String>, library: &str) -> Option<String> {
    let several = |name: &&&str| variable(name).and_then(|count| count.trim().parse::<u32>().ok()) > Some(1);
    let name = SIZES.iter().find(several)?;
    Some(format!(
        "{name} is {}, but MPI finds one process only: the launcher is not of this MPI, {library}. Use its own \
         mpiexec (srun: --mpi=list shows its interfaces), or select the launcher's MPI with GASNET_MPI_LIBRARY",
        variable(name).unwrap_or_default()
    ))
}

impl Bootstrap for MpiBootstrap {
    /// MPI alone knows, and an MPI without a launcher has one process.
    fn has_started_this(&self) -> bool {
        true
    }

    /// MPI uses the process manager itself, and some of these serve one library only.
    fn precedes_managers(&self) -> bool {
        true
    }

    fn join(&self) -> Result<BootstrapPlace, ConduitError> {
        let before = fd::open_sockets();
        let process = Self::joined()?.process();
        if !self.is_in_use.swap(true, Ordering::Relaxed) {
            let hydra = std::env::var("PMI_FD").ok().and_then(|fd| fd.parse().ok());
            let sockets = fd::open_sockets().into_iter();
            let is_of_mpi = |socket: &i32| !before.contains(socket) || Some(*socket) == hydra;
            *lock(&self.sockets) = sockets.filter(is_of_mpi).collect();
        }
        let (rank, size) = process.place();
        if size == 1 {
            if let Some(why) = alone_among_others(|name| std::env::var(name).ok(), &process.name()) {
                return Err(failed(why));
            }
        }
        Ok(BootstrapPlace {
            system: process.name(),
            rank,
            size,
            node: Some(process.node().map_err(|Failure(why)| failed(why))?),
        })
    }

    fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, ConduitError> {
        let gathered = Self::joined()?.process().gather(bytes);
        gathered.map_err(|Failure(why)| failed(why))
    }

    /// An exit with status 0 that does not finalize MPI is a failure for some launchers, and for
    /// hydra a reason to kill the others. The client's own MPI is finalized if no code of the
    /// client follows.
    fn leave(&self, whole: bool) {
        if !self.is_in_use.load(Ordering::Relaxed) {
            return;
        }
        // Asked first: in a signal handler the answer is no, and nothing may be called.
        let has_left = self.has_left.try_lock().ok();
        if !has_left.is_some_and(|has_left| has_left.as_ref().is_none_or(|has_left| has_left())) {
            return;
        }
        let Ok(joined) = Self::joined() else { return };
        let process = joined.process();
        if !process.is_finalized() && (whole || process.is_ours()) {
            process.finalize(LAST);
        }
        if whole && process.is_finalized() {
            process.end();
        }
    }

    fn abort(&self) {
        if let Ok(joined) = Self::joined() {
            joined.process().abort();
        }
    }

    fn descriptors(&self) -> Vec<i32> {
        lock(&self.sockets).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singletons_of_a_larger_job_are_refused() {
        let of = |text: &'static str| {
            let variable = move |name: &str| {
                let mut pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
                pairs
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value.to_owned())
            };
            alone_among_others(variable, "libmpi.so.40")
        };
        for fine in ["", "PMI_SIZE=1", "SLURM_NTASKS=4", "OMPI_COMM_WORLD_SIZE="] {
            assert_eq!(of(fine), None, "{fine}");
        }
        for wrong in [
            "PMI_SIZE=2",
            "OMPI_COMM_WORLD_SIZE=16",
            "PMI_SIZE=1 SLURM_STEP_NUM_TASKS=4",
        ] {
            let why = of(wrong).unwrap();
            assert!(
                why.contains("finds one process only") && why.contains("libmpi.so.40"),
                "{why}"
            );
        }
    }
}
