//! `gex_AM_*` and `gex_Token_*`: fixed-payload Active Messages, limits and tokens. One macro makes
//! the 102 injection functions: three categories, two classes, and up to 16 arguments.

use std::ffi::{c_int, c_uint, c_void};

use super::{complain, NO_OP};
use crate::am::token::Token;
use crate::am::{client, lub_medium, max_medium, Arg, Message, MAX_ARGS, MAX_LONG, MAX_PREPARED};
use crate::event::Event;
use crate::flags::{Flags, RANK_INVALID, TI_ALL};
use crate::rules::{self, not_in_handler, Lc, LcOpt, AM_FLAGS};
use crate::runtime;
use crate::team::{self, Named, TeamHandle};
use crate::types::{AmCategory, Rank};
use gasnet_conduit::{Busy, Class, JobRank};

/// A request through `(tm, rank)`, without payload.
#[inline(always)]
fn request(tm: TeamHandle, rank: Rank, category: AmCategory, handler: u8, args: &[Arg]) -> Message<'_> {
    not_in_handler("gex_AM_Request");
    let (source_ep, target) = team::resolve(tm, rank);
    Message::new(Class::Request, category, target, handler, args).from_endpoint(source_ep)
}

/// Sends `message` as the C functions do: 0, or 1 if IMMEDIATE and nothing was sent.
#[inline(always)]
fn inject(message: &Message<'_>, flags: Flags) -> c_int {
    match client::send(message, flags) {
        Ok(()) => 0,
        Err(Busy) => NO_OP,
    }
}

/// Sends `message`, the one reply to `token`.
///
/// # Safety
/// `token` is the running handler's.
#[inline(always)]
unsafe fn inject_reply(token: *const Token, message: &Message<'_>, flags: Flags) -> c_int {
    let refused = inject(message, flags);
    if refused == 0 {
        // SAFETY: the caller's contract.
        unsafe { &*token }.replied.set(true);
    }
    refused
}

/// The payload of a Medium.
#[derive(Clone, Copy)]
pub struct Medium {
    /// Its first byte.
    pub source: *const u8,
    /// Its length.
    pub bytes: usize,
}

/// The payload of a Long.
#[derive(Clone, Copy)]
pub struct Long {
    /// Its first byte.
    pub source: *const u8,
    /// Its length.
    pub bytes: usize,
    /// Its destination at the target.
    pub destination: *mut u8,
}

/// A Short request. Here and below one function serves all numbers of arguments and has all layers
/// down to the ring inlined.
#[inline(never)]
pub fn request_short(tm: TeamHandle, rank: Rank, handler: u8, flags: Flags, args: &[Arg]) -> c_int {
    inject(&request(tm, rank, AmCategory::Short, handler, args), flags)
}

/// A Medium request.
#[inline(never)]
pub fn request_medium(
    tm: TeamHandle,
    rank: Rank,
    handler: u8,
    payload: Medium,
    lc_opt: LcOpt,
    flags: Flags,
    args: &[Arg],
) -> c_int {
    let message = request(tm, rank, AmCategory::Medium, handler, args)
        .with_payload(payload.source, payload.bytes)
        .with_local_completion(lc_opt);
    inject(&message, flags)
}

/// A Long request.
#[inline(never)]
pub fn request_long(
    tm: TeamHandle,
    rank: Rank,
    handler: u8,
    payload: Long,
    lc_opt: LcOpt,
    flags: Flags,
    args: &[Arg],
) -> c_int {
    let message = request(tm, rank, AmCategory::Long, handler, args)
        .with_payload(payload.source, payload.bytes)
        .with_destination(payload.destination)
        .with_local_completion(lc_opt);
    inject(&message, flags)
}

/// A Short reply.
///
/// # Safety
/// `token` is the running handler's.
#[inline(never)]
pub unsafe fn reply_short(token: *const Token, handler: u8, flags: Flags, args: &[Arg]) -> c_int {
    // SAFETY: the caller's contract.
    let message = unsafe { client::reply(token, AmCategory::Short, handler, args) };
    // SAFETY: as above.
    unsafe { inject_reply(token, &message, flags) }
}

/// A Medium reply.
///
/// # Safety
/// `token` is the running handler's.
#[inline(never)]
pub unsafe fn reply_medium(
    token: *const Token,
    handler: u8,
    payload: Medium,
    lc_opt: LcOpt,
    flags: Flags,
    args: &[Arg],
) -> c_int {
    // SAFETY: the caller's contract.
    let message = unsafe { client::reply(token, AmCategory::Medium, handler, args) }
        .with_payload(payload.source, payload.bytes)
        .with_local_completion(lc_opt);
    // SAFETY: as above.
    unsafe { inject_reply(token, &message, flags) }
}

/// A Long reply.
///
/// # Safety
/// `token` is the running handler's.
#[inline(never)]
pub unsafe fn reply_long(
    token: *const Token,
    handler: u8,
    payload: Long,
    lc_opt: LcOpt,
    flags: Flags,
    args: &[Arg],
) -> c_int {
    // SAFETY: the caller's contract.
    let message = unsafe { client::reply(token, AmCategory::Long, handler, args) }
        .with_payload(payload.source, payload.bytes)
        .with_destination(payload.destination)
        .with_local_completion(lc_opt);
    // SAFETY: as above.
    unsafe { inject_reply(token, &message, flags) }
}

macro_rules! functions {
    ($($n:literal ($($a:ident)*);)*) => {$(const _: () = {
        /// Short request. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        #[export_name = concat!("gex_AM_RequestShort", $n)]
        pub extern "C" fn short_request(tm: TeamHandle, rank: Rank, handler: u8, flags: Flags $(, $a: Arg)*) -> c_int {
            request_short(tm, rank, handler, flags, &[$($a),*])
        }

        /// Medium request. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        ///
        /// # Safety
        /// `lc_opt` is a constant or valid for a write; `source` has `bytes` bytes.
        #[export_name = concat!("gex_AM_RequestMedium", $n)]
        pub unsafe extern "C" fn medium_request(
            tm: TeamHandle, rank: Rank, handler: u8, source: *const u8, bytes: usize, lc_opt: LcOpt, flags: Flags
            $(, $a: Arg)*
        ) -> c_int {
            rules::local_completion(concat!("gex_AM_RequestMedium", $n), lc_opt, Lc::Request);
            // SAFETY: the caller's contract.
            unsafe { client::complete_locally(lc_opt) };
            request_medium(tm, rank, handler, Medium { source, bytes }, lc_opt, flags, &[$($a),*])
        }

        /// Long request. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        ///
        /// # Safety
        /// `lc_opt` is a constant or valid for a write; `source` has `bytes` bytes.
        #[export_name = concat!("gex_AM_RequestLong", $n)]
        pub unsafe extern "C" fn long_request(
            tm: TeamHandle, rank: Rank, handler: u8, source: *const u8, bytes: usize, destination: *mut u8,
            lc_opt: LcOpt, flags: Flags $(, $a: Arg)*
        ) -> c_int {
            rules::local_completion(concat!("gex_AM_RequestLong", $n), lc_opt, Lc::Request);
            // SAFETY: the caller's contract.
            unsafe { client::complete_locally(lc_opt) };
            request_long(tm, rank, handler, Long { source, bytes, destination }, lc_opt, flags, &[$($a),*])
        }

        /// Short reply. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        ///
        /// # Safety
        /// `token` is the running handler's.
        #[export_name = concat!("gex_AM_ReplyShort", $n)]
        pub unsafe extern "C" fn short_reply(token: *const Token, handler: u8, flags: Flags $(, $a: Arg)*) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { reply_short(token, handler, flags, &[$($a),*]) }
        }

        /// Medium reply. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        ///
        /// # Safety
        /// `token` is the running handler's. `lc_opt` is a constant or valid for a write; `source`
        /// has `bytes` bytes.
        #[export_name = concat!("gex_AM_ReplyMedium", $n)]
        pub unsafe extern "C" fn medium_reply(
            token: *const Token, handler: u8, source: *const u8, bytes: usize, lc_opt: LcOpt, flags: Flags $(, $a: Arg)*
        ) -> c_int {
            rules::local_completion(concat!("gex_AM_ReplyMedium", $n), lc_opt, Lc::Reply);
            // SAFETY: the caller's contract.
            unsafe { client::complete_locally(lc_opt) };
            // SAFETY: the caller's contract.
            unsafe { reply_medium(token, handler, Medium { source, bytes }, lc_opt, flags, &[$($a),*]) }
        }

        /// Long reply. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        ///
        /// # Safety
        /// `token` is the running handler's. `lc_opt` is a constant or valid for a write; `source`
        /// has `bytes` bytes.
        #[export_name = concat!("gex_AM_ReplyLong", $n)]
        pub unsafe extern "C" fn long_reply(
            token: *const Token, handler: u8, source: *const u8, bytes: usize, destination: *mut u8,
            lc_opt: LcOpt, flags: Flags $(, $a: Arg)*
        ) -> c_int {
            rules::local_completion(concat!("gex_AM_ReplyLong", $n), lc_opt, Lc::Reply);
            // SAFETY: the caller's contract.
            unsafe { client::complete_locally(lc_opt) };
            // SAFETY: the caller's contract.
            unsafe { reply_long(token, handler, Long { source, bytes, destination }, lc_opt, flags, &[$($a),*]) }
        }
    };)*};
}

for_each_arity!(functions);

/// The peer of a limit query. None stands for the least limit of all peers, also for a rank that
/// does not exist.
fn about(tm: TeamHandle, rank: Rank) -> Option<JobRank> {
    if rank == Rank(RANK_INVALID) {
        return None;
    }
    match team::decode(tm) {
        Named::Team(team) if rules::CHECKED || rank.0 < team.size => Some(team.locate(rank).rank),
        Named::Team(_) => None,
        Named::Pair(..) => {
            let rank = rank.as_job_rank();
            rules::job_rank("gex_AM_Max*", rank);
            Some(rank)
        }
    }
}

/// The limit, which is lower when the flags ask about a buffer of the library.
fn prepared(limit: usize, flags: Flags, function: &str) -> usize {
    rules::only_flags(function, flags, AM_FLAGS | Flags::AM_PREPARE_LEAST);
    if rules::CHECKED && flags.has_all(Flags::AM_PREPARE_LEAST) {
        fatal!(
            "rank {}: {function}: GEX_FLAG_AM_PREPARE_LEAST_CLIENT and _ALLOC exclude each other",
            runtime::get().rank
        );
    }
    if flags.has(Flags::AM_PREPARE_LEAST_ALLOC) {
        limit.min(MAX_PREPARED)
    } else {
        limit
    }
}

/// Checks a number of arguments. Debug flavour.
fn check_count(function: &str, nargs: c_uint) {
    if rules::CHECKED && nargs as usize > MAX_ARGS {
        fatal!(
            "rank {}: {function}: {nargs} arguments; {MAX_ARGS} is the most",
            runtime::get().rank
        );
    }
}

fn medium_to(peer: Option<JobRank>) -> usize {
    max_medium(peer)
}

fn long_to(_peer: Option<JobRank>) -> usize {
    MAX_LONG
}

macro_rules! limits {
    ($($name:ident $limit:ident;)*) => {$(
        /// The largest payload to a peer, or to every peer (`GEX_RANK_INVALID`).
        #[no_mangle]
        pub extern "C" fn $name(
            tm: TeamHandle, rank: Rank, _lc_opt: *const Event, flags: Flags, nargs: c_uint
        ) -> usize {
            check_count(stringify!($name), nargs);
            prepared($limit(about(tm, rank)), flags, stringify!($name))
        }
    )*};
}

limits! {
    gex_AM_MaxRequestMedium medium_to;
    gex_AM_MaxReplyMedium medium_to;
    gex_AM_MaxRequestLong long_to;
    gex_AM_MaxReplyLong long_to;
}

/// The process that a query about replies to `token` is about. Debug flavour: it is made in a
/// request handler.
///
/// # Safety
/// `token` is the running handler's.
unsafe fn answered(function: &str, token: *const Token, nargs: c_uint) -> JobRank {
    check_count(function, nargs);
    // SAFETY: the caller's contract.
    let token = unsafe { client::running(function, token) };
    if rules::CHECKED && token.class == Class::Reply {
        fatal!(
            "rank {}: {function} was called in a reply handler, which may not reply",
            runtime::get().rank
        );
    }
    token.source.rank
}

/// The largest Medium reply to `token`.
///
/// # Safety
/// `token` is the running handler's.
#[no_mangle]
pub unsafe extern "C" fn gex_Token_MaxReplyMedium(
    token: *const Token,
    _lc_opt: *const Event,
    flags: Flags,
    nargs: c_uint,
) -> usize {
    let name = "gex_Token_MaxReplyMedium";
    // SAFETY: the caller's contract.
    let peer = unsafe { answered(name, token, nargs) };
    prepared(max_medium(Some(peer)), flags, name)
}

/// The largest Long reply to `token`.
///
/// # Safety
/// `token` is the running handler's.
#[no_mangle]
pub unsafe extern "C" fn gex_Token_MaxReplyLong(
    token: *const Token,
    _lc_opt: *const Event,
    flags: Flags,
    nargs: c_uint,
) -> usize {
    let name = "gex_Token_MaxReplyLong";
    if rules::CHECKED {
        // SAFETY: the caller's contract.
        unsafe { answered(name, token, nargs) };
    }
    prepared(MAX_LONG, flags, name)
}

/// The largest number of arguments.
#[no_mangle]
pub extern "C" fn gex_AM_MaxArgs() -> c_uint {
    MAX_ARGS as c_uint
}

macro_rules! bounds {
    ($($name:ident $bound:expr;)*) => {$(
        /// The largest payload that every peer accepts.
        #[no_mangle]
        pub extern "C" fn $name() -> usize {
            $bound
        }
    )*};
}

bounds! {
    gex_AM_LUBRequestMedium lub_medium();
    gex_AM_LUBReplyMedium lub_medium();
    gex_AM_LUBRequestLong MAX_LONG;
    gex_AM_LUBReplyLong MAX_LONG;
}

/// `gex_Token_Info_t`.
#[repr(C)]
#[derive(Debug)]
pub struct TokenInfo {
    source: JobRank,
    endpoint: *const c_void,
    entry: *const c_void,
    is_request: c_int,
    is_long: c_int,
}

const _: () = assert!(size_of::<TokenInfo>() == 32);

/// Describes the message of the running handler. Fills in all fields, whatever the mask asks for.
///
/// # Safety
/// `token` is the running handler's; `info` is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_Token_Info(token: *const Token, info: *mut TokenInfo, _mask: u32) -> u32 {
    if info.is_null() {
        complain("gex_Token_Info", "info must not be null");
        return 0;
    }
    // SAFETY: the caller's contract.
    let token = unsafe { client::running("gex_Token_Info", token) };
    let endpoint = runtime::get()
        .endpoint(token.target_ep)
        .map_or(std::ptr::null(), |e| std::ptr::from_ref(e).cast());
    let answer = TokenInfo {
        source: token.source.rank,
        endpoint,
        entry: token.entry.map_or(std::ptr::null(), <*const _>::cast),
        is_request: c_int::from(token.class == Class::Request),
        is_long: c_int::from(token.category == AmCategory::Long),
    };
    // SAFETY: not null, so valid for a write.
    unsafe { info.write(answer) };
    TI_ALL
}
