//! The words of this process that others write for the stages of barriers ([`super::stage`]), in
//! blocks: one for the barrier of GASNet-1, and one for each team.
//!
//! The owner of a block gives it to a team, clears it, and only then tells the other members its
//! number, while the team is being made. Nothing arrives after the last barrier of the team, so the
//! block is free then.
//!
//! The first blocks lie in words of the network ([`Words`]), if it has them and the user does not
//! want messages: peers write them there. The number of a block tells which these are. All other
//! words travel as messages, whose handler stores them; so do those of neighbours, and those that
//! the network refuses.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use super::stage::{Participant, WORDS};
use crate::am::{inject, internal, join, split, Arg, Message};
use crate::types::Location;
use crate::{runtime, thread};
use gasnet_conduit::config::{self, Config};
use gasnet_conduit::{words, Busy, Class, JobRank, Words};
use gasnet_sys::atomic::Mutex;

/// Words of a block: those of the network stage, and those of the barrier that ends a team.
const BLOCK: usize = 2 * WORDS;
/// The block of the barrier of GASNet-1.
pub const NAMED: u32 = 0;
/// The block of the primordial team.
pub const TEAM0: u32 = 1;

/// The stages of a block.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The network stage.
    Network,
    /// The end of a team.
    End,
}

/// The blocks of this process.
struct Blocks {
    all: Vec<&'static [AtomicU64]>,
    free: BTreeSet<u32>,
}

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks {
    all: Vec::new(),
    free: BTreeSet::new(),
});

static NETWORK: OnceLock<&'static dyn Words> = OnceLock::new();

/// The algorithms of `GASNET_BARRIER` that use messages.
const BY_MESSAGES: [&str; 3] = ["PSHM", "AMDISSEM", "AMCENTRAL"];

/// Whether the user wants barriers by messages.
pub fn are_by_messages(config: &Config) -> bool {
    let wanted = config.get(&config::BARRIER).unwrap_or_default();
    BY_MESSAGES.iter().any(|name| wanted.eq_ignore_ascii_case(name))
}

/// Uses words of the network from now on. At initialisation, in all processes or in none.
pub fn install(network: &'static dyn Words) {
    let _ = NETWORK.set(network);
    let mut blocks = gasnet_sys::lock(&BLOCKS);
    blocks.all = network.own().chunks_exact(BLOCK).collect();
    blocks.free = (TEAM0 + 1..blocks.all.len() as u32).collect();
}

impl Blocks {
    fn add(&mut self) -> u32 {
        let words: Vec<_> = (0..BLOCK).map(|_| AtomicU64::new(0)).collect();
        self.all.push(words.leak());
        (self.all.len() - 1) as u32
    }

    /// The words of a block. Those of the constants exist from the start.
    fn block(&mut self, number: u32) -> Option<&'static [AtomicU64]> {
        while self.all.len() <= TEAM0 as usize {
            self.add();
        }
        self.all.get(number as usize).copied()
    }

    /// The first of `count` blocks with consecutive numbers.
    fn take(&mut self, count: u32) -> u32 {
        self.block(TEAM0);
        let free = if count == 1 { self.free.pop_first() } else { None };
        if let Some(number) = free {
            let words = self.block(number).unwrap_or_default();
            for word in words {
                word.store(0, Ordering::Relaxed);
            }
            return number;
        }
        let first = self.all.len() as u32;
        (0..count).for_each(|_| _ = self.add());
        first
    }
}

/// Takes `count` blocks with consecutive numbers, whose words are zero. Returns the first number.
pub fn take(count: u32) -> u32 {
    gasnet_sys::lock(&BLOCKS).take(count)
}

/// Gives a block back. No word is on its way to it.
pub fn give_back(number: u32) {
    gasnet_sys::lock(&BLOCKS).free.insert(number);
}

const fn first(part: Part) -> usize {
    match part {
        Part::Network => 0,
        Part::End => WORDS,
    }
}

/// Whether words of a block come from the network without a message.
pub fn is_of_network(block: u32) -> bool {
    NETWORK.get().is_some() && (block as usize) < words::COUNT / BLOCK
}

/// The own words for a stage.
pub fn words(block: u32, part: Part) -> &'static [AtomicU64] {
    let words = gasnet_sys::lock(&BLOCKS).block(block).unwrap_or_default();
    &words[first(part)..][..WORDS]
}

/// A participant of a stage, by its process and its block there.
pub fn participant(process: JobRank, block: u32, part: Part) -> Participant {
    Participant {
        process,
        first: block * BLOCK as u32 + first(part) as u32,
    }
}

/// Writes a word of a process, for [`Stage::advance`](super::stage::Stage::advance).
pub fn write(to: JobRank, at: u32, word: u64) -> bool {
    if let Some(network) = NETWORK.get().filter(|_| (at as usize) < words::COUNT) {
        if !runtime::get().is_neighbour(to) {
            match thread::in_conduit(|| network.write(to, at as usize, word)) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(Busy) => return false,
            }
        }
    }
    let [high, low] = split(word);
    let args = [at as Arg, high, low];
    let target = Location { rank: to, ep: 0 };
    let message = Message::internal(Class::Request, target, internal::BARRIER, &args, None);
    inject::try_send(&message).is_ok()
}

/// Handles a word. False if it is malformed.
pub fn on_word(args: &[Arg]) -> bool {
    let &[at, high, low] = args else { return false };
    let (block, at) = (at as u32 / BLOCK as u32, at as u32 as usize % BLOCK);
    let Some(words) = gasnet_sys::lock(&BLOCKS).block(block) else {
        return false;
    };
    words[at].store(join(high, low), Ordering::Release);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_clear_and_used_again() {
        let mut blocks = Blocks {
            all: Vec::new(),
            free: BTreeSet::new(),
        };
        let first = blocks.take(1);
        assert!(first > TEAM0);
        let words = blocks.block(first).unwrap();
        words[BLOCK - 1].store(7, Ordering::Relaxed);
        let several = blocks.take(3);
        assert!(several > first && blocks.block(several + 2).is_some() && blocks.block(several + 3).is_none());
        blocks.free.insert(first);
        assert_eq!(blocks.take(1), first);
        assert_eq!(words[BLOCK - 1].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn malformed_words_are_refused() {
        assert!(on_word(&[NAMED as Arg, 0, 0]));
        assert!(!on_word(&[Arg::MAX, 0, 0]) && !on_word(&[-1, 0, 0]) && !on_word(&[0, 0]));
    }
}
