//! Making and destroying teams (GASNet-EX 0.19, `gex_TM_Split`, `gex_TM_Create`, `gex_TM_Destroy`).
//!
//! One all-gather over the parent, in O(log N) rounds, exchanges each member's arguments and a
//! number that its process has not used. The first member's number makes the new team's id. Nothing
//! else is agreed upon, so a member may send to a team that others have not finished making: p2p
//! messages are queued until they have.

use std::sync::atomic::{AtomicU32, Ordering};

use super::groups::{Groups, Member};
use super::members::{sort_key, Members};
use super::{NewTeam, Scratch, Team, TeamId};
use crate::barrier::{blocks, of_team};
use crate::coll::call::Call;
use crate::coll::choose::{self, Path};
use crate::coll::gather::{self, Parts};
use crate::coll::p2p::Span;
use crate::coll::{self, team_barrier};
use crate::flags::Flags;
use crate::runtime;
use crate::shm::coll_buffer_pool::CollBufferId;
use crate::types::{Location, Rank};

static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// Contribution of a member of the parent to a split.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    takes_part: u32,
    color: i32,
    key: i32,
    number: u32,
    /// The member's buffer for collectives in shared memory ([`CollBufferId::pack`]).
    coll_buffer: u32,
    /// The first block of its words for barriers ([`blocks`]).
    block: u32,
}

const ENTRY: usize = size_of::<Entry>();

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY] {
        let words = [
            self.takes_part,
            self.color as u32,
            self.key as u32,
            self.number,
            self.coll_buffer,
            self.block,
        ];
        let mut bytes = [0; ENTRY];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let word = |i: usize| u32::from_ne_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]]);
        Self {
            takes_part: word(0),
            color: word(1) as i32,
            key: word(2) as i32,
            number: word(3),
            coll_buffer: word(4),
            block: word(5),
        }
    }
}

/// Everybody's entry, by rank in `parent`. Collective over it.
fn exchange(parent: &'static Team, own: Entry) -> Vec<Entry> {
    let mut own = own.to_bytes();
    let mut all = vec![0u8; ENTRY * parent.size as usize];
    let span = |bytes: &mut [u8]| Span {
        at: bytes.as_mut_ptr(),
        bytes: bytes.len(),
    };
    let target = Parts::Equal(span(&mut all), ENTRY);
    coll::run(gather::to_all(Call::next(parent), target, span(&mut own)));
    all.chunks_exact(ENTRY).map(Entry::from_bytes).collect()
}

fn fresh_number() -> u32 {
    NEXT_NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn id(first: Location, number: u32) -> TeamId {
    u64::from(first.rank.0) << 32 | u64::from(number)
}

/// The members of `parent` that bring the same color, ordered by key and then by rank.
/// `color_and_key` is none for who only takes part in the call. Collective over `parent`.
pub fn split(
    parent: &'static Team,
    color_and_key: Option<(i32, i32)>,
    scratch: Option<Scratch>,
    flags: Flags,
) -> Option<&'static Team> {
    let (color, key) = color_and_key.unwrap_or_default();
    let coll_buffer = color_and_key.map_or_else(CollBufferId::default, |_| CollBufferId::take(&runtime::get().comm));
    let own = Entry {
        takes_part: u32::from(color_and_key.is_some()),
        color,
        key,
        number: fresh_number(),
        coll_buffer: coll_buffer.pack(),
        block: color_and_key.map_or(0, |_| blocks::take(1)),
    };
    let all = exchange(parent, own);
    color_and_key?;
    let mut ranks: Vec<Rank> = parent
        .ranks()
        .filter(|&rank| all[rank.index()].takes_part != 0 && all[rank.index()].color == color)
        .collect();
    ranks.sort_by_key(|&rank| (all[rank.index()].key, rank));
    let members: Vec<Location> = ranks.iter().map(|&rank| parent.locate(rank)).collect();
    let number = all[ranks.first()?.index()].number;
    let rank = ranks.iter().position(|&rank| rank == parent.rank)?;
    let rank = Rank(rank as u32);
    let coll_buffer_of = |rank: Rank| CollBufferId::unpack(all[ranks[rank.index()].index()].coll_buffer);
    let (id, groups) = (
        id(members[0], number),
        groups(rank, &members, coll_buffer, coll_buffer_of),
    );
    let new = NewTeam {
        id,
        rank,
        members: Members::new(members),
        groups,
        flags,
        ep: parent.ep,
        scratch,
    };
    Some(make(new, |rank| all[ranks[rank.index()].index()].block))
}

/// A team of `members`, which may be empty for who only takes part in the call: one handle for each
/// local member, in the order of ranks. `scratch_of` tells a member's scratch space by its rank and
/// its place among the local members. Collective over `parent`.
pub fn create(
    parent: &'static Team,
    members: &[Location],
    scratch_of: impl Fn(Rank, usize) -> Option<Scratch>,
    flags: Flags,
) -> Result<Vec<&'static Team>, String> {
    let rt = runtime::get();
    // With several members in a process shared memory is not used, which all know from the list.
    let local = members.iter().filter(|m| m.rank == rt.rank).count();
    let alone = local == 1;
    let coll_buffer = if alone {
        CollBufferId::take(&rt.comm)
    } else {
        CollBufferId::default()
    };
    let own = Entry {
        takes_part: u32::from(!members.is_empty()),
        color: 0,
        key: 0,
        number: fresh_number(),
        coll_buffer: coll_buffer.pack(),
        block: blocks::take(local as u32),
    };
    let all = exchange(parent, own);
    let Some(&first) = members.first() else {
        return Ok(Vec::new());
    };
    let mut sorted: Vec<Location> = members.to_vec();
    sorted.sort_by_key(|&m| sort_key(m));
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("an endpoint is named twice".into());
    }
    let Some(leader) = parent.rank_of(first.rank) else {
        return Err(format!("process {} has no member in the parent team", first.rank));
    };
    let id = id(first, all[leader.index()].number);
    let entry_of = |rank: Rank| parent.rank_of(members[rank.index()].rank).map(|rank| all[rank.index()]);
    let coll_buffer_of =
        |rank| entry_of(rank).map_or_else(CollBufferId::default, |entry| CollBufferId::unpack(entry.coll_buffer));
    // Members of one process have its blocks in the order of their ranks.
    let block_of = |rank: Rank| {
        let process = members[rank.index()].rank;
        let before = members[..rank.index()].iter().filter(|m| m.rank == process).count();
        entry_of(rank).map_or(0, |entry| entry.block) + before as u32
    };
    let local = members.iter().enumerate().filter(|(_, m)| m.rank == rt.rank);
    let teams = local.enumerate().map(|(i, (rank, m))| {
        let rank = Rank(rank as u32);
        let groups = groups(rank, members, coll_buffer, coll_buffer_of);
        let new = NewTeam {
            id,
            rank,
            members: Members::new(members.to_vec()),
            groups,
            flags,
            ep: m.ep,
            scratch: scratch_of(rank, i),
        };
        make(new, block_of)
    });
    Ok(teams.collect())
}

/// How a team of `members` lies, for the one with `rank`, who gives `coll_buffer`. The others give
/// what `coll_buffer_of` says.
fn groups(
    rank: Rank,
    members: &[Location],
    coll_buffer: CollBufferId,
    coll_buffer_of: impl Fn(Rank) -> CollBufferId,
) -> Groups {
    let rt = runtime::get();
    let members = (0..).map(Rank).zip(members).map(|(rank, m)| Member {
        process: m.rank,
        nbrhd: rt.nbrhd_of(m.rank),
        coll_buffer: coll_buffer_of(rank),
    });
    let groups = Groups::new(rank, members, &rt.comm, &rt.nbrhd);
    if !groups.uses_coll_buffers() {
        coll_buffer.give_back();
    }
    groups
}

/// A team whose members have these blocks of words for barriers.
fn make(new: NewTeam, block_of: impl Fn(Rank) -> u32) -> &'static Team {
    let rt = runtime::get();
    let team = Box::leak(Box::new(Team::new(new)));
    team.open_fast_path(rt);
    team.set_barriers(of_team::make(team, rt.oversubscribed, block_of));
    team
}

/// Ends a team. Unless all members are known to be `quiescent` and it has no collective buffers,
/// waits for them, so that no member sends to it any more. Returns the client's scratch space.
///
/// # Safety
/// Nobody uses `team` afterwards.
pub unsafe fn destroy(team: &'static Team, quiescent: bool) -> Option<Scratch> {
    // A leaving member frees its collective buffer. Others may still poll it, since clients call a
    // team quiescent as soon as their own barrier over it is complete (the reference's tests do);
    // so teams with collective buffers run another one.
    if !quiescent || !matches!(choose::path(team, 0, 1, true), Path::Network) {
        coll::run(team_barrier::end(team));
    }
    blocks::give_back(team.barriers().block);
    let scratch = team.scratch;
    if team.groups.uses_coll_buffers() {
        team.groups.coll_buffer.give_back();
    }
    if cfg!(feature = "debug-checks") {
        super::DESTROYED.bury(team);
        if let Some(scratch) = scratch {
            super::scratch::remove(scratch);
        }
        return scratch;
    }
    // SAFETY: `make` leaked it from a Box, and this is its last use (contract).
    drop(unsafe { Box::from_raw(std::ptr::from_ref(team).cast_mut()) });
    scratch
}
