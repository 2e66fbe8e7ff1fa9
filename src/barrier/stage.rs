//! The network stage of barriers: steps of a [`plan`](super::plan) among participants, which are
//! the leaders of neighbourhoods or all members of a team.
//!
//! A step writes a word into memory of another participant, or waits for one in the own memory. A
//! word names its barrier, and carries a name: nothing is reset, and no completion awaited. How a
//! word travels is up to the caller of [`Stage::advance`]; words may overtake each other.
//!
//! # No word is lost
//!
//! The barriers of a stage have numbers, and a participant takes part in one at a time, in their
//! order. Even and odd numbers have separate slots, and each slot has one writer. Let a word of
//! barrier `k + 2` be written to a slot whose last word is of barrier `k`.
//!
//! - Its writer has completed `k + 1`, so all participants have begun `k + 1`.
//! - The owner of the slot is one of them. It begins `k + 1` after its last step of `k`, so it has
//!   read the word of `k`, which therefore was no longer on its way either.
//!
//! This depends on nothing but complete barriers, so it holds at every step, and in each stage by
//! itself: two stages never share a slot. The tests below check it in every interleaving of a few
//! participants.
//!
//! # Nothing arrives at the end
//!
//! Every word is read by a step: a plan has a receive for each send. A participant that has
//! completed its last barrier has read all words that were ever written to it, although others may
//! still wait for theirs. So its slots may be cleared, and become those of another stage, even if
//! the others have not noticed the end of this one.
//!
//! SYNC POINT barrier-step: whoever puts a word into memory (release: a handler; or a NIC) pairs
//! with its load in [`Stage::advance`] (acquire).

use gasnet_conduit::JobRank;
use gasnet_sys::atomic::{AtomicU32, AtomicU64, Ordering};

use super::plan::{Step, SLOTS};
use crate::shm::barrier_cells::Name;
use crate::sync::TryLock;

/// Words of a stage: the slots of even and those of odd numbers.
pub const WORDS: usize = 2 * SLOTS;

/// A participant, as its peers address it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Its process.
    pub process: JobRank,
    /// The first of its words for this stage, among those of its process.
    pub first: u32,
}

/// A step, for the even numbers.
#[derive(Clone, Copy, Debug)]
enum Action {
    Write { to: JobRank, at: u32 },
    Await { from: JobRank, slot: u8 },
}

/// The barrier that is under way.
#[derive(Debug)]
struct Progress {
    number: u32,
    /// Completed steps.
    done: usize,
    /// The merged names of this participant and of all whose words it has read.
    name: Name,
}

impl Progress {
    const fn begin(number: u32) -> Self {
        let name = Name::Anonymous;
        Self { number, done: 0, name }
    }
}

/// See the module documentation.
#[derive(Debug)]
pub struct Stage {
    steps: Box<[Action]>,
    /// The own words, [`WORDS`] in number.
    words: &'static [AtomicU64],
    /// Numbers given out by [`Stage::next`].
    numbers: AtomicU32,
    progress: TryLock<Progress>,
}

impl Stage {
    /// A stage with these steps. The own words are zero, and no word is on its way to them.
    pub fn new(steps: &[Step], participant: impl Fn(usize) -> Participant, words: &'static [AtomicU64]) -> Self {
        assert_eq!(words.len(), WORDS, "defect: words of a stage");
        let action = |step: &Step| match *step {
            Step::Send { to, slot } => {
                let Participant { process, first } = participant(to);
                let at = first + slot as u32;
                Action::Write { to: process, at }
            }
            Step::Receive { from, slot } => {
                let (from, slot) = (participant(from).process, slot as u8);
                Action::Await { from, slot }
            }
        };
        Self {
            steps: steps.iter().map(action).collect(),
            words,
            numbers: AtomicU32::new(0),
            progress: TryLock::new(Progress::begin(0)),
        }
    }

    /// The number of the next barrier. All participants call in the same order.
    pub fn next(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Advances barrier `number`, which this participant has reached with `name`. Returns the
    /// merged name once all have: to one caller only. `write` writes a word of a process: false if
    /// there is no room now.
    #[inline]
    pub fn advance(&self, number: u32, name: Name, mut write: impl FnMut(JobRank, u32, u64) -> bool) -> Option<Name> {
        let mut progress = self.progress.try_lock()?;
        if progress.number != number {
            return None;
        }
        let set = (number & 1) as usize * SLOTS;
        let mut merged = progress.name.merge(name);
        while let Some(action) = self.steps.get(progress.done) {
            match *action {
                Action::Write { to, at } => {
                    if !write(to, at + set as u32, merged.of_phase(number)) {
                        return None;
                    }
                }
                Action::Await { slot, .. } => {
                    let word = self.words[set + usize::from(slot)].load(Ordering::Acquire);
                    merged = merged.merge(Name::in_phase(word, number)?);
                    progress.name = merged;
                }
            }
            progress.done += 1;
        }
        *progress = Progress::begin(number.wrapping_add(1));
        Some(merged)
    }

    /// The process whose word the barrier under way waits for. For reports.
    pub fn waits_for(&self) -> Option<JobRank> {
        let progress = self.progress.try_lock()?;
        match self.steps.get(progress.done)? {
            Action::Await { from, .. } => Some(*from),
            Action::Write { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;
    use std::collections::HashSet;

    /// Barriers that each participant takes part in.
    const BARRIERS: u32 = 4;

    fn name(participant: usize, number: u32) -> Name {
        match number % 4 {
            1 => Name::Named(7),
            2 if participant == 1 => Name::Named(-1),
            3 => Name::Named(participant as i32),
            _ => Name::Anonymous,
        }
    }

    /// A participant: the number of its barrier, whether it has reached it, completed steps, the
    /// merged name, and its words with whether each was read.
    #[derive(Clone, Debug, Hash, PartialEq, Eq)]
    struct State {
        number: u32,
        has_reached: bool,
        done: usize,
        name: u64,
        words: Vec<u64>,
    }

    /// All participants, and the words on their way: receiver, index and word.
    #[derive(Clone, Debug, Hash, PartialEq, Eq)]
    struct Job {
        states: Vec<State>,
        on_way: Vec<(usize, usize, u64)>,
    }

    struct Model {
        plans: Vec<Vec<Step>>,
        stages: Vec<Stage>,
    }

    impl Model {
        fn new(count: usize, oversubscribed: bool) -> Self {
            let plans: Vec<_> = (0..count).map(|index| plan::of(index, count, oversubscribed)).collect();
            let participant = |index| Participant {
                process: JobRank(index as u32),
                first: 0,
            };
            let words = || -> &'static [AtomicU64] { (0..WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak() };
            let stages = plans
                .iter()
                .map(|plan| Stage::new(plan, participant, words()))
                .collect();
            Self { plans, stages }
        }

        fn start(&self) -> Job {
            let state = State {
                number: 0,
                has_reached: false,
                done: 0,
                name: Name::Anonymous.pack(),
                words: vec![0; WORDS],
            };
            let states = vec![state; self.stages.len()];
            Job { states, on_way: vec![] }
        }

        /// Lets a participant advance, with room for `room` words.
        fn advance(&self, job: &mut Job, index: usize, mut room: usize) {
            let (state, stage) = (&mut job.states[index], &self.stages[index]);
            let (number, done, name_so_far) = (state.number, state.done, Name::unpack(state.name));
            *stage.progress.try_lock().unwrap() = Progress {
                number,
                done,
                name: name_so_far,
            };
            for (word, value) in stage.words.iter().zip(&state.words) {
                word.store(*value, Ordering::Relaxed);
            }
            let on_way = &mut job.on_way;
            let merged = stage.advance(number, name(index, number), |to, at, word| {
                let has_room = room > 0;
                if has_room {
                    room -= 1;
                    on_way.push((to.index(), at as usize, word));
                }
                has_room
            });
            let progress = stage.progress.try_lock().unwrap();
            (state.number, state.done, state.name) = (progress.number, progress.done, progress.name.pack());
            on_way.sort_unstable();
            let Some(merged) = merged else { return };
            state.has_reached = false;
            let reached = |state: &State| state.number > number || state.number == number && state.has_reached;
            assert!(
                job.states.iter().all(reached),
                "barrier {number} ends before all have reached it"
            );
            let all = (0..job.states.len()).map(|other| name(other, number));
            assert_eq!(merged, all.fold(Name::Anonymous, Name::merge), "barrier {number}");
        }

        /// Delivers a word. The one before it must have been read.
        fn deliver(&self, job: &mut Job, which: usize) {
            let (to, at, word) = job.on_way.remove(which);
            let state = &mut job.states[to];
            let is_read = |step: &Step| matches!(step, Step::Receive { slot, .. } if *slot == at % SLOTS);
            let place = self.plans[to]
                .iter()
                .position(is_read)
                .expect("a word that nobody reads");
            let is_of = |number: u32| state.words[at] == 0 || Name::in_phase(state.words[at], number).is_none();
            let unread = !is_of(state.number) && state.done <= place;
            let later = (state.number + 1..=BARRIERS).any(|number| !is_of(number));
            assert!(!unread && !later, "a word was overwritten: {job:?}");
            job.states[to].words[at] = word;
        }

        /// The jobs that may follow.
        fn successors(&self, job: &Job) -> Vec<Job> {
            let mut all = Vec::new();
            let mut try_out = |change: &dyn Fn(&mut Job)| {
                let mut next = job.clone();
                change(&mut next);
                all.extend((next != *job).then_some(next));
            };
            for (index, state) in job
                .states
                .iter()
                .enumerate()
                .filter(|(_, state)| state.number < BARRIERS)
            {
                if state.has_reached {
                    (0..3).for_each(|room| try_out(&|job| self.advance(job, index, room)));
                } else {
                    try_out(&|job| job.states[index].has_reached = true);
                }
            }
            (0..job.on_way.len()).for_each(|which| try_out(&|job| self.deliver(job, which)));
            all
        }
    }

    /// Visits all states, or as many as `limit`. Returns how many there are.
    fn explore(count: usize, oversubscribed: bool, limit: usize) -> usize {
        let model = Model::new(count, oversubscribed);
        let mut open = vec![model.start()];
        let mut seen: HashSet<Job> = open.iter().cloned().collect();
        while let Some(job) = open.pop() {
            let next = model.successors(&job);
            if next.is_empty() {
                assert!(
                    job.states.iter().all(|state| state.number == BARRIERS) && job.on_way.is_empty(),
                    "a participant waits for ever: {job:?}"
                );
            }
            for job in next {
                if seen.len() < limit && seen.insert(job.clone()) {
                    open.push(job);
                }
            }
        }
        seen.len()
    }

    #[test]
    fn no_word_is_lost_in_any_interleaving() {
        for (count, oversubscribed) in [(1, false), (2, false), (2, true), (3, true)] {
            let states = explore(count, oversubscribed, usize::MAX);
            assert!(count == 1 || states > 40, "{count} {oversubscribed}: {states}");
        }
        // More than these are too many.
        for (count, oversubscribed) in [(3, false), (4, true), (5, false)] {
            explore(count, oversubscribed, 30_000);
        }
    }

    #[test]
    fn plans_have_few_words() {
        for count in 1..40 {
            for oversubscribed in [false, true] {
                let model = Model::new(count, oversubscribed);
                let (mut job, mut words) = (model.start(), 0);
                job.states.iter_mut().for_each(|state| state.has_reached = true);
                while job.states.iter().any(|state| state.number == 0) {
                    for index in 0..count {
                        if job.states[index].number == 0 {
                            model.advance(&mut job, index, usize::MAX);
                        }
                    }
                    words += job.on_way.len();
                    (0..job.on_way.len()).for_each(|_| model.deliver(&mut job, 0));
                }
                let rounds = count.next_power_of_two().trailing_zeros() as usize;
                let expected = if oversubscribed {
                    2 * (count - 1)
                } else {
                    count * rounds
                };
                assert_eq!(words, expected, "{count} {oversubscribed}");
            }
        }
    }
}
