//! The choice of a port's GID.
#![forbid(unsafe_code)]

use crate::verbs::GidEntry;
use gasnet_ibv_abi as ffi;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// An entry of the table of a port on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its index.
    pub index: u32,
    /// The address.
    pub address: Ipv6Addr,
    /// The version of RoCE.
    pub version: u8,
}

impl Gid {
    /// An entry of the table of a port, whose attributes are in a folder below `root`. Libraries
    /// that do not tell the version leave it to the kernel's files; without them it is 2.
    pub fn new(entry: &GidEntry, root: &Path, (hca, port): (&str, u8)) -> Self {
        let kind = entry.kind.or_else(|| {
            let folder = format!("sys/class/infiniband/{hca}/ports/{port}/gid_attrs/types");
            let text = std::fs::read_to_string(root.join(folder).join(entry.index.to_string())).ok()?;
            Some(if text.trim() == "RoCE v2" {
                ffi::IBV_GID_TYPE_ROCE_V2
            } else {
                ffi::IBV_GID_TYPE_ROCE_V1
            })
        });
        Self {
            index: entry.index,
            address: entry.gid.into(),
            version: match kind {
                None | Some(ffi::IBV_GID_TYPE_ROCE_V2) => 2,
                Some(_) => 1,
            },
        }
    }

    /// How little it suits a host with this address: RoCE v2 before v1, then addresses that routers
    /// forward, and of those the ones that share most leading bits with the host's.
    fn rank(&self, host: IpAddr) -> (bool, bool, u32) {
        let host = match host {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let common = (u128::from(host) ^ u128::from(self.address)).leading_zeros();
        let is_link_local = self.address.segments()[0] & 0xffc0 == 0xfe80;
        (self.version != 2, is_link_local, 128 - common)
    }
}

/// The entry that suits a host with this address best; of equal ones the first.
pub fn choose(gids: &[Gid], host: IpAddr) -> Option<&Gid> {
    gids.iter().min_by_key(|gid| gid.rank(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, u8)]) -> Vec<Gid> {
        let entry = |(index, (address, version)): (usize, &(&str, u8))| Gid {
            index: index as u32,
            address: address.parse().unwrap(),
            version: *version,
        };
        entries.iter().enumerate().map(entry).collect()
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
        let of = |all: &[Gid], host: &str| choose(all, host.parse().unwrap()).map(|gid| gid.index);
        assert_eq!(of(&all, "10.1.0.7"), Some(4));
        assert_eq!(of(&all, "10.1.0.200"), Some(4));
        assert_eq!(of(&all, "10.9.3.3"), Some(3));
        assert_eq!(of(&all, "2001:db8::9"), Some(5));
        assert_eq!(of(&all[..4], "192.168.0.1"), Some(3));
        assert_eq!(of(&all, "fd00::1"), Some(3));
        assert_eq!(of(&all[..3], "10.1.0.7"), Some(1));
        assert_eq!(of(&[all[0], all[2]], "10.1.0.7"), Some(2));
        assert_eq!(of(&all[..1], "10.1.0.7"), Some(0));
        assert_eq!(of(&[], "10.1.0.7"), None);
        // Equal ones.
        assert_eq!(of(&[all[4], all[4]], "10.1.0.7"), Some(4));
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
            Gid::new(&GidEntry { index, gid, kind }, &root, ("mlx4_0", 2)).version
        };
        let versions = [0, 1, 2].map(|index| version(index, None));
        let known = [
            ffi::IBV_GID_TYPE_IB,
            ffi::IBV_GID_TYPE_ROCE_V1,
            ffi::IBV_GID_TYPE_ROCE_V2,
        ]
        .map(|kind| version(1, Some(kind)));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((versions, known), ([1, 2, 2], [1, 1, 2]));
    }
}
