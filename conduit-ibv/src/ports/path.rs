//! A port that a process uses, and numbers by which processes of a host compare theirs.
#![forbid(unsafe_code)]

use crate::ffi::{Context, LocalPort};

/// A port of an HCA: where queue pairs of each connection are.
pub struct Path {
    /// Its HCA.
    pub rail: usize,
    pub port: LocalPort,
    /// Another port of the HCA, over which traffic goes on if this one goes down.
    pub alternate: Option<LocalPort>,
    /// `IBV_MTU_*`.
    pub mtu: u8,
    /// Gets and atomics of a peer that the HCA executes at a time.
    pub reads: u8,
    /// The same of this process at the peer.
    pub initiated: u8,
    /// Bytes of the largest operation.
    pub max_message: usize,
}

impl Path {
    /// Equal in two processes of a host for paths that are the same.
    pub fn identity(&self, context: &Context) -> [u64; 5] {
        let (port, gid) = (&self.port, u128::from_le_bytes(self.port.address.gid));
        let small = [
            port.number,
            self.mtu,
            self.reads,
            self.initiated,
            port.gid_index,
            port.service_level,
            u8::from(port.is_global),
            port.traffic_class,
        ];
        [
            hca_identity(context),
            u64::from(port.address.lid) << 16 | u64::from(port.pkey_index),
            gid as u64,
            (gid >> 64) as u64,
            u64::from_le_bytes(small),
        ]
    }
}

/// Bytes of the largest operation of a port that reports this. The driver of mana leaves it 0
/// (torvalds/linux@844e31bb: drivers/infiniband/hw/mana/main.c); then the limit of the InfiniBand
/// specification counts.
pub fn largest_message(reported: u32) -> usize {
    match reported {
        0 => 1 << 31,
        bytes => bytes as usize,
    }
}

/// Mixes values to one. Equal ones give the same in all processes.
pub fn mix(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, |sum, value| {
        let mixed = (sum.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    })
}

/// A number for an HCA, the same in all processes of a host: its GUID. Virtual functions may have
/// none; then that of its name.
pub fn hca_identity(context: &Context) -> u64 {
    match context.attributes.node_guid {
        0 => mix(context.name.bytes().map(u64::from)),
        guid => guid,
    }
}
