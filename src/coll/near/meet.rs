//! Meetings in shared memory.
//!
//! A few members look at each other, which takes one step. More of them meet in a tree (Mellor-Crummey and Scott 1991, section 3.4: local words,
//! one writer each) whose root everybody watches for the release.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Near, Passage, Readers};
use crate::coll::choose::MEETING_RADIX;

/// A meeting of few members.
///
/// Not an async function, because those stay where they were first polled: this one is polled on the stack, and needs no memory when all come
/// at about the same time.
#[derive(Debug)]
pub struct Flat {
    passage: Passage,
    /// Whether others know that it waits for room.
    waits: bool,
    shown: bool,
    /// Members that are known to have come.
    come: usize,
}

impl Flat {
    /// This member comes.
    pub fn new(near: &'static Near) -> Self {
        Self {
            passage: near.enter(0, 1, 1),
            waits: false,
            shown: false,
            come: 0,
        }
    }
}

impl Future for Flat {
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
            passage.show_among_all(position);
            self.shown = true;
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

/// Takes the positions of a meeting in a tree.
pub fn enter(near: &'static Near) -> Passage {
    near.enter(0, 1, 2)
}

/// Complete when all members have come; then member 0 does `middle` before the others go on.
pub async fn around(meeting: Passage, middle: impl Future<Output = ()>) {
    let (me, count, release) = (meeting.near.me(), meeting.near.count(), meeting.start + 1);
    for child in (me * MEETING_RADIX + 1..=me * MEETING_RADIX + MEETING_RADIX).take_while(|&child| child < count) {
        meeting.shown(child, meeting.start).await;
    }
    if me == 0 {
        middle.await;
        meeting.room(release, 0).await;
        meeting.show(release, Readers::All);
    } else {
        meeting.room(meeting.start, 0).await;
        meeting.show(meeting.start, Readers::One((me - 1) / MEETING_RADIX));
        meeting.shown(0, release).await;
    }
    meeting.leave();
}
