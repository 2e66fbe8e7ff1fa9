//! Checks of words: `words_conformance_tests!`, called as `conformance_tests!`.
//!
//! A word that a peer does not take travels as a packet, as in the runtime. With
//! `CONFORMANCE_WORDS` set, some must have been taken in the end.

use super::{Job, Make, Watchdog};
use crate::{words, Busy, Class, Completion, Cookie, JobRank, Network, PollScope, Upcalls, Words};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

/// A rank that writes words and polls its own.
struct Rank<'a> {
    network: &'a dyn Network,
    own: &'a [AtomicU64],
    /// Words that peers took.
    taken: usize,
}

/// Stores words that came as packets.
struct Store<'a>(&'a [AtomicU64]);

impl Upcalls for Store<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        assert_eq!((class, packet.len()), (Class::Request, 16), "from {source}");
        let word = |part: &[u8]| u64::from_ne_bytes(part.try_into().expect("8 bytes"));
        let (index, word) = (word(&packet[..8]), word(&packet[8..]));
        self.0[index as usize].store(word, SeqCst);
    }
    fn done(&mut self, cookie: Cookie, part: Completion) {
        panic!("{cookie:?} is complete ({part:?}), but was not started");
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} was lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

impl Rank<'_> {
    fn words(&self) -> &dyn Words {
        self.network.abilities().words.expect("words")
    }

    /// Polls until `done`, in both scopes.
    fn poll_until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let watchdog = Watchdog::new();
        while !done() {
            for scope in [PollScope::Replies, PollScope::All] {
                self.network.poll(scope, &mut Store(self.own));
            }
            watchdog.check(what);
        }
    }

    fn write(&mut self, peer: JobRank, index: usize, word: u64) {
        let mut taken = 0;
        self.poll_until("room for a word", || match self.words().write(peer, index, word) {
            Ok(true) => {
                taken = 1;
                true
            }
            Ok(false) => {
                let parts = [&(index as u64).to_ne_bytes()[..], &word.to_ne_bytes()];
                self.network.send(peer, Class::Request, &parts) != Err(Busy)
            }
            Err(Busy) => false,
        });
        self.taken += taken;
    }
}

/// Runs `body` for each rank of a job, and lets all poll until the last has left.
fn run(make: Make<'_>, size: u32, body: impl Fn(JobRank, &mut Rank<'_>) + Sync) {
    let job = Job::start(make, size);
    let over = AtomicUsize::new(0);
    job.run(|rank, network| {
        let own = network.abilities().words.expect("words").own();
        let mut state = Rank { network, own, taken: 0 };
        body(rank, &mut state);
        assert!(
            state.taken > 0 || std::env::var_os("CONFORMANCE_WORDS").is_none(),
            "no peer takes words of rank {rank}"
        );
        over.fetch_add(1, SeqCst);
        state.poll_until("the end", || over.load(SeqCst) == size as usize);
    });
    job.stop();
}

/// Each rank writes many words of each other one. They are zero at first, come as a whole, and
/// change no others.
pub fn words_come_whole(make: Make<'_>) {
    const SIZE: u32 = 3;
    /// Words of each pair of ranks.
    const EACH: usize = 500;
    let value = |from: JobRank, to: JobRank, number: usize| {
        let seed = (number as u64) << 8 | u64::from(from.0) << 4 | u64::from(to.0) | 1 << 40;
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let index = |from: JobRank, number: usize| number * 7 + from.index();
    let begun = AtomicUsize::new(0);
    run(make, SIZE, |rank, state| {
        let own = state.own;
        assert_eq!(own.len(), words::COUNT);
        assert!(own.iter().all(|word| word.load(SeqCst) == 0));
        begun.fetch_add(1, SeqCst);
        state.poll_until("the others", || begun.load(SeqCst) == SIZE as usize);
        let others = || (0..SIZE).map(JobRank).filter(|other| *other != rank);
        for number in 0..EACH {
            for peer in others() {
                state.write(peer, index(rank, number), value(rank, peer, number));
            }
        }
        for (number, from) in (0..EACH).flat_map(|number| others().map(move |from| (number, from))) {
            let (word, expected) = (&own[index(from, number)], value(from, rank, number));
            state.poll_until("a word", || {
                let now = word.load(SeqCst);
                assert!(now == 0 || now == expected, "word {number} of rank {from} is {now:#x}");
                now == expected
            });
        }
        let written = own.iter().filter(|word| word.load(SeqCst) != 0).count();
        assert_eq!(written, EACH * (SIZE as usize - 1));
    });
}

/// Barriers of words, by dissemination, with two sets of slots in turn: as in a stage of the
/// runtime. None ends before all have begun it, and no word is lost. Jobs of two to five ranks.
pub fn words_make_barriers(make: Make<'_>) {
    const BARRIERS: u64 = 300;
    for size in 2..6 {
        let begun = AtomicUsize::new(0);
        run(make, size, |rank, state| {
            for number in 0..BARRIERS {
                begun.fetch_add(1, SeqCst);
                let (mut slot, mut distance) = (number as usize % 2 * 8, 1);
                while distance < size {
                    state.write(JobRank((rank.0 + distance) % size), slot, number + 1);
                    let own = &state.own[slot];
                    state.poll_until("a word of a barrier", || {
                        let word = own.load(SeqCst);
                        assert!(word <= number + 1, "word {word} has replaced that of barrier {number}");
                        word == number + 1
                    });
                    (slot, distance) = (slot + 1, distance * 2);
                }
                let all = (number as usize + 1) * size as usize;
                assert!(begun.load(SeqCst) >= all, "barrier {number} has ended early");
            }
        });
    }
}
