//! The environment variables of this conduit, and their values. A limit that the HCA does not reach
//! is lowered later.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{
    self, count, flag, form, int, path, ranks, settings, size, text, Config, Key, RankSet, Scope,
};
use gasnet_conduit::locality::{self, Family, Wishes};
use gasnet_conduit::size_spec::{part, size_in, Limit};
use std::path::PathBuf;

/// Work requests of the smallest send queue.
const LEAST_DEPTH: usize = 4;

/// The variables that name ports.
const PORT_NAMES: Family = Family {
    for_all: PORTS,
    by: PORTS_TYPE,
    numbered: PORTS_NUMBERED,
};

settings! {
    "Network: ibv";

    /// The environment's settings.
    #[derive(Clone, Debug)]
    #[allow(clippy::struct_excessive_bools, reason = "each is a variable of its own")]
    pub struct Settings(config) {
        LIBRARY: Option<String> = text("GASNET_IBV_LIBRARY",
            "Library to open instead of libibverbs.so.1: a path, or a name that the loader searches.").ours();
        MAX_MEDIUM: usize = size("GASNET_IBV_MAX_MEDIUM", "64K", 1024, 256 << 10,
            "Largest payload of a Medium, rounded up to a multiple of 64 bytes. Values above 64K count as 64K. Must be \
             the same in all processes.")
            .ours() => pub max_packet: usize = packet_bytes(max_packet);
        QP_TIMEOUT: u32 = count("GASNET_QP_TIMEOUT", "18", 0, 1 << 20,
            "Time that an HCA waits for an acknowledgement: 4.096 us * 2^value. Values above 31 count as 31. 0: for \
             ever.")
            => pub timeout: u8 = timeout.min(31) as u8;
        QP_RETRY_COUNT: u32 = count("GASNET_QP_RETRY_COUNT", "7", 0, 1 << 20,
            "Retransmissions before an HCA gives a peer up, at most 7.")
            => pub retries: u8 = retries.min(7) as u8;
        QP_RD_ATOM: u8 = count("GASNET_QP_RD_ATOM", "0", 0, 255,
            "Most gets and atomics of a peer that an HCA executes at a time. 0: as many as it can.") => pub reads;
        /// None: if peers are few, or a file names them.
        CONNECT_STATIC: Option<bool> = flag("GASNET_CONNECT_STATIC", false,
            "Connect to all peers at start. A peer that is not connected is connected at its first use.")
            .unset_means("in jobs of up to 256 processes").optional()
            => pub connects_at_start: Option<bool> =
                if config.get_or_default(&CONNECT_DYNAMIC) { connects_at_start } else { Some(true) };
        CONNECT_DYNAMIC: bool = flag("GASNET_CONNECT_DYNAMIC", true,
            "Connect to a peer at its first use. If not, GASNET_CONNECT_STATIC counts as set.") => pub connects_later;
        CONNECTFILE_IN: Option<PathBuf> = path("GASNET_CONNECTFILE_IN",
            "File that names the peers to which GASNET_CONNECT_STATIC connects. % stands for the rank.")
            .scope(Scope::Rank).unset_means("all peers") => pub connect_file_in;
        CONNECTFILE_OUT: Option<PathBuf> = path("GASNET_CONNECTFILE_OUT",
            "File for the peers with which this process has communicated, written when the job ends, for \
             GASNET_CONNECTFILE_IN. % stands for the rank; without it, all processes append to one file, which NFS \
             does not allow.")
            .scope(Scope::Rank).unset_means("none is written") => pub connect_file_out;
        CONNECTFILE_BASE: u32 = count("GASNET_CONNECTFILE_BASE", "36", 2, 36,
            "Base of the rank numbers in GASNET_CONNECTFILE_OUT.") => pub connect_file_base;
        CONNECT_SNDS: usize = count("GASNET_CONNECT_SNDS", "4", 1, 4096,
            "Buffers to send connection requests.") => pub datagram_sends;
        CONNECT_RCVS: Option<usize> = count("GASNET_CONNECT_RCVS", "", 1, 16384,
            "Buffers to receive connection requests. Excess requests are dropped, and sent again.")
            .unset_means("max(6, 4 + 2 log2 of the remote processes), rounded up").optional() => datagram_receives;
        CONNECT_RETRANS_MIN: u64 = count("GASNET_CONNECT_RETRANS_MIN", "10000", 100, 1 << 30,
            "Time until a connection request is sent again. It doubles with each retransmission.")
            .unit("us") => pub retransmit_after;
        CONNECT_RETRANS_MAX: u64 = count("GASNET_CONNECT_RETRANS_MAX", "300000000", 1000, 1 << 30,
            "Time after which a connection fails.")
            .unit("us") => pub connect_timeout: u64 = connect_timeout.max(retransmit_after);
        /// None: the HCA's limit.
        INLINESEND_LIMIT: i64 = int("GASNET_INLINESEND_LIMIT", "72", -1, 1 << 20,
            "Largest message or put that is written into the work request. -1: the HCA's limit.")
            .unit("bytes") => pub inline: Option<usize> = usize::try_from(inline).ok();
        PACKEDLONG_LIMIT: usize = size("GASNET_PACKEDLONG_LIMIT", "4012", 0, 1 << 20,
            "Largest payload of a Long that travels in its message. At most half of GASNET_IBV_MAX_MEDIUM.")
            .unit("bytes") => pub packed: usize = packed.min(max_packet / 2);
        NONBULKPUT_BOUNCE_LIMIT: usize = size("GASNET_NONBULKPUT_BOUNCE_LIMIT", "64K", 0, 1 << 30,
            "Largest transfer that is copied through a bounce buffer: a put whose source must be free at return, or a \
             put or get of memory outside segments. At most GASNET_IBV_MAX_MEDIUM. Larger ones wait, or register the \
             memory.")
            .unit("bytes") => pub bounce: usize = bounce.min(max_packet);
        PUT_STRIPE_SZ: String = form("GASNET_PUT_STRIPE_SZ", "0",
            "a size such as 256K or 1M, in kilobytes without unit,", is_kilobytes,
            "Largest put that uses one port. Larger puts are divided among the ports that are used together. 0: only \
             puts above the HCA's largest operation are divided.")
            => pub put_stripe: usize = stripe(&put_stripe);
        GET_STRIPE_SZ: String = form("GASNET_GET_STRIPE_SZ", "0",
            "a size such as 256K or 1M, in kilobytes without unit,", is_kilobytes,
            "Largest get that uses one port. Larger gets are divided among the ports that are used together. 0: only \
             gets above the HCA's largest operation are divided.")
            => pub get_stripe: usize = stripe(&get_stripe);
        // A message without payload has nothing to gather.
        AM_GATHER_MIN: i64 = int("GASNET_AM_GATHER_MIN", "1500", -1, 1 << 30,
            "Smallest payload of a Medium that is sent from where it is, if the client does not wait for local \
             completion and the HCA reaches the payload. -1: all payloads are copied.")
            .unit("bytes") => pub gather: Option<usize> = usize::try_from(gather).ok().map(|least| least.max(1));
        PUTINMOVE_LIMIT: Option<String> = text("GASNET_PUTINMOVE_LIMIT",
            "Data that firehose sends while it registers remote memory: nothing is registered remotely.").no_effect();
        USE_SRQ: i64 = int("GASNET_USE_SRQ", "-1", -1, 1 << 31,
            "Share receive buffers among peers. 0: each queue pair has buffers of its own. -1: share them only if the \
             peers need more than GASNET_RBUF_COUNT. A larger number: share them only in jobs of at least this many \
             processes.")
            => sharing;
        USE_XRC: Option<bool> = flag("GASNET_USE_XRC", false,
            "Where receive buffers are shared, send to all processes of a host that use the same ports by one queue \
             pair per path (XRC). No effect unless all HCAs of the job support XRC.")
            .unset_means("in jobs of more than 256 processes").optional() => pub xrc;
        NETWORKDEPTH_PP: usize = count("GASNET_NETWORKDEPTH_PP", "64", 1, 16384,
            "Most operations in flight from a process to a peer, per queue pair. At least 4; fewer if the HCA refuses \
             that many.")
            => pub depth: usize = depth.max(LEAST_DEPTH);
        NETWORKDEPTH_TOTAL: usize = count("GASNET_NETWORKDEPTH_TOTAL", "4096", 0, 1 << 22,
            "Most operations in flight from a process, per HCA. 0: as many as GASNET_NETWORKDEPTH_PP allows to all \
             peers.")
            => pub total_depth;
        AM_CREDITS_PP: u32 = count("GASNET_AM_CREDITS_PP", "24", 1, 1 << 14,
            "Most requests in flight from a process to a peer. Unless it is set, it shrinks where receive buffers are \
             shared, so that the buffers are enough for all peers, but not below 8.")
            => pub credits
            => has_own_credits: bool = config.is_set(&AM_CREDITS_PP);
        AM_CREDITS_TOTAL: u32 = count("GASNET_AM_CREDITS_TOTAL", "0", 0, 1 << 30,
            "Most requests in flight from a process. 0: as many as GASNET_AM_CREDITS_PP allows.")
            => pub total_credits;
        AM_CREDITS_SLACK: Option<u32> = count("GASNET_AM_CREDITS_SLACK", "", 0, 1 << 14,
            "Credits that a process keeps for its next message to the requester before it returns them in a message of \
             their own. At most half of GASNET_AM_CREDITS_PP.")
            .unset_means("half of GASNET_AM_CREDITS_PP").optional()
            => pub slack: u32 = slack.unwrap_or(u32::MAX);
        AMRDMA_MAX_PEERS: usize = count("GASNET_AMRDMA_MAX_PEERS", "32", 0, 1 << 14,
            "Most peers whose small messages are written into memory of this process (72 kB for each), if they send \
             many. Only if threads do not sleep while they wait.")
            => pub rings;
        RBUF_COUNT: usize = count("GASNET_RBUF_COUNT", "1024", 0, 1 << 20,
            "Most shared receive buffers, allocated as peers connect. 0: as many as the HCA takes. Receive buffers \
             that are not shared have at most the memory of this many of the largest size.")
            => pub receives;
        BBUF_COUNT: usize = count("GASNET_BBUF_COUNT", "1024", 0, 1 << 20,
            "Most send buffers of each size, allocated as needed. 0: as many as GASNET_NETWORKDEPTH_TOTAL.")
            => send_buffers;
        RBUF_SPARES: Option<u32> = count("GASNET_RBUF_SPARES", "", 0, 1 << 20,
            "Receive buffers for handlers that run: a handler runs in the buffer of its message, unless few are left.")
            .optional().no_effect();
        RATOMICBUF_COUNT: Option<u32> = count("GASNET_RATOMICBUF_COUNT", "", 0, 1 << 20,
            "Buffers for atomics, which use those of GASNET_BBUF_COUNT.").optional().no_effect();
        USE_FENCED_PUTS: Option<bool> = flag("GASNET_USE_FENCED_PUTS", false,
            "Complete a put only when every HCA and CPU of the target's host sees its bytes, at the cost of a round \
             trip.")
            .unset_means("if processes of a host use several HCAs").optional() => pub fenced;
        PHYSMEM_MAX: String = form("GASNET_PHYSMEM_MAX", "2/3",
            "a part of the memory (2/3, 0.5) or a size (100G; megabytes without unit)",
            |text| Limit::parse(text).is_some(),
            "Most memory of a host that its processes register together for segments, in equal shares. The limit on \
             locked memory applies, too.")
            => pub physmem_max: Limit = Limit::parse(&physmem_max).unwrap_or(Limit::Part(2.0 / 3.0));
        PHYSMEM_PROBE: bool = flag("GASNET_PHYSMEM_PROBE", false,
            "Measure at start how much of GASNET_PHYSMEM_MAX can be registered, by registering it. Slow on large \
             hosts.")
            => pub probes;
        PHYSMEM_WARN: bool = flag("GASNET_PHYSMEM_WARN", true,
            "Print the result of GASNET_PHYSMEM_PROBE.") => pub reports_probe;
        MAXIMIZE_MEMLOCK: bool = flag("GASNET_MAXIMIZE_MEMLOCK", true,
            "Raise the limit on locked memory to the hard limit.") => pub raises_limits;
        PINNED_REGIONS_MAX: Option<String> = form("GASNET_PINNED_REGIONS_MAX", "",
            "a part of the HCA's regions (1/2, 0.25) or a number of them", |text| Regions::parse(text).is_some(),
            "Most registrations of memory outside segments that the processes of a host have at a time, in equal \
             shares. Transfers beyond it are copied in pieces.")
            .unset_means("as many as the HCA takes").optional()
            => regions: Option<Regions> = most_regions(regions.as_deref(), config.get_or_default(&USE_FIREHOSE));
        USE_FIREHOSE: bool = flag("GASNET_USE_FIREHOSE", true,
            "Register memory outside segments for long transfers. If not, they are copied in pieces, except by HCAs \
             that page on demand.");
        FIREHOSE_M: Option<String> = text("GASNET_FIREHOSE_M",
            "Firehose: memory for registrations of remote memory. No registration outlives its operation.").no_effect();
        FIREHOSE_MAXVICTIM_M: Option<String> = text("GASNET_FIREHOSE_MAXVICTIM_M",
            "Firehose: memory for registrations of local memory. No registration outlives its operation.").no_effect();
        FIREHOSE_R: Option<String> = text("GASNET_FIREHOSE_R",
            "Firehose: registrations of remote memory. No registration outlives its operation.").no_effect();
        FIREHOSE_MAXVICTIM_R: Option<String> = text("GASNET_FIREHOSE_MAXVICTIM_R",
            "Firehose: registrations of local memory. No registration outlives its operation.").no_effect();
        FIREHOSE_MAXREGION_SIZE: Option<String> = text("GASNET_FIREHOSE_MAXREGION_SIZE",
            "Firehose: largest registration. No registration outlives its operation.").no_effect();
        FIREHOSE_TABLE_SCALE: Option<String> = text("GASNET_FIREHOSE_TABLE_SCALE",
            "Firehose: size of its tables. No registration outlives its operation.").no_effect();
        FIREHOSE_VERBOSE: Option<String> = text("GASNET_FIREHOSE_VERBOSE",
            "Firehose: its reports. No registration outlives its operation.").no_effect();
        USE_ODP: bool = flag("GASNET_USE_ODP", true,
            "Let HCAs that can page on demand use memory outside segments in place.") => pub on_demand;
        ODP_VERBOSE: u32 = count("GASNET_ODP_VERBOSE", "1", 0, 1 << 20,
            "Warn of HCAs that cannot page on demand. 0: never. 1: print how many processes have such HCAs. 2: also \
             print which.")
            => pub on_demand_verbose;
        ATOMICS: bool = flag("GASNET_IBV_ATOMICS", true,
            "Use the HCA's atomics in atomic domains of 64-bit integers with only additions, reads and \
             compare-and-swap.")
            .ours() => pub atomics;
    }

    /// The settings that choose ports, and what their packets carry.
    #[derive(Clone, Debug)]
    pub struct PortSettings(config) {
        PORTS: Option<String> = text("GASNET_IBV_PORTS",
            "HCAs and ports that may be used: mlx5_0+mlx5_1:1,2. Of an HCA without port numbers the first active port \
             is used. Names of HCAs and ports that do not exist or cannot connect are ignored.")
            .scope(Scope::Rank).unset_means(
                "the first active port of the nearest HCA in a subnet of all ranks, on InfiniBand if there is any")
            => pub ports: Wishes = Wishes::read(config, &PORT_NAMES);
        PORTS_TYPE: String = form("GASNET_IBV_PORTS_TYPE", "Socket",
            locality::ACCEPTS, |text| text.parse::<locality::By>().is_ok(),
            "Numbers in the name of the variable GASNET_IBV_PORTS_* of a process, as GASNET_OFI_DEVICE_TYPE for ofi. \
             Auto: the nearest of the HCAs that GASNET_IBV_PORTS names. None: GASNET_IBV_PORTS only.");
        PORTS_NUMBERED: Option<String> = text("GASNET_IBV_PORTS_*",
            "As GASNET_IBV_PORTS, in the processes whose numbers (GASNET_IBV_PORTS_TYPE), joined by underscores, take \
             the place of the star.")
            .unset_means("GASNET_IBV_PORTS");
        MAX_HCAS: Option<usize> = count("GASNET_IBV_MAX_HCAS", "", 1, 1 << 10,
            "Most HCAs that a process uses, at most 8. All processes of a job must use equally many.")
            .unset_means("those that GASNET_IBV_PORTS names, else 1").optional().ours() => pub most_hcas;
        NUM_QPS: usize = count("GASNET_NUM_QPS", "0", 0, 1 << 10,
            "Queue pairs for each peer, at most 8, which take turns at the ports. 0: one for each port. Must be the \
             same in all processes.")
            => pub queue_pairs;
        PORTS_VERBOSE: u32 = count("GASNET_IBV_PORTS_VERBOSE", "1", 0, 1 << 20,
            "1: rank 0 warns of HCAs that it could use, but does not. 2: each rank also prints the ports that it uses.")
            => pub verbosity;
        LIST_PORTS: bool = flag("GASNET_IBV_LIST_PORTS", false,
            "Print the ports of all HCAs, their states, and the HCA's rank by distance: 1 is the nearest.") => lists;
        LIST_PORTS_NODES: RankSet = ranks("GASNET_IBV_LIST_PORTS_NODES",
            "Ranks that print because of GASNET_IBV_LIST_PORTS.") => listing;
        GID_INDEX: Option<u8> = count("GASNET_IBV_GID_INDEX", "", 0, 255,
            "Index of the GID in the port's table, as show_gids prints it. On InfiniBand packets then carry a global \
             header.")
            .scope(Scope::Rank).unset_means(
                "RoCE: that of RoCE v2 which suits the host's address best; InfiniBand: none")
            .optional().ours() => pub gid_index;
        PKEY: Option<u16> = count("GASNET_IBV_PKEY", "", 2, 0xffff,
            "Partition key. Its bit of full members (0x8000) is ignored. The port must be a full member.")
            .unset_means("the first in the port's table of which the port is a full member").optional() => pub pkey;
        /// `IBV_MTU_*`.
        MAX_MTU: String = form("GASNET_MAX_MTU", "0",
            "-1, 0, 256, 512, 1024, 2048 or 4096", |text| mtu_code(text).is_ok(),
            "Largest MTU in bytes. 0 and -1: that of the port.")
            => pub mtu: Option<u8> = mtu_code(&mtu).unwrap_or_default();
        SERVICE_LEVEL: u8 = count("GASNET_IBV_SERVICE_LEVEL", "0", 0, 15,
            "Service level of packets; on RoCE their priority, up to 7.").ours() => pub service_level;
        TRAFFIC_CLASS: Option<u8> = count("GASNET_IBV_TRAFFIC_CLASS", "", 0, 255,
            "Traffic class of the global header of packets: on RoCE v2 four times the DSCP.")
            .unset_means(
                "RoCE v2: that of the port (/sys/class/infiniband/*/tc/*/traffic_class), or else 106; 0 otherwise")
            .optional().ours() => pub traffic_class;
        HCA_ID: Option<String> = text("GASNET_HCA_ID", "Old name; use GASNET_IBV_PORTS.").no_effect();
        // A variable that is set, but has no effect.
        PORT_NUM: Option<String> = text("GASNET_PORT_NUM", "Old name; use GASNET_IBV_PORTS.").no_effect()
            => pub obsolete: Option<&'static str> = name_of_set(config, &[HCA_ID, PORT_NUM]);
    }
}

/// The bytes of the largest packet, in which a Medium of `GASNET_IBV_MAX_MEDIUM` fits with its
/// header and arguments.
pub fn max_packet_bytes() -> usize {
    packet_bytes(config::get().get_or_default(&MAX_MEDIUM))
}

fn packet_bytes(max_medium: usize) -> usize {
    const AROUND: usize = 128;
    /// The runtime's limit, too.
    const MOST: usize = 64 << 10;
    max_medium.next_multiple_of(64).min(MOST) + AROUND
}

fn is_kilobytes(text: &str) -> bool {
    size_in(text, "K").is_some()
}

/// The bytes above which operations are striped; 0: none.
fn stripe(text: &str) -> usize {
    size_in(text, "K").unwrap_or(0) as usize
}

/// Most registrations for single operations; none without `GASNET_USE_FIREHOSE`.
fn most_regions(wanted: Option<&str>, registers: bool) -> Option<Regions> {
    if registers {
        wanted.and_then(Regions::parse)
    } else {
        Some(Regions::Count(0))
    }
}

/// `IBV_MTU_*` of an MTU in bytes; none: any.
fn mtu_code(text: &str) -> Result<Option<u8>, ()> {
    match text.trim().parse::<i32>() {
        Ok(-1 | 0) => Ok(None),
        Ok(bytes @ (256 | 512 | 1024 | 2048 | 4096)) => Ok(Some((bytes.ilog2() - 7) as u8)),
        _ => Err(()),
    }
}

/// The first variable that is set.
fn name_of_set<T>(config: &Config, keys: &[Key<T>; 2]) -> Option<&'static str> {
    keys.iter().find(|key| config.is_set(key)).map(|key| key.variable.name)
}

impl Settings {
    /// Receive buffers that a peer needs: one for each request and each reply, and some for its
    /// farewell and for messages that return credits.
    pub fn receives_of_peer(&self) -> usize {
        2 * self.credits as usize + 8
    }

    /// Most send buffers of a size, by the processes of the job.
    pub fn send_buffers(&self, processes: usize) -> usize {
        match (self.send_buffers, self.total_depth) {
            (0, 0) => self.depth * processes,
            (0, total) => total,
            (some, _) => some,
        }
    }

    /// Buffers for connection requests of the `remote` processes: those on other hosts or in other
    /// neighbourhoods.
    pub fn datagram_receives(&self, remote: usize) -> usize {
        let log = remote.max(1).next_power_of_two().ilog2();
        self.datagram_receives.unwrap_or(6.max(4 + 2 * log as usize))
    }

    /// Lowers the requests in flight to a peer, so that the shared receive buffers are enough for
    /// the requests of all peers and the replies to this process: an HCA that lacks a buffer stops
    /// all that a peer sends, puts and gets too. No effect if the environment sets them.
    pub fn fit_credits(&mut self, buffers: usize, peers: usize) {
        /// In larger jobs not all peers send to one at a time.
        const LEAST: usize = 8;
        if !self.has_own_credits {
            let most = (buffers / (2 * peers.max(1))).max(LEAST);
            self.credits = self.credits.min(most as u32);
        }
    }

    /// Whether receive buffers are shared. Otherwise the processes of the job need `buffers`.
    pub fn shares(&self, processes: usize, buffers: usize) -> bool {
        match self.sharing {
            -1 => self.receives != 0 && self.receives < buffers,
            0 => false,
            least => processes as i64 >= least,
        }
    }

    /// Most registrations for single operations of a process, which shares the `most` of an HCA
    /// with the other `processes` of its host.
    pub fn registrations(&self, most: i32, processes: usize) -> usize {
        self.regions
            .map_or(usize::MAX, |regions| regions.share(most, processes))
    }

    /// Credits of this process that each of the `processes`, itself among them, may keep: if all
    /// keep as many, one is left.
    pub fn spare_credits(&self, processes: u32) -> u32 {
        let of_peer = self.credits / 2;
        match self.total_credits {
            0 => of_peer,
            total => of_peer.min((total - 1) / processes),
        }
    }
}

impl PortSettings {
    /// Whether a rank prints the ports of its host.
    pub fn lists_ports(&self, rank: u32) -> bool {
        self.lists && self.listing.contains(rank)
    }
}

/// An upper limit of registrations (`GASNET_PINNED_REGIONS_MAX`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Regions {
    /// A number.
    Count(u64),
    /// Part of what an HCA has, below 1.
    Part(f64),
}

impl Regions {
    /// Reads "1/2", "0.25" or "1000".
    pub fn parse(text: &str) -> Option<Self> {
        match part(text) {
            Some(part) => Some(Self::Part(part)),
            None => text.trim().parse().ok().map(Self::Count),
        }
    }

    /// The share of one of the `processes` of a host, of an HCA that has `most`.
    #[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)] // not negative, and a limit may be off by one
    pub fn share(self, most: i32, processes: usize) -> usize {
        let all = match self {
            Self::Count(count) => count,
            Self::Part(part) => (f64::from(most.max(0)) * part) as u64,
        };
        all as usize / processes.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::locality::Ranks;

    fn config(pairs: &[(&str, &str)]) -> Config {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (format!("GASNET_{name}").into(), (*value).into()));
        Config::from_env(&[TABLE], pairs).unwrap()
    }

    #[test]
    fn buffers_for_connection_requests() {
        // As the manual of the reference says: max(6, 4 + 2 ceil(log2 remote)).
        let settings = Settings {
            datagram_receives: None,
            ..Settings::read()
        };
        let counts = [0, 1, 2, 3, 4, 5, 8, 9, 1000].map(|remote| settings.datagram_receives(remote));
        assert_eq!(counts, [6, 6, 6, 8, 8, 10, 10, 12, 24]);
    }

    #[test]
    fn credits_fit_into_shared_buffers() {
        for (buffers, peers, credits) in [(1024, 10, 48), (1024, 23, 22), (1024, 5000, 8), (64, 0, 32)] {
            let mut settings = Settings {
                has_own_credits: false,
                credits: 48,
                ..Settings::read()
            };
            settings.fit_credits(buffers, peers);
            assert_eq!(settings.credits, credits, "{buffers} {peers}");
            settings = Settings {
                has_own_credits: true,
                credits: 48,
                ..settings
            };
            settings.fit_credits(buffers, peers);
            assert_eq!(settings.credits, 48);
        }
    }

    #[test]
    fn credits_that_peers_keep_are_never_all() {
        for (credits, total, processes) in [(48, 0, 3), (48, 5, 2), (2, 4, 3), (1, 1, 1), (9, 1000, 7)] {
            let settings = Settings {
                credits,
                total_credits: total,
                ..Settings::read()
            };
            let spare = settings.spare_credits(processes);
            assert!(spare < credits, "{credits}");
            assert!(total == 0 || spare * processes < total, "{total} {processes}");
        }
    }

    #[test]
    fn packets_carry_what_variables_say() {
        let of = |pairs| PortSettings::of(&config(pairs));
        let all = of(&[
            ("IBV_GID_INDEX", "3"),
            ("IBV_PKEY", "0x8012"),
            ("MAX_MTU", "1024"),
            ("IBV_SERVICE_LEVEL", "5"),
            ("IBV_TRAFFIC_CLASS", "104"),
            ("IBV_PORTS_VERBOSE", "2"),
        ]);
        assert_eq!((all.gid_index, all.pkey, all.mtu), (Some(3), Some(0x8012), Some(3)));
        assert_eq!((all.service_level, all.traffic_class, all.verbosity), (5, Some(104), 2));
        assert_eq!(all.obsolete, None);
        assert_eq!(of(&[("PORT_NUM", "2")]).obsolete, Some("GASNET_PORT_NUM"));
        assert_eq!(of(&[("HCA_ID", "x")]).obsolete, Some("GASNET_HCA_ID"));
        let none = of(&[]);
        assert_eq!(
            (none.gid_index, none.pkey, none.mtu, none.verbosity),
            (None, None, None, 1)
        );
    }

    #[test]
    fn processes_may_want_different_ports() {
        let pairs = [
            ("IBV_PORTS", "a"),
            ("IBV_PORTS_1", "b:2"),
            ("IBV_PORTS_TYPE", "HRank % 2"),
            ("IBV_MAX_HCAS", "3"),
            ("NUM_QPS", "4"),
        ];
        let settings = PortSettings::of(&config(&pairs));
        let wanted = |host| {
            settings.wanted(Ranks {
                host,
                ..Ranks::default()
            })
        };
        let named = |variable: &str, value: &str| Some((format!("GASNET_IBV_{variable}"), value.to_owned()));
        assert_eq!(
            [2, 3].map(|host| wanted(host).ports),
            [named("PORTS", "a"), named("PORTS_1", "b:2")]
        );
        let one = wanted(5);
        assert_eq!((one.hcas, one.queue_pairs, one.turn), (Some(3), 4, 5));
    }

    #[test]
    fn mtus() {
        let mtus = ["-1", "0", "256", "512", "1024", "2048", " 4096"].map(mtu_code);
        assert_eq!(mtus, [None, None, Some(1), Some(2), Some(3), Some(4), Some(5)].map(Ok));
        let valid = |text| MAX_MTU.variable.parse(text).is_ok();
        assert!(valid("-1") && !valid("1500") && !valid("-2") && !valid("auto"));
    }

    #[test]
    fn listing_ranks() {
        let lists = |pairs| [0, 1, 2].map(|rank| PortSettings::of(&config(pairs)).lists_ports(rank));
        assert_eq!(lists(&[("IBV_LIST_PORTS", "1")]), [true; 3]);
        let some = [("IBV_LIST_PORTS", "1"), ("IBV_LIST_PORTS_NODES", "1-2")];
        assert_eq!(lists(&some), [false, true, true]);
        assert_eq!(lists(&some[1..]), [false; 3]);
    }

    #[test]
    fn regions() {
        let share = |text: &str| Regions::parse(text).map(|regions| regions.share(1000, 2));
        assert_eq!(share("1/2"), Some(250));
        assert_eq!(share("0.25"), Some(125));
        assert_eq!(share("64"), Some(32));
        assert_eq!(share("0"), Some(0));
        for bad in ["", "3/2", "1/0", "abc", "-1", "1.5"] {
            assert_eq!(share(bad), None, "{bad}");
        }
    }
}
