//! The environment variables of this conduit, and their values.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{count, double, flag, int, settings, size};

/// Connect timeout, and delay of the warning before it, nanoseconds. The progress thread of a
/// client that computes answers at once. A client that is stopped at the start should continue
/// before the timeout.
const CONNECT_TIMEOUT: u64 = 300_000_000_000;
const UNRESPONSIVE_WARNING: u64 = 10_000_000_000;

settings! {
    "Network: udp";

    /// The settings of the environment, and constants that tests change. Times are in nanoseconds.
    #[derive(Clone, Copy, Debug)]
    pub struct Settings(config) {
        NETWORKDEPTH: usize = count("GASNET_NETWORKDEPTH", "256", 1, 1 << 20,
            "Most request datagrams in flight to one peer, and as many of long puts. Values above 256 have the effect \
             of 256.")
            => pub depth
            // Memory per class for deferred packets.
            => pub deferred_bytes: usize = 64 << 20;
        SOCKETBUFFER_INITIAL: Option<usize> = size("GASNET_SOCKETBUFFER_INITIAL", "", 1, 1 << 30,
            "Requested size of each socket buffer.").unset_means("as GASNET_SOCKETBUFFER_MAX").optional()
            => pub buffer: usize = buffer_bytes(buffer, config.get_or_default(&SOCKETBUFFER_MAX));
        SOCKETBUFFER_MAX: usize = size("GASNET_SOCKETBUFFER_MAX", "8M", 1, 1 << 30,
            "Upper limit of the requested socket buffers, at least 64K. The kernel may grant less (net.core.rmem_max, \
             wmem_max).");
        REQUESTTIMEOUT_MAX: Option<i64> = int("GASNET_REQUESTTIMEOUT_MAX", "", 0, 1 << 50,
            "Time for which a peer may leave everything unanswered before the job ends. 0: no limit; the job then ends \
             only when the peer's port is reported closed, or after ten seconds of errors for everything sent there.")
            .unit("microseconds").unset_means("0, but five minutes for a peer on another host that never connected")
            .optional()
            => pub timeout: u64 = timeout.map_or(u64::MAX, limit)
            // For a peer that never connected.
            => pub connect_timeout: u64 = connect_timeout.map_or(CONNECT_TIMEOUT, limit)
            // Until a warning is printed.
            => pub warn_after: u64 = UNRESPONSIVE_WARNING
            // Of send errors, until a peer is lost.
            => pub error_timeout: u64 = 10_000_000_000;
        // RTO before the first RTT sample.
        REQUESTTIMEOUT_INITIAL: i64 = int("GASNET_REQUESTTIMEOUT_INITIAL", "20000", 100, 1 << 40,
            "Retransmission timeout before a round trip to the peer was measured, half a second at most. Measured \
             round trips determine it afterwards.")
            .unit("microseconds") => pub initial_rto: u64 = nanoseconds(initial_rto);
        REQUESTTIMEOUT_BACKOFF: f64 = double("GASNET_REQUESTTIMEOUT_BACKOFF", "2", 1.0, 1000.0,
            "Factor by which the retransmission timeout grows with each retransmission: always 2 here.").no_effect();
        RECVDEPTH: Option<i64> = int("GASNET_RECVDEPTH", "", -1, 1 << 30,
            "Messages in the receive queue: here the socket buffer is the queue.").no_effect().optional();
        SENDDEPTH: Option<i64> = int("GASNET_SENDDEPTH", "", -1, 1 << 30,
            "Requests in flight to all peers together: here each peer has its own limit only.").no_effect().optional();
        THREAD: bool = flag("GASNET_UDP_THREAD", true,
            "Run a progress thread, which serves the network while the client computes or sleeps, and coalesce bursts \
             of short requests.").ours() => pub progress_thread;
    }
}

/// The bytes requested for each socket buffer.
fn buffer_bytes(wanted: Option<usize>, most: usize) -> usize {
    wanted.unwrap_or(most).min(most).max(64 << 10)
}

fn nanoseconds(microseconds: i64) -> u64 {
    microseconds as u64 * 1000
}

/// A limit in nanoseconds.
fn limit(microseconds: i64) -> u64 {
    match microseconds {
        0 => u64::MAX,
        some => nanoseconds(some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults() {
        let settings = Settings::read();
        assert_eq!((settings.depth, settings.buffer), (256, 8 << 20));
        assert_eq!((settings.timeout, settings.initial_rto), (u64::MAX, 20_000_000));
        assert_eq!(settings.connect_timeout, 300_000_000_000);
    }
}
