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
    /// Tells the member at `place`, into its `slot`.
    Tell {
        /// Whom.
        place: usize,
        /// Where to.
        slot: usize,
    },
    /// Hears what somebody tells into its own `slot`.
    Hear {
        /// Where.
        slot: usize,
    },
}

/// The steps of the member at `place` of `count`.
pub fn of(place: usize, count: usize, crowded: bool) -> Vec<Step> {
    if crowded {
        tree(place, count)
    } else {
        dissemination(place, count)
    }
}

fn dissemination(place: usize, count: usize) -> Vec<Step> {
    let distances = (0..).take_while(|&slot| 1 << slot < count);
    let step = |slot: usize| {
        let tell = Step::Tell {
            place: (place + (1 << slot)) % count,
            slot,
        };
        [tell, Step::Hear { slot }]
    };
    distances.flat_map(step).collect()
}

fn tree(place: usize, count: usize) -> Vec<Step> {
    // Below a member are those whose numbers have one more bit, lower than its lowest.
    let lowest = if place == 0 { usize::BITS } else { place.trailing_zeros() } as usize;
    let below: Vec<usize> = (0..lowest).take_while(|&slot| place + (1 << slot) < count).collect();
    let mut steps: Vec<Step> = below.iter().map(|&slot| Step::Hear { slot }).collect();
    if place > 0 {
        let above = place - (1 << lowest);
        steps.push(Step::Tell {
            place: above,
            slot: lowest,
        });
        steps.push(Step::Hear { slot: DOWN });
    }
    steps.extend(below.iter().rev().map(|&slot| Step::Tell {
        place: place + (1 << slot),
        slot: DOWN,
    }));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a barrier: whom each member knows of when it is through, and how many messages there were.
    fn play(count: usize, crowded: bool) -> (Vec<Vec<bool>>, usize) {
        let plans: Vec<Vec<Step>> = (0..count).map(|place| of(place, count, crowded)).collect();
        let mut known: Vec<Vec<bool>> = (0..count).map(|me| (0..count).map(|other| me == other).collect()).collect();
        let mut slots: Vec<Vec<Option<Vec<bool>>>> = vec![vec![None; SLOTS]; count];
        let (mut done, mut messages, mut moved) = (vec![0; count], 0, true);
        while moved {
            moved = false;
            for me in 0..count {
                while let Some(step) = plans[me].get(done[me]) {
                    match *step {
                        Step::Tell { place, slot } => {
                            assert!(
                                slots[place][slot].replace(known[me].clone()).is_none(),
                                "a slot is used twice"
                            );
                            messages += 1;
                        }
                        Step::Hear { slot } => {
                            let Some(told) = slots[me][slot].take() else { break };
                            known[me].iter_mut().zip(told).for_each(|(own, told)| *own |= told);
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
            for crowded in [false, true] {
                let (known, messages) = play(count, crowded);
                assert!(known.iter().flatten().all(|&known| known), "{count} {crowded}");
                let rounds = count.next_power_of_two().trailing_zeros() as usize;
                assert_eq!(messages, if crowded { 2 * (count - 1) } else { count * rounds });
            }
        }
    }
}
