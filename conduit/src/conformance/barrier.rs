//! Checks of the barrier of a network: `barrier_conformance_tests!`, called as
//! `conformance_tests!`.

use super::{Job, Make, Watchdog};
use crate::{Busy, Class, Completion, Cookie, JobRank, Network, PollScope, Upcalls};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The words of the rounds that have ended.
#[derive(Default)]
struct Ended<'a> {
    rounds: Vec<[u64; 2]>,
    /// Enters the next round inside the upcall, if it can.
    next: Option<&'a dyn Fn(usize) -> Result<(), Busy>>,
    /// Rounds entered.
    entered: usize,
}

impl Upcalls for Ended<'_> {
    fn packet(&mut self, source: JobRank, class: Class, _: &mut [u8]) {
        panic!("a {class:?} from {source}, which nobody has sent");
    }
    fn done(&mut self, cookie: Cookie, part: Completion) {
        panic!("{cookie:?} is complete ({part:?}), but was not started");
    }
    fn barrier(&mut self, words: [u64; 2]) {
        self.rounds.push(words);
        if let Some(next) = self.next {
            self.entered += usize::from(next(self.rounds.len()).is_ok());
        }
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} was lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

impl Ended<'_> {
    /// Polls until `done`, in both scopes.
    fn poll_until(&mut self, network: &dyn Network, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let watchdog = Watchdog::new();
        while !done(self) {
            network.poll(PollScope::Replies, self);
            network.poll(PollScope::All, self);
            watchdog.check(what);
        }
    }

    fn enter(&mut self, network: &dyn Network, words: [u64; 2]) {
        let barrier = network.abilities().barrier.expect("a barrier");
        self.poll_until(network, "room in the barrier", |_| barrier.enter(words) != Err(Busy));
        self.entered += 1;
    }
}

/// A round ends at no rank before all have entered it, and once at each. Jobs of one to five ranks;
/// the last rank to enter changes.
pub fn barrier_waits_for_all(make: Make<'_>) {
    const ROUNDS: usize = 40;
    for size in 1..6 {
        let job = Job::start(make, size);
        let (size, entered, over) = (size as usize, AtomicUsize::new(0), AtomicUsize::new(0));
        job.run(|rank, network| {
            let mut ended = Ended::default();
            for round in 0..ROUNDS {
                if round % size == rank.index() {
                    let all_others = |_: &Ended| entered.load(SeqCst) == round * size + size - 1;
                    ended.poll_until(network, "the other ranks", all_others);
                    assert_eq!(
                        ended.rounds.len(),
                        round,
                        "a round ended before the last rank entered it"
                    );
                }
                entered.fetch_add(1, SeqCst);
                ended.enter(network, [u64::MAX, round as u64]);
                ended.poll_until(network, "the end of a round", |ended| ended.rounds.len() > round);
                assert_eq!(ended.rounds[round..], [[u64::MAX, round as u64]], "round {round}");
            }
            over.fetch_add(1, SeqCst);
            // A second report would come now.
            ended.poll_until(network, "the end", |_| over.load(SeqCst) == size);
            assert_eq!(ended.rounds.len(), ROUNDS);
        });
        job.stop();
    }
}

/// The words of a round are the AND of those of all ranks, each of which may clear any bit. Some
/// rounds are entered inside the upcall for the last one.
pub fn barrier_ands_words(make: Make<'_>) {
    const SIZE: u32 = 4;
    // The last upcall enters no round.
    const ROUNDS: u32 = 255;
    let job = Job::start(make, SIZE);
    let words = |rank: u32, round: u32| {
        let seed = u64::from(round * SIZE + rank + 1);
        // Most bits are set, so that some survive.
        let own = [3, 5].map(|factor: u64| !(1 << (seed * factor % 64) | 1 << (seed * 11 * factor % 64)));
        // A barrier may expect the words of an earlier round; here one rank has others.
        match round % 5 {
            0..3 => [u64::MAX; 2],
            3 if rank != round / 5 % SIZE => [u64::MAX; 2],
            _ => own,
        }
    };
    let over = AtomicUsize::new(0);
    job.run(|rank, network| {
        let barrier = network.abilities().barrier.expect("a barrier");
        let next = |round| match round % 3 {
            0 => Err(Busy),
            _ => barrier.enter(words(rank.0, round as u32)),
        };
        let mut ended = Ended {
            next: Some(&next),
            ..Ended::default()
        };
        for round in 0..ROUNDS {
            if ended.entered == round as usize {
                ended.enter(network, words(rank.0, round));
            }
            ended.poll_until(network, "the end of a round", |ended| {
                ended.rounds.len() > round as usize
            });
            let all = (0..SIZE).map(|rank| words(rank, round));
            let expected = all.fold([u64::MAX; 2], |[a, b], [c, d]| [a & c, b & d]);
            assert_eq!(ended.rounds[round as usize], expected, "round {round}");
        }
        over.fetch_add(1, SeqCst);
        ended.poll_until(network, "the end", |_| over.load(SeqCst) == SIZE as usize);
    });
    job.stop();
}
