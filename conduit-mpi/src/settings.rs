//! The environment variables of this conduit, and their values.
#![forbid(unsafe_code)]

use gasnet_conduit::choice_enum;
use gasnet_conduit::config::{self, choice, count, int, settings, size, text};

choice_enum! {
    /// Thread level, by its place in the constants of MPI.
    pub enum Level {
        /// Of a program with one thread.
        Single = "SINGLE",
        /// Only the main thread calls MPI.
        Funneled = "FUNNELED",
        /// One thread at a time does.
        Serialized = "SERIALIZED",
        /// Any.
        Multiple = "MULTIPLE",
    }
}

choice_enum! {
    /// Whether puts and gets are MPI's one-sided calls.
    pub enum OneSided {
        /// If a trial at the start shows that they do not need their target.
        Auto = "auto",
        /// No.
        No = "0",
        /// Yes.
        Yes = "1",
    }
}

settings! {
    "Network: mpi";

    /// The environment's settings.
    #[derive(Clone, Debug)]
    pub struct Settings(config, ranks: u32) {
        LIBRARY: Option<String> = text("GASNET_MPI_LIBRARY",
            "Library of MPI to open: a path, or a name that the loader searches. Without effect if the process has an \
             MPI already.")
            .unset_means("that of the launcher, else the first of libmpi.so.12, libmpich.so.12, libmpi.so.40, \
             libmpi_abi.so.1 and others that exists").names_file().ours();
        MPI_THREAD: Level = choice("GASNET_MPI_THREAD", "SERIALIZED",
            "Thread level with which MPI is initialised. MULTIPLE is for programs whose threads call MPI themselves.");
        RMA: OneSided = choice("GASNET_MPI_RMA", "0",
            "Puts and gets by one-sided calls of MPI. auto: if a trial at the start shows that they are complete, and \
             visible at their target, without its help. 1: without trial.").ours()
            => pub one_sided;
        MAX_MEDIUM: usize = size("GASNET_MPI_MAX_MEDIUM", "64K", 512, 1 << 20, "Largest payload of a Medium.").ours()
            => pub max_packet: usize = packet_bytes(max_packet);
        NETWORKDEPTH: Option<u32> = count("GASNET_NETWORKDEPTH", "", 1, 1 << 15,
            "Half of the requests in flight to one peer, unless AMMPI_CREDITS_PP is set.")
            .unset_means("at least 2, at most 32: less in jobs of more than 4 ranks").optional()
            => pub depth: Option<u32> = depth.or_else(|| config.get_or_default(&AMMPI_DEPTH));
        AMMPI_DEPTH: Option<u32> = count("AMMPI_NETWORKDEPTH", "", 1, 1 << 15,
            "As GASNET_NETWORKDEPTH, where that is not set.").optional();
        CREDITS_PP: Option<u32> = count("AMMPI_CREDITS_PP", "", 2, 1 << 16,
            "Most requests in flight to one peer. One of more than 8 KB counts as several.")
            .unset_means("twice GASNET_NETWORKDEPTH").optional()
            => pub credits: u32 = credits.unwrap_or_else(|| default_credits(depth, ranks));
        CREDITS_SLACK: Option<u32> = count("AMMPI_CREDITS_SLACK", "", 1, 1 << 16,
            "Requests of a peer whose credits are returned in a message of their own.")
            .unset_means("three quarters of AMMPI_CREDITS_PP").optional()
            => pub slack: u32 = slack.unwrap_or(credits * 3 / 4).min(credits - most_cost(credits));
        SYNCSEND_THRESH: Option<i64> = int("AMMPI_SYNCSEND_THRESH", "", -1, 1 << 30,
            "Size from which messages are sent synchronously: credits bound those that have not been received.")
            .no_effect().optional();
    }
}

/// Receives that are posted, for messages of at most `bytes` bytes: a thread that polls takes them
/// as they come, and the buffers of more would not stay in the processor's cache. MPI keeps those
/// that arrive while nobody polls, up to the credits of all peers, and as many replies.
pub fn receives(ranks: u32, bytes: usize) -> usize {
    const EACH: usize = 16;
    const MOST: usize = 256;
    const MOST_BYTES: usize = 64 << 20;
    let most = (MOST_BYTES / bytes).clamp(EACH, MOST);
    most.min(EACH * ranks.max(2) as usize - EACH)
}

/// Requests of all peers that are under way, at most, in jobs of few ranks.
const MOST_REQUESTS: u32 = 256;

/// Most credits that a request costs, of those of a peer. The slack leaves as many, and may differ
/// between ranks.
pub fn most_cost(credits: u32) -> u32 {
    (credits / 4).max(1)
}

/// Credits of a peer unless they are set.
fn default_credits(depth: Option<u32>, ranks: u32) -> u32 {
    let share = MOST_REQUESTS / ranks.max(1);
    depth.map_or_else(|| share.clamp(4, 64), |depth| 2 * depth)
}

/// The bytes of the largest packet, in which a Medium of `GASNET_MPI_MAX_MEDIUM` fits with its
/// header and arguments.
pub fn max_packet_bytes() -> usize {
    packet_bytes(config::get().get_or_default(&MAX_MEDIUM))
}

fn packet_bytes(max_medium: usize) -> usize {
    /// Bytes of a packet around its payload, at most.
    const AROUND: usize = 128;
    max_medium.max(1024).next_multiple_of(64) + AROUND
}

/// The thread level to ask MPI for.
pub fn level() -> Level {
    config::get().get_or_default(&MPI_THREAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_shrink_with_the_ranks() {
        for ranks in 1..=MOST_REQUESTS / 4 {
            let credits = default_credits(None, ranks);
            assert!(
                (4..=64).contains(&credits) && credits * (ranks - 1) <= MOST_REQUESTS,
                "{ranks}"
            );
        }
        assert_eq!(
            [1, 2, 5, 1 << 20].map(|ranks| receives(ranks, 64 << 10)),
            [16, 16, 64, 256]
        );
        assert_eq!(receives(9, 64 << 20), 16);
        assert_eq!(default_credits(None, 1 << 20), 4);
        assert_eq!(default_credits(Some(4), 2), 8);
        assert!(Settings::read(2).slack < Settings::read(2).credits);
    }

    #[test]
    fn both_names_of_the_depth() {
        let credits = |text: &str| {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            let pairs = pairs.map(|(name, value)| (name.into(), value.into()));
            Settings::of(&config::Config::from_env(&[TABLE], pairs).unwrap(), 2).credits
        };
        assert_eq!(credits("AMMPI_NETWORKDEPTH=3"), 6);
        assert_eq!(credits("AMMPI_NETWORKDEPTH=3 GASNET_NETWORKDEPTH=5"), 10);
        assert_eq!(credits("AMMPI_NETWORKDEPTH=3 AMMPI_CREDITS_PP=7"), 7);
    }
}
