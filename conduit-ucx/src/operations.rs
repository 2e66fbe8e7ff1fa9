//! Operations under way, and the pools that they come from.
//!
//! An [`Operation`] is what the context of a call points to, from the call until its completion.
//! Messages, bounced puts and atomics have bytes behind it. UCX reports completions from inside its
//! calls, so they only go to a queue there, which a poll reaps.

use crate::ffi::{Completes, Outcome, Source, Started, Status};
use gasnet_conduit::{Class, Cookie, JobRank};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_conduit_util::pool::{self, Item};
use std::ffi::c_void;
use std::sync::Arc;

/// Sequel of a put that has arrived.
pub enum AfterPut {
    /// The report of its remote completion.
    Report(Cookie),
    /// This message, with the number of bytes of its packet.
    Send(OwnedOperation, usize),
}

/// Kind of an operation.
pub enum Kind {
    /// In a pool, or being filled.
    Idle,
    /// A packet of ours.
    Packet(Class),
    /// A put from the client's memory. The completion of its source is reported.
    Put(Cookie, AfterPut),
    /// A put from a copy: the operation's own bytes, or these.
    CopiedPut(#[expect(dead_code, reason = "UCX reads them")] Vec<u8>),
    /// The flush of puts, after which this follows.
    Flush(Vec<AfterPut>),
    /// A get.
    Get(Cookie),
    /// An atomic. Its old value is copied to an address, if that is not null, from the operation's
    /// own bytes.
    Atomic {
        /// Cookie of its report.
        cookie: Cookie,
        /// To here.
        fetched: usize,
        /// From here.
        result: Source,
    },
}

impl Kind {
    /// Name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Idle => "an operation",
            Self::Packet(Class::Request) => "sending a request",
            Self::Packet(Class::Reply) => "sending a reply",
            Self::Put(..) | Self::CopiedPut(_) => "a put",
            Self::Flush(_) => "flushing puts",
            Self::Get(_) => "a get",
            Self::Atomic { .. } => "an atomic",
        }
    }
}

/// Operations that are complete, or failed, until a poll reaps them.
pub type Reaped = PendingQueue<(OwnedOperation, Result<(), Status>)>;

/// An operation.
pub struct Operation {
    /// Kind of the operation.
    pub kind: Kind,
    /// With whom.
    pub peer: JobRank,
    reaped: Arc<Reaped>,
}

/// An operation that its holder has for itself.
pub struct OwnedOperation(Item<Operation, Mapped>);

impl std::ops::Deref for OwnedOperation {
    type Target = Item<Operation, Mapped>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for OwnedOperation {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Completes for OwnedOperation {
    unsafe fn completed(context: *mut c_void, result: Result<(), Status>) {
        // SAFETY: the caller's: the context of an operation that was given to UCX.
        let held = unsafe { Item::from_head_address(context as usize) }.map(Self);
        match held {
            Some(held) if result.is_ok() && matches!(held.kind, Kind::Packet(_)) => held.release(),
            Some(held) => held.reap(result),
            None => {}
        }
    }
}

impl OwnedOperation {
    /// The context of a call that is made while this is still held.
    pub fn context(&self) -> *mut c_void {
        self.0.head_address() as *mut c_void
    }

    /// Gives it to a client, under the address of its bytes.
    pub fn into_address(self) -> usize {
        self.0.into_address()
    }

    /// Takes it back from a client.
    ///
    /// # Safety
    /// From [`Self::into_address`], once.
    pub unsafe fn from_address(address: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { Item::from_address(address) })
    }

    /// Gives it to UCX if the call with its context is pending. If it is complete already, it is
    /// the caller's still, as is that of a call that failed.
    pub fn started(self, call: Started) -> Result<Option<Self>, (Self, Status)> {
        match call {
            Ok(Outcome::Pending) => {
                self.0.into_head_address();
                Ok(None)
            }
            Ok(Outcome::Done) => Ok(Some(self)),
            Err(why) => Err((self, why)),
        }
    }

    /// Takes what follows a put.
    pub fn take_after(&mut self) -> Option<AfterPut> {
        match std::mem::replace(&mut self.kind, Kind::Idle) {
            Kind::Put(_, after) => Some(after),
            kind => {
                self.kind = kind;
                None
            }
        }
    }

    /// Has a poll reap it.
    pub fn reap(self, result: Result<(), Status>) {
        let reaped = Arc::clone(&self.reaped);
        reaped.push((self, result));
    }

    /// Puts it back into its pool, with the messages that were to follow.
    pub fn release(mut self) {
        match std::mem::replace(&mut self.kind, Kind::Idle) {
            Kind::Put(_, after) => after.release(),
            Kind::Flush(puts) => puts.into_iter().for_each(AfterPut::release),
            _ => {}
        }
        self.0.release();
    }
}

impl AfterPut {
    /// Nothing follows.
    pub fn release(self) {
        if let Self::Send(message, _) = self {
            message.release();
        }
    }
}

/// Operations of one size.
pub struct Pool {
    pool: pool::Pool<Operation, Mapped>,
    reaped: Arc<Reaped>,
}

impl Pool {
    /// Up to `most` operations with `bytes` bytes each.
    pub fn new(bytes: usize, most: usize, reaped: &Arc<Reaped>) -> Self {
        Self {
            pool: pool::Pool::new(bytes, most),
            reaped: Arc::clone(reaped),
        }
    }

    /// Bytes of each.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Takes an operation, or makes more. None if there are as many as there may be, or no memory.
    #[inline]
    pub fn take(&self) -> Option<OwnedOperation> {
        let idle = || Operation {
            kind: Kind::Idle,
            peer: JobRank(0),
            reaped: Arc::clone(&self.reaped),
        };
        self.pool.take_or_make(idle).map(OwnedOperation)
    }
}
