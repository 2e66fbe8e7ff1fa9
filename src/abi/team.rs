//! `gex_TM_*`: teams.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use super::handles;
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::event;
use crate::flags::{Flags, RANK_INVALID};
use crate::rules::{self, not_in_handler};
use crate::runtime;
use crate::team::create;
use crate::team::{self, scratch, Team};
use crate::team::{Named, TeamHandle};
use crate::trace::{self, recorder};
use crate::types::{EpIndex, Location, Rank};
use gasnet_conduit::JobRank;

/// Flags of every call that creates teams.
const FLAGS: Flags = Flags::SCRATCH_SEG_OFFSET
    .with(Flags::TM_NO_SCRATCH)
    .with(Flags::TM_SCRATCH_SIZE);
const FLAGS_OF_CREATE: Flags = FLAGS
    .with(Flags::RANK_IS_JOBRANK)
    .with(Flags::TM_GLOBAL_SCRATCH)
    .with(Flags::TM_LOCAL_SCRATCH)
    .with(Flags::TM_SYMMETRIC_SCRATCH);

/// Sets the client's pointer of a team.
#[no_mangle]
pub extern "C" fn gex_TM_SetCData(tm: TeamHandle, value: *mut c_void) {
    team::team(tm, "gex_TM_SetCData").cdata.store(value, Ordering::Release);
}

/// The client's pointer of a team; null at first.
#[no_mangle]
pub extern "C" fn gex_TM_QueryCData(tm: TeamHandle) -> *mut c_void {
    team::team(tm, "gex_TM_QueryCData").cdata.load(Ordering::Acquire)
}

/// The client that owns a team.
#[no_mangle]
pub extern "C" fn gex_TM_QueryClient(tm: TeamHandle) -> *const Client {
    team::team(tm, "gex_TM_QueryClient");
    runtime::get().client
}

/// The endpoint of the local member.
#[no_mangle]
pub extern "C" fn gex_TM_QueryEP(tm: TeamHandle) -> *const Endpoint {
    let team = team::team(tm, "gex_TM_QueryEP");
    runtime::get().endpoint(team.ep).map_or(ptr::null(), ptr::from_ref)
}

/// The flags that the team was created with.
#[no_mangle]
pub extern "C" fn gex_TM_QueryFlags(tm: TeamHandle) -> Flags {
    team::team(tm, "gex_TM_QueryFlags").flags
}

/// The caller's rank in a team.
#[no_mangle]
pub extern "C" fn gex_TM_QueryRank(tm: TeamHandle) -> Rank {
    team::team(tm, "gex_TM_QueryRank").rank
}

/// The number of members of a team.
#[no_mangle]
pub extern "C" fn gex_TM_QuerySize(tm: TeamHandle) -> u32 {
    team::team(tm, "gex_TM_QuerySize").size
}

/// A TM-pair: the endpoints `remote` of all processes, reached from `ep`.
///
/// # Safety
/// `ep` is null or the handle of an endpoint.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Pair(ep: *const Endpoint, remote: EpIndex) -> TeamHandle {
    // SAFETY: the caller's contract.
    team::pair(unsafe { handles::endpoint("gex_TM_Pair", ep) }.index, remote)
}

/// The job rank of a member of a team or TM-pair. `GEX_RANK_INVALID` if there is no such member,
/// which is an error in the debug flavour.
#[no_mangle]
pub extern "C" fn gex_TM_TranslateRankToJobrank(tm: TeamHandle, rank: Rank) -> JobRank {
    not_in_handler("gex_TM_TranslateRankToJobrank");
    if !rules::CHECKED && rank.0 >= team::size(tm) {
        return JobRank(RANK_INVALID);
    }
    team::resolve(tm, rank).1.rank
}

/// The rank of the member in process `jobrank`, or `GEX_RANK_INVALID`. Ranks of a TM-pair are job
/// ranks.
#[no_mangle]
pub extern "C" fn gex_TM_TranslateJobrankToRank(tm: TeamHandle, jobrank: JobRank) -> Rank {
    let name = "gex_TM_TranslateJobrankToRank";
    not_in_handler(name);
    rules::job_rank(name, jobrank);
    let rank = match team::decode(tm) {
        Named::Team(team) => team.rank_of(jobrank),
        Named::Pair(..) => (jobrank.0 < runtime::get().size).then_some(Rank(jobrank.0)),
    };
    rank.unwrap_or(Rank(RANK_INVALID))
}

/// `gex_EP_Location_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EpLocation {
    /// A job rank, or, in arguments without `GEX_FLAG_RANK_IS_JOBRANK`, a rank in the parent team.
    rank: u32,
    index: EpIndex,
}

/// The process and the endpoint of a member of a team or TM-pair.
#[no_mangle]
pub extern "C" fn gex_TM_TranslateRankToEP(tm: TeamHandle, rank: Rank, flags: Flags) -> EpLocation {
    not_in_handler("gex_TM_TranslateRankToEP");
    rules::no_flags("gex_TM_TranslateRankToEP", flags);
    let (_, location) = team::resolve(tm, rank);
    EpLocation {
        rank: location.rank.0,
        index: location.ep,
    }
}

/// Records a new team; its first member does for the recording. Members are processes there.
fn created(team: &'static Team) {
    let locations = || (0..team.size).map(|rank| team.locate(Rank(rank)));
    if recorder::is_on() && team.rank.0 == 0 && locations().all(|location| location.ep == 0) {
        recorder::team(team.id, locations().map(|location| location.rank));
    }
    let (handle, id, rank, size) = (team.handle(), team.id, team.rank, team.size);
    trace::created(format_args!(
        " what=team handle={handle:#x} id={id:#x} rank={rank} size={size}"
    ));
}

/// Splits a team by color, ordered by key, or returns the recommended scratch size. Collective over
/// the parent.
///
/// # Safety
/// `new_tm` is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Split(
    new_tm: *mut TeamHandle,
    parent: TeamHandle,
    color: c_int,
    key: c_int,
    scratch_address: *mut c_void,
    scratch_bytes: usize,
    flags: Flags,
) -> usize {
    let name = "gex_TM_Split";
    not_in_handler(name);
    let parent = team::team(parent, name);
    let member = !new_tm.is_null();
    rules::only_flags(name, flags, FLAGS);
    if flags.has(Flags::TM_SCRATCH_SIZE) {
        return scratch::recommended(parent, member, flags, name);
    }
    if cfg!(feature = "debug-checks") && member && color < 0 {
        fatal!("rank {}: {name}: color {color} is negative", runtime::get().rank);
    }
    let scratch = (member && !flags.has(Flags::TM_NO_SCRATCH))
        .then(|| scratch::accept(parent.ep, scratch_address as usize, scratch_bytes, flags, name));
    if let Some(team) = create::split(parent, member.then_some((color, key)), scratch, flags) {
        created(team);
        // SAFETY: not null, so valid for a write.
        unsafe { new_tm.write(team.handle()) };
    }
    0
}

/// Creates a team with the same members in the same order, or returns the recommended scratch size
/// (GASNet-EX Memory Kinds 2025.8, 5.2; the reference lacks it). Collective over the original.
///
/// # Safety
/// `new_tm` is valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Dup(
    new_tm: *mut TeamHandle,
    original: TeamHandle,
    scratch_address: *mut c_void,
    scratch_bytes: usize,
    flags: Flags,
) -> usize {
    let name = "gex_TM_Dup";
    not_in_handler(name);
    let original = team::team(original, name);
    rules::only_flags(
        name,
        flags,
        FLAGS | Flags::TM_LOCAL_SCRATCH | Flags::TM_SYMMETRIC_SCRATCH,
    );
    if flags.has(Flags::TM_SCRATCH_SIZE) {
        return scratch::recommended(original, true, flags, name);
    }
    let scratch = match flags & (Flags::TM_SYMMETRIC_SCRATCH | Flags::TM_LOCAL_SCRATCH | Flags::TM_NO_SCRATCH) {
        Flags::TM_NO_SCRATCH => None,
        Flags::TM_SYMMETRIC_SCRATCH | Flags::TM_LOCAL_SCRATCH => Some(scratch::accept(
            original.ep,
            scratch_address as usize,
            scratch_bytes,
            flags,
            name,
        )),
        _ => fatal!("{name}: flags {flags:#x} must have one of GEX_FLAG_TM_{{SYMMETRIC,LOCAL,NO}}_SCRATCH"),
    };
    // One color and equal keys: the members keep their order.
    if let Some(team) = create::split(original, Some((0, 0)), scratch, flags) {
        created(team);
        // SAFETY: the caller's contract.
        unsafe { new_tm.write(team.handle()) };
    }
    0
}

/// Creates a team of any endpoints, or returns the recommended scratch size. Collective over the
/// parent.
///
/// # Safety
/// `args` has `count` entries, `new_tms` has `new_count`, and `scratch_addresses` has as many as
/// the scratch flag says.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Create(
    new_tms: *mut TeamHandle,
    new_count: usize,
    parent: TeamHandle,
    args: *const EpLocation,
    count: usize,
    scratch_addresses: *const *mut c_void,
    scratch_bytes: usize,
    flags: Flags,
) -> usize {
    let name = "gex_TM_Create";
    not_in_handler(name);
    let parent = team::team(parent, name);
    rules::only_flags(name, flags, FLAGS_OF_CREATE);
    if flags.has(Flags::TM_SCRATCH_SIZE) {
        return scratch::recommended(parent, count > 0, flags, name);
    }
    let args = if count == 0 {
        &[]
    } else {
        // SAFETY: `count` entries by contract.
        unsafe { std::slice::from_raw_parts(args, count) }
    };
    let members: Vec<Location> = args.iter().map(|&arg| member(parent, arg, flags, name)).collect();
    let scratch_of = |rank: Rank, local: usize| {
        let index = match flags
            & (Flags::TM_SYMMETRIC_SCRATCH | Flags::TM_LOCAL_SCRATCH | Flags::TM_GLOBAL_SCRATCH | Flags::TM_NO_SCRATCH)
        {
            Flags::TM_SYMMETRIC_SCRATCH => 0,
            Flags::TM_LOCAL_SCRATCH => local,
            Flags::TM_GLOBAL_SCRATCH => rank.index(),
            Flags::TM_NO_SCRATCH => return None,
            _ => fatal!("{name}: flags {flags:#x} must have one of GEX_FLAG_TM_{{SYMMETRIC,LOCAL,GLOBAL,NO}}_SCRATCH"),
        };
        // SAFETY: as many entries as the flag says, by contract.
        let address = unsafe { *scratch_addresses.add(index) };
        Some(scratch::accept(
            members[rank.index()].ep,
            address as usize,
            scratch_bytes,
            flags,
            name,
        ))
    };
    let teams = create::create(parent, &members, scratch_of, flags).unwrap_or_else(|why| fatal!("{name}: {why}"));
    if teams.len() != new_count && count > 0 {
        fatal!(
            "{name}: num_new_tms is {new_count}, and args name {} endpoints of this process",
            teams.len()
        );
    }
    for (i, team) in teams.iter().enumerate() {
        // SAFETY: `new_count` entries by contract.
        unsafe { new_tms.add(i).write(team.handle()) };
        created(team);
    }
    0
}

/// The endpoint that an argument of `gex_TM_Create` names.
fn member(parent: &Team, arg: EpLocation, flags: Flags, function: &str) -> Location {
    let rt = runtime::get();
    let by_job = flags.has(Flags::RANK_IS_JOBRANK);
    let size = if by_job { rt.size } else { parent.size };
    if arg.rank >= size {
        fatal!("{function}: rank {} does not exist among {size}", arg.rank);
    }
    let rank = if by_job {
        JobRank(arg.rank)
    } else {
        parent.locate(Rank(arg.rank)).rank
    };
    if rank == rt.rank && rt.endpoint(arg.index).is_none() {
        fatal!("{function}: rank {rank} has no endpoint with index {}", arg.index);
    }
    Location { rank, ep: arg.index }
}

/// `gex_Memvec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memvec {
    address: *mut c_void,
    bytes: usize,
}

/// Checks that this process does not use the team any more. Debug flavour.
fn not_in_use(team: &Team, function: &str) {
    let rank = runtime::get().rank;
    let domains = team.domains.load(Ordering::Relaxed);
    if domains > 0 {
        fatal!(
            "rank {rank}: {function}: the team has live atomic domains ({domains}). Destroy them first \
             (gex_AD_Destroy)."
        );
    }
    if event::is_open(team.number) {
        fatal!(
            "rank {rank}: {function}: the event of a collective over this team was not synchronised. Every \
             member waits for its collectives first \
             (gex_Event_Wait)."
        );
    }
}

/// Destroys a team. Collective over it. Non-zero when the scratch space that the client passed was
/// written to `scratch`.
///
/// # Safety
/// The handle is not used again; `scratch` is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Destroy(tm: TeamHandle, scratch: *mut Memvec, flags: Flags) -> c_int {
    let name = "gex_TM_Destroy";
    not_in_handler(name);
    let team = team::team(tm, name);
    if team.is_primordial() {
        fatal!(
            "rank {}: {name}: the primordial team cannot be destroyed",
            runtime::get().rank
        );
    }
    rules::only_flags(name, flags, Flags::GLOBALLY_QUIESCED | Flags::SCRATCH_SEG_OFFSET);
    let rt = runtime::get();
    if rules::CHECKED {
        not_in_use(team, name);
    }
    let own = Location {
        rank: rt.rank,
        ep: team.ep,
    };
    let base = rt.bound_segment(own).map_or(0, |s| s.base);
    trace::destroyed(format_args!(" what=team handle={tm:#x} id={:#x}", team.id));
    // SAFETY: the client does not use the handle again.
    let Some(ended) = (unsafe { create::destroy(team, flags.has(Flags::GLOBALLY_QUIESCED)) }) else {
        return 0;
    };
    if scratch.is_null() {
        // "If a value is written to *scratch_p then return value is non-zero. Otherwise, zero is
        // returned."
        return 0;
    }
    let offset = if flags.has(Flags::SCRATCH_SEG_OFFSET) { base } else { 0 };
    let answer = Memvec {
        address: ended.address.wrapping_sub(offset) as *mut c_void,
        bytes: ended.bytes,
    };
    // SAFETY: not null, so valid for a write.
    unsafe { scratch.write(answer) };
    1
}
