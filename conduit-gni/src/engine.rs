//! The collective engine of Aries: reductions of two operands over a tree of hosts, in which each
//! leader of a neighbourhood is a leaf of its host.
//!
//! The first leader of a host owns the host's engine, and configures it with its children and its
//! parent. The numbers of engines are exchanged at start; if one process has no engine, nobody uses
//! them.

use crate::ffi::{Code, EngineHandle};
use crate::operations::CompletionAction;
use crate::posts::{DomainGuard, Posts, FIRST};
use crate::region::Region;
use crate::settings::{Flavour, Settings};
use gasnet_conduit::config::{self, BARRIER};
use gasnet_conduit::{Busy, JobRank, StartInfo};
use gasnet_conduit_util::record::exchange;
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::{AtomicBool, Ordering};

/// "There is no engine."
const NONE: u32 = u32::MAX;

/// The tree, as this process sees it.
#[derive(Debug, PartialEq, Eq)]
struct Tree {
    /// The first leader of this host.
    host_leader: JobRank,
    /// Number of this process among the children of the host's engine.
    leaf: u32,
    /// Connections of the engine, if this is the first leader.
    node: Option<Node>,
}

/// The engine of a host in the tree.
#[derive(Debug, Default, PartialEq, Eq)]
struct Node {
    /// The first leader of the host above, and the number of this engine among its children.
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
    pub fn prepare(posts: &Posts, settings: &Settings, info: &StartInfo<'_>) -> Option<Self> {
        let domain = &posts.domains[FIRST];
        let leaders: Vec<_> = info
            .leaders
            .iter()
            .map(|leader| (*leader, (info.place_of)(*leader).host))
            .collect();
        let wanted = is_wanted(settings, info);
        let tree = Tree::new(&leaders, info.rank, settings.engine_radix);
        let leads = tree.as_ref().is_some_and(|tree| tree.node.is_some());
        let own = (wanted && leads).then(|| domain.engine().ok()).flatten();
        // Leaves and other processes have no engine, but must not hinder those that do.
        let fits = wanted && (tree.is_some() || info.leaders.binary_search(&info.rank).is_err());
        let number = own.as_ref().map_or(NONE, |engine| engine.number);
        let ready = u32::from(fits && (own.is_some() || !leads));
        let all: Vec<[u32; 2]> = exchange(info, &[ready, number]);
        let is_ready = all.iter().all(|[ready, _]| *ready == 1);
        let number_of = |rank: JobRank| all[rank.index()][1];
        let configured = match (&tree, is_ready) {
            (Some(tree), true) => configure(posts, tree, own.as_ref(), &number_of),
            (None, true) => Ok(()),
            _ => Err(Code::NOT_DONE),
        };
        // Nobody reduces before all are configured.
        if exchange(info, &configured.is_ok()).contains(&false) {
            if let Some(own) = own {
                domain.destroy_engine(&own);
            }
            return None;
        }
        Some(Self {
            host_leader: tree?.host_leader,
            own,
            is_taken: AtomicBool::new(false),
        })
    }

    /// Gives operands to the engine.
    pub fn reduce(&self, posts: &Posts, region: &Region, words: [u64; 2]) -> Result<(), Busy> {
        let mut queue = posts.lock(FIRST);
        let Some(mut post) = queue.take() else { return Err(Busy) };
        let offset = region.layout.engine;
        for index in 0..3 {
            region.word(offset + 8 * index).store(0, Ordering::Relaxed);
        }
        self.is_taken.store(false, Ordering::Relaxed);
        post.peer = self.host_leader;
        post.done = CompletionAction::Reduction;
        post.reduce(abi::GNI_FMA_CE_AND, words, region.local(offset));
        queue.begin_reduction();
        // SAFETY: the result lies in the region.
        unsafe { queue.post(post, None) };
        Ok(())
    }

    /// The operands were taken.
    pub fn note_reduction(&self) {
        self.is_taken.store(true, Ordering::Relaxed);
    }

    /// The result of a reduction, if it is there.
    pub fn result(&self, posts: &Posts, region: &Region) -> Option<[u64; 2]> {
        if !self.is_taken.load(Ordering::Relaxed) {
            return None;
        }
        let offset = region.layout.engine;
        let result = posts.lock(FIRST).engine_result(region.base() + offset);
        match result {
            Ok(()) => Some([1, 2].map(|index| region.word(offset + 8 * index).load(Ordering::Acquire))),
            Err(Code::NOT_DONE) => None,
            Err(code) => {
                posts
                    .peers
                    .states
                    .fail(&format!("a reduction by the collective engine failed: {code}"));
                None
            }
        }
    }

    /// Gives the engine back.
    pub fn release(self, posts: &Posts) {
        if let Some(own) = self.own {
            posts.domains[FIRST].destroy_engine(&own);
        }
    }
}

/// Connects the engine of this host, if this process owns it, and this process to that engine.
fn configure(
    posts: &Posts,
    tree: &Tree,
    own: Option<&EngineHandle>,
    number_of: &impl Fn(JobRank) -> u32,
) -> Result<(), Code> {
    let mut guard = posts.lock(FIRST);
    let connect = |guard: &mut DomainGuard<'_>, leader, child, kind| {
        let endpoint = guard.endpoint(leader).ok_or(Code::INVALID)?;
        guard.set_engine(endpoint, number_of(leader), child, kind)?;
        Ok(endpoint)
    };
    if let (Some(node), Some(own)) = (&tree.node, own) {
        let leaves = node.leaves.iter().map(|leader| (*leader, abi::GNI_CE_CHILD_PE));
        let below = node.below.iter().map(|leader| (*leader, abi::GNI_CE_CHILD_VCE));
        let children = (0..)
            .zip(leaves.chain(below))
            .map(|(child, (leader, kind))| connect(&mut guard, leader, child, kind))
            .collect::<Result<Vec<_>, _>>()?;
        let parent = node
            .parent
            .map(|(leader, child)| connect(&mut guard, leader, child, abi::GNI_CE_CHILD_VCE))
            .transpose()?;
        guard.configure_engine(own, &children, parent)?;
    }
    connect(&mut guard, tree.host_leader, tree.leaf, abi::GNI_CE_CHILD_PE).map(|_| ())
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
