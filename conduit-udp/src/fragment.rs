//! Fragmentation above UDP, for datagrams that vanish on the path. Each fragment is a datagram with
//! the number of the original one, which is acknowledged when all fragments have arrived. A prefix
//! carries those fields of the original header that the fragment's own cannot hold. Kernels
//! fragment IP packets too, but only when they know that the path MTU is smaller.
#![forbid(unsafe_code)]

use crate::mac::Keys;
use crate::packet::Packet;
use crate::sys::{DatagramSlices, SEND_BATCH};
use crate::wire::{Header, ImplicitFields, Kind, ACK_NOW, HEADER_BYTES};
use crate::MAX_PACKET_BYTES;
use std::io::IoSlice;

/// Bytes of payload that every path takes. IPv6 guarantees an MTU of 1280 (RFC 8200, section 5), of
/// which 48 bytes and [`HEADER_BYTES`] are headers.
pub const BASE_PAYLOAD: usize = (1280 - 48) / 64 * 64 - HEADER_BYTES;
/// Bytes of the prefix: the operand and the kind of the original datagram.
pub const FRAGMENT_PREFIX: usize = 9;
/// Bytes of the original payload in each fragment but the last.
pub const FRAGMENT_BYTES: usize = BASE_PAYLOAD - FRAGMENT_PREFIX;

/// Whether a datagram is part of a message, or a fragment of one that is.
pub fn is_message(header: &Header, payload: &[u8]) -> bool {
    match header.kind {
        Kind::Fragment => payload.get(FRAGMENT_PREFIX - 1) == Some(&(Kind::Data as u8)),
        kind => kind == Kind::Data,
    }
}

/// Passes a datagram to `send` in fragments. Returns whether all of them were sent.
pub fn send(
    keys: &Keys,
    header_bytes: &[u8; HEADER_BYTES],
    implicit: &ImplicitFields,
    body: &[u8],
    send: &mut impl FnMut(&[DatagramSlices<'_>]) -> usize,
) -> bool {
    let Some(original) = Header::decode(header_bytes) else {
        return false;
    };
    let parts = body.len().div_ceil(FRAGMENT_BYTES);
    let fragments: Vec<_> = body
        .chunks(FRAGMENT_BYTES)
        .enumerate()
        .map(|(part, bytes)| {
            let payload = [&original.operand().to_le_bytes()[..], &[original.kind as u8], bytes].concat();
            let header = Header {
                kind: Kind::Fragment,
                flags: if part + 1 == parts {
                    original.flags
                } else {
                    original.flags & !ACK_NOW
                },
                message: body.len() as u32,
                part: part as u16,
                parts: parts as u16,
                ..original
            };
            let mut header_bytes = header.encode();
            keys.seal(&mut header_bytes, implicit, keys.digest(&payload));
            (header_bytes, payload)
        })
        .collect();
    fragments.chunks(SEND_BATCH).all(|batch| {
        let batch: Vec<DatagramSlices<'_>> = batch
            .iter()
            .map(|(header_bytes, payload)| [IoSlice::new(header_bytes), IoSlice::new(payload)])
            .collect();
        send(&batch) == batch.len()
    })
}

/// A datagram of which some fragments were received.
#[derive(Debug)]
struct PartialDatagram {
    number: u64,
    header: Header,
    /// Bit i: fragment i was received.
    received: u64,
    parts: u16,
    bytes: Packet,
}

/// The outcome of a fragment.
#[derive(Debug, PartialEq)]
pub enum FragmentOutcome {
    /// Other fragments are missing.
    Incomplete,
    /// It was received before.
    Duplicate,
    /// The datagram is complete.
    Complete(Header, Packet),
    /// The peer is defective.
    Malformed,
}

/// The incomplete datagrams of one class from one peer.
#[derive(Debug, Default)]
pub struct Reassembly {
    partials: Vec<PartialDatagram>,
}

impl Reassembly {
    /// Number of incomplete datagrams.
    #[cfg(any(test, fuzzing))]
    pub fn incomplete(&self) -> usize {
        self.partials.len()
    }

    /// Drops datagrams that are no longer wanted.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.partials.retain(|partial| keep(partial.number));
    }

    /// Accepts a fragment of the datagram `number`, which was not received yet.
    pub fn accept(&mut self, header: &Header, number: u64, payload: &[u8]) -> FragmentOutcome {
        let bytes = header.message as usize;
        let index = usize::from(header.part);
        let Some((original, fragment)) = self.parse(header, number, payload) else {
            return FragmentOutcome::Malformed;
        };
        let at = self
            .partials
            .iter()
            .position(|partial| partial.number == number)
            .unwrap_or_else(|| {
                self.partials.push(PartialDatagram {
                    number,
                    header: original,
                    received: 0,
                    parts: bytes.div_ceil(FRAGMENT_BYTES) as u16,
                    bytes: Packet::new(bytes),
                });
                self.partials.len() - 1
            });
        let partial = &mut self.partials[at];
        if partial.received >> index & 1 != 0 {
            return FragmentOutcome::Duplicate;
        }
        let offset = index * FRAGMENT_BYTES;
        partial.bytes.bytes_mut()[offset..][..fragment.len()].copy_from_slice(fragment);
        partial.received |= 1 << index;
        partial.header.flags |= header.flags & ACK_NOW;
        if partial.received.count_ones() < u32::from(partial.parts) {
            return FragmentOutcome::Incomplete;
        }
        let partial = self.partials.swap_remove(at);
        FragmentOutcome::Complete(partial.header, partial.bytes)
    }

    /// The header of the original datagram, and the bytes of the fragment. `None`: it contradicts
    /// itself or earlier fragments.
    fn parse<'a>(&self, header: &Header, number: u64, payload: &'a [u8]) -> Option<(Header, &'a [u8])> {
        let (prefix, fragment) = payload.split_first_chunk::<FRAGMENT_PREFIX>()?;
        let (bytes, part) = (header.message as usize, usize::from(header.part));
        let remaining = bytes.checked_sub(part * FRAGMENT_BYTES)?;
        let fits = bytes <= MAX_PACKET_BYTES
            && usize::from(header.parts) == bytes.div_ceil(FRAGMENT_BYTES)
            && fragment.len() == remaining.min(FRAGMENT_BYTES);
        let operand = u64::from_le_bytes(std::array::from_fn(|i| prefix[i]));
        let original = header.with_operand(operand).with_kind(prefix[FRAGMENT_PREFIX - 1])?;
        let may_fragment = matches!(original.kind, Kind::Data | Kind::Put | Kind::Get | Kind::GetReply);
        let first = self.partials.iter().find(|partial| partial.number == number);
        let agrees = first.is_none_or(|first| {
            (first.bytes.bytes().len(), first.header.kind, first.header.operand()) == (bytes, original.kind, operand)
        });
        (fits && may_fragment && agrees).then_some((original, fragment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_class::PerClass;
    use gasnet_conduit::{Class, JobRank};

    fn original(kind: Kind) -> Header {
        Header {
            job: 1,
            kind,
            class: Class::Reply,
            flags: crate::wire::ACK_NOW,
            source: JobRank(3),
            number: 77,
            message: 0,
            part: 0,
            parts: 0,
            sacks: PerClass::default(),
        }
        .with_operand(0x0002_0001_0000_1234)
    }

    fn implicit(header: &Header) -> ImplicitFields {
        ImplicitFields {
            target: JobRank(4),
            number: (5 << 32) + u64::from(header.number),
            next: PerClass::default(),
        }
    }

    /// The fragments of a datagram, each within the guaranteed MTU.
    fn fragments_of(header: &Header, body: &[u8]) -> Vec<(Header, Vec<u8>)> {
        let (keys, mut all) = (Keys::new(1, b""), Vec::new());
        let implicit = implicit(header);
        let sent_all = send(&keys, &header.encode(), &implicit, body, &mut |batch| {
            for [header_bytes, payload] in batch {
                assert!(header_bytes.len() + payload.len() + 48 <= 1280);
                let header_bytes = header_bytes[..].try_into().unwrap();
                assert!(keys.verify(header_bytes, &implicit, payload));
                all.push((Header::decode(header_bytes).unwrap(), payload.to_vec()));
            }
            batch.len()
        });
        assert!(sent_all);
        all
    }

    #[test]
    fn fragments_are_reassembled_in_any_order() {
        for (kind, bytes) in [
            (Kind::Data, FRAGMENT_BYTES + 1),
            (Kind::Put, 8896),
            (Kind::GetReply, 65_408),
            (Kind::Put, MAX_PACKET_BYTES),
        ] {
            let body: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 256) as u8).collect();
            let header = original(kind);
            let fragments = fragments_of(&header, &body);
            let count = fragments.len();
            for step in [1, count - 1] {
                let mut reassembly = Reassembly::default();
                for i in 0..count - 1 {
                    let (fragment, payload) = &fragments[i * step % count];
                    for expected in [FragmentOutcome::Incomplete, FragmentOutcome::Duplicate] {
                        assert_eq!(reassembly.accept(fragment, 77, payload), expected);
                    }
                }
                let (fragment, payload) = &fragments[(count - 1) * step % count];
                let FragmentOutcome::Complete(found, packet) = reassembly.accept(fragment, 77, payload) else {
                    panic!("{count} fragments are incomplete")
                };
                assert!(found == header && packet.bytes() == body && reassembly.partials.is_empty());
            }
            let ack_requests = fragments.iter().map(|(fragment, _)| fragment.flags);
            assert_eq!(ack_requests.map(usize::from).sum::<usize>(), 1);
        }
    }

    #[test]
    fn a_send_error_stops_the_fragments() {
        let header = original(Kind::Put);
        let mut calls = 0;
        let sent_all = send(
            &Keys::new(1, b""),
            &header.encode(),
            &implicit(&header),
            &[0; 8896],
            &mut |batch| {
                calls += 1;
                batch.len() - 1
            },
        );
        assert_eq!((sent_all, calls), (false, 1));
    }

    #[test]
    fn malformed_input_is_detected() {
        let fragments = fragments_of(&original(Kind::Put), &[5; 3000]);
        let take = |changed: &Header, payload: &[u8]| {
            let mut reassembly = Reassembly::default();
            assert_eq!(
                reassembly.accept(&fragments[0].0, 77, &fragments[0].1),
                FragmentOutcome::Incomplete
            );
            reassembly.accept(changed, 77, payload)
        };
        let (good, payload) = &fragments[1];
        assert_eq!(take(good, payload), FragmentOutcome::Incomplete);
        let with = |message, part, parts| Header {
            message,
            part,
            parts,
            ..*good
        };
        for bad in [
            with(3001, 1, 3),
            with(3000, 1, 4),
            with(3000, 2, 3),
            with(3000, 3, 3),
            with(80_000, 1, 70),
            with(1, 1, 1),
        ] {
            assert_eq!(take(&bad, payload), FragmentOutcome::Malformed, "{bad:?}");
        }
        assert_eq!(take(good, &payload[1..]), FragmentOutcome::Malformed);
        assert_eq!(take(good, &[1; FRAGMENT_PREFIX - 1]), FragmentOutcome::Malformed);
        // Another operand or kind than in the first fragment, kinds that are never fragmented, an
        // unknown kind.
        for (at, value) in [
            (0, 0),
            (FRAGMENT_PREFIX - 1, Kind::Get as u8),
            (FRAGMENT_PREFIX - 1, Kind::Fragment as u8),
            (FRAGMENT_PREFIX - 1, Kind::Ack as u8),
            (FRAGMENT_PREFIX - 1, 99),
        ] {
            let mut changed = payload.clone();
            changed[at] = value;
            assert_eq!(take(good, &changed), FragmentOutcome::Malformed, "{at} {value}");
        }
    }

    #[test]
    fn stale_reassemblies_are_dropped() {
        let fragments = fragments_of(&original(Kind::Put), &[5; 3000]);
        let mut reassembly = Reassembly::default();
        for number in 70..80 {
            assert_eq!(
                reassembly.accept(&fragments[0].0, number, &fragments[0].1),
                FragmentOutcome::Incomplete
            );
        }
        reassembly.retain(|number| number > 75);
        assert_eq!(reassembly.partials.len(), 4);
    }
}
