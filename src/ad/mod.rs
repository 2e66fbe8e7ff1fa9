//! Remote atomics (GASNet-EX 0.19, "Remote Atomic Operations"): domains, and how an operation gets
//! to its target.
//!
//! A domain uses one method for all targets: CPU instructions or the conduit's atomics. By CPU, an
//! operation on a neighbour's memory is direct ([`cpu`]) and complete at return; for other targets
//! the owner receives a request ([`packets`]) and uses the same instructions. The conduit's atomics
//! are used for neighbours too, since they need not be atomic to those of a CPU. Creating a domain
//! does not communicate: each member's decision depends on single-valued parameters only.

pub mod check;
pub mod cpu;
pub mod packets;

use std::ptr;
use std::sync::atomic::{fence, AtomicBool, AtomicPtr, Ordering};

use crate::event::{Op, OpKind};
use crate::flags::Flags;
use crate::mk::MemRef;
use crate::rma::native;
use crate::rma::transfer::{self, TransferId};
use crate::runtime::{self, Runtime};
use crate::team::TeamHandle;
use crate::team::{self, Head, Team};
use crate::thread;
use crate::types::{Location, Rank};
use cpu::Number;
use gasnet_conduit::{Atomic, Atomics, Busy, JobRank, RemoteMemory};
use gasnet_job::counters::OneSided;

pub use gasnet_conduit::atomic_codes as codes;

/// How `op` is counted. Operands are passed by value, so a SET has no local completion of its own.
const fn kind(op: u32) -> OpKind {
    match op {
        codes::SET => OpKind::Put,
        codes::GET => OpKind::Get,
        _ => OpKind::Rmw,
    }
}

/// The target of a `gex_AD_t`. Inline code reads the head.
#[repr(C)]
#[derive(Debug)]
pub struct Domain {
    /// Copy of the team's head at creation; closed if the conduit performs the operations.
    head: Head,
    /// Handle of its team.
    pub tm: TeamHandle,
    /// Its type, `GEX_DT_*`.
    pub dt: u32,
    /// Its operations, `GEX_OP_*`.
    pub ops: u32,
    /// As passed at creation.
    pub flags: Flags,
    /// Client data (`cdata`).
    pub cdata: AtomicPtr<std::ffi::c_void>,
    /// The conduit performs all operations.
    offloaded: bool,
    /// Not destroyed. Kept after destruction in the debug flavour only.
    pub live: AtomicBool,
}

/// One operation, as its initiator requests it.
#[derive(Clone, Copy, Debug)]
pub struct Request<T> {
    /// Destination of the old value, if the operation fetches.
    pub result: *mut T,
    /// Owner of the memory: a rank of the domain's team, or as `flags` say.
    pub rank: Rank,
    /// Address of the target there, or as `flags` say.
    pub target: usize,
    /// `GEX_OP_*`.
    pub op: u32,
    /// Operands; an operation uses none, one or both.
    pub operands: [T; 2],
    /// `GEX_FLAG_*`.
    pub flags: Flags,
}

/// One operation for a target that is not reached directly. The type is a value here.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// `GEX_DT_*`.
    pub dt: u32,
    /// `GEX_OP_*`.
    pub op: u32,
    /// Address at its owner.
    pub target: usize,
    /// As they travel.
    pub operands: [u64; 2],
    /// Destination of the old value, if the operation fetches.
    pub result: *mut u8,
}

impl Call {
    /// Destination of the old value, and its length; null and 0 if the operation does not fetch.
    fn fetched(&self) -> (*mut u8, usize) {
        if codes::is_fetching(self.op) {
            (self.result, codes::bytes(self.dt))
        } else {
            (ptr::null_mut(), 0)
        }
    }

    /// Begins a transfer with `peer` for what is fetched, counted in `op`.
    fn begin(&self, op: &'static Op, peer: JobRank) -> TransferId {
        let (local, bytes) = self.fetched();
        transfer::begin(op, kind(self.op), peer, MemRef::host(local), bytes)
    }
}

/// Whether the conduit is to perform all operations of a domain. The same answer on all members.
fn offload(rt: &Runtime, team: &Team, dt: u32, ops: u32, flags: Flags) -> bool {
    let Some(atomics) = rt.abilities.atomics else {
        return false;
    };
    if flags.has(Flags::AD_FAVOR_MY_RANK | Flags::AD_FAVOR_MY_NBRHD) {
        return false;
    }
    offered(atomics, dt, ops) && team.ranks().any(|rank| !rt.is_neighbour(team.locate(rank).rank))
}

/// Whether the conduit has all of `ops` on `dt`.
fn offered(atomics: &dyn Atomics, dt: u32, ops: u32) -> bool {
    let mut each = (0..codes::OPERATION_BITS)
        .map(|bit| 1 << bit)
        .filter(|op| ops & op != 0);
    each.all(|op| atomics.supports(dt, op))
}

impl Domain {
    /// A domain over the team with handle `tm`. The parameters are valid.
    pub fn new(tm: TeamHandle, team: &Team, dt: u32, ops: u32, flags: Flags) -> Self {
        let offloaded = offload(runtime::get(), team, dt, ops, flags);
        Self {
            head: if offloaded { Head::closed() } else { team.head().copy() },
            tm,
            dt,
            ops,
            flags,
            cdata: AtomicPtr::new(ptr::null_mut()),
            offloaded,
            live: AtomicBool::new(true),
        }
    }

    /// The target's process and endpoint.
    #[inline]
    pub fn peer(&self, rank: Rank, flags: Flags) -> Location {
        if flags.has(Flags::RANK_IS_JOBRANK) {
            return Location {
                rank: rank.as_job_rank(),
                ep: 0,
            };
        }
        team::resolve(self.tm, rank).1
    }
}

#[cold]
fn misaligned(rank: JobRank, target: usize, dt: u32) -> ! {
    fatal!(
        "a remote atomic on {} was given the target address {target:#x} on rank {rank}, which is not aligned to {} \
        bytes",
        codes::type_name(dt),
        codes::bytes(dt)
    )
}

#[cold]
fn on_device(rt: &Runtime, place: Location) -> ! {
    fatal!(
        "rank {}: remote atomics work on host memory, but the segment of endpoint {} of rank {} is memory of a device",
        rt.rank,
        place.ep,
        place.rank
    )
}

#[cold]
fn no_such_operation(op: u32, dt: u32) -> ! {
    fatal!(
        "{op:#x} is not one operation (GEX_OP_*) of remote atomics on {}",
        codes::type_name(dt)
    )
}

/// Flags that change the meaning of rank or addresses.
const NAMING: Flags = Flags::RANK_IS_JOBRANK.with(Flags::SEG_OFFSET);

/// Performs the operation if its target is reached directly and named plainly; false: nothing was
/// done. No lock, no allocation, no thread state. [`resolve`] and [`start`] do the rest.
#[inline(always)]
pub fn try_mapped<T: Number>(domain: &Domain, request: &Request<T>) -> bool {
    let rt = runtime::get();
    if domain.offloaded || request.flags.has(NAMING) {
        return false;
    }
    perform(
        rt,
        team::team(domain.tm, "a remote atomic").locate(request.rank),
        request,
    )
}

/// Performs an operation on memory that is mapped here; false: it is not.
#[inline(always)]
fn perform<T: Number>(rt: &Runtime, peer: Location, request: &Request<T>) -> bool {
    let Some(here) = rt.mapped_address(peer, request.target, size_of::<T>()) else {
        return false;
    };
    if here as usize % size_of::<T>() != 0 {
        misaligned(peer.rank, request.target, T::DT);
    }
    // SAFETY: `mapped_address` answers for the target, which is aligned; the client keeps other
    // accesses away.
    let Some(old) = (unsafe { cpu::perform(here, request.op, request.operands, request.flags) }) else {
        no_such_operation(request.op, T::DT);
    };
    if codes::is_fetching(request.op) {
        // SAFETY: the client's result.
        unsafe { request.result.write(old) };
    }
    true
}

/// The operation that a request means, wherever its target is: performed, or what is left to start.
pub fn resolve<T: Number>(domain: &Domain, request: &Request<T>) -> Option<RemoteOperation> {
    let rt = runtime::get();
    let peer = domain.peer(request.rank, request.flags);
    let own = Location {
        rank: rt.rank,
        ep: team::team(domain.tm, "a remote atomic").ep,
    };
    let request = &absolute(rt, own, peer, request);
    // The network's atomics reach segments only. Memory of this process outside them is no other
    // rank's target, so there those of the CPU are alone.
    let in_segment = || {
        rt.segment_of(peer)
            .is_some_and(|s| s.contains(request.target, size_of::<T>()))
    };
    let is_private = || rt.is_own_memory(peer) && !in_segment();
    if (!domain.offloaded || is_private()) && perform(rt, peer, request) {
        return None;
    }
    if request.target % size_of::<T>() != 0 {
        misaligned(peer.rank, request.target, T::DT);
    }
    if !request.op.is_power_of_two() || codes::operations(T::DT) & request.op == 0 {
        no_such_operation(request.op, T::DT);
    }
    let call = Call {
        dt: T::DT,
        op: request.op,
        target: request.target,
        operands: request.operands.map(T::to_wire),
        result: request.result.cast(),
    };
    Some(RemoteOperation {
        peer,
        call,
        flags: request.flags,
    })
}

/// The request with addresses in place of offsets.
fn absolute<T: Number>(rt: &Runtime, own: Location, peer: Location, request: &Request<T>) -> Request<T> {
    let mut absolute = *request;
    if request.flags.has(Flags::PEER_SEG_OFFSET) {
        absolute.target = request.target.wrapping_add(rt.base_of(peer));
    }
    if request.flags.has(Flags::SELF_SEG_OFFSET) && codes::is_fetching(request.op) {
        if rt.device_of(own.ep).is_some() {
            on_device(rt, own);
        }
        absolute.result = (request.result as usize).wrapping_add(rt.base_of(own)) as *mut T;
    }
    absolute
}

/// An operation on its way to a target that is not reached directly.
#[derive(Clone, Copy, Debug)]
pub struct RemoteOperation {
    peer: Location,
    call: Call,
    flags: Flags,
}

/// Starts what [`resolve`] left. It is counted in `op`.
pub fn start(domain: &Domain, operation: &RemoteOperation, op: &'static Op) -> Result<(), Busy> {
    let RemoteOperation { peer, ref call, flags } = *operation;
    let bytes = codes::bytes(call.dt);
    thread::current()
        .recorder
        .get()
        .accesses(OneSided::Atomic, peer.rank, bytes);
    let rt = runtime::get();
    if flags.has(Flags::AD_REL) {
        // SYNC POINT ad: earlier writes are visible before the request is. The other end is the
        // completion of the operation (`event`, op-complete), which acquires with or without
        // `GEX_FLAG_AD_ACQ`.
        fence(Ordering::SeqCst);
    }
    let immediate = flags.has(Flags::IMMEDIATE);
    let abilities = &rt.abilities;
    let Some((atomics, segments)) = abilities.atomics.zip(abilities.segments).filter(|_| domain.offloaded) else {
        check_target(rt, peer, call);
        return packets::start(peer, call, op, immediate);
    };
    let far = rt.far_segment(segments, peer, call.target, bytes);
    let segment = far.or_else(|| {
        check_target(rt, peer, call);
        rt.remote_segment(segments, peer)
    });
    let Some(segment) = segment else {
        rt.outside_segment(peer, call.target, bytes);
    };
    let target = RemoteMemory {
        peer: peer.rank,
        segment,
        address: call.target,
    };
    by_network(atomics, target, call, op, immediate)
}

/// Fatal if the target is not in a segment of `peer` that is host memory.
fn check_target(rt: &Runtime, peer: Location, call: &Call) {
    let bytes = codes::bytes(call.dt);
    let segment = match rt.segment_of(peer) {
        Some(segment) if segment.contains(call.target, bytes) => segment,
        _ => rt.outside_segment(peer, call.target, bytes),
    };
    if segment.on_device {
        on_device(rt, peer);
    }
}

/// By the conduit's own atomics.
fn by_network(
    atomics: &dyn Atomics,
    target: RemoteMemory,
    call: &Call,
    op: &'static Op,
    immediate: bool,
) -> Result<(), Busy> {
    let (fetched, bytes) = call.fetched();
    let cookie = native::begin(op, kind(call.op), target.peer, MemRef::host(fetched), bytes);
    let atomic = Atomic {
        target,
        dt: call.dt,
        op: call.op,
        operands: call.operands,
        fetched,
        cookie,
    };
    native::inject(target.peer, cookie, immediate, || atomics.atomic(&atomic))
}

#[cfg(test)]
mod tests;
