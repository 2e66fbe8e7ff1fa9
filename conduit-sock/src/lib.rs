//! conduit-sock of libgasnet: the smallest conduit with a network, for tests between processes of
//! one host.
//!
//! Packets travel over Unix sockets of type `SOCK_SEQPACKET` with abstract names that the kernel
//! chooses, so no files remain. Each process listens on one socket per [`Class`]. Two processes
//! connect, per class, at the first send, and both use that connection. If both connect
//! simultaneously, both connections stay, so packets may overtake each other. A full socket is
//! `Err(Busy)`. Everything except packets is the default of the trait.

mod progress;
mod send;
mod start;
mod sys;
#[cfg(test)]
mod tests;

use gasnet_conduit::{
    Busy, Class, Conduit, ConduitError, Identity, JobRank, Limits, PollScope, StartInfo, Stop, Upcalls, Wake,
};
use std::sync::OnceLock;

/// Maximum packet of the runtime in bytes: a Medium of 64 KiB, its header and arguments.
const MAX_PACKET_BYTES: usize = 68 << 10;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Debug, Default)]
pub struct Sock {
    net: OnceLock<start::Net>,
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

    /// A process needs two descriptors per peer, and the usual limit is 1024.
    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: MAX_PACKET_BYTES,
            max_ranks: 256,
            requests_per_poll: 4,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError> {
        let message = |why| format!("The sock conduit cannot open its sockets: {why}.");
        let net = start::Net::open(info).map_err(|why| ConduitError { message: message(why) })?;
        assert!(self.net.set(net).is_ok(), "defect: the sock conduit was started twice");
        Ok(())
    }

    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.net.get().ok_or(Busy)?.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.net.get().map_or(0, |net| net.poll(scope, upcalls))
    }

    fn stop(&self, how: Stop) {
        let _ = self.net.get().map(|net| net.stop(how));
    }

    /// Unix sockets are local to a host.
    fn reaches_other_hosts(&self) -> bool {
        false
    }

    fn wake(&self) -> Option<&dyn Wake> {
        self.net.get().map(|net| net as &dyn Wake)
    }
}

impl Wake for start::Net {
    fn fd(&self) -> i32 {
        self.top.fd()
    }

    fn devices(&self) -> Vec<String> {
        vec!["unix".into()]
    }
}

/// The conduit of a library.
pub static CONDUIT: Sock = Sock::new();
