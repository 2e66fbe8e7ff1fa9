//! The environment variables that choose ports.
#![forbid(unsafe_code)]

use super::wanted::{Wanted, MOST_PATHS, MOST_RAILS};
use gasnet_conduit::config::{self, count, flag, form, ranks, text, Config, Key, RankSet, Scope};
use gasnet_conduit::locality::{self, Device, Family, Ranks, Topology, Wishes};

pub const PORTS: Key<Option<String>> = text(
    "GASNET_IBV_PORTS",
    "HCAs and ports that may be used: mlx5_0+mlx5_1:1,2. Of an HCA without port numbers the first active port is used. \
     Names of HCAs and ports that do not exist or cannot connect are ignored.",
)
.scope(Scope::Rank)
.unset_means("the first active port of the nearest HCA in a subnet of all ranks, on InfiniBand if there is any");
pub const PORTS_TYPE: Key<String> = form(
    "GASNET_IBV_PORTS_TYPE",
    "Socket",
    locality::ACCEPTS,
    |text| text.parse::<locality::By>().is_ok(),
    "The numbers in the name of the variable GASNET_IBV_PORTS_* of a process, as GASNET_OFI_DEVICE_TYPE for ofi. Auto: \
     the nearest of the HCAs that GASNET_IBV_PORTS names. None: GASNET_IBV_PORTS only.",
);
pub const PORTS_NUMBERED: Key<Option<String>> = text(
    "GASNET_IBV_PORTS_*",
    "As GASNET_IBV_PORTS, in the processes whose numbers (GASNET_IBV_PORTS_TYPE), joined by underscores, take the \
     place of the star.",
)
.unset_means("GASNET_IBV_PORTS");
pub const MAX_HCAS: Key<Option<u32>> = count(
    "GASNET_IBV_MAX_HCAS",
    "",
    1,
    1 << 10,
    "Most HCAs that a process uses, of 8. All processes of a job must use equally many.",
)
.unset_means("those that GASNET_IBV_PORTS names, else 1")
.optional()
.ours();
pub const NUM_QPS: Key<u32> = count(
    "GASNET_NUM_QPS",
    "0",
    0,
    1 << 10,
    "Queue pairs for each peer, at most 8, which take turns at the ports. 0: one for each port. The same in all \
     processes.",
);
pub const PORTS_VERBOSE: Key<u32> = count(
    "GASNET_IBV_PORTS_VERBOSE",
    "1",
    0,
    1 << 20,
    "1: rank 0 warns of HCAs that it could use, but does not. 2: each rank also prints the ports that it uses.",
);
pub const LIST_PORTS: Key<bool> = flag(
    "GASNET_IBV_LIST_PORTS",
    false,
    "Print the ports of all HCAs, their states, and the HCA's rank by distance: 1 is the nearest.",
);
pub const LIST_PORTS_NODES: Key<RankSet> = ranks(
    "GASNET_IBV_LIST_PORTS_NODES",
    "Ranks that print because of GASNET_IBV_LIST_PORTS.",
);
pub const GID_INDEX: Key<Option<u32>> = count(
    "GASNET_IBV_GID_INDEX",
    "",
    0,
    255,
    "Index of the GID in the port's table, as show_gids prints it. On InfiniBand packets then carry a global header.",
)
.scope(Scope::Rank)
.unset_means("RoCE: that of RoCE v2 which suits the host's address best; InfiniBand: none")
.optional()
.ours();
pub const PKEY: Key<Option<u32>> = count(
    "GASNET_IBV_PKEY",
    "",
    2,
    0xffff,
    "Partition key, whose bit of full members (0x8000) is ignored. The port must be a full member.",
)
.unset_means("the first in the port's table of which the port is a full member")
.optional();
pub const MAX_MTU: Key<String> = form(
    "GASNET_MAX_MTU",
    "0",
    "-1, 0, 256, 512, 1024, 2048 or 4096",
    |text| mtu(text).is_ok(),
    "Largest MTU in bytes. 0 and -1: that of the port.",
);
pub const SERVICE_LEVEL: Key<u32> = count(
    "GASNET_IBV_SERVICE_LEVEL",
    "0",
    0,
    15,
    "Service level of packets; on RoCE their priority, up to 7.",
)
.ours();
pub const TRAFFIC_CLASS: Key<Option<u32>> = count(
    "GASNET_IBV_TRAFFIC_CLASS",
    "",
    0,
    255,
    "Traffic class of the global header of packets: on RoCE v2 four times the DSCP.",
)
.unset_means("RoCE v2: that of the port (/sys/class/infiniband/*/tc/*/traffic_class), or else 106; 0 otherwise")
.optional()
.ours();
pub const HCA_ID: Key<Option<String>> = text("GASNET_HCA_ID", "Old name; use GASNET_IBV_PORTS.").no_effect();
pub const PORT_NUM: Key<Option<String>> = text("GASNET_PORT_NUM", "Old name; use GASNET_IBV_PORTS.").no_effect();

const FAMILY: Family = Family {
    for_all: PORTS,
    by: PORTS_TYPE,
    numbered: PORTS_NUMBERED,
};

/// `IBV_MTU_*` of an MTU in bytes; none: any.
fn mtu(text: &str) -> Result<Option<u8>, ()> {
    match text.trim().parse::<i32>() {
        Ok(-1 | 0) => Ok(None),
        Ok(bytes @ (256 | 512 | 1024 | 2048 | 4096)) => Ok(Some((bytes.ilog2() - 7) as u8)),
        _ => Err(()),
    }
}

/// What the environment wants.
#[derive(Clone, Debug)]
pub struct Settings {
    ports: Wishes,
    most_hcas: Option<usize>,
    queue_pairs: usize,
    /// Details of reports: 0: none; 1: warnings; 2: the ports in use.
    pub verbosity: u32,
    /// Index of the GID.
    pub gid_index: Option<u8>,
    /// Partition key.
    pub pkey: Option<u16>,
    /// `IBV_MTU_*`, at most.
    pub mtu: Option<u8>,
    /// Service level.
    pub service_level: u8,
    /// Traffic class; none: that of the port.
    pub traffic_class: Option<u8>,
    /// A variable that is set, but has no effect.
    pub obsolete: Option<&'static str>,
}

impl Settings {
    /// Reads the environment.
    pub fn read() -> Self {
        Self::of(config::get())
    }

    fn of(config: &Config) -> Self {
        let byte = |key: &Key<u32>| config.get_or_default(key) as u8;
        let obsolete = [HCA_ID, PORT_NUM].into_iter().find(|key| config.is_set(key));
        Self {
            ports: Wishes::read(config, &FAMILY),
            most_hcas: config
                .get_or_default(&MAX_HCAS)
                .map(|count| (count as usize).min(MOST_RAILS)),
            queue_pairs: (config.get_or_default(&NUM_QPS) as usize).min(MOST_PATHS),
            verbosity: config.get_or_default(&PORTS_VERBOSE),
            gid_index: config.get_or_default(&GID_INDEX).map(|index| index as u8),
            pkey: config.get_or_default(&PKEY).map(|key| key as u16),
            // The table has checked it.
            mtu: mtu(&config.get_or_default(&MAX_MTU)).unwrap_or_default(),
            service_level: byte(&SERVICE_LEVEL),
            traffic_class: config.get_or_default(&TRAFFIC_CLASS).map(|class| class as u8),
            obsolete: obsolete.map(|key| key.variable.name),
        }
    }

    /// Whether distances are those from the processors of all threads.
    pub fn whole_process(&self) -> bool {
        self.ports.whole_process
    }

    /// What a process with these ranks wants.
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
            hcas: self.most_hcas,
            queue_pairs: self.queue_pairs,
            turn: ranks.host as usize,
            subnet: None,
        }
    }
}

/// Whether a rank prints the ports of its host.
pub fn lists_ports(rank: u32) -> bool {
    lists_ports_in(config::get(), rank)
}

fn lists_ports_in(config: &Config, rank: u32) -> bool {
    config.get_or_default(&LIST_PORTS) && config.get_or_default(&LIST_PORTS_NODES).contains(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::TABLE;

    fn config(pairs: &[(&str, &str)]) -> Config {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (format!("GASNET_{name}").into(), (*value).into()));
        Config::from_env(&[TABLE], pairs).unwrap()
    }

    #[test]
    fn every_setting_has_its_variables() {
        let of = |pairs| Settings::of(&config(pairs));
        let all = of(&[
            ("IBV_GID_INDEX", "3"),
            ("IBV_PKEY", "0x8012"),
            ("MAX_MTU", "1024"),
            ("IBV_SERVICE_LEVEL", "5"),
            ("IBV_TRAFFIC_CLASS", "104"),
            ("IBV_PORTS_VERBOSE", "2"),
        ]);
        assert_eq!((all.gid_index, all.pkey, all.mtu), (Some(3), Some(0x8012), Some(3)));
        assert_eq!((all.service_level, all.traffic_class, all.verbosity), (5, Some(104), 2));
        assert_eq!(all.obsolete, None);
        assert_eq!(of(&[("PORT_NUM", "2")]).obsolete, Some("GASNET_PORT_NUM"));
        assert_eq!(of(&[("HCA_ID", "x")]).obsolete, Some("GASNET_HCA_ID"));
        let none = of(&[]);
        assert_eq!(
            (none.gid_index, none.pkey, none.mtu, none.verbosity),
            (None, None, None, 1)
        );
    }

    #[test]
    fn processes_may_want_different_ports() {
        let pairs = [
            ("IBV_PORTS", "a"),
            ("IBV_PORTS_1", "b:2"),
            ("IBV_PORTS_TYPE", "HRank % 2"),
            ("IBV_MAX_HCAS", "3"),
            ("NUM_QPS", "4"),
        ];
        let settings = Settings::of(&config(&pairs));
        let wanted = |host| {
            settings.wanted(Ranks {
                host,
                ..Ranks::default()
            })
        };
        let named = |variable: &str, value: &str| Some((format!("GASNET_IBV_{variable}"), value.to_owned()));
        assert_eq!(
            [2, 3].map(|host| wanted(host).ports),
            [named("PORTS", "a"), named("PORTS_1", "b:2")]
        );
        let one = wanted(5);
        assert_eq!((one.hcas, one.queue_pairs, one.turn), (Some(3), 4, 5));
    }

    #[test]
    fn mtus() {
        let mtus = ["-1", "0", "256", "512", "1024", "2048", " 4096"].map(mtu);
        assert_eq!(mtus, [None, None, Some(1), Some(2), Some(3), Some(4), Some(5)].map(Ok));
        let valid = |text| MAX_MTU.variable.parse(text).is_ok();
        assert!(valid("-1") && !valid("1500") && !valid("-2") && !valid("auto"));
    }

    #[test]
    fn listing_ranks() {
        let lists = |pairs| [0, 1, 2].map(|rank| lists_ports_in(&config(pairs), rank));
        assert_eq!(lists(&[("IBV_LIST_PORTS", "1")]), [true; 3]);
        let some = [("IBV_LIST_PORTS", "1"), ("IBV_LIST_PORTS_NODES", "1-2")];
        assert_eq!(lists(&some), [false, true, true]);
        assert_eq!(lists(&some[1..]), [false; 3]);
    }
}
