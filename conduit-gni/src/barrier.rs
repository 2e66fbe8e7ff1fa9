//! The barrier among the leaders of neighbourhoods by the collective engine ([`crate::engine`]).

use crate::engine::Engine;
use crate::posts::Posts;
use crate::region::Region;
use gasnet_conduit::Busy;
use gasnet_sys::atomic::{AtomicBool, Mutex, Ordering};
use gasnet_sys::lock;

/// The rounds of this leader.
#[derive(Debug)]
pub struct Rounds {
    engine: Engine,
    /// Held while a round begins or ends.
    turn: Mutex<()>,
    /// Whether a round is under way.
    is_active: AtomicBool,
}

impl Rounds {
    /// None is under way.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            turn: Mutex::default(),
            is_active: AtomicBool::new(false),
        }
    }

    /// Whether a round is under way. Its result comes without an event.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// The collective engine has taken the operands.
    pub fn note_reduction(&self) {
        self.engine.note_reduction();
    }

    /// Gives the engine back.
    pub fn release(self, posts: &Posts) {
        self.engine.release(posts);
    }

    /// See [`gasnet_conduit::Barrier::enter`].
    pub fn enter(&self, posts: &Posts, region: &Region, words: [u64; 2]) -> Result<(), Busy> {
        if posts.peers.states.is_stopped() {
            return Err(Busy);
        }
        let _turn = lock(&self.turn);
        assert!(!self.is_active(), "defect: a round was entered inside another");
        self.engine.reduce(posts, region, words)?;
        self.is_active.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The result of the round that is under way, at its end.
    #[cold]
    pub fn advance(&self, posts: &Posts, region: &Region) -> Option<[u64; 2]> {
        let _turn = self.turn.try_lock().ok()?;
        if !self.is_active() {
            return None;
        }
        let words = self.engine.result(posts, region)?;
        self.is_active.store(false, Ordering::Relaxed);
        Some(words)
    }
}
