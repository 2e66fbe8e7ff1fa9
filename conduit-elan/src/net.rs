//! A started conduit: its parts, and polling.
//!
//! The life of a message: its sender takes a credit ([`crate::credits`]), and sends it to the queue
//! or, from a buffer, to the port of the receiver ([`crate::send`]), which finds it there when it
//! polls ([`crate::receive`]). The life of a put or a get: it is started ([`crate::rma`]), maybe in
//! pieces ([`crate::transfers`]), and polls look at its event until it is complete
//! ([`crate::pending`]).
//!
//! No call of libelan that this makes after the start waits: there is a credit for each message,
//! and a place in its channel for each put. The barrier, which waits, has a thread
//! ([`crate::barrier`]).

use crate::barrier::Rounds;
use crate::buffers::{Buffer, BUFFER};
use crate::link::Link;
use crate::memory::Memory;
use crate::pending::CompletionAction;
use crate::put_notify::{packed_limit, LongPut};
use crate::receive::Receiver;
use crate::rma::OneSided;
use crate::send::{Filled, Messages};
use gasnet_conduit::{
    Barrier, Busy, Class, Completion, JobRank, LocalCompletion, PollScope, Put, PutNotify, SendBuffer, SendBuffers,
    Stop, Upcalls,
};
use gasnet_conduit_util::aligned_copy::copy_out;

/// A started conduit.
#[derive(Debug)]
pub struct Net {
    messages: Messages,
    receiver: Receiver,
    rounds: Option<Rounds>,
    uses_putget: bool,
    // Last: it has the library.
    rma: OneSided,
}

impl Net {
    /// A conduit of these parts. Clients put and get through it if `uses_putget`.
    pub fn new(
        rma: OneSided,
        messages: Messages,
        receiver: Receiver,
        rounds: Option<Rounds>,
        uses_putget: bool,
    ) -> Self {
        Self {
            messages,
            receiver,
            rounds,
            uses_putget,
            rma,
        }
    }

    #[inline]
    fn link(&self) -> &Link {
        self.rma.link()
    }

    /// Puts and gets, if clients use them.
    pub fn rma(&self) -> Option<&OneSided> {
        self.uses_putget.then_some(&self.rma)
    }

    /// Puts that notify, if clients use them.
    pub fn put_notify(&self) -> Option<&dyn PutNotify> {
        self.uses_putget.then_some(self as &dyn PutNotify)
    }

    /// Segments.
    pub fn memory(&self) -> &Memory {
        self.rma.memory()
    }

    /// The barrier, if there is one.
    pub fn barrier(&self) -> Option<&dyn Barrier> {
        self.rounds.as_ref().map(|rounds| rounds as &dyn Barrier)
    }

    /// See [`gasnet_conduit::Network::send`].
    #[inline]
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.messages.send(self.link(), peer, class, parts)
    }

    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let link = self.link();
        if link.is_stopped() {
            return 0;
        }
        let mut count = 0;
        for (channel, done) in link.reap() {
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

    /// An operation is complete. Returns whether that is progress.
    fn complete(&self, channel: Option<usize>, done: CompletionAction, upcalls: &mut dyn Upcalls) -> bool {
        let link = self.link();
        if let Some(channel) = channel {
            self.rma.channels().give_back(channel);
        }
        match done {
            CompletionAction::Sent(buffer) => link.buffers.give(buffer),
            // Else a process that waits for credits asks at once again, and never sleeps.
            CompletionAction::Counts(peer) => {
                let answer = self.messages.credits().answered(peer);
                if answer.is_none() {
                    upcalls.peer_lost(peer, "it counts messages that it was not sent");
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
                    link.buffers.give(buffer);
                }
                self.rma.end_operation();
                upcalls.done(cookie, Completion::Both);
            }
            CompletionAction::Piece(transfer, mut buffer, piece) => {
                let bytes = piece.len();
                if let Some(ended) = transfer.end_piece(piece, buffer.prefix(bytes)) {
                    self.rma.end_operation();
                    if let Some(message) = ended.message {
                        self.messages.send_queued(link, message);
                    }
                    upcalls.done(ended.cookie, ended.part);
                }
                link.buffers.give(buffer);
            }
        }
        true
    }

    fn end_copied(&self, buffer: Option<Buffer>) {
        if let Some(buffer) = buffer {
            self.link().buffers.give(buffer);
        }
        self.rma.end_operation();
    }

    /// See [`gasnet_conduit::Network::stop`].
    pub fn stop(&self, how: Stop) {
        self.link().stop();
        if let (Some(rounds), Stop::Orderly) = (&self.rounds, how) {
            rounds.stop();
        }
    }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        BUFFER
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        assert!(bytes <= BUFFER, "defect: a buffer of {bytes} bytes");
        self.link().buffers.reserve().ok_or(Busy)
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        let filled = Filled { buffer, bytes };
        self.messages.send_reserved(self.link(), peer, class, filled)
    }

    fn release(&self, buffer: SendBuffer) {
        let buffers = &self.link().buffers;
        buffers.give(buffers.reclaim(buffer));
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        packed_limit(&self.rma)
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
