//! The barriers that use the network's own barrier: the named barrier, and those of team 0, of
//! which several may be in flight. Their leaders' stage is a bit in the words of a round
//! ([`gasnet_conduit::Barrier`]): a barrier is complete in the first round in which all leaders
//! have set its bit. Leaders may reach these barriers in any order.
//!
//! Barriers of team 0 have tickets in the order of their calls, which is the same everywhere. A
//! leader's bits begin with the first incomplete ticket, which is the same everywhere, too: it
//! depends on the results of rounds only.
//!
//! The second word carries the name: the AND of `(name, !name)` shows whether all are equal, and
//! all ones are anonymous, as on the collective engine of Aries.
//!
//! Only leaders have this object.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use super::{of_job, Name};
use crate::team::Team;
use crate::thread;
use gasnet_conduit::config::{self, Config};
use gasnet_conduit::{Barrier, Busy};
use gasnet_sys::atomic::Mutex;

/// The bit of the named barrier in the first word. The others are those of tickets.
const NAMED: u64 = 1;
/// Tickets that fit in a round.
const WINDOW: u32 = 63;

/// A barrier of team 0, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// The progress of the own neighbourhood, which others may not have made yet.
#[derive(Debug)]
struct Reached {
    /// The bits with which this leader has entered the round that is under way.
    round: Option<u64>,
    /// The name of the phase `phases` of the named barrier.
    named: Option<Name>,
    /// Complete phases of the named barrier.
    phases: u32,
    /// A bit for each ticket from [`Rounds::complete`] on.
    tickets: u64,
}

/// The rounds of this leader.
pub struct Rounds {
    network: &'static dyn Barrier,
    reached: Mutex<Reached>,
    /// Tickets given out.
    tickets: AtomicU32,
    /// Complete tickets: all lower ones. SYNC POINT barrier-round: the store in `end` (release)
    /// pairs with the load in `pass` (acquire).
    complete: AtomicU32,
}

static ROUNDS: OnceLock<Rounds> = OnceLock::new();

/// The algorithms of `GASNET_BARRIER` that are stages. Other names are those of networks.
const STAGES: [&str; 5] = ["PSHM", "DISSEM", "AMDISSEM", "RDMADISSEM", "AMCENTRAL"];

/// Whether the user wants no barrier of the network.
pub fn are_declined(config: &Config) -> bool {
    let wanted = config.get(&config::BARRIER).unwrap_or_default();
    STAGES.iter().any(|name| wanted.eq_ignore_ascii_case(name))
}

/// Uses the network's barrier from now on. At initialisation, on leaders.
pub fn install(network: &'static dyn Barrier) {
    let _ = ROUNDS.set(Rounds::new(network));
}

/// That of this leader, if the network has a barrier.
pub fn get() -> Option<&'static Rounds> {
    ROUNDS.get()
}

/// The ticket of the next barrier of `team`, if the leaders' stage of that uses rounds.
pub fn ticket(team: &Team) -> Option<Ticket> {
    let rounds = get().filter(|_| team.is_primordial())?;
    Some(Ticket(rounds.tickets.fetch_add(1, Ordering::Relaxed)))
}

/// A round has ended.
pub fn on_end(words: [u64; 2]) {
    if let Some(rounds) = get() {
        if let Some((phase, name)) = rounds.end(words) {
            of_job().release(phase, name);
        }
    }
}

impl Rounds {
    fn new(network: &'static dyn Barrier) -> Self {
        Self {
            network,
            reached: Mutex::new(Reached {
                round: None,
                named: None,
                phases: 0,
                tickets: 0,
            }),
            tickets: AtomicU32::new(0),
            complete: AtomicU32::new(0),
        }
    }

    /// The own neighbourhood has reached this phase of the named barrier, or had before.
    pub fn reach_named(&self, phase: u32, name: impl FnOnce() -> Name) {
        if let Ok(mut reached) = self.reached.try_lock() {
            if reached.named.is_none() && reached.phases == phase {
                reached.named = Some(name());
            }
            reached.enter(self.network);
        }
    }

    /// The own neighbourhood has reached this barrier. Returns whether all have; if not, call
    /// again.
    pub fn pass(&self, Ticket(number): Ticket) -> bool {
        let distance = |complete: u32| number.wrapping_sub(complete) as i32;
        if distance(self.complete.load(Ordering::Acquire)) < 0 {
            return true;
        }
        if let Ok(mut reached) = self.reached.try_lock() {
            let distance = distance(self.complete.load(Ordering::Relaxed));
            if (0..WINDOW as i32).contains(&distance) {
                reached.tickets |= 1 << distance;
            }
            reached.enter(self.network);
        }
        false
    }

    /// Ends a round, and enters the next one for what is still incomplete, if this one has changed
    /// something or more was reached meanwhile. If not, the next would probably change nothing
    /// either, and the next poll of a thread that waits enters it. Returns the phase of the named
    /// barrier that is complete, and its name.
    fn end(&self, [bits, name]: [u64; 2]) -> Option<(u32, Name)> {
        let mut reached = gasnet_sys::lock(&self.reached);
        let entered = reached.round.take();
        let passed = (bits & !NAMED) >> 1;
        let count = passed.trailing_ones();
        // Whoever has reached a ticket has reached those before it, but may have set its bit later.
        if count > 0 {
            reached.tickets >>= count;
            let complete = self.complete.load(Ordering::Relaxed);
            self.complete.store(complete.wrapping_add(count), Ordering::Release);
        }
        let phase = reached.phases;
        let named = (bits & NAMED != 0).then(|| (phase, name_of(name)));
        if named.is_some() {
            reached.named = None;
            reached.phases = phase.wrapping_add(1);
        }
        if bits != 0 || entered != Some(reached.bits()) {
            reached.enter(self.network);
        }
        named
    }
}

impl Reached {
    fn bits(&self) -> u64 {
        self.tickets << 1 | if self.named.is_some() { NAMED } else { 0 }
    }

    /// Enters a round, if there is something to wait for. If the network is busy, whoever waits
    /// comes here again.
    fn enter(&mut self, network: &dyn Barrier) {
        let bits = self.bits();
        if self.round.is_none() && bits != 0 {
            let name = self.named.unwrap_or(Name::Anonymous);
            let entered = thread::in_conduit(|| network.enter([bits, word_of(name)])) != Err(Busy);
            self.round = entered.then_some(bits);
        }
    }
}

/// A name as the word that a round ANDs.
fn word_of(name: Name) -> u64 {
    match name {
        Name::Anonymous => u64::MAX,
        Name::Named(id) => u64::from(id as u32) << 32 | u64::from(!id as u32),
        Name::Mismatch => 0,
    }
}

/// The merged name, from the AND of all words.
fn name_of(word: u64) -> Name {
    let (id, inverted) = ((word >> 32) as u32, word as u32);
    match word {
        u64::MAX => Name::Anonymous,
        _ if id == !inverted => Name::Named(id as i32),
        _ => Name::Mismatch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex as StdMutex;

    #[test]
    fn anded_words_merge_names() {
        let names = [Name::Anonymous, Name::Mismatch]
            .into_iter()
            .chain([0, 1, -1, i32::MAX, i32::MIN, 0x5555_5555].map(Name::Named));
        for a in names.clone() {
            for b in names.clone() {
                assert_eq!(name_of(word_of(a) & word_of(b)), a.merge(b), "{a:?} {b:?}");
            }
        }
    }

    /// A network in which the rounds of leaders meet.
    struct Leader(StdMutex<Vec<[u64; 2]>>);

    impl Barrier for Leader {
        fn enter(&self, words: [u64; 2]) -> Result<(), Busy> {
            self.0.lock().unwrap().push(words);
            Ok(())
        }
    }

    struct Job {
        networks: [&'static Leader; 2],
        rounds: [Rounds; 2],
    }

    impl Job {
        fn new() -> Self {
            let networks = [(); 2].map(|()| &*Box::leak(Box::new(Leader(StdMutex::default()))));
            Self {
                networks,
                rounds: networks.map(|network| Rounds::new(network)),
            }
        }

        /// Ends rounds until a leader has not entered the next one. Returns what is complete in
        /// them.
        fn run(&self) -> Vec<(u32, Name)> {
            let mut complete = Vec::new();
            for _ in 0..8 {
                let entered = self.networks.map(|network| network.0.lock().unwrap().pop());
                let [Some(a), Some(b)] = entered else {
                    for (network, words) in self.networks.iter().zip(entered) {
                        network.0.lock().unwrap().extend(words);
                    }
                    break;
                };
                let ended = self.rounds.each_ref().map(|r| r.end([a[0] & b[0], a[1] & b[1]]));
                assert_eq!(ended[0], ended[1]);
                complete.extend(ended[0]);
            }
            complete
        }
    }

    #[test]
    fn barriers_may_be_reached_in_any_order() {
        let job = Job::new();
        let [a, b] = &job.rounds;
        // Leader a reaches the named barrier first, leader b that of team 0.
        a.reach_named(0, || Name::Named(7));
        assert!(!b.pass(Ticket(0)));
        assert_eq!(job.run(), []);
        assert!(!b.pass(Ticket(0)) && !a.pass(Ticket(0)));
        assert_eq!(job.run(), []);
        assert!(b.pass(Ticket(0)) && a.pass(Ticket(0)));
        b.reach_named(0, || Name::Anonymous);
        a.reach_named(0, || unreachable!("it had reached that phase"));
        assert_eq!(job.run(), [(0, Name::Named(7))]);
        // A waiter that comes late to a complete phase begins nothing.
        a.reach_named(0, || unreachable!("the phase is complete"));
        assert_eq!(job.networks[0].0.lock().unwrap().len(), 0);
    }

    #[test]
    fn tickets_complete_in_order_though_bits_are_set_in_any() {
        let job = Job::new();
        let [a, b] = &job.rounds;
        for number in [2, 0, 1] {
            assert!(!a.pass(Ticket(number)));
        }
        assert!(!b.pass(Ticket(0)) && !b.pass(Ticket(1)));
        job.run();
        assert!(a.pass(Ticket(0)) && a.pass(Ticket(1)) && !a.pass(Ticket(2)));
        assert!(b.pass(Ticket(1)) && !b.pass(Ticket(2)));
        job.run();
        assert!(a.pass(Ticket(2)) && b.pass(Ticket(2)));
    }

    #[test]
    fn more_tickets_than_bits_wait_their_turn() {
        let job = Job::new();
        for number in 0..3 * WINDOW {
            for rounds in &job.rounds {
                rounds.pass(Ticket(number));
            }
        }
        for number in 0..3 * WINDOW {
            let tries = (0..1000).take_while(|_| {
                job.run();
                !job.rounds
                    .each_ref()
                    .map(|r| r.pass(Ticket(number)))
                    .iter()
                    .all(|&passed| passed)
            });
            assert!(tries.count() < 1000, "barrier {number} never completes");
        }
    }
}
