//! What an algorithm can do: send letters, and wait for them.
//!
//! An algorithm is an async function over a [`Call`], written as if it could wait. The engine (`coll`) polls it whenever a letter has arrived or
//! a message found no room, so that any number of collectives advance from any poll and none needs a thread.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use super::p2p::{self, Buffer, Name, Span};
use crate::am::{inject, internal, lub_medium, max_medium, Message};
use crate::stall;
use crate::team::Team;
use gasnet_conduit::Class;

/// One collective, as one member sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    team: &'static Team,
    number: u32,
    among: Among,
}

/// Whom a call's ranks mean.
#[derive(Clone, Copy, Debug)]
enum Among {
    /// The members of the team.
    Members,
    /// One member of each neighbourhood: its first one, but in neighbourhood `group` the member with `rank`.
    Speakers { group: u32, rank: u32 },
}

impl Call {
    /// The team's next collective. Members make their calls in the same order, so that they agree about the number.
    pub fn next(team: &'static Team) -> Self {
        Self {
            team,
            number: team.next_collective.fetch_add(1, Ordering::Relaxed),
            among: Among::Members,
        }
    }

    /// The same collective among one member of each neighbourhood, where `rank` speaks for its own. Also that one's number.
    pub fn among_speakers(self, rank: u32) -> (Self, u32) {
        let group = self.team.group_of(rank);
        let among = Among::Speakers { group, rank };
        (Self { among, ..self }, group)
    }

    /// The team.
    pub fn team(self) -> &'static Team {
        self.team
    }

    /// The local member.
    pub fn rank(self) -> u32 {
        match self.among {
            Among::Members => self.team.rank,
            Among::Speakers { .. } => self.team.groups.own,
        }
    }

    /// Members that take part.
    pub fn size(self) -> u32 {
        match self.among {
            Among::Members => self.team.size,
            Among::Speakers { .. } => self.team.groups.speakers.len() as u32,
        }
    }

    /// The member of the team that `rank` means.
    fn member(self, number: u32) -> u32 {
        match self.among {
            Among::Members => number,
            Among::Speakers { group, rank } if number == group => rank,
            Among::Speakers { .. } => self.team.groups.speakers[number as usize],
        }
    }

    /// For a report about a stall.
    fn note_missing(self, from: u32) {
        stall::note(|| {
            let rank = self.team.locate(from).rank;
            format!(
                "collective {} of a team of {} members has nothing yet from member {from}, rank {rank}",
                self.number, self.team.size
            )
        });
    }

    fn name(self, from: u32, to: u32, slot: u32) -> Name {
        Name {
            team: self.team.id,
            number: self.number,
            to: self.member(to),
            from: self.member(from),
            slot,
        }
    }

    /// Sends `what` to member `to`; nothing if it is empty. The memory may be reused afterwards.
    pub async fn send(self, to: u32, slot: u32, what: Span) {
        if what.bytes > 0 {
            self.send_letter(to, slot, what).await;
        }
    }

    /// Sends an empty letter, for `receive`.
    pub async fn signal(self, to: u32, slot: u32) {
        self.send_letter(to, slot, Span::EMPTY).await;
    }

    async fn send_letter(self, to: u32, slot: u32, what: Span) {
        let name = self.name(self.rank(), to, slot);
        let target = self.team.locate(self.member(to));
        let most = max_medium(Some(target.rank));
        let mut offset = 0;
        loop {
            let piece = what.part(offset, most.min(what.bytes - offset));
            super::until(|| {
                let args = p2p::arguments(name, what.bytes, offset);
                let message = Message::internal(Class::Request, target, internal::COLLECTIVE, &args, Some(piece.payload()));
                let sent = inject::try_send(&message).is_ok();
                if !sent {
                    super::look_again();
                }
                sent
            })
            .await;
            offset += piece.bytes;
            if offset == what.bytes {
                return;
            }
        }
    }

    /// The letter from member `from`, in memory of its own.
    pub async fn receive(self, from: u32, slot: u32) -> Buffer {
        let name = self.name(from, self.rank(), slot);
        poll_fn(|_| {
            let letter = p2p::take(name);
            if letter.is_none() {
                self.note_missing(from);
            }
            letter.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Says where the letter from member `from` is to land, if it is not empty.
    pub fn post(self, from: u32, slot: u32, at: Span) {
        if at.bytes > 0 {
            p2p::post(self.name(from, self.rank(), slot), at);
        }
    }

    /// Waits for what was posted.
    pub async fn landed(self, from: u32, slot: u32, at: Span) {
        if at.bytes > 0 {
            let name = self.name(from, self.rank(), slot);
            super::until(|| {
                let landed = p2p::landed(name, at);
                if !landed {
                    self.note_missing(from);
                }
                landed
            })
            .await;
        }
    }

    /// As `post`, for a letter that `deliver` sends.
    pub async fn grant(self, from: u32, slot: u32, at: Span) {
        self.post(from, slot, at);
        if at.bytes > chunk_bytes() {
            self.signal(from, GO + slot).await;
        }
    }

    /// Sends `what`; if it is long, when the receiver has said where it is to land.
    pub async fn deliver(self, to: u32, slot: u32, what: Span) {
        if what.bytes > chunk_bytes() {
            self.receive(to, GO + slot).await;
        }
        self.send(to, slot, what).await;
    }
}

/// Bytes of a chunk in which long data travels: what one message carries between any two members.
pub fn chunk_bytes() -> usize {
    lub_medium()
}

/// Chunks that a sender may be ahead of its receiver's permission.
pub const WINDOW: usize = 8;
/// Slot of the permission for a window of chunks; chunks have their number as slot.
pub const GO: u32 = 1 << 31;

/// Both, in turns.
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
