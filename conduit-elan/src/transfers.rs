//! Puts and gets of memory that the network does not reach, longer than a buffer: in pieces.

use crate::buffers::{Use, BUFFER};
use crate::wire::QueuedMessage;
use gasnet_conduit::{Completion, Cookie};
use gasnet_sys::atomic::{AtomicUsize, Mutex, Ordering};
use gasnet_sys::lock;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Put,
    Get,
}

/// A put or a get of a client.
#[derive(Debug)]
pub struct Operation {
    pub direction: Direction,
    /// Purpose of its buffers.
    pub purpose: Use,
    /// Address here, network address there, length, and the other process.
    pub local: usize,
    pub remote: u64,
    pub bytes: usize,
    pub vp: u32,
    pub cookie: Cookie,
}

/// A transfer under way.
#[derive(Debug)]
pub struct Transfer {
    pub operation: Operation,
    /// The message that follows a put. Then only local completion is reported.
    message: Mutex<Option<QueuedMessage>>,
    /// Bytes that have not arrived.
    missing: AtomicUsize,
}

/// A transfer is complete: its report, and the message that follows.
pub struct Ended {
    pub cookie: Cookie,
    pub part: Completion,
    pub message: Option<QueuedMessage>,
}

impl Transfer {
    /// A transfer, and the message that follows a put.
    pub fn new(operation: Operation, message: Option<QueuedMessage>) -> Self {
        Self {
            missing: AtomicUsize::new(operation.bytes),
            message: Mutex::new(message),
            operation,
        }
    }

    /// A piece is complete, with these bytes. Maybe all are.
    pub fn end_piece(&self, piece: Range<usize>, bytes: &[u8]) -> Option<Ended> {
        let Operation {
            direction,
            local,
            cookie,
            ..
        } = self.operation;
        if direction == Direction::Get {
            let to = (local + piece.start) as *mut u8;
            // SAFETY: the destination, which the runtime keeps until completion.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), piece.len()) };
        }
        if self.missing.fetch_sub(piece.len(), Ordering::AcqRel) != piece.len() {
            return None;
        }
        let message = lock(&self.message).take();
        let part = match message {
            Some(_) => Completion::Source,
            None => Completion::Both,
        };
        Some(Ended { cookie, part, message })
    }
}

/// Transfers, each with the begin of its next piece.
type Line = VecDeque<(Arc<Transfer>, usize)>;

/// Transfers that have not begun all their pieces: payloads of replies, which have buffers of their
/// own, and others.
#[derive(Debug, Default)]
pub struct Transfers {
    waiting: Mutex<[Line; 2]>,
    /// Number of them, so that a poll that finds none takes no lock.
    count: AtomicUsize,
}

impl Transfers {
    /// Adds a transfer.
    pub fn add(&self, transfer: Transfer) {
        let line = usize::from(transfer.operation.purpose != Use::Reply);
        let mut waiting = lock(&self.waiting);
        waiting[line].push_back((Arc::new(transfer), 0));
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins pieces as long as `begin` can. Nothing if another thread does.
    pub fn advance(&self, mut begin: impl FnMut(&Arc<Transfer>, Range<usize>) -> bool) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Ok(mut waiting) = self.waiting.try_lock() else {
            return;
        };
        for line in &mut *waiting {
            while let Some((transfer, next)) = line.front_mut() {
                let all = transfer.operation.bytes;
                let end = all.min(*next + BUFFER);
                if !begin(transfer, *next..end) {
                    break;
                }
                *next = end;
                if end == all {
                    line.pop_front();
                    self.count.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }
}
