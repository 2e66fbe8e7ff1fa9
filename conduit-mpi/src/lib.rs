//! conduit-mpi of libgasnet: any network that an MPI reaches.
//!
//! The library of MPI is opened at run time, in any of its three ABIs ([`ffi`]). It also starts the
//! job ([`bootstrap`]). Packets are its messages.
//!
//! Life of a packet: `send` takes a credit of the peer ([`peers`]), writes header and packet into
//! a buffer, and starts a send ([`link`]). At the receiver it goes into the buffer of a posted
//! receive, from which a poll delivers it ([`progress`], [`receive`]); then the receive is posted
//! again. All messages meet the same receives, in order, so MPI finds the first at once; requests
//! that come while only replies are polled are held.
//!
//! Puts and gets go over packets, or are one-sided calls of MPI ([`rma`]), if these pass a trial
//! ([`trial`]).

mod boot_record;
mod bootstrap;
mod ffi;
mod inspect;
mod link;
mod memory;
mod net;
mod operations;
mod peers;
mod presets;
mod progress;
mod receive;
mod rma;
mod send;
mod settings;
mod start;
mod trial;
mod wire;

use bootstrap::MpiBootstrap;
use ffi::{Handle, Joined, World};
use gasnet_conduit::config::{self, Variable};
use gasnet_conduit::{Bootstrap, Conduit, ConduitError, Identity, Limits, Network, ProviderReport, Reach, StartInfo};

/// The conduit. A library has one; tests have one per simulated rank.
pub struct Mpi {
    bootstrap: MpiBootstrap,
    /// For a job whose processes are threads of this one.
    is_simulated: bool,
}

impl Mpi {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self {
            bootstrap: MpiBootstrap::new(),
            is_simulated: false,
        }
    }

    /// A conduit for a job of threads of this process, for tests.
    pub const fn simulated() -> Self {
        Self {
            bootstrap: MpiBootstrap::new(),
            is_simulated: true,
        }
    }

    fn open<H: Handle>(
        &self,
        world: &'static World<H>,
        info: &StartInfo<'_>,
    ) -> Result<Box<dyn Network>, ConduitError> {
        let link = start::open(world, info, self.is_simulated)?;
        self.bootstrap.ask_at_end(|| link.has_left());
        Ok(Box::new(net::Net(link)))
    }
}

impl Default for Mpi {
    fn default() -> Self {
        Self::new()
    }
}

impl Conduit for Mpi {
    fn identity(&self) -> Identity {
        Identity {
            name: "mpi",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Hosts,
            takes_count: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: settings::max_packet_bytes(),
            max_ranks: 1 << 31,
            requests_per_poll: 4,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        let level = if self.is_simulated {
            settings::Level::Multiple
        } else {
            settings::level()
        };
        // A process manager may have started the job: the universal library calls MPI only here.
        match Joined::join(level).map_err(start::failed)? {
            Joined::Numbers(world) => self.open(world, info),
            Joined::Pointers(world) => self.open(world, info),
        }
    }

    /// Only where it is named: MPI has to start the job then, and a library of MPI that is opened
    /// in vain would stand in the way of the client's own.
    fn probe(&self, _: u32) -> Result<(), ConduitError> {
        let refused = |message| Err(ConduitError { message });
        if !config::names_conduit("mpi") {
            return refused("The mpi conduit is not named (GASNET_CONDUIT=mpi, gasnetrun_mpi).".into());
        }
        match ffi::Found::load() {
            Ok(_) => Ok(()),
            Err(why) => refused(format!("The mpi conduit cannot be used: {why}.")),
        }
    }

    fn variables(&self) -> &'static [Variable] {
        settings::TABLE
    }

    fn providers(&self) -> Vec<ProviderReport> {
        vec![inspect::report()]
    }

    fn bootstrap(&self) -> Option<&dyn Bootstrap> {
        Some(&self.bootstrap)
    }
}

/// The conduit of a library.
pub static CONDUIT: Mpi = Mpi::new();
