//! LIDs and GIDs of ports, and the port that an address vector names. All ports of a subnet reach
//! each other, also through the same port; on Ethernet, routers connect all. Word `fabric` divides
//! them.

use std::sync::atomic::Ordering::Relaxed;

use crate::config::{Config, Link};
use crate::ports::Entry;
use crate::process::Process;
use crate::shm::{Port, DEVICES, PORTS};

/// Values of `ibv_gid_type`.
pub const TYPE_IB: u32 = 0;
pub const TYPE_ROCE_V1: u32 = 1;
pub const TYPE_ROCE_V2: u32 = 2;

/// IPv4 addresses as GIDs.
pub const V4_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// An address as an address vector has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    Lid(u16),
    Gid([u8; 16]),
}

/// The path of an address handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector {
    /// From this port.
    pub port: Port,
    pub to: Address,
    /// The destination GID, if datagrams have a global route header.
    pub dgid: Option<[u8; 16]>,
    pub sgid_index: u32,
    pub service_level: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// The receiver of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    pub vector: Vector,
    pub qpn: u32,
    pub qkey: u32,
}

/// Entries of the GID tables of a device, used or not.
pub fn gid_table_len(config: &Config, device: u32) -> u32 {
    match config.link(device) {
        Link::InfiniBand => 8,
        Link::Roce => 16,
    }
}

/// The GUID of a device (`port` None) or of a port.
pub fn guid(device: u32, port: Option<u32>) -> u64 {
    0x0200_5eff_fe00_0000 | u64::from(device) << 8 | port.map_or(0, |p| u64::from(p) + 1)
}

/// The first LID of a port; 0 on RoCE. LIDs count in each fabric. Those that have changed follow
/// the others.
pub fn lid(config: &Config, port: Port) -> u16 {
    let words = &config.of_ports;
    match config.link(port.device) {
        Link::InfiniBand if words.has_lid(port) => {
            let fabric = words.fabric(port.device);
            let before = (0..port.device)
                .filter(|&device| words.fabric(device) == fabric)
                .count();
            let moved = if words.has_moved(port) { DEVICES * PORTS } else { 0 };
            ((1 + moved + before * PORTS + port.port as usize) << words.lmc) as u16
        }
        _ => 0,
    }
}

/// The GID at an index and its type; None: the entry is not used, or not by this process.
pub fn gid(config: &Config, port: Port, index: u32) -> Option<([u8; 16], u32)> {
    match config.of_ports.gid(port, index) {
        None => usual_gid(config, port, index),
        Some(Entry::None | Entry::Foreign) => None,
        Some(Entry::Address(address, is_v1)) => {
            Some((address.octets(), if is_v1 { TYPE_ROCE_V1 } else { TYPE_ROCE_V2 }))
        }
    }
}

/// The GID at an index without the words of single ports.
pub fn usual_gid(config: &Config, port: Port, index: u32) -> Option<([u8; 16], u32)> {
    let mut link_local = [0; 16];
    let link = config.link(port.device);
    let prefix = match link {
        Link::InfiniBand => config.of_ports.subnet(port.device),
        Link::Roce => 0xfe80 << 48,
    };
    link_local[..8].copy_from_slice(&prefix.to_be_bytes());
    link_local[8..].copy_from_slice(&guid(port.device, Some(port.port)).to_be_bytes());
    let mut v4 = [0; 16];
    v4[10..].copy_from_slice(&[0xff, 0xff, 10, port.port as u8, port.device as u8, 1]);
    match (link, index) {
        (Link::InfiniBand, 0) => Some((link_local, TYPE_IB)),
        (Link::Roce, 0 | 2) if !config.roce_v1 => None,
        (Link::Roce, 0) => Some((link_local, TYPE_ROCE_V1)),
        (Link::Roce, 1) => Some((link_local, TYPE_ROCE_V2)),
        (Link::Roce, 2) => Some((v4, TYPE_ROCE_V1)),
        (Link::Roce, 3) => Some((v4, TYPE_ROCE_V2)),
        _ => None,
    }
}

/// The port that has an address, among those that a port reaches.
pub fn find(config: &Config, from: Port, address: Address) -> Option<Port> {
    let is_reached = |port: &Port| {
        let [one, other] = [from, *port].map(|port| config.of_ports.subnet(port.device));
        let fabrics = [from, *port].map(|port| config.of_ports.fabric(port.device));
        let links = [from, *port].map(|port| config.link(port.device));
        fabrics[0] == fabrics[1] && links[0] == links[1] && (links[0] == Link::Roce || one == other)
    };
    ports(config).filter(is_reached).find(|&port| match address {
        Address::Lid(wanted) => {
            let lid = lid(config, port);
            lid != 0 && wanted >> config.of_ports.lmc == lid >> config.of_ports.lmc
        }
        Address::Gid(wanted) => {
            (0..gid_table_len(config, port.device)).any(|i| gid(config, port, i).is_some_and(|(gid, _)| gid == wanted))
        }
    })
}

/// Whether packets between two GIDs of RoCE v2 with this hop limit arrive: IPv4 and IPv6 do not
/// mix, and the first router drops those with 1 or less.
pub fn survives(hop_limit: u8, from: &[u8; 16], to: &[u8; 16]) -> bool {
    /// Bytes that two GIDs of an IP subnet (10.1.0.0/16) have in common.
    const SUBNET: usize = 14;
    let [one, other] = [from, to].map(|gid| gid[..12] == V4_PREFIX);
    one == other && (hop_limit > 1 || from[..SUBNET] == to[..SUBNET])
}

/// The port of a number, which counts from 1.
pub fn port_numbered(config: &Config, device: u32, number: impl Into<u32>) -> Option<Port> {
    let port = number.into().checked_sub(1).filter(|&port| port < config.ports)?;
    Some(Port { device, port })
}

fn ports(config: &Config) -> impl Iterator<Item = Port> {
    let ports = config.ports;
    (0..config.hcas).flat_map(move |device| (0..ports).map(move |port| Port { device, port }))
}

impl Process {
    /// Err: EIO, if a device has failed: its calls do, too.
    pub fn check(&self, device: u32) -> Result<(), i32> {
        let is_open = self.fabric.opened_ns.load(Relaxed) != 0;
        let has_failed = self.config.device_fatal.iter().any(|(failing, after)| {
            *failing == device && is_open && u128::from(self.fault_time_ns()) >= after.as_nanos()
        });
        if has_failed {
            return Err(libc::EIO);
        }
        Ok(())
    }

    /// Whether a port is up at this moment.
    pub fn port_is_up(&self, port: Port) -> bool {
        let config = &self.config;
        if config.port_down.is_empty() && config.device_fatal.is_empty() {
            return true;
        }
        let since = u128::from(self.fault_time_ns());
        let down = config.port_down.iter().any(|fault| {
            (fault.device, fault.port) == (port.device, port.port)
                && since >= fault.after.as_nanos()
                && fault.up.is_none_or(|up| since < up.as_nanos())
        });
        !down
            && !config
                .device_fatal
                .iter()
                .any(|(device, after)| *device == port.device && since >= after.as_nanos())
    }
}

const _: () = assert!((1 + 2 * DEVICES * PORTS) << 7 < 0xc000, "LIDs of unicast");

#[cfg(test)]
mod tests {
    use emulator_common::words::Words;

    use super::*;

    #[test]
    fn every_address_names_its_port() {
        for link in ["ib", "roce"] {
            let config = Config::parse(&format!("dir=/d hcas=3 ports=2 link={link}")).unwrap();
            for port in ports(&config) {
                if config.link(port.device) == Link::InfiniBand {
                    assert_eq!(find(&config, port, Address::Lid(lid(&config, port))), Some(port));
                }
                for index in 0..gid_table_len(&config, port.device) {
                    if let Some((gid, _)) = gid(&config, port, index) {
                        assert_eq!(find(&config, port, Address::Gid(gid)), Some(port));
                    }
                }
            }
            let first = Port { device: 0, port: 0 };
            assert_eq!(find(&config, first, Address::Lid(0)), None);
        }
    }
}
