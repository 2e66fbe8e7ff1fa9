//! Meetings in shared memory.
//!
//! A few members look at each other, which takes one step. More of them count themselves in a tree of counters, and the last to come tells the others:
//! nobody waits on the way, and nobody looks at many.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{PshmCall, PshmTeam, Readers};
use crate::coll::{choose, until};

/// A meeting of neighbours.
///
/// Not an async function, because those stay where they were first polled: this one is polled on the stack, and needs no memory when all come
/// at about the same time.
#[derive(Debug)]
pub struct PshmBarrier {
    pshm_call: PshmCall,
    /// Whether members look at each other.
    flat: bool,
    /// Whether others know that it waits for room.
    waits: bool,
    published: bool,
    /// Members that are known to have come.
    arrived: usize,
}

impl PshmBarrier {
    /// This member comes.
    pub fn new(team: &'static PshmTeam) -> Self {
        Self {
            pshm_call: team.begin(0, 1, 1),
            flat: choose::barrier_is_flat(team.count()),
            waits: false,
            published: false,
            arrived: 0,
        }
    }
}

impl Future for PshmBarrier {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let pshm_call = self.pshm_call;
        let (buffers, seq) = (pshm_call.team.buffers(), pshm_call.start);
        if !self.published {
            if !buffers.has_room(seq) {
                if !self.waits {
                    buffers.set_waiting(true);
                    self.waits = true;
                }
                return Poll::Pending;
            }
            if self.waits {
                buffers.set_waiting(false);
            }
            if self.flat {
                pshm_call.publish_to_all(seq);
            } else if pshm_call.arrive() {
                pshm_call.complete();
            }
            self.published = true;
        }
        if !self.flat {
            if pshm_call.completed_by().is_none() {
                return Poll::Pending;
            }
            pshm_call.retire_all();
            return Poll::Ready(());
        }
        while self.arrived < buffers.count() {
            if !buffers.has_published(self.arrived, seq) {
                pshm_call.team.note_missing(self.arrived);
                return Poll::Pending;
            }
            self.arrived += 1;
        }
        buffers.learn_room(seq);
        pshm_call.retire_all();
        Poll::Ready(())
    }
}

impl PshmCall {
    /// This member comes at the first position, for which there is room, and shows what it brings. Whether it is the last of all.
    pub(super) fn arrive(self) -> bool {
        self.team.buffers().publish(self.start);
        self.team.buffers().arrive(self.start)
    }

    /// The last to come tells all others.
    pub(super) fn complete(self) {
        self.team.buffers().complete(self.start);
        (0..self.team.count()).for_each(|member| self.team.wake(member));
    }

    /// Who came last, if all have come.
    pub(super) fn completed_by(self) -> Option<usize> {
        let last = self.team.buffers().completed_by(self.start);
        if last.is_none() {
            self.team.note_first_missing(self.start);
        }
        last
    }
}

/// Takes the positions of a meeting with something in its middle.
pub fn begin_around(team: &'static PshmTeam) -> PshmCall {
    team.begin(0, 1, 2)
}

/// Complete when all members have come; then member 0 does `middle` before the others go on.
pub async fn around(pshm_call: PshmCall, middle: impl Future<Output = ()>) {
    let release = pshm_call.start + 1;
    pshm_call.wait_room(pshm_call.start, 0).await;
    if pshm_call.arrive() {
        // Only member 0 looks.
        pshm_call.team.buffers().complete(pshm_call.start);
        pshm_call.team.wake(0);
    }
    if pshm_call.is_member(0) {
        until(|| pshm_call.completed_by().is_some()).await;
        middle.await;
        pshm_call.wait_room(release, 0).await;
        pshm_call.publish(release, Readers::All);
    } else {
        pshm_call.wait_published(0, release).await;
    }
    pshm_call.retire_all();
}
