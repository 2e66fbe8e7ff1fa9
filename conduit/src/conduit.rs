//! The two traits that every network implements.
//!
//! A conduit moves *packets* reliably between the processes of one job. The runtime encodes Active
//! Messages into packets (`am::wire`); their contents are opaque to a conduit. [`Conduit`] is what
//! exists before the start: name, limits, variables. [`Conduit::start`] makes the [`Network`],
//! which has [`Network::send`], [`Network::poll`] and [`Network::stop`]. Each further ability is an
//! object of its own in [`Abilities`]: [`SendBuffers`], [`Gather`], [`Segments`], [`Rma`],
//! [`PutNotify`], [`Atomics`], [`Barrier`], [`Words`], [`Wake`]. Traffic inside a neighbourhood
//! never uses a network, except remote atomics, and puts and gets of device memory that the
//! initiator cannot reach itself.
//!
//! # What the runtime may rely on
//!
//! - Delivery: exactly once, unaltered, in any order; or [`Upcalls::peer_lost`] names the peer, and
//!   the job ends. A network that does not notice the end of a peer leaves that to the node agents.
//! - `Err(Busy)` from any method means that nothing was sent or changed. Polls on both sides
//!   resolve it.
//! - Only [`Conduit::start`] blocks, and only [`Network::poll`] makes upcalls, even if the conduit
//!   has threads of its own.
//! - Every method of a network may be called from any thread at any time. A conduit that needs a
//!   lock takes a short one and never holds it across [`Upcalls`] or a wait.
//! - The abilities and their limits are constant, and which exist is the same in all processes.
//!
//! # What a conduit may rely on
//!
//! - `start` is called once in every process, and `exchange` works only inside it. A process that
//!   cannot start returns an error, and the launcher ends the others.
//! - A reply goes to the process whose request is being delivered, from inside that
//!   [`Upcalls::packet`]. It is one packet, except a Long reply whose payload neither fits in one
//!   nor goes by [`PutNotify`] (memory that the conduit does not reach): that travels as several.
//!   Credits return with the reply, or with the end of the upcall.
//! - Inside [`Upcalls::packet`] of a request only replies are polled, and inside that of a reply
//!   nothing is sent or polled: upcalls nest at most twice in a thread.
//! - Both ends poll while they wait, also in exchanges after the start, and in exit until all ranks
//!   have arrived. A conduit may retransmit in these polls. A process that computes may not poll
//!   for a long time, so a conduit must send what `send` accepts immediately, if the network takes
//!   it.
//! - RMA and atomics name memory inside a segment that its owner registered and this process
//!   learned ([`Segments::learn`]), and never zero bytes.
//!
//! # What each network implements
//!
//! In addition to the required methods; "–" is the default over packets. smp implements none: its
//! neighbourhood is the whole job ([`Reach::Neighbourhood`]). loop implements all,
//! for tests.
//!
//! | need | method | sock | udp | ofi | ibv | gni | elan | ucx |
//! |---|---|---|---|---|---|---|---|---|
//! | who shares NICs and memory | [`StartInfo::host`], `place_of`, `leaders`, [`StartInfo::host_memory`], `host_fd` | – | processes of the host | NIC by index on the host | HCA by distance and index, pinned memory of the host, XRC domain | CE tree, domains and pinned memory of the host | rail by index | processes of the host, as a hint |
//! | job's data at start | [`StartInfo::exchange`], `job_token`, environment | names of two sockets | address, port | `fi_getname` | LID, GID, UD QP number | NIC address, region and its memory handle; `PMI_GNI_PTAG`, `PMI_GNI_COOKIE`, else `CRAY_COOKIES` | none: `elan_baseInit` | `ucp_worker_query` |
//! | start of ranks by the network's own system | [`Bootstrap`]; mpi: `MPI_Init`, `MPI_Allgather` | – | – | – | – | Cray's PMI: `PMI2_Init`, `PMI_Allgather` | RMS | – |
//! | registered memory and keys | [`Segments::register`] | – | a list, against which peers' addresses are checked | `fi_mr_regattr` | `ibv_reg_mr`: one rkey per HCA | `GNI_MemRegister`: 16 bytes, the handle of the first domain | elan3: `elan3_setperm` window; elan4: nothing | `ucp_mem_map`, `ucp_rkey_pack` |
//! | keys on arrival | [`Segments::learn`], at first use | – | – | `fi_mr_map_raw`, `fi_mr_unmap_key` where `FI_MR_RAW` | – | – | – | `ucp_ep_rkey_unpack`, at the first use |
//! | pinning limit | [`Segments::max_bytes`] | – | – | – | `GASNET_PHYSMEM_MAX`, locked memory | `GASNET_PHYSMEM_MAX` | elan3: size of the window | – |
//! | memory outside segments (LARGE, EVERYTHING) | [`Rma::reaches_all_memory`] | – | – | – | – | – | elan4: all memory | – |
//! | local buffers outside segments | inside `put`, `get`, for a [`LocalMemory`](crate::LocalMemory) without segment | – | – | bounce where `FI_MR_LOCAL`, `fi_mr_reg` above | bounce up to `GASNET_NONBULKPUT_BOUNCE_LIMIT`, `ibv_reg_mr` above | copied up to `GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER`, `GNI_MemRegister` for the operation above, at most `GASNET_GNI_MEMREG` at a time | `elan_allocMain` where not `elan_addressable` | UCX's |
//! | put and get | [`Rma::put`], [`Rma::get`], [`Upcalls::done`] | – | datagrams with an address, placed as they come | `fi_write`, `fi_read` with `FI_DELIVERY_COMPLETE` | `IBV_WR_RDMA_WRITE`, `_READ`, inline up to `GASNET_INLINESEND_LIMIT` | `GNI_PostFma` up to `GASNET_GNI_PUT_FMA_RDMA_CUTOVER`, `GNI_PostRdma` above; gets widened to multiples of 4 | `elan_doput`, `elan_get`; at most 64 per channel, for it blocks | `ucp_put_nbx`, `ucp_get_nbx` |
//! | early local completion | [`Completion::Source`]; [`SourceUse::Now`](crate::SourceUse::Now) | – | copied up to a few KiB | `fi_inject_write` | inline or bounce | inline up to 128 bytes, bounce; LOCAL event of `GNI_PostRdma` | copied up to `smallputsize` | copied up to 8 KiB |
//! | completion that the CPU sees (fenced puts) | inside `put` | – | – | `FI_DELIVERY_COMPLETE` | read after the put where hosts have several HCAs: `GASNET_USE_FENCED_PUTS` | `GASNET_GNI_MEM_CONSISTENCY` | put event | `ucp_ep_flush_nbx` |
//! | Longs by put with notification | [`PutNotify`] | – | – | `FI_REMOTE_CQ_DATA` pairs with the header by number | `IBV_WR_RDMA_WRITE`, then `IBV_WR_SEND` on the same QP | Aries: REMOTE event of each part, `GNI_EpSetEventData`; Gemini: message after the put | header sent when `elan_poll` says the put is done | – |
//! | credits and back-pressure | `Err(Busy)` | `EAGAIN` | window full: `GASNET_NETWORKDEPTH` | `GASNET_OFI_WINDOW`, `-FI_EAGAIN` | `GASNET_AM_CREDITS_PP`, `_SLACK` | spaces of `GASNET_NETWORKDEPTH_SPACE`, else rendezvous; `GASNET_NETWORKDEPTH`, `_TOTAL`; `GNI_RC_ERROR_RESOURCE`, `GASNET_GNI_NUM_PD` | own count below the queue's slots, for `elan_queueReq` blocks; a get reads what the receiver has taken | `GASNET_UCX_WINDOW` |
//! | separate requests and replies | [`Class`], [`PollScope`] | two sockets | two windows | requests wait in memory while only replies are polled | requests wait in memory while only replies are polled | first reply into the slot of its request | two queues (`elan_gallocQueue`) | requests wait in memory while only replies are polled |
//! | negotiated payload | [`SendBuffers`] | – | – | registered pool | registered pool | bounce pool: `GASNET_GNI_BOUNCE_SIZE` | tport send buffers | pool |
//! | large Mediums without a copy | [`Gather`] | – | – | – | several scatter-gather elements of one work request | – | – | – |
//! | remote atomics | [`Atomics`] | – | – | `fi_fetch_atomic`, `fi_compare_atomic`; `fi_query_atomic` | `IBV_WR_ATOMIC_FETCH_AND_ADD`, `_CMP_AND_SWP`: 64 bits | `GNI_POST_AMO`; Gemini: 64-bit add, and, or, xor, compare-and-swap | – | `ucp_atomic_op_nbx` |
//! | hardware barrier | [`Barrier`] | – | – | – | – | Aries: `GNI_POST_CE`, AND of two operands | `elan_hbcast`, `elan_hgsync` in a thread, for they block | – |
//! | barriers of words | [`Words`] | – | – | – | inline `IBV_WR_RDMA_WRITE`, to peers that offer it | `GNI_POST_FMA_PUT_W_SYNCFLAG` | – | – |
//! | wake-up descriptor | [`Wake`] | epoll | socket | `FI_GETWAIT`; `fi_trywait` | completion channel; `ibv_req_notify_cq` | Aries, one domain: `GNI_CompChanFd`; `GNI_CqArmCompChan` | – | `ucp_worker_get_efd`, `ucp_worker_arm` |
//! | receive thread | the runtime's: sleeps on [`Wake::fd`], then polls | yes | yes | yes | `GASNET_RCV_THREAD` | Aries, one domain | – | yes |
//! | connection at first contact | inside `send` and both scopes of `poll` | `connect` | – (no connections) | `fi_av_insert` | UD handshake, then RC: `GASNET_CONNECT_DYNAMIC` | `GNI_EpBind`; space after the first requests | – (static) | `ucp_ep_create` |
//! | several NICs | inside the conduit | – | – | one per process: `GASNET_OFI_DEVICE` | `GASNET_NUM_QPS`, `GASNET_IBV_PORTS` | `PMI_GNI_DEV_ID`, `GASNET_DOMAIN_COUNT` | `ELAN_RAIL_ALL` | inside UCX |
//! | memory kinds | [`Segments::register_device`] | – | – | `FI_HMEM`, `FI_MR_DMABUF` | GPUDirect, `ibv_reg_dmabuf_mr` | – | – | `ucp_mem_map` with `memory_type` |

use std::fmt;
use std::os::fd::RawFd;

use crate::{
    Atomics, Barrier, Bootstrap, Completion, Cookie, Gather, PutNotify, Rma, Segments, SendBuffers, Wake, Words,
};

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
    /// An AM reply, or the runtime's own reply: at most one for each request, sent while that is
    /// delivered. Never causes further traffic at its destination.
    Reply,
}

/// Alignment in bytes of packets that are delivered: that of any argument or payload.
pub const PACKET_ALIGN: usize = 16;

/// Which channels a poll may drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollScope {
    /// Replies only: a reply inside a request handler is waiting for space.
    Replies,
    /// Requests and replies.
    All,
}

/// The processes between which a conduit moves packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// There is no network. A job of several neighbourhoods is an error.
    Neighbourhood,
    /// Those of one host.
    Host,
    /// Those of all hosts.
    Hosts,
}

/// Constant properties of a conduit.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Lower-case name, as in file names: "smp".
    pub name: &'static str,
    /// Version string of this conduit.
    pub version: &'static str,
    /// The processes that it reaches.
    pub reach: Reach,
    /// Whether a program without a launcher takes the number of ranks from its first argument.
    pub takes_count: bool,
}

impl Identity {
    /// Whether it carries jobs of several neighbourhoods.
    pub fn has_network(&self) -> bool {
        self.reach != Reach::Neighbourhood
    }
}

/// Limits of a conduit.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest packet in bytes (header, arguments and payload). At least 1024, and the same in all
    /// processes.
    pub max_packet_bytes: usize,
    /// Maximum number of processes in a job.
    pub max_ranks: u32,
    /// How often sending looks at the network: after one of this many consecutive requests of a
    /// thread, the runtime polls. A poll that finds nothing costs half as much as a small request,
    /// and much more where it is a system call.
    pub requests_per_poll: u32,
}

/// The functions of the runtime that a conduit may call.
pub trait Upcalls {
    /// A packet has arrived from `source`. `packet` is aligned to [`PACKET_ALIGN`], writable for
    /// the duration of the call, and may be reused after it. A request may run a client handler,
    /// which may call `send` with [`Class::Reply`] to `source` and `poll` with
    /// [`PollScope::Replies`].
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]);
    /// A part of a put, get or atomic, or all of it, is complete. Called in both scopes of `poll`.
    /// Counts that, and calls nothing of the client's or the conduit's, which may hold locks.
    fn done(&mut self, cookie: Cookie, part: Completion);
    /// A round of the conduit's [`Barrier`] has ended, with the AND of the words of all leaders.
    /// Called in both scopes of `poll`.
    fn barrier(&mut self, words: [u64; 2]) {
        unreachable!("the end of a barrier ({words:?}) that nobody has entered");
    }
    /// A peer is lost, or an operation with it failed. At most once per peer. The runtime ends the
    /// job with a message.
    fn peer_lost(&mut self, peer: JobRank, why: &str);
    /// The network of this process has failed, and no single peer is the reason: an HCA, a port, a
    /// socket. The runtime ends the job with a message.
    fn network_lost(&mut self, why: &str);
}

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of its host.
    pub host: u32,
    /// Number of its neighbourhood, which lies on that host.
    pub nbrhd: u32,
}

/// The arguments of [`Conduit::start`].
pub struct StartInfo<'a> {
    /// This process.
    pub rank: JobRank,
    /// Processes in the job.
    pub size: u32,
    /// Where a process is. Computed from ranges, not from a table with an entry per process.
    pub place_of: &'a dyn Fn(JobRank) -> Place,
    /// The processes on this host, ascending, this one among them. They share its NICs and its
    /// pinnable memory.
    pub host: &'a [JobRank],
    /// The first process of each neighbourhood, by its number. They take part in [`Barrier`].
    pub leaders: &'a [JobRank],
    /// Memory that the processes of this host share: as many bytes as asked, zero at first,
    /// page-aligned, never unmapped, and without a name. Called at most once, inside `start`, by
    /// all processes of the job or by none (an exchange), with the same size.
    pub host_memory: &'a dyn Fn(usize) -> Result<*mut u8, ConduitError>,
    /// The descriptor of that memory, or -1: kernels find what processes of a host share by a file
    /// (domains of NICs).
    pub host_fd: RawFd,
    /// Whether the conduit may start threads, which never run client code. Clients may forbid it
    /// (`GEX_FLAG_DEFER_THREADS`).
    pub may_start_threads: bool,
    /// The IP address at which other hosts reach this one; loopback in a job on one host.
    pub host_address: std::net::IpAddr,
    /// Only one thread of this process calls the conduit (SEQ, no receive thread), so the vendor's
    /// library needs no locks.
    pub single_threaded: bool,
    /// Whether waiting threads of this process are to sleep: the host has more processes than
    /// cores, or the user wants it. Otherwise a conduit whose polls are slower with a [`Wake`]
    /// leaves it out, and waiting threads yield.
    pub threads_sleep: bool,
    /// All-gather over the whole job: the bytes of every rank (equal lengths) in rank order.
    /// Collective, and a barrier; may be called several times, in the same order on all ranks.
    pub exchange: &'a dyn Fn(&[u8]) -> Vec<u8>,
    /// A secret of this job, equal in all its processes. It authenticates them.
    pub job_token: u128,
}

impl StartInfo<'_> {
    /// The index of this process on its host: which NIC, which part of a shared resource.
    pub fn host_index(&self) -> usize {
        self.host.partition_point(|other| *other < self.rank)
    }

    /// What authenticates messages of the job: its secret, hashed to 64 bits.
    pub fn message_token(&self) -> u64 {
        let mixed = (self.job_token as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (self.job_token >> 64) as u64;
        (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

/// What `gasnet_info` prints about a provider of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderReport {
    /// Its name.
    pub name: String,
    /// Labels and texts. The first has the label "use".
    pub facts: Vec<(&'static str, String)>,
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

/// How a job ends, for [`Network::stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A thread ends it, which may wait for short locks.
    Orderly,
    /// A signal handler ends it, and the interrupted code may be inside the conduit or the vendor's
    /// library: no lock, no allocation, no call of that library. Peers learn of the end from the
    /// node agents.
    Signal,
}

/// A conduit before its start. See the module documentation for the contract.
pub trait Conduit: Sync {
    /// Its constant properties.
    fn identity(&self) -> Identity;

    /// Limits. They depend on the environment only.
    fn limits(&self) -> Limits;

    /// Opens the network. Collective; called once, after the bootstrap. May block until the other
    /// processes call it.
    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError>;

    /// Whether this process can start the conduit, in a job of `ranks` processes. Inspects the
    /// machine, changes nothing but variables of the vendor's library, does not block. Called
    /// before `start`, in the universal library only, which uses a conduit that all processes can
    /// start. The error names what is missing.
    fn probe(&self, ranks: u32) -> Result<(), ConduitError> {
        let _ = ranks;
        Ok(())
    }

    /// Environment variables of this conduit, for the table in `config`.
    fn variables(&self) -> &'static [crate::config::Variable] {
        &[]
    }

    /// The providers of this conduit's network on this machine, and how the conduit would use each.
    /// Opens and closes devices. Never called in a job.
    fn providers(&self) -> Vec<ProviderReport> {
        Vec::new()
    }

    /// The system that the network brings along to start jobs.
    fn bootstrap(&self) -> Option<&dyn Bootstrap> {
        None
    }
}

/// A started network, complete from then on. See the module documentation for the contract.
pub trait Network: Send + Sync {
    /// Sends one packet: the concatenation of `parts`, which are copied before return (local
    /// completion is immediate). Never blocks, polls or makes upcalls. `Err(Busy)` means that
    /// nothing was sent: no space or credit now, or the first connection to the peer is not
    /// established yet.
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy>;

    /// Delivers a bounded number of packets and completions. Returns their number, or more if it
    /// did something else after which a waiting thread should not sleep yet: it served a peer.
    /// Called recursively, from [`Upcalls::packet`], only with [`PollScope::Replies`]. Both scopes
    /// deliver completions, accept connections and advance earlier sends.
    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize;

    /// As [`Network::poll`] with [`PollScope::All`], for a thread that waits for a put, get or
    /// atomic: it need not look where completions of those never are. A complete poll follows soon.
    fn poll_completions(&self, upcalls: &mut dyn Upcalls) -> usize {
        self.poll(PollScope::All, upcalls)
    }

    /// Closes the network. Called once, by the thread that ends the job, while other threads may be
    /// inside the conduit. Packets accepted but not delivered may be dropped; the runtime waits for
    /// answers where it needs delivery. Notifies peers of the orderly exit, as far as possible
    /// without blocking. Then `poll` delivers nothing.
    fn stop(&self, how: Stop);

    /// Its optional abilities. Constant.
    fn abilities(&self) -> Abilities<'_> {
        Abilities::default()
    }
}

/// The optional abilities of a network. Without one the runtime does the work over packets that
/// [`Network::send`] copies.
#[derive(Clone, Copy, Default)]
pub struct Abilities<'a> {
    /// Buffers for negotiated payloads.
    pub send_buffers: Option<&'a dyn SendBuffers>,
    /// Mediums from the client's memory.
    pub gather: Option<&'a dyn Gather>,
    /// Registered memory.
    pub segments: Option<&'a dyn Segments>,
    /// Puts and gets. Requires `segments`.
    pub rma: Option<&'a dyn Rma>,
    /// Puts with notification, for Longs. Requires `segments`.
    pub put_notify: Option<&'a dyn PutNotify>,
    /// Remote atomics. Requires `segments`.
    pub atomics: Option<&'a dyn Atomics>,
    /// The network's own barrier.
    pub barrier: Option<&'a dyn Barrier>,
    /// Words in the memory of peers.
    pub words: Option<&'a dyn Words>,
    /// Wakes sleeping threads.
    pub wake: Option<&'a dyn Wake>,
}

impl Abilities<'_> {
    /// Whether puts and gets reach memory that is not registered.
    pub fn reaches_all_memory(&self) -> bool {
        self.rma.is_some_and(Rma::reaches_all_memory)
    }
}

/// The network of a job that needs none, for it is one neighbourhood.
pub struct NoNetwork;

impl Network for NoNetwork {
    fn send(&self, peer: JobRank, class: Class, _: &[&[u8]]) -> Result<(), Busy> {
        panic!("defect: there is no network, but a {class:?} packet for process {peer}");
    }

    fn poll(&self, _: PollScope, _: &mut dyn Upcalls) -> usize {
        0
    }

    fn stop(&self, _: Stop) {}
}
