//! The interface of algorithms to p2p messages: send, receive, rendezvous.
//!
//! An algorithm is an async function over a [`Call`]. The engine (`coll`) polls it when a message
//! has arrived or a send found no room. Any poll advances any number of collectives, without a
//! thread.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use super::p2p::{self, Buffer, Envelope, Span};
use crate::am::{inject, internal, lub_medium, max_medium, Message};
use crate::stall;
use crate::team::Team;
use crate::types::Rank;
use gasnet_conduit::Class;

/// One collective, from the view of one member. Algorithms compute with the positions of those that
/// take part, from 0 on.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    team: &'static Team,
    sequence: u32,
    group: Group,
}

/// The meaning of the positions of a [`Call`].
#[derive(Clone, Copy, Debug)]
enum Group {
    /// Ranks in the team.
    Members,
    /// Neighbourhood numbers; each stands for its leader, neighbourhood `group` for the member
    /// `rank`.
    Leaders { group: u32, rank: Rank },
}

impl Call {
    /// The next collective of the team. All members call in the same order, so sequence numbers
    /// agree.
    pub fn next(team: &'static Team) -> Self {
        Self {
            team,
            sequence: team.next_collective.fetch_add(1, Ordering::Relaxed),
            group: Group::Members,
        }
    }

    /// The same collective among one member of each neighbourhood: its leader, but `rank` for the
    /// neighbourhood of `rank`. Also returns the number of that neighbourhood.
    pub fn among_leaders(self, rank: Rank) -> (Self, u32) {
        let group = self.team.group_of(rank);
        let among = Group::Leaders { group, rank };
        (Self { group: among, ..self }, group)
    }

    /// The team.
    pub fn team(self) -> &'static Team {
        self.team
    }

    /// This process's position.
    pub fn rank(self) -> u32 {
        match self.group {
            Group::Members => self.team.rank.0,
            Group::Leaders { .. } => self.team.groups.own,
        }
    }

    /// Number of positions.
    pub fn size(self) -> u32 {
        match self.group {
            Group::Members => self.team.size,
            Group::Leaders { .. } => self.team.groups.leaders.len() as u32,
        }
    }

    /// The rank in the team of the member at a position.
    fn member(self, position: u32) -> Rank {
        match self.group {
            Group::Members => Rank(position),
            Group::Leaders { group, rank } if position == group => rank,
            Group::Leaders { .. } => self.team.groups.leaders[position as usize],
        }
    }

    /// For stall reports.
    fn note_missing(self, from: u32) {
        stall::note(|| {
            let member = self.member(from);
            let rank = self.team.locate(member).rank;
            format!(
                "collective {} of a team of {} members waits for member {member} (rank {rank})",
                self.sequence, self.team.size
            )
        });
    }

    fn envelope(self, from: u32, to: u32, tag: u32) -> Envelope {
        Envelope {
            team: self.team.id,
            sequence: self.sequence,
            target: self.member(to),
            source: self.member(from),
            tag,
        }
    }

    /// Sends `what` to position `to`; sends nothing if it is empty. The memory may be reused on
    /// return.
    pub async fn send(self, to: u32, tag: u32, what: Span) {
        if what.bytes > 0 {
            self.send_message(to, tag, what).await;
        }
    }

    /// Sends an empty message, for [`Call::receive`].
    pub async fn signal(self, to: u32, tag: u32) {
        self.send_message(to, tag, Span::EMPTY).await;
    }

    async fn send_message(self, to: u32, tag: u32, what: Span) {
        let envelope = self.envelope(self.rank(), to, tag);
        let target = self.team.locate(self.member(to));
        let most = max_medium(Some(target.rank));
        let mut offset = 0;
        loop {
            let packet = what.part(offset, most.min(what.bytes - offset));
            super::until(|| {
                let args = p2p::encode(envelope, what.bytes, offset);
                let message = Message::internal(
                    Class::Request,
                    target,
                    internal::COLLECTIVE,
                    &args,
                    Some(packet.payload()),
                );
                let sent = inject::try_send(&message).is_ok();
                if !sent {
                    super::request_poll();
                }
                sent
            })
            .await;
            offset += packet.bytes;
            if offset == what.bytes {
                return;
            }
        }
    }

    /// Receives the message from position `from` into new memory.
    pub async fn receive(self, from: u32, tag: u32) -> Buffer {
        let envelope = self.envelope(from, self.rank(), tag);
        poll_fn(|_| {
            let message = p2p::take(envelope);
            if message.is_none() {
                self.note_missing(from);
            }
            message.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Posts a receive of the message from position `from` into `at`, unless `at` is empty.
    pub fn post_receive(self, from: u32, tag: u32, at: Span) {
        if at.bytes > 0 {
            p2p::post_receive(self.envelope(from, self.rank(), tag), at);
        }
    }

    /// Waits for a posted receive.
    pub async fn wait_receive(self, from: u32, tag: u32, at: Span) {
        if at.bytes > 0 {
            let envelope = self.envelope(from, self.rank(), tag);
            super::until(|| {
                let complete = p2p::complete_receive(envelope, at);
                if !complete {
                    self.note_missing(from);
                }
                complete
            })
            .await;
        }
    }

    /// As [`Call::post_receive`], for a message sent with [`Call::send_rendezvous`].
    pub async fn post_rendezvous(self, from: u32, tag: u32, at: Span) {
        self.post_receive(from, tag, at);
        if at.bytes > chunk_bytes() {
            self.signal(from, CLEAR_TO_SEND + tag).await;
        }
    }

    /// Sends `what`; a message longer than a chunk only after the receiver has posted its receive.
    pub async fn send_rendezvous(self, to: u32, tag: u32, what: Span) {
        if what.bytes > chunk_bytes() {
            self.receive(to, CLEAR_TO_SEND + tag).await;
        }
        self.send(to, tag, what).await;
    }
}

/// Bytes per chunk of long data: the largest Medium between any two members.
pub fn chunk_bytes() -> usize {
    lub_medium()
}

/// Chunks per clear-to-send.
pub const WINDOW: usize = 8;
/// Tag bit of the clear-to-send for a long message, or for a window of chunks; the other bits are
/// the tag of the message or of the first chunk.
pub const CLEAR_TO_SEND: u32 = 1 << 31;

/// Runs both, alternately.
pub async fn join(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_done, mut b_done) = (false, false);
    poll_fn(|context| {
        a_done = a_done || a.as_mut().poll(context).is_ready();
        b_done = b_done || b.as_mut().poll(context).is_ready();
        if a_done && b_done {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
