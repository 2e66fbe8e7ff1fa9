use super::*;
use crate::wire::Kind;

fn header() -> Header {
    Header {
        job: 1,
        kind: Kind::Data,
        class: 0,
        flags: 0,
        source: 0,
        number: 0,
        message: 10,
        part: 0,
        parts: 1,
        have: [Have::default(); 2],
    }
}

const WORD: Word = Word {
    target: 1,
    have: [Have { next: 0, beyond: 0 }; 2],
    asks: false,
};

/// Sends what waits, one by one; the numbers.
fn send(out: &mut Outgoing, now: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while out.waits() {
        let run = out.run(0, true);
        numbers.push(out.last(&run).0);
        out.send(&Keys::new(1, b""), &run, WORD, now, &mut |run| run.len());
    }
    numbers
}

/// With `count` datagrams of 10 bytes, number i sent at 100 × i.
fn with(count: usize) -> Outgoing {
    let mut out = Outgoing::default();
    for i in 0..count {
        out.push(header(), Body::Own(vec![i as u8; 10], i as u64), None);
        assert_eq!(send(&mut out, 100 * i as u64), [i as u64]);
    }
    out
}

#[test]
fn runs_end_where_room_or_order_ends() {
    let mut out = Outgoing::default();
    for i in 0..RUN + 10 {
        out.push(header(), Body::Own(vec![0; 10], i as u64), None);
    }
    assert_eq!(out.run(1000, false).bytes, 10 * RUN);
    assert!(out.run(9, false).is_empty());
    assert_eq!(out.run(9, true).bytes, 10);
    let run = out.run(55, false);
    assert_eq!((run.bytes, out.last(&run)), (50, (4, 5)));
    // Three of them go; number 1 comes.
    let keys = Keys::new(1, b"");
    assert_eq!(out.send(&keys, &run, WORD, 5, &mut |_| 3), 3);
    assert_eq!((out.flight, out.waiting()), (30, RUN + 7));
    let mut news = out.acknowledged(have(0, 1), 6, &mut Vec::new()).unwrap();
    assert_eq!(news.bytes, 10);
    out.find_lost(0, &mut news);
    out.probe(true);
    let run = out.run(1000, false);
    assert_eq!(out.last(&run), (0, 1));
}

fn have(next: u64, beyond: u64) -> Have {
    Have { next, beyond }
}

#[test]
fn what_has_come_is_forgotten_and_measured() {
    let mut out = with(5);
    let mut free = Vec::new();
    assert_eq!((out.flight, out.kept, out.waits()), (50, 50, false));
    let news = out.acknowledged(have(2, 0b10), 1000, &mut free).unwrap();
    // Number 4 has come; number 2, the first that is missing, and 3 have not.
    assert_eq!((news.bytes, news.round_trip, free.len()), (30, Some(600), 2));
    assert_eq!((out.flight, out.kept), (20, 30));
    // The same again is no news.
    assert_eq!(out.acknowledged(have(2, 0b10), 1000, &mut free).unwrap(), News::default());
    assert_eq!(out.acknowledged(have(1, 0), 1000, &mut free).unwrap(), News::default());
    assert_eq!(out.acknowledged(have(5, 0), 1000, &mut free).unwrap().bytes, 20);
    assert!(out.is_empty() && out.flight == 0 && out.kept == 0);
}

#[test]
fn acknowledgements_of_nothing_are_refused() {
    let mut out = with(3);
    assert_eq!(out.acknowledged(have(4, 0), 0, &mut Vec::new()), None);
    assert_eq!(out.acknowledged(have(1, 0b10), 0, &mut Vec::new()), None);
    assert_eq!(out.acknowledged(have(0, 0b101), 0, &mut Vec::new()), None);
    assert_eq!(out.acknowledged(have(u64::MAX, 1 << 63), 0, &mut Vec::new()), None);
    assert_eq!(out.acknowledged_beyond(0, 1, 1, 0), News::default());
    assert_eq!((out.flight, out.len()), (30, 3));
}

#[test]
fn lost_ones_are_sent_again_first() {
    let mut out = with(8);
    let mut news = out.acknowledged(have(1, 0b1_1100), 2000, &mut Vec::new()).unwrap();
    // Numbers 4, 5 and 6 have come: 1, 2 and 3 were sent at least three sendings before the last of them.
    out.find_lost(u64::MAX / 2, &mut news);
    assert_eq!((news.lost, news.lost_number), (30, Some(1)));
    assert_eq!(send(&mut out, 3000), [1, 2, 3]);
    // Their second sendings are later than 6's: 7 is lost when one of them comes some time later.
    let mut news = out.acknowledged(have(2, 0b1110), 3100, &mut Vec::new()).unwrap();
    assert_eq!(news.round_trip, None);
    out.find_lost(1000, &mut news);
    assert_eq!((news.lost_number, out.flight), (Some(7), 20));
}

#[test]
fn a_probe_is_the_first_or_everything() {
    let mut out = with(4);
    assert_eq!(out.probe(false).lost_number, Some(0));
    let run = out.run(0, true);
    assert_eq!((out.flight, out.last(&run).0), (30, 0));
    assert_eq!(out.probe(true).lost, 30);
    assert_eq!(out.flight, 0);
    // What was thought lost comes all the same.
    assert_eq!(out.acknowledged(have(4, 0), 9, &mut Vec::new()).unwrap().bytes, 40);
    assert!(!out.waits() && out.is_empty());
}

#[test]
fn an_answer_to_a_probe_may_be_that_to_the_first_sending() {
    for others_come in [true, false] {
        let mut out = with(10);
        out.probe(false);
        assert_eq!(send(&mut out, 5_000), [0]);
        // The peer has had no core, and takes in one after the other.
        let mut news = out.acknowledged(have(3, 0), 5_100, &mut Vec::new()).unwrap();
        assert!(!out.takes_answer(500, 5_100));
        out.find_lost(500, &mut news);
        assert_eq!((news.lost, out.flight), (0, 70));
        if others_come {
            out.acknowledged(have(10, 0), 5_200, &mut Vec::new()).unwrap();
            assert!(!out.takes_answer(500, 5_700) && out.is_empty());
            continue;
        }
        // Or it has got no more than that.
        assert!(!out.takes_answer(500, 5_599) && out.takes_answer(500, 5_600));
        let mut news = News::default();
        out.find_lost(500, &mut news);
        assert_eq!((news.lost, out.flight), (70, 0));
        assert!(!out.takes_answer(500, 9_000));
    }
}

#[test]
fn the_window_is_an_end() {
    let mut out = with(WINDOW);
    assert!(!out.has_room(1));
    out.acknowledged(have(10, 0), 0, &mut Vec::new()).unwrap();
    assert!(out.has_room(10) && !out.has_room(11));
}
