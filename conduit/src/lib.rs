//! What a network and the runtime agree on.
//!
//! - [`Conduit`] and [`Network`]: the traits that every network implements, before and after its
//!   start; [`Upcalls`]: the functions that it may call.
//! - [`mod@payload`]: packets whose payload is not copied. [`mod@rma`]: one-sided operations, and
//!   [`mod@cookie`] their names. [`mod@barrier`]: the barrier of a network;
//!   [`mod@words`]: what other barriers are made of. [`mod@wake`]: the
//!   wake-up of sleeping threads.
//! - [`mod@config`]: the table of environment variables, to which a conduit adds its own.
//!   [`size_spec`]: sizes as users write them.
//! - [`mod@connections`]: what tools see of connections.
//! - [`library`]: vendors' libraries, opened at run time. [`locality`]: devices by topology.
//! - [`atomic_codes`]: types and operations of remote atomics; [`atomic_values`]: their results.
//! - `faulty` and `soft_atomics` (feature `decorators`): networks that wrap another, for tests.
//! - `conformance` (a feature): the checks that every conduit must pass.
//!
//! The crate in `conduit/util` has the parts that several networks are made of.

pub mod atomic_codes;
pub mod atomic_values;
pub mod barrier;
pub mod bootstrap;
mod conduit;
pub mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod connections;
pub mod cookie;
#[cfg(feature = "decorators")]
pub mod faulty;
#[cfg(all(feature = "conformance", any(test, fuzzing)))]
mod fuzz;
pub mod library;
pub mod locality;
pub mod payload;
pub mod rma;
pub mod size_spec;
#[cfg(feature = "decorators")]
pub mod soft_atomics;
pub mod wake;
pub mod words;

pub use barrier::Barrier;
pub use bootstrap::{Bootstrap, BootstrapPlace, SystemLauncher};
pub use conduit::*;
pub use cookie::{Completion, Cookie, LocalCompletion};
#[cfg(all(feature = "conformance", fuzzing))]
pub use fuzz::TARGETS as FUZZ_TARGETS;
pub use gasnet_tools::process::{print_line, warn};
pub use payload::{Gather, GatheredPacket, SendBuffer, SendBuffers};
pub use rma::*;
pub use wake::{Wake, WakePromise};
pub use words::Words;
