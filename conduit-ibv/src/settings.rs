//! The settings of the environment.
#![forbid(unsafe_code)]

use crate::memory::limits::Regions;
#[allow(clippy::wildcard_imports, reason = "nearly all of them are read here")]
use crate::variables::*;
use gasnet_conduit::config::{self, Config, Key};
use gasnet_conduit::size_spec::{size_in, Limit};
use std::path::PathBuf;

/// Work requests of the smallest send queue.
const LEAST_DEPTH: usize = 4;

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
#[allow(clippy::struct_excessive_bools, reason = "each is a variable of its own")]
pub struct Settings {
    /// Bytes of the largest packet.
    pub max_packet: usize,
    /// Exponent of the transport's timeout.
    pub timeout: u8,
    /// Its retransmissions.
    pub retries: u8,
    /// Gets and atomics that an HCA executes at a time; 0: its limit.
    pub reads: u8,
    /// Whether peers are connected at start; none: if they are few, or a file names them.
    pub connects_at_start: Option<bool>,
    /// Whether they are connected later.
    pub connects_later: bool,
    pub connect_file_in: Option<PathBuf>,
    pub connect_file_out: Option<PathBuf>,
    pub connect_file_base: u32,
    /// Buffers for datagrams to send.
    pub datagram_sends: usize,
    /// Buffers for datagrams to receive.
    datagram_receives: Option<usize>,
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
    /// Whether XRC is used where they are.
    pub xrc: Option<bool>,
    /// Work requests in a send queue.
    pub depth: usize,
    /// Operations under way per HCA; 0: as many as those to all peers.
    pub total_depth: usize,
    /// The least payload of a gathered message, if there are any.
    pub gather: Option<usize>,
    /// Sizes above which puts and gets are striped; 0: none.
    pub stripes: (usize, usize),
    /// Most registrations for single operations.
    regions: Option<Regions>,
    /// Requests under way to a peer, and to all.
    pub credits: u32,
    pub total_credits: u32,
    has_own_credits: bool,
    /// Credits that are kept for the next message.
    pub slack: u32,
    /// Most peers with a ring.
    pub rings: usize,
    /// Most shared receive buffers; 0: the HCA's limit.
    pub receives: usize,
    /// Most send buffers of a size; 0: one for each operation under way.
    send_buffers: usize,
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

    /// Most send buffers of a size in a job of so many processes.
    pub fn send_buffers(&self, processes: usize) -> usize {
        match (self.send_buffers, self.total_depth) {
            (0, 0) => self.depth * processes,
            (0, total) => total,
            (some, _) => some,
        }
    }

    /// Buffers for connection requests of so many processes on other hosts or in other
    /// neighbourhoods.
    pub fn datagram_receives(&self, remote: usize) -> usize {
        let log = remote.max(1).next_power_of_two().ilog2();
        self.datagram_receives.unwrap_or(6.max(4 + 2 * log as usize))
    }

    /// Lowers the requests under way to a peer to what so many shared receive buffers take, of all
    /// peers together, with the replies to this process: an HCA that lacks a buffer stops all that
    /// a peer sends, puts and gets too. No effect if the environment sets them.
    pub fn fit_credits(&mut self, buffers: usize, peers: usize) {
        /// In larger jobs not all peers send to one at a time.
        const LEAST: usize = 8;
        if !self.has_own_credits {
            let most = (buffers / (2 * peers.max(1))).max(LEAST);
            self.credits = self.credits.min(most as u32);
        }
    }

    /// Whether they are shared in a job of so many processes, which need `buffers` otherwise.
    pub fn shares(&self, processes: usize, buffers: usize) -> bool {
        match self.sharing {
            -1 => self.receives != 0 && self.receives < buffers,
            0 => false,
            least => processes as i64 >= least,
        }
    }

    /// Most registrations for single operations, of one of so many processes, with an HCA that has
    /// `most`.
    pub fn registrations(&self, most: i32, processes: usize) -> usize {
        self.regions
            .map_or(usize::MAX, |regions| regions.share(most, processes))
    }

    /// Credits of this process that each of so many, itself among them, may keep: if all keep so
    /// many, one is left.
    pub fn spare_credits(&self, processes: u32) -> u32 {
        let of_peer = self.credits / 2;
        match self.total_credits {
            0 => of_peer,
            total => of_peer.min((total - 1) / processes),
        }
    }

    fn of(config: &Config) -> Self {
        let count = |key: &Key<u32>| config.get_or_default(key) as usize;
        let stripe = |key: &Key<String>| size_in(&config.get_or_default(key), "K").unwrap_or(0) as usize;
        let file = |key: &Key<Option<PathBuf>>| {
            config
                .get_or_default(key)
                .filter(|file: &PathBuf| !file.as_os_str().is_empty())
        };
        let connects_later = config.get_or_default(&CONNECT_DYNAMIC);
        let max_packet = packet_bytes(config);
        let credits = config.get_or_default(&AM_CREDITS_PP);
        let total_depth = count(&NETWORKDEPTH_TOTAL);
        Self {
            max_packet,
            timeout: config.get_or_default(&QP_TIMEOUT).min(31) as u8,
            retries: config.get_or_default(&QP_RETRY_COUNT).min(7) as u8,
            reads: config.get_or_default(&QP_RD_ATOM) as u8,
            connects_at_start: if connects_later {
                config.get_or_default(&CONNECT_STATIC)
            } else {
                Some(true)
            },
            connects_later,
            connect_file_in: file(&CONNECTFILE_IN),
            connect_file_out: file(&CONNECTFILE_OUT),
            connect_file_base: config.get_or_default(&CONNECTFILE_BASE),
            datagram_sends: count(&CONNECT_SNDS),
            datagram_receives: config.get_or_default(&CONNECT_RCVS).map(|count| count as usize),
            retransmission: (
                u64::from(config.get_or_default(&CONNECT_RETRANS_MIN)),
                u64::from(
                    config
                        .get_or_default(&CONNECT_RETRANS_MAX)
                        .max(config.get_or_default(&CONNECT_RETRANS_MIN)),
                ),
            ),
            inline: usize::try_from(config.get_or_default(&INLINESEND_LIMIT)).ok(),
            packed: (config.get_or_default(&PACKEDLONG_LIMIT) as usize).min(max_packet / 2),
            bounce: (config.get_or_default(&NONBULKPUT_BOUNCE_LIMIT) as usize).min(max_packet),
            sharing: config.get_or_default(&USE_SRQ),
            xrc: config.get_or_default(&USE_XRC),
            depth: count(&NETWORKDEPTH_PP).max(LEAST_DEPTH),
            total_depth,
            // A message without payload has nothing to gather.
            gather: usize::try_from(config.get_or_default(&AM_GATHER_MIN))
                .ok()
                .map(|least| least.max(1)),
            stripes: (stripe(&PUT_STRIPE_SZ), stripe(&GET_STRIPE_SZ)),
            regions: if config.get_or_default(&USE_FIREHOSE) {
                let regions = config.get_or_default(&PINNED_REGIONS_MAX);
                regions.and_then(|text| Regions::parse(&text))
            } else {
                Some(Regions::Count(0))
            },
            credits,
            has_own_credits: config.is_set(&AM_CREDITS_PP),
            total_credits: config.get_or_default(&AM_CREDITS_TOTAL),
            slack: config.get_or_default(&AM_CREDITS_SLACK).unwrap_or(u32::MAX),
            rings: count(&AMRDMA_MAX_PEERS),
            receives: count(&RBUF_COUNT),
            send_buffers: count(&BBUF_COUNT),
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

/// Whether it is to be found out how much memory can be registered.
pub fn probes() -> bool {
    config::get().get_or_default(&PHYSMEM_PROBE)
}

/// Whether that is reported.
pub fn reports_probe() -> bool {
    config::get().get_or_default(&PHYSMEM_WARN)
}

/// Whether the limit on locked memory is raised.
pub fn raises_limits() -> bool {
    config::get().get_or_default(&MAXIMIZE_MEMLOCK)
}

/// Whether warnings at start are not wanted.
pub fn is_quiet() -> bool {
    config::get().get_or_default(&config::QUIET)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
