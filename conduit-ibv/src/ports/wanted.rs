//! The ports that a process wants, and limits on their number.
#![forbid(unsafe_code)]

/// Most paths to a peer.
pub const MOST_PATHS: usize = 8;
/// Most HCAs of a process.
pub const MOST_RAILS: usize = 8;

/// The ports that a process wants.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The variable that names ports, and its value.
    pub ports: Option<(String, String)>,
    /// Whether only the nearest of them are.
    pub is_nearest: bool,
    /// Most HCAs of a process; none: those that a filter names, or one.
    pub hcas: Option<usize>,
    /// Queue pairs for each peer; 0: one for each port.
    pub queue_pairs: usize,
    /// The index of the process on its host.
    pub turn: usize,
    /// The InfiniBand subnet of ports that may be used; none: any.
    pub subnet: Option<u64>,
}
