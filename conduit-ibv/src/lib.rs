//! conduit-ibv of libgasnet: InfiniBand and RoCE over verbs.

use gasnet_conduit::{
    Busy, Class, Conduit, ConduitError, Identity, JobRank, Limits, PollScope, StartInfo, Stop, Upcalls,
};

/// The conduit. A library has one; tests have one per simulated rank.
#[derive(Default)]
pub struct Ibv {}

impl Ibv {
    /// A conduit that was not started.
    pub const fn new() -> Self {
        Self {}
    }
}

impl Conduit for Ibv {
    fn identity(&self) -> Identity {
        let (name, version) = ("ibv", env!("CARGO_PKG_VERSION"));
        Identity { name, version }
    }
    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: 65536 + 128,
            max_ranks: 1 << 24,
            requests_per_poll: 1,
        }
    }
    fn start(&self, _: &StartInfo<'_>) -> Result<(), ConduitError> {
        Err(ConduitError {
            message: "not yet".into(),
        })
    }
    fn send(&self, _: JobRank, _: Class, _: &[&[u8]]) -> Result<(), Busy> {
        Err(Busy)
    }
    fn poll(&self, _: PollScope, _: &mut dyn Upcalls) -> usize {
        0
    }
    fn stop(&self, _: Stop) {}
}

/// The conduit of a library.
pub static CONDUIT: Ibv = Ibv::new();
