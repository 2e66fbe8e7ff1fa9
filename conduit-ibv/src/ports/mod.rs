//! The ports of HCAs that a process uses, and how its packets leave them.
//!
//! [`host`] lists the ports, [`choose`] selects those that the variables want, and
//! [`local`] adds what packets of a port carry: its GID, partition key, service level and traffic
//! class. [`inspect`] reports all of it without a job.
#![forbid(unsafe_code)]

mod choose;
pub mod filter;
mod gid;
mod host;
mod inspect;
mod link;
mod local;
mod path;
pub mod pkey;
pub mod subnet;
mod traffic_class;
mod wanted;

pub use choose::Choice;
pub use host::Hca;
pub use host::Host;
use host::{LinkLayer, Port};
pub use inspect::providers;
pub use link::Link;
pub use local::describe;
use local::local_port;
pub use path::{hca_identity, largest_message, mix, Path};
use wanted::Wanted;
pub use wanted::{MOST_PATHS, MOST_RAILS};

/// Advice about a peer that has never answered.
pub const SEVERAL_NETWORKS: &str = "If hosts have several networks, GASNET_IBV_PORTS must name HCAs of one of them";
