//! conduit-sock of libgasnet: the smallest conduit with a network, for tests between processes of
//! one host.
//!
//! Packets travel over Unix sockets of type `SOCK_SEQPACKET` with abstract names that the kernel
//! chooses, so no files remain. Each process listens on one socket per [`Class`]. Two processes
//! connect, per class, at the first send, and both use that connection. If both connect
//! simultaneously, both connections stay, so packets may overtake each other. A full socket is
//! `Err(Busy)`. Its only ability is [`Wake`].

mod progress;
mod send;
mod start;
mod sys;
#[cfg(test)]
mod tests;

use gasnet_conduit::{
    Abilities, Busy, Class, Conduit, ConduitError, Identity, JobRank, Limits, Network, PollScope, Reach, StartInfo,
    Stop, Upcalls, Wake,
};
use start::Net;
use std::os::fd::AsRawFd;

/// Maximum packet of the runtime in bytes: a Medium of 64 KiB, its header and arguments.
const MAX_PACKET_BYTES: usize = 68 << 10;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Debug, Default)]
pub struct Sock;

impl Conduit for Sock {
    fn identity(&self) -> Identity {
        Identity {
            name: "sock",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Host,
            takes_count: false,
        }
    }

    /// A process needs two descriptors per peer, and the usual limit is 1024.
    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: MAX_PACKET_BYTES,
            max_ranks: 256,
            requests_per_poll: 4,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        let message = |why| format!("The sock conduit cannot open its sockets: {why}.");
        let net = Net::open(info).map_err(|why| ConduitError { message: message(why) })?;
        Ok(Box::new(net))
    }
}

impl Network for Net {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.poll(scope, upcalls)
    }

    fn stop(&self, how: Stop) {
        self.stop(how);
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            wake: Some(self),
            ..Abilities::default()
        }
    }
}

impl Wake for Net {
    fn fd(&self) -> i32 {
        self.top.0.as_raw_fd()
    }

    fn devices(&self) -> Vec<String> {
        vec!["unix".into()]
    }
}

/// The conduit of a library.
pub static CONDUIT: Sock = Sock;
