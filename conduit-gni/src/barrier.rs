//! The barrier among the leaders of neighbourhoods: by the collective engine ([`crate::engine`]),
//! or GNIDISSEM, a dissemination by messages of 16 bytes (D. Hensgen, R. Finkel and U. Manber, "Two
//! Algorithms for Barrier Synchronization", 1988).
//!
//! In step k of a round, a leader writes the AND of all words that it knows into the memory of the
//! leader 2^k after it, behind them the number of the round. After the last step it knows those of
//! all. Rounds use two sets of places in turn: a leader enters round r+2 only when all have entered
//! r+1, so have left r.

use crate::completion::CompletionAction;
use crate::engine::Engine;
use crate::net::{Net, FIRST};
use crate::region::ENGINE_ROUND;
use crate::send::MESSAGE;
use crate::wire::Kind;
use gasnet_conduit::{Barrier, Busy, JobRank, StartInfo, Upcalls};
use gasnet_sys::atomic::{AtomicBool, Mutex, Ordering};
use gasnet_sys::lock;

/// Most steps of a round.
const STEPS: usize = 24;

/// The rounds of this leader.
#[derive(Debug)]
pub struct Rounds {
    /// The leaders, and which this process is.
    leaders: Box<[JobRank]>,
    own: usize,
    steps: usize,
    pub engine: Option<Engine>,
    state: Mutex<State>,
    /// Whether a round is under way.
    is_active: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the round, from 1.
    round: u64,
    words: [u64; 2],
    /// Steps whose message is sent, and those whose message has come.
    sent: usize,
    come: usize,
}

impl Rounds {
    /// None if this process leads no neighbourhood.
    pub fn new(info: &StartInfo<'_>) -> Option<Self> {
        let own = info.leaders.binary_search(&info.rank).ok()?;
        let steps = info.leaders.len().next_power_of_two().trailing_zeros() as usize;
        assert!(steps <= STEPS, "defect: {} leaders", info.leaders.len());
        Some(Self {
            leaders: info.leaders.into(),
            own,
            steps,
            engine: None,
            state: Mutex::default(),
            is_active: AtomicBool::new(false),
        })
    }

    /// Whether a round is under way.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// The place of a step.
    fn place(round: u64, step: usize) -> usize {
        round as usize % 2 * STEPS + step
    }
}

impl Net {
    /// Advances the round that is under way. Returns what it ends with.
    fn advance_round(&self, rounds: &Rounds) -> Option<[u64; 2]> {
        let mut state = rounds.state.try_lock().ok()?;
        if !rounds.is_active() {
            return None;
        }
        if let Some(engine) = &rounds.engine {
            let words = self.reduced(engine)?;
            rounds.is_active.store(false, Ordering::Relaxed);
            return Some(words);
        }
        while state.come < rounds.steps {
            if state.sent == state.come {
                if !self.send_step(rounds, &state) {
                    return None;
                }
                state.sent += 1;
            }
            let offset = self.region.layout.round(Rounds::place(state.round, state.come));
            // SYNC POINT step: the NIC writes the number after the words.
            if self.region.word(offset).load(Ordering::Acquire) != state.round {
                return None;
            }
            for (index, word) in state.words.iter_mut().enumerate() {
                *word &= self.region.word(offset + 8 + 8 * index).load(Ordering::Relaxed);
            }
            state.come += 1;
        }
        rounds.is_active.store(false, Ordering::Relaxed);
        Some(state.words)
    }

    fn send_step(&self, rounds: &Rounds, state: &State) -> bool {
        let mut turn = self.domains[FIRST].turn();
        let Some(mut post) = turn.take() else { return false };
        let peer = rounds.leaders[(rounds.own + (1 << state.sent)) % rounds.leaders.len()];
        for (place, word) in post.inline().chunks_exact_mut(8).zip(state.words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let offset = self.region.layout.round(Rounds::place(state.round, state.sent));
        let flag = (state.round, self.in_region(peer, offset).address);
        let (from, to) = (post.inline_address(), self.in_region(peer, offset + 8));
        post.peer = peer;
        post.done = CompletionAction::Nothing;
        post.put_and_flag(MESSAGE, (from, 16), to, flag);
        let event = self.event(Kind::Barrier, 0);
        // SAFETY: inline memory.
        unsafe { self.post(&mut turn, FIRST, post, Some(event)) };
        true
    }

    /// Advances the barrier, and reports the end of a round.
    #[cold]
    pub fn poll_barrier(&self, rounds: &Rounds, upcalls: &mut dyn Upcalls) -> usize {
        let Some(words) = self.advance_round(rounds) else {
            return 0;
        };
        upcalls.barrier(words);
        1
    }
}

impl Barrier for Net {
    fn enter(&self, words: [u64; 2]) -> Result<(), Busy> {
        let Some(rounds) = &self.rounds else { return Err(Busy) };
        if self.is_stopped() {
            return Err(Busy);
        }
        let mut state = lock(&rounds.state);
        assert!(!rounds.is_active(), "defect: a round was entered inside another");
        if let Some(engine) = &rounds.engine {
            self.reduce(engine, words)?;
        }
        *state = State {
            round: state.round + 1,
            words,
            ..State::default()
        };
        rounds.is_active.store(true, Ordering::Relaxed);
        drop(state);
        if rounds.engine.is_none() {
            // The first message leaves now; a poll reports the end.
            self.begin_round(rounds);
        }
        Ok(())
    }
}

impl Net {
    fn begin_round(&self, rounds: &Rounds) {
        let mut state = lock(&rounds.state);
        if state.sent == 0 && rounds.steps > 0 && self.send_step(rounds, &state) {
            state.sent = 1;
        }
    }
}

const _: () = assert!(ENGINE_ROUND >= 2 * STEPS);
