//! `gex_RMA_*`: the library's side of the inline functions in `gasnetex.h`, which handle a plain
//! copy to or from a neighbour themselves.

use std::ffi::c_int;

use crate::abi::NO_OP;
use crate::event::{Event, Op, OpKind};
use crate::flags::{Flags, EC_LC};
use crate::rma::{self, Access, Manner, Started};
use crate::rules::{self, not_in_handler, Lc, LcOpt, LC_GROUP, LC_NOW, RMA_FLAGS};
use crate::runtime;
use crate::segment::disposition::{self, has_offsets, own_base, peer_base, remote_location};
use crate::stall::Reason;
use crate::team;
use crate::team::TeamHandle;
use crate::thread::{self, Thread};
use crate::trace::{self, EventKind};
use crate::types::{EpIndex, Location, Rank};
use crate::wait;
use gasnet_conduit::Busy;

/// An access whose local side is the client's memory, which is on the device of the local
/// endpoint's segment or on the host.
#[inline(always)]
fn access(
    tm: TeamHandle,
    rank: Rank,
    remote: *const u8,
    local: *mut u8,
    bytes: usize,
    flags: Flags,
    function: &str,
) -> Access {
    let (ep, access) = host_access(tm, rank, remote, local, bytes, flags, function);
    Access {
        device: runtime::get()
            .local_mem(disposition::own(ep, flags), access.local, bytes)
            .kind,
        ..access
    }
}

/// An access whose local side is a value on the stack.
fn value_access(
    tm: TeamHandle,
    rank: Rank,
    remote: *const u8,
    memory: &mut ValueMemory,
    bytes: usize,
    flags: Flags,
    function: &str,
) -> Access {
    let local = memory.0.as_mut_ptr();
    host_access(
        tm,
        rank,
        remote,
        local,
        bytes,
        flags.without(Flags::SELF_SEG_OFFSET),
        function,
    )
    .1
}

/// The local endpoint, and an access whose local side is host memory.
#[inline(always)]
fn host_access(
    tm: TeamHandle,
    rank: Rank,
    remote: *const u8,
    local: *mut u8,
    bytes: usize,
    flags: Flags,
    function: &str,
) -> (EpIndex, Access) {
    not_in_handler(function);
    let (ep, peer) = team::resolve(tm, rank);
    let (remote, local) = if has_offsets(flags) {
        absolute(ep, peer, remote as usize, local, flags)
    } else {
        (remote as usize, local)
    };
    let peer = remote_location(peer, remote, bytes, flags);
    if cfg!(feature = "debug-checks") && bytes > 0 {
        let rt = runtime::get();
        let address = remote;
        if rt.segment_of(peer).is_none_or(|s| !s.contains(address, bytes)) {
            rt.outside_segment(peer, address, bytes);
        }
        if local.is_null() {
            fatal!("rank {}: {function}: the local address is null", rt.rank);
        }
        disposition::check(flags, ep, local as usize, bytes, function);
    }
    rules::only_flags(function, flags, RMA_FLAGS);
    rules::never(function, flags, peer);
    rules::no_overlap(function, peer, remote, local, bytes);
    let access = Access {
        peer,
        remote,
        local,
        device: None,
        bytes,
    };
    (ep, access)
}

/// The remote and the local address, from offsets.
#[cold]
fn absolute(ep: EpIndex, peer: Location, remote: usize, local: *mut u8, flags: Flags) -> (usize, *mut u8) {
    (
        remote.wrapping_add(peer_base(peer, flags)),
        local.wrapping_add(own_base(ep, flags)),
    )
}

/// How an operation is initiated; `kind` is of interest to puts.
fn manner(flags: Flags, kind: OpKind) -> Manner {
    Manner {
        immediate: flags.has(Flags::IMMEDIATE),
        kind,
        copy: flags.has(Flags::LC_COPY_YES),
    }
}

/// Kind of a put with a root event, of which the client may query the leaf for local completion
/// whatever `lc_opt` is.
fn kind_nb(lc_opt: LcOpt) -> OpKind {
    if lc_opt == LC_NOW {
        OpKind::PutNow
    } else {
        OpKind::PutWithLocal
    }
}

/// Kind of an implicit put.
fn kind_nbi(lc_opt: LcOpt) -> OpKind {
    match lc_opt {
        LC_NOW => OpKind::PutNow,
        LC_GROUP => OpKind::PutWithLocal,
        _ => OpKind::Put,
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // has the type of `Result::is_err`
fn is_no_op(result: &c_int) -> bool {
    *result == NO_OP
}

/// Runs `call`, and records it if that is wanted, unless it was refused.
#[inline(always)]
fn recorded<T>(kind: EventKind, access: &Access, call: impl FnOnce() -> T, refused: impl FnOnce(&T) -> bool) -> T {
    // Time is never 0.
    let began = if trace::wants(kind.category()) {
        trace::monotonic_ns()
    } else {
        0
    };
    let result = call();
    if began != 0 && !refused(&result) {
        record(kind, access, began);
    }
    result
}

#[cold]
#[inline(never)]
fn record(kind: EventKind, access: &Access, began: u64) {
    trace::record(
        &trace::TraceEvent::new(kind, began)
            .to(access.peer.rank, access.bytes)
            .until_now()
            .with_details(format_args!(
                " ep={} remote={:#x} local={:p}",
                access.peer.ep, access.remote, access.local
            )),
    );
}

/// Runs `start` with a new Op, and returns the Op if it is still outstanding.
#[inline(always)]
fn explicit(
    thread: &Thread,
    start: impl FnOnce(&mut dyn FnMut() -> &'static Op) -> Result<Started, Busy>,
) -> Result<Option<&'static Op>, Busy> {
    let mut taken = None;
    let result = start(&mut || *taken.insert(thread.free.borrow_mut().take()));
    match (result, taken) {
        (Ok(Started::UnderWay), Some(op)) => return Ok(Some(op)),
        (_, Some(op)) => thread.free.borrow_mut().put(op),
        _ => (),
    }
    result.map(|_| None)
}

/// The root event of an Op. Recycles the Op if it is complete.
pub(super) fn root(thread: &Thread, op: Option<&'static Op>) -> Event {
    let Some(op) = op else { return Event::INVALID };
    let event = op.event();
    if !event.is_done() {
        return event;
    }
    event.consume(&mut thread.free.borrow_mut());
    Event::INVALID
}

/// Runs `start` with a new Op, and returns its root event; `GEX_EVENT_NO_OP` if it is refused.
#[inline(always)]
pub(super) fn with_root(start: impl FnOnce(&mut dyn FnMut() -> &'static Op) -> Result<Started, Busy>) -> Event {
    let thread = thread::current();
    match explicit(thread, start) {
        Err(Busy) => Event::NO_OP,
        Ok(op) => root(thread, op),
    }
}

/// Runs `start` with the thread's Op for blocking operations, and waits until it is over. One that
/// is made while another waits counts in the same Op, and both wait for both.
#[inline(always)]
pub(super) fn blocking(start: impl FnOnce(&mut dyn FnMut() -> &'static Op) -> Result<Started, Busy>) -> c_int {
    let op = thread::current().blocking;
    match start(&mut || op) {
        Err(Busy) => NO_OP,
        Ok(Started::Complete) => 0,
        Ok(Started::UnderWay) => {
            wait::until_complete(Reason::Event(op.event()), || op.is_over());
            0
        }
    }
}

/// Runs `start`, and waits until the operation is complete.
#[inline(always)]
fn until_done(
    kind: EventKind,
    access: &Access,
    start: impl FnOnce(&mut dyn FnMut() -> &'static Op) -> Result<Started, Busy>,
) -> c_int {
    recorded(kind, access, || blocking(start), is_no_op)
}

/// Runs `start` with a root event.
#[inline(always)]
fn nb(
    kind: EventKind,
    access: &Access,
    start: impl FnOnce(&mut dyn FnMut() -> &'static Op) -> Result<Started, Busy>,
) -> Event {
    recorded(kind, access, || with_root(start), |event| *event == Event::NO_OP)
}

/// Runs `start` in the implicit set.
#[inline(always)]
fn nbi(kind: EventKind, access: &Access, start: impl FnOnce(fn() -> &'static Op) -> Result<Started, Busy>) -> c_int {
    let op = || thread::current().implicit();
    c_int::from(recorded(kind, access, || start(op), Result::is_err).is_err())
}

/// Writes the local-completion event of the put with this `root`, if the client wants one.
///
/// # Safety
/// `lc_opt` is null, a constant, or valid for a write.
unsafe fn local_event(lc_opt: LcOpt, root: Event) {
    if lc_opt > LC_GROUP {
        // SAFETY: neither null nor a constant, so valid for a write.
        unsafe { lc_opt.write(root.leaf(EC_LC as usize)) };
    }
}

/// Puts and waits for remote completion. Returns 0, or 1 if IMMEDIATE and nothing was sent.
#[no_mangle]
pub extern "C" fn gex_RMA_PutBlocking(
    tm: TeamHandle,
    rank: Rank,
    dest: *mut u8,
    src: *const u8,
    bytes: usize,
    flags: Flags,
) -> c_int {
    let access = access(tm, rank, dest, src.cast_mut(), bytes, flags, "gex_RMA_PutBlocking");
    let how = manner(flags, OpKind::Put);
    until_done(EventKind::Put, &access, |op| rma::put(&access, op, how))
}

/// Starts a put with a root event.
///
/// # Safety
/// `lc_opt` is a constant or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_RMA_PutNB(
    tm: TeamHandle,
    rank: Rank,
    dest: *mut u8,
    src: *const u8,
    bytes: usize,
    lc_opt: LcOpt,
    flags: Flags,
) -> Event {
    rules::local_completion("gex_RMA_PutNB", lc_opt, Lc::PutNb);
    let access = access(tm, rank, dest, src.cast_mut(), bytes, flags, "gex_RMA_PutNB");
    // SAFETY: the caller's contract.
    unsafe { put_nb(EventKind::PutNb, &access, lc_opt, flags) }
}

/// # Safety
/// As [`local_event`].
#[inline(always)]
unsafe fn put_nb(kind: EventKind, access: &Access, lc_opt: LcOpt, flags: Flags) -> Event {
    let how = manner(flags, kind_nb(lc_opt));
    // The root first: if it is complete its Op is recycled, and no leaf may name that.
    let root = nb(kind, access, |op| rma::put(access, op, how));
    if root != Event::NO_OP {
        // SAFETY: the caller's contract.
        unsafe { local_event(lc_opt, root) };
    }
    root
}

/// Starts a put in the implicit set. Returns 0, or 1 if IMMEDIATE and nothing was sent.
#[no_mangle]
pub extern "C" fn gex_RMA_PutNBI(
    tm: TeamHandle,
    rank: Rank,
    dest: *mut u8,
    src: *const u8,
    bytes: usize,
    lc_opt: LcOpt,
    flags: Flags,
) -> c_int {
    rules::local_completion("gex_RMA_PutNBI", lc_opt, Lc::PutNbi);
    let access = access(tm, rank, dest, src.cast_mut(), bytes, flags, "gex_RMA_PutNBI");
    put_nbi(EventKind::PutNbi, &access, lc_opt, flags)
}

#[inline(always)]
fn put_nbi(kind: EventKind, access: &Access, lc_opt: LcOpt, flags: Flags) -> c_int {
    let how = manner(flags, kind_nbi(lc_opt));
    nbi(kind, access, |op| rma::put(access, op, how))
}

macro_rules! gets {
    ($($(#[$doc:meta])* $name:ident $kind:ident $way:ident -> $result:ty;)*) => {$(
        $(#[$doc])*
        #[no_mangle]
        pub extern "C" fn $name(
            tm: TeamHandle, dest: *mut u8, rank: Rank, src: *const u8, bytes: usize, flags: Flags
        ) -> $result {
            let access = access(tm, rank, src, dest, bytes, flags, stringify!($name));
            let how = manner(flags, OpKind::Put);
            $way(EventKind::$kind, &access, |op| rma::get(&access, op, how))
        }
    )*};
}

gets! {
    /// Gets and waits. Returns 0, or 1 if IMMEDIATE and nothing was sent.
    gex_RMA_GetBlocking Get until_done -> c_int;
    /// Starts a get with a root event.
    gex_RMA_GetNB GetNb nb -> Event;
    /// Starts a get in the implicit set. Returns 0, or 1 if IMMEDIATE and nothing was sent.
    gex_RMA_GetNBI GetNbi nbi -> c_int;
}

fn value_bytes(bytes: usize, function: &str) -> usize {
    if bytes == 0 || bytes > size_of::<u64>() {
        fatal!(
            "rank {}: {function}: {bytes} bytes; a value has 1 to 8",
            runtime::get().rank
        );
    }
    bytes
}

/// The memory image of a value that begins with its low-order `bytes`.
fn value_memory(value: u64, bytes: usize) -> [u8; 8] {
    if cfg!(target_endian = "big") {
        (value << (64 - 8 * bytes)).to_ne_bytes()
    } else {
        value.to_ne_bytes()
    }
}

#[repr(align(8))]
struct ValueMemory([u8; 8]);

/// Gets a value of 1 to 8 bytes.
#[no_mangle]
pub extern "C" fn gex_RMA_GetBlockingVal(
    tm: TeamHandle,
    rank: Rank,
    src: *const u8,
    bytes: usize,
    flags: Flags,
) -> u64 {
    let bytes = value_bytes(bytes, "gex_RMA_GetBlockingVal");
    let mut memory = ValueMemory([0; 8]);
    let access = value_access(tm, rank, src, &mut memory, bytes, flags, "gex_RMA_GetBlockingVal");
    let how = manner(flags.without(Flags::IMMEDIATE), OpKind::Put);
    until_done(EventKind::GetVal, &access, |op| rma::get(&access, op, how));
    let raw = u64::from_ne_bytes(memory.0);
    if cfg!(target_endian = "big") {
        raw >> (64 - 8 * bytes)
    } else {
        raw
    }
}

macro_rules! value_puts {
    ($($(#[$doc:meta])* $name:ident -> $result:ty = |$access:ident, $flags:ident| $start:expr;)*) => {$(
        $(#[$doc])*
        #[no_mangle]
        pub extern "C" fn $name(
            tm: TeamHandle, rank: Rank, dest: *mut u8, value: u64, bytes: usize, $flags: Flags
        ) -> $result {
            let bytes = value_bytes(bytes, stringify!($name));
            let mut memory = ValueMemory(value_memory(value, bytes));
            let $access = value_access(tm, rank, dest, &mut memory, bytes, $flags, stringify!($name));
            $start
        }
    )*};
}

value_puts! {
    /// Puts a value of 1 to 8 bytes and waits. Returns 0, or 1 if IMMEDIATE and nothing was sent.
    gex_RMA_PutBlockingVal -> c_int = |access, flags| {
        let how = manner(flags, OpKind::Put);
        until_done(EventKind::PutVal, &access, |op| rma::put(&access, op, how))
    };
    /// Starts a put of a value in the implicit set. Returns 0, or 1 if IMMEDIATE and nothing was
    /// sent.
    gex_RMA_PutNBIVal -> c_int = |access, flags| put_nbi(EventKind::PutNbiVal, &access, LC_NOW, flags);
    /// Starts a put of a value with a root event.
    gex_RMA_PutNBVal -> Event = |access, flags| {
        // SAFETY: LC_NOW is a constant, not an event to write.
        unsafe { put_nb(EventKind::PutNbVal, &access, LC_NOW, flags) }
    };
}
