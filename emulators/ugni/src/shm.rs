//! The layout of a fabric. Everything is atomic and valid when all zero, except locks.

use std::sync::atomic::{AtomicU32, AtomicU64};

use emulator_common::fabric::{Head, Layout};
use emulator_common::lock::Lock;
use emulator_common::ring::Ring;
use emulator_common::table::{Entry, Table};

/// NIC addresses of a fabric, from [`FIRST_ADDRESS`].
pub const NICS: usize = 1024;
pub const FIRST_ADDRESS: u32 = 0x100;

#[repr(C)]
pub struct Fabric {
    head: Head,
    /// Serialises everything that collective engines do.
    pub reductions: Lock,
    /// Guards datagrams.
    pub matching: Lock,
    /// Pairs of datagrams so far.
    pub datagrams_matched: AtomicU32,
    /// The last number given to a completion channel.
    pub channels: AtomicU32,
    pub nics: [Nic; NICS],
    pub domains: Table<Domain, { 1 << 14 }>,
    pub regions: Table<Region, { 1 << 16 }>,
    pub cqs: Table<Cq, { 1 << 15 }>,
    pub engines: Table<Engine, { 1 << 12 }>,
    pub datagrams: Table<Datagram, { 1 << 13 }>,
}

/// The hardware that has a NIC address.
#[repr(C)]
pub struct Nic {
    /// Makes AMOs atomic.
    pub atomics: Lock,
    pub fma: AtomicU32,
    pub mdd: AtomicU32,
    /// Pages of the memory relocation table.
    pub mrt: AtomicU32,
    pub cq: AtomicU32,
    pub ce: AtomicU32,
}

/// A communication domain that is attached to a NIC.
#[repr(C)]
pub struct Domain {
    pub entry: Entry,
    pub address: AtomicU32,
    pub instance: AtomicU32,
    pub ptag: AtomicU32,
    pub cookie: AtomicU32,
    /// Whether it has an FMA descriptor of its own.
    pub dedicated: AtomicU32,
}

/// Registered memory.
#[repr(C)]
pub struct Region {
    pub entry: Entry,
    /// NIC address; 0: no access is granted.
    pub address: AtomicU32,
    /// Index of the domain that registered it.
    pub domain: AtomicU32,
    pub ptag: AtomicU32,
    pub cookie: AtomicU32,
    /// `GNI_MEM_*`.
    pub flags: AtomicU32,
    /// Operations that use it now; deregistration waits for them.
    pub users: AtomicU32,
    /// Key of the destination CQ; 0: none.
    pub cq: AtomicU32,
    /// Pages, whole.
    pub start: AtomicU64,
    pub bytes: AtomicU64,
    /// The handle.
    pub words: [AtomicU64; 2],
}

/// A completion queue. The lock of the entry guards writing; only the owner reads.
#[repr(C)]
pub struct Cq {
    pub entry: Entry,
    pub address: AtomicU32,
    pub domain: AtomicU32,
    /// Entries.
    pub ring: Ring,
    /// Entries were lost since the last read.
    pub overrun: AtomicU32,
    /// 1: the next entry rings the doorbell of `channel`.
    pub armed: AtomicU32,
    /// Name of a completion channel's doorbell; 0: none.
    pub channel: AtomicU32,
}

/// A virtual collective engine. `Fabric::reductions` guards it.
#[repr(C)]
pub struct Engine {
    pub entry: Entry,
    pub address: AtomicU32,
    pub domain: AtomicU32,
    /// Unique per NIC.
    pub id: AtomicU32,
    pub ptag: AtomicU32,
    pub cookie: AtomicU32,
    /// `GNI_CE_MODE_*`; 0: not configured.
    pub modes: AtomicU32,
    /// Key of the CQ for errors and completions.
    pub cq: AtomicU32,
    /// NIC address of the parent; 0: this is the root.
    pub parent_address: AtomicU32,
    pub parent_id: AtomicU32,
    pub parent_child: AtomicU32,
    pub children: [Child; 32],
    /// Children that have joined the reduction, as bits.
    pub joined: AtomicU32,
    /// The reduction: command, mode and id of the first that joined.
    pub command: AtomicU32,
    pub mode: AtomicU32,
    pub reduction: AtomicU64,
    /// A status that spoils the reduction.
    pub status: AtomicU32,
}

/// A child of an engine, and what it contributed.
#[repr(C)]
pub struct Child {
    /// `gni_ce_child_t`; 0: unused.
    pub kind: AtomicU32,
    /// NIC address and id, if the child is an engine.
    pub address: AtomicU32,
    pub id: AtomicU32,
    pub operands: [AtomicU64; 2],
    /// Slot + 1 of the process and the address for its result, if the child is a PE.
    pub owner: AtomicU32,
    pub result: AtomicU64,
}

/// A datagram that was posted. `Fabric::matching` guards it.
#[repr(C)]
pub struct Datagram {
    pub entry: Entry,
    pub domain: AtomicU32,
    pub address: AtomicU32,
    pub instance: AtomicU32,
    pub ptag: AtomicU32,
    pub cookie: AtomicU32,
    /// Its destination; address 0: the first domain that posts one to this domain.
    pub to_address: AtomicU32,
    pub to_instance: AtomicU32,
    /// `gni_post_state_t`.
    pub state: AtomicU32,
    /// Orders completions.
    pub number: AtomicU32,
    pub id: AtomicU64,
    pub data: Packet,
    /// Data of the peer, and its name.
    pub answer: Packet,
    pub from_address: AtomicU32,
    pub from_instance: AtomicU32,
}

/// Data of a datagram.
#[repr(C)]
pub struct Packet {
    pub length: AtomicU32,
    pub words: [AtomicU64; 16],
}

emulator_common::has_entry!(Domain, Region, Cq, Engine, Datagram);

// SAFETY: all members are atomic, or locks that `init` makes or that their entries make.
unsafe impl Layout for Fabric {
    const MAGIC: u64 = 0x7567_6e69_0000_0003;

    fn head(&self) -> &Head {
        &self.head
    }

    fn init(&self) {
        self.reductions.init();
        self.matching.init();
        self.nics.iter().for_each(|nic| nic.atomics.init());
    }
}
