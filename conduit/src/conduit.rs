//! The trait that every network implements.
//!
//! A conduit moves *packets* reliably between the processes of one job. The runtime encodes Active
//! Messages into packets (`am::wire`); their contents are opaque to a conduit. Required of every
//! conduit: [`Conduit::identity`], [`Conduit::limits`], [`Conduit::start`], [`Conduit::send`],
//! [`Conduit::poll`], [`Conduit::stop`]. Everything else has a default, with which the runtime does
//! the work over packets (`rma`, `barrier`). Traffic inside a neighbourhood never uses a conduit,
//! except remote atomics.
//!
//! # What the runtime may rely on
//!
//! - Delivery: exactly once, unaltered, in any order; or [`Upcalls::peer_lost`] names the peer, and
//!   the job ends.
//! - `Err(Busy)` from any method means that nothing was sent or changed. Polls on both sides
//!   resolve it.
//! - Only [`Conduit::start`] blocks, and only [`Conduit::poll`] makes upcalls, even if the conduit
//!   has threads of its own.
//! - [`Upcalls::rma_done`] of a put means that the bytes are visible at the target to everything
//!   sent afterwards, on any rail. Where the completion of the network guarantees less, the conduit
//!   adds the rest.
//! - Every method may be called from any thread at any time after `start`. A conduit that needs a
//!   lock takes a short one and never holds it across [`Upcalls`] or a wait.
//!
//! # What a conduit may rely on
//!
//! - `start` is called once in every process, and `exchange` works only inside it. A process that
//!   cannot start returns an error, and the launcher ends the others.
//! - A reply goes to the process whose request is being delivered, from inside that
//!   [`Upcalls::packet`]: payloads travel as packets, so a
//!   reply may be several. Credits return with the reply, or with the end of the upcall.
//! - Inside [`Upcalls::packet`] of a request only replies are polled, and inside that of a reply
//!   nothing is sent or polled: upcalls nest at most twice in a thread.
//! - Both ends poll while they wait, also in exchanges after the start, and in exit until all ranks
//!   have arrived. A conduit may retransmit in these polls. A process that computes may not poll
//!   for a long time, so a conduit must send what `send` accepts immediately, if the network takes
//!   it.
//! - RMA and atomics name memory inside a segment that its owner registered and the runtime
//!   announced with [`Conduit::learn_segment`], and never zero bytes.
//!
//! # What each network implements
//!
//! In addition to the required methods; "–" is the default over packets. smp implements none: its
//! neighbourhood is the whole job ([`Conduit::needs_single_neighbourhood`]).
//!
//! | need | method | sock | udp | ofi | ibv | gni | elan |
//! |---|---|---|---|---|---|---|---|
//! | job's data at start | [`StartInfo::exchange`], `job_token`, environment | names of two sockets | address, port | `fi_getname` | LID, GID, UD QP number | NIC address, AM memory handle; `PMI_GNI_PTAG`, `PMI_GNI_COOKIE` | none: `elan_baseInit` |
//! | registered memory and keys | [`Conduit::register_segment`] | – | a list, against which peers' addresses are checked | `fi_mr_regattr` | `ibv_reg_mr`: one rkey per HCA | `GNI_MemRegister`: 16 bytes per domain | elan3: `elan3_setperm` window; elan4: nothing |
//! | keys on arrival | [`Conduit::learn_segment`] | – | – | `fi_mr_map_raw`, `fi_mr_unmap_key` where `FI_MR_RAW` | – | – | – |
//! | pinning limit | [`Conduit::max_segment_bytes`] | – | – | – | `GASNET_PHYSMEM_MAX`, `GASNET_PINNED_REGIONS_MAX` | `GASNET_PHYSMEM_MAX` | elan3: size of the window |
//! | memory outside segments (LARGE, EVERYTHING) | [`Capabilities::ANY_ADDRESS`] | – | – | all memory by one `fi_mr_reg` where `FI_MR_ALLOCATED` is not asked for | ODP, or firehose by own packets | – | elan4: all memory |
//! | local buffers outside segments | inside `put`, `get` | – | – | bounce where `FI_MR_LOCAL`, `fi_mr_reg` above | bounce up to `GASNET_NONBULKPUT_BOUNCE_LIMIT`, firehose above | bounce up to `GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER`, registration cache of `GASNET_GNI_MEMREG` above | `elan_allocMain` where not `elan_addressable` |
//! | put and get | [`Conduit::put`], [`Conduit::get`], [`Upcalls::rma_done`] | – | datagrams with an address, placed as they come | `fi_write`, `fi_read` with `FI_DELIVERY_COMPLETE` | `IBV_WR_RDMA_WRITE`, `_READ`, inline up to `GASNET_INLINESEND_LIMIT` | `GNI_PostFma` up to `GASNET_GNI_PUT_FMA_RDMA_CUTOVER`, `GNI_PostRdma` above; gets widened to multiples of 4 | `elan_doput`, `elan_get`; at most 64 per channel, for it blocks |
//! | early local completion | [`Conduit::put_now`] | – | copied up to a few KiB | `fi_inject_write` | inline or bounce | bounce; LOCAL event of `GNI_PostRdma` | copied up to `smallputsize` |
//! | completion that the CPU sees (fenced puts) | inside `put` | – | – | `FI_DELIVERY_COMPLETE` | atomic after the put: `GASNET_USE_FENCED_PUTS` | `GASNET_GNI_MEM_CONSISTENCY` | put event |
//! | immediate-data notification | not yet | – | – | `fi_writedata` pairs with the header by number | `IBV_WR_RDMA_WRITE`, then `IBV_WR_SEND` on the same QP | nonce by `GNI_EpSetEventData` and REMOTE event; header as `FMA_PUT_W_SYNCFLAG` | header sent when `elan_poll` says the put is done |
//! | credits and back-pressure | `Err(Busy)` | `EAGAIN` | window full: `GASNET_NETWORKDEPTH` | `-FI_EAGAIN` | `GASNET_AM_CREDITS_PP`, `_TOTAL`, `_SLACK`; none with SRQ | `GASNET_NETWORKDEPTH`, `_SPACE`; `GNI_RC_ERROR_RESOURCE`, `GASNET_GNI_NUM_PD` | own count below the queue's slots, for `elan_queueReq` blocks |
//! | separate requests and replies | [`Class`], [`PollScope`] | two sockets | two windows | two endpoints, or a tag bit (`fi_tsend`) | receive buffer for the reply posted before its request | reply into the buffer of its request | two queues (`elan_gallocQueue`) |
//! | negotiated payload | not yet | – | – | registered pool | bounce pool: `GASNET_BBUF_COUNT` | bounce pool: `GASNET_GNI_BOUNCE_SIZE` | tport send buffers |
//! | remote atomics | [`Conduit::atomic`], [`Conduit::atomic_support`] | – | – | `fi_fetch_atomic`, `fi_compare_atomic`; `fi_query_atomic` | `IBV_WR_ATOMIC_FETCH_AND_ADD`, `_CMP_AND_SWP`: 64 bits | `GNI_POST_AMO`; Gemini: 64-bit add, and, or, xor | – |
//! | hardware barrier | not yet | – | – | `fi_allreduce` with `FI_BAND` | – | Aries: `GNI_POST_CE`, AND of two operands | `elan_hbcast`, `elan_hgsync`: blocks, so `elan_addProgressFn` |
//! | wake-up descriptor | [`Conduit::wake_fd`], [`Conduit::arm_wake`] | epoll | socket | `FI_GETWAIT`; `fi_trywait` | completion channel; `ibv_req_notify_cq` | Aries: `GNI_CompChanFd`; `GNI_CqArmCompChan` | – |
//! | receive thread | the runtime's: sleeps on `wake_fd`, then polls | yes | yes | yes | `GASNET_RCV_THREAD` | Aries | timed sleep |
//! | connection at first contact | inside `send` and both scopes of `poll` | `connect` | – (no connections) | `fi_av_insert` | UD handshake, then RC or XRC: `GASNET_CONNECT_DYNAMIC` | `GNI_EpBind` | – (static) |
//! | several NICs | inside the conduit; [`Limits::rails`] | – | – | one domain per NIC | `GASNET_NUM_QPS`, `GASNET_IBV_PORTS` | `PMI_GNI_DEV_ID`, `GASNET_DOMAIN_COUNT` | `ELAN_RAIL_ALL` |
//! | memory kinds | [`Conduit::register_device_segment`] | – | – | `FI_HMEM` | GPUDirect, `ibv_reg_dmabuf_mr` | – | – |

use std::fmt;

/// Rank of a process in the job (`gex_System_QueryJobRank`).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobRank(pub u32);

impl JobRank {
    /// As an index into a table with one entry per process.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for JobRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The conduit cannot take the operation now. Nothing was sent; poll and try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Requests and replies travel in separate channels with separate credits, so that replies always
/// drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// An AM request, or the runtime's own request.
    Request,
    /// An AM reply, or the runtime's own reply. Never causes further traffic at its destination.
    Reply,
}

/// Which channels a poll may drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollScope {
    /// Replies only: a reply inside a request handler is waiting for space.
    Replies,
    /// Requests and replies.
    All,
}

/// Name and version of a conduit.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Lower-case name, as in file names: "smp".
    pub name: &'static str,
    /// Version string of this conduit.
    pub version: &'static str,
}

/// Limits of a conduit.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest packet in bytes (header, arguments and payload). At least 1024, and the same in all
    /// processes.
    pub max_packet_bytes: usize,
    /// Maximum number of processes in a job.
    pub max_ranks: u32,
    /// NICs: before `start` the number that the configuration requests, then the number opened.
    pub rails: u32,
}

/// Optional abilities, as a bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// Nothing beyond packets.
    pub const NONE: Self = Self(0);
    /// [`Conduit::put`] and [`Conduit::get`] work on registered segments.
    pub const RMA: Self = Self(1);
    /// [`Conduit::register_device_segment`] works.
    pub const DEVICE_MEMORY: Self = Self(16);
    /// [`Conduit::put`] and [`Conduit::get`] reach all memory of a peer, registered or not: base 0,
    /// every address, and the default key (the segment configurations LARGE and EVERYTHING).
    /// Without it those go over packets.
    pub const ANY_ADDRESS: Self = Self(32);

    /// [`Conduit::atomic`] works for some operations. The segments of neighbours are then announced
    /// with [`Conduit::learn_segment`], too; this process's own have the key of
    /// [`Conduit::register_segment`].
    pub const ATOMICS: Self = Self(64);

    /// Whether all bits of `other` are present.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The device of a device segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// CUDA device of this number.
    Cuda(u32),
    /// HIP device of this number.
    Hip(u32),
    /// Level Zero device of this number.
    LevelZero(u32),
}

/// The remote key of a segment: 64 bytes, enough for an rkey per HCA for 16 HCAs, or a uGNI handle
/// per domain for 4 domains. A conduit that needs more stores an index here and exchanges the rest
/// in packets of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SegmentKey {
    /// Defined by the conduit. All zero is no segment.
    pub words: [u64; 8],
}

/// A peer's segment as published. An endpoint other than the primordial one has its own.
#[derive(Clone, Copy, Debug)]
pub struct RemoteSegment {
    /// Owner's address of the first byte.
    pub base: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// The owner's key.
    pub key: SegmentKey,
    /// Whether it is device memory. Its key is valid only with [`Capabilities::DEVICE_MEMORY`].
    pub on_device: bool,
}

impl RemoteSegment {
    /// Whether `[address, address + bytes)`, in the owner's address space, lies inside.
    #[inline]
    pub const fn contains(&self, address: usize, bytes: usize) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset <= self.bytes && bytes <= self.bytes - offset
    }
}

/// Names a pending RMA operation: index and generation of a transfer, never an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferId(pub u64);

/// The functions of the runtime that a conduit may call.
pub trait Upcalls {
    /// A packet has arrived from `source`. `packet` is 64-byte aligned, writable for the duration
    /// of the call, and may be reused after it. A request may run a client handler, which may call
    /// `send` with [`Class::Reply`] to `source` and `poll` with [`PollScope::Replies`].
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]);
    /// A put, get or atomic is complete at both ends. Called in both scopes of `poll`, once per
    /// transfer.
    fn rma_done(&mut self, id: TransferId);
    /// A peer is lost, or a transfer with it failed. At most once per peer. The runtime ends the
    /// job with a message.
    fn peer_lost(&mut self, peer: JobRank, why: &str);
}

/// The arguments of [`Conduit::start`].
pub struct StartInfo<'a> {
    /// This process.
    pub rank: JobRank,
    /// Processes in the job.
    pub size: u32,
    /// Processes of this neighbourhood. Only tests send packets to them.
    pub neighbours: u32,
    /// Whether the conduit may start threads, which never run client code. Clients may forbid it
    /// (`GEX_FLAG_DEFER_THREADS`).
    pub may_start_threads: bool,
    /// The IP address at which other hosts reach this one; loopback in a job on one host.
    pub host_address: std::net::IpAddr,
    /// Processes of the job on this host, which share its NICs and its pinnable memory. At least
    /// the size of the neighbourhood.
    pub host_ranks: u32,
    /// Only one thread of this process calls the conduit (SEQ, no receive thread), so the vendor's
    /// library needs no locks.
    pub single_threaded: bool,
    /// All-gather over the whole job: the bytes of every rank (equal lengths) in rank order.
    /// Collective, and a barrier; may be called several times, in the same order on all ranks.
    pub exchange: &'a dyn Fn(&[u8]) -> Vec<u8>,
    /// A secret of this job, equal in all its processes. It authenticates them.
    pub job_token: u64,
}

/// A conduit could not start or stop.
#[derive(Debug)]
pub struct ConduitError {
    /// What failed, why, and what to do, in this order.
    pub message: String,
}

impl fmt::Display for ConduitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConduitError {}

/// A network. See the module documentation for the contract.
pub trait Conduit: Sync {
    /// Name and version.
    fn identity(&self) -> Identity;

    /// Limits. Valid before `start`.
    fn limits(&self) -> Limits;

    /// Opens the network. Collective; called once, after the bootstrap. May block until the other
    /// processes call it.
    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError>;

    /// Whether this process can start the conduit. Inspects the machine, changes nothing, does not
    /// block. Called before `start`, in the universal library only, which uses a conduit that all
    /// processes can start. The error names what is missing.
    fn probe(&self) -> Result<(), ConduitError> {
        Ok(())
    }

    /// Whether there is no network. Then a job of several neighbourhoods is an error.
    fn needs_single_neighbourhood(&self) -> bool {
        false
    }

    /// Whether the processes of a job may be on several hosts.
    fn reaches_other_hosts(&self) -> bool {
        !self.needs_single_neighbourhood()
    }

    /// Whether a program without a launcher takes the number of ranks from its first argument.
    fn takes_count(&self) -> bool {
        false
    }

    /// Sends one packet: the concatenation of `parts`, which are copied before return (local
    /// completion is immediate). Never blocks, polls or makes upcalls. `Err(Busy)` means that
    /// nothing was sent: no space or credit now, or the first connection to the peer is not
    /// established yet.
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy>;

    /// Delivers a bounded number of packets and completions, and returns their number. Called
    /// recursively, from [`Upcalls::packet`], only with [`PollScope::Replies`]. Both scopes deliver
    /// completions, accept connections and advance earlier sends.
    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize;

    /// Closes the network. Called once, by the thread that ends the job, while other threads may be
    /// inside the conduit. Packets accepted but not delivered may be dropped; the runtime waits for
    /// answers where it needs delivery. Notifies peers of the orderly exit, as far as possible
    /// without blocking. Then `poll` delivers nothing.
    fn stop(&self);

    /// The optional methods that are implemented.
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    /// Environment variables of this conduit, for the table in `config`.
    fn variables(&self) -> &'static [crate::config::Variable] {
        &[]
    }

    /// Maximum total bytes of the segments that this process can register. Valid after `start`.
    fn max_segment_bytes(&self) -> usize {
        usize::MAX
    }

    /// Makes `[base, base + bytes)` accessible to peers. The runtime sends them the key.
    fn register_segment(&self, base: usize, bytes: usize) -> Result<SegmentKey, ConduitError> {
        let _ = (base, bytes);
        Ok(SegmentKey::default())
    }

    /// As `register_segment`, for device memory. In `put` and `get` the conduit recognises local
    /// device memory by its address.
    fn register_device_segment(&self, device: Device, base: usize, bytes: usize) -> Result<SegmentKey, ConduitError> {
        let _ = (base, bytes);
        let name = self.identity().name;
        Err(ConduitError {
            message: format!("The {name} conduit cannot register memory of {device:?}."),
        })
    }

    /// Reverts `register_segment` or `register_device_segment`. No peer uses the segment any more.
    fn deregister_segment(&self, key: &SegmentKey) {
        let _ = key;
    }

    /// Called once for each segment of each peer before its first use. The conduit may replace the
    /// key by a local one that is faster.
    fn learn_segment(&self, peer: JobRank, segment: &mut RemoteSegment) -> Result<(), ConduitError> {
        let _ = (peer, segment);
        Ok(())
    }

    /// Writes `bytes` (at least 1, no upper limit: the conduit splits) from `source` (any local
    /// memory) to `destination` inside `segment` of `peer`. The result tells whether the source may
    /// be reused at return or after `rma_done`. Does not copy a large source;
    /// `put_now` does.
    fn put(
        &self,
        peer: JobRank,
        segment: &RemoteSegment,
        destination: usize,
        source: *const u8,
        bytes: usize,
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        let _ = (peer, segment, destination, source, bytes, id);
        Err(Busy)
    }

    /// As `put`, for a caller that will wait for its source (`GEX_EVENT_NOW`): copies sources up to
    /// the conduit's own limit into bounce buffers, so that the result is
    /// [`LocalCompletion::AtReturn`].
    fn put_now(
        &self,
        peer: JobRank,
        segment: &RemoteSegment,
        destination: usize,
        source: *const u8,
        bytes: usize,
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        self.put(peer, segment, destination, source, bytes, id)
    }

    /// Reads `bytes` (at least 1, no upper limit) into `destination` (any local memory) from
    /// `source` inside `segment` of `peer`. Any alignment. Complete with `rma_done`.
    fn get(
        &self,
        peer: JobRank,
        segment: &RemoteSegment,
        destination: *mut u8,
        source: usize,
        bytes: usize,
        id: TransferId,
    ) -> Result<(), Busy> {
        let _ = (peer, segment, destination, source, bytes, id);
        Err(Busy)
    }

    /// Whether `atomic` supports operation `op` (a `GEX_OP_*` bit) on type `dt` (a `GEX_DT_*` bit).
    /// Equal in all processes. Called only with [`Capabilities::ATOMICS`].
    fn atomic_support(&self, dt: u32, op: u32) -> bool {
        let _ = (dt, op);
        false
    }

    /// A remote atomic on `target` inside `segment`; the old value goes to `fetched` when not null.
    /// Operands hold the value's bits in their low bytes; of a compare-and-swap the first is
    /// expected, the second is new. A network's atomics need not be atomic to those of a CPU, so
    /// `peer` may be a neighbour or this process: an atomic domain whose operations all have
    /// `atomic_support` uses this for all targets. Complete with `rma_done`.
    fn atomic(
        &self,
        peer: JobRank,
        segment: &RemoteSegment,
        dt: u32,
        op: u32,
        target: usize,
        operands: [u64; 2],
        fetched: *mut u8,
        id: TransferId,
    ) -> Result<(), Busy> {
        let _ = (peer, segment, dt, op, target, operands, fetched, id);
        Err(Busy)
    }

    /// The wake-up descriptor: readable when `poll` would deliver something. May be readable
    /// without reason. The caller never reads or closes it. Constant from `start` on.
    fn wake_fd(&self) -> Option<i32> {
        None
    }

    /// Called after a poll that found nothing, before the thread blocks on something else than this
    /// conduit. `true`: until the next poll, the conduit calls `wake` on a thread of its own when a
    /// poll would deliver something, and repeats it if no poll follows. `false`: it does not, and
    /// the caller must poll periodically; or there is something to deliver now.
    fn watch(&self, wake: fn()) -> bool {
        let _ = wake;
        false
    }

    /// Called after a poll that found nothing, before blocking on `wake_fd`. `false`: poll again.
    /// `true`: every arrival from now on makes the descriptor readable.
    fn arm_wake(&self) -> bool {
        true
    }
}

/// When the source of a put may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalCompletion {
    /// At return.
    AtReturn,
    /// At [`Upcalls::rma_done`].
    WithOperation,
}
