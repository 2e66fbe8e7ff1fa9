//! Environment variables of this conduit. Those that choose ports are declared in
//! [`crate::ports::variables`].
#![forbid(unsafe_code)]

use crate::pinned::Limit;
use crate::ports::variables as ports;
use gasnet_conduit::config::{self, count, flag, form, int, size, text, Config, Key, Variable};

/// The section of the reference page.
const SECTION: &str = "Network: ibv";

/// File of the library.
pub static LIBRARY: Key<Option<String>> = text(
    "GASNET_IBV_LIBRARY",
    "Library to open instead of libibverbs.so.1: a path, or a name that the loader searches.",
)
.ours();
const MAX_MEDIUM: Key<u64> = size(
    "GASNET_IBV_MAX_MEDIUM",
    "64K",
    1024,
    256 << 10,
    "Largest payload of a Medium, rounded up to 64 bytes. More than 64K counts as 64K. The same in all processes.",
)
.ours();
const QP_TIMEOUT: Key<u32> = count(
    "GASNET_QP_TIMEOUT",
    "18",
    0,
    31,
    "Time that an HCA waits for an acknowledgement: 4.096 us * 2^value. 0: for ever.",
);
const QP_RETRY_COUNT: Key<u32> = count(
    "GASNET_QP_RETRY_COUNT",
    "7",
    1,
    7,
    "Retransmissions before an HCA gives a peer up.",
);
const QP_RD_ATOM: Key<u32> = count(
    "GASNET_QP_RD_ATOM",
    "0",
    0,
    255,
    "Gets and atomics of a peer that an HCA executes at a time. 0: as many as it can.",
);
const CONNECT_STATIC: Key<Option<bool>> = flag(
    "GASNET_CONNECT_STATIC",
    false,
    "Connect to all peers at start. A peer that is not connected is connected at its first use.",
)
.unset_means("in jobs of up to 256 processes")
.optional();
const CONNECT_DYNAMIC: Key<bool> = flag(
    "GASNET_CONNECT_DYNAMIC",
    true,
    "Connect to a peer at its first use. If not, GASNET_CONNECT_STATIC counts as set.",
);
const CONNECT_SNDS: Key<u32> = count(
    "GASNET_CONNECT_SNDS",
    "4",
    1,
    4096,
    "Buffers to send connection requests.",
);
const CONNECT_RCVS: Key<Option<u32>> = count(
    "GASNET_CONNECT_RCVS",
    "",
    1,
    16384,
    "Buffers to receive connection requests. Requests in excess are dropped, and sent again.",
)
.unset_means("max(6, 4 + 2 log2 of the remote processes)")
.optional();
const CONNECT_RETRANS_MIN: Key<u32> = count(
    "GASNET_CONNECT_RETRANS_MIN",
    "10000",
    100,
    1 << 30,
    "Time until a connection request is sent again. It doubles with each retransmission.",
)
.unit("us");
const CONNECT_RETRANS_MAX: Key<u32> = count(
    "GASNET_CONNECT_RETRANS_MAX",
    "300000000",
    1000,
    1 << 30,
    "Time after which a connection fails.",
)
.unit("us");
const INLINESEND_LIMIT: Key<i64> = int(
    "GASNET_INLINESEND_LIMIT",
    "72",
    -1,
    1 << 20,
    "Messages and puts of up to this many bytes are written into the work request. -1: as many as the HCA takes.",
)
.unit("bytes");
const PACKEDLONG_LIMIT: Key<u64> = size(
    "GASNET_PACKEDLONG_LIMIT",
    "4012",
    0,
    1 << 20,
    "The payload of a Long of up to this many bytes travels in its message. At most half of GASNET_IBV_MAX_MEDIUM.",
)
.unit("bytes");
const NONBULKPUT_BOUNCE_LIMIT: Key<u64> = size(
    "GASNET_NONBULKPUT_BOUNCE_LIMIT",
    "64K",
    0,
    1 << 30,
    "Puts of up to this many bytes whose source is to be free at once are copied, and so are those from or to memory \
     outside segments, at most GASNET_IBV_MAX_MEDIUM. Larger ones wait, or register the memory.",
)
.unit("bytes");
const USE_SRQ: Key<i64> = int(
    "GASNET_USE_SRQ",
    "-1",
    -1,
    1 << 31,
    "Share receive buffers among peers. 0: each queue pair has buffers of its own. -1: share them only if the peers \
     need more than GASNET_RBUF_COUNT. A larger number: only in jobs of at least so many processes.",
);
const NETWORKDEPTH_PP: Key<u32> = count(
    "GASNET_NETWORKDEPTH_PP",
    "64",
    4,
    16384,
    "Operations under way from a process to a peer, per queue pair.",
);
const NETWORKDEPTH_TOTAL: Key<u32> = count(
    "GASNET_NETWORKDEPTH_TOTAL",
    "4096",
    0,
    1 << 22,
    "Operations under way from a process, per HCA. 0: as many as the HCA's queue takes.",
);
const AM_CREDITS_PP: Key<u32> = count(
    "GASNET_AM_CREDITS_PP",
    "48",
    2,
    1 << 14,
    "Requests under way from a process to a peer.",
);
const AM_CREDITS_SLACK: Key<Option<u32>> = count(
    "GASNET_AM_CREDITS_SLACK",
    "",
    0,
    1 << 14,
    "Credits that a process keeps for its next message to the requester before it returns them in one of their own. At \
     most half of GASNET_AM_CREDITS_PP.",
)
.unset_means("half of GASNET_AM_CREDITS_PP")
.optional();
const AMRDMA_MAX_PEERS: Key<u32> = count(
    "GASNET_AMRDMA_MAX_PEERS",
    "32",
    0,
    1 << 14,
    "Peers whose small messages are written into memory of this process (72 kB for each), if they send many. Only if \
     threads do not sleep while they wait.",
);
const RBUF_COUNT: Key<u32> = count(
    "GASNET_RBUF_COUNT",
    "1024",
    0,
    1 << 20,
    "Most shared receive buffers. They are allocated as peers connect. 0: as many as the HCA takes.",
);
const BBUF_COUNT: Key<u32> = count(
    "GASNET_BBUF_COUNT",
    "1024",
    0,
    1 << 20,
    "Most send buffers of each size. They are allocated when they are needed. 0: as many as \
     GASNET_NETWORKDEPTH_TOTAL.",
);
const USE_FENCED_PUTS: Key<Option<bool>> = flag(
    "GASNET_USE_FENCED_PUTS",
    false,
    "Complete a put only when every HCA and CPU of the target's host sees its bytes, at the cost of a round trip.",
)
.unset_means("if processes of a host use several HCAs")
.optional();
const PHYSMEM_MAX: Key<String> = form(
    "GASNET_PHYSMEM_MAX",
    "2/3",
    "a part of the memory (2/3, 0.5) or a size (100G; megabytes without unit)",
    |text| Limit::parse(text).is_some(),
    "Most memory of a host that its processes register together for segments, in equal shares. The limit on locked \
     memory counts, too.",
);
const PHYSMEM_PROBE: Key<Option<String>> = text(
    "GASNET_PHYSMEM_PROBE",
    "Whether to probe at start how much memory can be registered: there is no probe.",
)
.no_effect();
const USE_ODP: Key<bool> = flag(
    "GASNET_USE_ODP",
    true,
    "Let HCAs that can page on demand use memory outside segments in place.",
);
const ODP_VERBOSE: Key<u32> = count(
    "GASNET_ODP_VERBOSE",
    "1",
    0,
    9,
    "Whether to warn of HCAs that cannot page on demand. 1: how many processes have such, 2: which.",
);
const ATOMICS: Key<bool> = flag(
    "GASNET_IBV_ATOMICS",
    true,
    "Atomic domains of 64-bit integers with additions, reads and compare-and-swap only use the HCA's atomics.",
)
.ours();

/// All variables.
pub static TABLE: &[Variable] = &[
    LIBRARY.variable.section(SECTION),
    MAX_MEDIUM.variable.section(SECTION),
    QP_TIMEOUT.variable.section(SECTION),
    QP_RETRY_COUNT.variable.section(SECTION),
    QP_RD_ATOM.variable.section(SECTION),
    CONNECT_STATIC.variable.section(SECTION),
    CONNECT_DYNAMIC.variable.section(SECTION),
    CONNECT_SNDS.variable.section(SECTION),
    CONNECT_RCVS.variable.section(SECTION),
    CONNECT_RETRANS_MIN.variable.section(SECTION),
    CONNECT_RETRANS_MAX.variable.section(SECTION),
    INLINESEND_LIMIT.variable.section(SECTION),
    PACKEDLONG_LIMIT.variable.section(SECTION),
    NONBULKPUT_BOUNCE_LIMIT.variable.section(SECTION),
    USE_SRQ.variable.section(SECTION),
    NETWORKDEPTH_PP.variable.section(SECTION),
    NETWORKDEPTH_TOTAL.variable.section(SECTION),
    AM_CREDITS_PP.variable.section(SECTION),
    AM_CREDITS_SLACK.variable.section(SECTION),
    AMRDMA_MAX_PEERS.variable.section(SECTION),
    RBUF_COUNT.variable.section(SECTION),
    BBUF_COUNT.variable.section(SECTION),
    USE_FENCED_PUTS.variable.section(SECTION),
    PHYSMEM_MAX.variable.section(SECTION),
    PHYSMEM_PROBE.variable.section(SECTION),
    USE_ODP.variable.section(SECTION),
    ODP_VERBOSE.variable.section(SECTION),
    ATOMICS.variable.section(SECTION),
    ports::PORTS.variable.section(SECTION),
    ports::PORTS_TYPE.variable.section(SECTION),
    ports::PORTS_NUMBERED.variable.section(SECTION),
    ports::MAX_HCAS.variable.section(SECTION),
    ports::NUM_QPS.variable.section(SECTION),
    ports::PORTS_VERBOSE.variable.section(SECTION),
    ports::LIST_PORTS.variable.section(SECTION),
    ports::LIST_PORTS_NODES.variable.section(SECTION),
    ports::GID_INDEX.variable.section(SECTION),
    ports::PKEY.variable.section(SECTION),
    ports::MAX_MTU.variable.section(SECTION),
    ports::SERVICE_LEVEL.variable.section(SECTION),
    ports::TRAFFIC_CLASS.variable.section(SECTION),
    ports::HCA_ID.variable.section(SECTION),
    ports::PORT_NUM.variable.section(SECTION),
];

/// The bytes of the largest packet, in which a Medium of `GASNET_IBV_MAX_MEDIUM` fits with its
/// header and arguments.
pub fn max_packet_bytes() -> usize {
    packet_bytes(config::get())
}

fn packet_bytes(config: &Config) -> usize {
    const AROUND: usize = 128;
    /// The runtime's limit, too.
    const MOST: usize = 64 << 10;
    let bytes = config.get_or_default(&MAX_MEDIUM) as usize;
    bytes.next_multiple_of(64).min(MOST) + AROUND
}

/// The settings of the environment. A limit that the HCA does not reach is lowered later.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of the largest packet.
    pub max_packet: usize,
    /// Exponent of the transport's timeout.
    pub timeout: u8,
    /// Its retransmissions.
    pub retries: u8,
    /// Gets and atomics that an HCA executes at a time; 0: its limit.
    pub reads: u8,
    /// Whether peers are connected at start; none: if they are few.
    pub connect_at_start: Option<bool>,
    /// Buffers for datagrams to send.
    pub datagram_sends: usize,
    /// Buffers for datagrams to receive.
    pub datagram_receives: Option<usize>,
    /// Microseconds until a handshake is sent again, and until it fails.
    pub retransmission: (u64, u64),
    /// Most bytes of inline data; none: the HCA's limit.
    pub inline: Option<usize>,
    /// Most bytes of a packed Long.
    pub packed: usize,
    /// Most bytes of a put that is copied.
    pub bounce: usize,
    /// Processes from which on receive buffers are shared; 0: never, -1: if that saves some.
    sharing: i64,
    /// Work requests in a send queue.
    pub depth: usize,
    /// Completions that a process may wait for; 0: the HCA's limit.
    pub total_depth: usize,
    /// Requests under way to a peer.
    pub credits: u32,
    /// Credits that are kept for the next message.
    pub slack: u32,
    /// Most peers with a ring.
    pub rings: usize,
    /// Most shared receive buffers; 0: the HCA's limit.
    pub receives: usize,
    /// Most send buffers of a size.
    pub send_buffers: usize,
    /// Whether puts are fenced; none: if that is needed.
    pub fenced: Option<bool>,
    /// Whether HCAs page on demand if they can, and how much is printed if not.
    pub on_demand: bool,
    pub on_demand_verbose: u32,
    /// Whether atomics are the HCA's.
    pub atomics: bool,
}

impl Settings {
    /// Reads the environment.
    pub fn read() -> Self {
        Self::of(config::get())
    }

    /// Receive buffers that a peer needs: one for each request and each reply, and some for its
    /// farewell and for messages that return credits.
    pub fn receives_of_peer(&self) -> usize {
        2 * self.credits as usize + 8
    }

    /// Whether they are shared in a job of so many processes, which need `buffers` otherwise.
    pub fn shares(&self, processes: usize, buffers: usize) -> bool {
        match self.sharing {
            -1 => self.receives != 0 && self.receives < buffers,
            0 => false,
            least => processes as i64 >= least,
        }
    }

    fn of(config: &Config) -> Self {
        let count = |key: &Key<u32>| config.get_or_default(key) as usize;
        let max_packet = packet_bytes(config);
        let credits = config.get_or_default(&AM_CREDITS_PP);
        let total_depth = count(&NETWORKDEPTH_TOTAL);
        let send_buffers = match count(&BBUF_COUNT) {
            0 => total_depth.max(count(&NETWORKDEPTH_PP)),
            some => some,
        };
        Self {
            max_packet,
            timeout: config.get_or_default(&QP_TIMEOUT) as u8,
            retries: config.get_or_default(&QP_RETRY_COUNT) as u8,
            reads: config.get_or_default(&QP_RD_ATOM) as u8,
            connect_at_start: if config.get_or_default(&CONNECT_DYNAMIC) {
                config.get_or_default(&CONNECT_STATIC)
            } else {
                Some(true)
            },
            datagram_sends: count(&CONNECT_SNDS),
            datagram_receives: config.get_or_default(&CONNECT_RCVS).map(|count| count as usize),
            retransmission: (
                u64::from(config.get_or_default(&CONNECT_RETRANS_MIN)),
                u64::from(config.get_or_default(&CONNECT_RETRANS_MAX)),
            ),
            inline: usize::try_from(config.get_or_default(&INLINESEND_LIMIT)).ok(),
            packed: (config.get_or_default(&PACKEDLONG_LIMIT) as usize).min(max_packet / 2),
            bounce: (config.get_or_default(&NONBULKPUT_BOUNCE_LIMIT) as usize).min(max_packet),
            sharing: config.get_or_default(&USE_SRQ),
            depth: count(&NETWORKDEPTH_PP),
            total_depth,
            credits,
            slack: config
                .get_or_default(&AM_CREDITS_SLACK)
                .map_or(credits / 2, |slack| slack.min(credits / 2)),
            rings: count(&AMRDMA_MAX_PEERS),
            receives: count(&RBUF_COUNT),
            send_buffers,
            fenced: config.get_or_default(&USE_FENCED_PUTS),
            on_demand: config.get_or_default(&USE_ODP),
            on_demand_verbose: config.get_or_default(&ODP_VERBOSE),
            atomics: config.get_or_default(&ATOMICS),
        }
    }
}

/// Most memory of a host that is registered.
pub fn physmem_max() -> Option<Limit> {
    Limit::parse(&config::get().get_or_default(&PHYSMEM_MAX))
}

/// Whether warnings at start are not wanted.
pub fn is_quiet() -> bool {
    config::get().get_or_default(&config::QUIET)
}
