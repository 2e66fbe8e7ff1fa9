//! Actions of the completion of operations.
#![forbid(unsafe_code)]

use crate::buffers::{AsLocal, Buffer};
use crate::receive::offer::Fetched;
use crate::transfers::Transfer;
use gasnet_conduit::{Completion, Cookie, JobRank};

/// The action at the completion of a work request. Of whole words, which are copied faster.
#[derive(Debug)]
#[repr(u64)]
pub enum CompletionAction {
    /// Nothing.
    Nothing,
    /// The buffer is free.
    Buffer(Buffer),
    /// The payload of a gathered message is free, and so is the buffer.
    Gathered(Cookie, Buffer),
    /// A part of a put is reported.
    Put(Cookie, Completion),
    /// A put is reported, and the buffer of its source is free.
    PutCopy(Cookie, Buffer),
    /// A get is reported.
    Get(Cookie),
    /// A get is reported, after its bytes are copied out of the buffer.
    GetCopy(Cookie, Buffer),
    /// Result of an atomic, copied out of the buffer.
    Atomic(Cookie, Buffer),
    /// The next piece of a long operation is posted, or its end reported.
    Part(Box<Transfer>),
    /// A packet was read from its sender's memory.
    Fetched(Box<Fetched>),
    /// The peer has followed this queue pair (peer, path) to its other path.
    Probe(JobRank, usize),
}

impl CompletionAction {
    /// Does what needs nothing else: reports a part of an operation, copies out of a buffer,
    /// releases it. Returns the action if there is more to do.
    #[inline(always)]
    pub fn settle(self, mut report: impl FnMut(Cookie, Completion)) -> Option<Self> {
        match self {
            Self::Nothing => {}
            Self::Put(cookie, part) => report(cookie, part),
            Self::Get(cookie) => report(cookie, Completion::Both),
            Self::Buffer(buffer) => buffer.release(),
            Self::Gathered(cookie, buffer) => {
                buffer.release();
                report(cookie, Completion::Source);
            }
            Self::PutCopy(cookie, buffer) => {
                buffer.release();
                report(cookie, Completion::Remote);
            }
            Self::GetCopy(cookie, buffer) | Self::Atomic(cookie, buffer) => {
                buffer.copy_out();
                buffer.release();
                report(cookie, Completion::Both);
            }
            other @ (Self::Part(_) | Self::Fetched(_) | Self::Probe(..)) => return Some(other),
        }
        None
    }

    /// The work request is not posted: its buffer is free.
    pub fn release(self) {
        if let Self::Buffer(buffer)
        | Self::Gathered(_, buffer)
        | Self::PutCopy(_, buffer)
        | Self::GetCopy(_, buffer)
        | Self::Atomic(_, buffer) = self
        {
            buffer.release();
        } else if let Self::Fetched(fetched) = self {
            fetched.buffer.release();
        }
    }

    /// Name of the work request in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nothing | Self::Buffer(_) | Self::Gathered(..) | Self::Probe(..) => "sending a message",
            Self::Put(..) | Self::PutCopy(..) => "a put",
            Self::Get(_) | Self::GetCopy(..) => "a get",
            Self::Atomic(..) => "an atomic",
            Self::Part(transfer) => transfer.name(),
            Self::Fetched(_) => "fetching a message",
        }
    }
}
