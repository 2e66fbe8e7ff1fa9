//! conduit-gni of libgasnet: Cray Aries and Gemini over uGNI, with libugni opened at run time.
//!
//! - [`ffi`]: the library behind safe types
//! - [`settings`], [`pmi`], [`start`], [`boot_record`]: the start
//! - [`region`], [`wire`], [`credits`]: memory, events and state of Active Messages
//! - [`posts`], [`peers`], [`operations`]: posts on their way to peers, and their completion
//! - [`carrier`], [`send`], [`receive`], [`put_notify`]: the life of a message
//! - [`rma`], [`transfers`], [`buffers`], [`memory`], [`atomics`]: one-sided operations
//! - [`words`]: words of barriers; [`barrier`], [`engine`]: those by the collective engine
//! - [`net`], [`progress`], [`wake`]: the parts together; polling

mod atomics;
mod barrier;
mod boot_record;
mod buffers;
mod carrier;
mod credits;
mod engine;
mod ffi;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod memory;
mod net;
mod operations;
mod peers;
mod pmi;
mod posts;
mod progress;
mod put_notify;
mod receive;
mod region;
mod reply_buffers;
mod rma;
mod send;
mod settings;
mod start;
mod transfers;
mod wake;
mod wire;
mod words;

use gasnet_conduit::config::Variable;
use gasnet_conduit::{Bootstrap, Conduit, ConduitError, Identity, Limits, Network, ProviderReport, Reach, StartInfo};

#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Gni {
    pmi: pmi::CrayPmi,
    /// Added to the cookie.
    job: u32,
}

impl Gni {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self::of_job(0)
    }

    /// One of several jobs in the same processes, which need cookies of their own: of the job with
    /// this number. For tests.
    pub const fn of_job(job: u32) -> Self {
        Self {
            pmi: pmi::CrayPmi::new(),
            job,
        }
    }
}

impl Conduit for Gni {
    fn identity(&self) -> Identity {
        Identity {
            name: "gni",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Hosts,
            takes_count: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: settings::max_packet_bytes(),
            max_ranks: wire::MOST_RANKS,
            requests_per_poll: 4,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        Ok(Box::new(start::open(info, self.job)?))
    }

    fn probe(&self, _ranks: u32) -> Result<(), ConduitError> {
        start::can_start().map_err(|why| ConduitError {
            message: format!("The gni conduit cannot be used: {why}."),
        })
    }

    fn variables(&self) -> &'static [Variable] {
        settings::TABLE
    }

    fn providers(&self) -> Vec<ProviderReport> {
        vec![start::provider()]
    }

    fn bootstrap(&self) -> Option<&dyn Bootstrap> {
        Some(&self.pmi)
    }
}

/// The conduit of a library.
pub static CONDUIT: Gni = Gni::new();
