//! What each member of a barrier over a network does, in which order.
//!
//! Dissemination (Hensgen, Finkel and Manber 1988; Mellor-Crummey and Scott 1991, section 3.3) has the fewest messages one after the other: log2(n). A
//! binomial tree, up and down again, has twice as many of those, but 2 (n - 1) in all instead of n log2(n): that is less work, which is what counts where
//! members share cores.
#![forbid(unsafe_code)]

/// Places for what others tell: one for each distance, a power of two, and one for what comes down a tree.
pub const SLOTS: usize = 33;
const DOWN: usize = SLOTS - 1;

/// One thing that a member does. The next one follows when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Tells the member at `index`, into its `slot`.
    Send {
        /// Whom.
        index: usize,
        /// Where to.
        slot: usize,
    },
    /// Hears what somebody tells into its own `slot`.
    Receive {
        /// Where.
        slot: usize,
    },
}

/// The steps of the member at `index` of `count`.
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
    // Below a member are those whose numbers have one more bit, lower than its lowest.
    let lowest = if index == 0 { usize::BITS } else { index.trailing_zeros() } as usize;
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

    /// Plays a barrier: whom each member knows of when it is through, and how many messages there were.
    fn play(count: usize, oversubscribed: bool) -> (Vec<Vec<bool>>, usize) {
        let plans: Vec<Vec<Step>> = (0..count).map(|index| of(index, count, oversubscribed)).collect();
        let mut known: Vec<Vec<bool>> = (0..count).map(|me| (0..count).map(|other| me == other).collect()).collect();
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
            "something was told that nobody heard"
        );
        assert!(
            plans.iter().zip(done).all(|(plan, done)| plan.len() == done),
            "somebody waits for ever"
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
                assert_eq!(messages, if oversubscribed { 2 * (count - 1) } else { count * rounds });
            }
        }
    }
}
