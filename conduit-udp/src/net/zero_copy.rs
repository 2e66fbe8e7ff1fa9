//! Long parts of transfers are received where they belong: the system copies them there, and nobody copies them again.
//!
//! The next datagram is looked at before it is received. If its header is of a member, and its payload belongs to a place of which nothing has come yet, it
//! is received there; only then its payload proves itself. If it does not, it was dropped, and what is in its place is as good as what was there before:
//! that transfer is under way, and the real datagram is still to come. The peer stays locked meanwhile, so that nobody else notes that the real one has
//! come. Somebody else may take the datagram that was looked at; then another one was received, and is taken in as if it had come into a buffer.
#![forbid(unsafe_code)]

use super::authenticate::Unsealed;
use super::receive::{Context, Wanted};
use super::Net;
use crate::memory::Lent;
use crate::peer::Heard;
use crate::peer_table::HERE;
use crate::sys::BUFFER;
use crate::wire::HEADER;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering::Relaxed;

/// A copy of fewer bytes costs less than a look.
const LONG: usize = 16 << 10;
/// Nanoseconds without this after a payload did not prove itself where it was received. Perhaps the client writes there, so that it never would.
const PAUSE: u64 = 10_000_000_000;

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Nothing, or it has been taken in.
    Nothing,
    /// It is in the first buffer.
    Found,
    /// That is to be found out.
    Unknown,
}

/// Whether it is one datagram, and long.
pub fn is_long((bytes, each): (usize, usize)) -> bool {
    bytes > HEADER + LONG && (each == 0 || each >= bytes)
}

/// Whether an error says that there is nothing, or nothing yet.
pub fn is_nothing(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// A datagram that was looked at.
pub struct Expected<'a> {
    head: [u8; HEADER],
    /// As [`crate::sys::Socket::peek`] says it.
    whole: (usize, usize),
    unsealed: Unsealed<'a>,
    /// Where its payload belongs.
    place: Lent,
}

impl Net {
    /// Whether long parts of transfers may be received in their places now.
    pub fn may_place(&self) -> bool {
        let from = self.in_place_from.load(Relaxed);
        from == 0 || self.now() >= from
    }

    /// Receives the next datagram in its place, if it is a long part of a transfer.
    pub fn receive_in_place(&self, wanted: Wanted, context: &mut Context, delivered: &mut usize) -> Came {
        match self.expect() {
            Ok(Some(expected)) => self.receive_expected(expected, wanted, context, delivered),
            Ok(None) => Came::Unknown,
            Err(why) if is_nothing(&why) => Came::Nothing,
            // What the system told with that is told once only.
            Err(_) => {
                self.hear_errors();
                Came::Nothing
            }
        }
    }

    /// The next datagram, if it is one whose payload has a place where nothing of it has come yet.
    pub fn expect(&self) -> io::Result<Option<Expected<'_>>> {
        let mut head = [0; HEADER];
        let whole = self.socket.peek(&mut head)?;
        let payload = whole.0.saturating_sub(HEADER);
        let known = self
            .source(&head)
            .filter(|(_, place)| is_long(whole) && place.fate.load(Relaxed) == HERE)
            .and_then(|(header, place)| self.unseal(place.peer.get()?, header, &head, payload));
        Ok(known.and_then(|mut unsealed| {
            let Unsealed {
                peer, header, number, ..
            } = &mut unsealed;
            let place = peer.place_of(header, *number, payload, &self.segments)?;
            Some(Expected {
                head,
                whole,
                unsealed,
                place,
            })
        }))
    }

    /// Receives what was looked at, or what comes behind it.
    pub fn receive_expected(&self, expected: Expected<'_>, wanted: Wanted, context: &mut Context, delivered: &mut usize) -> Came {
        let Expected {
            head,
            whole,
            unsealed,
            place,
        } = expected;
        let buffer = &mut context.memory[context.start..context.start + BUFFER];
        let came = match self.socket.receive_around(buffer, HEADER, place) {
            Ok(came) => came,
            Err(why) if is_nothing(&why) => return Came::Nothing,
            Err(why) if why.raw_os_error() == Some(libc::EFAULT) => {
                // A page of the place is not to be had, which a copy will say.
                self.in_place_from.store(self.now() + PAUSE, Relaxed);
                return Came::Nothing;
            }
            Err(_) => {
                // The peer is locked: later.
                self.has_errors.store(true, Relaxed);
                return Came::Nothing;
            }
        };
        if came != whole || buffer[..HEADER] != head {
            let there = came.0.saturating_sub(HEADER).min(place.bytes);
            buffer[HEADER..HEADER + there].copy_from_slice(&place.read()[..there]);
            context.found.clear();
            context.found.push(came);
            return Came::Found;
        }
        let now = self.now();
        if self.keys.hash(place.read()) != unsealed.hash {
            self.counters.strange.fetch_add(1, Relaxed);
            self.in_place_from.store(now + PAUSE, Relaxed);
            return Came::Nothing;
        }
        let source = unsealed.header.source;
        context.touched.push(source);
        match self.take_in(unsealed, wanted, place.read(), now, &mut context.done) {
            Heard::Placed => *delivered += 1,
            Heard::Nonsense => self.lose_broken(source),
            _ => {}
        }
        Came::Nothing
    }
}
