//! Environment variables of this conduit.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{self, count, double, flag, int, size, FromValue, Key, Variable};

const NETWORKDEPTH: Key<u32> = count(
    "GASNET_NETWORKDEPTH",
    "256",
    1,
    1 << 20,
    "Datagrams of requests that may be under way to one peer, and as many of long puts; 256 are the most that have an effect.",
);
const SOCKETBUFFER_MAX: Key<u64> = size(
    "GASNET_SOCKETBUFFER_MAX",
    "8M",
    1,
    1 << 30,
    "Most bytes that are asked for as the socket's buffers, 64K at least; the kernel may give less (net.core.rmem_max, wmem_max).",
);
const SOCKETBUFFER_INITIAL: Key<Option<u64>> = size(
    "GASNET_SOCKETBUFFER_INITIAL",
    "",
    1,
    1 << 30,
    "Bytes that are asked for as the socket's buffers.",
)
.unset_means("as GASNET_SOCKETBUFFER_MAX")
.optional();
const REQUESTTIMEOUT_MAX: Key<Option<i64>> = int(
    "GASNET_REQUESTTIMEOUT_MAX",
    "",
    0,
    1 << 50,
    "How long a peer may leave everything unanswered before the job ends; 0: as long as its host does not say that it is gone, and systems on the way do \
     not say for ten seconds that nothing can be sent there.",
)
.unit("microseconds")
.unset_means("0, but five minutes for a peer on another host from which nobody ever said anything")
.optional();
const REQUESTTIMEOUT_INITIAL: Key<i64> = int(
    "GASNET_REQUESTTIMEOUT_INITIAL",
    "20000",
    100,
    1 << 40,
    "How long the first datagrams to a peer wait for an answer before they are sent again, half a second at most; later ones go by the round trips measured.",
)
.unit("microseconds");
const REQUESTTIMEOUT_BACKOFF: Key<f64> = double(
    "GASNET_REQUESTTIMEOUT_BACKOFF",
    "2",
    1.0,
    1000.0,
    "By how much longer each repetition waits for an answer: always twice as long here.",
)
.no_effect();
const RECVDEPTH: Key<Option<i64>> = int(
    "GASNET_RECVDEPTH",
    "",
    -1,
    1 << 30,
    "Messages in the receive queue: here the socket's buffer is the queue.",
)
.no_effect()
.optional();
const SENDDEPTH: Key<Option<i64>> = int(
    "GASNET_SENDDEPTH",
    "",
    -1,
    1 << 30,
    "Requests that may be under way to all peers together: here each peer has its own limit only.",
)
.no_effect()
.optional();

const THREAD: Key<bool> = flag(
    "GASNET_UDP_THREAD",
    true,
    "Keep the network going by a thread of its own while the client computes or sleeps; and send short requests that follow each other together.",
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

/// The value in effect; the default in a process without a client, such as tests of this crate.
fn value<T: FromValue>(key: &Key<T>) -> T {
    let mut settings = config::get().settings().iter();
    settings
        .find(|setting| setting.variable.name == key.variable.name)
        .and_then(|setting| T::from_value(&setting.value))
        .or_else(|| T::from_value(&key.variable.default_value()))
        .expect("defect: a variable of the udp conduit has no value")
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
        for variable in TABLE {
            assert!(
                variable.default.is_empty() || variable.parse(variable.default).is_ok(),
                "{}",
                variable.name
            );
        }
        let settings = Settings::read();
        assert_eq!((settings.depth, settings.buffer), (256, 8 << 20));
        assert_eq!((settings.timeout, settings.initial_rto), (u64::MAX, 20_000_000));
        assert_eq!(settings.connect_timeout, 300_000_000_000);
    }
}
