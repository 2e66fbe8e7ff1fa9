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

    #[inline]
    fn oldest(&self, mpi: &Functions<H>) -> Request<H> {
        self.requests.front().copied().unwrap_or_else(|| mpi.no_request())
    }

    #[inline]
    fn take_oldest(&mut self) -> T {
        self.requests.pop_front();
        self.values.pop_front().expect("defect: no value of a request")
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
    /// Buffers in which receives are to be posted.
    vacant: Vec<(Class, usize)>,
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
            receives: [Pending::new(), Pending::new()],
            sends: Pending::new(),
            vacant: Vec::new(),
            misses: 0,
        }
    }

    /// A receive of this class was posted.
    #[inline]
    pub fn receiving(&mut self, class: usize, request: Request<H>, address: usize) {
        self.receives[class].push(request, address);
    }

    /// A send was started.
    pub fn sending(&mut self, request: Request<H>, to: JobRank, from: Buffer) {
        self.sends.push(request, (to, from));
    }

    /// The message at an address was delivered.
    #[inline]
    pub fn vacate(&mut self, class: Class, address: usize) {
        self.vacant.push((class, address));
    }

    /// A buffer in which a receive is to be posted.
    #[inline]
    pub fn take_vacant(&mut self) -> Option<(Class, usize)> {
        self.vacant.pop()
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
    #[inline]
    pub fn next(&mut self, mpi: &Functions<H>, scope: PollScope) -> Result<Option<Done>, Failure> {
        let [requests, replies] = &mut self.receives;
        let mut heads = [self.sends.oldest(mpi), replies.oldest(mpi), requests.oldest(mpi)];
        let first = usize::from(self.sends.values.is_empty());
        let end = if scope == PollScope::All { 3 } else { 2 };
        // SAFETY: the caller has this for itself.
        Ok(
            match unsafe { mpi.test_any(&mut heads[first..end]) }?.map(|index| first + index) {
                Some(0) => Some(Done::Sent(self.sends.take_oldest().1)),
                Some(1) => Some(Done::Received(Class::Reply, replies.take_oldest())),
                Some(_) => Some(Done::Received(Class::Request, requests.take_oldest())),
                None => {
                    self.misses = self.misses.wrapping_add(1);
                    match MORE_AFTER.iter().find(|(times, _)| self.misses % times == 0) {
                        Some((_, most)) => self.next_of(*most, mpi, scope)?,
                        None => None,
                    }
                }
            },
        )
    }

    /// The same, among this many of each kind.
    #[cold]
    fn next_of(&mut self, most: usize, mpi: &Functions<H>, scope: PollScope) -> Result<Option<Done>, Failure> {
        let [requests, replies] = &mut self.receives;
        let mut found = self.sends.any(mpi, most)?.map(|(_, buffer)| Done::Sent(buffer));
        if found.is_none() {
            let reply = replies.any(mpi, most)?;
            found = reply.map(|address| Done::Received(Class::Reply, address));
        }
        if found.is_none() && scope == PollScope::All {
            let request = requests.any(mpi, most)?;
            found = request.map(|address| Done::Received(Class::Request, address));
        }
        // An oldest one that waits for its peer must not hide those after it.
        if found.is_some() {
            self.misses = self.misses.wrapping_sub(1);
        }
        Ok(found)
    }
}
