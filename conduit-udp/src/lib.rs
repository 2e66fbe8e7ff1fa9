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
pub use fuzz::run_input as fuzz;
mod congestion;
mod fragment;
mod mac;
mod memory;
mod net;
mod packet;
mod peer;
mod peer_table;
mod per_class;
mod pmtu;
mod recv_window;
mod send_window;
mod slab;
mod sys;
#[cfg(test)]
mod tests;
mod transfers;
mod variables;
mod wire;

use gasnet_conduit::config::Variable;
use gasnet_conduit::{
    Busy, Capabilities, Class, Conduit, ConduitError, Identity, JobRank, Limits, LocalCompletion, PollScope,
    RemoteSegment, SegmentKey, StartInfo, TransferId, Upcalls,
};
use net::{GetRequest, PutRequest};
use std::sync::{Arc, OnceLock};

/// Bytes of the runtime's largest packet: a Medium of 64 KiB with its header and arguments.
const MAX_PACKET_BYTES: usize = 68 << 10;

/// Bytes up to which the source of a put is copied at once; the larger limit applies when the
/// caller blocks for local completion.
const COPY_LIMIT: usize = 8 << 10;
const COPY_LIMIT_NOW: usize = 64 << 10;

/// The conduit. A library has one instance; tests have one per rank that they simulate.
#[derive(Default)]
pub struct Udp {
    net: OnceLock<Arc<net::Net>>,
}

impl Udp {
    /// A conduit that is not started.
    pub const fn new() -> Self {
        Self { net: OnceLock::new() }
    }
}

impl Conduit for Udp {
    fn identity(&self) -> Identity {
        let (name, version) = ("udp", env!("CARGO_PKG_VERSION"));
        Identity { name, version }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: MAX_PACKET_BYTES,
            max_ranks: 1 << 20,
            rails: 1,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError> {
        let message = |error| format!("The udp conduit cannot start: {error}.");
        let net = net::Net::open(info).map_err(|error| ConduitError {
            message: message(error),
        })?;
        let net = Arc::new(net);
        if net.settings.progress_thread {
            net::Net::start_progress_thread(&net);
        }
        assert!(self.net.set(net).is_ok(), "defect: the udp conduit was started twice");
        Ok(())
    }

    fn takes_count(&self) -> bool {
        true
    }

    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.net.get().ok_or(Busy)?.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.net.get().map_or(0, |net| net.poll(scope, upcalls))
    }

    fn stop(&self) {
        let _ = self.net.get().map(|net| net.stop());
    }

    fn variables(&self) -> &'static [Variable] {
        variables::TABLE
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::RMA
    }

    fn register_segment(&self, base: usize, bytes: usize) -> Result<SegmentKey, ConduitError> {
        let _ = self.net.get().map(|net| net.segments.register(base, bytes));
        let mut key = SegmentKey::default();
        key.words[..3].copy_from_slice(&[1, base as u64, bytes as u64]);
        Ok(key)
    }

    fn deregister_segment(&self, key: &SegmentKey) {
        let [_, base, bytes, ..] = key.words;
        let _ = self
            .net
            .get()
            .map(|net| net.unregister_segment(base as usize, bytes as usize));
    }

    fn put(
        &self,
        peer: JobRank,
        _segment: &RemoteSegment,
        destination: usize,
        source: *const u8,
        bytes: usize,
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        let net = self.net.get().ok_or(Busy)?;
        let request = PutRequest {
            destination,
            source,
            bytes,
            copy_limit: COPY_LIMIT,
            id,
        };
        net.put(peer, &request)
    }

    fn put_now(
        &self,
        peer: JobRank,
        _segment: &RemoteSegment,
        destination: usize,
        source: *const u8,
        bytes: usize,
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        let net = self.net.get().ok_or(Busy)?;
        let request = PutRequest {
            destination,
            source,
            bytes,
            copy_limit: COPY_LIMIT_NOW,
            id,
        };
        net.put(peer, &request)
    }

    fn get(
        &self,
        peer: JobRank,
        _segment: &RemoteSegment,
        destination: *mut u8,
        source: usize,
        bytes: usize,
        id: TransferId,
    ) -> Result<(), Busy> {
        let net = self.net.get().ok_or(Busy)?;
        let request = GetRequest {
            destination,
            source,
            bytes,
            id,
        };
        net.get(peer, &request)
    }

    fn arm_wake(&self) -> bool {
        self.net.get().is_none_or(|net| net.arm_wake())
    }

    fn wake_fd(&self) -> Option<i32> {
        self.net.get().map(|net| net.wake_fd())
    }

    fn watch(&self, wake: fn()) -> bool {
        self.net.get().is_some_and(|net| net.watch(wake))
    }
}

/// The environment variables of this conduit.
pub static VARIABLES: &[Variable] = variables::TABLE;

/// The instance in the libraries.
pub static CONDUIT: Udp = Udp::new();
