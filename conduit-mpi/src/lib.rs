//! conduit-mpi of libgasnet: any network that an MPI reaches.

mod settings;

use gasnet_conduit::config::Variable;
use gasnet_conduit::{Conduit, ConduitError, Identity, Limits, Network, Reach, StartInfo};

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Mpi {}

impl Mpi {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self {}
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

    fn start(&self, _: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        Err(ConduitError {
            message: "The mpi conduit cannot start: it is not complete yet.".into(),
        })
    }

    fn variables(&self) -> &'static [Variable] {
        settings::TABLE
    }
}

/// The conduit of a library.
pub static CONDUIT: Mpi = Mpi::new();
