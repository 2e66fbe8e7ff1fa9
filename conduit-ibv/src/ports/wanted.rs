//! The ports that a process wants, and limits on their number.
#![forbid(unsafe_code)]

use crate::settings::PortSettings;
use gasnet_conduit::locality::{Device, Ranks, Topology};

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

impl PortSettings {
    /// Whether distances are those from the processors of all threads.
    pub fn whole_process(&self) -> bool {
        self.ports.whole_process
    }

    /// The wishes of a process with these ranks.
    pub fn wanted(&self, ranks: Ranks) -> Wanted {
        let device = self.ports.of(ranks, || Topology::new("/"));
        Wanted {
            is_nearest: device == Device::Nearest,
            ports: match device {
                Device::Default => None,
                // The nearest of those that it names.
                Device::Nearest => self.ports.for_all(),
                Device::Named { variable, name } => Some((variable, name)),
            },
            hcas: self.most_hcas.map(|most| most.min(MOST_RAILS)),
            queue_pairs: self.queue_pairs.min(MOST_PATHS),
            turn: ranks.host as usize,
            subnet: None,
        }
    }
}
