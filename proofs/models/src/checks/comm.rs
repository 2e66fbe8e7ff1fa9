//! `src/shm/comm.rs`: pending masks and sleep.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use crate::atomic::{AtomicU32, Ordering};
use crate::shm::comm::{Comm, Disposal, Record, Sink};
use crate::shm::layout::Layout;
use crate::shm::memory::{read_record, write_record, CommMemory};
use crate::shm::ring::Word;
use crate::{Class, PollScope};

/// The received values, in order.
#[derive(Default)]
struct Got(Vec<u32>);

impl Sink for Got {
    fn record(&mut self, _: usize, _: Class, word: Word, record: *mut u8) -> Disposal {
        self.0.push(read_record(record, usize::from(word.units)));
        Disposal::Done
    }

    fn run(&mut self) {}

    fn corrupt(&mut self, source: usize) -> ! {
        panic!("rank {source} wrote an invalid record");
    }
}

/// The views of all `ranks` of the same memory.
fn views(ranks: usize) -> Vec<Arc<Comm>> {
    let memory = CommMemory::with_layout(Layout { ranks, units: 4 });
    (0..ranks).map(|r| Arc::new(Comm::new(memory.clone(), r))).collect()
}

fn send(view: &Comm, target: usize, value: u32) {
    let record = Record {
        class: Class::Request,
        kind: 1,
        small: 0,
        bytes: 64,
    };
    view.send(target, record, |bytes| write_record(bytes, 1, value))
        .expect("there is room");
}

/// Receives until `count` values have arrived; sleeps when there is nothing. A lost wake-up is a
/// deadlock.
fn receive(view: &Comm, count: usize) -> Vec<u32> {
    let mut got = Got::default();
    loop {
        view.poll(PollScope::All, &mut got);
        if got.0.len() >= count {
            return got.0;
        }
        view.sleep(Duration::ZERO, PollScope::All, || false);
    }
}

/// The first message has set the pending bit when another is sent, while the receiver polls. If
/// that poll missed the message, the bit must be set again.
/// Catches: no fence between publication and the load of the pending mask; no fence between its
/// exchange and the load of the ring.
pub fn pending_masks() {
    let views = views(2);
    send(&views[0], 1, 1);
    let receiver = {
        let view = Arc::clone(&views[1]);
        thread::spawn(move || {
            let mut got = Got::default();
            view.poll(PollScope::All, &mut got);
            got
        })
    };
    send(&views[0], 1, 2);
    let mut got = receiver.join().unwrap();
    if got.0.len() < 2 {
        assert!(
            views[1].pending(PollScope::All),
            "a record is in the ring, but its pending bit is clear"
        );
        views[1].poll(PollScope::All, &mut got);
    }
    assert_eq!(got.0, [1, 2]);
}

/// One rank, which scans its rings: one thread sends, another sleeps.
/// Catches: no fence on either side; checking before the announcement; sending before publication.
pub fn sleep_and_scan() {
    let view = views(1).remove(0);
    let sender = {
        let view = Arc::clone(&view);
        thread::spawn(move || (1..3).for_each(|value| send(&view, 0, value)))
    };
    assert_eq!(receive(&view, 2), [1, 2]);
    sender.join().unwrap();
}

/// The same with pending masks.
pub fn sleep_and_pending_mask() {
    let views = views(2);
    let sender = {
        let view = Arc::clone(&views[0]);
        thread::spawn(move || (1..3).for_each(|value| send(&view, 1, value)))
    };
    assert_eq!(receive(&views[1], 2), [1, 2]);
    sender.join().unwrap();
}

/// Two threads of a rank announce a sleep. One finds work and leaves; the other must still be
/// woken.
/// Catches: withdrawing an announcement under which another thread sleeps; announcements without
/// rounds (a waker resets the word, a second thread announces, and the first goes to sleep after
/// its wake-up).
pub fn two_sleepers() {
    let view = views(1).remove(0);
    let flag = Arc::new(AtomicU32::new(0));
    let leaves = {
        let view = Arc::clone(&view);
        // It finds the work after its announcement.
        let announced = Cell::new(false);
        thread::spawn(move || view.sleep(Duration::ZERO, PollScope::All, || announced.replace(true)))
    };
    let sleeps = {
        let (view, flag) = (Arc::clone(&view), Arc::clone(&flag));
        thread::spawn(move || view.sleep(Duration::ZERO, PollScope::All, || flag.load(Ordering::Acquire) == 1))
    };
    flag.store(1, Ordering::Release);
    view.wake(0);
    leaves.join().unwrap();
    sleeps.join().unwrap();
}
