//! Remote atomics: domains and the operations of every type.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use super::rma::{explicit, root};
use crate::abi::NO_OP;
use crate::ad::cpu::Number;
use crate::ad::{self, codes, Domain, Request};
use crate::event::Event;
use crate::flags::Flags;
use crate::rma::Started;
use crate::rules::{self, not_in_handler};
use crate::runtime;
use crate::team::TeamHandle;
use crate::trace::{self, TraceCategory, EventKind};
use crate::types::Location;
use crate::{team, thread};
use gasnet_conduit::Busy;

/// Flags of an operation.
const FLAGS: Flags = Flags::IMMEDIATE
    .with(Flags::AD_REL)
    .with(Flags::AD_ACQ)
    .with(Flags::AD_MY)
    .with(Flags::RANK_IS_JOBRANK)
    .with(Flags::SEG_OFFSET);

/// Makes an atomic domain. Collective, but does not synchronise.
#[no_mangle]
pub unsafe extern "C" fn gex_AD_Create(ad_p: *mut *const Domain, tm: TeamHandle, dt: u32, ops: u32, flags: Flags) {
    not_in_handler("gex_AD_Create");
    let team = team::team(tm, "gex_AD_Create");
    let known = codes::operations(dt);
    if known == 0 {
        fatal!("gex_AD_Create: dt {dt:#x} is not one built-in type (GEX_DT_I32, _U32, _I64, _U64, _FLT or _DBL)");
    }
    if rules::CHECKED && (ops == 0 || ops & !known != 0) {
        fatal!(
            "gex_AD_Create: {:#x} of the operations {ops:#x} are not operations of remote atomics on {}",
            ops & !known,
            codes::type_name(dt)
        );
    }
    if rules::CHECKED && (flags & Flags::AD_FAVOR).count() > 1 {
        fatal!("gex_AD_Create: at most one GEX_FLAG_AD_FAVOR_* may be given; the flags are {flags:#x}");
    }
    rules::only_flags("gex_AD_Create", flags, Flags::AD_FAVOR);
    let domain = Box::into_raw(Box::new(Domain::new(tm, team, dt, ops & known, flags)));
    if rules::CHECKED {
        team.domains.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the client's to write.
    unsafe { ad_p.write(domain) };
    trace::created(format_args!(
        " what=domain handle={domain:p} type={} ops={ops:#x} flags={flags:#x}",
        codes::type_name(dt)
    ));
}

/// Ends an atomic domain on which nothing is outstanding anywhere. Collective, but does not synchronise.
#[no_mangle]
pub unsafe extern "C" fn gex_AD_Destroy(ad: *mut Domain) {
    not_in_handler("gex_AD_Destroy");
    // SAFETY: a handle of ours.
    let domain = unsafe { checked(ad, "gex_AD_Destroy") };
    trace::destroyed(format_args!(" what=domain handle={ad:p}"));
    if cfg!(feature = "debug-checks") {
        // Stays, so that its later use is noticed.
        domain.live.store(false, Ordering::Release);
        team::team(domain.tm, "gex_AD_Destroy")
            .domains
            .fetch_sub(1, Ordering::Relaxed);
    } else {
        // SAFETY: made by `gex_AD_Create` from a Box; a handle is destroyed once and not used any more (specification).
        drop(unsafe { Box::from_raw(ad) });
    }
}

/// The domain behind a handle; in the debug flavour it is seen to exist.
///
/// # Safety
/// `ad` is null or came from `gex_AD_Create`.
#[inline]
unsafe fn checked<'a>(ad: *const Domain, function: &str) -> &'a Domain {
    if cfg!(feature = "debug-checks") && ad.is_null() {
        fatal!("{function} was given GEX_AD_INVALID");
    }
    // SAFETY: by contract.
    let domain = unsafe { &*ad };
    if cfg!(feature = "debug-checks") && !domain.live.load(Ordering::Acquire) {
        fatal!("{function} was given an atomic domain that was destroyed");
    }
    domain
}

macro_rules! query {
    ($($name:ident $field:ident: $type:ty, $what:literal;)*) => {$(
        #[doc = concat!("The domain's ", $what, ", as passed to `gex_AD_Create`.")]
        #[no_mangle]
        pub unsafe extern "C" fn $name(ad: *const Domain) -> $type {
            // SAFETY: a handle of ours.
            unsafe { checked(ad, stringify!($name)) }.$field
        }
    )*};
}

query! {
    gex_AD_QueryFlags flags: Flags, "flags";
    gex_AD_QueryTM tm: TeamHandle, "team";
    gex_AD_QueryDT dt: u32, "type";
    gex_AD_QueryOps ops: u32, "operations";
}

/// Sets the client's pointer of a domain.
#[no_mangle]
pub unsafe extern "C" fn gex_AD_SetCData(ad: *const Domain, value: *mut c_void) {
    // SAFETY: a handle of ours.
    unsafe { checked(ad, "gex_AD_SetCData") }
        .cdata
        .store(value, Ordering::Release);
}

/// The client's pointer of a domain; null at first.
#[no_mangle]
pub unsafe extern "C" fn gex_AD_QueryCData(ad: *const Domain) -> *mut c_void {
    // SAFETY: a handle of ours.
    unsafe { checked(ad, "gex_AD_QueryCData") }.cdata.load(Ordering::Acquire)
}

/// What the specification calls erroneous and an initiator can see. Debug flavour.
fn check<T: Number>(domain: &Domain, request: &Request<T>, function: &str) {
    let rt = runtime::get();
    let &Request {
        rank, target, op, flags, ..
    } = request;
    let fail = |why: String| -> ! { fatal!("rank {}: {function}: {why}", rt.rank()) };
    rules::only_flags(function, flags, FLAGS);
    if T::DT != domain.dt {
        fail(format!(
            "the domain is for {}, the call for {}",
            codes::type_name(domain.dt),
            codes::type_name(T::DT)
        ));
    }
    if !op.is_power_of_two() {
        fail(format!("opcode {op:#x} is not exactly one operation"));
    }
    if domain.ops & op == 0 {
        fail(format!(
            "operation {op:#x} is not among those of the domain, {:#x}",
            domain.ops
        ));
    }
    if flags.has(Flags::RANK_IS_JOBRANK) && (rank >= rt.size() || team::team(domain.tm, function).rank_of(rank).is_none()) {
        fail(format!("job rank {rank} is not in the team of the domain"));
    }
    if codes::is_fetching(op) && request.result.is_null() && !flags.has(Flags::SELF_SEG_OFFSET) {
        fail(format!("result_p is null, and operation {op:#x} fetches"));
    }
    let peer = domain.peer(rank, flags);
    if flags.has_all(Flags::AD_MY) {
        fail("GEX_FLAG_AD_MY_RANK and GEX_FLAG_AD_MY_NBRHD exclude each other".into());
    }
    if flags.has(Flags::AD_MY_RANK) && peer.rank != rt.rank() || flags.has(Flags::AD_MY_NBRHD) && !rt.is_neighbour(peer.rank) {
        fail(format!(
            "flags {flags:#x} assert a locality (GEX_FLAG_AD_MY_…) that rank {rank} does not have"
        ));
    }
    let start = if flags.has(Flags::PEER_SEG_OFFSET) {
        rt.segment_of(peer).map_or(target, |s| s.base.wrapping_add(target))
    } else {
        target
    };
    if rt.segment_of(peer).is_none_or(|s| !s.contains(start, size_of::<T>())) {
        rt.outside_segment(peer, start, size_of::<T>());
    }
    if codes::is_fetching(op) {
        let own = Location {
            rank: rt.rank(),
            ep: team::team(domain.tm, function).ep,
        };
        let base = if flags.has(Flags::SELF_SEG_OFFSET) {
            rt.base_of(own)
        } else {
            0
        };
        let result = (request.result as usize).wrapping_add(base);
        let here = rt.map_near(peer, start, size_of::<T>());
        if here.is_some_and(|here| (here as usize).abs_diff(result) < size_of::<T>()) {
            fail(format!(
                "result_p is memory of the target, at {result:#x}: a result must not be the target of an atomic"
            ));
        }
    }
}

#[inline]
unsafe fn begin<'a, T: Number>(ad: *const Domain, request: &Request<T>, function: &str) -> &'a Domain {
    not_in_handler(function);
    // SAFETY: a handle of ours.
    let domain = unsafe { checked(ad, function) };
    if cfg!(feature = "debug-checks") {
        check(domain, request, function);
    }
    domain
}

/// The operation in full, with a root event.
#[cold]
fn full_nb<T: Number>(domain: &Domain, request: &Request<T>) -> Event {
    let Some(far) = ad::resolve(domain, request) else {
        return Event::INVALID;
    };
    let thread = thread::current();
    match explicit(thread, |op| ad::far(domain, &far, op()).map(|()| Started::UnderWay)) {
        Err(Busy) => Event::NO_OP,
        Ok(op) => root(thread, op),
    }
}

/// The operation in full, in the implicit set.
#[cold]
fn full_nbi<T: Number>(domain: &Domain, request: &Request<T>) -> c_int {
    let Some(far) = ad::resolve(domain, request) else {
        return 0;
    };
    match ad::far(domain, &far, thread::current().implicit()) {
        Err(Busy) => NO_OP,
        Ok(()) => 0,
    }
}

/// Records an operation that was started at `began`.
#[cold]
fn traced<T: Number>(kind: EventKind, began: u64, domain: &Domain, request: &Request<T>) {
    let peer = domain.peer(request.rank, request.flags).rank;
    let (op, dt) = (request.op, codes::type_name(T::DT));
    trace::record(
        &trace::TraceEvent::new(kind, began)
            .to(peer, size_of::<T>())
            .until_now()
            .with_fields(format_args!(" op={} type={dt}", codes::operation_name(op)))
            .with_details(format_args!(" remote={:#x} flags={:#x}", request.target, request.flags)),
    );
}

macro_rules! typed {
    ($($nb:ident $nbi:ident $type:ty;)*) => {$(
        /// Starts a remote atomic with a root event; `GEX_EVENT_NO_OP` if IMMEDIATE and nothing was sent.
        #[no_mangle]
        pub unsafe extern "C" fn $nb(
            ad: *const Domain, result: *mut $type, rank: u32, target: usize, op: u32, a: $type, b: $type, flags: Flags,
        ) -> Event {
            let request = Request { result, rank, target, op, operands: [a, b], flags };
            // SAFETY: a handle of ours.
            let domain = unsafe { begin(ad, &request, stringify!($nb)) };
            let began = trace::clock(TraceCategory::Atomic);
            let event = if ad::near(domain, &request) {
                Event::INVALID
            } else {
                full_nb(domain, &request)
            };
            if began != 0 && event != Event::NO_OP {
                traced(EventKind::AtomicNb, began, domain, &request);
            }
            event
        }

        /// Starts a remote atomic in the implicit set. 0, or 1 if IMMEDIATE and nothing was sent.
        #[no_mangle]
        pub unsafe extern "C" fn $nbi(
            ad: *const Domain, result: *mut $type, rank: u32, target: usize, op: u32, a: $type, b: $type, flags: Flags,
        ) -> c_int {
            let request = Request { result, rank, target, op, operands: [a, b], flags };
            // SAFETY: a handle of ours.
            let domain = unsafe { begin(ad, &request, stringify!($nbi)) };
            let began = trace::clock(TraceCategory::Atomic);
            let refused = if ad::near(domain, &request) {
                0
            } else {
                full_nbi(domain, &request)
            };
            if began != 0 && refused == 0 {
                traced(EventKind::AtomicNbi, began, domain, &request);
            }
            refused
        }
    )*};
}

typed! {
    gex_AD_OpNB_I32 gex_AD_OpNBI_I32 i32;
    gex_AD_OpNB_U32 gex_AD_OpNBI_U32 u32;
    gex_AD_OpNB_I64 gex_AD_OpNBI_I64 i64;
    gex_AD_OpNB_U64 gex_AD_OpNBI_U64 u64;
    gex_AD_OpNB_FLT gex_AD_OpNBI_FLT f32;
    gex_AD_OpNB_DBL gex_AD_OpNBI_DBL f64;
}
