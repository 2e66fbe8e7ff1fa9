//! conduit-ucx of libgasnet: any network that UCX reaches.
//!
//! A process has one worker of UCX, opened for one thread at a time; a lock admits that. Life of a
//! packet: `send` takes credits of the peer ([`credits`]), writes header and packet to the stack,
//! or into an operation ([`operations`]) if UCX does not copy them at once, and passes them to UCX
//! as an Active Message ([`ffi`]). The receiver's UCX reports it from inside a poll, where it is
//! queued ([`receive`]) and then delivered ([`progress`]).
//!
//! Puts, gets and atomics are UCX's ([`rma`], [`atomics`]). It completes a put when its source is
//! free, so flushes of the peer complete the rest.

mod atomics;
mod boot_record;
mod credits;
mod ffi;
mod inspect;
mod link;
mod memory;
mod net;
mod operations;
mod peers;
mod presets;
mod progress;
mod put_notify;
mod receive;
mod rma;
mod send;
mod settings;
mod start;
mod wake;
mod wire;

use gasnet_conduit::config::{self, Variable};
use gasnet_conduit::{Conduit, ConduitError, Identity, Limits, Network, ProviderReport, Reach, StartInfo};
use std::ffi::CStr;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Ucx {
    /// Transports, for tests; else the environment chooses.
    transports: Option<&'static CStr>,
}

impl Ucx {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self { transports: None }
    }

    /// The same with transports that override `UCX_TLS`, for tests.
    pub const fn with_transports(transports: &'static CStr) -> Self {
        Self {
            transports: Some(transports),
        }
    }
}

impl Conduit for Ucx {
    fn identity(&self) -> Identity {
        Identity {
            name: "ucx",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Hosts,
            takes_count: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: settings::max_packet_bytes(),
            max_ranks: 1 << 31,
            // Transports over sockets enter the kernel, others do not.
            requests_per_poll: 4,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        Ok(Box::new(start::open(info, self.transports)?))
    }

    /// Unless the user names this conduit, it is for HCAs: over sockets the udp conduit is faster.
    /// If the user does, the start will tell whether UCX works.
    fn probe(&self, _: u32) -> Result<(), ConduitError> {
        let refused = |message| Err(ConduitError { message });
        let is_named = config::names_conduit("ucx");
        let hcas = std::fs::read_dir("/sys/class/infiniband");
        if !is_named && !hcas.is_ok_and(|mut hcas| hcas.next().is_some()) {
            return refused(
                "This host has no HCA for the ucx conduit. GASNET_CONDUIT=ucx selects its other transports.".into(),
            );
        }
        let found = if is_named {
            presets::library().map(|_| true)
        } else {
            inspect::has_remote_dma()
        };
        match found {
            Err(why) => refused(format!("The ucx conduit cannot be used: {why}.")),
            Ok(true) => Ok(()),
            Ok(false) => refused(
                "UCX has no transport with remote DMA on this host. GASNET_CONDUIT=ucx selects its others.".into(),
            ),
        }
    }

    fn variables(&self) -> &'static [Variable] {
        settings::TABLE
    }

    fn providers(&self) -> Vec<ProviderReport> {
        vec![inspect::report()]
    }
}

/// The conduit of a library.
pub static CONDUIT: Ucx = Ucx::new();
