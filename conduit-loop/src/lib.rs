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

use bootstrap::Meeting;
use gasnet_conduit::config::Variable;
use gasnet_conduit::{
    Atomics, Barrier, Bootstrap, Busy, Class, Conduit, ConduitError, Gather, Identity, JobRank, Limits, PollScope,
    PutNotify, Rma, Segments, SendBuffers, StartInfo, Stop, Upcalls, Wake,
};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use pinned::Pinned;
use start::Net;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// Maximum packet of the runtime in bytes.
const MAX_PACKET_BYTES: usize = 8 << 10;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Debug)]
pub struct Loop {
    meeting: Meeting,
    net: OnceLock<Arc<Net>>,
    /// The NIC's thread, if it has one.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Loop {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self {
            meeting: Meeting::new(),
            net: OnceLock::new(),
            thread: Mutex::new(None),
        }
    }

    fn net(&self) -> Option<&Net> {
        self.net.get().map(Arc::as_ref)
    }
}

impl Default for Loop {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Loop {
    /// Ends the NIC, as the end of a process does, without a word to the peers.
    fn drop(&mut self) {
        if let Some(net) = self.net() {
            net.stopped.store(true, SeqCst);
            net.doorbell.set();
        }
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

impl Conduit for Loop {
    fn identity(&self) -> Identity {
        let (name, version) = ("loop", env!("CARGO_PKG_VERSION"));
        Identity { name, version }
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

    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError> {
        let message = |why| format!("The loop conduit cannot open its sockets: {why}.");
        let pinned = Pinned::open(info)?;
        let net = Net::open(info, pinned).map_err(|why| ConduitError { message: message(why) })?;
        let net = self.net.get_or_init(|| Arc::new(net));
        if info.may_start_threads {
            *lock(&self.thread) = Net::start_thread(net);
        }
        Ok(())
    }

    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.net().ok_or(Busy)?.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.net().map_or(0, |net| net.poll(scope, upcalls))
    }

    /// Takes no lock in either case.
    fn stop(&self, _: Stop) {
        let _ = self.net().map(Net::stop);
    }

    /// Unix sockets are local to a host.
    fn reaches_other_hosts(&self) -> bool {
        false
    }

    fn variables(&self) -> &'static [Variable] {
        random::TABLE
    }

    fn bootstrap(&self) -> Option<&dyn Bootstrap> {
        Some(&self.meeting)
    }

    fn send_buffers(&self) -> Option<&dyn SendBuffers> {
        self.net().map(|net| net as &dyn SendBuffers)
    }

    fn gather(&self) -> Option<&dyn Gather> {
        self.net().map(|net| net as &dyn Gather)
    }

    fn segments(&self) -> Option<&dyn Segments> {
        self.net().map(|net| net as &dyn Segments)
    }

    fn rma(&self) -> Option<&dyn Rma> {
        self.net().map(|net| net as &dyn Rma)
    }

    fn put_notify(&self) -> Option<&dyn PutNotify> {
        self.net().map(|net| net as &dyn PutNotify)
    }

    fn atomics(&self) -> Option<&dyn Atomics> {
        self.net().map(|net| net as &dyn Atomics)
    }

    fn barrier(&self) -> Option<&dyn Barrier> {
        self.net().map(|net| net as &dyn Barrier)
    }

    /// Without a thread, only polls see what arrives.
    fn wake(&self) -> Option<&dyn Wake> {
        let net = self.net().filter(|net| net.has_thread.load(Relaxed))?;
        Some(net as &dyn Wake)
    }
}

/// The conduit of a library.
pub static CONDUIT: Loop = Loop::new();
