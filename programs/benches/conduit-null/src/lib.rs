//! conduit-null: a network that takes no time, to measure the runtime's own
//! (`programs/benches/null.c`).
//!
//! Nothing leaves the process. A put, get or atomic moves nothing and completes at the next poll of
//! its thread. A packet comes back to its sender at the next poll of its thread, as if its peer had
//! sent it. Threads share nothing, so what they share is the runtime's.
#![forbid(unsafe_code)]

use gasnet_conduit::{
    Abilities, Atomic, Atomics, Busy, Class, Completion, Conduit, ConduitError, Cookie, Get, Identity, JobRank, Limits,
    LocalCompletion, LocalSegment, Network, PollScope, Put, Reach, Registration, RemoteSegment, Rma, SegmentMemory,
    Segments, StartInfo, Stop, Upcalls,
};
use std::cell::RefCell;

/// Bytes of the largest packet.
const PACKET: usize = 1024;
/// Operations and packets of a thread between two polls.
const DEPTH: usize = 256;

/// Room for a packet.
#[repr(align(16))]
struct Buffer([u8; PACKET]);

/// A packet on its way back.
struct Packet {
    source: JobRank,
    class: Class,
    bytes: usize,
    buffer: Box<Buffer>,
}

/// What a thread has started and not yet polled for.
struct Queue {
    completions: Vec<Cookie>,
    packets: Vec<Packet>,
    // Moved between the lists by pointer.
    #[allow(clippy::vec_box)]
    free: Vec<Box<Buffer>>,
}

thread_local! {
    static QUEUE: RefCell<Queue> = RefCell::new(Queue {
        completions: Vec::with_capacity(DEPTH),
        packets: Vec::with_capacity(DEPTH),
        free: std::iter::repeat_with(|| Box::new(Buffer([0; PACKET]))).take(DEPTH).collect(),
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
            reach: Reach::Host,
            takes_count: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: PACKET,
            max_ranks: 2,
            requests_per_poll: 1,
        }
    }

    fn start(&self, _: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        Ok(Box::new(Null))
    }
}

impl Network for Null {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        QUEUE.with_borrow_mut(|queue| {
            let mut buffer = queue.free.pop().ok_or(Busy)?;
            let mut bytes = 0;
            for part in parts {
                buffer.0[bytes..bytes + part.len()].copy_from_slice(part);
                bytes += part.len();
            }
            queue.packets.push(Packet {
                source: peer,
                class,
                bytes,
                buffer,
            });
            Ok(())
        })
    }

    fn poll(&self, _: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let mut found = 0;
        while let Some(cookie) = QUEUE.with_borrow_mut(|queue| queue.completions.pop()) {
            upcalls.done(cookie, Completion::Remote);
            found += 1;
        }
        while let Some(mut packet) = QUEUE.with_borrow_mut(|queue| queue.packets.pop()) {
            upcalls.packet(packet.source, packet.class, &mut packet.buffer.0[..packet.bytes]);
            QUEUE.with_borrow_mut(|queue| queue.free.push(packet.buffer));
            found += 1;
        }
        found
    }

    fn stop(&self, _: Stop) {}

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            segments: Some(self),
            rma: Some(self),
            atomics: Some(self),
            ..Abilities::default()
        }
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

impl Atomics for Null {
    fn supports(&self, _: u32, _: u32) -> bool {
        true
    }

    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        complete_later(atomic.cookie)
    }
}

/// The conduit of a library.
pub static CONDUIT: Null = Null;
