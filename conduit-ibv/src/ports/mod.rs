//! Which ports of which HCAs a process uses, and how its packets leave them.
//!
//! [`host`] lists the ports, [`choose`] selects those that the variables want ([`variables`]), and
//! [`local`] adds what packets of a port carry: its GID, partition key, service level and traffic
//! class. [`inspect`] reports all of it without a job.
#![forbid(unsafe_code)]

mod choose;
pub mod filter;
mod gid;
mod host;
mod inspect;
mod local;
pub mod pkey;
pub mod subnet;
mod traffic_class;
pub mod variables;

pub use choose::Choice;
use choose::Wanted;
pub use host::Hca;
pub use host::Host;
use host::{LinkLayer, Port};
pub use inspect::providers;
pub use local::describe;
use local::local_port;
pub use variables::Settings;
