//! The kind of network behind a port.
#![forbid(unsafe_code)]

use std::fmt;

/// The link layer of a process's ports, and how packets are routed on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet, with RoCE packets of a version.
    Roce(u8),
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InfiniBand => f.write_str("InfiniBand"),
            Self::Roce(version) => write!(f, "RoCE v{version}"),
        }
    }
}
