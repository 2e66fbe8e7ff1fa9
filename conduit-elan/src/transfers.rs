//! Puts and gets of memory that the network does not reach, longer than a buffer: in pieces.

use crate::buffers::{Use, BUFFER};
use crate::net::Net;
use crate::pending::{CompletionAction, Flight};
use crate::send::QueuedMessage;
use gasnet_conduit::{Completion, Cookie, Upcalls};
use gasnet_sys::atomic::{AtomicUsize, Mutex, Ordering};
use gasnet_sys::lock;
use std::collections::VecDeque;
use std::sync::Arc;

/// Which way the data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Put,
    Get,
}

/// A transfer under way.
#[derive(Debug)]
pub struct Transfer {
    pub way: Direction,
    /// What its buffers are for.
    pub purpose: Use,
    /// Address here, network address there, length, and the other process.
    pub local: usize,
    pub remote: u64,
    pub bytes: usize,
    pub vp: u32,
    pub cookie: Cookie,
    /// The message that follows a put. Then only local completion is reported.
    pub message: Mutex<Option<QueuedMessage>>,
    /// Bytes that have not arrived.
    pub missing: AtomicUsize,
}

/// Transfers with where the next piece begins.
type Line = VecDeque<(Arc<Transfer>, usize)>;

/// Transfers that have not begun all their pieces: payloads of replies, which have buffers of their
/// own, and others.
#[derive(Debug, Default)]
pub struct Transfers {
    waiting: Mutex<[Line; 2]>,
    /// How many, so that a poll that finds none takes no lock.
    count: AtomicUsize,
}

impl Net {
    /// Begins a transfer.
    pub fn begin(&self, transfer: Transfer) {
        let mut waiting = lock(&self.transfers.waiting);
        waiting[usize::from(transfer.purpose != Use::Reply)].push_back((Arc::new(transfer), 0));
        self.transfers.count.fetch_add(1, Ordering::Relaxed);
        drop(waiting);
        self.advance_transfers();
    }

    /// Begins pieces while there are buffers and places in channels.
    pub fn advance_transfers(&self) {
        if self.transfers.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Ok(mut waiting) = self.transfers.waiting.try_lock() else {
            return;
        };
        for line in &mut *waiting {
            self.advance_line(line);
        }
    }

    fn advance_line(&self, line: &mut Line) {
        while let Some((transfer, next)) = line.front_mut() {
            let bytes = (transfer.bytes - *next).min(BUFFER);
            if !self.begin_piece(transfer, *next, bytes) {
                break;
            }
            *next += bytes;
            if *next == transfer.bytes {
                line.pop_front();
                self.transfers.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn begin_piece(&self, transfer: &Arc<Transfer>, start: usize, bytes: usize) -> bool {
        let Some(mut buffer) = self.buffers.take(transfer.purpose) else {
            return false;
        };
        let remote = transfer.remote + start as u64;
        let (event, channel) = match transfer.way {
            Direction::Put => {
                let Some((slot, number)) = self.take_channel() else {
                    self.buffers.give(buffer);
                    return false;
                };
                // SAFETY: the source, which the runtime keeps until local completion.
                let source = unsafe { std::slice::from_raw_parts((transfer.local + start) as *const u8, bytes) };
                buffer.prefix(bytes).copy_from_slice(source);
                // SAFETY: the buffer is kept until completion.
                let event = unsafe { self.shim.put(&slot, buffer.address(), remote, bytes, transfer.vp) };
                slot.keep();
                (event, Some(number))
            }
            // SAFETY: as above.
            Direction::Get => (
                unsafe { self.shim.get(remote, buffer.address(), bytes, transfer.vp) },
                None,
            ),
        };
        self.flights.add(Flight {
            event,
            channel,
            done: CompletionAction::Piece(Arc::clone(transfer), buffer, (start, bytes)),
        });
        true
    }

    /// A piece is complete; maybe all are.
    pub fn end_piece(
        &self,
        transfer: &Transfer,
        (start, bytes): (usize, usize),
        from: &[u8],
        upcalls: &mut dyn Upcalls,
    ) {
        if transfer.way == Direction::Get {
            // SAFETY: the destination, which the runtime keeps until completion.
            unsafe { ((transfer.local + start) as *mut u8).copy_from_nonoverlapping(from.as_ptr(), bytes) };
        }
        if transfer.missing.fetch_sub(bytes, Ordering::AcqRel) != bytes {
            return;
        }
        self.end_operation();
        let message = lock(&transfer.message).take();
        match message {
            Some(message) => {
                self.send_queued(message);
                upcalls.done(transfer.cookie, Completion::Source);
            }
            None => upcalls.done(transfer.cookie, Completion::Both),
        }
    }
}
