//! The conduit and its abilities, as this job uses them.

use gasnet_conduit::{Atomics, Barrier, Conduit, Gather, PutNotify, Rma, Segments, SendBuffers, Wake};

/// See the module documentation. Constant after initialisation.
#[derive(Clone, Copy)]
pub struct Network {
    /// The network. Not started in a job of one neighbourhood.
    pub conduit: &'static dyn Conduit,
    /// Buffers for negotiated payloads.
    pub send_buffers: Option<&'static dyn SendBuffers>,
    /// Mediums from the client's memory.
    pub gather: Option<&'static dyn Gather>,
    /// Registered memory. None if no segment is registered: in a job of one neighbourhood, and in
    /// the configuration EVERYTHING.
    pub segments: Option<&'static dyn Segments>,
    /// Puts and gets, on registered segments or on all memory.
    pub rma: Option<&'static dyn Rma>,
    /// Puts that notify, for Longs.
    pub put_notify: Option<&'static dyn PutNotify>,
    /// Atomics on registered segments.
    pub atomics: Option<&'static dyn Atomics>,
    /// Its own barrier, unless `GASNET_BARRIER` names another.
    pub barrier: Option<&'static dyn Barrier>,
    /// Wakes sleeping threads.
    pub wake: Option<&'static dyn Wake>,
}

impl Network {
    /// The abilities of a conduit that was started, in a job that registers its segments or not.
    pub fn new(conduit: &'static dyn Conduit, registers: bool) -> Self {
        let segments = conduit.segments().filter(|_| registers);
        Self {
            conduit,
            send_buffers: conduit.send_buffers(),
            gather: conduit.gather(),
            segments,
            rma: conduit.rma(),
            put_notify: conduit.put_notify(),
            atomics: conduit.atomics().filter(|_| segments.is_some()),
            barrier: conduit.barrier(),
            wake: conduit.wake(),
        }
    }

    /// That of a job of one neighbourhood, which has none.
    pub fn unused(conduit: &'static dyn Conduit) -> Self {
        Self {
            conduit,
            send_buffers: None,
            gather: None,
            segments: None,
            rma: None,
            put_notify: None,
            atomics: None,
            barrier: None,
            wake: None,
        }
    }

    /// Whether puts and gets reach memory that is not registered.
    pub fn reaches_all_memory(&self) -> bool {
        self.rma.is_some_and(Rma::reaches_all_memory)
    }
}
