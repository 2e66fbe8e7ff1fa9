//! Meetings in shared memory.
//!
//! A few members look at each other, which takes one step. More of them count themselves in a tree of counters, and the last to come tells the others:
//! nobody waits on the way, and nobody looks at many.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Near, Passage, Readers};
use crate::coll::{choose, until};

/// A meeting of neighbours.
///
/// Not an async function, because those stay where they were first polled: this one is polled on the stack, and needs no memory when all come
/// at about the same time.
#[derive(Debug)]
pub struct Meeting {
    passage: Passage,
    /// Whether members look at each other.
    flat: bool,
    /// Whether others know that it waits for room.
    waits: bool,
    shown: bool,
    /// Members that are known to have come.
    come: usize,
}

impl Meeting {
    /// This member comes.
    pub fn new(near: &'static Near) -> Self {
        Self {
            passage: near.enter(0, 1, 1),
            flat: choose::meets_flat(near.count()),
            waits: false,
            shown: false,
            come: 0,
        }
    }
}

impl Future for Meeting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let passage = self.passage;
        let (lanes, position) = (&passage.near.lanes, passage.start);
        if !self.shown {
            if !lanes.has_room(position) {
                if !self.waits {
                    lanes.wait(true);
                    self.waits = true;
                }
                return Poll::Pending;
            }
            if self.waits {
                lanes.wait(false);
            }
            if self.flat {
                passage.show_among_all(position);
            } else if passage.come() {
                passage.finish();
            }
            self.shown = true;
        }
        if !self.flat {
            if passage.finished().is_none() {
                return Poll::Pending;
            }
            passage.leave();
            return Poll::Ready(());
        }
        while self.come < lanes.count() {
            if !lanes.shows(self.come, position) {
                passage.near.note_missing(self.come);
                return Poll::Pending;
            }
            self.come += 1;
        }
        lanes.learn(position);
        passage.leave();
        Poll::Ready(())
    }
}

impl Passage {
    /// This member comes at the first position, for which there is room, and shows what it brings. Whether it is the last of all.
    pub(super) fn come(self) -> bool {
        self.near.lanes.show(self.start);
        self.near.lanes.come(self.start)
    }

    /// The last to come tells all others.
    pub(super) fn finish(self) {
        self.near.lanes.finish(self.start);
        (0..self.near.count()).for_each(|member| self.near.wake(member));
    }

    /// Who came last, if all have come.
    pub(super) fn finished(self) -> Option<usize> {
        let last = self.near.lanes.finished(self.start);
        if last.is_none() {
            self.near.note_first_missing(self.start);
        }
        last
    }
}

/// Takes the positions of a meeting with something in its middle.
pub fn enter(near: &'static Near) -> Passage {
    near.enter(0, 1, 2)
}

/// Complete when all members have come; then member 0 does `middle` before the others go on.
pub async fn around(meeting: Passage, middle: impl Future<Output = ()>) {
    let release = meeting.start + 1;
    meeting.room(meeting.start, 0).await;
    if meeting.come() {
        // Only member 0 looks.
        meeting.near.lanes.finish(meeting.start);
        meeting.near.wake(0);
    }
    if meeting.is_at(0) {
        until(|| meeting.finished().is_some()).await;
        middle.await;
        meeting.room(release, 0).await;
        meeting.show(release, Readers::All);
    } else {
        meeting.shown(0, release).await;
    }
    meeting.leave();
}
