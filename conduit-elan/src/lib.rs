//! conduit-elan of libgasnet: Quadrics QsNet (Elan3, Elan4) over libelan, through a shim that sites
//! compile (`shim.h`).
//!
//! - [`ffi`]: the shim behind safe types
//! - [`variables`], [`rms`], [`start`]: the start
//! - [`net`]: the whole, and polling
//! - [`credits`], [`send`], [`receive`], [`buffers`]: messages
//! - [`rma`], [`transfers`], [`pending`], [`memory`]: puts and gets
//! - [`barrier`]: the hardware barrier

mod barrier;
mod buffers;
mod credits;
mod ffi;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod memory;
mod net;
mod pending;
mod receive;
mod rma;
mod rms;
mod send;
mod start;
mod transfers;
mod variables;

use gasnet_conduit::config::Variable;
use gasnet_conduit::{
    Barrier, Bootstrap, Busy, Class, Conduit, ConduitError, Identity, JobRank, Limits, PollScope, ProviderReport,
    PutNotify, Rma, Segments, SendBuffers, StartInfo, Stop, Upcalls,
};
use net::Net;
use std::sync::OnceLock;

#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Elan {
    /// Added to the number of the job.
    job: u32,
    rms: rms::Rms,
    net: OnceLock<Net>,
}

impl Elan {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self::of_job(0)
    }

    /// One of several jobs in the same processes: of the job with this number. For tests.
    pub const fn of_job(job: u32) -> Self {
        Self {
            job,
            rms: rms::Rms::new(),
            net: OnceLock::new(),
        }
    }

    #[inline]
    fn net(&self) -> Option<&Net> {
        self.net.get()
    }
}

impl Conduit for Elan {
    fn identity(&self) -> Identity {
        let (name, version) = ("elan", env!("CARGO_PKG_VERSION"));
        Identity { name, version }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: buffers::BUFFER,
            max_ranks: 1 << 16,
            requests_per_poll: 1,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError> {
        let started = self.net.set(Net::open(info, self.rms.attached(), self.job)?);
        assert!(started.is_ok(), "defect: the elan conduit was started twice");
        Ok(())
    }

    fn probe(&self) -> Result<(), ConduitError> {
        start::can_start().map_err(|why| ConduitError {
            message: format!("The elan conduit cannot be used: {why}."),
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
        Some(&self.rms)
    }

    fn send_buffers(&self) -> Option<&dyn SendBuffers> {
        self.net().map(|net| net as &dyn SendBuffers)
    }

    fn segments(&self) -> Option<&dyn Segments> {
        self.net().map(|net| net as &dyn Segments)
    }

    fn rma(&self) -> Option<&dyn Rma> {
        self.net().filter(|net| net.uses_putget).map(|net| net as &dyn Rma)
    }

    fn put_notify(&self) -> Option<&dyn PutNotify> {
        self.net()
            .filter(|net| net.uses_putget)
            .map(|net| net as &dyn PutNotify)
    }

    fn barrier(&self) -> Option<&dyn Barrier> {
        self.net()?.rounds.as_ref().map(|rounds| rounds as &dyn Barrier)
    }
}

/// The conduit of a library.
pub static CONDUIT: Elan = Elan::new();
