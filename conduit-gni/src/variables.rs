//! Environment variables of this conduit; [`crate::settings`] reads them.
#![forbid(unsafe_code)]

use gasnet_conduit::choice_enum;
use gasnet_conduit::config::{choice, count, flag, form, size, text, Key, Scope, Spawner, Variable};
use gasnet_conduit::size_spec::Limit;

/// The section of the reference page.
const SECTION: &str = "Network: gni";

choice_enum! {
    /// Which order of writes into registered memory the NIC keeps.
    pub enum Consistency {
        /// All.
        Strict = "strict",
        /// Data before the completion of their operation.
        Relaxed = "relaxed",
        /// As the library chooses.
        None = "none",
    }
}

choice_enum! {
    /// How the network routes packets.
    pub enum Routing {
        /// In order.
        InOrder = "IN_ORDER",
        /// By fixed detours.
        NonMinimal = "NMIN_HASH",
        /// By fixed shortest paths.
        Minimal = "MIN_HASH",
        /// Adaptively, without bias.
        Adaptive0 = "ADAPTIVE_0",
        /// With a bias to shortest paths that grows at each hop.
        Adaptive1 = "ADAPTIVE_1",
        /// With a small bias.
        Adaptive2 = "ADAPTIVE_2",
        /// With a large bias.
        Adaptive3 = "ADAPTIVE_3",
    }
}

/// File of the library.
pub static LIBRARY: Key<Option<String>> = text(
    "GASNET_GNI_LIBRARY",
    "Library to open instead of libugni.so: a path, or a name that the loader searches.",
)
.ours();
pub const SPAWNER: Key<Option<Spawner>> = choice("GASNET_GNI_SPAWNER", "auto", "As GASNET_SPAWNER, for gni.")
    .scope(Scope::Launcher)
    .ours();
/// File of Cray's PMI library.
pub static PMI_LIBRARY: Key<Option<String>> = text(
    "GASNET_GNI_PMI_LIBRARY",
    "Library to open instead of Cray's libpmi.so.0, for processes that aprun or native Slurm has started.",
)
.ours();
pub const MAX_MEDIUM: Key<u32> = count(
    "GASNET_GNI_MAX_MEDIUM",
    "4032",
    512,
    65408,
    "Largest payload of a Medium, rounded down to a multiple of 64. The same in all processes.",
)
.unit("bytes");
pub const NETWORKDEPTH: Key<u32> = count(
    "GASNET_NETWORKDEPTH",
    "64",
    1,
    1 << 20,
    "Requests under way from a process to a peer, at most 64 and GASNET_NETWORKDEPTH_TOTAL.",
);
pub const NETWORKDEPTH_TOTAL: Key<u32> = count(
    "GASNET_NETWORKDEPTH_TOTAL",
    "64",
    1,
    1 << 20,
    "Requests under way from a process, at most 32768.",
);
pub const NETWORKDEPTH_SPACE: Key<Option<u64>> = size(
    "GASNET_NETWORKDEPTH_SPACE",
    "0",
    0,
    1 << 40,
    "Bytes of requests under way from a process to a peer that has set memory aside for it, at least two and at most \
     64 of the largest Mediums. A request takes parts of a GASNET_NETWORKDEPTH-th.",
)
.optional()
.unset_means("four of the largest Mediums; on Gemini 12K");
pub const LONG_DEPTH: Key<Option<u32>> = count(
    "GASNET_LONG_DEPTH",
    "",
    1,
    64,
    "Request Longs under way from a process to a peer, of those whose payload does not travel in their message.",
)
.unset_means("GASNET_NETWORKDEPTH")
.optional();
pub const AM_RVOUS_CUTOVER: Key<u32> = count(
    "GASNET_GNI_AM_RVOUS_CUTOVER",
    "16384",
    0,
    1 << 30,
    "Processes of a job from which on all requests are fetched by their receivers (rendezvous). 1: always. 0: never.",
);
pub const AM_RVOUS_BUFFERS: Key<u32> = count(
    "GASNET_GNI_AM_RVOUS_BUFFERS",
    "64",
    1,
    1 << 16,
    "Requests that a process fetches at a time.",
);
pub const AM_EAGER_PEERS: Key<u32> = count(
    "GASNET_GNI_AM_EAGER_PEERS",
    "1024",
    0,
    1 << 20,
    "Peers for which a process sets aside GASNET_NETWORKDEPTH_SPACE, into which they write their requests. In larger \
     jobs those that send much get it, and requests of others are fetched.",
)
.ours();
pub const PACKEDLONG_CUTOVER: Key<Option<u32>> = count(
    "GASNET_GNI_PACKEDLONG_CUTOVER",
    "",
    0,
    1 << 30,
    "The payload of a Long whose message is up to this long travels in it. At most GASNET_GNI_MAX_MEDIUM + 64.",
)
.unit("bytes")
.unset_means("the largest")
.optional();
pub const AMPOLL_BURST: Key<u32> = count(
    "GASNET_GNI_AMPOLL_BURST",
    "20",
    1,
    1 << 20,
    "Events of arrivals that a poll handles.",
);
pub const AM_MEMORY_REPORT: Key<bool> = flag(
    "GASNET_GNI_AM_MEMORY_REPORT",
    false,
    "Report the memory of the buffers of Active Messages on stderr.",
);
pub const NUM_PD: Key<u32> = count(
    "GASNET_GNI_NUM_PD",
    "512",
    32,
    1 << 20,
    "Operations under way from a process, in each communication domain.",
)
.scope(Scope::Rank);
pub const GET_FMA_RDMA_CUTOVER: Key<Option<u64>> = size(
    "GASNET_GNI_GET_FMA_RDMA_CUTOVER",
    "0",
    0,
    1 << 40,
    "Gets of up to this many bytes go by FMA, longer ones by the block transfer engine. At most 16K.",
)
.scope(Scope::Rank)
.optional()
.unset_means("1023; on Gemini 4096");
pub const PUT_FMA_RDMA_CUTOVER: Key<Option<u64>> =
    size("GASNET_GNI_PUT_FMA_RDMA_CUTOVER", "0", 0, 1 << 40, "The same of puts.")
        .scope(Scope::Rank)
        .optional()
        .unset_means("1023; on Gemini 4096");
pub const GET_BOUNCE_REGISTER_CUTOVER: Key<u64> = size(
    "GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER",
    "4096",
    0,
    1 << 40,
    "Gets of up to this many bytes into memory outside segments are copied. Longer ones register it. 4K to 32K.",
)
.scope(Scope::Rank);
pub const PUT_BOUNCE_REGISTER_CUTOVER: Key<u64> = size(
    "GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER",
    "4096",
    0,
    1 << 40,
    "The same of puts from there, and of those whose source is to be free at once.",
)
.scope(Scope::Rank);
pub const BOUNCE_SIZE: Key<u64> = size(
    "GASNET_GNI_BOUNCE_SIZE",
    "256K",
    0,
    1 << 40,
    "Memory for such copies, in buffers of the largest of the two limits and GASNET_GNI_MAX_MEDIUM + 64.",
)
.scope(Scope::Rank);
pub const MEM_CONSISTENCY: Key<Consistency> = choice(
    "GASNET_GNI_MEM_CONSISTENCY",
    "relaxed",
    "Which order of writes into segments the NIC keeps.",
);
pub const MEMREG: Key<Option<u32>> = count(
    "GASNET_GNI_MEMREG",
    "",
    0,
    1 << 30,
    "Registrations of memory outside segments at a time. Transfers beyond it are copied in pieces.",
)
.scope(Scope::Rank)
.unset_means("3072; on Gemini 16")
.optional();
pub const USE_UDREG: Key<bool> = flag(
    "GASNET_USE_UDREG",
    true,
    "Operations that are under way at the same time share the registration of their memory. Cray's UDREG library is \
     not used.",
)
.scope(Scope::Rank);
pub const FMA_SHARING: Key<Option<bool>> = flag(
    "GASNET_GNI_FMA_SHARING",
    false,
    "Share the FMA descriptors of the NIC among processes, which costs time.",
)
.scope(Scope::Rank)
.optional()
.unset_means("if the processes of the host have more domains than the NIC has descriptors: 123; on Gemini 30");
pub const MDD_SHARING: Key<bool> = flag(
    "GASNET_GNI_MDD_SHARING",
    true,
    "Share memory domain descriptors among registrations.",
)
.scope(Scope::Rank);
pub const BTE_MULTI_CHANNEL: Key<bool> = flag(
    "GASNET_GNI_BTE_MULTI_CHANNEL",
    true,
    "Use all channels of the block transfer engine.",
);
pub const ROUTING_MODE: Key<Routing> = choice(
    "GASNET_GNI_ROUTING_MODE",
    "ADAPTIVE_0",
    "How the Aries network routes packets. None of them orders operations.",
);
pub const PHYSMEM_MAX: Key<String> = form(
    "GASNET_PHYSMEM_MAX",
    "0.8",
    "a part of the memory (2/3, 0.5) or a size (100G; megabytes without unit)",
    |text| Limit::parse(text).is_some(),
    "Most memory of a host that its processes register together for segments, in equal shares.",
)
.scope(Scope::Rank);
pub const PHYSMEM_PROBE: Key<bool> = flag(
    "GASNET_PHYSMEM_PROBE",
    false,
    "Find out at start how much of GASNET_PHYSMEM_MAX can be registered, by registering it. Slow on large hosts.",
)
.scope(Scope::Rank);
pub const USE_CE: Key<bool> = flag(
    "GASNET_USE_CE",
    true,
    "Use the collective engine of Aries for barriers.",
);
pub const USE_CE_PSHM: Key<bool> = flag(
    "GASNET_USE_CE_PSHM",
    true,
    "The processes of a neighbourhood share one leaf of the collective engine. If not, they need a neighbourhood each.",
);
pub const CE_RADIX: Key<u32> = count(
    "GASNET_GNI_CE_RADIX",
    "2",
    1,
    31,
    "Hosts below each in the tree of the collective engine. A host has at most 32 less this many neighbourhoods.",
);
pub const DOMAIN_COUNT: Key<u32> = count(
    "GASNET_DOMAIN_COUNT",
    "1",
    1,
    64,
    "Communication domains of a process, among which its threads are distributed (PAR).",
)
.scope(Scope::Rank);
pub const PTHREADS_PER_DOMAIN: Key<u32> = count(
    "GASNET_GNI_PTHREADS_PER_DOMAIN",
    "1",
    1,
    1 << 20,
    "Threads that the first domain gets before the second gets any, and so on, cyclically.",
)
.scope(Scope::Rank);
pub const AM_DOMAIN_POLL_MASK: Key<u32> = count(
    "GASNET_AM_DOMAIN_POLL_MASK",
    "255",
    0,
    u32::MAX,
    "Threads of other domains than the first look for messages when the number of their poll has none of these bits. \
     Threads of the first look at every poll.",
)
.scope(Scope::Rank);

/// All of them.
pub static TABLE: &[Variable] = &Variable::all_in(
    SECTION,
    &[
        LIBRARY.variable,
        SPAWNER.variable,
        PMI_LIBRARY.variable,
        MAX_MEDIUM.variable,
        NETWORKDEPTH.variable,
        NETWORKDEPTH_TOTAL.variable,
        NETWORKDEPTH_SPACE.variable,
        LONG_DEPTH.variable,
        AM_RVOUS_CUTOVER.variable,
        AM_RVOUS_BUFFERS.variable,
        AM_EAGER_PEERS.variable,
        PACKEDLONG_CUTOVER.variable,
        AMPOLL_BURST.variable,
        AM_MEMORY_REPORT.variable,
        NUM_PD.variable,
        GET_FMA_RDMA_CUTOVER.variable,
        PUT_FMA_RDMA_CUTOVER.variable,
        GET_BOUNCE_REGISTER_CUTOVER.variable,
        PUT_BOUNCE_REGISTER_CUTOVER.variable,
        BOUNCE_SIZE.variable,
        MEM_CONSISTENCY.variable,
        MEMREG.variable,
        USE_UDREG.variable,
        FMA_SHARING.variable,
        MDD_SHARING.variable,
        BTE_MULTI_CHANNEL.variable,
        ROUTING_MODE.variable,
        PHYSMEM_MAX.variable,
        PHYSMEM_PROBE.variable,
        USE_CE.variable,
        USE_CE_PSHM.variable,
        CE_RADIX.variable,
        DOMAIN_COUNT.variable,
        PTHREADS_PER_DOMAIN.variable,
        AM_DOMAIN_POLL_MASK.variable,
    ],
);
