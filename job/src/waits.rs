//! The waits of a job: what each rank does, in words, and who waits for whom in cycles. For tools,
//! and for the stall watchdog.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::attach::{JobView, Reading};
use super::counters::{group_shift, words, HandlerWord, Wait, WaitWord, COLLECTIVE, WORK};
use super::job::Job;
use super::view::{Process, RankView, ThreadView};
use gasnet_conduit::Class;

/// A reading of a job.
#[derive(Debug)]
pub struct Sample {
    /// Ranks in the job.
    pub size: u32,
    /// The ranks that could be read.
    pub reading: Reading,
}

/// The states of the ranks of this process's job, a line for each group of which the same is true,
/// and the cycles. Of all hosts on the first one; this may take two seconds if one does not answer.
pub fn of_this_job(job: &Job) -> Vec<String> {
    let now = Sample::read(&JobView::own(job));
    let states = now.states(&now);
    let cycles = now
        .cycles(&states)
        .into_iter()
        .map(|cycle| format!("CYCLE: {}", path(&cycle)));
    now.descriptions(&states).into_iter().chain(cycles).collect()
}

/// `rank 0 -> rank 2 -> rank 0`.
pub fn path(cycle: &[u32]) -> String {
    let ranks = cycle.iter().chain(cycle.first()).map(|rank| format!("rank {rank}"));
    ranks.collect::<Vec<_>>().join(" -> ")
}

/// A state of a rank or of one of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Its process is gone.
    Ended,
    /// By a signal or a debugger.
    Stopped,
    /// Waits for a debugger.
    Frozen,
    /// Has called exit.
    InExit,
    /// Runs, and does not count.
    Uncounted,
    /// Waits for other ranks in the start, or while segments are attached.
    Exchange,
    /// Runs a handler of the client.
    Handles(Class, HandlerWord),
    /// Waits outside handlers.
    Waits(WaitWord),
    /// Waits inside this handler.
    WaitsInHandler(Class, HandlerWord, WaitWord),
    /// Polls, and receives messages or completions.
    Receives,
    /// Polls in vain.
    Polls,
    /// Does not poll.
    Computes,
}

/// A state with its subject.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// An index in the ranks of the sample.
    pub rank: usize,
    /// The thread, if the rank has several.
    pub thread: Option<u64>,
    /// The state.
    pub doing: Doing,
    /// Nanoseconds for which it lasts, if they are known.
    pub age: Option<u64>,
}

/// Polls that found something this recently count as success: twice the step of the coarse clock.
const RECENTLY: u64 = 2_000_000_000;

/// Waits that may be those of a cycle last this long.
const LONG: u64 = 1_000_000_000;

impl Sample {
    /// Reads a job.
    pub fn read(job: &JobView) -> Self {
        Self {
            size: job.size(),
            reading: job.read(),
        }
    }

    /// Ranks of hosts that were asked, and have not answered.
    pub fn silent(&self) -> Vec<u32> {
        let mut seen = self.reading.ranks.iter().map(|rank| rank.rank).peekable();
        let is_missing = |rank: &u32| seen.next_if_eq(rank).is_none();
        (0..self.size)
            .filter(is_missing)
            .filter(|_| self.reading.is_of_all)
            .collect()
    }

    /// The time since then, if that is known.
    pub fn age(&self, since: u64) -> Option<u64> {
        (since != 0).then(|| self.reading.at.saturating_sub(since))
    }

    /// The state of each rank, or one for each of its threads that waits or runs a handler.
    /// `earlier` is an earlier reading, which shows who polls.
    pub fn states(&self, earlier: &Self) -> Vec<State> {
        let mut all = Vec::new();
        for (rank, view) in self.reading.ranks.iter().enumerate() {
            let state = |doing, age| State {
                rank,
                thread: None,
                doing,
                age,
            };
            let live = || view.threads.iter().filter(|thread| thread.thread != 0);
            let busy: Vec<State> = live()
                .filter_map(|thread| {
                    let (doing, since) = of_thread(thread)?;
                    Some(State {
                        thread: (live().count() > 1).then_some(thread.thread),
                        ..state(doing, self.age(since))
                    })
                })
                .collect();
            match view.process {
                Process::Ended => all.push(state(Doing::Ended, None)),
                Process::Stopped => all.push(state(Doing::Stopped, None)),
                Process::Frozen => all.push(state(Doing::Frozen, None)),
                Process::Runs if view.in_exit => all.push(state(Doing::InExit, None)),
                Process::Runs if !view.counts => all.push(state(Doing::Uncounted, None)),
                Process::Runs if view.exchange_since != 0 => {
                    all.push(state(Doing::Exchange, self.age(view.exchange_since)));
                }
                Process::Runs if busy.is_empty() => {
                    let (doing, since) = of_idle(view, earlier, self.reading.at);
                    all.push(state(doing, self.age(since)));
                }
                Process::Runs => all.extend(busy),
            }
        }
        all
    }

    /// The known ranks for which a state waits: without all of them it does not end.
    pub fn waited_for(&self, state: &State) -> Vec<u32> {
        let me = &self.reading.ranks[state.rank];
        let those = |is_late: &dyn Fn(&RankView) -> bool| {
            let late = self
                .reading
                .ranks
                .iter()
                .filter(|other| other.rank != me.rank && is_late(other));
            late.map(|other| other.rank).collect()
        };
        match state.doing {
            Doing::Waits(wait) | Doing::WaitsInHandler(_, _, wait) => match (wait.reason, wait.peer) {
                (Wait::SomeEvent, _) => Vec::new(),
                (Wait::NamedBarrier, _) => those(&|other| (other.barrier.wrapping_sub(me.barrier) as i32) < 0),
                (_, peer) => peer.into_iter().collect(),
            },
            Doing::Exchange => those(&|other| (other.exchanges.wrapping_sub(me.exchanges) as i32) < 0),
            Doing::InExit => those(&|other| !other.in_exit && other.process != Process::Ended),
            _ => Vec::new(),
        }
    }

    /// Pairs of ranks, and the messages between them that are not handled yet, most first. Where
    /// ranks share counters, and of hosts that are not known, there are none.
    pub fn unhandled(&self) -> Vec<(u32, u32, u64)> {
        let ranks = &self.reading.ranks;
        let mut pairs = Vec::new();
        for from in ranks.iter().filter(|_| group_shift(self.size) == 0) {
            for peer in &from.peers {
                let Ok(to) = ranks.binary_search_by_key(&peer.group, |rank| rank.rank) else {
                    continue;
                };
                let back = ranks[to].peers.iter().find(|peer| peer.group == from.rank);
                let handled = back.map_or(0, |back| back.traffic.sum(words::RECEIVED));
                let count = peer.traffic.sum(words::SENT).saturating_sub(handled);
                pairs.push((from.rank, peer.group, count));
            }
        }
        pairs.retain(|&(.., count)| count > 0);
        pairs.sort_by_key(|&(.., count)| Reverse(count));
        pairs
    }

    /// Polls of a rank in a second.
    pub fn poll_rate(&self, earlier: &Self, view: &RankView) -> u64 {
        let ns = self.reading.at.saturating_sub(earlier.reading.at).max(1);
        (u128::from(polls_since(earlier, view)) * 1_000_000_000 / u128::from(ns)) as u64
    }

    /// Cycles of waits that have lasted for a while, each from its lowest rank on. Ranks that serve
    /// each other while they wait are shorter in one.
    pub fn cycles(&self, states: &[State]) -> Vec<Vec<u32>> {
        let mut edges: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let is_long = |state: &&State| state.age.is_none_or(|age| age >= LONG);
        for state in states.iter().filter(is_long) {
            let from = edges.entry(self.reading.ranks[state.rank].rank).or_default();
            from.extend(self.waited_for(state));
        }
        cycles(&edges)
    }

    /// The states in words, one line for all ranks of which the same is true.
    pub fn descriptions(&self, states: &[State]) -> Vec<String> {
        let mut groups: Vec<(String, String, Vec<&State>)> = Vec::new();
        for state in states {
            let (before, after) = self.phrase(state);
            let known = groups.iter_mut().find(|(b, a, those)| {
                (b, a) == (&before, &after) && state.thread.is_none() && those[0].thread.is_none()
            });
            match known {
                Some((_, _, those)) => those.push(state),
                None => groups.push((before, after, vec![state])),
            }
        }
        let described = |(before, after, those): (String, String, Vec<&State>)| {
            let ranks: Vec<u32> = those.iter().map(|state| self.reading.ranks[state.rank].rank).collect();
            let subject = match those[0].thread {
                Some(thread) => format!("thread {thread} of {} has", named(&ranks)),
                None => format!("{} {}", named(&ranks), if ranks.len() == 1 { "has" } else { "have" }),
            };
            let age = lasting(&those);
            let for_age = age.as_ref().map_or(String::new(), |age| format!(" for {age}"));
            let age = age.map_or(String::new(), |age| format!(" {age}"));
            format!(
                "{subject} {}{after}",
                before.replace("{for}", &for_age).replace("{}", &age)
            )
        };
        let connecting = self.reading.ranks.iter().filter_map(|rank| {
            let (peer, since) = rank.connecting?;
            let age = seconds(self.age(since)?);
            let rank = rank.rank;
            Some(format!(
                "rank {rank} has been making a connection to rank {peer} for {age}"
            ))
        });
        groups.into_iter().map(described).chain(connecting).collect()
    }

    /// Words after "has": up to the age (`{}`, or `{for}` with this word before it), and after it.
    fn phrase(&self, state: &State) -> (String, String) {
        let waited_for = self.waited_for(state);
        let message = |class, handler: HandlerWord| {
            let kind = match class {
                Class::Request => "request",
                Class::Reply => "reply",
            };
            format!(", a {kind} of rank {}", handler.source)
        };
        let (before, after) = match state.doing {
            Doing::Ended => ("ended", String::new()),
            Doing::Stopped => ("been stopped by a signal or a debugger", String::new()),
            Doing::Frozen => ("been frozen for a debugger", String::new()),
            Doing::Uncounted => ("no counters (GASNET_COUNTERS=0)", String::new()),
            Doing::InExit => ("called exit", late(&waited_for, "called it")),
            Doing::Exchange => (
                "waited{}",
                format!(
                    " in the start of the job or the attachment of segments{}",
                    late(&waited_for, "come as far")
                ),
            ),
            Doing::Receives => ("polled, with success", String::new()),
            Doing::Polls => ("polled in vain{for}", String::new()),
            Doing::Computes => ("not polled{for}", String::new()),
            Doing::Waits(wait) => ("waited{}", self.object(state, wait, &waited_for)),
            Doing::WaitsInHandler(class, handler, wait) => {
                let (object, of) = (self.object(state, wait, &waited_for), message(class, handler));
                return (
                    "waited{}".into(),
                    format!("{object}, inside handler {}{of}", handler.index),
                );
            }
            Doing::Handles(class, handler) => {
                return (format!("run handler {}{{for}}", handler.index), message(class, handler))
            }
        };
        (before.into(), after)
    }

    /// The object of a wait.
    fn object(&self, state: &State, wait: WaitWord, waited_for: &[u32]) -> String {
        let peer = match wait.peer {
            Some(peer) if self.reading.ranks.iter().any(|rank| rank.rank == peer) => format!("rank {peer}"),
            Some(peer) if self.reading.is_of_all => format!("rank {peer}, whose host does not answer"),
            Some(peer) => format!("rank {peer} of another host"),
            None => "a rank".into(),
        };
        let collective = || self.behind(state);
        let operations = || {
            let kinds = (0..).zip(WORK).filter(|(n, _)| wait.work >> n & 1 != 0);
            let kinds: Vec<&str> = kinds.map(|(_, kind)| kind).collect();
            let peer = if wait.peer.is_some() { &peer } else { "several ranks" };
            match wait.work {
                0 => String::new(),
                COLLECTIVE => format!(" (a collective){}", collective()),
                _ => format!(" ({} with {peer})", kinds.join(", ")),
            }
        };
        match wait.reason {
            Wait::Event => format!(" for an event{}", operations()),
            Wait::SomeEvent => format!(" for one of several events{}", operations()),
            Wait::AllEvents => format!(" for all of several events{}", operations()),
            Wait::Implicit => format!(" for its implicit operations{}", operations()),
            Wait::NamedBarrier => format!(" in gasnet_barrier_wait{}", late(waited_for, "entered the barrier")),
            Wait::RequestRoom => format!(" for room to send a request to {peer}"),
            Wait::ReplyRoom => format!(" for room to send a reply to {peer}"),
            Wait::Conduit => format!(" for room in the conduit, for a transfer with {peer}"),
            Wait::Source => format!(" for the local completion of a put to {peer}"),
            Wait::Collective => format!(" in a blocking collective{}", collective()),
            Wait::Condition => " for a condition of the program (GASNET_BLOCKUNTIL)".into(),
        }
    }

    /// Ranks that have begun fewer collectives than this one: a hint, since teams differ.
    fn behind(&self, state: &State) -> String {
        let begun = |rank: &RankView| rank.threads.iter().map(|thread| thread.collectives).sum::<u64>();
        let mine = begun(&self.reading.ranks[state.rank]);
        let behind: Vec<u32> = self
            .reading
            .ranks
            .iter()
            .filter(|r| begun(r) < mine)
            .map(|r| r.rank)
            .collect();
        if behind.is_empty() {
            String::new()
        } else {
            late(&behind, "begun as many collectives")
        }
    }
}

/// The wait or the handler of a thread, the inner one first.
fn of_thread(thread: &ThreadView) -> Option<(Doing, u64)> {
    let [request, reply] = thread.handlers;
    let reply = reply.map(|(handler, since)| (Class::Reply, handler, since));
    let handler = reply.or_else(|| request.map(|(handler, since)| (Class::Request, handler, since)));
    match (thread.wait, handler) {
        (Some((wait, since)), Some((class, handler, _))) if wait.in_handler => {
            Some((Doing::WaitsInHandler(class, handler, wait), since))
        }
        (_, Some((class, handler, since))) => Some((Doing::Handles(class, handler), since)),
        (Some((wait, since)), None) => Some((Doing::Waits(wait), since)),
        (None, None) => None,
    }
}

/// The number of times that a rank has polled since an earlier reading; 0 if it was not there.
fn polls_since(earlier: &Sample, view: &RankView) -> u64 {
    let polls = |view: &RankView| view.threads.iter().map(|thread| thread.polls).sum::<u64>();
    let before = earlier.reading.ranks.iter().find(|before| before.rank == view.rank);
    before.map_or(0, |before| polls(view).wrapping_sub(polls(before)))
}

/// The state of a rank without waits and handlers, and since when.
fn of_idle(view: &RankView, earlier: &Sample, now: u64) -> (Doing, u64) {
    let last = |of: fn(&ThreadView) -> u64| view.threads.iter().map(of).max().unwrap_or(0);
    let (polled, found) = (last(|thread| thread.polled), last(|thread| thread.found));
    if polls_since(earlier, view) == 0 {
        (Doing::Computes, polled)
    } else if now.saturating_sub(found) < RECENTLY {
        (Doing::Receives, 0)
    } else {
        (Doing::Polls, found)
    }
}

/// `; rank 3 has not …`.
fn late(ranks: &[u32], done: &str) -> String {
    match ranks {
        [] => "; none of these ranks is late".into(),
        [_] => format!("; {} has not {done}", named(ranks)),
        _ => format!("; {} have not {done}", named(ranks)),
    }
}

/// `rank 3`, `ranks 1, 3-5`; ascending.
pub fn named(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let runs = runs.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    let list = runs.collect::<Vec<_>>().join(", ");
    if ranks.len() == 1 {
        format!("rank {list}")
    } else {
        format!("ranks {list}")
    }
}

/// `40 s`, `38 s to 40 s`; none if it is not known for all.
fn lasting(states: &[&State]) -> Option<String> {
    let ages: Vec<u64> = states.iter().map(|state| state.age).collect::<Option<_>>()?;
    let (least, most) = (seconds(*ages.iter().min()?), seconds(*ages.iter().max()?));
    Some(if least == most {
        most
    } else {
        format!("{least} to {most}")
    })
}

/// A time in words.
pub fn seconds(ns: u64) -> String {
    match Duration::from_nanos(ns).as_secs_f64() {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 600.0 => format!("{s:.0} s"),
        s if s < 36_000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

/// For each rank that is the lowest of a cycle, the shortest such cycle.
fn cycles(edges: &BTreeMap<u32, Vec<u32>>) -> Vec<Vec<u32>> {
    edges
        .keys()
        .filter_map(|&lowest| shortest_cycle(edges, lowest))
        .collect()
}

fn shortest_cycle(edges: &BTreeMap<u32, Vec<u32>>, lowest: u32) -> Option<Vec<u32>> {
    let mut before: BTreeMap<u32, u32> = BTreeMap::new();
    let mut reached = VecDeque::from([lowest]);
    while let Some(rank) = reached.pop_front() {
        for &next in edges.get(&rank).into_iter().flatten() {
            if next == lowest {
                let mut path = vec![rank];
                while let Some(&earlier) = path
                    .last()
                    .filter(|&&last| last != lowest)
                    .and_then(|last| before.get(last))
                {
                    path.push(earlier);
                }
                path.reverse();
                return Some(path);
            }
            if next > lowest && !before.contains_key(&next) {
                before.insert(next, rank);
                reached.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{PeerView, TrafficView};

    fn found(edges: &[(u32, &[u32])]) -> Vec<Vec<u32>> {
        cycles(&edges.iter().map(|(from, to)| (*from, to.to_vec())).collect())
    }

    #[test]
    fn cycles_are_found_once() {
        let none: Vec<Vec<u32>> = Vec::new();
        assert_eq!(found(&[]), none);
        assert_eq!(found(&[(0, &[1]), (1, &[2, 3]), (2, &[3])]), none);
        assert_eq!(found(&[(0, &[1]), (1, &[2]), (2, &[1])]), [vec![1, 2]]);
        assert_eq!(found(&[(0, &[2]), (1, &[0]), (2, &[1])]), [vec![0, 2, 1]]);
        assert_eq!(found(&[(4, &[4])]), [vec![4]]);
        // The shortest one, and one of other ranks.
        let edges: &[(u32, &[u32])] = &[(0, &[1, 3]), (1, &[2]), (2, &[0]), (3, &[0]), (5, &[6]), (6, &[5, 0])];
        assert_eq!(found(edges), [vec![0, 3], vec![5, 6]]);
    }

    fn rank(rank: u32, threads: Vec<ThreadView>) -> RankView {
        RankView {
            rank,
            host: String::new(),
            pid: 100 + rank as i32,
            process: Process::Runs,
            counts: true,
            in_exit: false,
            barrier: 0,
            exchanges: 3,
            exchange_since: 0,
            segment_bytes: 0,
            connections: 0,
            retransmissions: 0,
            connecting: None,
            memory: vec![],
            threads,
            peers: vec![],
        }
    }

    fn thread(wait: Option<(Wait, bool, Option<u32>)>, handler: Option<HandlerWord>) -> ThreadView {
        let word = |(reason, in_handler, peer)| WaitWord {
            reason,
            in_handler,
            peer,
            work: 0,
        };
        ThreadView {
            thread: 1,
            wait: wait.map(|wait| (word(wait), 10_000_000_000)),
            handlers: [handler.map(|handler| (handler, 20_000_000_000)), None],
            polls: 5,
            polled: 30_000_000_000,
            ..ThreadView::default()
        }
    }

    fn sample(ranks: Vec<RankView>) -> Sample {
        Sample {
            size: 9,
            reading: Reading {
                at: 50_000_000_000,
                ranks,
                is_of_all: false,
            },
        }
    }

    fn reported(now: &Sample, earlier: &Sample) -> (Vec<String>, Vec<Vec<u32>>) {
        let states = now.states(earlier);
        (now.descriptions(&states), now.cycles(&states))
    }

    #[test]
    fn waits_for_room_and_their_handler_are_named() {
        let request = HandlerWord { index: 131, source: 2 };
        let room = |peer| thread(Some((Wait::RequestRoom, false, Some(peer))), None);
        let now = sample(vec![
            rank(0, vec![thread(None, Some(request))]),
            rank(1, vec![room(0)]),
            rank(2, vec![room(0)]),
            rank(3, vec![room(8)]),
            rank(4, vec![thread(Some((Wait::ReplyRoom, true, Some(5))), Some(request))]),
            rank(5, vec![room(4)]),
        ]);
        let (descriptions, cycles) = reported(&now, &now);
        assert_eq!(
            descriptions,
            [
                "rank 0 has run handler 131 for 30 s, a request of rank 2",
                "ranks 1-2 have waited 40 s for room to send a request to rank 0",
                "rank 3 has waited 40 s for room to send a request to rank 8 of another host",
                "rank 4 has waited 40 s for room to send a reply to rank 5, inside handler 131, a request of rank 2",
                "rank 5 has waited 40 s for room to send a request to rank 4",
            ]
        );
        assert_eq!(cycles, [vec![4, 5]]);
        let mut soon = sample(now.reading.ranks.clone());
        soon.reading.at = 10_900_000_000;
        assert_eq!(reported(&soon, &soon).1, Vec::<Vec<u32>>::new());
    }

    #[test]
    fn connections_that_take_long_are_named() {
        let mut now = sample(vec![rank(3, vec![]), rank(4, vec![])]);
        now.reading.ranks[0].connecting = Some((0, 38_000_000_000));
        assert_eq!(
            reported(&now, &now).0,
            [
                "ranks 3-4 have not polled",
                "rank 3 has been making a connection to rank 0 for 12 s"
            ]
        );
    }

    #[test]
    fn hosts_that_do_not_answer_are_missing() {
        let room = thread(Some((Wait::RequestRoom, false, Some(8))), None);
        let mut now = sample(vec![rank(0, vec![room]), rank(2, vec![]), rank(3, vec![])]);
        assert_eq!(now.silent(), []);
        now.reading.is_of_all = true;
        assert_eq!(
            (now.silent(), named(&now.silent())),
            (vec![1, 4, 5, 6, 7, 8], "ranks 1, 4-8".into())
        );
        assert_eq!(
            reported(&now, &now).0[0],
            "rank 0 has waited 40 s for room to send a request to rank 8, whose host does not answer"
        );
    }

    #[test]
    fn late_ranks_are_named() {
        let in_barrier = |number| RankView {
            barrier: 7,
            ..rank(number, vec![thread(Some((Wait::NamedBarrier, false, None)), None)])
        };
        let mut exchanging = rank(6, vec![]);
        (exchanging.exchanges, exchanging.exchange_since) = (4, 45_000_000_000);
        let mut polling = rank(3, vec![thread(None, None)]);
        polling.barrier = 7;
        let mut ended = in_barrier(5);
        ended.process = Process::Ended;
        let mut now = sample(vec![
            in_barrier(0),
            in_barrier(1),
            rank(2, vec![thread(None, None)]),
            polling,
            ended,
        ]);
        let earlier = sample(now.reading.ranks.clone());
        now.reading.ranks[3].threads[0].polls += 1;
        assert_eq!(
            reported(&now, &earlier).0,
            [
                "ranks 0-1 have waited 40 s in gasnet_barrier_wait; rank 2 has not entered the barrier",
                "rank 2 has not polled for 20 s",
                "rank 3 has polled in vain",
                "rank 5 has ended",
            ]
        );
        now.reading.ranks.push(exchanging);
        let (descriptions, _) = reported(&now, &earlier);
        assert_eq!(
            descriptions[4],
            "rank 6 has waited 5.0 s in the start of the job or the attachment of segments; ranks 0-3, 5 have not \
             come as far"
        );
    }

    #[test]
    fn operations_and_their_peer_are_named() {
        let waiting = |number, reason, peer, work| {
            let mut waiting = thread(Some((reason, false, peer)), None);
            waiting.collectives = u64::from(number == 0);
            if let Some((word, _)) = &mut waiting.wait {
                word.work = work;
            }
            rank(number, vec![waiting])
        };
        let now = sample(vec![
            waiting(0, Wait::Event, None, COLLECTIVE),
            waiting(1, Wait::Event, Some(2), 0b1),
            waiting(2, Wait::AllEvents, Some(1), 0b1100),
            waiting(3, Wait::SomeEvent, Some(3), 0b10),
            waiting(4, Wait::Implicit, None, 0b101),
        ]);
        let (descriptions, cycles) = reported(&now, &now);
        assert_eq!(
            descriptions,
            [
                "rank 0 has waited 40 s for an event (a collective); ranks 1-4 have not begun as many collectives",
                "rank 1 has waited 40 s for an event (puts with rank 2)",
                "rank 2 has waited 40 s for all of several events (gets, atomics with rank 1)",
                "rank 3 has waited 40 s for one of several events (local completion with rank 3)",
                "rank 4 has waited 40 s for its implicit operations (puts, gets with several ranks)",
            ]
        );
        assert_eq!(cycles, [vec![1, 2]]);
    }

    #[test]
    fn threads_are_named_where_there_are_several() {
        let waiting = |number| ThreadView {
            thread: number,
            collectives: number,
            ..thread(Some((Wait::Collective, false, None)), None)
        };
        let now = sample(vec![rank(0, vec![waiting(7), waiting(8)]), rank(1, vec![waiting(14)])]);
        assert_eq!(
            reported(&now, &now).0,
            [
                "thread 7 of rank 0 has waited 40 s in a blocking collective; rank 1 has not begun as many collectives",
                "thread 8 of rank 0 has waited 40 s in a blocking collective; rank 1 has not begun as many collectives",
                "rank 1 has waited 40 s in a blocking collective",
            ]
        );
    }

    #[test]
    fn messages_on_their_way_are_those_not_handled() {
        let peer = |group, sent, received| {
            let mut traffic = TrafficView::default();
            (traffic.0[words::SENT.start], traffic.0[words::RECEIVED.end - 1]) = (sent, received);
            PeerView { group, traffic }
        };
        let mut ranks = [0, 1, 3].map(|number| rank(number, vec![])).to_vec();
        ranks[0].peers = vec![peer(0, 5, 5), peer(1, 10, 0), peer(2, 9, 0), peer(3, 3, 6)];
        ranks[1].peers = vec![peer(0, 2, 7)];
        ranks[2].peers = vec![peer(0, 6, 0), peer(3, 1, 0)];
        let mut now = sample(ranks);
        // Rank 2 is on a host that is not known.
        assert_eq!(now.unhandled(), [(0, 1, 3), (0, 3, 3), (1, 0, 2), (3, 3, 1)]);
        now.size = 65;
        assert_eq!(now.unhandled(), []);
    }

    #[test]
    fn polls_have_a_rate() {
        let mut now = sample(vec![rank(0, vec![thread(None, None)]), rank(1, vec![])]);
        let earlier = sample(now.reading.ranks[..1].to_vec());
        now.reading.at += 100_000_000;
        now.reading.ranks[0].threads[0].polls += 20;
        let rates: Vec<u64> = now
            .reading
            .ranks
            .iter()
            .map(|rank| now.poll_rate(&earlier, rank))
            .collect();
        assert_eq!(rates, [200, 0]);
    }

    #[test]
    fn times_have_a_fitting_unit() {
        let words = [0.25, 9.94, 9.96, 599.0, 601.0, 36_100.0].map(|s: f64| seconds((s * 1e9) as u64));
        assert_eq!(words, ["0.2 s", "9.9 s", "10 s", "599 s", "10 min", "10 h"]);
    }
}
