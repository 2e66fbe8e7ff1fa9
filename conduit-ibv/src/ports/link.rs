//! The kind of network behind a port.
#![forbid(unsafe_code)]

use gasnet_conduit_util::record_as;
use std::fmt;

/// The link layer of a process's ports, and how packets are routed on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// InfiniBand.
    #[default]
    InfiniBand,
    /// Ethernet, with RoCE packets of a version.
    Roce(u8),
}

record_as! {
    Link, u8:
        |link| match link {
            Link::InfiniBand => 0,
            Link::Roce(version) => version,
        },
        |version| match version {
            0 => Link::InfiniBand,
            version => Link::Roce(version),
        };
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InfiniBand => f.write_str("InfiniBand"),
            Self::Roce(version) => write!(f, "RoCE v{version}"),
        }
    }
}
