//! conduit-udp of libgasnet: a reliable transport over UDP. DESIGN.md beside this crate's
//! Cargo.toml explains the protocol.
//!
//! Life of a message: `send` splits it into datagrams and keeps a copy of each until it is
//! acknowledged ([`send_window`]). It transmits what the peer's congestion window allows
//! ([`congestion`]). The receiver checks the MAC ([`mac`]), drops duplicates, reassembles the
//! message ([`recv_window`]) and delivers it as soon as it is complete, in any order.
//! Acknowledgements are piggybacked on every datagram in the other direction.
//!
//! Requests and replies have separate windows and numbers, so that replies get through when
//! requests do not. Datagrams that exceed the path MTU ([`pmtu`]) are sent in fragments
//! ([`fragment`]). There is no handshake: the state of a peer begins with the first authentic
//! datagram.

mod clnh;
#[cfg(any(test, fuzzing))]
mod fuzz;
#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;
mod congestion;
mod fragment;
mod mac;
mod memory;
mod net;
mod packet;
mod peer;
mod peers;
mod per_class;
mod pmtu;
mod recv_window;
mod send_window;
mod settings;
mod slab;
mod sys;
#[cfg(test)]
mod tests;
mod transfers;
mod wire;

use gasnet_conduit::config::Variable;
use gasnet_conduit::{
    Abilities, Busy, Class, Completion, Conduit, ConduitError, Cookie, Identity, JobRank, Limits, LocalSegment,
    Network, PollScope, Reach, Registration, RemoteSegment, SegmentMemory, Segments, SourceUse, StartInfo, Stop,
    Upcalls,
};
use net::Net;
use std::sync::Arc;

/// Bytes of the runtime's largest packet: a Medium of 64 KiB with its header and arguments.
const MAX_PACKET_BYTES: usize = 68 << 10;

/// Bytes up to which the source of a put is copied at once; the larger limit applies when the
/// caller blocks for local completion.
const COPY_LIMIT: usize = 8 << 10;
const COPY_LIMIT_NOW: usize = 64 << 10;

/// The conduit. A library has one instance; tests have one per rank that they simulate.
pub struct Udp;

impl Conduit for Udp {
    fn identity(&self) -> Identity {
        Identity {
            name: "udp",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Hosts,
            takes_count: true,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: MAX_PACKET_BYTES,
            max_ranks: 1 << 20,
            // A poll is a system call, and a reply rarely has come yet.
            requests_per_poll: 4,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        let message = |error| format!("The udp conduit cannot start: {error}.");
        let net = Net::open(info).map_err(|error| ConduitError {
            message: message(error),
        })?;
        let net = Arc::new(net);
        if net.settings.progress_thread {
            Net::start_progress_thread(&net);
        }
        Ok(Box::new(Started(net)))
    }

    fn variables(&self) -> &'static [Variable] {
        settings::TABLE
    }
}

/// A started conduit, which its progress thread shares.
struct Started(Arc<Net>);

impl Network for Started {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.0.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.0.poll(scope, upcalls)
    }

    fn stop(&self, how: Stop) {
        self.0.stop(how);
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            segments: Some(&*self.0),
            rma: Some(&*self.0),
            wake: Some(&*self.0),
            ..Abilities::default()
        }
    }
}

impl Segments for Net {
    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        Ok(Registration {
            segment: LocalSegment(self.segments.register(memory.base, memory.bytes)),
            key: Vec::new(),
        })
    }

    fn deregister(&self, segment: LocalSegment) {
        self.unregister_segment(segment.0);
    }

    fn learn(&self, _: JobRank, _: &SegmentMemory, _: &[u8]) -> Result<RemoteSegment, ConduitError> {
        Ok(RemoteSegment(0))
    }
}

/// The tag of the cookie of a put whose source was copied.
const SOURCE_COPIED: u16 = 1;

/// The part that completes when the network is done with an operation: local completion of a put
/// whose source was copied was at return.
fn last_part(cookie: Cookie) -> Completion {
    match cookie.tag() {
        SOURCE_COPIED => Completion::Remote,
        _ => Completion::Both,
    }
}

/// Bytes up to which the source of a put is copied.
fn copy_limit(source: SourceUse) -> usize {
    match source {
        SourceUse::Later => COPY_LIMIT,
        SourceUse::Now => COPY_LIMIT_NOW,
    }
}

/// The instance in the libraries.
pub static CONDUIT: Udp = Udp;
