//! State of the job as its library sees it: the ranks that have joined, the store, and the
//! collective calls that wait for others. No system calls.

use std::collections::{BTreeMap, HashMap};

use crate::code;
use crate::protocol::{Collective, Layout, Request};

/// The answer to a rank: a code of the library, and bytes.
pub type Answer = (u32, i32, Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Started,
    Joined,
    /// It has finalised.
    Left,
    /// Its process has ended.
    Ended,
}

/// A collective call that waits for others.
#[derive(Debug)]
struct Pending {
    call: Collective,
    bytes: BTreeMap<u32, Vec<u8>>,
}

#[derive(Debug)]
struct Stored {
    owner: u32,
    value: Vec<u8>,
    /// The fence of its owner that makes it visible, counted from 1.
    fence: u32,
}

#[derive(Debug)]
pub struct State {
    layout: Layout,
    seed: u64,
    lazy: bool,
    phases: Vec<Phase>,
    /// By rank: fences that it has passed.
    fences: Vec<u32>,
    store: HashMap<Vec<u8>, Stored>,
    /// By node; None: of all.
    pending: HashMap<Option<u32>, Pending>,
    /// Ranks that wait for a value, with a lazy fence.
    getting: Vec<(u32, Vec<u8>)>,
    /// Messages about misuse, and of ranks that end the job.
    pub complaints: Vec<String>,
    /// The rank that has asked for the end of the job.
    pub aborted: Option<u32>,
}

/// Numbers below `count` in another order, always the same for a seed.
fn shuffled(count: usize, mut seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut random = || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) as usize
    };
    for last in (1..count).rev() {
        order.swap(last, random() % (last + 1));
    }
    if order.iter().copied().eq(0..count) {
        order.reverse();
    }
    order
}

impl State {
    /// Nobody has joined.
    pub fn new(layout: Layout, seed: u64, lazy: bool) -> Self {
        let size = layout.nodes.len();
        Self {
            layout,
            seed,
            lazy,
            phases: vec![Phase::Started; size],
            fences: vec![0; size],
            store: HashMap::new(),
            pending: HashMap::new(),
            getting: Vec::new(),
            complaints: Vec::new(),
            aborted: None,
        }
    }

    pub fn phase(&self, rank: u32) -> Phase {
        self.phases[rank as usize]
    }

    fn ranks(&self, node: Option<u32>) -> Vec<u32> {
        let all = (0..).zip(&self.layout.nodes);
        all.filter(|(_, of)| node.is_none_or(|node| node == **of))
            .map(|(rank, _)| rank)
            .collect()
    }

    fn is_gone(&self, rank: u32) -> bool {
        matches!(self.phase(rank), Phase::Left | Phase::Ended)
    }

    /// A process joins as this rank. The bytes are the layout.
    pub fn join(&mut self, rank: u32) -> (i32, Vec<u8>) {
        match self.phases.get_mut(rank as usize) {
            Some(phase @ Phase::Started) => {
                *phase = Phase::Joined;
                (code::SUCCESS, self.layout.encode())
            }
            _ => (code::FAIL, Vec::new()),
        }
    }

    /// A request of a rank that has joined.
    pub fn request(&mut self, rank: u32, request: Request) -> Vec<Answer> {
        if self.phase(rank) != Phase::Joined {
            return vec![(rank, code::ERR_INIT, Vec::new())];
        }
        match request {
            Request::Join(_) => vec![(rank, code::FAIL, Vec::new())],
            Request::Leave => {
                let mut answers = vec![(rank, code::SUCCESS, Vec::new())];
                answers.extend(self.gone(rank, Phase::Left));
                answers
            }
            Request::Abort(message) => {
                self.complaints.push(format!("rank {rank} ends the job: {message}"));
                self.aborted.get_or_insert(rank);
                Vec::new()
            }
            Request::Put(key, value) => {
                let fence = self.fences[rank as usize] + 1;
                if let Some(first) = self.store.get(&key).map(|stored| stored.owner) {
                    let key = String::from_utf8_lossy(&key).into_owned();
                    self.complaints
                        .push(format!("rank {rank}: rank {first} has put the key {key} before"));
                    return vec![(rank, code::ERR_INVALID_KEY, Vec::new())];
                }
                let stored = Stored {
                    owner: rank,
                    value,
                    fence,
                };
                self.store.insert(key, stored);
                vec![(rank, code::SUCCESS, Vec::new())]
            }
            Request::Get(key) => {
                self.getting.push((rank, key));
                self.answer_gets()
            }
            Request::Collect(Collective::Fence, _) if self.lazy => {
                self.fences[rank as usize] += 1;
                let mut answers = vec![(rank, code::SUCCESS, Vec::new())];
                answers.extend(self.answer_gets());
                answers
            }
            Request::Collect(call, bytes) => self.collect(rank, call, bytes),
        }
    }

    /// A rank's process has ended. Those that wait for it get an error.
    pub fn ended(&mut self, rank: u32) -> Vec<Answer> {
        self.gone(rank, Phase::Ended)
    }

    fn gone(&mut self, rank: u32, phase: Phase) -> Vec<Answer> {
        self.phases[rank as usize] = phase;
        let node = self.layout.nodes[rank as usize];
        let mut answers = Vec::new();
        for group in [None, Some(node)] {
            let waiting = self.pending.remove(&group);
            answers.extend(failures(
                waiting.into_iter().flat_map(|pending| pending.bytes.into_keys()),
            ));
        }
        answers.extend(self.answer_gets());
        answers.retain(|(to, ..)| self.phase(*to) == Phase::Joined);
        answers
    }

    fn collect(&mut self, rank: u32, call: Collective, bytes: Vec<u8>) -> Vec<Answer> {
        let own_node = self.layout.nodes[rank as usize];
        let group = (call == Collective::GatherOnNode).then_some(own_node);
        let members = self.ranks(group);
        if members.iter().any(|&member| self.is_gone(member)) {
            self.complaints.push(format!(
                "rank {rank} calls {call:?} after another has finalised or ended"
            ));
            return vec![(rank, code::FAIL, Vec::new())];
        }
        let empty = || Pending {
            call,
            bytes: BTreeMap::new(),
        };
        let pending = self.pending.entry(group).or_insert_with(empty);
        let length = pending.bytes.values().next().map_or(bytes.len(), Vec::len);
        if pending.call != call || length != bytes.len() {
            self.complaints.push(format!(
                "rank {rank} calls {call:?} with {} bytes, others {:?} with {length}",
                bytes.len(),
                pending.call
            ));
            let others = self.pending.remove(&group).into_iter();
            return failures(others.flat_map(|pending| pending.bytes.into_keys()).chain([rank]));
        }
        pending.bytes.insert(rank, bytes);
        if pending.bytes.len() < members.len() {
            return Vec::new();
        }
        let all: Vec<Vec<u8>> = self
            .pending
            .remove(&group)
            .map_or_else(Vec::new, |pending| pending.bytes.into_values().collect());
        let result = match call {
            Collective::Barrier | Collective::Fence => Vec::new(),
            Collective::Broadcast => all[0].clone(),
            Collective::Gather | Collective::GatherOnNode => {
                let seed = group.map_or(self.seed, |node| self.seed ^ (u64::from(node) + 1) << 32);
                let order = shuffled(members.len(), seed);
                order.into_iter().flat_map(|index| all[index].iter().copied()).collect()
            }
        };
        if call == Collective::Fence {
            self.fences.iter_mut().for_each(|fences| *fences += 1);
        }
        let answer = |member| (member, code::SUCCESS, result.clone());
        members.into_iter().map(answer).collect()
    }

    /// Answers requests for values that are visible, or will never be.
    fn answer_gets(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (rank, key) in std::mem::take(&mut self.getting) {
            let passed = self.fences[rank as usize];
            let stored = self.store.get(&key).filter(|stored| {
                let owners = self.fences[stored.owner as usize];
                stored.fence <= passed && stored.fence <= owners
            });
            let may_come =
                (0..self.fences.len() as u32).any(|other| !self.is_gone(other) && self.fences[other as usize] < passed);
            match stored {
                Some(stored) => answers.push((rank, code::SUCCESS, stored.value.clone())),
                None if self.lazy && may_come => self.getting.push((rank, key)),
                None => answers.push((rank, code::FAIL, Vec::new())),
            }
        }
        answers
    }
}

fn failures(ranks: impl Iterator<Item = u32>) -> Vec<Answer> {
    ranks.map(|rank| (rank, code::FAIL, Vec::new())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(nodes: &[u32], lazy: bool) -> State {
        let layout = Layout {
            job: "j".into(),
            nodes: nodes.to_vec(),
            apps: vec![0; nodes.len()],
        };
        let mut state = State::new(layout, 1, lazy);
        for rank in 0..nodes.len() as u32 {
            assert_eq!(state.join(rank).0, code::SUCCESS);
        }
        state
    }

    fn put(state: &mut State, rank: u32, key: &str, value: &str) -> i32 {
        state.request(rank, Request::Put(key.into(), value.into()))[0].1
    }

    fn get(state: &mut State, rank: u32, key: &str) -> Vec<Answer> {
        state.request(rank, Request::Get(key.into()))
    }

    #[test]
    fn orders_differ_from_ranks_and_stay() {
        for count in 2..40 {
            let order = shuffled(count, 1);
            assert!(!order.iter().copied().eq(0..count) && order == shuffled(count, 1));
            let mut sorted = order;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..count));
        }
    }

    #[test]
    fn gathers_wait_for_all_of_their_group() {
        let mut state = job(&[0, 0, 1, 1], false);
        let gather = |state: &mut State, rank: u32, call| state.request(rank, Request::Collect(call, vec![rank as u8]));
        assert!(gather(&mut state, 3, Collective::GatherOnNode).is_empty());
        let node = gather(&mut state, 2, Collective::GatherOnNode);
        assert_eq!(node.iter().map(|answer| answer.0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(node[0].2, [3, 2]);
        for rank in 1..4 {
            assert!(gather(&mut state, rank, Collective::Gather).is_empty());
        }
        let all = gather(&mut state, 0, Collective::Gather);
        assert!(all.len() == 4 && all.iter().all(|answer| answer.2 == all[0].2 && answer.2.len() == 4));
        // Others than the first, and the end of a rank.
        assert!(gather(&mut state, 0, Collective::Gather).is_empty());
        assert!(gather(&mut state, 1, Collective::Broadcast)
            .iter()
            .all(|answer| answer.1 == code::FAIL));
        assert!(gather(&mut state, 0, Collective::Gather).is_empty());
        let left = state.request(2, Request::Leave);
        assert_eq!(left, [(2, code::SUCCESS, Vec::new()), (0, code::FAIL, Vec::new())]);
        assert_eq!(gather(&mut state, 1, Collective::Gather)[0].1, code::FAIL);
        assert_eq!(state.complaints.len(), 2);
    }

    #[test]
    fn values_are_visible_after_a_fence() {
        let mut state = job(&[0, 0], false);
        assert_eq!(put(&mut state, 0, "k", "v"), code::SUCCESS);
        assert_eq!(put(&mut state, 1, "k", "w"), code::ERR_INVALID_KEY);
        assert_eq!(get(&mut state, 0, "k")[0].1, code::FAIL);
        let fence = |state: &mut State, rank| state.request(rank, Request::Collect(Collective::Fence, Vec::new()));
        assert!(fence(&mut state, 0).is_empty());
        assert_eq!(fence(&mut state, 1).len(), 2);
        assert_eq!(get(&mut state, 1, "k"), [(1, code::SUCCESS, b"v".to_vec())]);
    }

    #[test]
    fn a_lazy_fence_lets_gets_wait() {
        let mut state = job(&[0, 0], true);
        let fence = |state: &mut State, rank| state.request(rank, Request::Collect(Collective::Fence, Vec::new()));
        assert_eq!(fence(&mut state, 1).len(), 1);
        assert!(get(&mut state, 1, "k").is_empty());
        assert_eq!(put(&mut state, 0, "k", "v"), code::SUCCESS);
        let answers = fence(&mut state, 0);
        assert_eq!(answers[1], (1, code::SUCCESS, b"v".to_vec()));
        assert_eq!(get(&mut state, 1, "other")[0].1, code::FAIL);
    }
}
