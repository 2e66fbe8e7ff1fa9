//! The settings of the environment, with the manuals' limits and roundings.
#![forbid(unsafe_code)]

use crate::variables::{
    Consistency, Routing, AMPOLL_BURST, AM_DOMAIN_POLL_MASK, AM_EAGER_PEERS, AM_MEMORY_REPORT, AM_RVOUS_BUFFERS,
    AM_RVOUS_CUTOVER, BOUNCE_SIZE, BTE_MULTI_CHANNEL, CE_RADIX, DOMAIN_COUNT, FMA_SHARING, GET_BOUNCE_REGISTER_CUTOVER,
    GET_FMA_RDMA_CUTOVER, LONG_DEPTH, MAX_MEDIUM, MDD_SHARING, MEMREG, MEM_CONSISTENCY, NETWORKDEPTH,
    NETWORKDEPTH_SPACE, NETWORKDEPTH_TOTAL, NUM_PD, PACKEDLONG_CUTOVER, PHYSMEM_MAX, PHYSMEM_PROBE,
    PTHREADS_PER_DOMAIN, PUT_BOUNCE_REGISTER_CUTOVER, PUT_FMA_RDMA_CUTOVER, ROUTING_MODE, USE_CE, USE_CE_PSHM,
    USE_UDREG,
};
use gasnet_conduit::config::{self, Config, Key};
use gasnet_conduit::size_spec::Limit;
use gasnet_gni_abi as abi;

/// Least and largest limit of copies.
const BOUNCES: (u64, u64) = (4096, 32768);
/// Largest transfer by FMA.
const FMA_MAX: u64 = 16384;
/// Units of the space for a peer's requests: bits of a word.
pub const MOST_UNITS: usize = 64;

/// Most requests under way from a process.
const MOST_SLOTS: usize = 1 << 15;

/// Which NIC a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// XE and XK.
    Gemini,
    /// XC.
    Aries,
}

/// Bytes of the largest packet: a Medium with all its arguments.
pub fn max_packet_bytes() -> usize {
    packet_bytes(config::get())
}

fn packet_bytes(config: &Config) -> usize {
    /// Header and arguments.
    const AROUND: usize = 128;
    (config.get_or_default(&MAX_MEDIUM) as usize & !63) + AROUND
}

/// See [`crate::variables`].
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a variable of its own")]
pub struct Settings {
    pub flavour: Flavour,
    /// Bytes of the largest packet.
    pub max_packet: usize,
    /// Requests under way to a peer, and in all.
    pub depth: usize,
    pub total_depth: usize,
    /// Bytes that a process sets aside for a peer's requests.
    pub space: usize,
    /// Longs under way to a peer.
    pub long_depth: usize,
    /// Processes from which on all requests are fetched; none: never.
    pub rendezvous: Option<u32>,
    /// Requests that are fetched at a time.
    pub fetches: usize,
    /// Peers for which space is set aside.
    pub eager_peers: usize,
    /// Largest payload of a packed Long.
    pub packed: usize,
    pub burst: usize,
    pub reports_memory: bool,
    /// Post descriptors.
    pub posts: usize,
    /// Largest transfers by FMA.
    pub get_fma: usize,
    pub put_fma: usize,
    /// Largest transfers that are copied.
    pub get_bounce: usize,
    pub put_bounce: usize,
    /// Buffers for copies.
    pub bounces: usize,
    pub consistency: Consistency,
    /// Registrations at a time.
    pub registrations: usize,
    pub shares_registrations: bool,
    /// None: as the number of processes requires.
    pub shares_fma: Option<bool>,
    pub shares_mdd: bool,
    pub all_channels: bool,
    /// `GNI_DLVMODE_*`.
    pub routing: u16,
    pub engine: bool,
    pub engine_hybrid: bool,
    pub engine_radix: usize,
    pub domains: usize,
    pub threads_per_domain: usize,
    pub poll_mask: u32,
}

impl Settings {
    /// Those of the environment.
    pub fn read(flavour: Flavour) -> Self {
        Self::of(config::get(), flavour)
    }

    fn of(config: &Config, flavour: Flavour) -> Self {
        let count = |key: &Key<u32>| config.get_or_default(key) as usize;
        let bounce = |key: &Key<u64>| config.get_or_default(key).clamp(BOUNCES.0, BOUNCES.1) as usize;
        let (get_bounce, put_bounce) = (
            bounce(&GET_BOUNCE_REGISTER_CUTOVER),
            bounce(&PUT_BOUNCE_REGISTER_CUTOVER),
        );
        let is_gemini = flavour == Flavour::Gemini;
        let cutover = |key: &Key<Option<u64>>| {
            let bytes = config
                .get_or_default(key)
                .unwrap_or(if is_gemini { 4096 } else { 1023 });
            bytes.min(FMA_MAX) as usize
        };
        let max_packet = packet_bytes(config);
        let medium = max_packet - 64;
        let total_depth = count(&NETWORKDEPTH_TOTAL).min(MOST_SLOTS);
        let depth = count(&NETWORKDEPTH).min(total_depth).min(MOST_UNITS);
        let space = config.get_or_default(&NETWORKDEPTH_SPACE).map(|bytes| bytes as usize);
        let space = space.unwrap_or(if is_gemini { 12 << 10 } else { 4 * medium });
        let space = space.clamp(2 * medium, 64 * medium);
        let packed = config.get_or_default(&PACKEDLONG_CUTOVER).map(|bytes| bytes as usize);
        Self {
            flavour,
            max_packet,
            depth,
            total_depth,
            space,
            long_depth: config.get_or_default(&LONG_DEPTH).map_or(depth, |depth| depth as usize),
            rendezvous: match config.get_or_default(&AM_RVOUS_CUTOVER) {
                0 => None,
                cutover => Some(cutover),
            },
            fetches: count(&AM_RVOUS_BUFFERS),
            eager_peers: count(&AM_EAGER_PEERS),
            packed: packed
                .map_or(usize::MAX, |bytes| bytes.saturating_sub(12))
                .min(max_packet - 128),
            burst: count(&AMPOLL_BURST),
            reports_memory: config.get_or_default(&AM_MEMORY_REPORT),
            posts: count(&NUM_PD),
            get_fma: cutover(&GET_FMA_RDMA_CUTOVER),
            put_fma: cutover(&PUT_FMA_RDMA_CUTOVER),
            get_bounce,
            put_bounce,
            // By the manual's formula, which leaves out what precedes a packet in its buffer.
            bounces: config.get_or_default(&BOUNCE_SIZE) as usize / get_bounce.max(put_bounce).max(medium),
            consistency: config.get_or_default(&MEM_CONSISTENCY),
            registrations: config
                .get_or_default(&MEMREG)
                .unwrap_or(if is_gemini { 16 } else { 3072 }) as usize,
            shares_registrations: config.get_or_default(&USE_UDREG),
            shares_fma: config.get_or_default(&FMA_SHARING),
            shares_mdd: config.get_or_default(&MDD_SHARING),
            all_channels: config.get_or_default(&BTE_MULTI_CHANNEL),
            routing: routing(config.get_or_default(&ROUTING_MODE), flavour),
            engine: config.get_or_default(&USE_CE),
            engine_hybrid: config.get_or_default(&USE_CE_PSHM),
            engine_radix: count(&CE_RADIX),
            domains: count(&DOMAIN_COUNT),
            threads_per_domain: count(&PTHREADS_PER_DOMAIN),
            poll_mask: config.get_or_default(&AM_DOMAIN_POLL_MASK),
        }
    }

    /// `GNI_CDM_MODE_*` of a process on a host with so many domains.
    pub fn modes(&self, domains_of_host: usize) -> u32 {
        let choose = |condition: bool, yes: u32, no: u32| if condition { yes } else { no };
        let descriptors = choose(self.flavour == Flavour::Gemini, 30, 123) as usize;
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
fn routing(routing: Routing, flavour: Flavour) -> u16 {
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

/// Most memory of a host that is registered.
pub fn physmem_max() -> Option<Limit> {
    Limit::parse(&config::get().get_or_default(&PHYSMEM_MAX))
}

/// Whether it is to be found out how much memory can be registered.
pub fn probes() -> bool {
    config::get().get_or_default(&PHYSMEM_PROBE)
}

/// Whether warnings at start are not wanted.
pub fn is_quiet() -> bool {
    config::get().get_or_default(&config::QUIET)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::TABLE;

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
            let variables = [("GASNET_PHYSMEM_MAX".into(), text.into())];
            let config = Config::from_env(&[TABLE], variables.into_iter()).unwrap();
            assert_eq!(
                Limit::parse(&config.get_or_default(&PHYSMEM_MAX)),
                Some(limit),
                "{text}"
            );
        }
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
