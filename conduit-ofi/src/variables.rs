//! Environment variables of this conduit.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{self, count, flag, form, ranks, size, text, Config, Key, RankSet, Scope, Variable};
use gasnet_conduit::locality::{self, Family, Wishes};
use gasnet_sys::env;
use std::ffi::CStr;

/// File of the library.
pub static LIBRARY: Key<Option<String>> = text(
    "GASNET_OFI_LIBRARY",
    "Library to open instead of libfabric.so.1: a path, or a name that the loader searches.",
)
.ours();
const PROVIDER: Key<Option<String>> = text(
    "GASNET_OFI_PROVIDER",
    "libfabric's provider, as fi_info names it: tcp;ofi_rxm. A colon may stand for the semicolon, and the first word \
     for the whole if it is clear.",
)
.unset_means("the first that libfabric lists and that is not excluded")
.ours();
const PROVIDER_INCLUDE: Key<Option<String>> = text(
    "GASNET_OFI_PROVIDER_INCLUDE",
    "Providers to choose from, separated by commas. GASNET_OFI_PROVIDER overrides it.",
)
.ours();
const PROVIDER_EXCLUDE: Key<String> = form(
    "GASNET_OFI_PROVIDER_EXCLUDE",
    "shm,sm2,sockets,udp",
    "a list of providers, separated by commas",
    |_| true,
    "Providers that are not chosen, separated by commas. GASNET_OFI_PROVIDER and GASNET_OFI_PROVIDER_INCLUDE override \
     it.",
)
.ours();
const DEVICE: Key<Option<String>> = text("GASNET_OFI_DEVICE", "Domain to open, as fi_info names it: eth0, cxi0.")
    .scope(Scope::Rank)
    .unset_means("the one with the host's address, else the first that libfabric lists");
const DEVICE_TYPE: Key<String> = form(
    "GASNET_OFI_DEVICE_TYPE",
    "Socket",
    locality::ACCEPTS,
    |text| text.parse::<locality::By>().is_ok(),
    "The numbers in the name of the variable GASNET_OFI_DEVICE_* of a process: its rank in the job, on its host or in \
     its neighbourhood, or the logical numbers of the objects that it is bound to. Auto: the nearest device, whatever \
     the variables are. None: GASNET_OFI_DEVICE only.",
);
const DEVICE_NUMBERED: Key<Option<String>> = text(
    "GASNET_OFI_DEVICE_*",
    "Domain to open in the processes whose numbers (GASNET_OFI_DEVICE_TYPE), joined by underscores, take the place of \
     the star.",
)
.unset_means("GASNET_OFI_DEVICE");
/// The family that names the device of a process.
pub const DEVICES: Family = Family {
    for_all: DEVICE,
    by: DEVICE_TYPE,
    numbered: DEVICE_NUMBERED,
};
const LIST_DEVICES: Key<bool> = flag(
    "GASNET_OFI_LIST_DEVICES",
    false,
    "Print each provider and device that a process could use, and the device's rank by distance: 1 is the nearest.",
);
const LIST_DEVICES_NODES: Key<RankSet> = ranks(
    "GASNET_OFI_LIST_DEVICES_NODES",
    "Ranks that print because of GASNET_OFI_LIST_DEVICES.",
);
const SET_UNIVERSE_SIZE: Key<Option<bool>> = flag(
    "GASNET_OFI_SET_UNIVERSE_SIZE",
    true,
    "Set FI_UNIVERSE_SIZE, the number of peers that libfabric expects, to the size of the job, unless it is set.",
)
.unset_means("yes, unless the host has a Slingshot adapter and libfabric is older than 1.16")
.optional();
const ATOMICS: Key<Option<bool>> = flag(
    "GASNET_OFI_ATOMICS",
    true,
    "Use the provider's atomics on integers, for all targets of a domain, neighbours included.",
)
.unset_means("yes, unless the provider uses sockets")
.optional()
.ours();
const HMEM: Key<Option<bool>> = flag(
    "GASNET_OFI_HMEM",
    true,
    "Register device memory with the provider (FI_HMEM), so that its puts and gets reach it. libfabric must have been \
     built for the device's vendor.",
)
.unset_means("yes, if this host has an accelerator, libfabric is 1.17 or newer, and the provider uses no sockets")
.optional()
.ours();
const MAX_MEDIUM: Key<u64> = size(
    "GASNET_OFI_MAX_MEDIUM",
    "64K",
    512,
    // With its header below 16 MiB, the most that cxi keeps free in a receive buffer.
    (16 << 20) - 1024,
    "Largest payload of a Medium.",
);
const NUM_RECEIVE_BUFFS: Key<Option<u32>> = count(
    "GASNET_OFI_NUM_RECEIVE_BUFFS",
    "",
    2,
    1 << 16,
    "Receive buffers for Active Messages.",
)
.unset_means("8, or 64 for buffers of one message each")
.optional();
const RECEIVE_BUFF_SIZE: Key<String> = form(
    "GASNET_OFI_RECEIVE_BUFF_SIZE",
    "1M",
    "a size, or recv: one message each",
    |text| text.eq_ignore_ascii_case("recv") || bytes(text).is_some(),
    "Size of a receive buffer, at least that of four largest messages. With \"recv\" each takes one message, as \
     always where the provider lacks FI_MULTI_RECV.",
);
const AM_INJECT_LIMIT: Key<Option<u64>> = size(
    "GASNET_OFI_AM_INJECT_LIMIT",
    "",
    0,
    1 << 20,
    "Messages of up to this many bytes, headers included, are sent by fi_inject. At most 256.",
)
.unset_means("GASNET_OFI_INJECT_LIMIT, else the provider's limit")
.optional();
const INJECT_LIMIT: Key<Option<u64>> = size(
    "GASNET_OFI_INJECT_LIMIT",
    "",
    0,
    1 << 20,
    "Another name of GASNET_OFI_AM_INJECT_LIMIT.",
)
.unset_means("the provider's limit")
.optional();
const RMA_INJECT_LIMIT: Key<Option<u64>> = size(
    "GASNET_OFI_RMA_INJECT_LIMIT",
    "",
    0,
    1 << 20,
    "Puts of up to this many bytes are injected (FI_INJECT).",
)
.unset_means("the provider's limit")
.optional();
const TX_CQ_SIZE: Key<u32> = count(
    "GASNET_OFI_TX_CQ_SIZE",
    "0",
    0,
    1 << 24,
    "Entries of the completion queue for transmissions; added to GASNET_OFI_RX_CQ_SIZE, as one queue serves both. 0: \
     the provider decides.",
);
const RX_CQ_SIZE: Key<u32> = count(
    "GASNET_OFI_RX_CQ_SIZE",
    "0",
    0,
    1 << 24,
    "Entries of the completion queue for receives. 0: the provider decides.",
);
const MAX_REQUEST_BUFFS: Key<u32> = count(
    "GASNET_OFI_MAX_REQUEST_BUFFS",
    "1024",
    1,
    1 << 20,
    "Buffers for outgoing requests: of 2 KiB, and as many of a largest message.",
);
const MAX_REPLY_BUFFS: Key<u32> = count(
    "GASNET_OFI_MAX_REPLY_BUFFS",
    "1024",
    1,
    1 << 20,
    "The same for outgoing replies.",
);
const NUM_INITIAL_REQUEST_BUFFS: Key<u32> = count(
    "GASNET_OFI_NUM_INITIAL_REQUEST_BUFFS",
    "32",
    0,
    1 << 20,
    "How many of the 2-KiB buffers for requests are allocated at the start. The others are when they are needed.",
);
const NUM_INITIAL_REPLY_BUFFS: Key<u32> = count(
    "GASNET_OFI_NUM_INITIAL_REPLY_BUFFS",
    "32",
    0,
    1 << 20,
    "The same for replies.",
);
const NUM_BBUFS: Key<u32> = count(
    "GASNET_OFI_NUM_BBUFS",
    "64",
    1,
    1 << 20,
    "Bounce buffers for puts whose source is to be free at once.",
);
const BBUF_SIZE: Key<u64> = size("GASNET_OFI_BBUF_SIZE", "4K", 64, 1 << 30, "Size of a bounce buffer.");
const BBUF_THRESHOLD: Key<Option<u64>> = size(
    "GASNET_OFI_BBUF_THRESHOLD",
    "",
    0,
    1 << 30,
    "Puts of more bytes block until their source is free.",
)
.unset_means("4 * GASNET_OFI_BBUF_SIZE")
.optional();
const NUM_COMPLETIONS: Key<u32> = count(
    "GASNET_OFI_NUM_COMPLETIONS",
    "64",
    1,
    256,
    "Completions that a poll takes from the queue at once.",
)
.ours();
const RMA_POLL_FREQ: Key<u32> = count(
    "GASNET_OFI_RMA_POLL_FREQ",
    "32",
    1,
    1 << 30,
    "Puts and gets between looks at the completion queue: here one looks when the provider has no room.",
)
.no_effect();
const WINDOW: Key<u64> = size(
    "GASNET_OFI_WINDOW",
    "512K",
    4 << 10,
    60 << 20,
    "Bytes of requests in flight to one peer, each counted as 1 KiB at least. A larger request counts as half of it.",
)
.unset_means("512 KB; with cxi less in jobs of more than 24 ranks")
.ours();

/// All variables.
pub static TABLE: &[Variable] = &[
    LIBRARY.variable.section("Network: ofi"),
    PROVIDER.variable.section("Network: ofi"),
    PROVIDER_INCLUDE.variable.section("Network: ofi"),
    PROVIDER_EXCLUDE.variable.section("Network: ofi"),
    DEVICE.variable.section("Network: ofi"),
    DEVICE_TYPE.variable.section("Network: ofi"),
    DEVICE_NUMBERED.variable.section("Network: ofi"),
    LIST_DEVICES.variable.section("Network: ofi"),
    LIST_DEVICES_NODES.variable.section("Network: ofi"),
    SET_UNIVERSE_SIZE.variable.section("Network: ofi"),
    ATOMICS.variable.section("Network: ofi"),
    HMEM.variable.section("Network: ofi"),
    MAX_MEDIUM.variable.section("Network: ofi"),
    NUM_RECEIVE_BUFFS.variable.section("Network: ofi"),
    RECEIVE_BUFF_SIZE.variable.section("Network: ofi"),
    AM_INJECT_LIMIT.variable.section("Network: ofi"),
    INJECT_LIMIT.variable.section("Network: ofi"),
    RMA_INJECT_LIMIT.variable.section("Network: ofi"),
    TX_CQ_SIZE.variable.section("Network: ofi"),
    RX_CQ_SIZE.variable.section("Network: ofi"),
    MAX_REQUEST_BUFFS.variable.section("Network: ofi"),
    MAX_REPLY_BUFFS.variable.section("Network: ofi"),
    NUM_INITIAL_REQUEST_BUFFS.variable.section("Network: ofi"),
    NUM_INITIAL_REPLY_BUFFS.variable.section("Network: ofi"),
    NUM_BBUFS.variable.section("Network: ofi"),
    BBUF_SIZE.variable.section("Network: ofi"),
    BBUF_THRESHOLD.variable.section("Network: ofi"),
    NUM_COMPLETIONS.variable.section("Network: ofi"),
    RMA_POLL_FREQ.variable.section("Network: ofi"),
    WINDOW.variable.section("Network: ofi"),
];

/// Bytes of a size as the environment has it.
fn bytes(text: &str) -> Option<u64> {
    let kind = config::ValueType::Size {
        min: 1 << 12,
        max: 1 << 30,
    };
    match kind.parse(text) {
        Ok(config::Value::Size(bytes)) => Some(bytes),
        _ => None,
    }
}

/// The bytes of the largest packet, in which a Medium of `GASNET_OFI_MAX_MEDIUM` fits with its
/// header and arguments.
pub fn max_packet_bytes() -> usize {
    packet_bytes(config::get())
}

fn packet_bytes(config: &Config) -> usize {
    const AROUND: usize = 128;
    (config.get_or_default(&MAX_MEDIUM) as usize)
        .max(1024)
        .next_multiple_of(64)
        + AROUND
}

/// Whether `FI_UNIVERSE_SIZE` is set; none: that depends.
pub fn sets_universe_size() -> Option<bool> {
    config::get().get_or_default(&SET_UNIVERSE_SIZE)
}

/// Whether a rank prints the devices that it could use.
pub fn lists_devices(rank: u32) -> bool {
    lists_devices_in(config::get(), rank)
}

fn lists_devices_in(config: &Config, rank: u32) -> bool {
    config.get_or_default(&LIST_DEVICES) && config.get_or_default(&LIST_DEVICES_NODES).contains(rank)
}

/// Whether warnings at start are not wanted.
pub fn is_quiet() -> bool {
    config::get().get_or_default(&config::QUIET)
}

/// Which provider and domain the user asks for.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The provider.
    pub provider: Option<String>,
    /// Providers to choose from; none: all.
    pub include: Vec<String>,
    /// Providers that are not chosen.
    pub exclude: Vec<String>,
    /// The domain.
    pub device: Wishes,
    /// Whether atomics are the provider's, if it has them.
    pub atomics: Option<bool>,
    /// Whether puts and gets of device memory are the provider's, if it has them.
    pub device_memory: Option<bool>,
}

impl Choice {
    /// Reads the environment.
    pub fn read() -> Self {
        Self::of(config::get(), env::get(c"FI_PROVIDER").map(CStr::to_bytes))
    }

    /// What a configuration and libfabric's list of providers ask for.
    fn of(config: &Config, fi_provider: Option<&[u8]>) -> Self {
        let words = |list: &str| {
            let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(|word| word.replace(':', ";")).collect::<Vec<_>>()
        };
        // Who names providers to libfabric itself has chosen already. "^" excludes some.
        let chosen = fi_provider.is_some_and(|list| !list.is_empty() && list[0] != b'^');
        let exclude = if chosen && !config.is_set(&PROVIDER_EXCLUDE) {
            Vec::new()
        } else {
            words(&config.get_or_default(&PROVIDER_EXCLUDE))
        };
        let include = config.get_or_default(&PROVIDER_INCLUDE);
        Self {
            provider: config
                .get_or_default(&PROVIDER)
                .map(|name| name.trim().replace(':', ";")),
            include: include.map_or(Vec::new(), |list| words(&list)),
            exclude,
            device: Wishes::read(config, &DEVICES),
            atomics: config.get_or_default(&ATOMICS),
            device_memory: config.get_or_default(&HMEM),
        }
    }
}

/// The settings of the environment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of the largest packet.
    pub max_packet: usize,
    /// Receive buffers.
    pub receives: Option<usize>,
    /// Bytes of each, or none: of one message.
    pub receive_bytes: Option<usize>,
    /// Bytes of the largest message that is injected.
    pub inject: usize,
    /// Bytes of the largest put that is injected.
    pub inject_put: usize,
    /// Entries of the queue; 0: the provider decides.
    pub queue: usize,
    /// Send buffers for requests and replies: most, and at first.
    pub send_buffers: [(usize, usize); 2],
    /// Bounce buffers.
    pub bounces: usize,
    /// Bytes of a bounced operation, at most.
    pub bounce_bytes: usize,
    /// Completions that a poll takes at once.
    pub completions: usize,
    /// Bytes of requests in flight to a peer, and whether the user has set them.
    pub window: (usize, bool),
}

impl Settings {
    /// Reads the environment.
    pub fn read() -> Self {
        Self::of(config::get())
    }

    fn of(config: &Config) -> Self {
        let size = config.get_or_default(&RECEIVE_BUFF_SIZE);
        let count = |key: &Key<u32>| config.get_or_default(key) as usize;
        let limit = |key: &Key<Option<u64>>| config.get_or_default(key).map(|bytes| bytes as usize);
        let bounce = config.get_or_default(&BBUF_SIZE) as usize;
        let threshold = limit(&BBUF_THRESHOLD).unwrap_or(4 * bounce).max(64);
        Self {
            max_packet: packet_bytes(config),
            receives: config.get_or_default(&NUM_RECEIVE_BUFFS).map(|count| count as usize),
            receive_bytes: bytes(&size).map(|bytes| bytes as usize),
            inject: limit(&AM_INJECT_LIMIT).or(limit(&INJECT_LIMIT)).unwrap_or(usize::MAX),
            inject_put: limit(&RMA_INJECT_LIMIT).unwrap_or(usize::MAX),
            queue: count(&TX_CQ_SIZE) + count(&RX_CQ_SIZE),
            send_buffers: [
                (count(&MAX_REQUEST_BUFFS), count(&NUM_INITIAL_REQUEST_BUFFS)),
                (count(&MAX_REPLY_BUFFS), count(&NUM_INITIAL_REPLY_BUFFS)),
            ],
            bounces: (count(&NUM_BBUFS) * bounce / threshold).max(1),
            bounce_bytes: threshold,
            completions: count(&NUM_COMPLETIONS),
            window: (config.get_or_default(&WINDOW) as usize, config.is_set(&WINDOW)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::locality::{Device, Ranks};

    #[test]
    fn defaults_are_valid() {
        let invalid = TABLE.iter().find(|variable| !variable.has_valid_default());
        assert!(invalid.is_none(), "{invalid:?}");
        let settings = Settings::read();
        assert_eq!((settings.receive_bytes, settings.receives), (Some(1 << 20), None));
        assert_eq!((settings.bounces, settings.bounce_bytes), (16, 16 << 10));
        assert_eq!(settings.max_packet, (64 << 10) + 128);
        assert_eq!(Choice::read().exclude, ["shm", "sm2", "sockets", "udp"]);
    }

    #[test]
    fn sizes_of_receive_buffers() {
        let valid = |text| RECEIVE_BUFF_SIZE.variable.parse(text).is_ok();
        assert!(valid("recv") && valid("Recv") && valid("64K") && valid("1MB"));
        assert!(!valid("send") && !valid("0") && !valid(""));
    }

    fn config(pairs: &[(&str, &str)]) -> Config {
        static TABLES: [&[Variable]; 1] = [TABLE];
        let pairs = pairs
            .iter()
            .map(|(name, value)| (format!("GASNET_OFI_{name}").into(), (*value).into()));
        Config::from_env(&TABLES, pairs).unwrap()
    }

    #[test]
    fn every_setting_has_its_variables() {
        let of = |pairs| Settings::of(&config(pairs));
        assert_eq!(of(&[("MAX_MEDIUM", "4096")]).max_packet, 4096 + 128);
        let receives = of(&[("NUM_RECEIVE_BUFFS", "5"), ("RECEIVE_BUFF_SIZE", "recv")]);
        assert_eq!((receives.receives, receives.receive_bytes), (Some(5), None));
        assert_eq!(of(&[("RECEIVE_BUFF_SIZE", "2M")]).receive_bytes, Some(2 << 20));
        assert_eq!(of(&[("INJECT_LIMIT", "7")]).inject, 7);
        let injects = of(&[
            ("INJECT_LIMIT", "7"),
            ("AM_INJECT_LIMIT", "8"),
            ("RMA_INJECT_LIMIT", "9"),
        ]);
        assert_eq!((injects.inject, injects.inject_put), (8, 9));
        assert_eq!(of(&[("TX_CQ_SIZE", "3"), ("RX_CQ_SIZE", "4")]).queue, 7);
        let buffers = of(&[
            ("MAX_REQUEST_BUFFS", "5"),
            ("NUM_INITIAL_REQUEST_BUFFS", "1"),
            ("MAX_REPLY_BUFFS", "6"),
            ("NUM_INITIAL_REPLY_BUFFS", "2"),
        ]);
        assert_eq!(buffers.send_buffers, [(5, 1), (6, 2)]);
        let bounces = of(&[("NUM_BBUFS", "8"), ("BBUF_SIZE", "1K")]);
        assert_eq!((bounces.bounces, bounces.bounce_bytes), (2, 4 << 10));
        let bounces = of(&[("NUM_BBUFS", "8"), ("BBUF_SIZE", "1K"), ("BBUF_THRESHOLD", "2K")]);
        assert_eq!((bounces.bounces, bounces.bounce_bytes), (4, 2 << 10));
        let poll = of(&[("NUM_COMPLETIONS", "3"), ("WINDOW", "1M")]);
        assert_eq!((poll.completions, poll.window), (3, (1 << 20, true)));
    }

    #[test]
    fn choices() {
        let of = |pairs, fi_provider: Option<&str>| Choice::of(&config(pairs), fi_provider.map(str::as_bytes));
        let words = of(
            &[
                ("PROVIDER", " tcp:ofi_rxm"),
                ("PROVIDER_INCLUDE", "cxi, verbs:ofi_rxm,"),
            ],
            None,
        );
        assert_eq!(words.provider.as_deref(), Some("tcp;ofi_rxm"));
        assert_eq!(words.include, ["cxi", "verbs;ofi_rxm"]);
        assert_eq!(of(&[("PROVIDER_EXCLUDE", "net")], Some("net")).exclude, ["net"]);
        // libfabric's own list overrides the default.
        assert!(of(&[], Some("shm")).exclude.is_empty());
        assert_eq!(of(&[], Some("^net")).exclude.len(), 4);
        let device = of(&[("DEVICE", "a"), ("DEVICE_TYPE", "hrank"), ("DEVICE_1", "b")], None).device;
        let named = [0, 1].map(|host| {
            device.of(
                Ranks {
                    host,
                    ..Ranks::default()
                },
                || unreachable!(),
            )
        });
        let is = |variable: &str, name: &str| Device::Named {
            variable: format!("GASNET_OFI_{variable}"),
            name: name.to_owned(),
        };
        assert_eq!(named, [is("DEVICE", "a"), is("DEVICE_1", "b")]);
        assert_eq!(of(&[("ATOMICS", "n")], None).atomics, Some(false));
    }

    #[test]
    fn listing_ranks() {
        let lists = |pairs| [0, 1, 2].map(|rank| lists_devices_in(&config(pairs), rank));
        assert_eq!(lists(&[("LIST_DEVICES", "1")]), [true; 3]);
        assert_eq!(
            lists(&[("LIST_DEVICES", "1"), ("LIST_DEVICES_NODES", "1-2")]),
            [false, true, true]
        );
        assert_eq!(lists(&[("LIST_DEVICES_NODES", "1-2")]), [false; 3]);
    }
}
