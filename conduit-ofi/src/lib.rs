//! conduit-ofi of libgasnet: any provider of libfabric with reliable connectionless endpoints,
//! chosen at run time.
//!
//! A process has one endpoint with one completion queue. Life of a packet: `send` takes credits of
//! the peer ([`credits`]), writes header and packet ([`wire`]) on the stack or into a send buffer
//! ([`operations`]), and passes it to the provider. The receiver's provider writes it into a buffer
//! for many messages ([`receive`]), where a poll delivers it in place ([`progress`]).
//!
//! Puts, gets and atomics are the provider's ([`rma`], [`atomics`]), if it completes puts when
//! their bytes are at the target. A Long that is not packed is a put, beside a packet with its
//! number ([`put_notify`]).

mod atomics;
mod boot_record;
mod connect_timeout;
mod credits;
mod ffi;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod inspect;
mod link;
mod memory;
mod net;
mod operations;
mod peers;
mod presets;
mod progress;
mod provider;
mod put_notify;
mod receive;
mod rma;
mod select;
mod send;
mod settings;
mod stale_shm;
mod start;
mod versions;
mod wake;
mod wire;

use gasnet_conduit::config::{self, Variable};
use gasnet_conduit::{Conduit, ConduitError, Identity, Limits, Network, ProviderReport, Reach, StartInfo};
use settings::Choice;

#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Ofi {
    /// The provider, for tests; else the environment chooses.
    provider: Option<&'static str>,
}

impl Ofi {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self { provider: None }
    }

    /// The same with a provider that overrides the environment's and all that it offers, for tests.
    pub const fn with_provider(provider: &'static str) -> Self {
        Self {
            provider: Some(provider),
        }
    }

    fn choice(&self) -> Choice {
        let mut choice = Choice::read();
        if let Some(provider) = self.provider {
            choice.provider = Some(provider.to_owned());
            choice.atomics = Some(true);
        }
        choice
    }
}

impl Conduit for Ofi {
    fn identity(&self) -> Identity {
        Identity {
            name: "ofi",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Hosts,
            takes_count: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: settings::max_packet_bytes(),
            // A rank fits the data of a completion beside a number.
            max_ranks: 1 << 31,
            // Providers over sockets enter the kernel, others do not.
            requests_per_poll: 4,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        Ok(Box::new(start::open(info, &self.choice())?))
    }

    /// Unless the user names this conduit, it is for providers that are faster than UDP. Loading
    /// libfabric takes a fifth of a second, so a host without their devices does not.
    fn probe(&self, ranks: u32) -> Result<(), ConduitError> {
        let refused = |message| Err(ConduitError { message });
        let named = config::names_conduit("ofi");
        if !named && !provider::has_device() {
            let by_name = "GASNET_CONDUIT=ofi selects a provider over sockets";
            return refused(format!(
                "This host has no device of a fabric for the ofi conduit. {by_name}."
            ));
        }
        match select::probe(&self.choice(), ranks) {
            Err(why) => refused(format!("The ofi conduit cannot be used: {why}.")),
            Ok(provider) if named || provider::is_fast(&provider) => Ok(()),
            Ok(provider) => refused(format!(
                "The ofi conduit would use the provider {provider}, which is slower than the udp conduit. \
                 GASNET_CONDUIT=ofi selects it all the same."
            )),
        }
    }

    fn variables(&self) -> &'static [Variable] {
        settings::TABLE
    }

    fn providers(&self) -> Vec<ProviderReport> {
        inspect::providers(&self.choice()).unwrap_or_else(|why| {
            let facts = vec![("use", format!("impossible: {why}"))];
            let name = "libfabric".to_owned();
            vec![ProviderReport { name, facts }]
        })
    }
}

/// The conduit of a library.
pub static CONDUIT: Ofi = Ofi::new();
