//! `gex_AD_*`: atomic domains and the operations of every type.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use super::handles::{cdata, query};
use super::rma::with_root;
use super::NO_OP;
use crate::ad::cpu::Number;
use crate::ad::{self, codes, Domain, Request};
use crate::event::Event;
use crate::flags::Flags;
use crate::rma::Started;
use crate::rules::{not_in_handler, CHECKED};
use crate::runtime;
use crate::team::{self, TeamHandle};
use crate::thread;
use crate::trace::{self, recorder, EventKind, TraceCategory};
use crate::types::Rank;
use gasnet_conduit::Busy;

/// Creates an atomic domain. Collective, but does not synchronise.
///
/// # Safety
/// `ad_p` is valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_AD_Create(ad_p: *mut *const Domain, tm: TeamHandle, dt: u32, ops: u32, flags: Flags) {
    let name = "gex_AD_Create";
    not_in_handler(name);
    let team = team::team(tm, name);
    let known = ad::check::domain(name, dt, ops, flags);
    let domain = Box::into_raw(Box::new(Domain::new(tm, team, dt, known, flags)));
    if CHECKED {
        team.domains.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the caller's contract.
    unsafe { ad_p.write(domain) };
    trace::created(format_args!(
        " what=domain handle={domain:p} type={} ops={ops:#x} flags={flags:#x}",
        codes::type_name(dt)
    ));
}

/// Destroys an atomic domain on which no operation is outstanding anywhere. Collective, but does
/// not synchronise.
///
/// # Safety
/// `ad` is the handle of a domain, and is not used again.
#[no_mangle]
pub unsafe extern "C" fn gex_AD_Destroy(ad: *mut Domain) {
    let name = "gex_AD_Destroy";
    not_in_handler(name);
    // SAFETY: the caller's contract.
    let domain = unsafe { checked(name, ad) };
    trace::destroyed(format_args!(" what=domain handle={ad:p}"));
    if CHECKED {
        // The debug flavour keeps the domain, to report its later use.
        domain.live.store(false, Ordering::Release);
        team::team(domain.tm, name).domains.fetch_sub(1, Ordering::Relaxed);
    } else {
        // SAFETY: `gex_AD_Create` made it from a Box, and this is its last use (contract).
        drop(unsafe { Box::from_raw(ad) });
    }
}

/// The domain behind a handle. The debug flavour checks that it is live.
///
/// # Safety
/// `ad` is null or came from `gex_AD_Create`.
#[inline]
unsafe fn checked<'a>(function: &str, ad: *const Domain) -> &'a Domain {
    if CHECKED && ad.is_null() {
        fatal!("{function} was given GEX_AD_INVALID");
    }
    // SAFETY: the caller's contract.
    let domain = unsafe { &*ad };
    if CHECKED && !domain.live.load(Ordering::Acquire) {
        fatal!("{function} was given an atomic domain that was destroyed");
    }
    domain
}

query! {
    /// The flags of `gex_AD_Create`.
    gex_AD_QueryFlags(Domain, checked) -> Flags = |domain| domain.flags;
    /// The team of `gex_AD_Create`.
    gex_AD_QueryTM(Domain, checked) -> TeamHandle = |domain| domain.tm;
    /// The type of `gex_AD_Create`.
    gex_AD_QueryDT(Domain, checked) -> u32 = |domain| domain.dt;
    /// The operations of `gex_AD_Create`.
    gex_AD_QueryOps(Domain, checked) -> u32 = |domain| domain.ops;
}

cdata! { gex_AD_SetCData gex_AD_QueryCData Domain, checked, "domain" }

/// Entry checks of an operation. Returns its domain.
///
/// # Safety
/// `ad` is the handle of a domain.
#[inline]
unsafe fn begin<'a, T: Number>(ad: *const Domain, request: &Request<T>, function: &str) -> &'a Domain {
    not_in_handler(function);
    // SAFETY: the caller's contract.
    let domain = unsafe { checked(function, ad) };
    if CHECKED {
        ad::check::request(function, domain, request);
    }
    domain
}

/// Starts an operation that [`ad::try_mapped`] did not perform, with a root event.
#[cold]
fn full_nb<T: Number>(domain: &Domain, request: &Request<T>) -> Event {
    let Some(far) = ad::resolve(domain, request) else {
        return Event::INVALID;
    };
    with_root(|op| ad::start(domain, &far, op()).map(|()| Started::UnderWay))
}

/// Starts an operation that [`ad::try_mapped`] did not perform, in the implicit set.
#[cold]
fn full_nbi<T: Number>(domain: &Domain, request: &Request<T>) -> c_int {
    let Some(far) = ad::resolve(domain, request) else {
        return 0;
    };
    match ad::start(domain, &far, thread::current().implicit()) {
        Err(Busy) => NO_OP,
        Ok(()) => 0,
    }
}

/// Records an operation that began at `began`.
#[cold]
fn record<T: Number>(kind: EventKind, began: u64, domain: &Domain, request: &Request<T>) {
    let peer = domain.peer(request.rank, request.flags);
    let (op, dt) = (request.op, codes::type_name(T::DT));
    let call = recorder::Call {
        code: op.trailing_zeros() as u8,
        ..recorder::Call::new(kind)
    };
    let offset = runtime::get().offset_of(peer, request.target, size_of::<T>());
    recorder::write(&call.to(peer.rank, size_of::<T>()).at(offset));
    trace::record(
        &trace::TraceEvent::new(kind, began)
            .to(peer.rank, size_of::<T>())
            .until_now()
            .with_fields(format_args!(" op={} type={dt}", codes::operation_name(op)))
            .with_details(format_args!(" remote={:#x} flags={:#x}", request.target, request.flags)),
    );
}

macro_rules! typed {
    ($($nb:ident $nbi:ident $type:ty;)*) => {$(
        /// Starts a remote atomic with a root event. Returns `GEX_EVENT_NO_OP` if IMMEDIATE and
        /// nothing was sent.
        ///
        /// # Safety
        /// `ad` is the handle of a domain; `result` is valid for a write until the operation is
        /// complete.
        #[no_mangle]
        pub unsafe extern "C" fn $nb(
            ad: *const Domain, result: *mut $type, rank: Rank, target: *mut c_void, op: u32, a: $type, b: $type,
            flags: Flags,
        ) -> Event {
            let request = Request { result, rank, target: target as usize, op, operands: [a, b], flags };
            // SAFETY: the caller's contract.
            let domain = unsafe { begin(ad, &request, stringify!($nb)) };
            traced!(
                TraceCategory::Atomic,
                if ad::try_mapped(domain, &request) { Event::INVALID } else { full_nb(domain, &request) },
                |began, event| if event != Event::NO_OP {
                    record(EventKind::AtomicNb, began, domain, &request);
                }
            )
        }

        /// Starts a remote atomic in the implicit set. Returns 0, or 1 if IMMEDIATE and nothing was
        /// sent.
        ///
        /// # Safety
        /// As with a root event.
        #[no_mangle]
        pub unsafe extern "C" fn $nbi(
            ad: *const Domain, result: *mut $type, rank: Rank, target: *mut c_void, op: u32, a: $type, b: $type,
            flags: Flags,
        ) -> c_int {
            let request = Request { result, rank, target: target as usize, op, operands: [a, b], flags };
            // SAFETY: the caller's contract.
            let domain = unsafe { begin(ad, &request, stringify!($nbi)) };
            traced!(
                TraceCategory::Atomic,
                if ad::try_mapped(domain, &request) { 0 } else { full_nbi(domain, &request) },
                |began, refused| if refused == 0 {
                    record(EventKind::AtomicNbi, began, domain, &request);
                }
            )
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
