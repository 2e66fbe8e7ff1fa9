//! How a team lies in the neighbourhoods: what collectives need to know to use shared memory.
//!
//! The members in one neighbourhood are a group. The first member of a group speaks for it where groups deal with each other.

use std::collections::hash_map::{Entry, HashMap};

use super::pshm::PshmTeam;
use crate::shm::coll_buffer_pool::CollBufferId;
use crate::shm::coll_buffers::CollBuffers;
use crate::shm::memory::{INLINE_SLOT_BYTES, STAGING_SLOT_BYTES};
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
    const fn of(coll_buffer: CollBufferId) -> Self {
        match (coll_buffer.is_some(), coll_buffer.has_staging()) {
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
    pub leaders: Box<[u32]>,
    /// The own group among them.
    pub own: u32,
    /// Ranks of the own group's members, ascending.
    pub members: Box<[u32]>,
    /// Whether each group is a row of ranks.
    pub contiguous: bool,
    /// The own group in shared memory, if it has other members.
    pub pshm: Option<PshmTeam>,
    /// What the own member gives for that.
    pub coll_buffer: CollBufferId,
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
    pub coll_buffer: CollBufferId,
}

impl Groups {
    /// For the member with `rank` among `members`, in the neighbourhood `nbrhd` that `comm` shows.
    pub fn new(rank: u32, members: impl Iterator<Item = Member>, comm: &Comm, nbrhd: &Nbrhd) -> Self {
        let members: Vec<Member> = members.collect();
        let (mut leaders, mut of, mut sizes) = (Vec::new(), HashMap::new(), Vec::new());
        let (mut contiguous, mut last, mut reach) = (true, 0, Reach::Anything);
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
                    leaders.push(rank as u32);
                    sizes.push(0u32);
                    *new.insert(leaders.len() - 1)
                }
            };
            contiguous &= group == last || sizes[group] == 0;
            sizes[group] += 1;
            last = group;
            groups.push(group);
        }
        let own = groups[rank as usize];
        for (member, _) in members.iter().zip(&groups).filter(|(_, &group)| sizes[group] > 1) {
            reach = reach.min(Reach::of(member.coll_buffer));
        }
        let ranks: Box<[u32]> = (0..members.len() as u32)
            .filter(|&rank| groups[rank as usize] == own)
            .collect();
        let pshm = (reach > Reach::Nothing && ranks.len() > 1).then(|| {
            let own = || ranks.iter().map(|&rank| members[rank as usize]);
            let nbrhd_indices: Box<[usize]> = own().map(|m| nbrhd.index(m.process)).collect();
            let buffers = own().zip(&nbrhd_indices).map(|(m, &index)| m.coll_buffer.memory(comm, index));
            let me = ranks.iter().take_while(|&&other| other < rank).count();
            PshmTeam::new(CollBuffers::new(buffers.collect(), me), nbrhd_indices)
        });
        Self {
            leaders: leaders.into(),
            own: own as u32,
            members: ranks,
            contiguous,
            pshm,
            coll_buffer: members[rank as usize].coll_buffer,
            reach,
        }
    }

    /// Whether data of `bytes` in elements of `element` passes through shared memory, in all groups.
    pub fn take(&self, bytes: usize, element: usize) -> bool {
        match self.reach {
            Reach::Nothing => false,
            Reach::Short => bytes <= INLINE_SLOT_BYTES,
            Reach::Anything => bytes <= INLINE_SLOT_BYTES || element <= STAGING_SLOT_BYTES,
        }
    }

    /// The place of the member with `rank` in the own group.
    pub fn member_index(&self, rank: u32) -> usize {
        self.members.partition_point(|&member| member < rank)
    }

    /// Whether the own lane is in use.
    pub const fn uses_coll_buffers(&self) -> bool {
        self.pshm.is_some()
    }
}
