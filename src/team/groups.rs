//! How a team lies in the neighbourhoods: what collectives need to know to use shared memory.
//!
//! The members in one neighbourhood are a group. The first member of a group speaks for it where groups deal with each other.

use std::collections::hash_map::{Entry, HashMap};

use crate::coll::pshm::pool::Lane;
use crate::coll::pshm::Near;
use crate::shm::coll_buffers::Lanes;
use crate::shm::memory::{NOTE, STAGE};
use crate::shm::Comm;
use gasnet_conduit::JobRank;
use gasnet_job::Nbrhd;

/// What passes through the lanes that all members of a team have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Nothing,
    /// What fits a note.
    Short,
    Anything,
}

impl Reach {
    const fn of(lane: Lane) -> Self {
        match (lane.is_some(), lane.is_staged()) {
            (false, _) => Self::Nothing,
            (true, false) => Self::Short,
            (true, true) => Self::Anything,
        }
    }
}

/// See the module documentation.
#[derive(Debug)]
pub struct Groups {
    /// Rank of each group's first member, ascending.
    pub speakers: Box<[u32]>,
    /// The own group among them.
    pub own: u32,
    /// Ranks of the own group's members, ascending.
    pub members: Box<[u32]>,
    /// Whether each group is a row of ranks.
    pub in_rows: bool,
    /// The own group in shared memory, if it has other members.
    pub near: Option<Near>,
    /// What the own member gives for that.
    pub lane: Lane,
    reach: Reach,
}

/// A member, as [`Groups::new`] has to know it.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its process.
    pub process: JobRank,
    /// Its neighbourhood.
    pub nbrhd: u32,
    /// What it gives.
    pub lane: Lane,
}

impl Groups {
    /// For the member with `rank` among `members`, in the neighbourhood `nbrhd` that `comm` shows.
    pub fn new(rank: u32, members: impl Iterator<Item = Member>, comm: &Comm, nbrhd: &Nbrhd) -> Self {
        let members: Vec<Member> = members.collect();
        let (mut speakers, mut of, mut sizes) = (Vec::new(), HashMap::new(), Vec::new());
        let (mut in_rows, mut last, mut reach) = (true, 0, Reach::Anything);
        let mut processes: Vec<JobRank> = members.iter().map(|m| m.process).collect();
        processes.sort_unstable();
        if processes.windows(2).any(|pair| pair[0] == pair[1]) {
            // Members of one process would share what a process has once.
            reach = Reach::Nothing;
        }
        let mut groups = Vec::with_capacity(members.len());
        for (rank, member) in members.iter().enumerate() {
            let group = match of.entry(member.nbrhd) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    speakers.push(rank as u32);
                    sizes.push(0u32);
                    *new.insert(speakers.len() - 1)
                }
            };
            in_rows &= group == last || sizes[group] == 0;
            sizes[group] += 1;
            last = group;
            groups.push(group);
        }
        let own = groups[rank as usize];
        for (member, _) in members.iter().zip(&groups).filter(|(_, &group)| sizes[group] > 1) {
            reach = reach.min(Reach::of(member.lane));
        }
        let ranks: Box<[u32]> = (0..members.len() as u32)
            .filter(|&rank| groups[rank as usize] == own)
            .collect();
        let near = (reach > Reach::Nothing && ranks.len() > 1).then(|| {
            let near = || ranks.iter().map(|&rank| members[rank as usize]);
            let places: Box<[usize]> = near().map(|m| nbrhd.index(m.process)).collect();
            let lanes = near().zip(&places).map(|(m, &place)| m.lane.memory(comm, place));
            let me = ranks.iter().take_while(|&&other| other < rank).count();
            Near::new(Lanes::new(lanes.collect(), me), places)
        });
        Self {
            speakers: speakers.into(),
            own: own as u32,
            members: ranks,
            in_rows,
            near,
            lane: members[rank as usize].lane,
            reach,
        }
    }

    /// Whether data of `bytes` in elements of `element` passes through shared memory, in all groups.
    pub fn take(&self, bytes: usize, element: usize) -> bool {
        match self.reach {
            Reach::Nothing => false,
            Reach::Short => bytes <= NOTE,
            Reach::Anything => bytes <= NOTE || element <= STAGE,
        }
    }

    /// The place of the member with `rank` in the own group.
    pub fn place(&self, rank: u32) -> usize {
        self.members.partition_point(|&member| member < rank)
    }

    /// Whether the own lane is in use.
    pub const fn use_lanes(&self) -> bool {
        self.near.is_some()
    }
}
