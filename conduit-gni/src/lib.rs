//! conduit-gni of libgasnet: Cray Aries and Gemini over uGNI, with libugni opened at run time.
//!
//! - [`ffi`]: the library behind safe types
//! - [`settings`], [`variables`], [`pmi`], [`start`]: the start
//! - [`region`], [`wire`], [`credits`]: memory, events and state of Active Messages
//! - [`send`], [`receive`], [`put_notify`]: the life of a message
//! - [`rma`], [`transfers`], [`buffers`], [`memory`], [`atomics`]: one-sided operations
//! - [`barrier`], [`engine`]: the barrier
//! - [`progress`], [`wake`]: polling

mod atomics;
mod barrier;
mod buffers;
mod completion;
mod credits;
mod engine;
mod ffi;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod memory;
mod net;
mod pmi;
mod progress;
mod put_notify;
mod receive;
mod region;
mod reply_buffers;
mod rma;
mod send;
mod settings;
mod start;
mod transfers;
mod variables;
mod wake;
mod wire;

use ffi::Arrivals;
use gasnet_conduit::config::Variable;
use gasnet_conduit::{
    Atomics, Barrier, Bootstrap, Busy, Class, Conduit, ConduitError, Identity, JobRank, Limits, LocalSegment,
    PollScope, ProviderReport, PutNotify, Registration, RemoteSegment, Rma, SegmentMemory, Segments, SendBuffers,
    StartInfo, Stop, Upcalls, Wake,
};
use net::Net;
use std::sync::OnceLock;

#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Gni {
    pmi: pmi::CrayPmi,
    /// Added to the cookie.
    job: u32,
    net: OnceLock<Net>,
}

impl Gni {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self::of_job(0)
    }

    /// One of several jobs in the same processes, which need cookies of their own: of the job with
    /// this number. For tests.
    pub const fn of_job(job: u32) -> Self {
        Self {
            pmi: pmi::CrayPmi::new(),
            job,
            net: OnceLock::new(),
        }
    }

    #[inline]
    fn net(&self) -> Option<&Net> {
        self.net.get()
    }
}

impl Conduit for Gni {
    fn identity(&self) -> Identity {
        let (name, version) = ("gni", env!("CARGO_PKG_VERSION"));
        Identity { name, version }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: settings::max_packet_bytes(),
            max_ranks: wire::MOST_RANKS,
            requests_per_poll: 1,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError> {
        let started = self.net.set(Net::open(info, self.job)?);
        assert!(started.is_ok(), "defect: the gni conduit was started twice");
        Ok(())
    }

    fn probe(&self) -> Result<(), ConduitError> {
        start::can_start().map_err(|why| ConduitError {
            message: format!("The gni conduit cannot be used: {why}."),
        })
    }

    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.net().ok_or(Busy)?.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.net().map_or(0, |net| net.poll(scope, upcalls))
    }

    fn stop(&self, how: Stop) {
        if let Some(net) = self.net() {
            net.stop(how);
        }
    }

    fn variables(&self) -> &'static [Variable] {
        variables::TABLE
    }

    fn providers(&self) -> Vec<ProviderReport> {
        vec![start::provider()]
    }

    fn bootstrap(&self) -> Option<&dyn Bootstrap> {
        Some(&self.pmi)
    }

    fn send_buffers(&self) -> Option<&dyn SendBuffers> {
        self.net().map(|net| net as &dyn SendBuffers)
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

    fn barrier(&self) -> Option<&dyn Barrier> {
        self.net().map(|net| net as &dyn Barrier)
    }

    fn wake(&self) -> Option<&dyn Wake> {
        let net = self.net().filter(|net| net.domains[net::FIRST].channel.is_some())?;
        Some(net as &dyn Wake)
    }

    fn atomics(&self) -> Option<&dyn Atomics> {
        self.net().map(|net| net as &dyn Atomics)
    }
}

impl Segments for Net {
    fn max_key_bytes(&self) -> usize {
        memory::KEY_BYTES
    }

    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let events = if self.settings.flushes_by_events() {
            Arrivals::Sink
        } else {
            Arrivals::Ours
        };
        let registered = self
            .segments
            .register(&self.domains, memory, (events, self.settings.segment_flags()));
        let (segment, key) = registered.map_err(|code| ConduitError {
            message: format!(
                "The gni conduit cannot register {} bytes at {:#x}: {code}. GASNET_MAX_SEGSIZE and \
                 GASNET_PHYSMEM_MAX limit segments.",
                memory.bytes, memory.base
            ),
        })?;
        Ok(Registration { segment, key })
    }

    fn deregister(&self, segment: LocalSegment) {
        self.segments.deregister(&self.domains, segment);
    }

    fn learn(&self, peer: JobRank, _: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        self.segments.learn(key).ok_or_else(|| ConduitError {
            message: format!("The gni conduit cannot use the key of a segment of rank {peer}."),
        })
    }

    fn forget(&self, _: JobRank, segment: RemoteSegment) {
        self.segments.forget(segment);
    }
}

/// The conduit of a library.
pub static CONDUIT: Gni = Gni::new();
