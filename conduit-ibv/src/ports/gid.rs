//! The choice of a port's GID.
#![forbid(unsafe_code)]

use crate::ffi::GidEntry;
use gasnet_ibv_abi as abi;
use gasnet_sys::net::HostAddress;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// An entry of the table of a port on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its index.
    pub index: u32,
    /// The address.
    pub address: Ipv6Addr,
    /// The version of RoCE; none: it cannot be read.
    pub version: Option<u8>,
}

impl Gid {
    /// An entry of the table of a port, whose attributes are in a folder below `root`. Libraries
    /// that do not tell the version leave it to the kernel's files. Those of entries of another
    /// network namespace cannot be read, though the library may tell it.
    pub fn new(entry: &GidEntry, root: &Path, hca: &str, port: u8) -> Self {
        let folder = format!("sys/class/infiniband/{hca}/ports/{port}/gid_attrs/types");
        let kind = match std::fs::read_to_string(root.join(folder).join(entry.index.to_string())) {
            Ok(text) => entry.kind.or_else(|| match text.trim() {
                "RoCE v2" => Some(abi::IBV_GID_TYPE_ROCE_V2),
                "" => None,
                _ => Some(abi::IBV_GID_TYPE_ROCE_V1),
            }),
            Err(why) if why.kind() == ErrorKind::NotFound => entry.kind,
            Err(_) => None,
        };
        Self {
            index: entry.index,
            address: entry.gid.into(),
            version: kind.map(|kind| if kind == abi::IBV_GID_TYPE_ROCE_V2 { 2 } else { 1 }),
        }
    }

    /// How little it suits a host with this address: RoCE v2 before v1, and that before entries
    /// that may not be ours; addresses that routers forward; the host's own, those of its network,
    /// those of its family. Of the rest the smallest: if the NIC has several networks (VLANs), the
    /// order of entries differs among hosts, but not that of addresses.
    fn rank(&self, host: &HostAddress) -> impl Ord {
        let address = match self.address.to_ipv4_mapped() {
            Some(address) => IpAddr::V4(address),
            None => IpAddr::V6(self.address),
        };
        (
            self.version.map_or(2, |version| 2 - version.min(2)),
            self.address.is_unicast_link_local(),
            address != host.ip,
            !host.network_has(address),
            address.is_ipv4() != host.ip.is_ipv4(),
            self.address,
        )
    }
}

/// The entry that suits a host with this address best; of equal ones the first.
pub fn choose<'a>(gids: &'a [Gid], host: &HostAddress) -> Option<&'a Gid> {
    gids.iter().min_by_key(|gid| gid.rank(host))
}

/// The address of this host, and its network. An address that no interface has is a network of its
/// own.
pub fn host(ip: IpAddr) -> HostAddress {
    let mut all = gasnet_sys::net::addresses().into_iter();
    let own = all.find(|address| address.ip == ip);
    own.unwrap_or(HostAddress { ip, prefix: u32::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, u8)]) -> Vec<Gid> {
        let entry = |(index, (address, version)): (usize, &(&str, u8))| Gid {
            index: index as u32,
            address: address.parse().unwrap(),
            version: (*version > 0).then_some(*version),
        };
        entries.iter().enumerate().map(entry).collect()
    }

    fn chosen(all: &[Gid], host: &str, prefix: u32) -> Option<u32> {
        let ip = host.parse().unwrap();
        choose(all, &HostAddress { ip, prefix }).map(|gid| gid.index)
    }

    #[test]
    fn the_address_of_the_host_is_preferred() {
        let all = table(&[
            ("fe80::1", 1),
            ("fe80::1", 2),
            ("::ffff:10.1.0.7", 1),
            ("::ffff:10.9.0.7", 2),
            ("::ffff:10.1.0.7", 2),
            ("2001:db8::7", 2),
        ]);
        assert_eq!(chosen(&all, "10.9.0.7", 16), Some(3));
        assert_eq!(chosen(&all, "10.9.3.3", 16), Some(3));
        assert_eq!(chosen(&all, "2001:db8::9", 64), Some(5));
        assert_eq!(chosen(&all, "fd00::1", 64), Some(5));
        assert_eq!(chosen(&all[..4], "192.168.0.1", 24), Some(3));
        assert_eq!(chosen(&all[..3], "10.1.0.7", 16), Some(1));
        assert_eq!(chosen(&[all[0], all[2]], "10.1.0.7", 16), Some(2));
        assert_eq!(chosen(&all[..1], "10.1.0.7", 16), Some(0));
        assert_eq!(chosen(&[], "10.1.0.7", 16), None);
        // Equal ones.
        assert_eq!(chosen(&[all[4], all[4]], "10.1.0.7", 16), Some(4));
    }

    #[test]
    fn hosts_choose_the_same_network_of_several() {
        let networks = ["::ffff:172.16.5.", "::ffff:10.2.0."];
        let host = |order: [usize; 2], number: u8, address: &str| {
            let own = order.map(|network| format!("{}{number}", networks[network]));
            let all = table(&[("fe80::1", 2), (&own[0], 2), (&own[1], 2)]);
            let index = chosen(&all, address, 24).unwrap() as usize;
            all[index].address.segments()[6]
        };
        // None of the hosts' addresses is in one of them.
        let found = [
            host([0, 1], 7, "192.168.1.7"),
            host([1, 0], 8, "192.168.1.8"),
            host([0, 1], 9, "10.200.0.9"),
        ];
        assert_eq!(found, [0x0a02; 3]);
    }

    #[test]
    fn entries_of_an_unknown_type_are_the_last_choice() {
        let all = table(&[("::ffff:10.1.0.7", 0), ("fe80::1", 1), ("fe80::1", 2)]);
        assert_eq!(chosen(&all, "10.1.0.7", 16), Some(2));
        assert_eq!(chosen(&all[..2], "10.1.0.7", 16), Some(1));
        assert_eq!(chosen(&all[..1], "10.1.0.7", 16), Some(0));
    }

    #[test]
    fn versions() {
        let root = std::env::temp_dir().join(format!("gasnet-ibv-gids-{}", std::process::id()));
        let folder = root.join("sys/class/infiniband/mlx4_0/ports/2/gid_attrs/types");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("0"), "IB/RoCE v1\n").unwrap();
        std::fs::write(folder.join("1"), "RoCE v2\n").unwrap();
        let version = |index, kind| {
            let gid = [0; 16];
            Gid::new(&GidEntry { index, gid, kind }, &root, "mlx4_0", 2).version
        };
        let versions = [0, 1, 2].map(|index| version(index, None));
        // A file that cannot be read is that of another namespace.
        std::fs::create_dir(folder.join("3")).unwrap();
        let foreign = version(3, Some(abi::IBV_GID_TYPE_ROCE_V2));
        let known = [
            abi::IBV_GID_TYPE_IB,
            abi::IBV_GID_TYPE_ROCE_V1,
            abi::IBV_GID_TYPE_ROCE_V2,
        ]
        .map(|kind| version(1, Some(kind)));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(foreign, None);
        assert_eq!((versions, known), ([Some(1), Some(2), None], [1, 1, 2].map(Some)));
    }
}
