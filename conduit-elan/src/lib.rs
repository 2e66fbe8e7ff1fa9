//! conduit-elan of libgasnet: Quadrics QsNet (Elan3, Elan4) over libelan, through a shim that sites
//! compile (`shim.h`).
//!
//! - [`ffi`]: the shim behind safe types
//! - [`settings`], [`rms`], [`start`]: the start
//! - [`net`]: the parts together, and polling
//! - [`link`], [`peers`]: the way into the network
//! - [`credits`], [`wire`], [`send`], [`receive`], [`buffers`], [`put_notify`]: messages
//! - [`rma`], [`channels`], [`transfers`], [`operations`], [`memory`]: puts and gets
//! - [`barrier`]: the hardware barrier

mod barrier;
mod boot_record;
mod buffers;
mod channels;
mod credits;
mod ffi;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod link;
mod memory;
mod net;
mod operations;
mod peers;
mod put_notify;
mod receive;
mod rma;
mod rms;
mod send;
mod settings;
mod start;
mod transfers;
mod wire;

use gasnet_conduit::config::Variable;
use gasnet_conduit::{Bootstrap, Conduit, ConduitError, Identity, Limits, Network, ProviderReport, Reach, StartInfo};

#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Elan {
    /// Added to the number of the job.
    job: u32,
    rms: rms::Rms,
}

impl Elan {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self::of_job(0)
    }

    /// One of several jobs in the same processes: of the job with this number. For tests.
    pub const fn of_job(job: u32) -> Self {
        Self {
            job,
            rms: rms::Rms::new(),
        }
    }
}

impl Conduit for Elan {
    fn identity(&self) -> Identity {
        Identity {
            name: "elan",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Hosts,
            takes_count: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: buffers::BUFFER,
            max_ranks: 1 << 16,
            requests_per_poll: 1,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        Ok(Box::new(start::open(info, self.rms.attached(), self.job)?))
    }

    fn probe(&self, _ranks: u32) -> Result<(), ConduitError> {
        start::can_start().map_err(|why| ConduitError {
            message: format!("The elan conduit cannot be used: {why}."),
        })
    }

    fn variables(&self) -> &'static [Variable] {
        settings::TABLE
    }

    fn providers(&self) -> Vec<ProviderReport> {
        vec![start::provider()]
    }

    fn bootstrap(&self) -> Option<&dyn Bootstrap> {
        Some(&self.rms)
    }
}

/// The conduit of a library.
pub static CONDUIT: Elan = Elan::new();
