//! A started conduit: its parts.

use crate::atomics;
use crate::connect_timeout::ConnectTimeouts;
use crate::link::Link;
use crate::put_notify::long_put::LongPut;
use crate::receive::deliver::Receiver;
use crate::rma::OneSided;
use crate::send::{held_of, send_reserved, Messages};
use crate::stale_shm::StaleShm;
use crate::wire::{Kind, HEADER};
use gasnet_conduit::{Atomic, Atomics, Busy, Class, JobRank, LocalCompletion, Put, PutNotify, SendBuffer, SendBuffers};

/// Operations of the provider.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Puts and gets.
    pub rma: bool,
    /// Puts that announce themselves, rather than by a message that follows.
    pub announces: bool,
    /// Operations of [`crate::atomics`] that every process has.
    pub atomics: u64,
}

/// A started conduit.
pub struct Net {
    selected: Abilities,
    /// Completions that a poll takes at most.
    completions: usize,
    /// Peers to which operations wait.
    connect_timeouts: ConnectTimeouts,
    stale_shm: StaleShm,
    messages: Messages,
    receiver: Receiver,
    // Last: what is above has regions of its endpoint.
    rma: OneSided,
}

/// The parts of a conduit.
pub struct Parts {
    pub messages: Messages,
    pub receiver: Receiver,
    pub rma: OneSided,
}

impl Net {
    /// A conduit of these parts.
    pub fn new(parts: Parts, selected: Abilities, completions: usize, stale_shm: StaleShm) -> Self {
        let Parts {
            messages,
            receiver,
            rma,
        } = parts;
        Self {
            selected,
            completions,
            connect_timeouts: ConnectTimeouts::default(),
            stale_shm,
            messages,
            receiver,
            rma,
        }
    }

    /// Operations of the provider.
    pub fn selected(&self) -> Abilities {
        self.selected
    }

    /// Completions that a poll takes at most.
    #[inline]
    pub fn completions(&self) -> usize {
        self.completions
    }

    /// Peers to which operations wait.
    pub fn connect_timeouts(&self) -> &ConnectTimeouts {
        &self.connect_timeouts
    }

    /// Messages, and the buffers that they are sent from.
    #[inline]
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Messages that arrive.
    #[inline]
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// One-sided operations.
    #[inline]
    pub fn rma(&self) -> &OneSided {
        &self.rma
    }

    /// The endpoint and its peers.
    #[inline]
    pub fn link(&self) -> &Link {
        self.rma.link()
    }

    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.messages.send(self.link(), peer, class, parts)
    }

    /// Ends communication, without a word to the peers. Async-signal-safe.
    pub fn stop_at_once(&self) -> bool {
        let is_first = !self.link().stop();
        if is_first {
            self.stale_shm.remove();
        }
        is_first
    }

    /// The same, and tells peers that were contacted that this is no crash.
    pub fn stop(&self) {
        if !self.stop_at_once() {
            return;
        }
        let link = self.link();
        let mut message = [0; HEADER];
        link.header(Kind::Bye, 0).encode(0, &mut message);
        for peer in link.peers.contacted() {
            // If that fails, the peer is gone, or it reads of the end from its node agent.
            let _ = self.messages.send_header(link, &message, peer);
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: nobody else has this any more; regions are dropped next.
        unsafe { self.rma.close() };
    }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.messages.max_packet()
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        self.messages.reserve(self.link(), bytes)
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        send_reserved(self.link(), peer, class, buffer, bytes)
    }

    fn release(&self, buffer: SendBuffer) {
        held_of(buffer).release();
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        self.messages.packed_limit(self.selected.announces)
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let long = LongPut {
            put,
            filled: reserved,
            class,
            parts,
        };
        self.messages.put_and_notify(&self.rma, long)
    }
}

impl Atomics for Net {
    fn supports(&self, dt: u32, op: u32) -> bool {
        atomics::supports(self.selected.atomics, dt, op)
    }

    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        self.rma.atomic(atomic)
    }
}
