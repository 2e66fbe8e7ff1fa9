//! A started conduit: its parts, and polling.
//!
//! The life of a message: its sender takes a credit ([`crate::credits`]), and sends it to the queue
//! or, from a buffer, to the port of the receiver ([`crate::send`]), which finds it there when it
//! polls ([`crate::receive`]). The life of a put or a get: it is started ([`crate::rma`]), maybe in
//! pieces ([`crate::transfers`]), and polls look at its event until it is complete
//! ([`crate::operations`]).
//!
//! No call of libelan that this makes after the start waits: there is a credit for each message,
//! and a place in its channel for each put. The barrier, which waits, has a thread
//! ([`crate::barrier`]).

use crate::barrier::Rounds;
use crate::buffers::Buffer;
use crate::link::Link;
use crate::operations::CompletionAction;
use crate::receive::Receiver;
use crate::rma::OneSided;
use crate::send::Messages;
use gasnet_conduit::{
    Abilities, Barrier, Busy, Class, Completion, JobRank, Network, PollScope, PutNotify, Rma, Stop, Upcalls,
};
use gasnet_conduit_util::aligned_copy::copy_out;

/// A started conduit.
#[derive(Debug)]
pub struct Net {
    pub messages: Messages,
    pub receiver: Receiver,
    /// The barrier, if there is one.
    pub rounds: Option<Rounds>,
    /// Whether clients put and get through it.
    pub uses_putget: bool,
    // Last: it has the library.
    pub rma: OneSided,
}

impl Net {
    #[inline]
    pub fn link(&self) -> &Link {
        &self.rma.link
    }

    /// An operation is complete. Returns whether that is progress.
    fn complete(&self, channel: Option<usize>, done: CompletionAction, upcalls: &mut dyn Upcalls) -> bool {
        let link = self.link();
        if let Some(channel) = channel {
            self.rma.channels.give_back(channel);
        }
        match done {
            CompletionAction::Sent(buffer) => buffer.release(),
            // Else a process that waits for credits asks at once again, and never sleeps.
            CompletionAction::Counts(peer) => {
                let answer = self.messages.credits.answered(peer);
                if answer.is_none() {
                    upcalls.peer_lost(peer, "it acknowledged more messages than were sent to it");
                }
                return answer.unwrap_or(true);
            }
            CompletionAction::Put(cookie, part, buffer) => {
                self.end_copied(buffer);
                upcalls.done(cookie, part);
            }
            CompletionAction::Payload(message, cookie, buffer) => {
                self.messages.send_queued(link, *message);
                self.end_copied(buffer);
                if let Some(cookie) = cookie {
                    upcalls.done(cookie, Completion::Source);
                }
            }
            CompletionAction::Get(cookie, into) => {
                if let Some((buffer, to, bytes)) = into {
                    // SAFETY: the destination, which the runtime keeps until completion; buffers
                    // are aligned.
                    unsafe { copy_out(buffer.address(), to, bytes) };
                    buffer.release();
                }
                self.rma.end_operation();
                upcalls.done(cookie, Completion::Both);
            }
            CompletionAction::Piece(transfer, mut buffer, piece) => {
                let bytes = piece.len();
                if let Some(ended) = transfer.end_piece(piece, buffer.bytes(bytes)) {
                    self.rma.end_operation();
                    if let Some(message) = ended.message {
                        self.messages.send_queued(link, message);
                    }
                    upcalls.done(ended.cookie, ended.part);
                }
                buffer.release();
            }
        }
        true
    }

    fn end_copied(&self, buffer: Option<Buffer>) {
        if let Some(buffer) = buffer {
            buffer.release();
        }
        self.rma.end_operation();
    }
}

impl Network for Net {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.messages.send(self.link(), peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let link = self.link();
        if link.is_stopped() {
            return 0;
        }
        let mut count = 0;
        for (channel, done) in link.pending.reap(&link.shim, &link.port) {
            count += usize::from(self.complete(channel, done, upcalls));
        }
        self.rma.advance_transfers();
        if let Some(words) = self.rounds.as_ref().and_then(Rounds::take_result) {
            upcalls.barrier(words);
            count += 1;
        }
        count += self.receiver.receive(&self.messages, link, Class::Reply, upcalls);
        if scope == PollScope::All {
            count += self.receiver.receive(&self.messages, link, Class::Request, upcalls);
        }
        count
    }

    fn stop(&self, how: Stop) {
        self.link().stop();
        if let (Some(rounds), Stop::Orderly) = (&self.rounds, how) {
            rounds.stop();
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            send_buffers: Some(self),
            segments: Some(&self.rma.memory),
            rma: self.uses_putget.then_some(&self.rma as &dyn Rma),
            put_notify: self.uses_putget.then_some(self as &dyn PutNotify),
            barrier: self.rounds.as_ref().map(|rounds| rounds as &dyn Barrier),
            ..Abilities::default()
        }
    }
}
