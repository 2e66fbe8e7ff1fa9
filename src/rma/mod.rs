//! Remote memory access (GASNet-EX 0.19, "Extended API").
//!
//! Memory that is mapped here, on a device of this process, or accessible through the kernel is
//! copied; the operation is complete at return. Other memory is reached by the conduit's own put
//! and get ([`native`]) or by packets ([`packets`]). [`Reach`] selects the method, but for the
//! usual access over a network ([`plain`]). An operation over packets is a transfer ([`transfer`]),
//! the only state of the initiator that travels.

pub mod native;
pub mod packets;
pub mod plain;
pub mod transfer;

use crate::event::{Op, OpKind};
use crate::mk::{self, MemRef};
use crate::runtime::{self, Runtime};
use crate::segment::reach::Reach;
use crate::thread;
use crate::types::Location;
use gasnet_conduit::Busy;
use gasnet_job::counters::OneSided;
use native::Native;

/// A put or a get.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The remote side.
    pub peer: Location,
    /// Address at the remote side.
    pub remote: usize,
    /// Address here.
    pub local: *mut u8,
    /// The device that `local` is an address of; none for host memory.
    pub device: Option<&'static mk::MemoryKind>,
    /// Length.
    pub bytes: usize,
}

/// How the initiation call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Fail instead of waiting (`GEX_FLAG_IMMEDIATE`).
    pub immediate: bool,
    /// Of a put: what its local completion is for.
    pub kind: OpKind,
    /// Copy the source rather than wait for it (`GEX_FLAG_LC_COPY_YES`).
    pub copy: bool,
}

/// State of an access after initiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// Complete.
    Complete,
    /// Under way; its operation counts it.
    UnderWay,
}

impl Access {
    /// The rest after the first `done` bytes.
    fn after(&self, done: usize) -> Self {
        Self {
            peer: self.peer,
            remote: self.remote + done,
            local: self.local.wrapping_add(done),
            bytes: self.bytes - done,
            device: self.device,
        }
    }

    /// The local side.
    #[inline]
    pub fn here(&self) -> MemRef {
        MemRef {
            kind: self.device,
            address: self.local as usize,
        }
    }

    /// Counts it, for `gasnet_info --attach`.
    #[inline(always)]
    fn count(&self, what: OneSided) {
        thread::current()
            .recorder
            .get()
            .accesses(what, self.peer.rank, self.bytes);
    }

    /// The way to the remote side, which the local side can take.
    fn reach<'a>(&self, rt: &'a Runtime) -> Reach<'a> {
        rt.reach_from(self.here(), self.peer, self.remote, self.bytes)
    }
}

/// Copies local memory to a peer's. `op`, called only for transfers under way, counts them.
pub fn put(access: &Access, op: impl FnOnce() -> &'static Op, manner: Manner) -> Result<Started, Busy> {
    if access.bytes == 0 {
        return Ok(Started::Complete);
    }
    let rt = runtime::get();
    match access.reach(rt) {
        Reach::Here(there) => {
            // SAFETY: `reach` answers for the remote side, the client for the local one.
            unsafe { mk::copy(there, access.here(), access.bytes) };
            Ok(Started::Complete)
        }
        Reach::Kernel(neighbour) => {
            // SAFETY: as above.
            let done = unsafe { neighbour.put(access.remote, access.local, access.bytes) };
            rest(access, done, |rest, has_begun| {
                packets::put(rest, op(), manner, has_begun)
            })
        }
        Reach::Network(rma, segment) => native::put(Native { rt, rma }, access, segment, op(), manner),
        Reach::Messages => packets::put(access, op(), manner, false),
    }
}

/// Copies a peer's memory to local memory.
pub fn get(access: &Access, op: impl FnOnce() -> &'static Op, manner: Manner) -> Result<Started, Busy> {
    if access.bytes == 0 {
        return Ok(Started::Complete);
    }
    let rt = runtime::get();
    match access.reach(rt) {
        Reach::Here(there) => {
            // SAFETY: as in `put`.
            unsafe { mk::copy(access.here(), there, access.bytes) };
            Ok(Started::Complete)
        }
        Reach::Kernel(neighbour) => {
            // SAFETY: as in `put`.
            let done = unsafe { neighbour.get(access.local, access.remote, access.bytes) };
            rest(access, done, |rest, has_begun| {
                packets::get(rest, op(), manner, has_begun)
            })
        }
        Reach::Network(rma, segment) => native::get(Native { rt, rma }, access, segment, op(), manner.immediate),
        Reach::Messages => packets::get(access, op(), manner, false),
    }
}

/// Copies the rest that the kernel did not. The owner may be able to: memory of a device, or memory
/// that a handler of the client's provides when it is touched. If not, the owner's fault ends the
/// job. `by_messages` also gets whether the kernel copied a part: then IMMEDIATE cannot refuse any
/// more.
fn rest(
    access: &Access,
    done: usize,
    by_messages: impl FnOnce(&Access, bool) -> Result<Started, Busy>,
) -> Result<Started, Busy> {
    if done == access.bytes {
        return Ok(Started::Complete);
    }
    by_messages(&access.after(done), done > 0)
}
