//! The steps of each leader in the network stage of a barrier.
//!
//! Dissemination (Hensgen, Finkel and Manber 1988; Mellor-Crummey and Scott 1991, section 3.3) has
//! the shortest critical path: log2(n) messages. A binomial tree, up and down, has twice that, but
//! 2 (n - 1) messages in all instead of n log2(n). That is less work, which matters when leaders
//! share cores.
#![forbid(unsafe_code)]

/// Inbox slots: one per distance, a power of two, and one for the way down the tree.
pub const SLOTS: usize = 33;
const DOWN: usize = SLOTS - 1;

/// A step of a leader. The next step follows when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends to slot `slot` of leader `index`.
    Send {
        /// The receiver.
        index: usize,
        /// Its slot.
        slot: usize,
    },
    /// Receives from the own slot `slot`.
    Receive {
        /// The slot.
        slot: usize,
    },
}

/// The steps of leader `index` of `count`.
pub fn of(index: usize, count: usize, oversubscribed: bool) -> Vec<Step> {
    if oversubscribed {
        tree(index, count)
    } else {
        dissemination(index, count)
    }
}

fn dissemination(index: usize, count: usize) -> Vec<Step> {
    let distances = (0..).take_while(|&slot| 1 << slot < count);
    let step = |slot: usize| {
        let send = Step::Send {
            index: (index + (1 << slot)) % count,
            slot,
        };
        [send, Step::Receive { slot }]
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
    let mut steps: Vec<Step> = below.iter().map(|&slot| Step::Receive { slot }).collect();
    if index > 0 {
        let above = index - (1 << lowest);
        steps.push(Step::Send {
            index: above,
            slot: lowest,
        });
        steps.push(Step::Receive { slot: DOWN });
    }
    steps.extend(below.iter().rev().map(|&slot| Step::Send {
        index: index + (1 << slot),
        slot: DOWN,
    }));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a barrier. Returns the arrivals that each leader depends on, and the number of
    /// messages.
    fn play(count: usize, oversubscribed: bool) -> (Vec<Vec<bool>>, usize) {
        let plans: Vec<Vec<Step>> = (0..count).map(|index| of(index, count, oversubscribed)).collect();
        let mut known: Vec<Vec<bool>> = (0..count)
            .map(|me| (0..count).map(|other| me == other).collect())
            .collect();
        let mut slots: Vec<Vec<Option<Vec<bool>>>> = vec![vec![None; SLOTS]; count];
        let (mut done, mut messages, mut moved) = (vec![0; count], 0, true);
        while moved {
            moved = false;
            for me in 0..count {
                while let Some(step) = plans[me].get(done[me]) {
                    match *step {
                        Step::Send { index, slot } => {
                            assert!(
                                slots[index][slot].replace(known[me].clone()).is_none(),
                                "a slot is used twice"
                            );
                            messages += 1;
                        }
                        Step::Receive { slot } => {
                            let Some(received) = slots[me][slot].take() else { break };
                            known[me]
                                .iter_mut()
                                .zip(received)
                                .for_each(|(own, received)| *own |= received);
                        }
                    }
                    done[me] += 1;
                    moved = true;
                }
            }
        }
        assert!(
            slots.iter().flatten().all(Option::is_none),
            "a message was sent but not received"
        );
        assert!(
            plans.iter().zip(done).all(|(plan, done)| plan.len() == done),
            "a leader waits forever"
        );
        (known, messages)
    }

    #[test]
    fn all_wait_for_all() {
        for count in 1..40 {
            for oversubscribed in [false, true] {
                let (known, messages) = play(count, oversubscribed);
                assert!(known.iter().flatten().all(|&known| known), "{count} {oversubscribed}");
                let rounds = count.next_power_of_two().trailing_zeros() as usize;
                assert_eq!(
                    messages,
                    if oversubscribed {
                        2 * (count - 1)
                    } else {
                        count * rounds
                    }
                );
            }
        }
    }
}
