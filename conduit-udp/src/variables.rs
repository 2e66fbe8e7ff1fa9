//! Environment variables of this conduit.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{self, count, double, flag, int, size, FromValue, Key, Variable};

const NETWORKDEPTH: Key<u32> = count(
    "GASNET_NETWORKDEPTH",
    "256",
    1,
    1 << 20,
    "Request datagrams in flight to one peer, and as many of long puts. Values above 256 have the effect of 256.",
);
const SOCKETBUFFER_MAX: Key<u64> = size(
    "GASNET_SOCKETBUFFER_MAX",
    "8M",
    1,
    1 << 30,
    "Upper limit of the requested socket buffers, at least 64K. The kernel may grant less (net.core.rmem_max, \
     wmem_max).",
);
const SOCKETBUFFER_INITIAL: Key<Option<u64>> = size(
    "GASNET_SOCKETBUFFER_INITIAL",
    "",
    1,
    1 << 30,
    "Requested size of each socket buffer.",
)
.unset_means("as GASNET_SOCKETBUFFER_MAX")
.optional();
const REQUESTTIMEOUT_MAX: Key<Option<i64>> = int(
    "GASNET_REQUESTTIMEOUT_MAX",
    "",
    0,
    1 << 50,
    "How long a peer may leave everything unanswered before the job ends. 0: no limit; the job then ends only when the \
     peer's port is reported closed, or after ten seconds of errors for everything sent there.",
)
.unit("microseconds")
.unset_means("0, but five minutes for a peer on another host that never connected")
.optional();
const REQUESTTIMEOUT_INITIAL: Key<i64> = int(
    "GASNET_REQUESTTIMEOUT_INITIAL",
    "20000",
    100,
    1 << 40,
    "Retransmission timeout before a round trip to the peer was measured, half a second at most. Measured round trips \
     determine it afterwards.",
)
.unit("microseconds");
const REQUESTTIMEOUT_BACKOFF: Key<f64> = double(
    "GASNET_REQUESTTIMEOUT_BACKOFF",
    "2",
    1.0,
    1000.0,
    "Factor by which the retransmission timeout grows with each retransmission: always 2 here.",
)
.no_effect();
const RECVDEPTH: Key<Option<i64>> = int(
    "GASNET_RECVDEPTH",
    "",
    -1,
    1 << 30,
    "Messages in the receive queue: here the socket buffer is the queue.",
)
.no_effect()
.optional();
const SENDDEPTH: Key<Option<i64>> = int(
    "GASNET_SENDDEPTH",
    "",
    -1,
    1 << 30,
    "Requests in flight to all peers together: here each peer has its own limit only.",
)
.no_effect()
.optional();

const THREAD: Key<bool> = flag(
    "GASNET_UDP_THREAD",
    true,
    "Run a progress thread, which serves the network while the client computes or sleeps, and coalesce bursts of short \
     requests.",
)
.ours();

/// All variables.
pub static TABLE: &[Variable] = &[
    NETWORKDEPTH.variable.section("Network: udp"),
    SOCKETBUFFER_INITIAL.variable.section("Network: udp"),
    SOCKETBUFFER_MAX.variable.section("Network: udp"),
    REQUESTTIMEOUT_MAX.variable.section("Network: udp"),
    REQUESTTIMEOUT_INITIAL.variable.section("Network: udp"),
    REQUESTTIMEOUT_BACKOFF.variable.section("Network: udp"),
    RECVDEPTH.variable.section("Network: udp"),
    SENDDEPTH.variable.section("Network: udp"),
    THREAD.variable.section("Network: udp"),
];

/// Connect timeout, and delay of the warning before it, nanoseconds. The progress thread of a
/// client that computes answers at once. A client that is stopped at the start should continue
/// before the timeout.
const CONNECT_TIMEOUT: u64 = 300_000_000_000;
const UNRESPONSIVE_WARNING: u64 = 10_000_000_000;

/// The settings of the environment, with constants that tests change.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Request datagrams that may be in flight to one peer.
    pub depth: usize,
    /// Bytes requested for each socket buffer.
    pub buffer: usize,
    /// Nanoseconds for which a peer may leave everything unacknowledged.
    pub timeout: u64,
    /// The same for a peer that never connected, and the time until a warning is printed.
    pub connect_timeout: u64,
    /// See [`Settings::connect_timeout`].
    pub warn_after: u64,
    /// RTO before the first RTT sample, nanoseconds.
    pub initial_rto: u64,
    /// Nanoseconds of send errors after which a peer is lost.
    pub error_timeout: u64,
    /// Bytes of memory per class for deferred packets.
    pub deferred_bytes: usize,
    /// Whether to start the progress thread.
    pub progress_thread: bool,
    /// Whether to print the counts of dropped datagrams at the end.
    pub verbose: bool,
}

/// The value in effect.
fn value<T: FromValue>(key: &Key<T>) -> T {
    config::get().get_or_default(key)
}

impl Settings {
    /// Reads the environment.
    pub fn read() -> Self {
        let most = value(&SOCKETBUFFER_MAX);
        let nanoseconds = |microseconds: i64| microseconds as u64 * 1000;
        let timeout = value(&REQUESTTIMEOUT_MAX).map(|limit| if limit == 0 { u64::MAX } else { nanoseconds(limit) });
        Self {
            depth: value(&NETWORKDEPTH) as usize,
            buffer: value(&SOCKETBUFFER_INITIAL).unwrap_or(most).min(most).max(64 << 10) as usize,
            timeout: timeout.unwrap_or(u64::MAX),
            connect_timeout: timeout.unwrap_or(CONNECT_TIMEOUT),
            warn_after: UNRESPONSIVE_WARNING,
            initial_rto: nanoseconds(value(&REQUESTTIMEOUT_INITIAL)),
            error_timeout: 10_000_000_000,
            deferred_bytes: 64 << 20,
            progress_thread: value(&THREAD),
            verbose: config::get().get(&config::VERBOSEENV),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid() {
        let invalid = TABLE.iter().find(|variable| !variable.has_valid_default());
        assert!(invalid.is_none(), "{invalid:?}");
        let settings = Settings::read();
        assert_eq!((settings.depth, settings.buffer), (256, 8 << 20));
        assert_eq!((settings.timeout, settings.initial_rto), (u64::MAX, 20_000_000));
        assert_eq!(settings.connect_timeout, 300_000_000_000);
    }
}
