//! Teams: queries, translations, making and destroying.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{not_in_handler, rules};
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::event;
use crate::runtime;
use crate::team::create::{self, SCRATCH_BYTES};
use crate::team::{self, scratch, Scratch, Team};
use crate::trace;
use crate::types::Location;

const FLAG_RANK_IS_JOBRANK: u32 = 0x2000;
const FLAG_SCRATCH_SEG_OFFSET: u32 = 0x40_0000;
const FLAG_TM_GLOBAL_SCRATCH: u32 = 0x80_0000;
const FLAG_TM_LOCAL_SCRATCH: u32 = 0x100_0000;
const FLAG_TM_SYMMETRIC_SCRATCH: u32 = 0x200_0000;
const FLAG_TM_NO_SCRATCH: u32 = 0x400_0000;
const FLAG_GLOBALLY_QUIESCED: u32 = 0x800_0000;
/// `GEX_FLAG_TM_SCRATCH_SIZE_MIN`.
const FLAG_SCRATCH_SIZE_MIN: u32 = 0x1000_0000;
/// The same and `GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED`.
const FLAG_SCRATCH_SIZE: u32 = 0x3000_0000;
/// Flags of both calls that make teams.
const FLAGS: u32 = FLAG_SCRATCH_SEG_OFFSET | FLAG_TM_NO_SCRATCH | FLAG_SCRATCH_SIZE;
const FLAGS_OF_CREATE: u32 =
    FLAGS | FLAG_RANK_IS_JOBRANK | FLAG_TM_GLOBAL_SCRATCH | FLAG_TM_LOCAL_SCRATCH | FLAG_TM_SYMMETRIC_SCRATCH;

/// Sets the client's pointer of a team.
#[no_mangle]
pub extern "C" fn gex_TM_SetCData(tm: usize, value: *mut c_void) {
    team::team(tm, "gex_TM_SetCData").cdata.store(value, Ordering::Release);
}

/// The client's pointer of a team; null at first.
#[no_mangle]
pub extern "C" fn gex_TM_QueryCData(tm: usize) -> *mut c_void {
    team::team(tm, "gex_TM_QueryCData").cdata.load(Ordering::Acquire)
}

/// The owner of a team.
#[no_mangle]
pub extern "C" fn gex_TM_QueryClient(tm: usize) -> *const Client {
    team::team(tm, "gex_TM_QueryClient");
    runtime::get().client()
}

/// The local member's endpoint.
#[no_mangle]
pub extern "C" fn gex_TM_QueryEP(tm: usize) -> *const Endpoint {
    let team = team::team(tm, "gex_TM_QueryEP");
    runtime::get().endpoint(team.ep).map_or(ptr::null(), ptr::from_ref)
}

/// Flags passed when the team was created.
#[no_mangle]
pub extern "C" fn gex_TM_QueryFlags(tm: usize) -> u32 {
    team::team(tm, "gex_TM_QueryFlags").flags
}

/// The caller's rank in a team.
#[no_mangle]
pub extern "C" fn gex_TM_QueryRank(tm: usize) -> u32 {
    team::team(tm, "gex_TM_QueryRank").rank
}

/// Members of a team.
#[no_mangle]
pub extern "C" fn gex_TM_QuerySize(tm: usize) -> u32 {
    team::team(tm, "gex_TM_QuerySize").size
}

/// A name for endpoints `remote` of all processes, reached from `ep`.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Pair(ep: *const Endpoint, remote: u16) -> usize {
    // SAFETY: a handle of ours or null.
    team::pair(unsafe { rules::endpoint("gex_TM_Pair", ep) }.index, remote)
}

/// The process of a team's member; `GEX_RANK_INVALID` if there is none (an error in the debug flavour).
#[no_mangle]
pub extern "C" fn gex_TM_TranslateRankToJobrank(tm: usize, rank: u32) -> u32 {
    not_in_handler("gex_TM_TranslateRankToJobrank");
    let team = team::team(tm, "gex_TM_TranslateRankToJobrank");
    if !rules::CHECKED && rank >= team.size {
        return u32::MAX;
    }
    team.locate(rank).rank
}

/// The rank of the member in process `jobrank`, or `GEX_RANK_INVALID`.
#[no_mangle]
pub extern "C" fn gex_TM_TranslateJobrankToRank(tm: usize, jobrank: u32) -> u32 {
    let name = "gex_TM_TranslateJobrankToRank";
    not_in_handler(name);
    rules::job_rank(name, jobrank);
    team::team(tm, name).rank_of(jobrank).unwrap_or(u32::MAX)
}

/// `gex_EP_Location_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EpLocation {
    rank: u32,
    index: u16,
}

/// Process and endpoint of a team's member.
#[no_mangle]
pub extern "C" fn gex_TM_TranslateRankToEP(tm: usize, rank: u32, flags: u32) -> EpLocation {
    not_in_handler("gex_TM_TranslateRankToEP");
    rules::no_flags("gex_TM_TranslateRankToEP", flags);
    let location = team::team(tm, "gex_TM_TranslateRankToEP").locate(rank);
    EpLocation {
        rank: location.rank,
        index: location.ep,
    }
}

/// The scratch space that a client names. Collectives have memory of their own: it is only kept, to be given back.
fn lend(ep: u16, address: *mut c_void, bytes: usize, flags: u32, function: &str) -> Scratch {
    let rt = runtime::get();
    let own = Location { rank: rt.rank(), ep };
    if let Some(device) = rt.endpoint(ep).and_then(Endpoint::bound).and_then(|s| s.kind) {
        fatal!(
            "rank {}: {function}: scratch space must be host memory, but the segment of endpoint {ep} is on {device}. Pass \
             GEX_FLAG_TM_NO_SCRATCH.",
            rt.rank()
        );
    }
    let offset = flags & FLAG_SCRATCH_SEG_OFFSET != 0;
    let base = rt.bound_segment(own).filter(|_| offset).map_or(0, |s| s.base);
    let address = base.wrapping_add(address as usize);
    if cfg!(feature = "debug-checks") && (bytes == 0 || !rt.in_own_segment(ep, address, bytes)) {
        let (base, length) = rt.segment_of(own).map_or((0, 0), |s| (s.base, s.bytes));
        fatal!(
            "rank {}: {function}: the scratch space of {bytes} bytes at {address:#x} is not inside the bound segment, {length} bytes at \
             {base:#x}. Pass GEX_FLAG_TM_NO_SCRATCH to lend none.",
            rt.rank()
        );
    }
    let lent = Scratch { address, bytes };
    if rules::CHECKED {
        static WARNED: AtomicBool = AtomicBool::new(false);
        let other = scratch::lend(rt.endpoint(ep).and_then(Endpoint::bound), lent);
        // The reference's testratomic does this, and nobody writes there: no reason to end the job.
        if let Some(other) = other.filter(|_| !WARNED.swap(true, Ordering::Relaxed)) {
            gasnet_tools::process::warn(format_args!(
                "{function}: the scratch space of {bytes} bytes at {address:#x} overlaps that of a live team, {} bytes at {:#x}",
                other.bytes, other.address
            ));
        }
    }
    lent
}

/// The answer to a query of the scratch size.
fn scratch_size(parent: &Team, takes_part: bool, flags: u32, function: &str) -> usize {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if flags & FLAG_SCRATCH_SIZE_MIN != 0 && parent.rank == 0 && !WARNED.swap(true, Ordering::Relaxed) {
        gasnet_tools::process::warn(format_args!(
            "{function}: GEX_FLAG_TM_SCRATCH_SIZE_MIN is deprecated since GASNet-EX 0.11 and will be removed. Pass \
             GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED instead."
        ));
    }
    if takes_part {
        SCRATCH_BYTES
    } else {
        0
    }
}

/// Records that a team was made.
fn created(team: &'static Team) {
    let (handle, id, rank, size) = (team.handle(), team.id, team.rank, team.size);
    trace::created(format_args!(
        " what=team handle={handle:#x} id={id:#x} rank={rank} size={size}"
    ));
}

/// Splits a team by color, ordered by key (`gex_TM_Split`), or says how much scratch space is recommended. Collective over the parent.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Split(
    new_tm: *mut usize,
    parent: usize,
    color: c_int,
    key: c_int,
    scratch_address: *mut c_void,
    scratch_bytes: usize,
    flags: u32,
) -> usize {
    let name = "gex_TM_Split";
    not_in_handler(name);
    let parent = team::team(parent, name);
    let member = !new_tm.is_null();
    rules::only_flags(name, flags, FLAGS);
    if flags & FLAG_SCRATCH_SIZE != 0 {
        return scratch_size(parent, member, flags, name);
    }
    if cfg!(feature = "debug-checks") && member && color < 0 {
        fatal!("rank {}: {name}: color {color} is negative", runtime::get().rank());
    }
    let lent = (member && flags & FLAG_TM_NO_SCRATCH == 0).then(|| lend(parent.ep, scratch_address, scratch_bytes, flags, name));
    if let Some(team) = create::split(parent, member.then_some((color, key)), lent, flags) {
        created(team);
        // SAFETY: not null; the client's to write.
        unsafe { new_tm.write(team.handle()) };
    }
    0
}

/// A team with the same members in the same order (GASNet-EX Memory Kinds 2025.8, 5.2, which the reference leaves out), or says how much
/// scratch space is recommended. Collective over the original.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Dup(
    new_tm: *mut usize,
    original: usize,
    scratch_address: *mut c_void,
    scratch_bytes: usize,
    flags: u32,
) -> usize {
    let name = "gex_TM_Dup";
    not_in_handler(name);
    let original = team::team(original, name);
    rules::only_flags(name, flags, FLAGS | FLAG_TM_LOCAL_SCRATCH | FLAG_TM_SYMMETRIC_SCRATCH);
    if flags & FLAG_SCRATCH_SIZE != 0 {
        return scratch_size(original, true, flags, name);
    }
    let lent = match flags & (FLAG_TM_SYMMETRIC_SCRATCH | FLAG_TM_LOCAL_SCRATCH | FLAG_TM_NO_SCRATCH) {
        FLAG_TM_NO_SCRATCH => None,
        FLAG_TM_SYMMETRIC_SCRATCH | FLAG_TM_LOCAL_SCRATCH => Some(lend(original.ep, scratch_address, scratch_bytes, flags, name)),
        _ => fatal!("{name}: flags {flags:#x} must have one of GEX_FLAG_TM_{{SYMMETRIC,LOCAL,NO}}_SCRATCH"),
    };
    // All bring the same color, and the keys that keep their order.
    if let Some(team) = create::split(original, Some((0, 0)), lent, flags) {
        created(team);
        // SAFETY: the client's to write.
        unsafe { new_tm.write(team.handle()) };
    }
    0
}

/// Makes a team of any endpoints (`gex_TM_Create`), or says how much scratch space is recommended. Collective over the parent.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Create(
    new_tms: *mut usize,
    new_count: usize,
    parent: usize,
    args: *const EpLocation,
    count: usize,
    scratch_addresses: *const *mut c_void,
    scratch_bytes: usize,
    flags: u32,
) -> usize {
    let name = "gex_TM_Create";
    not_in_handler(name);
    let parent = team::team(parent, name);
    rules::only_flags(name, flags, FLAGS_OF_CREATE);
    if flags & FLAG_SCRATCH_SIZE != 0 {
        return scratch_size(parent, count > 0, flags, name);
    }
    let args = if count == 0 {
        &[]
    } else {
        // SAFETY: the client's array of `count` entries.
        unsafe { std::slice::from_raw_parts(args, count) }
    };
    let members: Vec<Location> = args.iter().map(|&arg| member(parent, arg, flags, name)).collect();
    let scratch_of = |rank: u32, local: usize| {
        let index = match flags & (FLAG_TM_SYMMETRIC_SCRATCH | FLAG_TM_LOCAL_SCRATCH | FLAG_TM_GLOBAL_SCRATCH | FLAG_TM_NO_SCRATCH)
        {
            FLAG_TM_SYMMETRIC_SCRATCH => 0,
            FLAG_TM_LOCAL_SCRATCH => local,
            FLAG_TM_GLOBAL_SCRATCH => rank as usize,
            FLAG_TM_NO_SCRATCH => return None,
            _ => fatal!("{name}: flags {flags:#x} must have one of GEX_FLAG_TM_{{SYMMETRIC,LOCAL,GLOBAL,NO}}_SCRATCH"),
        };
        // SAFETY: the client's array, as long as the flag says.
        let address = unsafe { *scratch_addresses.add(index) };
        Some(lend(members[rank as usize].ep, address, scratch_bytes, flags, name))
    };
    let teams = create::create(parent, &members, scratch_of, flags).unwrap_or_else(|why| fatal!("{name}: {why}"));
    if teams.len() != new_count && count > 0 {
        fatal!(
            "{name}: num_new_tms is {new_count}, and args name {} endpoints of this process",
            teams.len()
        );
    }
    for (i, team) in teams.iter().enumerate() {
        // SAFETY: the client's array of `new_count` entries.
        unsafe { new_tms.add(i).write(team.handle()) };
        created(team);
    }
    0
}

/// The endpoint that an argument names.
fn member(parent: &Team, arg: EpLocation, flags: u32, function: &str) -> Location {
    let rt = runtime::get();
    let by_job = flags & FLAG_RANK_IS_JOBRANK != 0;
    let size = if by_job { rt.size() } else { parent.size };
    if arg.rank >= size {
        fatal!("{function}: rank {} does not exist among {size}", arg.rank);
    }
    let rank = if by_job { arg.rank } else { parent.locate(arg.rank).rank };
    if rank == rt.rank() && rt.endpoint(arg.index).is_none() {
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

/// Ends the job if this process still uses a team that is to end. Debug flavour.
fn not_in_use(team: &Team, function: &str) {
    let rank = runtime::get().rank();
    let domains = team.domains.load(Ordering::Relaxed);
    if domains > 0 {
        fatal!("rank {rank}: {function}: the team has live atomic domains ({domains}). Destroy them first (gex_AD_Destroy).");
    }
    if event::is_open(team.number) {
        fatal!(
            "rank {rank}: {function}: the event of a collective over this team was not synchronised. Every member waits for its collectives first \
             (gex_Event_Wait)."
        );
    }
}

/// Destroys a team (`gex_TM_Destroy`). Collective over it. Non-zero when the client lent scratch space, which `scratch` then tells.
#[no_mangle]
pub unsafe extern "C" fn gex_TM_Destroy(tm: usize, scratch: *mut Memvec, flags: u32) -> c_int {
    let name = "gex_TM_Destroy";
    not_in_handler(name);
    let team = team::team(tm, name);
    if team.is_primordial() {
        fatal!(
            "rank {}: {name}: the primordial team cannot be destroyed",
            runtime::get().rank()
        );
    }
    rules::only_flags(name, flags, FLAG_GLOBALLY_QUIESCED | FLAG_SCRATCH_SEG_OFFSET);
    let rt = runtime::get();
    if rules::CHECKED {
        not_in_use(team, name);
    }
    let own = Location {
        rank: rt.rank(),
        ep: team.ep,
    };
    let base = rt.bound_segment(own).map_or(0, |s| s.base);
    trace::destroyed(format_args!(" what=team handle={tm:#x} id={:#x}", team.id));
    // SAFETY: the client does not use the handle again.
    let Some(lent) = (unsafe { create::destroy(team, flags & FLAG_GLOBALLY_QUIESCED != 0) }) else {
        return 0;
    };
    if scratch.is_null() {
        return 0; // "If a value is written to *scratch_p then return value is non-zero. Otherwise, zero is returned."
    }
    let offset = if flags & FLAG_SCRATCH_SEG_OFFSET != 0 { base } else { 0 };
    let answer = Memvec {
        address: lent.address.wrapping_sub(offset) as *mut c_void,
        bytes: lent.bytes,
    };
    // SAFETY: not null; the client's to write.
    unsafe { scratch.write(answer) };
    1
}
