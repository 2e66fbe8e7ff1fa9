//! `src/shm/coll_buffers.rs`.

use std::sync::Arc;

use loom::thread;

use crate::shm::coll_buffers::Lanes;
use crate::shm::memory::{LaneMemory, SLOTS};

/// The views of both members of a team.
fn pair() -> [Arc<Lanes>; 2] {
    let lanes: [LaneMemory; 2] = std::array::from_fn(|_| LaneMemory::default());
    [0, 1].map(|me| Arc::new(Lanes::new(lanes.to_vec().into(), me)))
}

fn wait(mut ready: impl FnMut() -> bool) {
    while !ready() {
        thread::yield_now();
    }
}

/// Whether it became so in the course of two looks, between which others had their turn.
fn at_most_twice(mut ready: impl FnMut() -> bool) -> bool {
    ready() || {
        thread::yield_now();
        ready()
    }
}

fn write(lanes: &Lanes, position: u64) {
    let (lane, slot) = lanes.place(lanes.me(), position);
    // SAFETY: loom checks that nobody else is at it.
    lane.data(slot).with_mut(|data| unsafe { *data = position as u32 + 100 });
}

fn read(lanes: &Lanes, member: usize, position: u64) {
    let (lane, slot) = lanes.place(member, position);
    // SAFETY: loom checks that nobody writes meanwhile.
    let data = lane.data(slot).with(|data| unsafe { *data });
    assert_eq!(data, position as u32 + 100);
}

/// One member shows more than there are slots, the other looks. Catches: `show` not release, `shows` not acquire, `pass` not release, the look
/// at what others have passed not acquire.
pub fn one_shows() {
    const POSITIONS: u64 = SLOTS as u64 + 2;
    let [writer, reader] = pair();
    writer.pass(POSITIONS);
    let other = thread::spawn(move || {
        for position in 0..POSITIONS {
            wait(|| reader.shows(0, position));
            read(&reader, 0, position);
            reader.pass(position + 1);
        }
    });
    for position in 0..POSITIONS {
        wait(|| writer.has_room(position));
        write(&writer, position);
        writer.show(position);
    }
    wait(|| writer.has_passed(1, POSITIONS));
    other.join().unwrap();
}

/// Both show all that has room, and find more by what the other says beside its positions. Catches: a slot that is used again because the other
/// *shows* a position, though it has not looked at it.
pub fn all_show() {
    const AHEAD: u64 = SLOTS as u64;
    let take_part = |lanes: &Lanes| {
        let other = 1 - lanes.me();
        for position in 0..AHEAD {
            write(lanes, position);
            lanes.show(position);
        }
        wait(|| lanes.shows(other, 0));
        lanes.learn(0);
        if lanes.knows_room(AHEAD) {
            write(lanes, AHEAD);
        }
        read(lanes, other, 0);
        lanes.pass(1);
        wait(|| lanes.has_room(AHEAD));
        write(lanes, AHEAD);
        lanes.show(AHEAD);
        wait(|| lanes.shows(other, AHEAD));
        lanes.learn(AHEAD);
        read(lanes, other, AHEAD);
    };
    let [a, b] = pair();
    let other = thread::spawn(move || take_part(&b));
    take_part(&a);
    other.join().unwrap();
}

/// One thread of the reader looks and passes; another one shows, and in its place a thread of the writer finds room; another one writes there. Catches: what is
/// passed not acquired by the thread that says it; `room` not release or not acquire.
pub fn threads() {
    let [writer, reader] = pair();
    writer.pass(SLOTS as u64);
    for position in 0..SLOTS as u64 {
        write(&writer, position);
        writer.show(position);
    }
    let looks = {
        let reader = Arc::clone(&reader);
        thread::spawn(move || {
            read(&reader, 0, 0);
            reader.pass(1);
        })
    };
    let finds = {
        let writer = Arc::clone(&writer);
        thread::spawn(move || {
            at_most_twice(|| {
                reader.show(0);
                writer.learn(0);
                writer.knows_room(SLOTS as u64)
            });
        })
    };
    // Not `has_room`, which would look for itself.
    if at_most_twice(|| writer.knows_room(SLOTS as u64)) {
        write(&writer, SLOTS as u64);
    }
    looks.join().unwrap();
    finds.join().unwrap();
}

/// Both show something and come; who comes last looks first and tells the other, twice in a slot. Catches: `come` not acquire or not release, `finish`
/// not release, `finished` not acquire.
pub fn all_come() {
    let take_part = |lanes: &Lanes| {
        for position in [0, SLOTS as u64] {
            wait(|| lanes.has_room(position));
            write(lanes, position);
            if lanes.come(position) {
                read(lanes, 1 - lanes.me(), position);
                lanes.finish(position);
            } else {
                wait(|| lanes.finished(position).is_some());
                assert_eq!(lanes.finished(position), Some(1 - lanes.me()));
                read(lanes, 1 - lanes.me(), position);
            }
            lanes.pass(position + 1);
        }
    };
    let [a, b] = pair();
    let other = thread::spawn(move || take_part(&b));
    take_part(&a);
    other.join().unwrap();
}
