//! conduit-gni of libgasnet: Cray Aries and Gemini over uGNI, with libugni opened at run time.
//!
//! - [`ffi`]: the library behind safe types
//! - [`settings`], [`pmi`], [`start`], [`boot_record`]: the start
//! - [`region`], [`wire`], [`credits`]: memory, events and state of Active Messages
//! - [`posts`], [`peers`], [`completion`]: posts on their way to peers, and their completion
//! - [`carrier`], [`send`], [`receive`], [`put_notify`]: the life of a message
//! - [`rma`], [`transfers`], [`buffers`], [`memory`], [`atomics`]: one-sided operations
//! - [`barrier`], [`engine`]: the barrier
//! - [`net`], [`progress`], [`wake`]: the parts together; polling

mod atomics;
mod barrier;
mod boot_record;
mod buffers;
mod carrier;
mod completion;
mod credits;
mod engine;
mod ffi;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod memory;
mod net;
mod peers;
mod pmi;
mod posts;
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
mod wake;
mod wire;

use gasnet_conduit::config::Variable;
use gasnet_conduit::{
    Abilities, Bootstrap, Busy, Class, Conduit, ConduitError, Identity, JobRank, Limits, LocalSegment, Network,
    PollScope, ProviderReport, Reach, Registration, RemoteSegment, SegmentMemory, Segments, StartInfo, Stop, Upcalls,
    Wake,
};
use net::Net;

#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Gni {
    pmi: pmi::CrayPmi,
    /// Added to the cookie.
    job: u32,
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
        }
    }
}

impl Conduit for Gni {
    fn identity(&self) -> Identity {
        Identity {
            name: "gni",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Hosts,
            takes_count: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: settings::max_packet_bytes(),
            max_ranks: wire::MOST_RANKS,
            requests_per_poll: 1,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        Ok(Box::new(start::open(info, self.job)?))
    }

    fn probe(&self) -> Result<(), ConduitError> {
        start::can_start().map_err(|why| ConduitError {
            message: format!("The gni conduit cannot be used: {why}."),
        })
    }

    fn variables(&self) -> &'static [Variable] {
        settings::TABLE
    }

    fn providers(&self) -> Vec<ProviderReport> {
        vec![start::provider()]
    }

    fn bootstrap(&self) -> Option<&dyn Bootstrap> {
        Some(&self.pmi)
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
            send_buffers: Some(self),
            segments: Some(self),
            rma: Some(self.rma()),
            put_notify: Some(self),
            atomics: Some(self.rma()),
            barrier: Some(self),
            wake: self.posts().channel().is_some().then_some(self as &dyn Wake),
            ..Abilities::default()
        }
    }
}

impl Segments for Net {
    fn max_key_bytes(&self) -> usize {
        memory::KEY_BYTES
    }

    fn max_bytes(&self) -> usize {
        self.rma().memory().max_bytes()
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let registered = self.rma().memory().register(self.posts().domains(), memory);
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
        self.rma().memory().deregister(self.posts().domains(), segment);
    }

    fn learn(&self, peer: JobRank, _: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        self.rma().memory().learn(key).ok_or_else(|| ConduitError {
            message: format!("The gni conduit cannot use the key of a segment of rank {peer}."),
        })
    }

    fn forget(&self, _: JobRank, segment: RemoteSegment) {
        self.rma().memory().forget(segment);
    }
}

/// The conduit of a library.
pub static CONDUIT: Gni = Gni::new();
