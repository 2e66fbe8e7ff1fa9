//! conduit-sock of libgasnet: the smallest real conduit, for tests between processes of one host.
//!
//! Packets travel over Unix sockets of type `SOCK_SEQPACKET` under abstract names that the kernel chooses, so nothing can
//! be left behind. Each process listens on one socket per [`Class`]; a pair of processes connects per class when one of
//! them first sends, and both use that connection. When both connect at once there are two, and both stay: packets may
//! overtake each other. Back-pressure is the kernel's: a full socket is `Err(Busy)`. Everything but packets is the
//! runtime's default.

mod am;
mod init;
mod progress;
mod sys;
#[cfg(test)]
mod tests;

use gasnet_conduit::{Busy, Class, Conduit, ConduitError, Identity, JobRank, Limits, PollScope, StartInfo, Upcalls};
use std::sync::OnceLock;

/// Largest packet of the runtime: a Medium of 64 KiB, its header and arguments.
const MAX_PACKET_BYTES: usize = 68 << 10;

/// The conduit. A library has one; tests have one per rank that they play.
#[derive(Debug, Default)]
pub struct Sock {
    net: OnceLock<init::Net>,
}

impl Sock {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self { net: OnceLock::new() }
    }
}

impl Conduit for Sock {
    fn identity(&self) -> Identity {
        let (name, version) = ("sock", env!("CARGO_PKG_VERSION"));
        Identity { name, version }
    }

    /// A process needs two descriptors for each rank that it talks to, and usually may open 1024.
    fn limits(&self) -> Limits {
        let (max_packet_bytes, max_ranks, rails) = (MAX_PACKET_BYTES, 256, 1);
        Limits {
            max_packet_bytes,
            max_ranks,
            rails,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError> {
        let message = |why| format!("The sock conduit cannot open its sockets: {why}.");
        let net = init::Net::open(info).map_err(|why| ConduitError { message: message(why) })?;
        assert!(self.net.set(net).is_ok(), "defect: the sock conduit was started twice");
        Ok(())
    }

    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.net.get().ok_or(Busy)?.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.net.get().map_or(0, |net| net.poll(scope, upcalls))
    }

    fn stop(&self) {
        let _ = self.net.get().map(init::Net::stop);
    }

    /// Its sockets are those of one kernel.
    fn reaches_other_hosts(&self) -> bool {
        false
    }

    fn wake_fd(&self) -> Option<i32> {
        self.net.get().map(|net| net.top.fd())
    }
}

/// The conduit that libraries hold.
pub static CONDUIT: Sock = Sock::new();
