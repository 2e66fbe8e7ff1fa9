//! The environment variables of this conduit, and their values.
#![forbid(unsafe_code)]

use gasnet_conduit::config::{count, int, settings, size, text};

settings! {
    "Network: mpi";

    /// The environment's settings.
    #[derive(Clone, Debug)]
    pub struct Settings(config) {
        LIBRARY: Option<String> = text("GASNET_MPI_LIBRARY",
            "Library of MPI to open: a path, or a name that the loader searches. Without effect if the process has an \
             MPI already.")
            .unset_means("that of the launcher, else the first of libmpi.so.12, libmpich.so.12, libmpi.so.40, \
             libmpi_abi.so.1 and others that exists").names_file().ours();
        MAX_MEDIUM: usize = size("GASNET_MPI_MAX_MEDIUM", "64K", 512, 1 << 20, "Largest payload of a Medium.").ours()
            => pub max_packet: usize = packet_bytes(max_packet);
        CREDITS_PP: u32 = count("AMMPI_CREDITS_PP", "8", 2, 1 << 16,
            "Most requests in flight to one peer.") => pub credits;
        CREDITS_SLACK: Option<u32> = count("AMMPI_CREDITS_SLACK", "", 1, 1 << 16,
            "Requests of a peer whose credits are returned in a message of their own.")
            .unset_means("three quarters of AMMPI_CREDITS_PP").optional()
            => pub slack: u32 = slack.unwrap_or(credits * 3 / 4).min(credits - 1);
        MPI_THREAD: Option<String> = text("GASNET_MPI_THREAD",
            "Thread level of MPI: always MPI_THREAD_SERIALIZED here.")
            .no_effect();
        SYNCSEND_THRESH: Option<i64> = int("AMMPI_SYNCSEND_THRESH", "", -1, 1 << 30,
            "Size from which messages are sent synchronously: credits bound those that have not been received.")
            .no_effect().optional();
    }
}

/// The bytes of the largest packet, in which a Medium of `GASNET_MPI_MAX_MEDIUM` fits with its
/// header and arguments.
pub fn max_packet_bytes() -> usize {
    packet_bytes(gasnet_conduit::config::get().get_or_default(&MAX_MEDIUM))
}

fn packet_bytes(max_medium: usize) -> usize {
    /// Bytes of a packet around its payload, at most.
    const AROUND: usize = 128;
    max_medium.max(1024).next_multiple_of(64) + AROUND
}
