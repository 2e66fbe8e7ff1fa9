//! Words of EMU_VERBS about single devices and ports: partitions, GIDs, subnets, global headers,
//! MTUs.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use emulator_common::words::{hexadecimal, number, yes};
use gasnet_ibv_abi as abi;

use crate::shm::{Port, DEVICES, PORTS};

/// Entries of the GID table before those of IP addresses.
const LINK_LOCAL: u32 = 2;

/// Replacement of an entry of a GID table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A hole.
    None,
    /// Entry of an interface in another network namespace: its address can be read, its type not,
    /// and no packet leaves from it.
    Foreign,
    /// An address, and whether it is one of RoCE v1.
    Address(Ipv6Addr, bool),
}

/// Its place; no index: the whole table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Gid {
    port: Port,
    index: Option<u32>,
    entry: Entry,
}

emulator_common::words! {
    /// Deviations from the defaults.
    pub struct Ports {
        partitions: Vec<(Port, Vec<u16>)> = Vec::new(), "pkeys" += partitions;
        gids: Vec<Gid> = Vec::new(), "gid" += gid;
        subnets: Vec<(u32, u64)> = Vec::new(), "subnet" += |text| device_and(text, hexadecimal);
        /// Active MTU of all ports of a device, in bytes.
        mtus: Vec<(u32, u32)> = Vec::new(), "mtu" += |text| device_and(text, mtu);
        need_global: Vec<Port> = Vec::new(), "grh" += port;
        without_lid: Vec<Port> = Vec::new(), "no-lid" += port;
        unreadable: Vec<Port> = Vec::new(), "unreadable-port" += port;
        unopened: Vec<u32> = Vec::new(), "no-open" += number;
        /// Devices have no GUID.
        pub no_guid: bool = false, "no-guid" => yes;
        /// A port has two to the power of this LIDs.
        pub lmc: u8 = 0, "lmc" => |text| number(text).map(|bits: u8| bits.min(7));
        /// All memory consists of huge pages, and the kernel copies no pinned pages at a fork.
        pub huge_pages: bool = false, "huge-pages" => yes;
        /// Fabrics of devices, which no packet leaves; 0: that of others.
        fabrics: Vec<(u32, u32)> = Vec::new(), "fabric" += |text| device_and(text, number);
        /// Ports whose LIDs change at an event, and P_Key tables that ports get at one.
        pub lid_changes: Vec<Port> = Vec::new();
        pub later_partitions: Vec<(Port, Vec<u16>)> = Vec::new();
        /// Devices, by bit, of which the GIDs of IP addresses have vanished.
        gone: Arc<AtomicU32> = Arc::default();
        /// Ports, by bit, whose LIDs and P_Keys have changed.
        moved: Arc<AtomicU64> = Arc::default();
        repartitioned: Arc<AtomicU64> = Arc::default();
    }
}

impl Ports {
    /// Ports that words name.
    pub fn ports(&self) -> impl Iterator<Item = Port> + '_ {
        let lists = [
            &self.need_global,
            &self.without_lid,
            &self.unreadable,
            &self.lid_changes,
        ];
        let tables = self.partitions.iter().chain(&self.later_partitions);
        let ports = lists.into_iter().flatten().chain(tables.map(|word| &word.0));
        ports.chain(self.gids.iter().map(|gid| &gid.port)).copied()
    }

    /// Devices that words name.
    pub fn devices(&self) -> impl Iterator<Item = u32> + '_ {
        let ports = self.ports().map(|port| port.device);
        let devices = self.subnets.iter().map(|word| word.0);
        let devices = devices
            .chain(self.mtus.iter().map(|word| word.0))
            .chain(self.fabrics.iter().map(|word| word.0));
        ports.chain(devices).chain(self.unopened.iter().copied())
    }

    /// The P_Key table of a port.
    pub fn partitions(&self, port: Port) -> &[u16] {
        let is_later = self.repartitioned.load(Relaxed) & bit(port) != 0;
        let tables = if is_later {
            &self.later_partitions
        } else {
            &self.partitions
        };
        let own = tables.iter().rfind(|word| word.0 == port);
        own.map_or(&[0xffff], |word| &word.1)
    }

    /// The P_Key at an index of the table of a port; 0: there is none. Packets of a port without a
    /// table have the default one.
    pub fn partition(&self, port: Port, index: u32) -> u16 {
        match self.partitions(port) {
            [] => 0xffff,
            keys => keys.get(index as usize).copied().unwrap_or(0),
        }
    }

    /// Whether a QP may name an index of the P_Key table of a port.
    pub fn has_partition(&self, port: Port, index: u16) -> bool {
        usize::from(index) < self.partitions(port).len().max(1)
    }

    /// An event of a port changes it, if a word says so.
    pub fn change(&self, kind: u32, port: Port) {
        match kind {
            abi::IBV_EVENT_LID_CHANGE if self.lid_changes.contains(&port) => {
                self.moved.fetch_or(bit(port), Relaxed);
            }
            abi::IBV_EVENT_PKEY_CHANGE if self.later_partitions.iter().any(|word| word.0 == port) => {
                self.repartitioned.fetch_or(bit(port), Relaxed);
            }
            _ => {}
        }
    }

    /// Whether the LIDs of a port have changed.
    pub fn has_moved(&self, port: Port) -> bool {
        self.moved.load(Relaxed) & bit(port) != 0
    }

    /// The fabric of a device.
    pub fn fabric(&self, device: u32) -> u32 {
        self.fabrics
            .iter()
            .rfind(|word| word.0 == device)
            .map_or(0, |word| word.1)
    }

    /// The GIDs of IP addresses of a device vanish.
    pub fn remove_addresses(&self, device: u32) {
        self.gone.fetch_or(1 << device, Relaxed);
    }

    /// The entry that replaces one of the GID table of a port.
    pub fn gid(&self, port: Port, index: u32) -> Option<Entry> {
        if index >= LINK_LOCAL && self.gone.load(Relaxed) & 1 << port.device != 0 {
            return Some(Entry::None);
        }
        let is_this = |gid: &&Gid| gid.port == port && gid.index.is_none_or(|own| own == index);
        self.gids.iter().rfind(is_this).map(|gid| gid.entry)
    }

    /// The subnet prefix of a device.
    pub fn subnet(&self, device: u32) -> u64 {
        /// Prefix of subnets to which their managers give none.
        const DEFAULT: u64 = 0xfe80 << 48;
        let own = self.subnets.iter().rfind(|word| word.0 == device);
        own.map_or(DEFAULT, |word| word.1)
    }

    /// The active MTU of a port in bytes.
    pub fn mtu(&self, port: Port) -> u32 {
        let own = self.mtus.iter().rfind(|word| word.0 == port.device);
        own.map_or(4096, |word| word.1)
    }

    /// Whether packets of a port must have a global header.
    pub fn needs_global(&self, port: Port) -> bool {
        self.need_global.contains(&port)
    }

    pub fn has_lid(&self, port: Port) -> bool {
        !self.without_lid.contains(&port)
    }

    /// Whether `ibv_open_device` fails.
    pub fn is_unopened(&self, device: u32) -> bool {
        self.unopened.contains(&device)
    }

    /// Whether `ibv_query_port` fails.
    pub fn is_unreadable(&self, port: Port) -> bool {
        self.unreadable.contains(&port)
    }
}

/// A port in a set.
fn bit(port: Port) -> u64 {
    1 << (port.device * PORTS as u32 + port.port)
}

/// Whether QPs with these P_Keys take each other's packets: the same partition, and not two limited
/// members of it.
pub fn is_one_partition(keys: [u16; 2]) -> bool {
    const FULL: u16 = 0x8000;
    let [one, other] = keys.map(|key| key & !FULL);
    one == other && one != 0 && (keys[0] | keys[1]) & FULL != 0
}

fn mtu(text: &str) -> Result<u32, String> {
    number(text)
        .ok()
        .filter(|bytes: &u32| bytes.is_power_of_two() && (256..=4096).contains(bytes))
        .ok_or_else(|| "must be 256, 512, 1024, 2048 or 4096".to_string())
}

/// A number of a device, and what belongs to it.
pub fn device_and<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<(u32, T), String> {
    let (device, rest) = text.split_once(':').ok_or("needs DEVICE:VALUE")?;
    Ok((number(device)?, parse(rest)?))
}

/// DEVICE:PORT, and what follows.
pub fn port_and(value: &str) -> Result<(Port, &str), String> {
    let mut fields = value.splitn(3, ':');
    let device = number(fields.next().unwrap_or_default())?;
    let port: u32 = number(fields.next().unwrap_or_default())?;
    let port = port.checked_sub(1).ok_or("ports count from 1")?;
    Ok((Port { device, port }, fields.next().unwrap_or_default()))
}

fn port(value: &str) -> Result<Port, String> {
    port_and(value).map(|(port, _)| port)
}

fn partitions(value: &str) -> Result<(Port, Vec<u16>), String> {
    let (port, keys) = port_and(value)?;
    Ok((port, keys_of(keys)?))
}

/// P_Keys between commas, or none.
pub fn keys_of(text: &str) -> Result<Vec<u16>, String> {
    let keys = text.split(',').filter(|key| !key.is_empty());
    keys.map(|key| hexadecimal(key).map(|key| key as u16)).collect()
}

fn gid(value: &str) -> Result<Gid, String> {
    let (port, rest) = port_and(value)?;
    let (index, entry) = rest.split_once(':').ok_or("needs DEVICE:PORT:INDEX:ENTRY")?;
    let index = match index {
        "*" => None,
        index => Some(number(index)?),
    };
    let entry = match entry {
        "none" => Entry::None,
        "foreign" => Entry::Foreign,
        text => {
            let (text, is_v1) = text.strip_prefix("v1,").map_or((text, false), |text| (text, true));
            let address = match text.parse() {
                Ok(IpAddr::V4(address)) => address.to_ipv6_mapped(),
                Ok(IpAddr::V6(address)) => address,
                Err(_) => return Err("must end in none, foreign or an address".to_string()),
            };
            Entry::Address(address, is_v1)
        }
    };
    Ok(Gid { port, index, entry })
}

const _: () = assert!(DEVICES * PORTS <= 64, "a set of ports has 64 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_partitions() {
        for (keys, is_one) in [
            ([0xffff, 0xffff], true),
            ([0xffff, 0x7fff], true),
            ([0x7fff, 0x7fff], false),
            ([0x8012, 0xffff], false),
            ([0x8000, 0x8000], false),
        ] {
            assert_eq!(is_one_partition(keys), is_one, "{keys:x?}");
        }
    }

    #[test]
    fn words_change_single_ports() {
        let mut ports = Ports::default();
        for (name, value) in [
            ("pkeys", "1:2:7fff,0x8012"),
            ("gid", "0:1:*:none"),
            ("gid", "0:1:3:v1,10.9.0.7"),
            ("subnet", "1:0xfec0000000000001"),
            ("mtu", "1:2048"),
        ] {
            assert_eq!(ports.set_word(name, value), Some(Ok(())), "{name}={value}");
        }
        let port = |device, port| Port { device, port };
        assert_eq!(ports.partitions(port(1, 1)), [0x7fff, 0x8012]);
        assert_eq!(ports.partition(port(0, 0), 1), 0);
        let address = "::ffff:10.9.0.7".parse().unwrap();
        assert_eq!(
            [2, 3].map(|index| ports.gid(port(0, 0), index)),
            [Some(Entry::None), Some(Entry::Address(address, true))]
        );
        assert_eq!([0, 1].map(|device| ports.subnet(device) >> 48), [0xfe80, 0xfec0]);
        assert_eq!([0, 1].map(|device| ports.mtu(port(device, 0))), [4096, 2048]);
        assert!(ports.set_word("gid", "0:1:3:x").is_some_and(|result| result.is_err()));
        assert_eq!(ports.set_word("nonsense", ""), None);
    }
}
