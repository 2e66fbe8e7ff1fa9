//! A started conduit: its parts.

use crate::barrier::Rounds;
use crate::posts::{Domain, Posts, FIRST};
use crate::receive::Receiver;
use crate::rma::OneSided;
use crate::send::Messages;
use crate::wire::Kind;
use gasnet_conduit::{Abilities, Barrier, Busy, Class, JobRank, Network, PollScope, Stop, Upcalls, Wake};

/// A started conduit.
pub struct Net {
    pub messages: Messages,
    pub receiver: Receiver,
    /// The barrier of the collective engine, in leaders.
    pub rounds: Option<Rounds>,
    /// Whether threads of any process may sleep until something arrives.
    pub peers_sleep: bool,
    // Last: memory of the above is registered with its domains.
    pub rma: OneSided,
}

impl Net {
    /// The domains.
    #[inline]
    pub fn posts(&self) -> &Posts {
        &self.rma.posts
    }
}

impl Network for Net {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.messages.send(self.posts(), peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.poll_all(scope, upcalls)
    }

    fn poll_completions(&self, upcalls: &mut dyn Upcalls) -> usize {
        if self.posts().peers.states.is_stopped() {
            return 0;
        }
        self.poll_domains(upcalls)
    }

    fn stop(&self, how: Stop) {
        if self.posts().peers.states.stop() || how == Stop::Signal {
            return;
        }
        // Another thread may be in a call, in a program for one thread, too.
        let Some(contacts) = self.messages.am.try_lock().map(|am| am.contacts()) else {
            return;
        };
        for peer in contacts {
            if let Some(mut queue) = self.posts().try_lock(FIRST) {
                queue.signal(peer, Kind::Bye, 0);
            }
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            send_buffers: Some(self),
            segments: Some(&self.rma),
            rma: Some(&self.rma),
            put_notify: Some(self),
            atomics: Some(&self.rma),
            barrier: self.rounds.is_some().then_some(self as &dyn Barrier),
            words: Some(self),
            wake: self.posts().channel().is_some().then_some(self as &dyn Wake),
            ..Abilities::default()
        }
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
        if let Some(rounds) = self.rounds.take() {
            rounds.release(posts);
        }
        self.messages.region.deregister(&posts.domains[FIRST]);
        posts.buffers.deregister(&posts.domains);
    }
}
