//! Parsers of messages of other ranks, for a fuzzer ([`gasnet_conduit::conformance::fuzz`]).

use crate::am::segment_head::Head;
use crate::am::table::INDEX_BASE;
use crate::am::wire::{payload, shape, Carrier, Payload};
use crate::am::{payload_offset, Header, HEADER, IN_PLACE};
use crate::segment::published;
use crate::shm::memory::{ring_bytes, RingMemory, UNIT};
use crate::shm::ring::{Consumer, SKIP};
use crate::types::{AmCategory, MAX_ARGS};
use crate::vis::records;
use gasnet_conduit::conformance::fuzz::{number, Target};

mod sequences;

/// All of them.
pub const TARGETS: &[Target] = &[
    ("ad-request", sequences::atomics),
    ("am-head", head),
    ("am-longs", sequences::longs),
    ("am-medium", sequences::medium),
    ("am-message", message),
    ("am-ring", ring),
    ("coll-p2p", sequences::p2p),
    ("rma-answers", sequences::answers),
    ("segment-published", segments),
    ("vis-peers", sequences::vis_peers),
    ("vis-runs", runs),
];

/// Reads exactly what `Delivery` reads of a message, from a slice of exactly `length` bytes:
/// out of bounds would panic.
pub fn read_all(carrier: Carrier, kind: u8, small: u8, header: &Header, bytes: &[u8]) -> bool {
    let Ok((category, nargs)) = shape(kind, small, bytes.len()) else {
        return false;
    };
    let (head, rest) = bytes.split_at(HEADER);
    assert!(head.len() == HEADER && rest[..4 * nargs].len() == 4 * nargs && nargs <= MAX_ARGS);
    match payload(carrier, kind, nargs, header, bytes.len()) {
        Err(_) => return false,
        Ok(Payload::InPlace) => {
            let payload = &bytes[payload_offset(nargs)..][..header.bytes as usize];
            assert_eq!(payload.len(), header.bytes as usize);
            assert!(category != AmCategory::Short && payload_offset(nargs) % 16 == 0);
        }
        Ok(Payload::Block(block)) => {
            assert!(carrier == Carrier::Record && category != AmCategory::Short && block != IN_PLACE);
        }
        Ok(Payload::None) => {
            assert!(category != AmCategory::Medium && (category == AmCategory::Long || header.bytes == 0));
        }
    }
    assert!(category != AmCategory::Long || header.handler >= INDEX_BASE);
    true
}

/// A message in a packet or a record.
fn message(mut bytes: &[u8]) {
    let carrier = [Carrier::Packet, Carrier::Record][number(&mut bytes, 1) as usize % 2];
    let mut rest = bytes;
    let mut field = |bytes| number(&mut rest, bytes);
    let header = Header {
        word: field(4) as u32,
        handler: field(1) as u8,
        flags: field(1) as u8,
        target_ep: field(2) as u16,
        bytes: field(4) as u32,
        source_ep: field(2) as u16,
        block: field(2) as u16,
        destination: field(8),
    };
    read_all(carrier, header.word as u8, (header.word >> 8) as u8, &header, bytes);
}

/// The head of a Long that comes in several messages.
fn head(bytes: &[u8]) {
    if let Some(head) = Head::decode(bytes.as_ptr(), bytes.len()) {
        assert_eq!(bytes.len(), HEADER + 4 * head.header.nargs());
    }
}

/// A ring that its sender fills with anything.
fn ring(mut bytes: &[u8]) {
    const UNITS: usize = 16;
    #[repr(C, align(64))]
    struct Memory([u8; ring_bytes(UNITS)]);
    let mut memory = Memory([0; ring_bytes(UNITS)]);
    // SAFETY: aligned, as long, and on this stack.
    let ring = unsafe { RingMemory::new(memory.0.as_mut_ptr(), UNITS) };
    let mut consumer = Consumer::new(ring);
    while !bytes.is_empty() {
        let (unit, word) = (number(&mut bytes, 1) as usize % UNITS, number(&mut bytes, 4) as u32);
        ring.first_word(unit).store(word, std::sync::atomic::Ordering::Relaxed);
        for _ in 0..UNITS {
            let Ok(Some((word, record))) = consumer.peek() else {
                break;
            };
            let end = record as usize + usize::from(word.units) * UNIT;
            assert!(word.kind != SKIP && word.units > 0);
            assert!(end <= std::ptr::from_ref(&memory) as usize + ring_bytes(UNITS));
            consumer.advance(word.units);
        }
    }
}

/// Segments that another rank publishes.
fn segments(mut bytes: &[u8]) {
    let announced: Vec<u64> = bytes.chunks_exact(8).map(|mut bytes| number(&mut bytes, 8)).collect();
    if let Ok(lengths) = published::lengths(&announced) {
        assert!(lengths.iter().all(|&bytes| bytes <= 1 << 24));
    }
    while !bytes.is_empty() {
        let before = bytes;
        let Some((ep, memory, key)) = published::decode(&mut bytes) else {
            return;
        };
        let _ = memory.base + memory.bytes;
        let encoded = published::encode(ep, &memory, key);
        assert_eq!(encoded.len(), before.len() - bytes.len());
    }
}

/// The target's pieces of a VIS operation.
fn runs(bytes: &[u8]) {
    let Some((runs, data)) = records::read(bytes) else {
        return;
    };
    let mut sum = 0;
    for run in &runs {
        let (low, length) = run.extent();
        // The first and the last piece lie in what is checked against the segment.
        for index in [0, run.count - 1] {
            let piece = run.address as i128 + index as i128 * run.step as i128;
            let is_inside = piece >= low as i128 && piece + run.bytes as i128 <= low as i128 + length as i128;
            assert!(length == usize::MAX || is_inside, "{run:?}");
        }
        sum += run.bytes * run.count;
    }
    assert_eq!(sum, data);
}

#[cfg(test)]
mod tests {
    #[test]
    fn parsers_take_any_bytes() {
        gasnet_conduit::conformance::fuzz::replay(super::TARGETS);
    }
}
