//! `gex_RMA_*`: the library's side of the inline functions in `gasnetex.h`, which handle a plain
//! copy to or from a neighbour themselves.

use std::ffi::c_int;

use crate::abi::NO_OP;
use crate::event::{Event, Op, OpKind};
use crate::flags::{Flags, EC_LC};
use crate::rma::plain::Plain;
use crate::rma::{self, Access, Manner, Started};
use crate::rules::{self, not_in_handler, Lc, LcOpt, LC_GROUP, LC_NOW, RMA_FLAGS};
use crate::runtime;
use crate::segment::disposition::{self, has_offsets, own_base, peer_base, remote_location};
use crate::stall::Reason;
use crate::team;
use crate::team::TeamHandle;
use crate::thread::{self, Thread};
use crate::trace::{self, recorder, EventKind};
use crate::types::{EpIndex, Location, Rank};
use crate::wait;
use gasnet_conduit::Busy;

/// Flags that change nothing where the local side is host memory, and the remote one a segment.
const PROMISES: Flags = Flags::PEER_NEVER_SELF
    .with(Flags::PEER_NEVER_NBRHD)
    .with(Flags::SELF_SEG_BOUND)
    .with(Flags::PEER_SEG_BOUND);

/// Direction of a call.
#[derive(Clone, Copy)]
enum Way {
    /// With what local completion is for.
    Put(OpKind),
    Get,
}

/// A put or a get. What is rare gets a copy: so that of the usual way stays in registers.
#[derive(Clone, Copy)]
struct Call {
    tm: TeamHandle,
    rank: Rank,
    remote: *const u8,
    local: *mut u8,
    bytes: usize,
    flags: Flags,
    way: Way,
    /// Whether the local side is a value on the stack: memory of the host, at no offset.
    is_value: bool,
    event: EventKind,
    function: &'static str,
}

impl Call {
    /// The way of the usual one: without flags, by a primordial endpoint, to the attached segment
    /// of another's that this thread has reached by the network before. So its local side is host
    /// memory.
    #[inline(always)]
    fn plain(self) -> Option<Plain> {
        if rules::CHECKED || !PROMISES.has_all(self.flags) || trace::wants(self.event.category()) {
            return None;
        }
        let peer = team::between_primordial(self.tm, self.rank)?;
        Plain::find(peer, self.remote as usize, self.local, self.bytes)
    }

    /// Starts a plain one, counted in `op`.
    #[inline(always)]
    fn start_plain(self, plain: &Plain, op: &'static Op) {
        match self.way {
            Way::Put(kind) => plain.put(op, kind),
            Way::Get => plain.get(op),
        }
    }

    /// Starts any.
    fn start(self, op: &mut dyn FnMut() -> &'static Op) -> Result<Started, Busy> {
        let access = self.access();
        let manner = |kind| Manner {
            immediate: self.flags.has(Flags::IMMEDIATE),
            kind,
            copy: self.flags.has(Flags::LC_COPY_YES),
        };
        match self.way {
            Way::Put(kind) => rma::put(&access, op, manner(kind)),
            Way::Get => rma::get(&access, op, manner(OpKind::Get)),
        }
    }

    fn access(self) -> Access {
        let Self { bytes, function, .. } = self;
        not_in_handler(function);
        let flags = if self.is_value {
            self.flags.without(Flags::SELF_SEG_OFFSET)
        } else {
            self.flags
        };
        let (ep, peer) = team::resolve(self.tm, self.rank);
        let (remote, local) = if has_offsets(flags) {
            absolute(ep, peer, self.remote as usize, self.local, flags)
        } else {
            (self.remote as usize, self.local)
        };
        let peer = remote_location(peer, remote, bytes, flags);
        if rules::CHECKED && bytes > 0 {
            let rt = runtime::get();
            if rt.segment_of(peer).is_none_or(|s| !s.contains(remote, bytes)) {
                rt.outside_segment(peer, remote, bytes);
            }
            if local.is_null() {
                fatal!("rank {}: {function}: the local address is null", rt.rank);
            }
            disposition::check(flags, ep, local as usize, bytes, function);
        }
        rules::only_flags(function, flags, RMA_FLAGS);
        rules::never(function, flags, peer);
        rules::no_overlap(function, peer, remote, local, bytes);
        let device = if self.is_value {
            None
        } else {
            runtime::get().local_mem(disposition::own(ep, flags), local, bytes).kind
        };
        Access {
            peer,
            remote,
            local,
            device,
            bytes,
        }
    }
}

/// The remote and the local address, from offsets.
#[cold]
fn absolute(ep: EpIndex, peer: Location, remote: usize, local: *mut u8, flags: Flags) -> (usize, *mut u8) {
    (
        remote.wrapping_add(peer_base(peer, flags)),
        local.wrapping_add(own_base(ep, flags)),
    )
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

/// Runs `run`, and records the call if that is wanted, unless it was refused.
fn recorded<T>(call: Call, run: impl FnOnce() -> T, refused: impl FnOnce(&T) -> bool) -> T {
    let began = trace::clock(call.event.category());
    let result = run();
    if began != 0 && !refused(&result) {
        record(&call, began);
    }
    result
}

#[cold]
fn record(call: &Call, began: u64) {
    let access = call.access();
    let contents = match call.way {
        // SAFETY: the source, which the client keeps until this call returns.
        Way::Put(_) => unsafe { access.here().recorded(&[], access.bytes) },
        Way::Get => None,
    };
    recorder::write_with(
        &recorder::Call::new(call.event)
            .to(access.peer.rank, access.bytes)
            .at(runtime::get().offset_of(access.peer, access.remote, access.bytes)),
        contents.as_deref(),
    );
    trace::record(
        &trace::TraceEvent::new(call.event, began)
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
pub(super) fn blocking(start: impl FnOnce(&mut dyn FnMut() -> &'static Op) -> Result<Started, Busy>) -> c_int {
    let op = thread::current().blocking;
    match start(&mut || op) {
        Err(Busy) => NO_OP,
        Ok(Started::Complete) => 0,
        Ok(Started::UnderWay) => wait_for(op),
    }
}

#[inline(always)]
fn wait_for(op: &'static Op) -> c_int {
    wait::until_complete(Reason::Event(op.event()), || op.is_over());
    0
}

/// Starts a call, and waits until it is complete. Returns 0, or 1 if nothing was sent.
#[inline(always)]
fn until_done(call: Call) -> c_int {
    let Some(plain) = call.plain() else {
        return any_until_done(call);
    };
    let op = thread::current().blocking;
    call.start_plain(&plain, op);
    wait_for(op)
}

#[inline(never)]
fn any_until_done(call: Call) -> c_int {
    recorded(call, || blocking(|op| call.start(op)), is_no_op)
}

/// Starts a call with a root event; `GEX_EVENT_NO_OP` if nothing was sent.
#[inline(always)]
fn nb(call: Call) -> Event {
    let Some(plain) = call.plain() else { return any_nb(call) };
    let thread = thread::current();
    let op = thread.free.borrow_mut().take();
    call.start_plain(&plain, op);
    root(thread, Some(op))
}

#[inline(never)]
fn any_nb(call: Call) -> Event {
    recorded(call, || with_root(|op| call.start(op)), |event| *event == Event::NO_OP)
}

/// Starts a call in the implicit set. Returns 0, or 1 if nothing was sent.
#[inline(always)]
fn nbi(call: Call) -> c_int {
    let Some(plain) = call.plain() else {
        return any_nbi(call);
    };
    call.start_plain(&plain, thread::current().implicit());
    0
}

#[inline(never)]
fn any_nbi(call: Call) -> c_int {
    let mut op = || thread::current().implicit();
    c_int::from(recorded(call, || call.start(&mut op), Result::is_err).is_err())
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

/// A put or a get whose local side is the client's memory: on the device of the local endpoint's
/// segment, or on the host.
macro_rules! call {
    ($event:ident $function:ident $way:expr,
     ($tm:ident, $rank:ident) $remote:expr, $local:expr, $bytes:ident, $flags:ident) => {
        Call {
            tm: $tm,
            rank: $rank,
            remote: $remote,
            local: $local,
            bytes: $bytes,
            flags: $flags,
            way: $way,
            is_value: false,
            event: EventKind::$event,
            function: stringify!($function),
        }
    };
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
    let way = Way::Put(OpKind::Put);
    until_done(call!(Put gex_RMA_PutBlocking way, (tm, rank) dest, src.cast_mut(), bytes, flags))
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
    let way = Way::Put(kind_nb(lc_opt));
    // The root first: if it is complete its Op is recycled, and no leaf may name that.
    let root = nb(call!(PutNb gex_RMA_PutNB way, (tm, rank) dest, src.cast_mut(), bytes, flags));
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
    let way = Way::Put(kind_nbi(lc_opt));
    nbi(call!(PutNbi gex_RMA_PutNBI way, (tm, rank) dest, src.cast_mut(), bytes, flags))
}

macro_rules! gets {
    ($($(#[$doc:meta])* $name:ident $event:ident $start:ident -> $result:ty;)*) => {$(
        $(#[$doc])*
        #[no_mangle]
        pub extern "C" fn $name(
            tm: TeamHandle, dest: *mut u8, rank: Rank, src: *const u8, bytes: usize, flags: Flags
        ) -> $result {
            $start(call!($event $name Way::Get, (tm, rank) src, dest, bytes, flags))
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
    let (local, flags) = (memory.0.as_mut_ptr(), flags.without(Flags::IMMEDIATE));
    until_done(Call {
        is_value: true,
        ..call!(GetVal gex_RMA_GetBlockingVal Way::Get, (tm, rank) src, local, bytes, flags)
    });
    let raw = u64::from_ne_bytes(memory.0);
    if cfg!(target_endian = "big") {
        raw >> (64 - 8 * bytes)
    } else {
        raw
    }
}

macro_rules! value_puts {
    ($($(#[$doc:meta])* $name:ident $event:ident $kind:expr, $start:ident -> $result:ty;)*) => {$(
        $(#[$doc])*
        #[no_mangle]
        pub extern "C" fn $name(
            tm: TeamHandle, rank: Rank, dest: *mut u8, value: u64, bytes: usize, flags: Flags
        ) -> $result {
            let bytes = value_bytes(bytes, stringify!($name));
            let mut memory = ValueMemory(value_memory(value, bytes));
            let local = memory.0.as_mut_ptr();
            $start(Call {
                is_value: true,
                ..call!($event $name Way::Put($kind), (tm, rank) dest, local, bytes, flags)
            })
        }
    )*};
}

value_puts! {
    /// Puts a value of 1 to 8 bytes and waits. Returns 0, or 1 if IMMEDIATE and nothing was sent.
    gex_RMA_PutBlockingVal PutVal OpKind::Put, until_done -> c_int;
    /// Starts a put of a value in the implicit set. Returns 0, or 1 if IMMEDIATE and nothing was
    /// sent.
    gex_RMA_PutNBIVal PutNbiVal kind_nbi(LC_NOW), nbi -> c_int;
    /// Starts a put of a value with a root event.
    gex_RMA_PutNBVal PutNbVal kind_nb(LC_NOW), nb -> Event;
}
