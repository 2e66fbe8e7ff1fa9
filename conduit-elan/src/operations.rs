//! Operations under way: events of puts, gets and long messages, and the actions of their
//! completion. Events report it only when they are polled.
#![forbid(unsafe_code)]

use crate::buffers::Buffer;
use crate::ffi::{Event, Port, Shim};
use crate::transfers::Transfer;
use crate::wire::QueuedMessage;
use gasnet_conduit::{Completion, Cookie, JobRank};
use gasnet_conduit_util::fixed_vec::FixedVec;
use gasnet_sys::atomic::{AtomicU32, Mutex, Ordering};
use gasnet_sys::lock;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Events that a poll asks.
const ASKED: usize = 16;

/// Action of the completion of an operation.
#[derive(Debug)]
pub enum CompletionAction {
    /// A long message has left its buffer.
    Sent(Buffer),
    /// The counts of this peer were read.
    Counts(JobRank),
    /// A put, from a buffer if its source was copied.
    Put(Cookie, Completion, Option<Buffer>),
    /// The payload of a Long has arrived: its message follows. The source is reported as free if
    /// it was in use, or it is this buffer.
    Payload(Box<QueuedMessage>, Option<Cookie>, Option<Buffer>),
    /// A get, into a buffer if its destination, with this address and length, is not addressable.
    Get(Cookie, Option<(Buffer, usize, usize)>),
    /// A piece of a longer transfer, in a buffer.
    Piece(Arc<Transfer>, Buffer, Range<usize>),
}

/// Something under way.
#[derive(Debug)]
pub struct PendingOperation {
    pub event: Event,
    /// The number of the channel whose place a put has.
    pub channel: Option<usize>,
    pub done: CompletionAction,
}

/// Operations that are complete.
pub type Reaped = FixedVec<(Option<usize>, CompletionAction), ASKED>;

/// All that is under way.
#[derive(Debug, Default)]
pub struct PendingOperations {
    all: Mutex<VecDeque<PendingOperation>>,
    /// Number of them, so that a poll that finds none takes no lock.
    count: AtomicU32,
}

impl PendingOperations {
    /// Adds one.
    #[inline]
    pub fn add(&self, operation: PendingOperation) {
        let mut all = lock(&self.all);
        all.push_back(operation);
        self.count.store(all.len() as u32, Ordering::Relaxed);
    }

    /// Asks some events, the oldest first, and takes what is complete. Nothing if another thread
    /// does.
    pub fn reap(&self, shim: &Shim, port: &Port) -> Reaped {
        let mut reaped = Reaped::new();
        if self.count.load(Ordering::Relaxed) == 0 {
            return reaped;
        }
        let Ok(mut all) = self.all.try_lock() else {
            return reaped;
        };
        for _ in 0..all.len().min(ASKED) {
            let Some(PendingOperation { event, channel, done }) = all.pop_front() else {
                break;
            };
            let state = match done {
                CompletionAction::Sent(_) => shim.port_sent(port, event),
                _ => shim.poll(event),
            };
            match state {
                Ok(()) => reaped.push((channel, done)),
                Err(event) => all.push_back(PendingOperation { event, channel, done }),
            }
        }
        self.count.store(all.len() as u32, Ordering::Relaxed);
        reaped
    }
}
