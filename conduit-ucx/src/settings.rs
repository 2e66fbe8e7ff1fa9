//! The environment variables of this conduit, and their values.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{self, flag, settings, size, text};

settings! {
    "Network: ucx";

    /// The environment's settings.
    #[derive(Clone, Debug)]
    pub struct Settings(config) {
        LIBRARY: Option<String> = text("GASNET_UCX_LIBRARY",
            "Library to open instead of libucp.so.0: a path, or a name that the loader searches. Without effect if \
             the process has a copy of UCX already, for example that of MPI.").ours();
        MAX_MEDIUM: usize = size("GASNET_UCX_MAX_MEDIUM", "64K", 512, 1 << 20, "Largest payload of a Medium.")
            => pub max_packet: usize = packet_bytes(max_packet);
        AM_ORDERED_TLS: bool = flag("GASNET_UCX_AM_ORDERED_TLS", false,
            "Send a Long's message beside its put. No Long here depends on the order of UCX's operations.")
            .no_effect();
        WINDOW: usize = size("GASNET_UCX_WINDOW", "512K", 4 << 10, 60 << 20,
            "Most bytes of requests in flight to one peer, each counted as 1 KiB at least. A larger request counts as \
             half of it.")
            .unset_means("512 KB; less in jobs of more than 256 ranks").ours()
            => pub window
            => pub has_own_window: bool = config.is_set(&WINDOW);
        ATOMICS: bool = flag("GASNET_UCX_ATOMICS", false,
            "Use UCX's atomics on integers, for all targets of a domain, neighbours included. From UCX 1.16 on, the \
             end of a peer is then noticed by the node agents alone.").ours()
            => pub atomics;
    }
}

/// The bytes of the largest packet, in which a Medium of `GASNET_UCX_MAX_MEDIUM` fits with its
/// header and arguments.
pub fn max_packet_bytes() -> usize {
    packet_bytes(config::get().get_or_default(&MAX_MEDIUM))
}

/// Bytes of a packet around its payload, at most.
pub const AROUND: usize = 128;

fn packet_bytes(max_medium: usize) -> usize {
    max_medium.max(1024).next_multiple_of(64) + AROUND
}
