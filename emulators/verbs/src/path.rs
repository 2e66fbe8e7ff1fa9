//! The paths of connected QPs: the own port, and the address vector of the peer's.

use std::sync::atomic::Ordering::Relaxed;

use gasnet_ibv_abi as abi;

use crate::address::{self, Address};
use crate::config::{Config, Link};
use crate::handle::zeroed;
use crate::ports::is_one_partition;
use crate::shm::{Path, Port};

/// A GID as two numbers.
fn gid_words(gid: &abi::ibv_gid) -> (u64, u64) {
    // SAFETY: both variants are plain bytes.
    let raw = unsafe { gid.raw };
    let word = |n: usize| raw[n..n + 8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    (word(0), word(8))
}

/// Whether a port can send to an address vector: RoCE, and ports that require a global header, need
/// a GID, and the own GID must exist. The own LID must be one of the port.
pub fn vector_is_valid(config: &Config, port: Port, vector: &abi::ibv_ah_attr) -> bool {
    let global = vector.is_global != 0;
    (global || config.link(port.device) == Link::InfiniBand && !config.of_ports.needs_global(port))
        && vector.src_path_bits >> config.of_ports.lmc == 0
        && (!global || address::gid(config, port, u32::from(vector.grh.sgid_index)).is_some())
}

/// An end of a connection: a path, and its own port.
#[derive(Clone, Copy)]
pub struct End<'a> {
    pub path: &'a Path,
    pub port: Port,
}

/// Whether packets of each of two QPs arrive on the path of the other.
pub fn are_connected(config: &Config, [own, other]: [End; 2]) -> bool {
    let words = &config.of_ports;
    let key = |end: End| words.partition(end.port, end.path.pkey_index.load(Relaxed));
    let arrive = |from: End, to: End| {
        let destination = from.path.destination(config, from.port.device);
        let is_named = match destination {
            Address::Lid(lid) => u32::from(lid) == u32::from(address::lid(config, to.port)) | to.path.source_bits(),
            Address::Gid(_) => true,
        };
        is_named
            && address::find(config, from.port, destination) == Some(to.port)
            && (!words.needs_global(to.port) || from.path.is_global())
            && from.path.survives(config, from.port)
    };
    is_one_partition([key(own), key(other)]) && arrive(own, other) && arrive(other, own)
}

impl Path {
    fn is_global(&self) -> bool {
        self.global.load(Relaxed) != 0
    }

    fn source_bits(&self) -> u32 {
        self.source_bits.load(Relaxed)
    }

    /// Whether packets survive the routers on their way.
    fn survives(&self, config: &Config, from: Port) -> bool {
        let hops = self.hop_limit.load(Relaxed) as u8;
        match (
            address::gid(config, from, self.sgid_index.load(Relaxed)),
            self.destination(config, from.device),
        ) {
            (Some((gid, address::TYPE_ROCE_V2)), Address::Gid(to)) => address::survives(hops, &gid, &to),
            _ => true,
        }
    }

    /// The port of a QP of this device.
    pub fn port(&self, device: u32) -> Port {
        Port {
            device,
            port: self.port.load(Relaxed),
        }
    }

    /// The address that packets of a device go to.
    pub fn destination(&self, config: &Config, device: u32) -> Address {
        if self.global.load(Relaxed) != 0 && (config.link(device) == Link::Roce || self.dlid.load(Relaxed) == 0) {
            let mut gid = [0; 16];
            gid[..8].copy_from_slice(&self.dgid[0].load(Relaxed).to_be_bytes());
            gid[8..].copy_from_slice(&self.dgid[1].load(Relaxed).to_be_bytes());
            Address::Gid(gid)
        } else {
            Address::Lid(self.dlid.load(Relaxed) as u16)
        }
    }

    /// The address vector, with the port.
    pub fn vector(&self) -> abi::ibv_ah_attr {
        let mut vector: abi::ibv_ah_attr = zeroed();
        vector.dlid = self.dlid.load(Relaxed) as u16;
        vector.is_global = self.global.load(Relaxed) as u8;
        vector.sl = self.service_level.load(Relaxed) as u8;
        vector.src_path_bits = self.source_bits.load(Relaxed) as u8;
        vector.grh.hop_limit = self.hop_limit.load(Relaxed) as u8;
        vector.port_num = self.port.load(Relaxed) as u8 + 1;
        vector.grh.sgid_index = self.sgid_index.load(Relaxed) as u8;
        vector.grh.dgid.global.subnet_prefix = self.dgid[0].load(Relaxed).to_be();
        vector.grh.dgid.global.interface_id = self.dgid[1].load(Relaxed).to_be();
        vector
    }

    pub fn set_vector(&self, vector: &abi::ibv_ah_attr) {
        self.dlid.store(u32::from(vector.dlid), Relaxed);
        self.global.store(u32::from(vector.is_global != 0), Relaxed);
        self.sgid_index.store(u32::from(vector.grh.sgid_index), Relaxed);
        self.service_level.store(u32::from(vector.sl), Relaxed);
        self.source_bits.store(u32::from(vector.src_path_bits), Relaxed);
        self.hop_limit.store(u32::from(vector.grh.hop_limit), Relaxed);
        let (high, low) = gid_words(&vector.grh.dgid);
        self.dgid[0].store(high, Relaxed);
        self.dgid[1].store(low, Relaxed);
    }

    pub fn copy_from(&self, other: &Path) {
        self.set_vector(&other.vector());
        for (to, from) in [
            (&self.port, &other.port),
            (&self.pkey_index, &other.pkey_index),
            (&self.timeout, &other.timeout),
        ] {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
}
