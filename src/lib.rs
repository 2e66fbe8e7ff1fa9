//! The runtime of libgasnet: everything but the networks. It knows none. A network is a crate that
//! implements the trait [`gasnet_conduit::Conduit`]; `libraries` and `libraries/any` assemble
//! libraries from this crate and networks ([`conduits!`]).
//!
//! In reading order: [`select`] and [`runtime`], a process in its job (the processes are those of
//! [`gasnet_job`], the environment that of [`gasnet_conduit::config`]); [`client`], [`endpoint`],
//! [`segment`], [`mk`], [`team`], the objects behind handles; [`event`] and [`thread`]; [`shm`],
//! [`am`], [`rma`], [`vis`], [`ad`], [`barrier`], [`coll`], [`hsl`], the operations; [`progress`]
//! and [`wait`]; [`trace`], what is recorded of all that; [`abi`], the C surface.

#[macro_use]
extern crate gasnet_tools;

pub mod abi;
pub mod ad;
pub mod am;
pub mod barrier;
pub mod client;
pub mod coll;
pub mod copy;
pub mod counters;
pub mod diagnose;
pub mod endpoint;
pub mod event;
pub mod event_array;
pub mod flags;
#[cfg(any(test, fuzzing))]
mod fuzz;
pub mod graveyard;
pub mod hsl;
pub mod init;
pub mod mk;
pub mod placement;
pub mod progress;
pub mod recent;
pub mod rma;
pub mod rules;
pub mod runtime;
pub mod segment;
pub mod select;
pub mod shm;
pub mod stall;
pub mod sync;
pub mod team;
pub mod thread;
pub mod trace;
pub mod types;
pub mod vis;
pub mod wait;

#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;
