//! A started conduit: its parts.

use crate::barrier::Rounds;
use crate::buffers::Bounces;
use crate::posts::{Domain, Posts, FIRST};
use crate::receive::Receiver;
use crate::rma::OneSided;
use crate::send::{Filled, Messages};
use crate::wire::Kind;
use gasnet_conduit::{
    Abilities, Barrier, Busy, Class, JobRank, Network, PollScope, SendBuffer, SendBuffers, Stop, Upcalls, Wake,
};

/// A started conduit.
pub struct Net {
    pub messages: Messages,
    pub receiver: Receiver,
    /// The barrier, in leaders.
    pub rounds: Option<Rounds>,
    // Last: memory of the above is registered with its domains.
    pub rma: OneSided,
}

impl Net {
    /// The domains.
    #[inline]
    pub fn posts(&self) -> &Posts {
        &self.rma.posts
    }

    fn buffers(&self) -> &Bounces {
        &self.rma.posts.buffers
    }
}

impl Network for Net {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.messages.send(self.posts(), peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.poll_all(scope, upcalls)
    }

    fn stop(&self, how: Stop) {
        if self.posts().peers.states.stop() || how == Stop::Signal {
            return;
        }
        let contacts = self.messages.am.lock().contacts();
        for peer in contacts {
            self.posts().signal(peer, Kind::Bye, 0);
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            send_buffers: Some(self),
            segments: Some(&self.rma),
            rma: Some(&self.rma),
            put_notify: Some(self),
            atomics: Some(&self.rma),
            barrier: Some(self),
            wake: self.posts().channel().is_some().then_some(self as &dyn Wake),
            ..Abilities::default()
        }
    }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.buffers().pool.bytes()
    }

    fn reserve(&self, _: JobRank, _: Class, _: usize) -> Result<SendBuffer, Busy> {
        let bounce = self.buffers().reserve().ok_or(Busy)?;
        Ok(SendBuffer(bounce.into_address() as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        // SAFETY: the client gives up what `reserve` has given it. If busy, it is not released.
        let bounce = unsafe { Bounces::reserved(buffer) };
        let filled = Filled { bounce, bytes };
        self.messages.send_reserved(self.posts(), peer, class, filled)
    }

    fn release(&self, buffer: SendBuffer) {
        // SAFETY: the client gives up what `reserve` has given it.
        unsafe { Bounces::reserved(buffer) }.release();
    }
}

impl Barrier for Net {
    fn enter(&self, words: [u64; 2]) -> Result<(), Busy> {
        let rounds = self.rounds.as_ref().ok_or(Busy)?;
        rounds.enter(self.posts(), &self.messages.region, words)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // Posts under way use the memory below.
        let posts = &mut self.rma.posts;
        posts.domains.iter().for_each(Domain::drain);
        if let Some(rounds) = &mut self.rounds {
            rounds.release_engine(posts);
        }
        self.messages.region.deregister(&posts.domains[FIRST]);
        posts.buffers.deregister(&posts.domains);
    }
}
