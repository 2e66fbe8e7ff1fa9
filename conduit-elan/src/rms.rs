//! Quadrics' resource manager (RMS), and Slurm with the plugin switch/elan, which sets the same
//! variables: they start the processes of a job, and tell libelan where each is. What the processes
//! exchange at the start goes through libelan.

use crate::ffi::{Functions, Shim};
use crate::start::attach;
use gasnet_conduit::{Bootstrap, BootstrapPlace, ConduitError, SystemLauncher};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::sync::Arc;

/// The system, and the attachment of this process to the network.
#[derive(Debug, Default)]
pub struct Rms(Mutex<Option<Arc<Shim>>>);

/// A variable with a number.
fn number(name: &str, variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    variable(name)?.trim().parse().ok()
}

/// Rank and size of a process that RMS has started.
fn place(variable: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    let (rank, size) = (number("RMS_RANK", &variable)?, number("RMS_NPROCS", &variable)?);
    (rank < size).then_some((rank, size))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn failed(why: &str) -> ConduitError {
    ConduitError {
        message: format!("{why}."),
    }
}

impl Rms {
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The attachment of this process, if it has joined.
    pub fn attached(&self) -> Option<Arc<Shim>> {
        lock(&self.0).clone()
    }
}

impl Bootstrap for Rms {
    fn has_started_this(&self) -> bool {
        place(variable).is_some()
    }

    /// PRRTE, of Open MPI, has a prun too.
    fn launcher(&self) -> Option<SystemLauncher> {
        Some(SystemLauncher {
            program: "prun",
            companion: Some("rinfo"),
        })
    }

    fn join(&self) -> Result<BootstrapPlace, ConduitError> {
        let (rank, size) = place(variable).ok_or_else(|| failed("RMS has not started this process"))?;
        let shim = attach(0, rank, size)
            .map_err(|why| failed(&format!("this process was started by RMS or Slurm, but {why}")))?;
        let place = BootstrapPlace {
            system: format!("RMS ({})", shim.version()),
            rank: shim.info.vp,
            size: shim.info.size,
            node: number("RMS_NODEID", variable),
        };
        *lock(&self.0) = Some(shim);
        Ok(place)
    }

    fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, ConduitError> {
        let shim = self
            .attached()
            .ok_or_else(|| failed("defect: an exchange before the start"))?;
        let gathered = shim.gather(bytes);
        gathered.ok_or_else(|| failed("libelan's memory (LIBELAN_GALLOC_SIZE) has no room for what processes exchange"))
    }

    fn leave(&self, _: bool) {}

    fn abort(&self) {
        if let Ok(functions) = Functions::get() {
            // If it fails, the end of this process is what ends the job.
            let _ = functions.signal_job(libc::SIGTERM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_whole() {
        let of = |text: &'static str| {
            place(move |name| {
                let mut pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
                pairs
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value.to_owned())
            })
        };
        assert_eq!(of("RMS_RANK=3 RMS_NPROCS=4 RMS_NODEID=1"), Some((3, 4)));
        for wrong in [
            "",
            "RMS_RANK=3",
            "RMS_NPROCS=4",
            "RMS_RANK=4 RMS_NPROCS=4",
            "RMS_RANK= RMS_NPROCS=4",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
