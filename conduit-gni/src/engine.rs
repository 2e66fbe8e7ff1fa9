//! The collective engine of Aries: reductions of two operands over a tree of hosts, in which each
//! leader of a neighbourhood is a leaf of its host.
//!
//! The first leader of a host owns the host's engine, and configures it with its children and its
//! parent. The numbers of engines are exchanged at start; if one process has no engine, nobody uses
//! them.

use crate::completion::CompletionAction;
use crate::ffi::{Code, EngineHandle, Local};
use crate::net::{Net, FIRST};
use crate::region::ENGINE_ROUND;
use crate::settings::{Flavour, Settings};
use gasnet_conduit::config::{self, BARRIER};
use gasnet_conduit::{Busy, JobRank, StartInfo};
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::{AtomicBool, Ordering};

/// "There is no engine."
const NONE: u32 = u32::MAX;

/// The tree, as this process sees it.
#[derive(Debug, PartialEq, Eq)]
struct Tree {
    /// The first leader of this host.
    host_leader: JobRank,
    /// Which child of the host's engine this process is.
    leaf: u32,
    /// If this is the first leader: what its engine is connected to.
    node: Option<Node>,
}

/// The engine of a host in the tree.
#[derive(Debug, Default, PartialEq, Eq)]
struct Node {
    /// The first leader of the host above, and which child of its engine this one is.
    parent: Option<(JobRank, u32)>,
    /// The leaders of this host, its first one too: the first children.
    leaves: Vec<JobRank>,
    /// The first leaders of the hosts below: the further children.
    below: Vec<JobRank>,
}

impl Tree {
    /// The tree over `(leader, host)` of all neighbourhoods. None: a host has too many children, or
    /// this process leads none.
    fn new(leaders: &[(JobRank, u32)], own: JobRank, radix: usize) -> Option<Self> {
        let mut hosts: Vec<(u32, Vec<JobRank>)> = Vec::new();
        for (leader, host) in leaders {
            match hosts.iter_mut().find(|(number, _)| number == host) {
                Some((_, leaves)) => leaves.push(*leader),
                None => hosts.push((*host, vec![*leader])),
            }
        }
        if hosts
            .iter()
            .any(|(_, leaves)| leaves.len() + radix > abi::GNI_CE_MAX_CHILDREN as usize)
        {
            return None;
        }
        let first = |index: usize| hosts[index].1[0];
        let index = hosts.iter().position(|(_, leaves)| leaves.contains(&own))?;
        let leaves = &hosts[index].1;
        let leaf = leaves.iter().position(|leader| *leader == own)?;
        let node = (leaf == 0).then(|| {
            let below = index * radix + 1..((index + 1) * radix + 1).min(hosts.len().max(index * radix + 1));
            let parent = index.checked_sub(1).map(|before| {
                let above = before / radix;
                let child = hosts[above].1.len() + before % radix;
                (first(above), child as u32)
            });
            Node {
                parent,
                leaves: leaves.clone(),
                below: below.map(first).collect(),
            }
        });
        Some(Self {
            host_leader: leaves[0],
            leaf: leaf as u32,
            node,
        })
    }
}

/// The engine, as this process uses it.
#[derive(Debug)]
pub struct Engine {
    host_leader: JobRank,
    own: Option<EngineHandle>,
    /// Whether the engine has taken the operands.
    is_taken: AtomicBool,
}

/// Whether barriers may use the engine.
fn is_wanted(settings: &Settings, info: &StartInfo<'_>) -> bool {
    let algorithm = config::get().get_or_default(&BARRIER).unwrap_or_default();
    let alone = info.leaders.len() == info.size as usize;
    settings.flavour == Flavour::Aries
        && settings.engine
        && (settings.engine_hybrid || alone)
        && !algorithm.eq_ignore_ascii_case("GNIDISSEM")
}

impl Engine {
    /// Prepares the engine. Collective. None: there is none for all.
    pub fn prepare(net: &Net, info: &StartInfo<'_>) -> Option<Self> {
        let leaders: Vec<_> = info
            .leaders
            .iter()
            .map(|leader| (*leader, (info.place_of)(*leader).host))
            .collect();
        let wanted = is_wanted(&net.settings, info);
        let tree = Tree::new(&leaders, info.rank, net.settings.engine_radix);
        let leads = tree.as_ref().is_some_and(|tree| tree.node.is_some());
        let own = (wanted && leads).then(|| net.domains[FIRST].engine().ok()).flatten();
        // Leaves and other processes have no engine, but must not hinder those that do.
        let fits = wanted && (tree.is_some() || info.leaders.binary_search(&info.rank).is_err());
        let number = own.as_ref().map_or(NONE, |engine| engine.number);
        let ready = u32::from(fits && (own.is_some() || !leads));
        let all = (info.exchange)(&[ready.to_le_bytes(), number.to_le_bytes()].concat());
        let word = |index: usize| {
            let bytes = all[4 * index..].first_chunk().copied().unwrap_or_default();
            u32::from_le_bytes(bytes)
        };
        let is_ready = (0..info.size as usize).all(|rank| word(2 * rank) == 1);
        let number_of = |rank: JobRank| word(2 * rank.index() + 1);
        let configured = match (&tree, is_ready) {
            (Some(tree), true) => net.configure(tree, own.as_ref(), &number_of),
            (None, true) => Ok(()),
            _ => Err(Code::NOT_DONE),
        };
        // Nobody reduces before all are configured.
        let all = (info.exchange)(&[u8::from(configured.is_ok())]);
        if all.contains(&0) {
            if let Some(own) = own {
                net.domains[FIRST].destroy_engine(&own);
            }
            return None;
        }
        Some(Self {
            host_leader: tree?.host_leader,
            own,
            is_taken: AtomicBool::new(false),
        })
    }
}

impl Net {
    fn configure(
        &self,
        tree: &Tree,
        own: Option<&EngineHandle>,
        number_of: &impl Fn(JobRank) -> u32,
    ) -> Result<(), Code> {
        let mut turn = self.domains[FIRST].turn();
        let endpoint = |turn: &mut crate::ffi::QueueGuard<'_>, rank| self.endpoint(turn, rank).ok_or(Code::INVALID);
        if let (Some(node), Some(own)) = (&tree.node, own) {
            let mut children = Vec::new();
            let leaves = node.leaves.iter().map(|leader| (*leader, abi::GNI_CE_CHILD_PE));
            let below = node.below.iter().map(|leader| (*leader, abi::GNI_CE_CHILD_VCE));
            for (child, (leader, kind)) in (0..).zip(leaves.chain(below)) {
                let endpoint = endpoint(&mut turn, leader)?;
                turn.set_engine(endpoint, number_of(leader), child, kind)?;
                children.push(endpoint);
            }
            let parent = match node.parent {
                Some((leader, child)) => {
                    let endpoint = endpoint(&mut turn, leader)?;
                    turn.set_engine(endpoint, number_of(leader), child, abi::GNI_CE_CHILD_VCE)?;
                    Some(endpoint)
                }
                None => None,
            };
            turn.configure_engine(own, &children, parent)?;
        }
        let leaf = endpoint(&mut turn, tree.host_leader)?;
        turn.set_engine(leaf, number_of(tree.host_leader), tree.leaf, abi::GNI_CE_CHILD_PE)
    }

    /// Gives operands to the engine.
    pub fn reduce(&self, engine: &Engine, words: [u64; 2]) -> Result<(), Busy> {
        let mut turn = self.domains[FIRST].turn();
        let Some(mut post) = turn.take() else { return Err(Busy) };
        let offset = self.region.layout.round(ENGINE_ROUND);
        for index in 0..3 {
            self.region.word(offset + 8 * index).store(0, Ordering::Relaxed);
        }
        engine.is_taken.store(false, Ordering::Relaxed);
        let result = Local {
            address: self.region.base() + offset,
            handle: self.region_memory.handle,
        };
        post.peer = engine.host_leader;
        post.done = CompletionAction::Reduction;
        post.reduce(abi::GNI_FMA_CE_AND, words, result);
        // SAFETY: the result lies in the region.
        unsafe { self.post(&mut turn, FIRST, post, None) };
        Ok(())
    }

    /// The operands were taken.
    pub fn note_reduction(&self) {
        if let Some(engine) = self.rounds.as_ref().and_then(|rounds| rounds.engine.as_ref()) {
            engine.is_taken.store(true, Ordering::Relaxed);
        }
    }

    /// The result of a reduction, if it is there.
    pub fn reduced(&self, engine: &Engine) -> Option<[u64; 2]> {
        if !engine.is_taken.load(Ordering::Relaxed) {
            return None;
        }
        let offset = self.region.layout.round(ENGINE_ROUND);
        match self.domains[FIRST].turn().engine_result(self.region.base() + offset) {
            Ok(()) => Some([1, 2].map(|index| self.region.word(offset + 8 * index).load(Ordering::Acquire))),
            Err(Code::NOT_DONE) => None,
            Err(code) => {
                self.fail(&format!("a reduction by the collective engine failed: {code}"));
                None
            }
        }
    }

    /// Gives the engine back.
    pub fn release_engine(&mut self) {
        let engine = self.rounds.as_mut().and_then(|rounds| rounds.engine.take());
        if let Some(own) = engine.and_then(|engine| engine.own) {
            self.domains[FIRST].destroy_engine(&own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_have_each_host_once() {
        // Hosts of 1, 2 and 3 leaders in turn.
        let mut leaders = Vec::new();
        for host in 0..12 {
            for _ in 0..=host % 3 {
                leaders.push((JobRank(leaders.len() as u32), host));
            }
        }
        for radix in [1, 2, 5, 31 - 3] {
            let tree = |rank: JobRank| Tree::new(&leaders, rank, radix).unwrap();
            let mut children = 0;
            for (rank, _) in &leaders {
                let Some(node) = tree(*rank).node else { continue };
                for (child, below) in (node.leaves.len() as u32..).zip(&node.below) {
                    assert_eq!(tree(*below).node.unwrap().parent, Some((*rank, child)));
                    children += 1;
                }
                for (leaf, leader) in (0..).zip(&node.leaves) {
                    assert_eq!((tree(*leader).host_leader, tree(*leader).leaf), (*rank, leaf));
                }
            }
            assert_eq!(children, 11);
        }
        assert_eq!(Tree::new(&leaders, JobRank(0), 30), None);
        assert_eq!(Tree::new(&leaders, JobRank(99), 2), None);
    }
}
