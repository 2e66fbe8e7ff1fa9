//! Puts and gets by the conduit.
//!
//! An operation is counted in its [`Op`] and named by a cookie, Op and kind: no lock, no table, no
//! allocation. Two rare ones have a record as well ([`transfer`]), which the cookie then names: a
//! put whose source was copied (`GEX_FLAG_LC_COPY_YES`), and every operation while the stall
//! watchdog watches, so that it can report the peer.

use super::{transfer, Access, Manner, Started};
use crate::event::{self, Op, OpKind};
use crate::mk::{self, MemRef};
use crate::runtime::Runtime;
use crate::stall::{self, Reason};
use crate::{thread, wait};
use gasnet_conduit::{
    Busy, Completion, Cookie, Get, JobRank, LocalCompletion, LocalMemory, PollScope, Put, RemoteMemory, RemoteSegment,
    Rma, SourceUse,
};
use gasnet_job::counters::OneSided;

/// A part of an operation of the conduit is complete.
#[inline]
pub fn done(cookie: Cookie, part: Completion) {
    if let Some(number) = event::complete(cookie, part) {
        transfer::complete_numbered(number, part);
    }
}

/// Counts an operation, and names it. With a record if `recorded`.
#[inline]
pub fn begin(op: &'static Op, kind: OpKind, peer: JobRank, local: MemRef, bytes: usize) -> Cookie {
    if stall::is_watching() {
        return transfer::begin(op, kind, peer, local, bytes).cookie();
    }
    op.begin_kind(kind, peer);
    op.cookie(kind)
}

/// Tries until the conduit takes an operation, or once. If it was refused it is no longer counted.
#[inline(always)]
pub fn inject<T>(
    peer: JobRank,
    cookie: Cookie,
    immediate: bool,
    mut attempt: impl FnMut() -> Result<T, Busy>,
) -> Result<T, Busy> {
    let mut attempt = || thread::in_conduit(&mut attempt);
    attempt().or_else(|Busy| inject_later(peer, cookie, immediate, attempt))
}

/// The same, after the conduit has refused once.
#[cold]
#[inline(never)]
fn inject_later<T>(
    peer: JobRank,
    cookie: Cookie,
    immediate: bool,
    mut attempt: impl FnMut() -> Result<T, Busy>,
) -> Result<T, Busy> {
    if immediate {
        done(cookie, Completion::Both);
        return Err(Busy);
    }
    Ok(wait::until_some(PollScope::All, Reason::Conduit(peer), || {
        attempt().ok()
    }))
}

/// The remote side of an access to a segment of its peer.
fn remote(access: &Access, segment: RemoteSegment) -> RemoteMemory {
    RemoteMemory {
        peer: access.peer.rank,
        segment,
        address: access.remote,
    }
}

/// A local side of `bytes` bytes, as the conduit takes it.
fn local(rt: &Runtime, memory: MemRef, bytes: usize) -> LocalMemory {
    LocalMemory {
        address: memory.address,
        segment: rt.registered_segment(memory, bytes),
        device: memory.kind.map(|kind| kind.driver().owner().device),
    }
}

/// Puts and gets of the network, for this process.
#[derive(Clone, Copy)]
pub struct Native<'a> {
    /// The runtime.
    pub rt: &'a Runtime,
    /// The ability.
    pub rma: &'a dyn Rma,
}

/// See [`super::put`].
#[inline(always)]
pub fn put(
    via: Native<'_>,
    access: &Access,
    segment: RemoteSegment,
    op: &'static Op,
    manner: Manner,
) -> Result<Started, Busy> {
    access.count(OneSided::Put);
    let is_small = access.bytes <= via.rt.small_put && access.device.is_none() && !manner.copy;
    if is_small && !stall::is_watching() && put_small(via, access, segment, op, manner.immediate)? {
        return Ok(Started::UnderWay);
    }
    put_any(via, access, segment, op, manner)
}

/// Tries to start a put as a small one. Its source is free at return, so local completion, whoever
/// waits for it, is not counted.
#[inline(always)]
fn put_small(
    via: Native<'_>,
    access: &Access,
    segment: RemoteSegment,
    op: &'static Op,
    immediate: bool,
) -> Result<bool, Busy> {
    op.begin_kind(OpKind::Put, access.peer.rank);
    let (cookie, to) = (op.cookie(OpKind::Put), remote(access, segment));
    let attempt = || via.rma.put_small(to, access.local, access.bytes, cookie);
    let started = inject(access.peer.rank, cookie, immediate, attempt)?.is_some();
    if !started {
        done(cookie, Completion::Both);
    }
    Ok(started)
}

/// A put of any size and kind of memory.
#[inline(never)]
fn put_any(
    via: Native<'_>,
    access: &Access,
    segment: RemoteSegment,
    op: &'static Op,
    manner: Manner,
) -> Result<Started, Busy> {
    let Native { rt, rma } = via;
    let peer = access.peer.rank;
    let (mut from, mut kind) = (access.here(), manner.kind);
    let cookie = if manner.copy {
        // The copy is the source that the network uses, and the client's is free.
        kind = OpKind::Put;
        let mut copy = vec![0; access.bytes];
        // SAFETY: the client answers for the local side.
        unsafe { mk::copy(MemRef::host(copy.as_mut_ptr()), from, access.bytes) };
        let id = transfer::begin(op, kind, peer, from, access.bytes);
        from = MemRef::host(transfer::keep(id, copy));
        id.cookie()
    } else {
        begin(op, kind, peer, from, access.bytes)
    };
    let put = Put {
        to: remote(access, segment),
        from: local(rt, from, access.bytes),
        bytes: access.bytes,
        source: if kind == OpKind::PutNow {
            SourceUse::Now
        } else {
            SourceUse::Later
        },
        cookie,
    };
    match inject(peer, cookie, manner.immediate, || rma.put(&put))? {
        LocalCompletion::AtReturn => done(cookie, Completion::Source),
        // An IMMEDIATE put has found its resources; what is left is the wire.
        LocalCompletion::Later if kind == OpKind::PutNow => wait::until(Reason::Source(peer), || op.source_is_free()),
        LocalCompletion::Later => {}
    }
    Ok(Started::UnderWay)
}

/// See [`super::get`].
#[inline(always)]
pub fn get(
    via: Native<'_>,
    access: &Access,
    segment: RemoteSegment,
    op: &'static Op,
    immediate: bool,
) -> Result<Started, Busy> {
    access.count(OneSided::Get);
    let Native { rt, rma } = via;
    let (peer, to) = (access.peer.rank, access.here());
    let cookie = begin(op, OpKind::Get, peer, to, access.bytes);
    let get = Get {
        from: remote(access, segment),
        to: local(rt, to, access.bytes),
        bytes: access.bytes,
        cookie,
    };
    inject(peer, cookie, immediate, || rma.get(&get))?;
    Ok(Started::UnderWay)
}
