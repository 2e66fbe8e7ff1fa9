//! The steps of each participant in the network stage of a barrier.
//!
//! Dissemination (Hensgen, Finkel and Manber 1988; Mellor-Crummey and Scott 1991, section 3.3) has
//! the shortest critical path: log2(n) messages. A binomial tree, up and down, has twice that, but
//! 2 (n - 1) messages in all instead of n log2(n). That is less work, which matters when
//! participants share cores.
#![forbid(unsafe_code)]

/// Slots of a participant: one per distance, a power of two, and one for the way down the tree.
pub const SLOTS: usize = 32;
const DOWN: usize = SLOTS - 1;

/// A step of a participant. The next step follows when it is complete. Slots have one writer each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends to slot `slot` of participant `to`.
    Send {
        /// The receiver.
        to: usize,
        /// Its slot.
        slot: usize,
    },
    /// Receives from the own slot `slot`.
    Receive {
        /// The sender.
        from: usize,
        /// The slot.
        slot: usize,
    },
}

/// The steps of participant `index` of `count`.
pub fn of(index: usize, count: usize, oversubscribed: bool) -> Vec<Step> {
    if oversubscribed {
        tree(index, count)
    } else {
        dissemination(index, count)
    }
}

fn dissemination(index: usize, count: usize) -> Vec<Step> {
    let distances = (0..DOWN).take_while(|&slot| 1 << slot < count);
    let step = |slot: usize| {
        let send = Step::Send {
            to: (index + (1 << slot)) % count,
            slot,
        };
        let from = (index + count - (1 << slot)) % count;
        [send, Step::Receive { from, slot }]
    };
    distances.flat_map(step).collect()
}

fn tree(index: usize, count: usize) -> Vec<Step> {
    // Children of a node: its number plus one bit, lower than its lowest bit.
    let lowest = if index == 0 {
        usize::BITS
    } else {
        index.trailing_zeros()
    } as usize;
    let below: Vec<usize> = (0..lowest).take_while(|&slot| index + (1 << slot) < count).collect();
    let receive = |&slot: &usize| Step::Receive {
        from: index + (1 << slot),
        slot,
    };
    let mut steps: Vec<Step> = below.iter().map(receive).collect();
    if index > 0 {
        let above = index - (1 << lowest);
        steps.push(Step::Send {
            to: above,
            slot: lowest,
        });
        steps.push(Step::Receive {
            from: above,
            slot: DOWN,
        });
    }
    steps.extend(below.iter().rev().map(|&slot| Step::Send {
        to: index + (1 << slot),
        slot: DOWN,
    }));
    steps
}
