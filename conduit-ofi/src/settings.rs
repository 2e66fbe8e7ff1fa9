//! The environment variables of this conduit, and their values.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{self, count, flag, form, ranks, settings, size, text, Config, RankSet, Scope};
use gasnet_conduit::locality::{self, Family, Wishes};
use gasnet_sys::env;
use std::ffi::CStr;

/// The family that names the device of a process.
pub const DEVICES: Family = Family {
    for_all: DEVICE,
    by: DEVICE_TYPE,
    numbered: DEVICE_NUMBERED,
};

settings! {
    "Network: ofi";

    /// The provider and the domain that the user asks for.
    #[derive(Clone, Debug, Default)]
    pub struct Choice(config) {
        LIBRARY: Option<String> = text("GASNET_OFI_LIBRARY",
            "Library to open instead of libfabric.so.1: a path, or a name that the loader searches.").ours();
        PROVIDER: Option<String> = text("GASNET_OFI_PROVIDER",
            "libfabric's provider, as fi_info names it: tcp;ofi_rxm. A colon may replace the semicolon, and the first \
             word the whole name if it is unambiguous.")
            .unset_means("the first that libfabric lists and that is not excluded").ours()
            => pub provider: Option<String> = provider.map(|name| name.trim().replace(':', ";"));
        /// Empty: all.
        PROVIDER_INCLUDE: Option<String> = text("GASNET_OFI_PROVIDER_INCLUDE",
            "Providers to choose from, separated by commas. GASNET_OFI_PROVIDER overrides it.").ours()
            => pub include: Vec<String> = words(&include.unwrap_or_default());
        PROVIDER_EXCLUDE: String = form("GASNET_OFI_PROVIDER_EXCLUDE", "shm,sm2,sockets,udp",
            "a list of providers, separated by commas", |_| true,
            "Providers that are not chosen, separated by commas. GASNET_OFI_PROVIDER and GASNET_OFI_PROVIDER_INCLUDE \
             override it.").ours()
            => pub exclude: Vec<String> =
                excluded(&exclude, config.is_set(&PROVIDER_EXCLUDE), env::get(c"FI_PROVIDER").map(CStr::to_bytes));
        DEVICE: Option<String> = text("GASNET_OFI_DEVICE", "Domain to open, as fi_info names it: eth0, cxi0.")
            .scope(Scope::Rank).unset_means("the one with the host's address, else the first that libfabric lists")
            => pub device: Wishes = Wishes::read(config, &DEVICES);
        DEVICE_TYPE: String = form("GASNET_OFI_DEVICE_TYPE", "Socket",
            locality::ACCEPTS, |text| text.parse::<locality::By>().is_ok(),
            "Numbers in the name of the variable GASNET_OFI_DEVICE_* of a process: its rank in the job, on its host or \
             in its neighbourhood, or the logical numbers of the objects to which it is bound. Auto: the nearest \
             device, whatever the variables are. None: GASNET_OFI_DEVICE only.");
        DEVICE_NUMBERED: Option<String> = text("GASNET_OFI_DEVICE_*",
            "Domain to open in the processes whose numbers (GASNET_OFI_DEVICE_TYPE), joined by underscores, take the \
             place of the star.")
            .unset_means("GASNET_OFI_DEVICE");
        LIST_DEVICES: bool = flag("GASNET_OFI_LIST_DEVICES", false,
            "Print each provider and device that a process could use, and the device's rank by distance: 1 is the \
             nearest.");
        LIST_DEVICES_NODES: RankSet = ranks("GASNET_OFI_LIST_DEVICES_NODES",
            "Ranks that print because of GASNET_OFI_LIST_DEVICES.");
        SET_UNIVERSE_SIZE: Option<bool> = flag("GASNET_OFI_SET_UNIVERSE_SIZE", true,
            "Set FI_UNIVERSE_SIZE, the number of peers that libfabric expects, to the size of the job, unless it is \
             set.")
            .unset_means("yes, unless the host has a Slingshot adapter and libfabric is older than 1.16").optional();
        ATOMICS: Option<bool> = flag("GASNET_OFI_ATOMICS", true,
            "Use the provider's atomics on integers, for all targets of a domain, neighbours included.")
            .unset_means("yes, unless the provider uses sockets").optional().ours() => pub atomics;
        HMEM: Option<bool> = flag("GASNET_OFI_HMEM", true,
            "Register device memory with the provider (FI_HMEM), so that its puts and gets reach it. libfabric must \
             have been built for the device's vendor.")
            .unset_means(
                "yes, if this host has an accelerator, libfabric is 1.17 or newer, and the provider uses no sockets")
            .optional().ours() => pub device_memory;
    }

    /// The environment's settings.
    #[derive(Clone, Debug)]
    pub struct Settings(config) {
        // The largest value with its header is below 16 MiB, the most that cxi keeps free in a
        // receive buffer.
        MAX_MEDIUM: usize = size("GASNET_OFI_MAX_MEDIUM", "64K", 512, (16 << 20) - 1024,
            "Largest payload of a Medium.")
            => pub max_packet: usize = packet_bytes(max_packet);
        NUM_RECEIVE_BUFFS: Option<usize> = count("GASNET_OFI_NUM_RECEIVE_BUFFS", "", 2, 1 << 16,
            "Receive buffers for Active Messages.")
            .unset_means("8, or 64 for buffers of one message each").optional() => pub receives;
        /// None: that of one message.
        RECEIVE_BUFF_SIZE: String = form("GASNET_OFI_RECEIVE_BUFF_SIZE", "1M", "a size, or recv: one message each",
            |text| text.eq_ignore_ascii_case("recv") || bytes(text).is_some(),
            "Size of a receive buffer, at least that of four largest messages. With \"recv\" each takes one message, \
             as always where the provider lacks FI_MULTI_RECV.")
            => pub receive_bytes: Option<usize> = bytes(&receive_bytes);
        AM_INJECT_LIMIT: Option<usize> = size("GASNET_OFI_AM_INJECT_LIMIT", "", 0, 1 << 20,
            "Largest message, headers included, that is sent by fi_inject. At most 256 bytes.")
            .unset_means("GASNET_OFI_INJECT_LIMIT, else the provider's limit").optional()
            => pub inject: usize = inject.or(config.get_or_default(&INJECT_LIMIT)).unwrap_or(usize::MAX);
        INJECT_LIMIT: Option<usize> = size("GASNET_OFI_INJECT_LIMIT", "", 0, 1 << 20,
            "Another name of GASNET_OFI_AM_INJECT_LIMIT.").unset_means("the provider's limit").optional();
        RMA_INJECT_LIMIT: Option<usize> = size("GASNET_OFI_RMA_INJECT_LIMIT", "", 0, 1 << 20,
            "Largest put that is injected (FI_INJECT).").unset_means("the provider's limit").optional()
            => pub inject_put: usize = inject_put.unwrap_or(usize::MAX);
        TX_CQ_SIZE: usize = count("GASNET_OFI_TX_CQ_SIZE", "0", 0, 1 << 24,
            "Entries of the completion queue for transmissions, added to GASNET_OFI_RX_CQ_SIZE because one queue \
             serves both. 0: the provider decides.")
            => pub queue: usize = queue + config.get_or_default(&RX_CQ_SIZE);
        RX_CQ_SIZE: usize = count("GASNET_OFI_RX_CQ_SIZE", "0", 0, 1 << 24,
            "Entries of the completion queue for receives. 0: the provider decides.");
        /// Those of requests and of replies.
        MAX_REQUEST_BUFFS: usize = count("GASNET_OFI_MAX_REQUEST_BUFFS", "1024", 1, 1 << 20,
            "Most buffers for outgoing requests: this many of 2 KiB, and this many of a largest message.")
            => pub most_buffers: [usize; 2] = [most_buffers, config.get_or_default(&MAX_REPLY_BUFFS)];
        MAX_REPLY_BUFFS: usize = count("GASNET_OFI_MAX_REPLY_BUFFS", "1024", 1, 1 << 20,
            "Most buffers for outgoing replies: this many of 2 KiB, and this many of a largest message.");
        /// Those of requests and of replies.
        NUM_INITIAL_REQUEST_BUFFS: usize = count("GASNET_OFI_NUM_INITIAL_REQUEST_BUFFS", "32", 0, 1 << 20,
            "Buffers of 2 KiB for outgoing requests that are allocated at start. The others are allocated as needed.")
            => pub first_buffers: [usize; 2] = [first_buffers, config.get_or_default(&NUM_INITIAL_REPLY_BUFFS)];
        NUM_INITIAL_REPLY_BUFFS: usize = count("GASNET_OFI_NUM_INITIAL_REPLY_BUFFS", "32", 0, 1 << 20,
            "Buffers of 2 KiB for outgoing replies that are allocated at start. The others are allocated as needed.");
        NUM_BBUFS: usize = count("GASNET_OFI_NUM_BBUFS", "64", 1, 1 << 20,
            "Bounce buffers for puts whose source must be free at return.");
        BBUF_SIZE: usize = size("GASNET_OFI_BBUF_SIZE", "4K", 64, 1 << 30, "Size of a bounce buffer.");
        BBUF_THRESHOLD: Option<usize> = size("GASNET_OFI_BBUF_THRESHOLD", "", 0, 1 << 30,
            "Largest put that is copied through bounce buffers. Larger puts block until their source is free.")
            .unset_means("4 * GASNET_OFI_BBUF_SIZE").optional()
            => pub bounce_bytes: usize = bounce_bytes.unwrap_or(4 * config.get_or_default(&BBUF_SIZE)).max(64)
            => pub bounces: usize = bounces_of(config, bounce_bytes);
        NUM_COMPLETIONS: usize = count("GASNET_OFI_NUM_COMPLETIONS", "64", 1, 256,
            "Most completions that a poll takes from the queue at once.").ours() => pub completions;
        RMA_POLL_FREQ: u32 = count("GASNET_OFI_RMA_POLL_FREQ", "32", 1, 1 << 30,
            "Puts and gets between polls of the completion queue. This conduit polls it when the provider has no room.")
            .no_effect();
        WINDOW: usize = size("GASNET_OFI_WINDOW", "512K", 4 << 10, 60 << 20,
            "Most bytes of requests in flight to one peer, each counted as 1 KiB at least. A larger request counts as \
             half of it.")
            .unset_means("512 KB; with cxi less in jobs of more than 24 ranks").ours()
            => pub window
            => pub has_own_window: bool = config.is_set(&WINDOW);
    }
}

/// Bytes of a size as the environment has it.
fn bytes(text: &str) -> Option<usize> {
    let kind = config::ValueType::Size {
        min: 1 << 12,
        max: 1 << 30,
    };
    match kind.parse(text) {
        Ok(config::Value::Size(bytes)) => Some(bytes as usize),
        _ => None,
    }
}

/// The bytes of the largest packet, in which a Medium of `GASNET_OFI_MAX_MEDIUM` fits with its
/// header and arguments.
pub fn max_packet_bytes() -> usize {
    packet_bytes(config::get().get_or_default(&MAX_MEDIUM))
}

fn packet_bytes(max_medium: usize) -> usize {
    const AROUND: usize = 128;
    max_medium.max(1024).next_multiple_of(64) + AROUND
}

/// The buffers of `bytes` that take the memory of all bounce buffers.
fn bounces_of(config: &Config, bytes: usize) -> usize {
    let memory = config.get_or_default(&NUM_BBUFS) * config.get_or_default(&BBUF_SIZE);
    (memory / bytes).max(1)
}

/// The providers of a list.
fn words(list: &str) -> Vec<String> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| word.replace(':', ";")).collect()
}

/// The providers of the list that are not chosen. `is_own`: the user has set it. A user who names
/// providers in libfabric's own list has chosen already; there "^" excludes some.
fn excluded(list: &str, is_own: bool, fi_provider: Option<&[u8]>) -> Vec<String> {
    let chosen = fi_provider.is_some_and(|list| !list.is_empty() && list[0] != b'^');
    if chosen && !is_own {
        Vec::new()
    } else {
        words(list)
    }
}

/// Whether a rank prints the devices that it could use.
pub fn lists_devices(rank: u32) -> bool {
    lists_devices_in(config::get(), rank)
}

fn lists_devices_in(config: &Config, rank: u32) -> bool {
    config.get_or_default(&LIST_DEVICES) && config.get_or_default(&LIST_DEVICES_NODES).contains(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::config::Variable;
    use gasnet_conduit::locality::{Device, Ranks};

    #[test]
    fn defaults() {
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
        assert_eq!((buffers.most_buffers, buffers.first_buffers), ([5, 6], [1, 2]));
        let bounces = of(&[("NUM_BBUFS", "8"), ("BBUF_SIZE", "1K")]);
        assert_eq!((bounces.bounces, bounces.bounce_bytes), (2, 4 << 10));
        let bounces = of(&[("NUM_BBUFS", "8"), ("BBUF_SIZE", "1K"), ("BBUF_THRESHOLD", "2K")]);
        assert_eq!((bounces.bounces, bounces.bounce_bytes), (4, 2 << 10));
        let poll = of(&[("NUM_COMPLETIONS", "3"), ("WINDOW", "1M")]);
        assert_eq!((poll.completions, poll.window, poll.has_own_window), (3, 1 << 20, true));
    }

    /// cxi keeps at most 16 MiB - 1 free in a receive buffer
    /// (libfabric@v2.6.0:prov/cxi/src/cxip_ep.c).
    #[test]
    fn the_largest_message_fits_the_largest_minimum_of_cxi() {
        let most = (16 << 20) - 1024;
        let packet = Settings::of(&config(&[("MAX_MEDIUM", &most.to_string())])).max_packet;
        let message = packet + crate::wire::OVERHEAD;
        assert!((most..1 << 24).contains(&message), "{message}");
    }

    #[test]
    fn choices() {
        let of = |pairs| Choice::of(&config(pairs));
        let words = of(&[
            ("PROVIDER", " tcp:ofi_rxm"),
            ("PROVIDER_INCLUDE", "cxi, verbs:ofi_rxm,"),
        ]);
        assert_eq!(words.provider.as_deref(), Some("tcp;ofi_rxm"));
        assert_eq!(words.include, ["cxi", "verbs;ofi_rxm"]);
        assert_eq!(of(&[("PROVIDER_EXCLUDE", "net")]).exclude, ["net"]);
        // libfabric's own list overrides the default.
        let excluded = |is_own, fi_provider: Option<&str>| excluded("shm,udp", is_own, fi_provider.map(str::as_bytes));
        assert!(excluded(false, Some("shm")).is_empty());
        let both = ["shm", "udp"];
        assert_eq!(
            [
                excluded(false, None),
                excluded(false, Some("^net")),
                excluded(true, Some("shm"))
            ],
            [both; 3]
        );
        let device = of(&[("DEVICE", "a"), ("DEVICE_TYPE", "hrank"), ("DEVICE_1", "b")]).device;
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
        assert_eq!(of(&[("ATOMICS", "n")]).atomics, Some(false));
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
