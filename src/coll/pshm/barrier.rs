//! Barriers in shared memory.
//!
//! Few members read each other's flags, which takes one step. More members count arrivals in a tree
//! of counters; the last arrival releases the others. No member waits inside the tree, and none
//! reads the flags of many.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{PshmCall, PshmTeam, Readers};
use crate::coll::{choose, until};
use crate::wait;

/// A barrier of neighbours.
///
/// A hand-written future, because an async function must not move after its first poll. This one is
/// polled on the stack, and needs no allocation when all members arrive at about the same time.
#[derive(Debug)]
pub struct PshmBarrier {
    pshm_call: PshmCall,
    /// Each member reads the flags of all.
    flat: bool,
    /// Counted in [`CollBuffers::set_waiting`](crate::shm::coll_buffers::CollBuffers::set_waiting)
    /// as waiting for room.
    waits: bool,
    published: bool,
    /// Members, in order, that are known to have arrived.
    arrived: usize,
}

impl PshmBarrier {
    /// Begins the barrier.
    pub fn new(team: &'static PshmTeam) -> Self {
        Self {
            pshm_call: team.begin(0, 1, 1),
            flat: choose::barrier_is_flat(team.count(), wait::is_oversubscribed()),
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
    /// Publishes this member's inline slot and arrives at the first sequence number, for which
    /// there is room. Returns whether it is the last to arrive.
    pub(super) fn arrive(self) -> bool {
        self.team.buffers().publish(self.start);
        self.team.buffers().arrive(self.start)
    }

    /// The last arrival releases the others.
    pub(super) fn complete(self) {
        self.team.buffers().complete(self.start);
        (0..self.team.count()).for_each(|member| self.team.wake(member));
    }

    /// The last member to arrive, if all have.
    pub(super) fn completed_by(self) -> Option<usize> {
        let last = self.team.buffers().completed_by(self.start);
        if last.is_none() {
            self.team.note_first_missing(self.start);
        }
        last
    }
}

/// Begins a barrier with a critical section ([`around`]).
pub fn begin_around(team: &'static PshmTeam) -> PshmCall {
    team.begin(0, 1, 2)
}

/// Completes when all members have arrived and member 0 has then run `middle`.
pub async fn around(pshm_call: PshmCall, middle: impl Future<Output = ()>) {
    let release = pshm_call.start + 1;
    pshm_call.wait_room(pshm_call.start, 0).await;
    if pshm_call.arrive() {
        // Only member 0 waits for this.
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
