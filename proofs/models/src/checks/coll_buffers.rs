//! `src/shm/coll_buffers.rs`.

use std::sync::Arc;

use loom::thread;

use crate::shm::coll_buffers::CollBuffers;
use crate::shm::memory::{CollBufferMemory, SLOTS};

/// Both members' views of a team.
fn pair() -> [Arc<CollBuffers>; 2] {
    let buffers: [CollBufferMemory; 2] = std::array::from_fn(|_| CollBufferMemory::default());
    [0, 1].map(|me| Arc::new(CollBuffers::new(buffers.to_vec().into(), me)))
}

fn wait(mut ready: impl FnMut() -> bool) {
    while !ready() {
        thread::yield_now();
    }
}

/// Checks twice, and lets other threads run in between.
fn at_most_twice(mut ready: impl FnMut() -> bool) -> bool {
    ready() || {
        thread::yield_now();
        ready()
    }
}

fn write(buffers: &CollBuffers, seq: u64) {
    let (buffer, slot) = buffers.slot_of(buffers.me(), seq);
    // SAFETY: loom checks for concurrent access.
    buffer.data(slot).with_mut(|data| unsafe { *data = seq as u32 + 100 });
}

fn read(buffers: &CollBuffers, member: usize, seq: u64) {
    let (buffer, slot) = buffers.slot_of(member, seq);
    // SAFETY: loom checks for concurrent writes.
    let data = buffer.data(slot).with(|data| unsafe { *data });
    assert_eq!(data, seq as u32 + 100);
}

/// One member publishes more than there are slots, the other reads.
/// Catches: `publish` not release; `has_published` not acquire; `retire` not release; the load of
/// other members' retired words not acquire.
pub fn one_publishes() {
    const COUNT: u64 = SLOTS as u64 + 2;
    let [writer, reader] = pair();
    writer.retire(COUNT);
    let other = thread::spawn(move || {
        for seq in 0..COUNT {
            wait(|| reader.has_published(0, seq));
            read(&reader, 0, seq);
            reader.retire(seq + 1);
        }
    });
    for seq in 0..COUNT {
        wait(|| writer.has_room(seq));
        write(&writer, seq);
        writer.publish(seq);
    }
    wait(|| writer.has_retired(1, COUNT));
    other.join().unwrap();
}

/// Both members publish into all free slots, and learn of more room from the retired values in the
/// other's slots.
/// Catches: reuse of a slot because the other member has *published* a sequence number, though it
/// has not read it.
pub fn all_publish() {
    const AHEAD: u64 = SLOTS as u64;
    let take_part = |buffers: &CollBuffers| {
        let other = 1 - buffers.me();
        for seq in 0..AHEAD {
            write(buffers, seq);
            buffers.publish(seq);
        }
        wait(|| buffers.has_published(other, 0));
        buffers.learn_room(0);
        if buffers.has_known_room(AHEAD) {
            write(buffers, AHEAD);
        }
        read(buffers, other, 0);
        buffers.retire(1);
        wait(|| buffers.has_room(AHEAD));
        write(buffers, AHEAD);
        buffers.publish(AHEAD);
        wait(|| buffers.has_published(other, AHEAD));
        buffers.learn_room(AHEAD);
        read(buffers, other, AHEAD);
    };
    let [a, b] = pair();
    let other = thread::spawn(move || take_part(&b));
    take_part(&a);
    other.join().unwrap();
}

/// One thread of the reader reads and retires. Another thread of the reader publishes, and for
/// brevity also acts as a thread of the writer that finds room. A third thread writes there.
/// Catches: retired value not acquired by the thread that publishes it; `room` not release or not
/// acquire.
pub fn threads() {
    let [writer, reader] = pair();
    writer.retire(SLOTS as u64);
    for seq in 0..SLOTS as u64 {
        write(&writer, seq);
        writer.publish(seq);
    }
    let reads = {
        let reader = Arc::clone(&reader);
        thread::spawn(move || {
            read(&reader, 0, 0);
            reader.retire(1);
        })
    };
    let finds = {
        let writer = Arc::clone(&writer);
        thread::spawn(move || {
            at_most_twice(|| {
                reader.publish(0);
                writer.learn_room(0);
                writer.has_known_room(SLOTS as u64)
            });
        })
    };
    // Not `has_room`, which would read the retired words itself.
    if at_most_twice(|| writer.has_known_room(SLOTS as u64)) {
        write(&writer, SLOTS as u64);
    }
    reads.join().unwrap();
    finds.join().unwrap();
}

/// Both members publish and arrive; the last arrival reads first and releases the other. Twice per
/// slot.
/// Catches: `arrive` not acquire or not release; `complete` not release; `completed_by` not
/// acquire.
pub fn all_arrive() {
    let take_part = |buffers: &CollBuffers| {
        for seq in [0, SLOTS as u64] {
            wait(|| buffers.has_room(seq));
            write(buffers, seq);
            if buffers.arrive(seq) {
                read(buffers, 1 - buffers.me(), seq);
                buffers.complete(seq);
            } else {
                wait(|| buffers.completed_by(seq).is_some());
                assert_eq!(buffers.completed_by(seq), Some(1 - buffers.me()));
                read(buffers, 1 - buffers.me(), seq);
            }
            buffers.retire(seq + 1);
        }
    };
    let [a, b] = pair();
    let other = thread::spawn(move || take_part(&b));
    take_part(&a);
    other.join().unwrap();
}
