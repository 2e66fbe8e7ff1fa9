//! The layout of a team in neighbourhoods, for collectives in shared memory.
//!
//! The members in one neighbourhood are a group. The first member of each group is its leader: it
//! takes part in the network stage of hierarchical collectives.

use std::collections::hash_map::{Entry, HashMap};

use super::pshm::PshmTeam;
use crate::shm::coll_buffer_pool::CollBufferId;
use crate::shm::coll_buffers::CollBuffers;
use crate::shm::memory::{INLINE_SLOT_BYTES, STAGING_SLOT_BYTES};
use crate::shm::Comm;
use crate::types::Rank;
use gasnet_conduit::JobRank;
use gasnet_job::Nbrhd;

/// The data that fits through the collective buffers of all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BufferCapacity {
    Nothing,
    /// Data that fits into an inline slot.
    Short,
    Anything,
}

impl BufferCapacity {
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
    /// Rank of each group's leader, ascending.
    pub leaders: Box<[Rank]>,
    /// Number of the own group.
    pub own: u32,
    /// Ranks of the own group's members, ascending.
    pub members: Box<[Rank]>,
    /// Whether the members of each group have consecutive ranks.
    pub contiguous: bool,
    /// The own group in shared memory, if it has other members.
    pub pshm: Option<PshmTeam>,
    /// The own member's collective buffer.
    pub coll_buffer: CollBufferId,
    capacity: BufferCapacity,
}

/// A member, for [`Groups::new`].
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its process.
    pub process: JobRank,
    /// Its neighbourhood.
    pub nbrhd: u32,
    /// Its collective buffer.
    pub coll_buffer: CollBufferId,
}

impl Groups {
    /// The layout for the member with `rank`; `comm` is the memory of its neighbourhood `nbrhd`.
    pub fn new(rank: Rank, members: impl Iterator<Item = Member>, comm: &Comm, nbrhd: &Nbrhd) -> Self {
        let members: Vec<Member> = members.collect();
        let (mut leaders, mut of, mut sizes) = (Vec::new(), HashMap::new(), Vec::new());
        let (mut contiguous, mut last, mut capacity) = (true, 0, BufferCapacity::Anything);
        let mut processes: Vec<JobRank> = members.iter().map(|m| m.process).collect();
        processes.sort_unstable();
        if processes.windows(2).any(|pair| pair[0] == pair[1]) {
            // A collective buffer belongs to a process: members of the same process cannot share
            // it.
            capacity = BufferCapacity::Nothing;
        }
        let mut groups = Vec::with_capacity(members.len());
        for (rank, member) in members.iter().enumerate() {
            let group = match of.entry(member.nbrhd) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    leaders.push(Rank(rank as u32));
                    sizes.push(0u32);
                    *new.insert(leaders.len() - 1)
                }
            };
            contiguous &= group == last || sizes[group] == 0;
            sizes[group] += 1;
            last = group;
            groups.push(group);
        }
        let own = groups[rank.index()];
        for (member, _) in members.iter().zip(&groups).filter(|(_, &group)| sizes[group] > 1) {
            capacity = capacity.min(BufferCapacity::of(member.coll_buffer));
        }
        let ranks: Box<[Rank]> = (0..members.len() as u32)
            .map(Rank)
            .filter(|&rank| groups[rank.index()] == own)
            .collect();
        let pshm = (capacity > BufferCapacity::Nothing && ranks.len() > 1).then(|| {
            let own = || ranks.iter().map(|&rank| members[rank.index()]);
            let nbrhd_indices: Box<[usize]> = own().map(|m| nbrhd.index(m.process.0)).collect();
            let buffers = own()
                .zip(&nbrhd_indices)
                .map(|(m, &index)| m.coll_buffer.memory(comm, index));
            let me = ranks.iter().take_while(|&&other| other < rank).count();
            PshmTeam::new(CollBuffers::new(buffers.collect(), me), nbrhd_indices)
        });
        Self {
            leaders: leaders.into(),
            own: own as u32,
            members: ranks,
            contiguous,
            pshm,
            coll_buffer: members[rank.index()].coll_buffer,
            capacity,
        }
    }

    /// Whether data of `bytes` in elements of `element` bytes goes through shared memory, in all
    /// groups.
    pub fn take(&self, bytes: usize, element: usize) -> bool {
        match self.capacity {
            BufferCapacity::Nothing => false,
            BufferCapacity::Short => bytes <= INLINE_SLOT_BYTES,
            BufferCapacity::Anything => bytes <= INLINE_SLOT_BYTES || element <= STAGING_SLOT_BYTES,
        }
    }

    /// The index of the member with `rank` in the own group.
    pub fn member_index(&self, rank: Rank) -> usize {
        self.members.partition_point(|&member| member < rank)
    }

    /// Whether the own collective buffer is in use.
    pub const fn uses_coll_buffers(&self) -> bool {
        self.pshm.is_some()
    }
}
