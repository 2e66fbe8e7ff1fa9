//! State that the processes of a fabric share: the layout of the file in its folder. Everything is
//! atomic and valid when all zero, except locks.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicU8};

use emulator_common::fabric::{Head, Layout};
use emulator_common::lock::Lock;
use emulator_common::ring::Ring;
use emulator_common::table::{Entry, Table, INDEX_BITS};

pub const DEVICES: usize = 16;
pub const PORTS: usize = 4;

#[repr(C)]
pub struct Fabric {
    head: Head,
    /// CLOCK_MONOTONIC of the first `ibv_open_device`, to which `port-down` is relative.
    pub opened_ns: AtomicU64,
    /// Time since then, as tests let it pass, with option `steps`.
    pub stepped_ns: AtomicU64,
    /// Serialises atomic operations that a device executes as responder.
    pub atomics: [Lock; DEVICES],
    /// Data of writes that are not visible yet, by device.
    pub landings: [Landings; DEVICES],
    /// The last number given to a PD or an XRCD.
    pub numbers: AtomicU32,
    pub mrs: Table<Mr, { 1 << 16 }>,
    pub qps: Table<Qp, { 1 << 16 }>,
    pub cqs: Table<Cq, { 1 << 15 }>,
    pub srqs: Table<Srq, { 1 << 14 }>,
    pub events: Table<Events, { 1 << 14 }>,
}

/// Index << 8 | generation.
fn wire(key: u32) -> u32 {
    key.rotate_left(8) & 0x00ff_ffff | key >> INDEX_BITS & 0xff
}

/// The key of a table from that of the wire.
fn from_wire(key: u32) -> u32 {
    key >> 8 | (key & 0xff) << INDEX_BITS
}

impl Fabric {
    /// The key of a region for `lkey` and `rkey`.
    pub fn mr_key(&self, index: u32) -> u32 {
        wire(self.mrs.key(index))
    }

    /// The live region of a key.
    pub fn find_mr(&self, key: u32) -> Option<&Mr> {
        self.mrs.find(from_wire(key))
    }
}

/// Writes of a device that have completed, and those of which the data are visible.
#[repr(C)]
pub struct Landings {
    pub lock: Lock,
    /// When the data of the last one become visible.
    pub due_ns: AtomicU64,
    pub completed: AtomicU32,
    pub landed: AtomicU32,
}

/// A port of a device, both from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    pub device: u32,
    pub port: u32,
}

/// A memory region. Its key is index << 8 | generation, as on hardware.
#[repr(C)]
pub struct Mr {
    pub entry: Entry,
    pub device: AtomicU32,
    pub pd: AtomicU32,
    pub access: AtomicU32,
    /// Operations that use it now; deregistration waits for them.
    pub users: AtomicU32,
    /// Names of it in queued work requests, for `strict-lifetimes`.
    pub queued: AtomicU32,
    /// The number of registrations of its process that precede it.
    pub number: AtomicU64,
    /// The address by which work requests name the first byte.
    pub iova: AtomicU64,
    /// Its address in its owner's memory.
    pub addr: AtomicU64,
    pub length: AtomicU64,
}

/// The posted receives of a QP or an SRQ. Record: wr_id, number of SGEs, then address and
/// length | lkey << 32 of each.
#[repr(C)]
pub struct Receives {
    pub lock: Lock,
    pub ring: Ring,
    pub max_sge: AtomicU32,
    /// Posted and not yet seen by a poll: these hold room in the queue.
    pub outstanding: AtomicU32,
}

#[repr(C)]
pub struct Cq {
    pub entry: Entry,
    /// Completions (`cq::Cqe`).
    pub ring: Ring,
    /// 0: no event wanted; 1: for the next solicited completion or error; 2: for the next.
    pub armed: AtomicU32,
    /// Index in `Fabric::events`; 0: no channel.
    pub channel: AtomicU32,
    /// Index in `Fabric::events` of the context's asynchronous events.
    pub events: AtomicU32,
    pub overrun: AtomicU32,
    /// The `ibv_cq` in the owner's memory.
    pub user: AtomicU64,
}

#[repr(C)]
pub struct Srq {
    pub entry: Entry,
    pub receives: Receives,
    pub device: AtomicU32,
    pub pd: AtomicU32,
    /// 0: not an XRC SRQ.
    pub xrcd: AtomicU32,
    /// Index of the CQ of an XRC SRQ.
    pub cq: AtomicU32,
    pub events: AtomicU32,
    pub user: AtomicU64,
}

/// A path of a QP: its port, and the address vector: destination LID, or GID if `global`.
#[repr(C)]
pub struct Path {
    pub port: AtomicU32,
    pub dlid: AtomicU32,
    pub global: AtomicU32,
    pub dgid: [AtomicU64; 2],
    pub sgid_index: AtomicU32,
    pub service_level: AtomicU32,
    /// Its source LID, among those of its port.
    pub source_bits: AtomicU32,
    pub hop_limit: AtomicU32,
    pub pkey_index: AtomicU32,
    pub timeout: AtomicU32,
}

/// A queue pair, as far as other processes see it. A thread that executes as its
/// responder, or changes its state, holds `entry.lock`.
#[repr(C)]
pub struct Qp {
    pub entry: Entry,
    pub kind: AtomicU32,
    pub state: AtomicU32,
    /// Handles in all processes: 1, or more of an XRC receive QP that others have opened.
    pub handles: AtomicU32,
    pub device: AtomicU32,
    pub pd: AtomicU32,
    pub xrcd: AtomicU32,
    pub access: AtomicU32,
    /// Keys of CQs and of the SRQ; 0: none.
    pub send_cq: AtomicU32,
    pub recv_cq: AtomicU32,
    pub srq: AtomicU32,
    pub receives: Receives,
    pub path: Path,
    /// Valid if `has_alternate`.
    pub alternate: Path,
    pub has_alternate: AtomicU32,
    /// `ibv_mig_state`.
    pub migration: AtomicU32,
    /// How often it has migrated.
    pub migrations: AtomicU32,
    pub dest_qpn: AtomicU32,
    pub sq_psn: AtomicU32,
    pub rq_psn: AtomicU32,
    pub qkey: AtomicU32,
    pub path_mtu: AtomicU32,
    pub min_rnr_timer: AtomicU32,
    pub retry_cnt: AtomicU32,
    pub rnr_retry: AtomicU32,
    pub max_rd_atomic: AtomicU32,
    pub max_dest_rd_atomic: AtomicU32,
    /// Work requests of the send queue whose completion, or a later one, was polled.
    pub sends_polled: AtomicU32,
    /// Faults `drop-connection`, `qp-event`: nothing arrives any more, or nothing completes either.
    pub cut: AtomicU8,
    pub events: AtomicU32,
    pub user: AtomicU64,
}

/// A queue of events for one descriptor of one process: completion channel or asynchronous events.
/// Record: `ibv_event_type` (channels: unused), key of the object or number of the port.
#[repr(C)]
pub struct Events {
    pub entry: Entry,
    pub ring: Ring,
}

emulator_common::has_entry!(Mr, Cq, Srq, Qp, Events);

// SAFETY: all members are atomic, or locks that `init` makes or that their entries make.
unsafe impl Layout for Fabric {
    const MAGIC: u64 = 0x0076_6572_6273_0007;

    fn head(&self) -> &Head {
        &self.head
    }

    fn init(&self) {
        self.atomics.iter().for_each(Lock::init);
        self.landings.iter().for_each(|landings| landings.lock.init());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_wire() {
        for key in [1, 0x1234, 0x00ff_0001, 0x0012_ffff] {
            assert_eq!(from_wire(wire(key)), key);
        }
        assert_eq!(wire(0x0003_0002), 0x0203);
    }
}
