//! A started conduit: its parts.

use crate::barrier::Rounds;
use crate::posts::{Posts, FIRST};
use crate::put_notify::LongPut;
use crate::receive::Receiver;
use crate::rma::OneSided;
use crate::send::{Filled, Messages, Parts};
use crate::wire::Kind;
use gasnet_conduit::{Barrier, Busy, Class, JobRank, LocalCompletion, Put, PutNotify, SendBuffer, SendBuffers, Stop};

/// A started conduit.
pub struct Net {
    messages: Messages,
    receiver: Receiver,
    /// The barrier, in leaders.
    rounds: Option<Rounds>,
    // Last: memory of the above is registered with its domains.
    rma: OneSided,
}

impl Net {
    /// A conduit of these parts.
    pub fn new(rma: OneSided, messages: Messages, rounds: Option<Rounds>) -> Self {
        Self {
            messages,
            receiver: Receiver::new(rma.settings().burst),
            rounds,
            rma,
        }
    }

    /// One-sided operations.
    #[inline]
    pub fn rma(&self) -> &OneSided {
        &self.rma
    }

    /// The domains.
    #[inline]
    pub fn posts(&self) -> &Posts {
        self.rma.posts()
    }

    /// Active Messages.
    #[inline]
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Their arrivals.
    #[inline]
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// The barrier, in leaders.
    #[inline]
    pub fn rounds(&self) -> Option<&Rounds> {
        self.rounds.as_ref()
    }

    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.messages.send(self.posts(), peer, class, parts)
    }

    /// See [`gasnet_conduit::Network::stop`].
    pub fn stop(&self, how: Stop) {
        if self.posts().stop() || how == Stop::Signal {
            return;
        }
        let contacts = self.messages.lock().contacts();
        for peer in contacts {
            self.posts().signal(peer, Kind::Bye, 0);
        }
    }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.posts().buffers().bytes()
    }

    fn reserve(&self, _: JobRank, _: Class, _: usize) -> Result<SendBuffer, Busy> {
        let bounce = self.posts().buffers().reserve().ok_or(Busy)?;
        Ok(SendBuffer(bounce.address() as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        let bounce = self.posts().buffers().at(buffer.0 as usize);
        let filled = Filled { bounce, bytes };
        self.messages.send_reserved(self.posts(), peer, class, filled)
    }

    fn release(&self, buffer: SendBuffer) {
        let buffers = self.posts().buffers();
        buffers.give(buffers.at(buffer.0 as usize));
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        self.rma.settings().packed
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let posts = self.posts();
        let long = LongPut {
            put,
            filled: reserved.map(|buffer| posts.buffers().at(buffer.0 as usize)),
            class,
            packet: Parts::new(parts),
        };
        self.messages.put_with_message(&self.rma, long)
    }
}

impl Barrier for Net {
    fn enter(&self, words: [u64; 2]) -> Result<(), Busy> {
        let rounds = self.rounds.as_ref().ok_or(Busy)?;
        rounds.enter(self.posts(), self.messages.region(), words)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // Posts under way use the memory below.
        let posts = self.rma.posts_mut();
        posts.drain();
        if let Some(rounds) = &mut self.rounds {
            rounds.release_engine(posts);
        }
        self.messages.region().deregister(&posts.domains()[FIRST]);
        posts.deregister_buffers();
    }
}
