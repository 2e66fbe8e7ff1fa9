//! `src/shm/ring.rs`.

use std::sync::Arc;

use loom::thread;

use crate::shm::memory::{read_record, write_record, RingMemory};
use crate::shm::ring::{Consumer, Producer};

fn ring(units: usize) -> (Arc<Producer>, Consumer) {
    let memory = RingMemory::with_units(units);
    (Arc::new(Producer::new(memory.clone())), Consumer::new(memory))
}

fn push(producer: &Producer, units: usize, value: u8) -> bool {
    let Some(reservation) = producer.reserve(units) else {
        return false;
    };
    write_record(reservation.bytes(), units, u32::from(value));
    reservation.publish(1, value);
    true
}

fn push_when_there_is_room(producer: &Producer, units: usize, value: u8) {
    while !push(producer, units, value) {
        thread::yield_now();
    }
}

/// The next record's value, if there is one.
fn pop(consumer: &mut Consumer) -> Option<u8> {
    let (word, record) = consumer.peek().expect("a record that no producer wrote")?;
    assert_eq!(word.kind, 1, "the remains of a payload were taken for a record");
    assert_eq!(read_record(record, usize::from(word.units)), u32::from(word.small));
    consumer.advance(word.units);
    Some(word.small)
}

fn pop_wait(consumer: &mut Consumer) -> u8 {
    loop {
        if let Some(value) = pop(consumer) {
            return value;
        }
        thread::yield_now();
    }
}

/// Afterwards, the ring must be in its initial state: checks a whole lap, record by record.
fn lap(producer: &Producer, consumer: &mut Consumer, units: usize) {
    for i in 0..=units as u8 {
        assert_eq!(pop(consumer), None);
        assert!(push(producer, 1, 100 + i));
        assert_eq!(pop(consumer), Some(100 + i));
    }
}

/// Records of one and two units from two threads, at the end of the ring: one order needs a SKIP.
/// Catches: publication not release; peek not acquire; first words not cleared.
pub fn two_producers_wrap_around() {
    let (producer, mut consumer) = ring(4);
    for i in 0..3 {
        assert!(push(&producer, 1, i));
        assert_eq!(pop(&mut consumer), Some(i));
    }
    let threads = [(2, 10), (1, 20)].map(|(units, value)| {
        let producer = Arc::clone(&producer);
        thread::spawn(move || push_when_there_is_room(&producer, units, value))
    });
    let mut got = [pop_wait(&mut consumer), pop_wait(&mut consumer)];
    got.sort_unstable();
    assert_eq!(got, [10, 20]);
    threads.into_iter().for_each(|t| t.join().unwrap());
    lap(&producer, &mut consumer, 4);
}

/// Two threads find a ring full. One sees the consumer's progress and passes it on in `head_seen`;
/// the other then reuses units whose release it did not see itself.
/// Catches: head not release; head or `head_seen` not acquire; `head_seen` not release.
pub fn reuse() {
    let (producer, mut consumer) = ring(2);
    assert!(push(&producer, 1, 1) && push(&producer, 1, 2));
    let threads = [3, 4].map(|value| {
        let producer = Arc::clone(&producer);
        // No retry: loom would explore every number of attempts.
        thread::spawn(move || push(&producer, 1, value))
    });
    assert_eq!([pop(&mut consumer), pop(&mut consumer)], [Some(1), Some(2)]);
    let sent = threads.map(|t| t.join().unwrap()).iter().filter(|&&sent| sent).count();
    for _ in 0..sent {
        assert!(pop(&mut consumer) > Some(2));
    }
    lap(&producer, &mut consumer, 2);
}

/// A producer that waits for room gets it.
pub fn full() {
    let (producer, mut consumer) = ring(2);
    assert!(push(&producer, 1, 0));
    let thread = {
        let producer = Arc::clone(&producer);
        thread::spawn(move || (1..4).for_each(|i| push_when_there_is_room(&producer, 1, i)))
    };
    for i in 0..4 {
        assert_eq!(pop_wait(&mut consumer), i);
    }
    thread.join().unwrap();
    lap(&producer, &mut consumer, 2);
}
