//! The layout of a fabric. Everything is atomic and valid when all zero, except locks.

use std::sync::atomic::{AtomicU32, AtomicU64};

use emulator_common::fabric::{Head, Layout};
use emulator_common::lock::Lock;
use emulator_common::table::{Entry, Table};

/// Queues and ports of an attachment.
pub const QUEUES: usize = 32;
pub const PORTS: usize = 8;
/// Collective calls that are under way at a time.
pub const RECORDS: usize = 8;

#[repr(C)]
pub struct Fabric {
    head: Head,
    /// Guards joining and leaving jobs.
    pub starting: Lock,
    pub jobs: Table<Job, { 1 << 11 }>,
    pub endpoints: Table<Endpoint, { 1 << 13 }>,
    pub queues: Table<Queue, { 1 << 14 }>,
    pub ports: Table<Port, { 1 << 13 }>,
    pub port_entries: Table<PortEntry, { 1 << 16 }>,
}

/// The processes that start together. The lock of the entry guards `records`.
#[repr(C)]
pub struct Job {
    pub entry: Entry,
    pub id: AtomicU64,
    pub size: AtomicU32,
    /// Processes that have started, until all have.
    pub joined: AtomicU32,
    /// 1: all have started.
    pub complete: AtomicU32,
    /// Attachments that exist.
    pub attached: AtomicU32,
    /// Offset on the heap of the endpoints' keys, by vp; 0: none.
    pub members: AtomicU64,
    pub records: [Record; RECORDS],
}

/// A collective call.
#[repr(C)]
pub struct Record {
    /// Collective calls of the job up to this one; 0: unused.
    pub number: AtomicU64,
    /// `Call` of the process that arrived first, and its vp.
    pub kind: AtomicU32,
    pub first: AtomicU32,
    /// Its arguments, which all processes must pass.
    pub argument: AtomicU64,
    pub arrived: AtomicU32,
    pub left: AtomicU32,
    /// 1: the data of a broadcast have arrived.
    pub ready: AtomicU32,
    /// 1: a process cannot do its part.
    pub failed: AtomicU32,
}

/// An attachment of a process to the network.
#[repr(C)]
pub struct Endpoint {
    pub entry: Entry,
    pub job: AtomicU32,
    pub vp: AtomicU32,
    /// 0: it has stopped, and its memory must not be accessed.
    pub live: AtomicU32,
    /// Others that access its memory now; `stop` waits for them.
    pub users: AtomicU32,
    /// The address of its symmetric memory in its process.
    pub symmetric: AtomicU64,
    /// Offset on the heap of its page table (Elan3). An entry is the address of a page in its
    /// process, or 0.
    pub pages: AtomicU64,
    pub page_bytes: AtomicU64,
    /// Keys, in the order of the collective calls that made them.
    pub queues: [AtomicU32; QUEUES],
    pub ports: [AtomicU32; PORTS],
}

/// A queue of short messages. The lock of the entry guards the ring.
#[repr(C)]
pub struct Queue {
    pub entry: Entry,
    /// Key of the endpoint.
    pub endpoint: AtomicU32,
    pub slots: AtomicU32,
    /// Most bytes of a message.
    pub bytes: AtomicU32,
    /// Messages ever written and taken.
    pub written: AtomicU32,
    pub taken: AtomicU32,
    /// Offset of the ring on the heap.
    pub ring: AtomicU64,
}

/// A port of tagged messages. The lock of the entry guards both lists.
#[repr(C)]
pub struct Port {
    pub entry: Entry,
    pub endpoint: AtomicU32,
    /// Buffers that wait for a message, and messages that wait for a buffer.
    pub offers: List,
    pub messages: List,
}

/// Indices of entries; 0: none.
#[repr(C)]
pub struct List {
    pub head: AtomicU32,
    pub tail: AtomicU32,
}

/// An offered buffer, or a message.
#[repr(C)]
pub struct PortEntry {
    pub entry: Entry,
    /// Key of the port.
    pub port: AtomicU32,
    /// One of `port_entry`'s.
    pub state: AtomicU32,
    pub next: AtomicU32,
    pub tag: AtomicU32,
    /// The sender.
    pub vp: AtomicU32,
    /// Key of the sender's endpoint.
    pub sender: AtomicU32,
    /// Length of the message, or room of a waiting buffer.
    pub bytes: AtomicU64,
    /// Address in the process, or offset on the heap.
    pub address: AtomicU64,
}

emulator_common::has_entry!(Job, Endpoint, Queue, Port, PortEntry);

// SAFETY: all members are atomic, or locks that `init` makes or that their entries make.
unsafe impl Layout for Fabric {
    const MAGIC: u64 = 0x656c_616e_0000_0001;

    fn head(&self) -> &Head {
        &self.head
    }

    fn init(&self) {
        self.starting.init();
    }
}
