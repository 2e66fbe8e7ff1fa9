//! Sends and receives under way.

use crate::ffi::{Failure, Functions, Handle, Request};
use gasnet_conduit::{Completion, Cookie, JobRank};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::pool::Item;
use std::collections::VecDeque;

/// Requests of MPI, oldest first, and what each is for.
struct Pending<H, T> {
    requests: VecDeque<Request<H>>,
    values: VecDeque<T>,
}

impl<H: Handle, T> Pending<H, T> {
    fn new() -> Self {
        Self {
            requests: VecDeque::new(),
            values: VecDeque::new(),
        }
    }

    fn push(&mut self, request: Request<H>, value: T) {
        self.requests.push_back(request);
        self.values.push_back(value);
    }

    /// The oldest, if it is complete.
    #[inline]
    fn oldest(&mut self, mpi: &Functions<H>) -> Result<Option<T>, Failure> {
        let Some(request) = self.requests.front() else {
            return Ok(None);
        };
        // SAFETY: the caller of `Operations::next` has it for itself.
        if unsafe { mpi.test(*request) }?.is_some() {
            return Ok(None);
        }
        self.requests.pop_front();
        Ok(self.values.pop_front())
    }

    /// One that is complete, of the `most` oldest.
    fn any(&mut self, mpi: &Functions<H>, most: usize) -> Result<Option<T>, Failure> {
        let requests = self.requests.make_contiguous();
        let count = requests.len().min(most);
        // SAFETY: the caller of `Operations::next` has it for itself.
        let found = unsafe { mpi.test_any(&mut requests[..count]) }?;
        Ok(found.map(|index| {
            self.requests.remove(index);
            self.values.remove(index).expect("defect: no value of a request")
        }))
    }
}

/// A send buffer: a message, header first.
pub type Buffer = Item<(), Mapped>;

/// A put or get with a request.
pub struct Transfer {
    pub peer: JobRank,
    pub cookie: Cookie,
    pub kind: TransferKind,
}

/// Meaning of a request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// The source of a put is free.
    Put,
    /// A get is there.
    Get,
}

/// An operation that a flush of its peer completes.
pub struct Unflushed {
    pub peer: JobRank,
    pub cookie: Cookie,
    /// Part of it that is complete then.
    pub part: Completion,
}

/// An operation that is complete.
pub enum Done {
    /// A put or get, except for the flush that it may need.
    Transferred(Transfer),
    /// A message, in this buffer.
    Received(Buffer),
    /// A send, whose buffer is free.
    Sent(Buffer),
}

/// Those of a process.
pub struct Operations<H> {
    /// Posted receives.
    receives: Pending<H, Buffer>,
    sends: Pending<H, (JobRank, Buffer)>,
    transfers: Pending<H, Transfer>,
    /// Operations that wait for a flush, which the next poll calls.
    pub unflushed: Vec<Unflushed>,
    /// Buffers in which receives are to be posted.
    vacant: Vec<Buffer>,
    /// Calls of `next` that found nothing.
    misses: u32,
}

/// The oldest operations are tested every time. A message on its way to the oldest receive may be
/// long, or its sender slow: so more are tested once in this many times, the more the more seldom,
/// and all at last. MPICH needs 3 µs to test 256, and 0.1 to test 2 (reference/mpi.md).
const MORE_AFTER: [(u32, usize); 3] = [(4096, usize::MAX), (256, 32), (16, 4)];

impl<H: Handle> Operations<H> {
    /// None yet.
    pub fn new() -> Self {
        Self {
            receives: Pending::new(),
            sends: Pending::new(),
            transfers: Pending::new(),
            unflushed: Vec::new(),
            vacant: Vec::new(),
            misses: 0,
        }
    }

    /// A receive was posted.
    #[inline]
    pub fn receiving(&mut self, request: Request<H>, into: Buffer) {
        self.receives.push(request, into);
    }

    /// A send was started.
    pub fn sending(&mut self, request: Request<H>, to: JobRank, from: Buffer) {
        self.sends.push(request, (to, from));
    }

    /// A put or get was started.
    pub fn transferring(&mut self, request: Request<H>, transfer: Transfer) {
        self.transfers.push(request, transfer);
    }

    /// The message in a buffer was delivered.
    #[inline]
    pub fn vacate(&mut self, buffer: Buffer) {
        self.vacant.push(buffer);
    }

    /// A buffer in which a receive is to be posted.
    #[inline]
    pub fn take_vacant(&mut self) -> Option<Buffer> {
        self.vacant.pop()
    }

    /// Receives that are posted.
    pub fn posted(&self) -> usize {
        self.receives.values.len()
    }

    /// Whether a send is under way.
    pub fn is_sending(&self) -> bool {
        !self.sends.values.is_empty()
    }

    /// Lets MPI work. Returns an operation that is complete: sends first, for a flood of messages
    /// must not keep the buffers of replies to them.
    #[inline]
    pub fn next(&mut self, mpi: &Functions<H>) -> Result<Option<Done>, Failure> {
        if let Some((_, buffer)) = self.sends.oldest(mpi)? {
            return Ok(Some(Done::Sent(buffer)));
        }
        if let Some(transfer) = self.transfers.oldest(mpi)? {
            return Ok(Some(Done::Transferred(transfer)));
        }
        // Open MPI's MPI_Testany does not look again after it has worked; MPI_Test does.
        if let Some(buffer) = self.receives.oldest(mpi)? {
            return Ok(Some(Done::Received(buffer)));
        }
        self.misses = self.misses.wrapping_add(1);
        match MORE_AFTER.iter().find(|(times, _)| self.misses % times == 0) {
            Some((_, most)) => self.next_of(*most, mpi),
            None => Ok(None),
        }
    }

    /// The same, among this many of each kind.
    #[cold]
    fn next_of(&mut self, most: usize, mpi: &Functions<H>) -> Result<Option<Done>, Failure> {
        let mut found = self.sends.any(mpi, most)?.map(|(_, buffer)| Done::Sent(buffer));
        if found.is_none() {
            found = self.transfers.any(mpi, most)?.map(Done::Transferred);
        }
        if found.is_none() {
            found = self.receives.any(mpi, most)?.map(Done::Received);
        }
        // An oldest one that waits for its peer must not hide those after it.
        if found.is_some() {
            self.misses = self.misses.wrapping_sub(1);
        }
        Ok(found)
    }
}
