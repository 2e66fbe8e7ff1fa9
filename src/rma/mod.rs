//! Remote memory access (GASNet-EX 0.19, "Extended API").
//!
//! Memory that is mapped here, on a device of this process, or accessible through the kernel is
//! copied; the operation is complete at return. Other memory is reached by the conduit's own put
//! and get or by packets ([`packets`]); [`Reach`] selects the method. An operation under way is a
//! transfer ([`transfer`]), the only state of the initiator that travels.

pub mod packets;
pub mod transfer;

use crate::event::{Category, Op};
use crate::mk::{self, Kind, MemRef};
use crate::runtime::{self, Runtime};
use crate::segment::reach::Reach;
use crate::stall::Reason;
use crate::types::Location;
use crate::wait;
use gasnet_conduit::{Busy, JobRank, LocalCompletion, PollScope, RemoteSegment};

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
    pub device: Option<&'static Kind>,
    /// Length.
    pub bytes: usize,
}

/// How the initiation call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Fail instead of waiting (`GEX_FLAG_IMMEDIATE`).
    pub immediate: bool,
    /// The source may be reused at return (`GEX_EVENT_NOW`).
    pub source_now: bool,
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
    /// What is left after the first `done` bytes.
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

    /// The way to the remote side, which the local side can take.
    #[inline]
    fn reach<'a>(&self, rt: &'a Runtime) -> Reach<'a> {
        match rt.reach(self.peer, self.remote, self.bytes) {
            Reach::Kernel(_) if self.device.is_some() => Reach::Messages,
            Reach::Network(_) if self.device.is_some() && !rt.conduit_reaches_devices() => Reach::Messages,
            way => way,
        }
    }
}

/// Copies local memory to a peer's. What is under way is counted in `op`, called only then.
#[inline(always)]
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
            rest(access, done, |rest| packets::put(rest, op(), manner))
        }
        Reach::Network(segment) => native_put(rt, access, &segment, op(), manner),
        Reach::Messages => packets::put(access, op(), manner),
    }
}

/// Copies a peer's memory to local memory.
#[inline(always)]
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
            rest(access, done, |rest| packets::get(rest, op(), manner))
        }
        Reach::Network(segment) => native_get(rt, access, &segment, op(), manner),
        Reach::Messages => packets::get(access, op(), manner),
    }
}

/// What the kernel did not copy. Its owner may be able to: memory of a device, or memory that a
/// handler of the client's provides when it is touched. If not, the owner's fault ends the job.
fn rest(
    access: &Access,
    done: usize,
    by_messages: impl FnOnce(&Access) -> Result<Started, Busy>,
) -> Result<Started, Busy> {
    if done == access.bytes {
        return Ok(Started::Complete);
    }
    by_messages(&access.after(done))
}

/// Tries until the conduit takes it, or once.
fn inject<T>(peer: JobRank, manner: Manner, mut attempt: impl FnMut() -> Result<T, Busy>) -> Result<T, Busy> {
    let first = attempt();
    if first.is_ok() || manner.immediate {
        return first;
    }
    Ok(wait::until_some(PollScope::All, Reason::Conduit(peer), || {
        attempt().ok()
    }))
}

fn native_put(
    rt: &Runtime,
    access: &Access,
    segment: &RemoteSegment,
    op: &'static Op,
    manner: Manner,
) -> Result<Started, Busy> {
    let id = transfer::begin(op, Category::Put, access.peer.rank, access.local, access.bytes);
    let source = if manner.copy {
        // SAFETY: the client answers for the local side.
        let copy = unsafe { std::slice::from_raw_parts(access.local.cast_const(), access.bytes) }.to_vec();
        transfer::keep(id, copy)
    } else {
        access.local.cast_const()
    };
    let result = inject(access.peer.rank, manner, || {
        let peer = access.peer.rank;
        if manner.source_now {
            rt.conduit()
                .put_now(peer, segment, access.remote, source, access.bytes, id)
        } else {
            rt.conduit().put(peer, segment, access.remote, source, access.bytes, id)
        }
    });
    match result {
        Err(Busy) => {
            transfer::cancel(id);
            Err(Busy)
        }
        Ok(completion) if manner.copy || completion == LocalCompletion::AtReturn => {
            transfer::source_done(id);
            Ok(Started::UnderWay)
        }
        Ok(_) => {
            if manner.source_now {
                // An IMMEDIATE put has found its resources; what is left is the wire.
                wait::until(Reason::Source(access.peer.rank), || transfer::source_is_free(id));
            }
            Ok(Started::UnderWay)
        }
    }
}

fn native_get(
    rt: &Runtime,
    access: &Access,
    segment: &RemoteSegment,
    op: &'static Op,
    manner: Manner,
) -> Result<Started, Busy> {
    let id = transfer::begin(op, Category::Get, access.peer.rank, access.local, access.bytes);
    let result = inject(access.peer.rank, manner, || {
        rt.conduit()
            .get(access.peer.rank, segment, access.local, access.remote, access.bytes, id)
    });
    if result.is_err() {
        transfer::cancel(id);
    }
    result.map(|()| Started::UnderWay)
}
