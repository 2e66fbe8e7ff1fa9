//! A datagram that the path does not take goes in pieces, each in a datagram of its own with the number of the whole, which is acknowledged when all have
//! come. In front of each piece is what of the whole's header the piece's own has no room for. Kernels cut datagrams, too, but only those of which they
//! know that the path does not take them.
#![forbid(unsafe_code)]

use crate::mac::Keys;
use crate::packet::Packet;
use crate::sys::{Pieces, RUN};
use crate::wire::{Header, Kind, Known, ACK_NOW, HEADER};
use crate::MAX_PACKET_BYTES;
use std::io::IoSlice;

/// Payload of datagrams that every path takes: IPv6 promises 1280 bytes (RFC 8200, section 5), of which headers are 48 and [`HEADER`].
pub const NARROW: usize = (1280 - 48) / 64 * 64 - HEADER;
/// What stands in front of a piece: the whole's word, and its kind.
pub const FRONT: usize = 9;
/// Bytes of the whole in each piece but the last.
pub const EACH: usize = NARROW - FRONT;

/// Whether a datagram is part of a message, or a piece of such a part.
pub fn is_message(header: &Header, payload: &[u8]) -> bool {
    match header.kind {
        Kind::Piece => payload.get(FRONT - 1) == Some(&(Kind::Data as u8)),
        kind => kind == Kind::Data,
    }
}

/// Gives a datagram to `send` in pieces. Returns whether all of them went.
pub fn send(keys: &Keys, head: &[u8; HEADER], known: &Known, body: &[u8], send: &mut impl FnMut(&[Pieces<'_>]) -> usize) -> bool {
    let Some(whole) = Header::decode(head) else { return false };
    let parts = body.len().div_ceil(EACH);
    let pieces: Vec<_> = body
        .chunks(EACH)
        .enumerate()
        .map(|(part, bytes)| {
            let payload = [&whole.word().to_le_bytes()[..], &[whole.kind as u8], bytes].concat();
            let header = Header {
                kind: Kind::Piece,
                flags: if part + 1 == parts {
                    whole.flags
                } else {
                    whole.flags & !ACK_NOW
                },
                message: body.len() as u32,
                part: part as u16,
                parts: parts as u16,
                ..whole
            };
            let mut head = header.encode();
            keys.seal(&mut head, known, (payload.len(), keys.hash(&payload)));
            (head, payload)
        })
        .collect();
    pieces.chunks(RUN).all(|run| {
        let run: Vec<Pieces<'_>> = run
            .iter()
            .map(|(head, payload)| [IoSlice::new(head), IoSlice::new(payload)])
            .collect();
        send(&run) == run.len()
    })
}

/// A datagram of which pieces have come.
#[derive(Debug)]
struct Whole {
    number: u64,
    header: Header,
    /// Bit i: piece i has come.
    have: u64,
    parts: u16,
    bytes: Packet,
}

/// What a piece brings about.
#[derive(Debug, PartialEq)]
pub enum Gathered {
    /// Others are missing.
    Kept,
    /// It came before.
    Again,
    /// The datagram is whole.
    Whole(Header, Packet),
    /// Only a defective peer sends that.
    Nonsense,
}

/// The pieces of one class from one peer.
#[derive(Debug, Default)]
pub struct Gathering {
    wholes: Vec<Whole>,
}

impl Gathering {
    /// Datagrams that lack pieces.
    #[cfg(any(test, fuzzing))]
    pub fn unfinished(&self) -> usize {
        self.wholes.len()
    }

    /// Forgets what is not wanted any more.
    pub fn keep_only(&mut self, wanted: impl Fn(u64) -> bool) {
        self.wholes.retain(|whole| wanted(whole.number));
    }

    /// Takes in a piece of the datagram `number`, which has not come yet.
    pub fn take(&mut self, header: &Header, number: u64, payload: &[u8]) -> Gathered {
        let bytes = header.message as usize;
        let Some((header, part, piece)) = self.look(header, number, payload) else {
            return Gathered::Nonsense;
        };
        let at = self
            .wholes
            .iter()
            .position(|whole| whole.number == number)
            .unwrap_or_else(|| {
                self.wholes.push(Whole {
                    number,
                    header,
                    have: 0,
                    parts: bytes.div_ceil(EACH) as u16,
                    bytes: Packet::new(bytes),
                });
                self.wholes.len() - 1
            });
        let whole = &mut self.wholes[at];
        if whole.have >> part & 1 != 0 {
            return Gathered::Again;
        }
        whole.bytes.bytes_mut()[part * EACH..][..piece.len()].copy_from_slice(piece);
        whole.have |= 1 << part;
        whole.header.flags |= header.flags & ACK_NOW;
        if whole.have.count_ones() < u32::from(whole.parts) {
            return Gathered::Kept;
        }
        let whole = self.wholes.swap_remove(at);
        Gathered::Whole(whole.header, whole.bytes)
    }

    /// The header of the whole, which piece this is, and its bytes. None: that contradicts itself, or what came before.
    fn look<'a>(&self, header: &Header, number: u64, payload: &'a [u8]) -> Option<(Header, usize, &'a [u8])> {
        let (front, piece) = payload.split_first_chunk::<FRONT>()?;
        let (bytes, part) = (header.message as usize, usize::from(header.part));
        let left = bytes.checked_sub(part * EACH)?;
        let fits = bytes <= MAX_PACKET_BYTES && usize::from(header.parts) == bytes.div_ceil(EACH) && piece.len() == left.min(EACH);
        let word = u64::from_le_bytes(std::array::from_fn(|i| front[i]));
        let whole = header.with_word(word).of_kind(front[FRONT - 1])?;
        let is_plain = matches!(whole.kind, Kind::Data | Kind::Put | Kind::Get | Kind::Got);
        let first = self.wholes.iter().find(|whole| whole.number == number);
        let agrees = first
            .is_none_or(|first| (first.bytes.bytes().len(), first.header.kind, first.header.word()) == (bytes, whole.kind, word));
        (fits && is_plain && agrees).then_some((whole, part, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Have;

    fn whole(kind: Kind) -> Header {
        Header {
            job: 1,
            kind,
            class: 1,
            flags: crate::wire::ACK_NOW,
            source: 3,
            number: 77,
            message: 0,
            part: 0,
            parts: 0,
            have: [Have::default(); 2],
        }
        .with_word(0x0002_0001_0000_1234)
    }

    fn known(header: &Header) -> Known {
        Known {
            target: 4,
            number: (5 << 32) + u64::from(header.number),
            next: [0; 2],
        }
    }

    /// The pieces of a datagram, none longer than every path takes.
    fn cut(header: &Header, body: &[u8]) -> Vec<(Header, Vec<u8>)> {
        let (keys, mut all) = (Keys::new(1, b""), Vec::new());
        let known = known(header);
        let went = send(&keys, &header.encode(), &known, body, &mut |run| {
            for [head, payload] in run {
                assert!(head.len() + payload.len() + 48 <= 1280);
                let head = head[..].try_into().unwrap();
                assert!(keys.proves(head, &known, payload));
                all.push((Header::decode(head).unwrap(), payload.to_vec()));
            }
            run.len()
        });
        assert!(went);
        all
    }

    #[test]
    fn pieces_make_the_whole_in_any_order() {
        for (kind, bytes) in [
            (Kind::Data, EACH + 1),
            (Kind::Put, 8896),
            (Kind::Got, 65_408),
            (Kind::Put, MAX_PACKET_BYTES),
        ] {
            let body: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 256) as u8).collect();
            let header = whole(kind);
            let pieces = cut(&header, &body);
            let count = pieces.len();
            for step in [1, count - 1] {
                let mut gathering = Gathering::default();
                for i in 0..count - 1 {
                    let (piece, payload) = &pieces[i * step % count];
                    for expected in [Gathered::Kept, Gathered::Again] {
                        assert_eq!(gathering.take(piece, 77, payload), expected);
                    }
                }
                let (piece, payload) = &pieces[(count - 1) * step % count];
                let Gathered::Whole(found, packet) = gathering.take(piece, 77, payload) else {
                    panic!("{count} pieces are no whole")
                };
                assert!(found == header && packet.bytes() == body && gathering.wholes.is_empty());
            }
            let asks = pieces.iter().map(|(piece, _)| piece.flags);
            assert_eq!(asks.map(usize::from).sum::<usize>(), 1);
        }
    }

    #[test]
    fn what_cannot_go_is_not_sent() {
        let header = whole(Kind::Put);
        let mut calls = 0;
        let went = send(
            &Keys::new(1, b""),
            &header.encode(),
            &known(&header),
            &[0; 8896],
            &mut |run| {
                calls += 1;
                run.len() - 1
            },
        );
        assert_eq!((went, calls), (false, 1));
    }

    #[test]
    fn nonsense_is_found_out() {
        let pieces = cut(&whole(Kind::Put), &[5; 3000]);
        let take = |changed: &Header, payload: &[u8]| {
            let mut gathering = Gathering::default();
            assert_eq!(gathering.take(&pieces[0].0, 77, &pieces[0].1), Gathered::Kept);
            gathering.take(changed, 77, payload)
        };
        let (good, payload) = &pieces[1];
        assert_eq!(take(good, payload), Gathered::Kept);
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
            assert_eq!(take(&bad, payload), Gathered::Nonsense, "{bad:?}");
        }
        assert_eq!(take(good, &payload[1..]), Gathered::Nonsense);
        assert_eq!(take(good, &[1; FRONT - 1]), Gathered::Nonsense);
        // Another kind or word than the first piece had, kinds that are never cut, and none.
        for (at, value) in [
            (0, 0),
            (FRONT - 1, Kind::Get as u8),
            (FRONT - 1, Kind::Piece as u8),
            (FRONT - 1, Kind::Ack as u8),
            (FRONT - 1, 99),
        ] {
            let mut changed = payload.clone();
            changed[at] = value;
            assert_eq!(take(good, &changed), Gathered::Nonsense, "{at} {value}");
        }
    }

    #[test]
    fn what_is_not_wanted_is_forgotten() {
        let pieces = cut(&whole(Kind::Put), &[5; 3000]);
        let mut gathering = Gathering::default();
        for number in 70..80 {
            assert_eq!(gathering.take(&pieces[0].0, number, &pieces[0].1), Gathered::Kept);
        }
        gathering.keep_only(|number| number > 75);
        assert_eq!(gathering.wholes.len(), 4);
    }
}
