//! The exchange at start, and a check that the processes fit together.
#![forbid(unsafe_code)]

use crate::connect::policy::Kind;
use crate::peers::Mailbox;
use crate::ports::{pkey, Link, MOST_PATHS};
use gasnet_conduit::{JobRank, Place};
use gasnet_conduit_util::record;
use std::collections::HashMap;
use std::net::Ipv6Addr;

record! {
    /// The part of a process in the exchange.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[allow(clippy::struct_excessive_bools, reason = "each is independent")]
    pub struct BootRecord {
        /// Queue pairs of a connection; 0: it has failed, as in the default.
        pub paths: u8,
        /// HCAs that it uses.
        pub rails: u8,
        /// A bit for each path: whether it is on another HCA than the path before.
        pub turns: u8,
        pub link: Link,
        /// A bit for each path: whether its GID is an IPv4 address.
        pub ipv4: u8,
        /// Whether its HCAs have atomics.
        pub has_atomics: bool,
        /// Whether they page on demand.
        pub has_on_demand: bool,
        /// Whether it wants to find out how much memory can be registered.
        pub probes: bool,
        /// Whether its packets have a global header.
        pub is_global: bool,
        /// Whether its receive queues are for XRC.
        pub has_xrc: bool,
        /// To whom it wants to be connected at start.
        pub connects: Kind,
        /// Bytes of the largest packet.
        pub max_packet: u32,
        /// Credits that a peer may keep.
        pub spare_credits: u16,
        /// Requests that a peer may have under way, and bytes of the receive buffers for them.
        pub credits: u16,
        pub buffer: u32,
        /// Names its first HCA, on its host.
        pub hca: u64,
        /// Equal in processes of a host that use the same ports in the same way.
        pub ports: u64,
        /// By path, the partition key of its port; 0: not known.
        pub pkeys: [u16; MOST_PATHS],
        /// Its queue pair for datagrams, and the address of its first path. Number 0: its HCA has
        /// none.
        pub mailbox: Mailbox,
    }
}

/// By path, whether it is on another rail than the path before.
pub fn turns(rails: impl Iterator<Item = usize>) -> u8 {
    let (mut last, mut turns) = (None, 0);
    for (path, rail) in rails.enumerate() {
        let is_other = last.replace(rail).is_some_and(|last| last != rail);
        turns |= u8::from(is_other) << path;
    }
    turns
}

const _: () = assert!(MOST_PATHS <= u8::BITS as usize);

/// By path, whether its GID is an IPv4 address.
pub fn ipv4(gids: impl Iterator<Item = [u8; 16]>) -> u8 {
    let bits = gids.map(|gid| u8::from(Ipv6Addr::from(gid).to_ipv4_mapped().is_some()));
    bits.enumerate().fold(0, |bits, (path, bit)| bits | bit << path)
}

impl BootRecord {
    /// Whether it has a queue pair for datagrams.
    pub fn has_datagrams(&self) -> bool {
        self.mailbox.number != 0
    }

    /// The address of a path in messages: its GID if that is known.
    fn address(&self, path: usize) -> String {
        match self.ipv4 >> path & 1 {
            _ if path == 0 => Ipv6Addr::from(self.mailbox.address.gid).to_string(),
            1 => "an IPv4 address".to_owned(),
            _ => "an IPv6 address".to_owned(),
        }
    }

    /// The first path on which packets of RoCE v2 are of IPv4 at one end and of IPv6 at the other.
    fn mixed_families(&self, other: &Self) -> Option<usize> {
        let common = usize::from(self.paths.min(other.paths)).min(MOST_PATHS);
        let mut paths = (0..common).filter(|path| (self.ipv4 ^ other.ipv4) >> path & 1 != 0);
        paths.next().filter(|_| self.link == Link::Roce(2))
    }

    /// The first path whose ends are in different partitions.
    fn other_partition(&self, other: &Self) -> Option<usize> {
        let mut ends = self.pkeys.iter().zip(&other.pkeys);
        ends.position(|(own, other)| !pkey::may_agree(*own, *other))
    }

    /// Whether processes of a host use different HCAs, or one uses several.
    pub fn some_host_has_several_hcas(all: &[Self], place_of: &dyn Fn(JobRank) -> Place) -> bool {
        let mut first: HashMap<u32, u64> = HashMap::new();
        all.iter().zip(0..).any(|(record, rank)| {
            let host = place_of(JobRank(rank)).host;
            record.rails > 1 || *first.entry(host).or_insert(record.hca) != record.hca
        })
    }

    /// Whether a process fits all others. The error names one that does not.
    pub fn agree(all: &[Self], rank: JobRank) -> Result<(), String> {
        let own = &all[rank.index()];
        let differs = |what: &dyn Fn(&Self) -> bool| all.iter().position(|other| !what(other));
        if let Some(rank) = differs(&|other| other.paths > 0) {
            return Err(record::failed(rank));
        }
        if let Some(rank) = differs(&|other| other.link == own.link) {
            return Err(format!(
                "this rank is on {}, but rank {rank} is on {}. Choose ports of one kind with GASNET_IBV_PORTS, or a \
                 GID of one version with GASNET_IBV_GID_INDEX",
                own.link, all[rank].link
            ));
        }
        let path_to = |differs: &dyn Fn(&Self) -> Option<usize>| {
            let mut others = all.iter().enumerate();
            others.find_map(|(rank, other)| Some((rank, differs(other)?)))
        };
        let ends = |rank: usize, path: usize| match path {
            0 => ("this rank".to_owned(), format!("rank {rank}")),
            _ => (
                format!("path {} of this rank", path + 1),
                format!("that of rank {rank}"),
            ),
        };
        let hint = |path: usize| match path {
            0 => "",
            _ => ". GASNET_IBV_PORTS_VERBOSE=2 prints the paths",
        };
        if let Some((rank, path)) = path_to(&|other| own.mixed_families(other)) {
            return Err(format!(
                "the GID of {} is {}, but that of rank {rank} {}, and packets do not pass between IPv4 and IPv6. Give \
                 all ports addresses of one family, or name GIDs with GASNET_IBV_GID_INDEX{}",
                ends(rank, path).0,
                own.address(path),
                all[rank].address(path),
                hint(path)
            ));
        }
        if let Some((rank, path)) = path_to(&|other| own.other_partition(other)) {
            let (this, that) = ends(rank, path);
            return Err(format!(
                "{this} is in the partition {:#06x}, but {that} in {:#06x}. Name one of which all ports are full \
                 members with GASNET_IBV_PKEY{}",
                own.pkeys[path],
                all[rank].pkeys[path],
                hint(path)
            ));
        }
        if let Some(rank) = differs(&|other| (other.paths, other.rails) == (own.paths, own.rails)) {
            let other = &all[rank];
            return Err(format!(
                "this rank uses {} queue pairs on {} HCAs for each peer, but rank {rank} uses {} on {}. Set \
                 GASNET_IBV_PORTS or GASNET_NUM_QPS so that they are equal",
                own.paths, own.rails, other.paths, other.rails
            ));
        }
        // A path must lead from an HCA to the one of the same number, whose keys of memory count.
        if let Some(rank) = differs(&|other| other.turns == own.turns) {
            return Err(format!(
                "this rank and rank {rank} use different numbers of ports of their HCAs. Set GASNET_IBV_PORTS so that \
                 they are equal"
            ));
        }
        match differs(&|other| other.max_packet == own.max_packet) {
            Some(rank) => Err(format!(
                "this rank sends packets of up to {} bytes, but rank {rank} of up to {}. GASNET_IBV_MAX_MEDIUM must \
                 be the same in all processes",
                own.max_packet, all[rank].max_packet
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::Address;
    use gasnet_conduit_util::record::Record;

    const V4: [u8; 16] = Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x0a00, 1).octets();

    fn record() -> BootRecord {
        BootRecord {
            paths: 4,
            rails: 2,
            turns: 0b100,
            link: Link::Roce(2),
            ipv4: 0b0110,
            has_atomics: true,
            has_on_demand: true,
            probes: true,
            is_global: true,
            has_xrc: true,
            connects: Kind::Some,
            max_packet: 70_000,
            spare_credits: 1 << 14,
            credits: 48,
            buffer: 65_664,
            hca: 0x1234_5678_9abc_def0,
            ports: 0x0fed_cba9_8765_4321,
            pkeys: [0x8012, 0x8012, 0x8012, 0x8013, 0, 0, 0, 0],
            mailbox: Mailbox {
                address: Address {
                    lid: 0x1234,
                    gid: [7; 16],
                },
                number: 0xabcd,
            },
        }
    }

    #[test]
    fn everything_comes_back() {
        for record in [record(), BootRecord::default()] {
            let bytes: [u8; BootRecord::BYTES] = record.encode();
            assert_eq!(BootRecord::decode(&bytes), record);
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let with = |change: &dyn Fn(&mut BootRecord)| {
            let mut other = record();
            change(&mut other);
            BootRecord::agree(&[record(), record(), other], JobRank(0))
        };
        assert_eq!(with(&|_| ()), Ok(()));
        for (change, word) in [
            (
                &(|other: &mut BootRecord| other.paths = 0) as &dyn Fn(&mut BootRecord),
                "rank 2 failed to start",
            ),
            (&|other| other.link = Link::InfiniBand, "rank 2 is on InfiniBand"),
            (&|other| other.link = Link::Roce(1), "RoCE v1"),
            (
                &|other| (other.ipv4, other.mailbox.address.gid) = (0b0111, V4),
                "the GID of this rank is 707:707:707:707:707:707:707:707, but that of rank 2 ::ffff:10.0.0.1, and",
            ),
            (
                &|other| other.ipv4 = 0b0010,
                "the GID of path 3 of this rank is an IPv4 address, but that of rank 2 an IPv6 address, and",
            ),
            (
                &|other| other.pkeys[0] = 0x8013,
                "this rank is in the partition 0x8012, but rank 2 in 0x8013",
            ),
            (
                &|other| other.pkeys[3] = 0x8012,
                "path 4 of this rank is in the partition 0x8013, but that of rank 2 in 0x8012",
            ),
            // Paths that the other end lacks are not compared.
            (&|other| (other.paths, other.ipv4) = (2, 0b10), "GASNET_NUM_QPS"),
            (&|other| other.paths = 1, "GASNET_NUM_QPS"),
            (&|other| other.rails = 1, "GASNET_IBV_PORTS"),
            (&|other| other.turns = 0b10, "different numbers of ports"),
            (&|other| other.max_packet = 1, "GASNET_IBV_MAX_MEDIUM"),
        ] {
            let why = with(change).unwrap_err();
            assert!(why.contains(word) && why.contains("rank 2"), "{why}");
        }
    }

    #[test]
    fn paths_and_their_hcas() {
        assert_eq!(turns([0, 0, 1].into_iter()), 0b100);
        assert_eq!(turns([0, 1, 1].into_iter()), 0b010);
        assert_eq!(turns([0, 1, 0, 1, 0, 1, 0, 1].into_iter()), 0b1111_1110);
    }

    #[test]
    fn paths_and_their_addresses() {
        assert_eq!(ipv4([[7; 16], V4, V4].into_iter()), 0b110);
        let v1 = |ipv4| BootRecord {
            link: Link::Roce(1),
            ipv4,
            ..record()
        };
        assert_eq!(BootRecord::agree(&[v1(0), v1(1)], JobRank(0)), Ok(()));
    }

    #[test]
    fn hosts_with_several_hcas() {
        let place_of = |rank: JobRank| Place {
            host: rank.0 / 2,
            nbrhd: 0,
        };
        let several = |hcas: [u64; 4], rails| {
            let all = hcas.map(|hca| BootRecord { rails, hca, ..record() });
            BootRecord::some_host_has_several_hcas(&all, &place_of)
        };
        assert!(!several([1, 1, 2, 2], 1));
        assert!(several([1, 1, 2, 3], 1));
        assert!(several([1, 1, 2, 2], 2));
    }
}
