//! Fixed-payload Active Messages, limits and tokens. 102 injection functions from one macro: a category, a class, and an argument count.

use std::ffi::{c_int, c_uint, c_void};

use super::complain;
use crate::am::table::INDEX_BASE;
use crate::am::token::Token;
use crate::am::{inject, lub_medium, max_medium, Arg, Message, MAX_ARGS, MAX_LONG, MAX_PREPARED};
use crate::event::Event;
use crate::flags::{Flags, RANK_INVALID, TI_ALL};
use crate::progress;
use crate::rules::{self, no_locks_held, not_in_handler, Lc, LcOpt, AM_FLAGS, LC_GROUP};
use crate::runtime;
use crate::segment::disposition::{self, has_offsets, own_base, peer_base, place};
use crate::team::TeamHandle;
use crate::team::{self, Named};
use crate::thread;
use crate::trace::{self, EventKind};
use crate::types::Category;
use gasnet_conduit::{Class, JobRank};

/// Writes `GEX_EVENT_INVALID` where the client wants its local-completion event: every AM is locally complete at return.
///
/// # Safety
/// `lc_opt` is null, a `GEX_EVENT_*` constant, or valid for a write.
pub unsafe fn complete_locally(lc_opt: LcOpt) {
    if lc_opt > LC_GROUP {
        // SAFETY: neither null nor a constant, so the client's event.
        unsafe { lc_opt.write(Event::INVALID) };
    }
}

/// Ends the job over a message beyond the limits: a copy would leave its buffer. Checked in every flavour.
#[inline(always)]
fn check(m: &Message<'_>) {
    let limit = match m.category {
        Category::Short => 0,
        Category::Medium => max_medium(Some(m.target.rank)),
        Category::Long => MAX_LONG,
    };
    if m.handler < INDEX_BASE || m.bytes > limit {
        refuse(*m, limit);
    }
    if rules::CHECKED && m.bytes > 0 && m.payload.is_null() {
        refuse(*m, limit);
    }
    if m.category == Category::Long && m.bytes > 0 {
        rules::no_overlap("AM injection", m.target, m.destination, m.payload, m.bytes);
        let rt = runtime::get();
        let inside = || rt.segment_of(m.target).is_some_and(|s| s.contains(m.destination, m.bytes));
        if !rt.is_own_memory(m.target) && !inside() {
            rt.outside_segment(m.target, m.destination, m.bytes);
        }
    }
}

#[cold]
fn refuse(m: Message<'_>, limit: usize) -> ! {
    let rank = runtime::get().rank();
    if m.handler < INDEX_BASE {
        fatal!(
            "rank {rank}: AM injection: {} is not a client handler index ({INDEX_BASE}..255)",
            m.handler
        );
    }
    if m.bytes > limit {
        fatal!(
            "rank {rank}: AM injection: a {:?} of {} bytes to rank {} exceeds the limit of {limit} (gex_AM_Max{:?}{:?})",
            m.category,
            m.bytes,
            m.target.rank,
            m.class,
            m.category
        );
    }
    fatal!(
        "rank {rank}: AM injection: the address of a payload of {} bytes is null",
        m.bytes
    )
}

/// The message with addresses in place of offsets. A Short has none, a Medium no remote one.
#[cold]
fn absolute<'a>(message: &Message<'a>, flags: Flags) -> Message<'a> {
    let mut absolute = *message;
    if message.category != Category::Short {
        absolute.payload = message.payload.wrapping_add(own_base(message.source_ep, flags));
    }
    if message.category == Category::Long {
        absolute.destination = message.destination.wrapping_add(peer_base(message.target, flags));
    }
    absolute
}

/// Sends as the flags say and answers in the manner of the C functions: 0, or 1 for "no op".
#[inline(always)]
fn inject(message: &Message<'_>, flags: Flags) -> c_int {
    if !Flags::IMMEDIATE.has_all(flags) || message.source_ep != 0 {
        return inject_as_told(*message, flags);
    }
    check(message);
    inject_from_host(message, flags)
}

/// The same for messages that say more, of where their addresses lie or from which endpoint they come.
#[inline(never)]
fn inject_as_told(told: Message<'_>, flags: Flags) -> c_int {
    let (mut message, mut flags) = (told, flags);
    if has_offsets(flags) {
        message = absolute(&told, flags);
        // What is an address now must still lie where the flag said.
        let promised = if flags.has(Flags::SELF_SEG_OFFSET) {
            Flags::SELF_SEG_BOUND
        } else {
            Flags::NONE
        };
        flags = flags.without(Flags::SELF_SEG_OFFSET | Flags::PEER_SEG_OFFSET) | promised;
    }
    rules::only_flags("AM injection", flags, AM_FLAGS);
    if flags.has(Flags::PEER_SEG_OUTSIDE) && message.category == Category::Long {
        message.target = place(message.target, message.destination, message.bytes, flags);
        flags = flags.without(Flags::PEER_SEG_OUTSIDE);
    }
    check(&message);
    if cfg!(feature = "debug-checks") {
        disposition::check(
            flags,
            message.source_ep,
            message.payload as usize,
            message.bytes,
            "AM injection",
        );
    }
    let local_ep = disposition::own(message.source_ep, flags);
    let mut bounce = Vec::new();
    if local_ep != 0 && message.bytes > 0 {
        let mem = runtime::get().local_mem(local_ep, message.payload, message.bytes);
        if mem.kind.is_some() {
            // SAFETY: the payload is in the local endpoint's segment (checked).
            message.payload = unsafe { mem.readable(message.bytes, &mut bounce) };
        }
    }
    inject_from_host(&message, flags)
}

#[inline(always)]
fn inject_from_host(message: &Message<'_>, flags: Flags) -> c_int {
    let began = trace::clock(trace::TraceCategory::Message);
    if flags.has(Flags::IMMEDIATE) {
        let refused = inject::try_send(message).is_err();
        if began != 0 && !refused {
            sent(began, *message);
        }
        return c_int::from(refused);
    }
    inject::send_inline(message);
    if began != 0 {
        sent(began, *message);
    }
    // A message to this process itself left nothing to be done.
    if message.class == Class::Request && message.target.rank != runtime::get().rank() {
        progress::poll_after_request();
    }
    0
}

/// Records a message whose sending began at `began`.
#[cold]
pub fn sent(began: u64, m: Message<'_>) {
    let kind = match (m.class, m.category) {
        (Class::Request, Category::Short) => EventKind::RequestShort,
        (Class::Request, Category::Medium) => EventKind::RequestMedium,
        (Class::Request, Category::Long) => EventKind::RequestLong,
        (Class::Reply, Category::Short) => EventKind::ReplyShort,
        (Class::Reply, Category::Medium) => EventKind::ReplyMedium,
        (Class::Reply, Category::Long) => EventKind::ReplyLong,
    };
    trace::record(
        &trace::TraceEvent::new(kind, began)
            .to(m.target.rank, m.bytes)
            .until_now()
            .with_fields(format_args!(" handler={} nargs={}", m.handler, m.args.len()))
            .with_details(format_args!(
                " ep={} dest={:#x} args={}",
                m.target.ep,
                m.destination,
                trace::NumberList(m.args)
            )),
    );
}

/// A request through `(tm, rank)`, without payload.
#[inline(always)]
fn request(tm: TeamHandle, rank: u32, category: Category, handler: u8, args: &[Arg]) -> Message<'_> {
    not_in_handler("gex_AM_Request");
    let (source_ep, target) = team::resolve(tm, rank);
    Message::new(Class::Request, category, source_ep, target, handler, args)
}

/// The token of the running handler; in the debug flavour it is seen to be that.
///
/// # Safety
/// As it says.
#[inline]
unsafe fn running<'a>(function: &str, token: *const Token) -> &'a Token {
    if rules::CHECKED && !std::ptr::eq(token, thread::current().token.get()) {
        fatal!("{function}: {token:p} is not the token of the handler that this thread runs; tokens end with their handler");
    }
    // SAFETY: by contract.
    unsafe { &*token }
}

/// The reply to `token`; fatal when none is allowed.
///
/// # Safety
/// `token` is the running handler's.
#[inline(always)]
pub unsafe fn reply(token: *const Token, category: Category, handler: u8, args: &[Arg]) -> Message<'_> {
    no_locks_held("gex_AM_Reply");
    // SAFETY: by contract.
    let token = unsafe { running("gex_AM_Reply", token) };
    if token.class == Class::Reply {
        fatal!("rank {}: gex_AM_Reply: a reply handler may not send", runtime::get().rank());
    }
    if rules::CHECKED && token.replied.get() {
        fatal!(
            "rank {}: gex_AM_Reply: this request was answered already",
            runtime::get().rank()
        );
    }
    Message::new(Class::Reply, category, token.target_ep, token.source, handler, args)
}

/// Sends the one reply to `token`, completed by `place`.
///
/// # Safety
/// `token` is the running handler's.
#[inline(always)]
unsafe fn inject_reply<'a>(
    token: *const Token,
    category: Category,
    handler: u8,
    args: &'a [Arg],
    place: impl FnOnce(Message<'a>) -> Message<'a>,
    flags: Flags,
) -> c_int {
    // SAFETY: by contract.
    let message = place(unsafe { reply(token, category, handler, args) });
    let refused = inject(&message, flags);
    if refused == 0 {
        // SAFETY: by contract.
        unsafe { &*token }.replied.set(true);
    }
    refused
}

/// A Short request. Here and below one function serves all numbers of arguments, and contains all layers down to the ring.
#[inline(never)]
pub fn request_short(tm: TeamHandle, rank: u32, handler: u8, flags: Flags, args: &[Arg]) -> c_int {
    inject(&request(tm, rank, Category::Short, handler, args), flags)
}

/// A Medium request.
#[inline(never)]
pub fn request_medium(
    tm: TeamHandle,
    rank: u32,
    handler: u8,
    source: *const u8,
    bytes: usize,
    flags: Flags,
    args: &[Arg],
) -> c_int {
    inject(
        &request(tm, rank, Category::Medium, handler, args).carrying(source, bytes),
        flags,
    )
}

/// A Long request: source, length and destination together.
#[inline(never)]
pub fn request_long(
    tm: TeamHandle,
    rank: u32,
    handler: u8,
    (source, bytes, destination): (*const u8, usize, *mut u8),
    flags: Flags,
    args: &[Arg],
) -> c_int {
    let message = request(tm, rank, Category::Long, handler, args);
    inject(&message.carrying(source, bytes).landing(destination), flags)
}

/// A Short reply.
///
/// # Safety
/// `token` is the running handler's; so below.
#[inline(never)]
pub unsafe fn reply_short(token: *const Token, handler: u8, flags: Flags, args: &[Arg]) -> c_int {
    // SAFETY: by contract.
    unsafe { inject_reply(token, Category::Short, handler, args, |m| m, flags) }
}

/// A Medium reply.
#[inline(never)]
pub unsafe fn reply_medium(token: *const Token, handler: u8, source: *const u8, bytes: usize, flags: Flags, args: &[Arg]) -> c_int {
    // SAFETY: by contract.
    unsafe { inject_reply(token, Category::Medium, handler, args, |m| m.carrying(source, bytes), flags) }
}

/// A Long reply.
#[inline(never)]
pub unsafe fn reply_long(
    token: *const Token,
    handler: u8,
    (source, bytes, destination): (*const u8, usize, *mut u8),
    flags: Flags,
    args: &[Arg],
) -> c_int {
    // SAFETY: by contract.
    unsafe {
        inject_reply(
            token,
            Category::Long,
            handler,
            args,
            |m| m.carrying(source, bytes).landing(destination),
            flags,
        )
    }
}

macro_rules! functions {
    ($($rs:ident $rm:ident $rl:ident $ps:ident $pm:ident $pl:ident ($($a:ident)*);)*) => {$(
        /// Short request. 0, or 1 if IMMEDIATE and nothing was sent.
        #[no_mangle]
        pub extern "C" fn $rs(tm: TeamHandle, rank: u32, handler: u8, flags: Flags $(, $a: Arg)*) -> c_int {
            request_short(tm, rank, handler, flags, &[$($a),*])
        }

        /// Medium request. 0, or 1 if IMMEDIATE and nothing was sent.
        #[no_mangle]
        pub unsafe extern "C" fn $rm(
            tm: TeamHandle, rank: u32, handler: u8, source: *const u8, bytes: usize, lc_opt: LcOpt, flags: Flags $(, $a: Arg)*
        ) -> c_int {
            rules::local_completion(stringify!($rm), lc_opt, Lc::Request);
            // SAFETY: the client's local-completion option.
            unsafe { complete_locally(lc_opt) };
            request_medium(tm, rank, handler, source, bytes, flags, &[$($a),*])
        }

        /// Long request. 0, or 1 if IMMEDIATE and nothing was sent.
        #[no_mangle]
        pub unsafe extern "C" fn $rl(
            tm: TeamHandle, rank: u32, handler: u8, source: *const u8, bytes: usize, destination: *mut u8, lc_opt: LcOpt, flags: Flags
            $(, $a: Arg)*
        ) -> c_int {
            rules::local_completion(stringify!($rl), lc_opt, Lc::Request);
            // SAFETY: the client's local-completion option.
            unsafe { complete_locally(lc_opt) };
            request_long(tm, rank, handler, (source, bytes, destination), flags, &[$($a),*])
        }

        /// Short reply. 0, or 1 if IMMEDIATE and nothing was sent.
        #[no_mangle]
        pub unsafe extern "C" fn $ps(token: *const Token, handler: u8, flags: Flags $(, $a: Arg)*) -> c_int {
            // SAFETY: the running handler's token.
            unsafe { reply_short(token, handler, flags, &[$($a),*]) }
        }

        /// Medium reply. 0, or 1 if IMMEDIATE and nothing was sent.
        #[no_mangle]
        pub unsafe extern "C" fn $pm(
            token: *const Token, handler: u8, source: *const u8, bytes: usize, lc_opt: LcOpt, flags: Flags $(, $a: Arg)*
        ) -> c_int {
            rules::local_completion(stringify!($pm), lc_opt, Lc::Reply);
            // SAFETY: the client's local-completion option.
            unsafe { complete_locally(lc_opt) };
            // SAFETY: the running handler's token.
            unsafe { reply_medium(token, handler, source, bytes, flags, &[$($a),*]) }
        }

        /// Long reply. 0, or 1 if IMMEDIATE and nothing was sent.
        #[no_mangle]
        pub unsafe extern "C" fn $pl(
            token: *const Token, handler: u8, source: *const u8, bytes: usize, destination: *mut u8, lc_opt: LcOpt, flags: Flags
            $(, $a: Arg)*
        ) -> c_int {
            rules::local_completion(stringify!($pl), lc_opt, Lc::Reply);
            // SAFETY: the client's local-completion option.
            unsafe { complete_locally(lc_opt) };
            // SAFETY: the running handler's token.
            unsafe { reply_long(token, handler, (source, bytes, destination), flags, &[$($a),*]) }
        }
    )*};
}

functions! {
    gex_AM_RequestShort0 gex_AM_RequestMedium0 gex_AM_RequestLong0 gex_AM_ReplyShort0 gex_AM_ReplyMedium0 gex_AM_ReplyLong0 ();
    gex_AM_RequestShort1 gex_AM_RequestMedium1 gex_AM_RequestLong1 gex_AM_ReplyShort1 gex_AM_ReplyMedium1 gex_AM_ReplyLong1 (a0);
    gex_AM_RequestShort2 gex_AM_RequestMedium2 gex_AM_RequestLong2 gex_AM_ReplyShort2 gex_AM_ReplyMedium2 gex_AM_ReplyLong2 (a0 a1);
    gex_AM_RequestShort3 gex_AM_RequestMedium3 gex_AM_RequestLong3 gex_AM_ReplyShort3 gex_AM_ReplyMedium3 gex_AM_ReplyLong3 (a0 a1 a2);
    gex_AM_RequestShort4 gex_AM_RequestMedium4 gex_AM_RequestLong4 gex_AM_ReplyShort4 gex_AM_ReplyMedium4 gex_AM_ReplyLong4 (a0 a1 a2 a3);
    gex_AM_RequestShort5 gex_AM_RequestMedium5 gex_AM_RequestLong5 gex_AM_ReplyShort5 gex_AM_ReplyMedium5 gex_AM_ReplyLong5 (a0 a1 a2 a3 a4);
    gex_AM_RequestShort6 gex_AM_RequestMedium6 gex_AM_RequestLong6 gex_AM_ReplyShort6 gex_AM_ReplyMedium6 gex_AM_ReplyLong6 (a0 a1 a2 a3 a4 a5);
    gex_AM_RequestShort7 gex_AM_RequestMedium7 gex_AM_RequestLong7 gex_AM_ReplyShort7 gex_AM_ReplyMedium7 gex_AM_ReplyLong7 (a0 a1 a2 a3 a4 a5 a6);
    gex_AM_RequestShort8 gex_AM_RequestMedium8 gex_AM_RequestLong8 gex_AM_ReplyShort8 gex_AM_ReplyMedium8 gex_AM_ReplyLong8 (a0 a1 a2 a3 a4 a5 a6 a7);
    gex_AM_RequestShort9 gex_AM_RequestMedium9 gex_AM_RequestLong9 gex_AM_ReplyShort9 gex_AM_ReplyMedium9 gex_AM_ReplyLong9 (a0 a1 a2 a3 a4 a5 a6 a7 a8);
    gex_AM_RequestShort10 gex_AM_RequestMedium10 gex_AM_RequestLong10 gex_AM_ReplyShort10 gex_AM_ReplyMedium10 gex_AM_ReplyLong10 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9);
    gex_AM_RequestShort11 gex_AM_RequestMedium11 gex_AM_RequestLong11 gex_AM_ReplyShort11 gex_AM_ReplyMedium11 gex_AM_ReplyLong11 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10);
    gex_AM_RequestShort12 gex_AM_RequestMedium12 gex_AM_RequestLong12 gex_AM_ReplyShort12 gex_AM_ReplyMedium12 gex_AM_ReplyLong12 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11);
    gex_AM_RequestShort13 gex_AM_RequestMedium13 gex_AM_RequestLong13 gex_AM_ReplyShort13 gex_AM_ReplyMedium13 gex_AM_ReplyLong13 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12);
    gex_AM_RequestShort14 gex_AM_RequestMedium14 gex_AM_RequestLong14 gex_AM_ReplyShort14 gex_AM_ReplyMedium14 gex_AM_ReplyLong14 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13);
    gex_AM_RequestShort15 gex_AM_RequestMedium15 gex_AM_RequestLong15 gex_AM_ReplyShort15 gex_AM_ReplyMedium15 gex_AM_ReplyLong15 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14);
    gex_AM_RequestShort16 gex_AM_RequestMedium16 gex_AM_RequestLong16 gex_AM_ReplyShort16 gex_AM_ReplyMedium16 gex_AM_ReplyLong16 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15);
}

/// The process that a limit query is about; None for the worst of all, and for ranks that do not exist.
fn about(tm: TeamHandle, rank: u32) -> Option<JobRank> {
    if rank == RANK_INVALID {
        return None;
    }
    match team::decode(tm) {
        Named::Team(team) if rules::CHECKED || rank < team.size => Some(team.locate(rank).rank),
        Named::Team(_) => None,
        Named::Pair(..) => {
            rules::job_rank("gex_AM_Max*", rank);
            Some(rank)
        }
    }
}

/// The limit when the flags ask about a buffer of the library's.
fn prepared(limit: usize, flags: Flags, function: &str) -> usize {
    rules::only_flags(function, flags, AM_FLAGS | Flags::AM_PREPARE_LEAST);
    if rules::CHECKED && flags.has_all(Flags::AM_PREPARE_LEAST) {
        fatal!(
            "rank {}: {function}: GEX_FLAG_AM_PREPARE_LEAST_CLIENT and _ALLOC exclude each other",
            runtime::get().rank()
        );
    }
    if flags.has(Flags::AM_PREPARE_LEAST_ALLOC) {
        limit.min(MAX_PREPARED)
    } else {
        limit
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
        /// Largest payload to a peer, or to the worst of them (`GEX_RANK_INVALID`).
        #[no_mangle]
        pub extern "C" fn $name(tm: TeamHandle, rank: u32, _lc_opt: *const Event, flags: Flags, nargs: c_uint) -> usize {
            if cfg!(feature = "debug-checks") && nargs as usize > MAX_ARGS {
                fatal!("rank {}: {}: {nargs} arguments; {MAX_ARGS} is the most", runtime::get().rank(), stringify!($name));
            }
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

/// Largest Medium that may answer `token`.
#[no_mangle]
pub unsafe extern "C" fn gex_Token_MaxReplyMedium(
    token: *const Token,
    _lc_opt: *const Event,
    flags: Flags,
    _nargs: c_uint,
) -> usize {
    // SAFETY: the running handler's token.
    prepared(
        max_medium(Some(unsafe { running("gex_Token_MaxReplyMedium", token) }.source.rank)),
        flags,
        "gex_Token_MaxReplyMedium",
    )
}

/// Largest Long that may answer `token`.
#[no_mangle]
pub unsafe extern "C" fn gex_Token_MaxReplyLong(token: *const Token, _lc_opt: *const Event, flags: Flags, _nargs: c_uint) -> usize {
    if rules::CHECKED {
        // SAFETY: the running handler's token.
        unsafe { running("gex_Token_MaxReplyLong", token) };
    }
    prepared(MAX_LONG, flags, "gex_Token_MaxReplyLong")
}

/// Most arguments.
#[no_mangle]
pub extern "C" fn gex_AM_MaxArgs() -> c_uint {
    MAX_ARGS as c_uint
}

macro_rules! bounds {
    ($($name:ident $bound:expr;)*) => {$(
        /// What every peer takes.
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
    source: u32,
    endpoint: *const c_void,
    entry: *const c_void,
    is_request: c_int,
    is_long: c_int,
}

const _: () = assert!(size_of::<TokenInfo>() == 32);

/// Tells about the message of the running handler. Everything is always known.
#[no_mangle]
pub unsafe extern "C" fn gex_Token_Info(token: *const Token, info: *mut TokenInfo, _mask: u32) -> u32 {
    if info.is_null() {
        complain("gex_Token_Info", "info must not be null");
        return 0;
    }
    // SAFETY: the running handler's token.
    let token = unsafe { running("gex_Token_Info", token) };
    let endpoint = runtime::get()
        .endpoint(token.target_ep)
        .map_or(std::ptr::null(), |e| std::ptr::from_ref(e).cast());
    let answer = TokenInfo {
        source: token.source.rank,
        endpoint,
        entry: token.entry.map_or(std::ptr::null(), <*const _>::cast),
        is_request: c_int::from(token.class == Class::Request),
        is_long: c_int::from(token.category == Category::Long),
    };
    // SAFETY: not null; the client's to write.
    unsafe { info.write(answer) };
    TI_ALL
}
