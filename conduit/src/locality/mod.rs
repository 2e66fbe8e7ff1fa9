//! Devices by topology: the environment's families `NAME`, `NAME_TYPE`, `NAME_*`, which name what a
//! process uses, and the distances of devices from its processors.
#![forbid(unsafe_code)]

mod by;
mod topology;

pub use by::{By, ACCEPTS};
pub use topology::{PciAddress, Topology};

use crate::config::{self, BindingQuery, Config, Key};
use crate::{JobRank, StartInfo};
use by::Numbered;
use topology::Processors;

/// The place of a process in groups of processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ranks {
    /// Its rank in the job.
    pub job: u32,
    /// Its index on its host.
    pub host: u32,
    /// Its index in its neighbourhood.
    pub nbrhd: u32,
}

impl Ranks {
    /// Those of this process.
    pub fn of(info: &StartInfo<'_>) -> Self {
        let nbrhd = |rank: JobRank| (info.place_of)(rank).nbrhd;
        let before = info.host.iter().take_while(|rank| **rank < info.rank);
        Self {
            job: info.rank.0,
            host: info.host_index() as u32,
            nbrhd: before.filter(|rank| nbrhd(**rank) == nbrhd(info.rank)).count() as u32,
        }
    }
}

/// The keys of a family.
#[derive(Clone, Debug)]
pub struct Family {
    /// `NAME`.
    pub for_all: Key<Option<String>>,
    /// `NAME_TYPE`, which accepts [`ACCEPTS`].
    pub by: Key<String>,
    /// `NAME_*`.
    pub numbered: Key<Option<String>>,
}

/// The request of the environment.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// `NAME`.
    name: &'static str,
    /// Its value.
    for_all: Option<String>,
    /// The value of `NAME_TYPE`.
    by: By,
    /// The variables with numbers that are set: name and value.
    numbered: Vec<(String, String)>,
    /// Whether the processors of all threads count, not those of the calling one.
    pub whole_process: bool,
}

/// The device of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// As the conduit decides.
    Default,
    /// The one nearest to the processors.
    Nearest,
    /// The value of a variable.
    Named {
        /// The variable.
        variable: String,
        /// Its value.
        name: String,
    },
}

impl Wishes {
    /// Reads a family.
    pub fn read(config: &Config, family: &Family) -> Self {
        Self {
            name: family.for_all.variable.name,
            for_all: config.get_or_default(&family.for_all),
            // The table has checked it.
            by: config.get_or_default(&family.by).parse().unwrap_or_default(),
            numbered: config.members_of(&family.numbered),
            whole_process: config.get_or_default(&config::HWLOC_QUERY) == BindingQuery::Process,
        }
    }

    /// The variable for all processes, and its value, if it is set.
    pub fn for_all(&self) -> Option<(String, String)> {
        Some((self.name.to_owned(), self.for_all.clone()?))
    }

    /// The device of a process with these ranks.
    pub fn of(&self, ranks: Ranks, host: impl FnOnce() -> Topology) -> Device {
        let numbered = match self.by {
            By::Distance => return Device::Nearest,
            // Not worth reading /sys.
            By::Number(..) if self.numbered.is_empty() => None,
            By::Nothing => None,
            By::Number(numbered, operation) => {
                let numbers = match numbered {
                    Numbered::JobRank => vec![ranks.job],
                    Numbered::HostRank => vec![ranks.host],
                    Numbered::NbrhdRank => vec![ranks.nbrhd],
                    Numbered::Object(object) => {
                        let host = host();
                        host.numbers(object, &host.allowed(self.whole_process))
                    }
                };
                let numbers = operation.apply(&numbers);
                let words: Vec<_> = numbers.iter().map(ToString::to_string).collect();
                let variable = format!("{}_{}", self.name, words.join("_"));
                self.numbered.iter().find(|(name, _)| *name == variable).cloned()
            }
        };
        match numbered.or_else(|| self.for_all()) {
            Some((variable, name)) => Device::Named { variable, name },
            None => Device::Default,
        }
    }
}

/// The ranks of devices by their distance from this process: 1 for the nearest; equal for equal
/// distances. None where the host does not tell the distance.
pub fn ranking(host: &Topology, whole_process: bool, devices: &[(Option<PciAddress>, String)]) -> Vec<Option<usize>> {
    let processors: Processors = host.allowed(whole_process);
    let distance = |(pci, name): &(Option<PciAddress>, String)| {
        let node = host.node_of_device(*pci, name)?;
        host.distance(node, &processors)
    };
    let distances: Vec<_> = devices.iter().map(distance).collect();
    let mut different: Vec<_> = distances.iter().flatten().collect();
    different.sort_unstable();
    different.dedup();
    let rank = |distance: &Option<u64>| Some(different.binary_search(&distance.as_ref()?).ok()? + 1);
    distances.iter().map(rank).collect()
}

/// The indices of the `count` nearest devices, ascending, for the process with this index on its
/// host: processes take turns at equally near ones. Devices without a rank are the farthest. Empty
/// if no rank is known.
pub fn nearest(ranks: &[Option<usize>], host_rank: usize, count: usize) -> Vec<usize> {
    if ranks.iter().all(Option::is_none) {
        return Vec::new();
    }
    let mut order = Vec::with_capacity(ranks.len());
    let farthest = usize::MAX;
    let mut different: Vec<usize> = ranks.iter().map(|rank| rank.unwrap_or(farthest)).collect();
    different.sort_unstable();
    different.dedup();
    for rank in different {
        let is_equal = |index: &usize| ranks[*index].unwrap_or(farthest) == rank;
        let mut equal: Vec<usize> = (0..ranks.len()).filter(is_equal).collect();
        // Number of these that each process takes.
        let share = count.saturating_sub(order.len()).min(equal.len());
        let first = host_rank * share % equal.len();
        equal.rotate_left(first);
        order.extend(equal);
    }
    order.truncate(count);
    order.sort_unstable();
    order
}

#[cfg(test)]
mod tests {
    use super::topology::tests::Host;
    use super::*;

    fn wishes(by: &str, numbered: &[(&str, &str)], for_all: Option<&str>) -> Wishes {
        Wishes {
            name: "GASNET_OFI_DEVICE",
            for_all: for_all.map(str::to_owned),
            by: by.parse().unwrap(),
            numbered: numbered
                .iter()
                .map(|(numbers, value)| (format!("GASNET_OFI_DEVICE_{numbers}"), (*value).to_owned()))
                .collect(),
            whole_process: false,
        }
    }

    #[test]
    fn variables_with_numbers_come_first() {
        const RANKS: Ranks = Ranks {
            job: 13,
            host: 5,
            nbrhd: 1,
        };
        let host = Host::new("wishes", "0,1");
        let named = |by, numbered: &[_], for_all| match wishes(by, numbered, for_all).of(RANKS, || host.topology()) {
            Device::Named { variable, name } => format!("{variable}={name}"),
            other => format!("{other:?}"),
        };
        let numbered = [
            ("0", "cxi2"),
            ("1", "cxi1"),
            ("0_1", "cxi3"),
            ("13", "cxi4"),
            ("5", "cxi5"),
        ];
        assert_eq!(named("Socket", &numbered, None), "GASNET_OFI_DEVICE_0=cxi2");
        assert_eq!(named("Node", &numbered, Some("all")), "GASNET_OFI_DEVICE_0_1=cxi3");
        assert_eq!(named("Node", &numbered[..2], Some("all")), "GASNET_OFI_DEVICE=all");
        assert_eq!(named("Node", &numbered[..2], None), "Default");
        assert_eq!(named("JRank", &numbered, None), "GASNET_OFI_DEVICE_13=cxi4");
        assert_eq!(named("HRank", &numbered, None), "GASNET_OFI_DEVICE_5=cxi5");
        assert_eq!(named("NRank", &numbered, None), "GASNET_OFI_DEVICE_1=cxi1");
        assert_eq!(named("HRank % 5", &numbered, None), "GASNET_OFI_DEVICE_0=cxi2");
        assert_eq!(named("None", &numbered, Some("all")), "GASNET_OFI_DEVICE=all");
        assert_eq!(named("Auto", &numbered, Some("all")), "Nearest");
        // No such object on this host.
        assert_eq!(named("L2Cache", &numbered, Some("all")), "GASNET_OFI_DEVICE=all");
    }

    #[test]
    fn nearer_devices_have_lower_ranks() {
        let devices = ["cxi0", "cxi1", "cxi2", "cxi3"].map(|name| (None, name.to_owned()));
        let ranks = |allowed| ranking(&Host::new("ranking", allowed).topology(), false, &devices);
        // In the nodes 3, 1 and 2; unknown.
        assert_eq!(ranks("0"), [Some(2), Some(1), Some(2), None]);
        assert_eq!(ranks("5"), [Some(1), Some(3), Some(2), None]);
        assert_eq!(ranks("4,5"), [Some(1), Some(2), Some(1), None]);
    }

    #[test]
    fn processes_take_turns_at_the_nearest() {
        let ranks = [Some(2), Some(1), None, Some(1)];
        let of = |count| [0, 1, 2].map(|process| nearest(&ranks, process, count));
        assert_eq!(of(1), [[1], [3], [1]]);
        assert_eq!(of(2), [[1, 3]; 3]);
        assert_eq!(of(3), [[0, 1, 3]; 3]);
        assert_eq!(of(9), [[0, 1, 2, 3]; 3]);
        assert_eq!(nearest(&[None, None], 1, 1), []);
        // Pairs of four.
        let four = [Some(1); 4];
        assert_eq!(
            [0, 1, 2].map(|process| nearest(&four, process, 2)),
            [[0, 1], [2, 3], [0, 1]]
        );
        assert_eq!(nearest(&[Some(1); 3], 1, 2), [0, 2]);
    }
}
