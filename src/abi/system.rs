//! `gex_System_*`.

use std::ffi::{c_char, c_uint, c_void, CString};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::OnceLock;

use crate::client::Client;
use crate::flags::{Flags, ERR_BAD_ARG, ERR_RESOURCE, OK, RANK_INVALID};
use crate::rules;
use crate::runtime::{self, Runtime};
use crate::sync::Mode;
use crate::wait;
use gasnet_conduit::{JobRank, Wake};

static VERBOSE_ERRORS: AtomicI32 = AtomicI32::new(1);

/// Whether error returns are explained on stderr.
pub fn verbose_errors() -> bool {
    VERBOSE_ERRORS.load(Ordering::Relaxed) != 0
}

/// The rank of this process in the job; `GEX_RANK_INVALID` before initialisation.
#[no_mangle]
pub extern "C" fn gex_System_QueryJobRank() -> JobRank {
    runtime::try_get().map_or(JobRank(RANK_INVALID), |rt| rt.rank)
}

/// The number of processes in the job; 0 before initialisation.
#[no_mangle]
pub extern "C" fn gex_System_QueryJobSize() -> u32 {
    runtime::try_get().map_or(0, |rt| rt.size)
}

/// The conduit in use, in lower case, as static text. A program that is linked with the universal
/// library cannot know it from its headers. Beyond the specification.
#[no_mangle]
pub extern "C" fn gasnetx_System_QueryConduit() -> *const c_char {
    runtime::get().conduit_name.as_ptr()
}

/// Whether error returns are explained on stderr.
#[no_mangle]
pub extern "C" fn gex_System_GetVerboseErrors() -> i32 {
    VERBOSE_ERRORS.load(Ordering::Relaxed)
}

/// Turns the explanation of error returns on or off.
#[no_mangle]
pub extern "C" fn gex_System_SetVerboseErrors(enable: i32) {
    if rules::CHECKED && !matches!(enable, 0 | 1) {
        fatal!("gex_System_SetVerboseErrors: {enable} is neither 0 nor 1");
    }
    VERBOSE_ERRORS.store(enable, Ordering::Relaxed);
}

/// The number of client threads that may be inside GASNet at once: 1 in SEQ, else
/// `GASNET_MAX_THREADS`. `gex_System_QueryMaxThreads` itself is in the marker object, which knows
/// the thread mode before initialisation.
#[no_mangle]
pub extern "C" fn gasneti_max_threads() -> u64 {
    if Mode::get() == Mode::Seq {
        return 1;
    }
    u64::from(gasnet_conduit::config::get().get(&gasnet_conduit::config::MAX_THREADS))
}

/// Number of threads other than the client's that may run handlers: the one of `GASNET_RCV_THREAD`,
/// if it runs, or will when the client has started it.
#[no_mangle]
pub extern "C" fn gex_System_QueryHiddenAMConcurrencyLevel() -> i32 {
    wait::receive::receives().into()
}

/// `gex_ProgressThreadInfo_t`.
#[repr(C)]
#[derive(Debug)]
pub struct ProgressThreadInfo {
    device_list: *const c_char,
    roles: c_uint,
    function: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
    argument: *mut c_void,
}

/// The thread of `GASNET_RCV_THREAD`, which serves all devices, for the client to start.
struct Deferred([ProgressThreadInfo; 1]);

// SAFETY: the pointers are to constant memory that is never freed, and to a function.
unsafe impl Sync for Deferred {}
// SAFETY: as above.
unsafe impl Send for Deferred {}

impl Deferred {
    fn of(rt: &Runtime) -> Self {
        let mut devices = rt.abilities.wake.map(Wake::devices).unwrap_or_default().join(",");
        if devices.is_empty() {
            // It serves neighbours only, and no entry of the list may be empty.
            devices = rt.conduit.name.into();
        }
        let devices = CString::new(devices).unwrap_or_default().into_raw();
        Self([ProgressThreadInfo {
            device_list: devices,
            roles: ROLE_RCV,
            function: Some(run_deferred),
            // Unused, but clients may take null for a thread that is not there.
            argument: devices.cast(),
        }])
    }

    /// The threads, or none if the client is to start none.
    fn threads() -> &'static [ProgressThreadInfo] {
        static DEFERRED: OnceLock<Deferred> = OnceLock::new();
        if !wait::receive::is_deferred() {
            return &[];
        }
        &DEFERRED.get_or_init(|| Self::of(runtime::get())).0
    }
}

/// `GEX_THREAD_ROLE_RCV`. The thread also sends what waited for room, which
/// `GEX_THREAD_ROLE_SND` is not about: a thread for that alone, which `GASNET_SND_THREAD`
/// announces.
const ROLE_RCV: c_uint = 1;

extern "C" fn run_deferred(_: *mut c_void) -> *mut c_void {
    wait::receive::run_deferred();
    ptr::null_mut()
}

/// Deferred progress threads: at most one.
///
/// # Safety
/// `count` is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_System_QueryProgressThreads(
    client: *const Client,
    count: *mut c_uint,
    info: *mut *const ProgressThreadInfo,
    flags: Flags,
) -> i32 {
    if client.is_null() || count.is_null() || info.is_null() || !flags.is_none() {
        super::complain(
            "gex_System_QueryProgressThreads",
            "client, count_p and info_p must not be null, and flags must be 0",
        );
        return ERR_BAD_ARG;
    }
    if !runtime::get().client.flags.has(Flags::DEFER_THREADS) {
        super::complain(
            "gex_System_QueryProgressThreads",
            "GEX_FLAG_DEFER_THREADS was not passed to gex_Client_Init",
        );
        return ERR_RESOURCE;
    }
    let threads = Deferred::threads();
    // SAFETY: not null, so valid for writes.
    unsafe {
        count.write(threads.len() as c_uint);
        info.write(threads.as_ptr());
    }
    OK
}

/// `gex_RankInfo_t`, which has one field.
type RankInfo = JobRank;

/// Ranks as arrays of `gex_RankInfo_t`.
struct Infos {
    neighbours: Vec<RankInfo>,
    host: Vec<RankInfo>,
}

fn infos(rt: &Runtime) -> &'static Infos {
    static INFOS: OnceLock<Infos> = OnceLock::new();
    INFOS.get_or_init(|| Infos {
        neighbours: rt.nbrhd_ranks().collect(),
        host: rt.job.host().iter().copied().map(JobRank).collect(),
    })
}

/// Writes `ranks`, their number and the own position; before initialisation null, 0 and
/// `GEX_RANK_INVALID`.
///
/// # Safety
/// Each output is null or valid for a write.
unsafe fn answer(
    ranks: impl Fn(&'static Infos) -> &'static [RankInfo],
    info: *mut *const RankInfo,
    count: *mut u32,
    mine: *mut u32,
) {
    let (list, number, me) = match runtime::try_get() {
        None => (std::ptr::null(), 0, RANK_INVALID),
        Some(rt) => {
            let ranks = ranks(infos(rt));
            let me = ranks.iter().position(|&r| r == rt.rank).unwrap_or(0);
            (ranks.as_ptr(), ranks.len() as u32, me as u32)
        }
    };
    // SAFETY: the caller's contract.
    unsafe { store(info, list) };
    // SAFETY: as above.
    unsafe { store(count, number) };
    // SAFETY: as above.
    unsafe { store(mine, me) };
}

/// Writes `value` unless `place` is null.
///
/// # Safety
/// `place` is null or valid for a write.
pub unsafe fn store<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null, so valid for a write.
        unsafe { place.write(value) };
    }
}

/// The job ranks of the neighbourhood, ascending; its size; the own position in it.
///
/// # Safety
/// Each output is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_System_QueryNbrhdInfo(info: *mut *const RankInfo, count: *mut u32, mine: *mut u32) {
    // SAFETY: the caller's contract.
    unsafe { answer(|infos| &infos.neighbours, info, count, mine) }
}

/// As `gex_System_QueryNbrhdInfo` for the host.
///
/// # Safety
/// Each output is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_System_QueryHostInfo(info: *mut *const RankInfo, count: *mut u32, mine: *mut u32) {
    // SAFETY: the caller's contract.
    unsafe { answer(|infos| &infos.host, info, count, mine) }
}

/// The number of neighbourhoods and of hosts, and the own position among each; 0 and
/// `GEX_RANK_INVALID` before initialisation.
///
/// # Safety
/// Each output is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_System_QueryMyPosition(
    nbrhds: *mut u32,
    nbrhd: *mut u32,
    hosts: *mut u32,
    host: *mut u32,
) {
    let values = match runtime::try_get() {
        None => [0, RANK_INVALID, 0, RANK_INVALID],
        Some(rt) => {
            let job = rt.job;
            [
                job.leaders().len() as u32,
                rt.nbrhd_of(rt.rank),
                job.host_count(),
                rt.host_of(rt.rank),
            ]
        }
    };
    for (output, value) in [nbrhds, nbrhd, hosts, host].into_iter().zip(values) {
        // SAFETY: the caller's contract.
        unsafe { store(output, value) };
    }
}
