//! Environment variables of this conduit. Those that choose ports are declared in
//! [`crate::ports::variables`]; [`crate::settings`] reads them.
#![forbid(unsafe_code)]

use crate::memory::limits::Regions;
use crate::ports::variables as ports;
use gasnet_conduit::config::{count, flag, form, int, path, size, text, Key, Scope, Variable};
use gasnet_conduit::size_spec::{size_in, Limit};
use std::path::PathBuf;

/// The section of the reference page.
const SECTION: &str = "Network: ibv";

/// File of the library.
pub static LIBRARY: Key<Option<String>> = text(
    "GASNET_IBV_LIBRARY",
    "Library to open instead of libibverbs.so.1: a path, or a name that the loader searches.",
)
.ours();
pub const MAX_MEDIUM: Key<u64> = size(
    "GASNET_IBV_MAX_MEDIUM",
    "64K",
    1024,
    256 << 10,
    "Largest payload of a Medium, rounded up to 64 bytes. More than 64K counts as 64K. The same in all processes.",
)
.ours();
pub const QP_TIMEOUT: Key<u32> = count(
    "GASNET_QP_TIMEOUT",
    "18",
    0,
    1 << 20,
    "Time that an HCA waits for an acknowledgement: 4.096 us * 2^value, of which 31 is the most. 0: for ever.",
);
pub const QP_RETRY_COUNT: Key<u32> = count(
    "GASNET_QP_RETRY_COUNT",
    "7",
    0,
    1 << 20,
    "Retransmissions before an HCA gives a peer up, at most 7.",
);
pub const QP_RD_ATOM: Key<u32> = count(
    "GASNET_QP_RD_ATOM",
    "0",
    0,
    255,
    "Gets and atomics of a peer that an HCA executes at a time. 0: as many as it can.",
);
pub const CONNECT_STATIC: Key<Option<bool>> = flag(
    "GASNET_CONNECT_STATIC",
    false,
    "Connect to all peers at start. A peer that is not connected is connected at its first use.",
)
.unset_means("in jobs of up to 256 processes")
.optional();
pub const CONNECT_DYNAMIC: Key<bool> = flag(
    "GASNET_CONNECT_DYNAMIC",
    true,
    "Connect to a peer at its first use. If not, GASNET_CONNECT_STATIC counts as set.",
);
pub const CONNECTFILE_IN: Key<Option<PathBuf>> = path(
    "GASNET_CONNECTFILE_IN",
    "File that names the peers to which GASNET_CONNECT_STATIC connects. % stands for the rank.",
)
.scope(Scope::Rank)
.unset_means("all peers");
pub const CONNECTFILE_OUT: Key<Option<PathBuf>> = path(
    "GASNET_CONNECTFILE_OUT",
    "File for the peers with which this process has communicated, written when the job ends, for \
     GASNET_CONNECTFILE_IN. % stands for the rank; without it, all processes append to one file, which NFS does not \
     allow.",
)
.scope(Scope::Rank)
.unset_means("none is written");
pub const CONNECTFILE_BASE: Key<u32> = count(
    "GASNET_CONNECTFILE_BASE",
    "36",
    2,
    36,
    "Base of the ranks in GASNET_CONNECTFILE_OUT.",
);
pub const CONNECT_SNDS: Key<u32> = count(
    "GASNET_CONNECT_SNDS",
    "4",
    1,
    4096,
    "Buffers to send connection requests.",
);
pub const CONNECT_RCVS: Key<Option<u32>> = count(
    "GASNET_CONNECT_RCVS",
    "",
    1,
    16384,
    "Buffers to receive connection requests. Requests in excess are dropped, and sent again.",
)
.unset_means("max(6, 4 + 2 log2 of the remote processes), rounded up")
.optional();
pub const CONNECT_RETRANS_MIN: Key<u32> = count(
    "GASNET_CONNECT_RETRANS_MIN",
    "10000",
    100,
    1 << 30,
    "Time until a connection request is sent again. It doubles with each retransmission.",
)
.unit("us");
pub const CONNECT_RETRANS_MAX: Key<u32> = count(
    "GASNET_CONNECT_RETRANS_MAX",
    "300000000",
    1000,
    1 << 30,
    "Time after which a connection fails.",
)
.unit("us");
pub const INLINESEND_LIMIT: Key<i64> = int(
    "GASNET_INLINESEND_LIMIT",
    "72",
    -1,
    1 << 20,
    "Messages and puts of up to this many bytes are written into the work request. -1: as many as the HCA takes.",
)
.unit("bytes");
pub const PACKEDLONG_LIMIT: Key<u64> = size(
    "GASNET_PACKEDLONG_LIMIT",
    "4012",
    0,
    1 << 20,
    "The payload of a Long of up to this many bytes travels in its message. At most half of GASNET_IBV_MAX_MEDIUM.",
)
.unit("bytes");
pub const NONBULKPUT_BOUNCE_LIMIT: Key<u64> = size(
    "GASNET_NONBULKPUT_BOUNCE_LIMIT",
    "64K",
    0,
    1 << 30,
    "Puts of up to this many bytes whose source is to be free at once are copied, and so are those from or to memory \
     outside segments, at most GASNET_IBV_MAX_MEDIUM. Larger ones wait, or register the memory.",
)
.unit("bytes");
pub const PUT_STRIPE_SZ: Key<String> = form(
    "GASNET_PUT_STRIPE_SZ",
    "0",
    "a size such as 256K or 1M, in kilobytes without unit,",
    is_kilobytes,
    "Puts of more than this are divided among the ports that are used together. 0: those beyond the HCA's largest \
     operation.",
);
pub const GET_STRIPE_SZ: Key<String> = form(
    "GASNET_GET_STRIPE_SZ",
    "0",
    "a size such as 256K or 1M, in kilobytes without unit,",
    is_kilobytes,
    "The same of gets.",
);
pub const AM_GATHER_MIN: Key<i64> = int(
    "GASNET_AM_GATHER_MIN",
    "1500",
    -1,
    1 << 30,
    "Payloads of Mediums from this size on are sent from where they are, if the client does not wait for local \
     completion and the HCA reaches them. -1: all are copied.",
)
.unit("bytes");
pub const PUTINMOVE_LIMIT: Key<Option<String>> = text(
    "GASNET_PUTINMOVE_LIMIT",
    "Data that firehose sends while it registers remote memory: nothing is registered remotely.",
)
.no_effect();
pub const USE_SRQ: Key<i64> = int(
    "GASNET_USE_SRQ",
    "-1",
    -1,
    1 << 31,
    "Share receive buffers among peers. 0: each queue pair has buffers of its own. -1: share them only if the peers \
     need more than GASNET_RBUF_COUNT. A larger number: only in jobs of at least so many processes.",
);
pub const USE_XRC: Key<Option<bool>> = flag(
    "GASNET_USE_XRC",
    false,
    "Where receive buffers are shared, send to all processes of a host that use the same ports by one queue pair per \
     path (XRC). Without effect unless all HCAs of the job can.",
)
.unset_means("in jobs of more than 256 processes")
.optional();
pub const NETWORKDEPTH_PP: Key<u32> = count(
    "GASNET_NETWORKDEPTH_PP",
    "64",
    1,
    16384,
    "Operations under way from a process to a peer, per queue pair; at least 4, and fewer if the HCA refuses so many.",
);
pub const NETWORKDEPTH_TOTAL: Key<u32> = count(
    "GASNET_NETWORKDEPTH_TOTAL",
    "4096",
    0,
    1 << 22,
    "Operations under way from a process, per HCA. 0: as many as GASNET_NETWORKDEPTH_PP allows to all peers.",
);
pub const AM_CREDITS_PP: Key<u32> = count(
    "GASNET_AM_CREDITS_PP",
    "48",
    1,
    1 << 14,
    "Requests under way from a process to a peer. Unless it is set, where receive buffers are shared only so many that \
     these are enough for all peers, but at least 8.",
);
pub const AM_CREDITS_TOTAL: Key<u32> = count(
    "GASNET_AM_CREDITS_TOTAL",
    "0",
    0,
    1 << 30,
    "Requests under way from a process. 0: as many as GASNET_AM_CREDITS_PP allows.",
);
pub const AM_CREDITS_SLACK: Key<Option<u32>> = count(
    "GASNET_AM_CREDITS_SLACK",
    "",
    0,
    1 << 14,
    "Credits that a process keeps for its next message to the requester before it returns them in one of their own. At \
     most half of GASNET_AM_CREDITS_PP.",
)
.unset_means("half of GASNET_AM_CREDITS_PP")
.optional();
pub const AMRDMA_MAX_PEERS: Key<u32> = count(
    "GASNET_AMRDMA_MAX_PEERS",
    "32",
    0,
    1 << 14,
    "Peers whose small messages are written into memory of this process (72 kB for each), if they send many. Only if \
     threads do not sleep while they wait.",
);
pub const RBUF_COUNT: Key<u32> = count(
    "GASNET_RBUF_COUNT",
    "1024",
    0,
    1 << 20,
    "Most shared receive buffers. They are allocated as peers connect. 0: as many as the HCA takes. Where they are \
     not shared, as many of the largest size bound their memory.",
);
pub const BBUF_COUNT: Key<u32> = count(
    "GASNET_BBUF_COUNT",
    "1024",
    0,
    1 << 20,
    "Most send buffers of each size. They are allocated when they are needed. 0: as many as \
     GASNET_NETWORKDEPTH_TOTAL.",
);
pub const RBUF_SPARES: Key<Option<u32>> = count(
    "GASNET_RBUF_SPARES",
    "",
    0,
    1 << 20,
    "Receive buffers for handlers that run: a handler runs in the buffer of its message, unless few are left.",
)
.optional()
.no_effect();
pub const RATOMICBUF_COUNT: Key<Option<u32>> = count(
    "GASNET_RATOMICBUF_COUNT",
    "",
    0,
    1 << 20,
    "Buffers for atomics: they use those of GASNET_BBUF_COUNT.",
)
.optional()
.no_effect();
pub const USE_FENCED_PUTS: Key<Option<bool>> = flag(
    "GASNET_USE_FENCED_PUTS",
    false,
    "Complete a put only when every HCA and CPU of the target's host sees its bytes, at the cost of a round trip.",
)
.unset_means("if processes of a host use several HCAs")
.optional();
pub const PHYSMEM_MAX: Key<String> = form(
    "GASNET_PHYSMEM_MAX",
    "2/3",
    "a part of the memory (2/3, 0.5) or a size (100G; megabytes without unit)",
    |text| Limit::parse(text).is_some(),
    "Most memory of a host that its processes register together for segments, in equal shares. The limit on locked \
     memory counts, too.",
);
pub const PHYSMEM_PROBE: Key<bool> = flag(
    "GASNET_PHYSMEM_PROBE",
    false,
    "Find out at start how much of GASNET_PHYSMEM_MAX can be registered, by registering it. Slow on large hosts.",
);
pub const PHYSMEM_WARN: Key<bool> = flag(
    "GASNET_PHYSMEM_WARN",
    true,
    "Report what GASNET_PHYSMEM_PROBE has found.",
);
pub const MAXIMIZE_MEMLOCK: Key<bool> = flag(
    "GASNET_MAXIMIZE_MEMLOCK",
    true,
    "Raise the limit on locked memory to the hard limit.",
);
pub const PINNED_REGIONS_MAX: Key<Option<String>> = form(
    "GASNET_PINNED_REGIONS_MAX",
    "",
    "a part of the HCA's regions (1/2, 0.25) or a number of them",
    |text| Regions::parse(text).is_some(),
    "Most registrations of memory outside segments that the processes of a host have at a time, in equal shares. \
     Transfers beyond it are copied in pieces.",
)
.unset_means("as many as the HCA takes")
.optional();
pub const USE_FIREHOSE: Key<bool> = flag(
    "GASNET_USE_FIREHOSE",
    true,
    "Register memory outside segments for long transfers. If not, they are copied in pieces, except by HCAs that page \
     on demand.",
);

/// A variable of firehose, the reference's cache of registrations.
const fn firehose(name: &'static str, help: &'static str) -> Key<Option<String>> {
    text(name, help).no_effect()
}

pub const FIREHOSE_M: Key<Option<String>> = firehose(
    "GASNET_FIREHOSE_M",
    "Firehose: memory for registrations of remote memory. No registration outlives its operation.",
);
pub const FIREHOSE_MAXVICTIM_M: Key<Option<String>> = firehose(
    "GASNET_FIREHOSE_MAXVICTIM_M",
    "Firehose: memory for those of local memory. No registration outlives its operation.",
);
pub const FIREHOSE_R: Key<Option<String>> = firehose(
    "GASNET_FIREHOSE_R",
    "Firehose: registrations of remote memory. No registration outlives its operation.",
);
pub const FIREHOSE_MAXVICTIM_R: Key<Option<String>> = firehose(
    "GASNET_FIREHOSE_MAXVICTIM_R",
    "Firehose: those of local memory. No registration outlives its operation.",
);
pub const FIREHOSE_MAXREGION_SIZE: Key<Option<String>> = firehose(
    "GASNET_FIREHOSE_MAXREGION_SIZE",
    "Firehose: largest registration. No registration outlives its operation.",
);
pub const FIREHOSE_TABLE_SCALE: Key<Option<String>> = firehose(
    "GASNET_FIREHOSE_TABLE_SCALE",
    "Firehose: size of its tables. No registration outlives its operation.",
);
pub const FIREHOSE_VERBOSE: Key<Option<String>> = firehose(
    "GASNET_FIREHOSE_VERBOSE",
    "Firehose: its reports. No registration outlives its operation.",
);
pub const USE_ODP: Key<bool> = flag(
    "GASNET_USE_ODP",
    true,
    "Let HCAs that can page on demand use memory outside segments in place.",
);
pub const ODP_VERBOSE: Key<u32> = count(
    "GASNET_ODP_VERBOSE",
    "1",
    0,
    1 << 20,
    "Whether to warn of HCAs that cannot page on demand. 1: how many processes have such, 2: which.",
);
pub const ATOMICS: Key<bool> = flag(
    "GASNET_IBV_ATOMICS",
    true,
    "Atomic domains of 64-bit integers with additions, reads and compare-and-swap only use the HCA's atomics.",
)
.ours();

/// All variables.
pub static TABLE: &[Variable] = &Variable::all_in(
    SECTION,
    &[
        LIBRARY.variable,
        MAX_MEDIUM.variable,
        QP_TIMEOUT.variable,
        QP_RETRY_COUNT.variable,
        QP_RD_ATOM.variable,
        CONNECT_STATIC.variable,
        CONNECT_DYNAMIC.variable,
        CONNECTFILE_IN.variable,
        CONNECTFILE_OUT.variable,
        CONNECTFILE_BASE.variable,
        CONNECT_SNDS.variable,
        CONNECT_RCVS.variable,
        CONNECT_RETRANS_MIN.variable,
        CONNECT_RETRANS_MAX.variable,
        INLINESEND_LIMIT.variable,
        PACKEDLONG_LIMIT.variable,
        NONBULKPUT_BOUNCE_LIMIT.variable,
        PUT_STRIPE_SZ.variable,
        GET_STRIPE_SZ.variable,
        AM_GATHER_MIN.variable,
        PUTINMOVE_LIMIT.variable,
        USE_SRQ.variable,
        USE_XRC.variable,
        NETWORKDEPTH_PP.variable,
        NETWORKDEPTH_TOTAL.variable,
        AM_CREDITS_PP.variable,
        AM_CREDITS_TOTAL.variable,
        AM_CREDITS_SLACK.variable,
        AMRDMA_MAX_PEERS.variable,
        RBUF_COUNT.variable,
        BBUF_COUNT.variable,
        RBUF_SPARES.variable,
        RATOMICBUF_COUNT.variable,
        USE_FENCED_PUTS.variable,
        PHYSMEM_MAX.variable,
        PHYSMEM_PROBE.variable,
        PHYSMEM_WARN.variable,
        MAXIMIZE_MEMLOCK.variable,
        PINNED_REGIONS_MAX.variable,
        USE_FIREHOSE.variable,
        FIREHOSE_M.variable,
        FIREHOSE_MAXVICTIM_M.variable,
        FIREHOSE_R.variable,
        FIREHOSE_MAXVICTIM_R.variable,
        FIREHOSE_MAXREGION_SIZE.variable,
        FIREHOSE_TABLE_SCALE.variable,
        FIREHOSE_VERBOSE.variable,
        USE_ODP.variable,
        ODP_VERBOSE.variable,
        ATOMICS.variable,
        ports::PORTS.variable,
        ports::PORTS_TYPE.variable,
        ports::PORTS_NUMBERED.variable,
        ports::MAX_HCAS.variable,
        ports::NUM_QPS.variable,
        ports::PORTS_VERBOSE.variable,
        ports::LIST_PORTS.variable,
        ports::LIST_PORTS_NODES.variable,
        ports::GID_INDEX.variable,
        ports::PKEY.variable,
        ports::MAX_MTU.variable,
        ports::SERVICE_LEVEL.variable,
        ports::TRAFFIC_CLASS.variable,
        ports::HCA_ID.variable,
        ports::PORT_NUM.variable,
    ],
);

fn is_kilobytes(text: &str) -> bool {
    size_in(text, "K").is_some()
}
