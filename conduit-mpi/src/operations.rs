//! Sends and receives under way.

use crate::ffi::{Failure, Functions, Handle, Request};
use gasnet_conduit::{Class, JobRank, PollScope};
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

    fn take(&mut self, index: usize) -> T {
        self.requests.remove(index);
        self.values.remove(index).expect("defect: no value of a request")
    }

    /// One that is complete, of all.
    fn any(&mut self, mpi: &Functions<H>) -> Result<Option<T>, Failure> {
        // SAFETY: the caller of `Operations::next` has it for itself.
        let found = unsafe { mpi.test_any(self.requests.make_contiguous()) }?;
        Ok(found.map(|index| self.take(index)))
    }
}

/// A send buffer: a message, header first.
pub type Buffer = Item<(), Mapped>;

/// An operation that is complete.
pub enum Done {
    /// A message of this class, at this address.
    Received(Class, usize),
    /// A send, whose buffer is free.
    Sent(Buffer),
}

/// Those of a process.
pub struct Operations<H> {
    /// Posted receives of requests and replies: the addresses of their buffers.
    receives: [Pending<H, usize>; 2],
    sends: Pending<H, (JobRank, Buffer)>,
    /// Calls of `next` that found nothing.
    misses: u32,
}

/// The oldest operation is tested every time, and all others once in this many times: messages
/// mostly complete in order, and MPICH needs 12 µs to test 1024 (reference/mpi.md).
const ALL_AFTER: u32 = 16;

impl<H: Handle> Operations<H> {
    /// None yet.
    pub fn new() -> Self {
        Self {
            receives: [Pending::new(), Pending::new()],
            sends: Pending::new(),
            misses: 0,
        }
    }

    /// A receive of this class was posted.
    pub fn receiving(&mut self, class: usize, request: Request<H>, address: usize) {
        self.receives[class].push(request, address);
    }

    /// A send was started.
    pub fn sending(&mut self, request: Request<H>, to: JobRank, from: Buffer) {
        self.sends.push(request, (to, from));
    }

    /// Receives of a class that are posted.
    pub fn posted(&self, class: usize) -> usize {
        self.receives[class].values.len()
    }

    /// Whether a send is under way.
    pub fn is_sending(&self) -> bool {
        !self.sends.values.is_empty()
    }

    /// Lets MPI work. Returns an operation that is complete: sends, replies, and requests if they
    /// are in scope. Sends first, since MPI finds the first that is complete: a flood of requests
    /// must not keep the buffers of its replies.
    pub fn next(&mut self, mpi: &Functions<H>, scope: PollScope) -> Result<Option<Done>, Failure> {
        let oldest = |requests: &VecDeque<Request<H>>| requests.front().copied().unwrap_or_else(|| mpi.no_request());
        let [requests, replies] = &mut self.receives;
        let mut heads = [
            oldest(&self.sends.requests),
            oldest(&replies.requests),
            match scope {
                PollScope::All => oldest(&requests.requests),
                PollScope::Replies => mpi.no_request(),
            },
        ];
        // SAFETY: the caller has this for itself.
        Ok(match unsafe { mpi.test_any(&mut heads) }? {
            Some(0) => Some(Done::Sent(self.sends.take(0).1)),
            Some(1) => Some(Done::Received(Class::Reply, replies.take(0))),
            Some(_) => Some(Done::Received(Class::Request, requests.take(0))),
            None => {
                self.misses = self.misses.wrapping_add(1);
                if self.misses % ALL_AFTER != 0 {
                    return Ok(None);
                }
                let found = self.next_of_all(mpi, scope)?;
                // An oldest one that waits for its peer must not hide those after it.
                if found.is_some() {
                    self.misses -= 1;
                }
                found
            }
        })
    }

    fn next_of_all(&mut self, mpi: &Functions<H>, scope: PollScope) -> Result<Option<Done>, Failure> {
        let [requests, replies] = &mut self.receives;
        if let Some((_, buffer)) = self.sends.any(mpi)? {
            return Ok(Some(Done::Sent(buffer)));
        }
        if let Some(address) = replies.any(mpi)? {
            return Ok(Some(Done::Received(Class::Reply, address)));
        }
        if scope == PollScope::Replies {
            return Ok(None);
        }
        Ok(requests
            .any(mpi)?
            .map(|address| Done::Received(Class::Request, address)))
    }
}
