//! The barrier among the leaders of neighbourhoods: by the collective engine ([`crate::engine`]),
//! or GNIDISSEM, a dissemination by messages of 16 bytes (D. Hensgen, R. Finkel and U. Manber, "Two
//! Algorithms for Barrier Synchronization", 1988).
//!
//! In step k of a round, a leader writes the AND of all words that it knows into the memory of the
//! leader 2^k after it, behind them the number of the round. After the last step it knows those of
//! all. Rounds use two sets of places in turn: a leader enters round r+2 only when all have entered
//! r+1, so have left r.

use crate::engine::Engine;
use crate::ffi::SyncFlag;
use crate::operations::CompletionAction;
use crate::posts::{Posts, FIRST, MESSAGE};
use crate::region::{Region, ENGINE_ROUND};
use crate::wire::Kind;
use gasnet_conduit::{Busy, JobRank, StartInfo};
use gasnet_sys::atomic::{AtomicBool, Mutex, Ordering};
use gasnet_sys::lock;

/// Most steps of a round.
const STEPS: usize = 24;

/// The rounds of this leader.
#[derive(Debug)]
pub struct Rounds {
    /// The leaders, and the index of this process among them.
    leaders: Box<[JobRank]>,
    own: usize,
    steps: usize,
    engine: Option<Engine>,
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
    pub fn new(info: &StartInfo<'_>, engine: Option<Engine>) -> Option<Self> {
        let own = info.leaders.binary_search(&info.rank).ok()?;
        let steps = info.leaders.len().next_power_of_two().trailing_zeros() as usize;
        assert!(steps <= STEPS, "defect: {} leaders", info.leaders.len());
        Some(Self {
            leaders: info.leaders.into(),
            own,
            steps,
            engine,
            state: Mutex::default(),
            is_active: AtomicBool::new(false),
        })
    }

    /// Whether a round is under way.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Whether the collective engine reduces, whose result comes without an event.
    pub fn is_reducing(&self) -> bool {
        self.is_active() && self.engine.is_some()
    }

    /// The collective engine has taken the operands.
    pub fn note_reduction(&self) {
        if let Some(engine) = &self.engine {
            engine.note_reduction();
        }
    }

    /// Gives the engine back.
    pub fn release_engine(&mut self, posts: &Posts) {
        if let Some(engine) = self.engine.take() {
            engine.release(posts);
        }
    }

    /// The place of a step.
    fn place(round: u64, step: usize) -> usize {
        round as usize % 2 * STEPS + step
    }

    /// See [`gasnet_conduit::Barrier::enter`].
    pub fn enter(&self, posts: &Posts, region: &Region, words: [u64; 2]) -> Result<(), Busy> {
        if posts.peers.states.is_stopped() {
            return Err(Busy);
        }
        let mut state = lock(&self.state);
        assert!(!self.is_active(), "defect: a round was entered inside another");
        if let Some(engine) = &self.engine {
            engine.reduce(posts, region, words)?;
        }
        *state = State {
            round: state.round + 1,
            words,
            ..State::default()
        };
        self.is_active.store(true, Ordering::Relaxed);
        drop(state);
        if self.engine.is_none() {
            // The first message leaves now; a poll reports the end.
            self.begin(posts, region);
        }
        Ok(())
    }

    fn begin(&self, posts: &Posts, region: &Region) {
        let mut state = lock(&self.state);
        if state.sent == 0 && self.steps > 0 && self.send_step(posts, region, &state) {
            state.sent = 1;
        }
    }

    /// Advances the round that is under way. Returns the result at its end.
    #[cold]
    pub fn advance(&self, posts: &Posts, region: &Region) -> Option<[u64; 2]> {
        let mut state = self.state.try_lock().ok()?;
        if !self.is_active() {
            return None;
        }
        if let Some(engine) = &self.engine {
            let words = engine.result(posts, region)?;
            self.is_active.store(false, Ordering::Relaxed);
            return Some(words);
        }
        while state.come < self.steps {
            if state.sent == state.come {
                if !self.send_step(posts, region, &state) {
                    return None;
                }
                state.sent += 1;
            }
            let offset = region.layout.round(Self::place(state.round, state.come));
            // SYNC POINT step: the NIC writes the number after the words.
            if region.word(offset).load(Ordering::Acquire) != state.round {
                return None;
            }
            for (index, word) in state.words.iter_mut().enumerate() {
                *word &= region.word(offset + 8 + 8 * index).load(Ordering::Relaxed);
            }
            state.come += 1;
        }
        self.is_active.store(false, Ordering::Relaxed);
        Some(state.words)
    }

    fn send_step(&self, posts: &Posts, region: &Region, state: &State) -> bool {
        let mut queue = posts.lock(FIRST);
        let Some(mut post) = queue.take() else { return false };
        let peer = self.leaders[(self.own + (1 << state.sent)) % self.leaders.len()];
        for (place, word) in post.inline().chunks_exact_mut(8).zip(state.words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let offset = region.layout.round(Self::place(state.round, state.sent));
        let (from, to) = (post.inline_address(), posts.peers.in_region(peer, offset + 8));
        post.peer = peer;
        post.done = CompletionAction::Nothing;
        post.put(MESSAGE, from, 16, to);
        post.and_flag(SyncFlag {
            value: state.round,
            address: posts.peers.in_region(peer, offset).address,
        });
        let event = posts.peers.event(Kind::Barrier, 0);
        // SAFETY: inline memory.
        unsafe { queue.post(post, Some(event)) };
        true
    }
}

const _: () = assert!(ENGINE_ROUND >= 2 * STEPS);
