//! A started conduit: its parts, and its end.

use crate::boot_record;
use crate::buffers::pools::Pools;
use crate::connect::handshake::Endpoint;
use crate::connect::policy::Record;
use crate::connect::Connector;
use crate::eager_rdma::inbox::Inbox;
use crate::ffi::{Access, Channel, Datagrams, Domain, LocalPort};
use crate::memory::Segments;
use crate::peers::Peers;
use crate::rail::Rail;
use crate::receive::fetch::Fetches;
use crate::settings::Settings;
use crate::transfers::{Stripes, Transfer};
use crate::xrc::Xrc;
use gasnet_conduit::JobRank;
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

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
    /// A queue pair on it, as a peer needs it.
    pub fn endpoint(&self, number: u32) -> Endpoint {
        Endpoint {
            address: self.port.address,
            alternate: self.alternate.and_then(|port| NonZeroU16::new(port.address.lid)),
            number,
            sender: 0,
            mtu: self.mtu,
            reads: self.reads,
        }
    }
}

/// A started conduit.
pub struct Net {
    pub rank: JobRank,
    // First: its queue pairs use all that follows.
    pub peers: Peers,
    /// If one queue pair leads to all processes of a host.
    pub xrc: Option<Xrc>,
    pub connector: Connector,
    /// Authenticates datagrams.
    pub token: u64,
    pub settings: Settings,
    /// Bytes of inline data that all HCAs take.
    pub inline: usize,
    /// Bytes of segments that may be registered.
    pub max_bytes: usize,
    /// Whether puts are fenced, because a host has several HCAs.
    pub is_fenced: bool,
    /// Whether the HCAs of all processes have atomics.
    pub has_atomics: bool,
    pub access: Access,
    /// Requests that could not run when they arrived, and their sources.
    pub deferred: PendingQueue<(JobRank, AlignedCopy)>,
    /// Long operations that wait for room.
    #[allow(clippy::vec_box, reason = "they move between work requests and this list")]
    pub stalled: PendingQueue<Box<Transfer>>,
    /// Bytes of the largest packet that fits receive buffers.
    pub eager: usize,
    /// Packets that are larger.
    pub fetches: Fetches,
    pub stripes: Stripes,
    /// Registrations of local memory for one operation, and how many there may be.
    pub registrations: AtomicUsize,
    pub most_registrations: usize,
    /// Whether an operation was copied because its memory could not be registered.
    pub has_copied: AtomicBool,
    /// Queue pairs that have migrated (peer, path), and had no room for a probe.
    pub unprobed: Mutex<Vec<(JobRank, usize)>>,
    pub stopped: AtomicBool,
    /// Whether datagrams may have arrived: the next poll looks.
    pub may_be_asked: AtomicBool,
    /// Whether all peers are connected, so that none asks any more.
    pub is_complete: bool,
    /// Why the network failed, until that is reported.
    pub failure: Mutex<Option<String>>,
    pub has_failed: AtomicBool,
    /// Where this process writes with whom it has communicated.
    pub record: Option<Record>,
    pub segments: Segments,
    /// Where peers write small messages.
    pub inbox: Inbox,
    pub pools: Pools,
    pub paths: Box<[Path]>,
    /// Sleeping threads wait for all of the channels.
    pub wake: Option<crate::wake::WakeUp>,
    // Last: all of the above is made from them.
    pub rails: Box<[Rail]>,
}

/// What a process has opened before it knows of the others.
pub struct Opened {
    pub rails: Box<[Rail]>,
    pub paths: Box<[Path]>,
    pub datagrams: Datagrams,
    /// That of the datagrams, if a thread is to wait for them.
    pub channel: Option<Channel>,
    pub has_atomics: bool,
    pub link: boot_record::Link,
}

impl Net {
    /// The HCAs' protection domains, by rail.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.rails.iter().map(|rail| &rail.domain)
    }

    /// A path in messages: "mlx5_0 port 1".
    pub fn name(&self, path: usize) -> String {
        let Path { rail, port, .. } = &self.paths[path];
        format!("{} port {}", self.rails[*rail].context.name, port.number)
    }

    /// Whether communication has ended.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends communication, without a word to the peers. Async-signal-safe.
    pub fn stop_at_once(&self) -> bool {
        !self.stopped.swap(true, Ordering::SeqCst)
    }

    /// The same, and tells peers that are connected that this is no crash.
    pub fn stop(&self) {
        /// Time for the messages to leave: an HCA drops what a process leaves at its end.
        const DRAIN: Duration = Duration::from_millis(5);
        if !self.stop_at_once() {
            return;
        }
        if let Some(record) = &self.record {
            let used = self.peers.established().filter(|(_, it)| it.is_used());
            record.write(&used.map(|(rank, _)| rank).collect::<Vec<_>>());
        }
        for (_, connection) in self.peers.established() {
            // If that fails, the peer is gone, or it reads of the end from its node agent.
            let _ = self.say_bye(connection);
        }
        let deadline = Instant::now() + DRAIN;
        let is_empty = || {
            let mut connections = self.peers.established();
            connections.all(|(_, connection)| connection.queue(0).is_empty())
        };
        while !is_empty() && Instant::now() < deadline {
            self.drop_completions();
            gasnet_sys::atomic::yield_now();
        }
    }

    /// The network failed, and no single peer is the reason.
    #[cold]
    pub fn fail(&self, why: &str) {
        // The first reason counts, and is reported once.
        let mut failure = lock(&self.failure);
        if !self.has_failed.load(Ordering::Relaxed) {
            *failure = Some(why.to_owned());
            self.has_failed.store(true, Ordering::Release);
        }
    }
}
