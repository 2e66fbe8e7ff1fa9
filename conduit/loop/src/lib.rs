//! conduit-loop of libgasnet: every ability of the trait, in software, for tests between processes
//! of one host.
//!
//! Each process has a NIC: a thread with a connection to the NIC of each other process, which
//! serves puts, gets and atomics while the client computes. The NIC is as inconvenient as the trait
//! allows. It takes work in random order, splits it, reads sources and reports completions late,
//! and has small limits. It checks keys and bounds; an access without them loses the peer. A number
//! that names no segment is a defect, which ends the process.
//!
//! Connections are Unix sockets of type `SOCK_SEQPACKET` with abstract names, so no files remain.

mod arrivals;
mod barrier;
mod bootstrap;
mod buffers;
mod device;
mod memory;
mod nic;
mod pinned;
mod progress;
mod queue;
mod random;
mod replies;
mod rma;
mod send;
mod start;
mod sys;
mod target;
#[cfg(test)]
mod tests;
mod wire;
mod words;

use bootstrap::Meeting;
use gasnet_conduit::config::Variable;
use gasnet_conduit::{
    Abilities, Bootstrap, Busy, Class, Conduit, ConduitError, Identity, JobRank, Limits, Network, PollScope, Reach,
    StartInfo, Stop, Upcalls, Wake,
};
use pinned::Pinned;
use start::Net;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Maximum packet of the runtime in bytes.
const MAX_PACKET_BYTES: usize = 8 << 10;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Debug)]
pub struct Loop {
    meeting: Meeting,
}

/// A started conduit.
struct Started {
    net: Arc<Net>,
    /// The NIC's thread, if it has one.
    thread: Option<JoinHandle<()>>,
}

impl Loop {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self {
            meeting: Meeting::new(),
        }
    }
}

impl Default for Loop {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Started {
    /// Ends the NIC, as the end of a process does, without a word to the peers.
    fn drop(&mut self) {
        self.net.stopped.store(true, SeqCst);
        self.net.doorbell.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Conduit for Loop {
    fn identity(&self) -> Identity {
        Identity {
            name: "loop",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Host,
            takes_count: false,
        }
    }

    /// A process needs a descriptor per peer.
    fn limits(&self) -> Limits {
        let (max_packet_bytes, max_ranks, requests_per_poll) = (MAX_PACKET_BYTES, 256, 1);
        Limits {
            max_packet_bytes,
            max_ranks,
            requests_per_poll,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        let message = |why| format!("The loop conduit cannot open its sockets: {why}.");
        let pinned = Pinned::open(info)?;
        let net = Net::open(info, pinned).map_err(|why| ConduitError { message: message(why) })?;
        let net = Arc::new(net);
        let thread = info.may_start_threads.then(|| Net::start_thread(&net)).flatten();
        Ok(Box::new(Started { net, thread }))
    }

    fn variables(&self) -> &'static [Variable] {
        random::TABLE
    }

    fn bootstrap(&self) -> Option<&dyn Bootstrap> {
        Some(&self.meeting)
    }
}

impl Network for Started {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.net.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.net.poll(scope, upcalls)
    }

    /// Takes no lock in either case.
    fn stop(&self, _: Stop) {
        self.net.stop();
    }

    /// Without a thread, only polls see what arrives.
    fn abilities(&self) -> Abilities<'_> {
        let net = &*self.net;
        Abilities {
            send_buffers: Some(net),
            gather: Some(net),
            segments: Some(net),
            rma: Some(net),
            put_notify: Some(net),
            atomics: Some(net),
            barrier: Some(net),
            words: Some(net),
            wake: self.thread.as_ref().map(|_| net as &dyn Wake),
        }
    }
}

/// The conduit of a library.
pub static CONDUIT: Loop = Loop::new();
