//! The environment variables of this conduit, and their values with the manuals' limits and
//! roundings.
#![forbid(unsafe_code)]

use gasnet_conduit::choice_enum;
use gasnet_conduit::config::{self, choice, count, flag, form, settings, size, text, Scope, Spawner};
use gasnet_conduit::size_spec::Limit;
use gasnet_gni_abi as abi;

/// Least and largest limit of copies.
const BOUNCES: (usize, usize) = (4096, 32768);
/// Largest transfer by FMA.
const FMA_MAX: usize = 16384;
/// Units of the space for a peer's requests: bits of a word.
pub const MOST_UNITS: usize = 64;

/// Most memory of a node with a Gemini for segments. The memory relocation table of the NIC has
/// 16,384 pages, often of 2 MiB, and messages need some.
const GEMINI_MOST: u64 = 24 << 30;

/// Most requests under way from a process.
const MOST_SLOTS: usize = 1 << 15;

/// The NIC of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// XE and XK.
    Gemini,
    /// XC.
    Aries,
}

impl Flavour {
    /// The value for this NIC.
    fn choose(self, gemini: usize, aries: usize) -> usize {
        match self {
            Self::Gemini => gemini,
            Self::Aries => aries,
        }
    }
}

choice_enum! {
    /// Order of writes into registered memory that the NIC keeps.
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
    /// Route of packets in the network.
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

settings! {
    "Network: gni";

    /// The environment's settings.
    #[derive(Clone, Debug)]
    #[allow(clippy::struct_excessive_bools, reason = "each is a variable of its own")]
    pub struct Settings(config, pub flavour: Flavour) {
        LIBRARY: Option<String> = text("GASNET_GNI_LIBRARY",
            "Library to open instead of libugni.so: a path, or a name that the loader searches.").ours();
        SPAWNER: Option<Spawner> = choice("GASNET_GNI_SPAWNER", "auto", "As GASNET_SPAWNER, for gni.")
            .scope(Scope::Launcher).ours();
        PMI_LIBRARY: Option<String> = text("GASNET_GNI_PMI_LIBRARY",
            "Library to open instead of Cray's libpmi.so.0, for processes that aprun or native Slurm has started.")
            .ours();
        MAX_MEDIUM: usize = count("GASNET_GNI_MAX_MEDIUM", "4032", 512, 65408,
            "Largest payload of a Medium, rounded down to a multiple of 64. Must be the same in all processes.")
            .unit("bytes")
            => pub max_packet: usize = packet_bytes(max_packet);
        NETWORKDEPTH: usize = count("GASNET_NETWORKDEPTH", "64", 1, 1 << 20,
            "Most requests in flight from a process to a peer, at most 64 and GASNET_NETWORKDEPTH_TOTAL.")
            => pub depth: usize = depth.min(config.get_or_default(&NETWORKDEPTH_TOTAL)).min(MOST_UNITS);
        NETWORKDEPTH_TOTAL: usize = count("GASNET_NETWORKDEPTH_TOTAL", "64", 1, 1 << 20,
            "Most requests in flight from a process, at most 32768.")
            => pub total_depth: usize = total_depth.min(MOST_SLOTS);
        NETWORKDEPTH_SPACE: Option<usize> = size("GASNET_NETWORKDEPTH_SPACE", "0", 0, 1 << 40,
            "Memory that a process sets aside for the eager requests of a peer: 2 to 64 times the largest Medium. It \
             is divided into GASNET_NETWORKDEPTH units, of which a request takes one or more.")
            .optional().unset_means("four of the largest Mediums; on Gemini 12K")
            => pub space: usize = space_bytes(space, flavour, max_packet - 64);
        LONG_DEPTH: Option<usize> = count("GASNET_LONG_DEPTH", "", 1, 64,
            "Most request Longs in flight from a process to a peer, except those whose payload travels in their \
             message.")
            .unset_means("GASNET_NETWORKDEPTH").optional()
            => pub long_depth: usize = long_depth.unwrap_or(depth);
        /// None: never.
        AM_RVOUS_CUTOVER: u32 = count("GASNET_GNI_AM_RVOUS_CUTOVER", "16384", 0, 1 << 30,
            "Processes of the smallest job in which receivers fetch all requests (rendezvous). 1: always. 0: never.")
            => pub rendezvous: Option<u32> = (rendezvous != 0).then_some(rendezvous);
        AM_RVOUS_BUFFERS: usize = count("GASNET_GNI_AM_RVOUS_BUFFERS", "64", 1, 1 << 16,
            "Most requests that a process fetches at the same time.") => pub fetches;
        AM_EAGER_PEERS: usize = count("GASNET_GNI_AM_EAGER_PEERS", "1024", 0, 1 << 20,
            "Peers for which a process sets aside GASNET_NETWORKDEPTH_SPACE, into which they write their requests. In \
             larger jobs the peers that send most get it, and requests of others are fetched.")
            .ours() => pub eager_peers;
        PACKEDLONG_CUTOVER: Option<usize> = count("GASNET_GNI_PACKEDLONG_CUTOVER", "", 0, 1 << 30,
            "Largest message in which a Long carries its payload. At most GASNET_GNI_MAX_MEDIUM + 64.")
            .unit("bytes").unset_means("the largest").optional()
            => pub packed: usize = packed_bytes(packed, max_packet);
        AMPOLL_BURST: usize = count("GASNET_GNI_AMPOLL_BURST", "20", 1, 1 << 20,
            "Most events of arrivals that a poll handles.") => pub burst;
        AM_MEMORY_REPORT: bool = flag("GASNET_GNI_AM_MEMORY_REPORT", false,
            "Print the memory of the buffers for Active Messages to stderr.") => pub reports_memory;
        NUM_PD: usize = count("GASNET_GNI_NUM_PD", "512", 32, 1 << 20,
            "Most operations in flight from a process, in each communication domain.")
            .scope(Scope::Rank) => pub posts;
        GET_FMA_RDMA_CUTOVER: Option<usize> = size("GASNET_GNI_GET_FMA_RDMA_CUTOVER", "0", 0, 1 << 40,
            "Largest get by FMA. Longer gets go by the block transfer engine. At most 16K.")
            .scope(Scope::Rank).optional().unset_means("1023; on Gemini 4096")
            => pub get_fma: usize = get_fma.unwrap_or(flavour.choose(4096, 1023)).min(FMA_MAX);
        PUT_FMA_RDMA_CUTOVER: Option<usize> = size("GASNET_GNI_PUT_FMA_RDMA_CUTOVER", "0", 0, 1 << 40,
            "Largest put by FMA. Longer puts go by the block transfer engine. At most 16K.")
            .scope(Scope::Rank).optional().unset_means("1023; on Gemini 4096")
            => pub put_fma: usize = put_fma.unwrap_or(flavour.choose(4096, 1023)).min(FMA_MAX);
        GET_BOUNCE_REGISTER_CUTOVER: usize = size("GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER", "4096", 0, 1 << 40,
            "Largest get into memory outside segments that is copied through a bounce buffer. Longer gets register the \
             memory. From 4K to 32K.")
            .scope(Scope::Rank)
            => pub get_bounce: usize = get_bounce.clamp(BOUNCES.0, BOUNCES.1);
        PUT_BOUNCE_REGISTER_CUTOVER: usize = size("GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER", "4096", 0, 1 << 40,
            "Largest put that is copied through a bounce buffer: from memory outside segments, or with a source that \
             must be free at return. Longer puts register the memory. From 4K to 32K.")
            .scope(Scope::Rank)
            => pub put_bounce: usize = put_bounce.clamp(BOUNCES.0, BOUNCES.1);
        // By the manual's formula, which leaves out what precedes a packet in its buffer.
        BOUNCE_SIZE: usize = size("GASNET_GNI_BOUNCE_SIZE", "256K", 0, 1 << 40,
            "Memory for bounce buffers, each of the largest of the two bounce limits and GASNET_GNI_MAX_MEDIUM + 64.")
            .scope(Scope::Rank)
            => pub bounces: usize = bounces / get_bounce.max(put_bounce).max(max_packet - 64);
        MEM_CONSISTENCY: Consistency = choice("GASNET_GNI_MEM_CONSISTENCY", "relaxed",
            "Order of writes into segments that the NIC keeps.") => pub consistency;
        MEMREG: Option<usize> = count("GASNET_GNI_MEMREG", "", 0, 1 << 30,
            "Most registrations of memory outside segments at a time. Transfers beyond it are copied in pieces.")
            .scope(Scope::Rank).unset_means("3072; on Gemini 16").optional()
            => pub registrations: usize = registrations.unwrap_or(flavour.choose(16, 3072));
        USE_UDREG: bool = flag("GASNET_USE_UDREG", true,
            "Share the registration of memory among the operations in flight. Cray's UDREG library is not used.")
            .scope(Scope::Rank) => pub shares_registrations;
        FMA_SHARING: Option<bool> = flag("GASNET_GNI_FMA_SHARING", false,
            "Share the FMA descriptors of the NIC among processes, which costs time.")
            .scope(Scope::Rank).optional().unset_means(
                "if the processes of the host have more domains than the NIC has descriptors: 123; on Gemini 30")
            => pub shares_fma;
        MDD_SHARING: bool = flag("GASNET_GNI_MDD_SHARING", true,
            "Share memory domain descriptors among registrations.").scope(Scope::Rank) => pub shares_mdd;
        BTE_MULTI_CHANNEL: bool = flag("GASNET_GNI_BTE_MULTI_CHANNEL", true,
            "Use all channels of the block transfer engine.") => pub all_channels;
        /// `GNI_DLVMODE_*`.
        ROUTING_MODE: Routing = choice("GASNET_GNI_ROUTING_MODE", "ADAPTIVE_0",
            "Routing of packets in the Aries network. No mode orders operations.")
            => pub routing: u16 = delivery_mode(routing, flavour);
        PHYSMEM_MAX: String = form("GASNET_PHYSMEM_MAX", "0.8",
            "a part of the memory (2/3, 0.5) or a size (100G; megabytes without unit)",
            |text| Limit::parse(text).is_some(),
            "Most memory of a host that its processes register together for segments, in equal shares. On Gemini at \
             most 24G unless this is set.")
            .scope(Scope::Rank)
            => pub physmem_max: Limit = Limit::parse(&physmem_max).unwrap_or(Limit::Part(0.8))
            => pub physmem_is_set: bool = config.is_set(&PHYSMEM_MAX);
        PHYSMEM_PROBE: bool = flag("GASNET_PHYSMEM_PROBE", false,
            "Measure at start how much of GASNET_PHYSMEM_MAX can be registered, by registering it. Slow on large \
             hosts.")
            .scope(Scope::Rank) => pub probes;
        USE_CE: bool = flag("GASNET_USE_CE", true,
            "Use the collective engine of Aries for the barriers of all ranks. If not, leaders of neighbourhoods \
             write words into each other's memory.") => pub engine;
        USE_CE_PSHM: bool = flag("GASNET_USE_CE_PSHM", true,
            "The processes of a neighbourhood share one leaf of the collective engine. If not, the engine is used only \
             where each process is a neighbourhood.")
            => pub engine_hybrid;
        CE_RADIX: usize = count("GASNET_GNI_CE_RADIX", "2", 1, 31,
            "Radix of the collective engine's tree: the children of each host. With radix R, a host has at most 32 - R \
             neighbourhoods.")
            => pub engine_radix;
        DOMAIN_COUNT: usize = count("GASNET_DOMAIN_COUNT", "1", 1, 64,
            "Communication domains of a process, among which its threads are distributed (PAR).")
            .scope(Scope::Rank) => pub domains;
        PTHREADS_PER_DOMAIN: usize = count("GASNET_GNI_PTHREADS_PER_DOMAIN", "1", 1, 1 << 20,
            "Threads that a domain gets before the next one gets any, cyclically.")
            .scope(Scope::Rank) => pub threads_per_domain;
        AM_DOMAIN_POLL_MASK: u32 = count("GASNET_AM_DOMAIN_POLL_MASK", "255", 0, u32::MAX,
            "Bit mask: a thread of another domain than the first polls for messages only if the number of its poll AND \
             the mask is 0. Threads of the first domain do so at every poll.")
            .scope(Scope::Rank) => pub poll_mask;
    }
}

/// Bytes of the largest packet: a Medium with all its arguments.
pub fn max_packet_bytes() -> usize {
    packet_bytes(config::get().get_or_default(&MAX_MEDIUM))
}

fn packet_bytes(max_medium: usize) -> usize {
    /// Header and arguments.
    const AROUND: usize = 128;
    (max_medium & !63) + AROUND
}

/// Bytes that a process sets aside for a peer's requests.
fn space_bytes(wanted: Option<usize>, flavour: Flavour, medium: usize) -> usize {
    let space = wanted.unwrap_or(flavour.choose(12 << 10, 4 * medium));
    space.clamp(2 * medium, 64 * medium)
}

/// Largest payload of a packed Long, by the largest message of one.
fn packed_bytes(message: Option<usize>, max_packet: usize) -> usize {
    let payload = message.map_or(usize::MAX, |bytes| bytes.saturating_sub(12));
    payload.min(max_packet - 128)
}

impl Settings {
    /// `GNI_CDM_MODE_*` of a process, by the domains of all processes of its host.
    pub fn modes(&self, domains_of_host: usize) -> u32 {
        let choose = |condition: bool, yes: u32, no: u32| if condition { yes } else { no };
        let descriptors = self.flavour.choose(30, 123);
        let shares_fma = self.shares_fma.unwrap_or(domains_of_host > descriptors);
        abi::GNI_CDM_MODE_FORK_FULLCOPY
            | abi::GNI_CDM_MODE_DUAL_EVENTS
            | abi::GNI_CDM_MODE_ERR_NO_KILL
            | choose(
                shares_fma,
                abi::GNI_CDM_MODE_FMA_SHARED,
                abi::GNI_CDM_MODE_FMA_DEDICATED,
            )
            | match (self.flavour, self.shares_mdd) {
                // Its library does not have the choice.
                (Flavour::Gemini, _) => 0,
                (_, true) => abi::GNI_CDM_MODE_MDD_SHARED,
                (_, false) => abi::GNI_CDM_MODE_MDD_DEDICATED,
            }
            | choose(self.all_channels, 0, abi::GNI_CDM_MODE_BTE_SINGLE_CHANNEL)
    }

    /// Most bytes that the processes of a host register for segments, by its memory.
    pub fn most_registered(&self, physical: u64) -> u64 {
        let most = self.physmem_max.bytes(physical);
        match self.flavour {
            Flavour::Gemini if !self.physmem_is_set => most.min(GEMINI_MOST),
            _ => most,
        }
    }

    /// Whether puts by FMA cause events that nobody reads, which make Gemini order them.
    pub fn flushes_by_events(&self) -> bool {
        self.flavour == Flavour::Gemini && self.consistency != Consistency::Strict
    }

    /// `GNI_MEM_*` of segments: the event of a put, if it has one, follows its data.
    pub fn segment_flags(&self) -> u32 {
        match self.consistency {
            Consistency::Strict => abi::GNI_MEM_STRICT_PI_ORDERING,
            Consistency::Relaxed => abi::GNI_MEM_RELAXED_PI_ORDERING | abi::GNI_MEM_PI_FLUSH,
            Consistency::None => abi::GNI_MEM_PI_FLUSH,
        }
    }
}

/// `GNI_DLVMODE_*`. Gemini knows no bias.
fn delivery_mode(routing: Routing, flavour: Flavour) -> u16 {
    match (routing, flavour) {
        (Routing::InOrder, _) => abi::GNI_DLVMODE_IN_ORDER,
        (Routing::NonMinimal, Flavour::Aries) => abi::GNI_DLVMODE_NMIN_HASH,
        (Routing::Minimal, Flavour::Aries) => abi::GNI_DLVMODE_MIN_HASH,
        (Routing::Adaptive1, Flavour::Aries) => abi::GNI_DLVMODE_ADAPTIVE1,
        (Routing::Adaptive2, Flavour::Aries) => abi::GNI_DLVMODE_ADAPTIVE2,
        (Routing::Adaptive3, Flavour::Aries) => abi::GNI_DLVMODE_ADAPTIVE3,
        _ => abi::GNI_DLVMODE_PERFORMANCE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::config::Config;

    fn settings(flavour: Flavour, environment: &[(&str, &str)]) -> Settings {
        let variables = environment.iter().map(|(name, value)| (name.into(), value.into()));
        Settings::of(&Config::from_env(&[TABLE], variables).unwrap(), flavour)
    }

    #[test]
    fn defaults_are_those_of_the_manuals() {
        let aries = settings(Flavour::Aries, &[]);
        assert_eq!((aries.get_fma, aries.put_fma, aries.registrations), (1023, 1023, 3072));
        assert_eq!((aries.space, aries.depth, aries.total_depth), (16 << 10, 64, 64));
        let gemini = settings(Flavour::Gemini, &[]);
        assert_eq!((gemini.get_fma, gemini.put_fma, gemini.registrations), (4096, 4096, 16));
        assert_eq!(gemini.space, 12 << 10);
        assert_eq!((gemini.posts, gemini.get_bounce, gemini.bounces), (512, 4096, 64));
    }

    #[test]
    fn values_beyond_limits_are_silently_limited() {
        let set = |name, value| settings(Flavour::Aries, &[(name, value)]);
        assert_eq!(set("GASNET_NETWORKDEPTH_SPACE", "1").space, 2 * 4096);
        assert_eq!(set("GASNET_NETWORKDEPTH_SPACE", "1G").space, 64 * 4096);
        assert_eq!(set("GASNET_NETWORKDEPTH_TOTAL", "5").depth, 5);
        assert_eq!(set("GASNET_GNI_PUT_FMA_RDMA_CUTOVER", "1M").put_fma, 16384);
        assert_eq!(set("GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER", "64").get_bounce, 4096);
        assert_eq!(set("GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER", "1M").get_bounce, 32768);
        assert_eq!(set("GASNET_GNI_MAX_MEDIUM", "1000").max_packet, 960 + 128);
        assert_eq!(set("GASNET_GNI_PACKEDLONG_CUTOVER", "0").packed, 0);
    }

    /// As other conduits and `configure --with-ibv-physmem-max` have them.
    #[test]
    fn limits_of_memory_are_parts_or_sizes() {
        for (text, limit) in [
            ("5/8", Limit::Part(0.625)),
            ("0.8", Limit::Part(0.8)),
            ("100G", Limit::Bytes(100 << 30)),
            ("512", Limit::Bytes(512 << 20)),
        ] {
            let settings = settings(Flavour::Aries, &[("GASNET_PHYSMEM_MAX", text)]);
            assert_eq!(settings.physmem_max, limit, "{text}");
        }
    }

    #[test]
    fn gemini_registers_what_its_table_holds() {
        let most = |flavour, set: &[_]| settings(flavour, set).most_registered(100 << 30) >> 30;
        assert_eq!((most(Flavour::Gemini, &[]), most(Flavour::Aries, &[])), (24, 80));
        assert_eq!(most(Flavour::Gemini, &[("GASNET_PHYSMEM_MAX", "0.5")]), 50);
        assert_eq!(settings(Flavour::Gemini, &[]).most_registered(20 << 30) >> 30, 16);
    }

    #[test]
    fn domains_share_what_is_scarce() {
        let aries = settings(Flavour::Aries, &[]);
        assert_ne!(aries.modes(123) & abi::GNI_CDM_MODE_FMA_DEDICATED, 0);
        assert_ne!(aries.modes(124) & abi::GNI_CDM_MODE_FMA_SHARED, 0);
        let gemini = settings(Flavour::Gemini, &[]);
        assert_ne!(gemini.modes(31) & abi::GNI_CDM_MODE_FMA_SHARED, 0);
    }
}
