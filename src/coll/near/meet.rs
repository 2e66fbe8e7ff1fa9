//! Meetings in shared memory.
//!
//! A few members look at each other, which takes one step. More of them meet in a tree (Mellor-Crummey and Scott 1991, section 3.4: local words,
//! one writer each) whose root everybody watches for the release.

use std::future::Future;

use super::{Near, Passage};
use crate::coll::choose::{meets_flat, MEETING_RADIX};

/// Takes the positions of a meeting.
pub fn enter(near: &'static Near) -> Passage {
    near.enter(0, 1, 2)
}

/// Complete when all members have come.
pub async fn all(meeting: Passage) {
    if !meets_flat(meeting.near.count()) {
        return around(meeting, async {}).await;
    }
    meeting.room(meeting.start, 0).await;
    meeting.show(meeting.start);
    for member in 0..meeting.near.count() {
        meeting.shown(member, meeting.start).await;
    }
    meeting.leave();
}

/// The same; when all have come, member 0 does `middle` before the others go on.
pub async fn around(meeting: Passage, middle: impl Future<Output = ()>) {
    let (me, count, release) = (meeting.near.me(), meeting.near.count(), meeting.start + 1);
    for child in (me * MEETING_RADIX + 1..=me * MEETING_RADIX + MEETING_RADIX).take_while(|&child| child < count) {
        meeting.shown(child, meeting.start).await;
    }
    if me == 0 {
        middle.await;
        meeting.room(release, 0).await;
        meeting.show(release);
    } else {
        meeting.room(meeting.start, 0).await;
        meeting.show(meeting.start);
        meeting.shown(0, release).await;
    }
    meeting.leave();
}
