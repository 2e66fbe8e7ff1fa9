use super::*;
use crate::wire::Kind;
use gasnet_conduit::Class;
const NOTHING_RECEIVED: Sack = Sack { next: 0, bitmap: 0 };

fn header() -> Header {
    Header {
        job: 1,
        kind: Kind::Data,
        class: Class::Request,
        flags: 0,
        source: JobRank(0),
        number: 0,
        message: 10,
        part: 0,
        parts: 1,
        sacks: PerClass::default(),
    }
}

const CONTEXT: BatchContext = BatchContext {
    target: JobRank(1),
    sacks: PerClass::new(NOTHING_RECEIVED, NOTHING_RECEIVED),
    ack_now: false,
    now: 0,
};

fn at(now: u64) -> BatchContext {
    BatchContext { now, ..CONTEXT }
}

/// Sends what is queued, one by one. Returns the numbers.
fn send(out: &mut SendWindow, now: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while out.has_queued() {
        let batch = out.next_batch(0, true);
        numbers.push(out.last_number(&batch));
        out.send(&Keys::new(1, b""), &batch, at(now), &mut |batch| batch.len());
    }
    numbers
}

/// A window with `count` datagrams of 10 bytes, number i sent at 100 × i.
fn with(count: usize) -> SendWindow {
    let mut out = SendWindow::default();
    for i in 0..count {
        out.push(header(), Body::Copied(vec![i as u8; 10], i as u64), None);
        assert_eq!(send(&mut out, 100 * i as u64), [i as u64]);
    }
    out
}

#[test]
fn batches_end_at_the_window_or_a_gap() {
    let mut out = SendWindow::default();
    for i in 0..SEND_BATCH + 10 {
        out.push(header(), Body::Copied(vec![0; 10], i as u64), None);
    }
    assert_eq!(out.next_batch(1000, false).bytes, 10 * SEND_BATCH);
    assert!(out.next_batch(9, false).is_empty());
    assert_eq!(out.next_batch(9, true).bytes, 10);
    let batch = out.next_batch(55, false);
    assert_eq!((batch.bytes, (out.last_number(&batch), batch.len())), (50, (4, 5)));
    // Three of them are sent; number 1 is acknowledged.
    let keys = Keys::new(1, b"");
    assert_eq!(out.send(&keys, &batch, at(5), &mut |_| 3), 3);
    assert_eq!((out.in_flight_bytes, out.queued()), (30, SEND_BATCH + 7));
    let mut outcome = out.on_sack(sack(0, 1), 6, &mut Vec::new()).unwrap();
    assert_eq!(outcome.acked_bytes, 10);
    out.detect_losses(0, &mut outcome);
    out.probe(true);
    let batch = out.next_batch(1000, false);
    assert_eq!((out.last_number(&batch), batch.len()), (0, 1));
}

fn sack(next: u64, bitmap: u64) -> Sack {
    Sack { next, bitmap }
}

#[test]
fn acknowledged_datagrams_are_released_and_measured() {
    let mut out = with(5);
    let mut free = Vec::new();
    assert_eq!(
        (out.in_flight_bytes, out.copied_bytes, out.has_queued()),
        (50, 50, false)
    );
    let outcome = out.on_sack(sack(2, 0b10), 1000, &mut free).unwrap();
    // Number 4 is acknowledged; number 2, the first that is missing, and 3 are not.
    assert_eq!((outcome.acked_bytes, outcome.rtt, free.len()), (30, Some(600), 2));
    assert_eq!((out.in_flight_bytes, out.copied_bytes), (20, 30));
    // A repeated acknowledgement has no effect.
    assert_eq!(
        out.on_sack(sack(2, 0b10), 1000, &mut free).unwrap(),
        AckOutcome::default()
    );
    assert_eq!(out.on_sack(sack(1, 0), 1000, &mut free).unwrap(), AckOutcome::default());
    assert_eq!(out.on_sack(sack(5, 0), 1000, &mut free).unwrap().acked_bytes, 20);
    assert!(out.is_empty() && out.in_flight_bytes == 0 && out.copied_bytes == 0);
}

#[test]
fn acknowledgements_of_unsent_data_are_refused() {
    let mut out = with(3);
    assert_eq!(out.on_sack(sack(4, 0), 0, &mut Vec::new()), None);
    assert_eq!(out.on_sack(sack(1, 0b10), 0, &mut Vec::new()), None);
    assert_eq!(out.on_sack(sack(0, 0b101), 0, &mut Vec::new()), None);
    assert_eq!(out.on_sack(sack(u64::MAX, 1 << 63), 0, &mut Vec::new()), None);
    assert_eq!(out.on_sack_word(0, 1, 1, 0), AckOutcome::default());
    assert_eq!((out.in_flight_bytes, out.len()), (30, 3));
}

#[test]
fn lost_datagrams_are_retransmitted_first() {
    let mut out = with(8);
    let mut outcome = out.on_sack(sack(1, 0b1_1100), 2000, &mut Vec::new()).unwrap();
    // Numbers 4, 5 and 6 are acknowledged: 1, 2 and 3 were sent at least three transmissions before
    // the last of them.
    out.detect_losses(u64::MAX / 2, &mut outcome);
    assert_eq!((outcome.lost_bytes, outcome.first_lost), (30, Some(1)));
    assert_eq!(send(&mut out, 3000), [1, 2, 3]);
    // Their retransmissions are later than 6's: 7 is lost when one of them is acknowledged some
    // time later.
    let mut outcome = out.on_sack(sack(2, 0b1110), 3100, &mut Vec::new()).unwrap();
    assert_eq!(outcome.rtt, None);
    out.detect_losses(1000, &mut outcome);
    assert_eq!((outcome.first_lost, out.in_flight_bytes), (Some(7), 20));
}

#[test]
fn a_probe_is_the_first_datagram_or_everything() {
    let mut out = with(4);
    assert_eq!(out.probe(false).first_lost, Some(0));
    let batch = out.next_batch(0, true);
    assert_eq!((out.in_flight_bytes, out.last_number(&batch)), (30, 0));
    assert_eq!(out.probe(true).lost_bytes, 30);
    assert_eq!(out.in_flight_bytes, 0);
    // A datagram that was declared lost is acknowledged.
    assert_eq!(out.on_sack(sack(4, 0), 9, &mut Vec::new()).unwrap().acked_bytes, 40);
    assert!(!out.has_queued() && out.is_empty());
}

#[test]
fn an_ack_of_a_probe_may_be_that_of_the_first_transmission() {
    for others_come in [true, false] {
        let mut out = with(10);
        out.probe(false);
        assert_eq!(send(&mut out, 5_000), [0]);
        // The peer was descheduled, and processes one datagram after the other.
        let mut outcome = out.on_sack(sack(3, 0), 5_100, &mut Vec::new()).unwrap();
        assert!(!out.resolve_ambiguous(500, 5_100));
        out.detect_losses(500, &mut outcome);
        assert_eq!((outcome.lost_bytes, out.in_flight_bytes), (0, 70));
        if others_come {
            out.on_sack(sack(10, 0), 5_200, &mut Vec::new()).unwrap();
            assert!(!out.resolve_ambiguous(500, 5_700) && out.is_empty());
            continue;
        }
        // Or the peer received no more than these.
        assert!(!out.resolve_ambiguous(500, 5_599) && out.resolve_ambiguous(500, 5_600));
        let mut outcome = AckOutcome::default();
        out.detect_losses(500, &mut outcome);
        assert_eq!((outcome.lost_bytes, out.in_flight_bytes), (70, 0));
        assert!(!out.resolve_ambiguous(500, 9_000));
    }
}

#[test]
fn the_window_is_bounded() {
    let mut out = with(WINDOW);
    assert!(!out.has_room(1));
    out.on_sack(sack(10, 0), 0, &mut Vec::new()).unwrap();
    assert!(out.has_room(10) && !out.has_room(11));
}
