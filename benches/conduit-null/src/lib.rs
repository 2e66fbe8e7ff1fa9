//! conduit-null: a network that takes no time, to measure the runtime's own (`benches/null.c`).
//!
//! Nothing leaves the process. A put or get moves nothing and completes at the next poll of its
//! thread. A packet comes back to its sender at the next poll of its thread, as if its peer had sent
//! it. Threads share nothing, so what they share is the runtime's.
#![forbid(unsafe_code)]

use gasnet_conduit::{
    Busy, Class, Completion, Conduit, ConduitError, Cookie, Get, Identity, JobRank, Limits, LocalCompletion,
    LocalSegment, PollScope, Put, Registration, RemoteSegment, Rma, SegmentMemory, Segments, StartInfo, Upcalls,
};
use std::cell::RefCell;

/// Bytes of the largest packet.
const PACKET: usize = 1024;
/// Operations and packets of a thread between two polls.
const DEPTH: usize = 256;

/// A packet on its way back, with its length.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Slot([u8; PACKET]);

/// What a thread has started and not yet polled for.
struct Queue {
    completions: Vec<Cookie>,
    packets: Vec<(JobRank, Class, usize)>,
    slots: Vec<Slot>,
}

thread_local! {
    static QUEUE: RefCell<Queue> = RefCell::new(Queue {
        completions: Vec::with_capacity(DEPTH),
        packets: Vec::with_capacity(DEPTH),
        slots: vec![Slot([0; PACKET]); DEPTH],
    });
}

/// The conduit.
pub struct Null;

fn complete_later(cookie: Cookie) -> Result<(), Busy> {
    QUEUE.with_borrow_mut(|queue| {
        if queue.completions.len() == DEPTH {
            return Err(Busy);
        }
        queue.completions.push(cookie);
        Ok(())
    })
}

impl Conduit for Null {
    fn identity(&self) -> Identity {
        Identity {
            name: "null",
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: PACKET,
            max_ranks: 2,
            requests_per_poll: 1,
        }
    }

    fn start(&self, _: &StartInfo<'_>) -> Result<(), ConduitError> {
        Ok(())
    }

    fn reaches_other_hosts(&self) -> bool {
        false
    }

    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        QUEUE.with_borrow_mut(|queue| {
            let index = queue.packets.len();
            if index == DEPTH {
                return Err(Busy);
            }
            let mut bytes = 0;
            for part in parts {
                queue.slots[index].0[bytes..bytes + part.len()].copy_from_slice(part);
                bytes += part.len();
            }
            queue.packets.push((peer, class, bytes));
            Ok(())
        })
    }

    fn poll(&self, _: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let mut found = 0;
        while let Some(cookie) = QUEUE.with_borrow_mut(|queue| queue.completions.pop()) {
            upcalls.done(cookie, Completion::Remote);
            found += 1;
        }
        let next = || {
            QUEUE.with_borrow_mut(|queue| {
                let packet = queue.packets.pop()?;
                Some((packet, queue.slots[queue.packets.len()]))
            })
        };
        while let Some(((source, class, bytes), mut slot)) = next() {
            upcalls.packet(source, class, &mut slot.0[..bytes]);
            found += 1;
        }
        found
    }

    fn stop(&self) {}

    fn segments(&self) -> Option<&dyn Segments> {
        Some(self)
    }

    fn rma(&self) -> Option<&dyn Rma> {
        Some(self)
    }
}

impl Segments for Null {
    fn register(&self, _: &SegmentMemory) -> Result<Registration, ConduitError> {
        Ok(Registration {
            segment: LocalSegment(0),
            key: Vec::new(),
        })
    }

    fn deregister(&self, _: LocalSegment) {}

    fn learn(&self, _: JobRank, _: &SegmentMemory, _: &[u8]) -> Result<RemoteSegment, ConduitError> {
        Ok(RemoteSegment(0))
    }
}

impl Rma for Null {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        complete_later(put.cookie).map(|()| LocalCompletion::AtReturn)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        complete_later(get.cookie)
    }
}

/// The conduit of a library.
pub static CONDUIT: Null = Null;
