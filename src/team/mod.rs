//! `gex_TM_t`: teams, TM-pairs, and the fixed head that inline code in `gasnetex.h` reads.

pub mod create;
pub mod groups;
pub mod members;
pub mod pshm;
pub mod scratch;

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::OnceLock;

use crate::barrier::stage::Stage;
use crate::flags::Flags;
use crate::graveyard::Graveyard;
use crate::runtime::{self, Runtime};
use crate::shm::coll_buffer_pool::CollBufferId;
use crate::shm::Comm;
use crate::trace;
use crate::types::{EpIndex, Location, Rank};
use gasnet_conduit::JobRank;
use gasnet_job::Job;
use groups::{Groups, Member};
use members::Members;

/// Not 0 once a thread has armed a handler for its next scattered put (`vis::peer`): then every
/// such call checks. Inline code reads it, too.
pub static PEER_COMPLETION_ARMED: AtomicU32 = AtomicU32::new(0);

/// `gasneti_tm_head_t`: part of the ABI (`docs/abi.md`). Inline code copies when `rank - first <
/// count`.
///
/// SYNC POINT fast-path: `deltas` and `first` are stored before `count` (release).
#[repr(C)]
#[derive(Debug)]
pub struct Head {
    first: AtomicU32,
    count: AtomicU32,
    deltas: AtomicPtr<isize>,
    /// Not 0 where the library has to see scattered puts and gets ([`PEER_COMPLETION_ARMED`]).
    vis_watch: &'static AtomicU32,
}

const _: () = assert!(size_of::<Head>() == 24);

impl Head {
    /// A head that inline code never copies through.
    pub const fn closed() -> Self {
        Self {
            first: AtomicU32::new(0),
            count: AtomicU32::new(0),
            deltas: AtomicPtr::new(ptr::null_mut()),
            vis_watch: &PEER_COMPLETION_ARMED,
        }
    }

    /// One that lets through what this one does now.
    #[must_use]
    pub fn copy(&self) -> Self {
        let count = self.count.load(Ordering::Acquire);
        Self {
            first: AtomicU32::new(self.first.load(Ordering::Relaxed)),
            count: AtomicU32::new(count),
            deltas: AtomicPtr::new(self.deltas.load(Ordering::Relaxed)),
            vis_watch: self.vis_watch,
        }
    }
}

const TAG_TEAM: usize = 1;
const TAG_PAIR: usize = 2;
const TAG_MASK: usize = 3;

/// `gex_TM_t`: the address of a [`Team`] and a tag, or a TM-pair. See [`decode`].
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamHandle(usize);

impl TeamHandle {
    /// `GEX_TM_INVALID`.
    pub const INVALID: Self = Self(0);
}

impl fmt::LowerHex for TeamHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// Names a team in all its members' processes: the process of its first member, and a number that
/// this process gave once.
pub type TeamId = u64;

/// Memory that the client passed for a team. Collectives have buffers of their own; it is only
/// returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// First byte.
    pub address: usize,
    /// Length.
    pub bytes: usize,
}

/// The stages of a team's barriers.
#[derive(Debug)]
pub struct Barriers {
    /// The block of the own words.
    pub block: u32,
    /// The network stage, if this member takes part in it.
    pub network: Option<Stage>,
    /// The barrier of all members at the end of the team.
    pub end: Stage,
}

/// A team of endpoints. The head comes first.
#[repr(C)]
#[derive(Debug)]
pub struct Team {
    head: Head,
    /// The same in all members' processes.
    pub id: TeamId,
    /// The local member's rank.
    pub rank: Rank,
    /// Its size.
    pub size: u32,
    /// Tells it from the other teams of this process, for the debug flavour. Not 0.
    pub number: u32,
    /// Atomic domains that live, for the debug flavour.
    pub domains: AtomicU32,
    /// As passed at creation.
    pub flags: Flags,
    /// The local member's endpoint.
    pub ep: EpIndex,
    /// All members.
    members: Members,
    /// Their layout in neighbourhoods.
    pub groups: Groups,
    /// Passed by the client.
    pub scratch: Option<Scratch>,
    /// Number of the next collective.
    pub next_collective: AtomicU32,
    /// Set right after the team is made.
    barriers: OnceLock<Barriers>,
    /// Offsets of neighbours' segments, where those of the directory are not in the order of the
    /// ranks.
    own_deltas: OnceLock<Box<[isize]>>,
    /// Client data (`cdata`).
    pub cdata: AtomicPtr<std::ffi::c_void>,
}

/// Initial values of the fields of a new [`Team`].
struct NewTeam {
    id: TeamId,
    rank: Rank,
    members: Members,
    groups: Groups,
    flags: Flags,
    ep: EpIndex,
    scratch: Option<Scratch>,
}

impl Team {
    /// The primordial team: every rank's primordial endpoint.
    pub fn primordial(job: &Job, comm: &Comm, flags: Flags) -> Self {
        let (count, coll_buffer) = (job.size(), CollBufferId::primordial(comm));
        let members = (0..count).map(|process| Member {
            process: JobRank(process),
            nbrhd: job.nbrhd_of(process),
            coll_buffer,
        });
        let rank = Rank(job.rank());
        let groups = Groups::new(rank, members, comm, &job.nbrhd());
        Self::new(NewTeam {
            id: 0,
            rank,
            members: Members::Consecutive {
                first: JobRank(0),
                count,
            },
            groups,
            flags,
            ep: 0,
            scratch: None,
        })
    }

    fn new(new: NewTeam) -> Self {
        Self {
            head: Head::closed(),
            id: new.id,
            rank: new.rank,
            size: new.members.count(),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            domains: AtomicU32::new(0),
            flags: new.flags,
            ep: new.ep,
            members: new.members,
            groups: new.groups,
            scratch: new.scratch,
            next_collective: AtomicU32::new(0),
            barriers: OnceLock::new(),
            own_deltas: OnceLock::new(),
            cdata: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Sets the stages of its barriers. Once.
    pub fn set_barriers(&self, barriers: Barriers) {
        let _ = self.barriers.set(barriers);
    }

    /// The stages of its barriers.
    #[inline]
    pub fn barriers(&self) -> &Barriers {
        self.barriers.get().expect("defect: a team without barriers")
    }

    /// Whether this is the team of all processes that initialisation made.
    pub fn is_primordial(&self) -> bool {
        self.id == 0
    }

    /// The ranks of all members.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> {
        (0..self.size).map(Rank)
    }

    /// Lets inline code reach the segments of the longest row of members that are neighbours.
    /// Nothing before Attach.
    pub fn open_fast_path(&self, rt: &Runtime) {
        let Some(directory) = rt.directory.get() else { return };
        // The local side of another endpoint may be memory of a device.
        if cfg!(feature = "debug-checks") || self.ep != 0 || trace::is_on() {
            return;
        }
        let neighbour = |rank| {
            self.members
                .locate(Rank(rank))
                .filter(|m| m.ep == 0 && rt.is_neighbour(m.rank))
        };
        let (mut first, mut count, mut start) = (0, 0, 0);
        for rank in 0..=self.size {
            if rank == self.size || neighbour(rank).is_none() {
                if rank - start > count {
                    (first, count) = (start, rank - start);
                }
                start = rank + 1;
            }
        }
        let index = |rank: u32| neighbour(rank).map_or(0, |m| rt.nbrhd_index(m.rank));
        let in_order = (first..first + count).all(|rank| index(rank) == index(first) + (rank - first) as usize);
        let deltas = if in_order {
            &directory.deltas[if count == 0 { 0 } else { index(first) }..]
        } else {
            self.own_deltas.get_or_init(|| {
                (first..first + count)
                    .map(|rank| directory.deltas[index(rank)])
                    .collect()
            })
        };
        self.head.first.store(first, Ordering::Relaxed);
        self.head.deltas.store(deltas.as_ptr().cast_mut(), Ordering::Relaxed);
        self.head.count.store(count, Ordering::Release);
    }

    /// The part that inline code reads.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The handle.
    pub fn handle(&'static self) -> TeamHandle {
        TeamHandle(ptr::from_ref(self) as usize | TAG_TEAM)
    }

    /// The member with `rank`. Fatal if there is none: its message would wait for ever.
    #[inline]
    pub fn locate(&self, rank: Rank) -> Location {
        if rank.0 >= self.size {
            self.no_member(rank);
        }
        self.members.locate(rank).unwrap_or_else(|| self.no_member(rank))
    }

    #[cold]
    fn no_member(&self, rank: Rank) -> ! {
        no_rank(format_args!("rank {rank} is not in a team of {} members", self.size))
    }

    /// The number of the group that the member with `rank` is in.
    pub fn group_of(&self, rank: Rank) -> u32 {
        let rt = runtime::get();
        let nbrhd = |rank: Rank| rt.nbrhd_of(self.locate(rank).rank);
        let wanted = nbrhd(rank);
        self.groups
            .leaders
            .iter()
            .take_while(|&&leader| nbrhd(leader) != wanted)
            .count() as u32
    }

    /// The rank of the member that lives in process `rank`, if any.
    pub fn rank_of(&self, rank: JobRank) -> Option<Rank> {
        self.members.rank_in(rank)
    }
}

/// The next team's number.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);
/// Destroyed teams.
static DESTROYED: Graveyard = Graveyard::new();

/// The target of a `gex_TM_t`.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// A team.
    Team(&'static Team),
    /// A TM-pair: local and remote endpoint index.
    Pair(EpIndex, EpIndex),
}

/// Decodes a handle.
#[inline]
pub fn decode(handle: TeamHandle) -> Named {
    match handle.0 & TAG_MASK {
        TAG_TEAM => {
            let address = handle.0 & !TAG_MASK;
            if cfg!(feature = "debug-checks") && DESTROYED.has(address) {
                fatal!("the team {handle:#x} was destroyed (gex_TM_Destroy)");
            }
            // SAFETY: a handle with the team tag was made by `Team::handle` from a 'static team
            // (client contract).
            Named::Team(unsafe { &*(address as *const Team) })
        }
        TAG_PAIR => Named::Pair((handle.0 >> 18) as EpIndex, (handle.0 >> 2) as EpIndex),
        _ => fatal!(
            "{handle:#x} is not a gex_TM_t: it was not returned by gex_Client_Init, gex_TM_Split, gex_TM_Create or \
            gex_TM_Pair"
        ),
    }
}

/// The team that a handle names; fatal for TM-pairs, which `what` does not accept.
#[inline]
pub fn team(handle: TeamHandle, what: &str) -> &'static Team {
    match decode(handle) {
        Named::Team(team) => team,
        Named::Pair(..) => fatal!(
            "rank {}: {what} was given a TM-pair; it needs a team",
            runtime::get().rank
        ),
    }
}

/// The number of ranks that `(handle, rank)` may name.
pub fn size(handle: TeamHandle) -> u32 {
    match decode(handle) {
        Named::Team(team) => team.size,
        Named::Pair(..) => runtime::get().size,
    }
}

/// A TM-pair's handle.
pub fn pair(local: EpIndex, remote: EpIndex) -> TeamHandle {
    TeamHandle((local as usize) << 18 | (remote as usize) << 2 | TAG_PAIR)
}

/// The member of a team that inline code may reach: a primordial endpoint with a mapped segment,
/// and no call is to be recorded. Release flavour. None, too, for a handle that is no team: a call
/// that moves nothing may name `GEX_TM_INVALID`.
#[inline]
pub fn open(handle: TeamHandle, rank: Rank) -> Option<Location> {
    if handle.0 & TAG_MASK != TAG_TEAM {
        return None;
    }
    let Named::Team(team) = decode(handle) else { return None };
    let count = team.head.count.load(Ordering::Acquire);
    if rank.0.wrapping_sub(team.head.first.load(Ordering::Relaxed)) < count {
        team.members.locate(rank)
    } else {
        None
    }
}

/// The process of a member of a team, if its endpoint and the caller's are primordial. None, too,
/// if there is no such member, and for TM-pairs.
#[inline(always)]
pub fn between_primordial(handle: TeamHandle, rank: Rank) -> Option<JobRank> {
    if handle.0 & TAG_MASK != TAG_TEAM {
        return None;
    }
    let Named::Team(team) = decode(handle) else { return None };
    let Location { rank: process, ep } = team.members.locate(rank).filter(|_| rank.0 < team.size)?;
    (team.ep == 0 && ep == 0).then_some(process)
}

/// Ends the job for a call that names a rank which does not exist. The usual reason is a program
/// that was started without its launcher.
#[cold]
pub fn no_rank(why: fmt::Arguments<'_>) -> ! {
    let rt = runtime::get();
    if rt.size > 1 {
        fatal!("rank {}: {why}", rt.rank);
    }
    fatal!(
        "rank {}: {why}. This job has one rank: to have more, start the program with its launcher, for example \
        gasnetrun_{} -n N",
        rt.rank,
        rt.conduit.name
    )
}

/// The local endpoint and the peer that `(handle, rank)` names.
#[inline(always)]
pub fn resolve(handle: TeamHandle, rank: Rank) -> (EpIndex, Location) {
    match decode(handle) {
        Named::Team(team) => (team.ep, team.locate(rank)),
        Named::Pair(local, remote) => {
            let size = runtime::get().size;
            if rank.0 >= size {
                no_rank(format_args!("job rank {rank} does not exist in a job of {size}"));
            }
            let rank = rank.as_job_rank();
            (local, Location { rank, ep: remote })
        }
    }
}
