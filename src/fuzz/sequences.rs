//! Handlers that keep what has arrived, under any sequence of messages.

use std::cell::Cell;

use crate::ad::{codes, cpu, packets as ad};
use crate::am::segment_head::Head;
use crate::am::segmented::Partials;
use crate::am::segmented_medium::Partial;
use crate::am::table::INDEX_BASE;
use crate::am::token::Token;
use crate::am::wire::{payload, shape, Carrier, Payload};
use crate::am::{join, payload_offset, Arg, HEADER};
use crate::coll::p2p::{encode, Envelope, Matching, Span};
use crate::event::{FreeList, OpKind};
use crate::mk::MemRef;
use crate::rma::packets as rma;
use crate::rma::transfer;
use crate::shm::layout::MAX_MEDIUM;
use crate::types::{AmCategory, Location, Rank};
use crate::vis::peer::Awaited;
use gasnet_conduit::conformance::fuzz::number;
use gasnet_conduit::{Class, JobRank};

/// Takes at most `bytes` bytes off the front.
fn take<'a>(from: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (front, rest) = from.split_at(bytes.min(from.len()));
    *from = rest;
    front
}

/// A small number, or one at the upper end.
fn size(from: &mut &[u8]) -> usize {
    let small = number(from, 2) as usize;
    if small < 0xff00 {
        small
    } else {
        usize::MAX - (small & 0xff)
    }
}

fn args(from: &mut &[u8], most: usize) -> Vec<Arg> {
    let count = number(from, 1) as usize % (most + 1);
    (0..count).map(|_| number(from, 4) as Arg).collect()
}

fn token(rank: u32) -> Token {
    Token {
        source: Location {
            rank: JobRank(rank),
            ep: 0,
        },
        target_ep: 0,
        entry: None,
        class: Class::Request,
        category: AmCategory::Medium,
        replied: Cell::new(false),
    }
}

/// P2p messages of collectives, posted receives of them, and their ends.
pub fn p2p(mut bytes: &[u8]) {
    // No receive is completed after its memory is gone.
    let mut posted: Vec<(Envelope, Vec<u8>)> = Vec::new();
    let mut matching = Matching::default();
    while !bytes.is_empty() {
        let (step, tag) = (number(&mut bytes, 1), number(&mut bytes, 1) as u32 % 4);
        let envelope = Envelope {
            team: 1,
            sequence: 0,
            target: Rank(0),
            source: Rank(1),
            tag,
        };
        match step % 4 {
            0 => {
                let mut to = vec![0; 1 + number(&mut bytes, 1) as usize];
                let (at, bytes) = (to.as_mut_ptr(), to.len());
                matching.post_receive(envelope, Span { at, bytes });
                posted.push((envelope, to));
            }
            1 => {
                let _ = matching.take(envelope);
            }
            2 => {
                let to = posted.iter_mut().find(|(of, _)| *of == envelope);
                if let Some((at, bytes)) = to.map(|(_, to)| (to.as_mut_ptr(), to.len())) {
                    matching.complete_receive(envelope, Span { at, bytes });
                }
            }
            _ => {
                let (total, offset) = (size(&mut bytes), size(&mut bytes));
                let length = number(&mut bytes, 1) as usize;
                let payload = take(&mut bytes, length);
                let is_inside = offset.checked_add(payload.len()).is_some_and(|end| end <= total);
                let args = encode(envelope, total, offset);
                let known = args.len() - usize::from(step == u64::from(u8::MAX));
                let done = matching.packet(&args[..known], payload.as_ptr(), payload.len());
                assert!(done.is_none() || is_inside && known == args.len());
            }
        }
    }
}

/// The messages of puts with peer completion, and how many bytes of them arrive.
pub fn vis_peers(mut bytes: &[u8]) {
    let mut puts = Partials::NONE;
    while !bytes.is_empty() {
        let (step, rank) = (number(&mut bytes, 1), number(&mut bytes, 1) as u32 % 2);
        let ready = if step % 2 == 0 {
            puts.data((JobRank(rank), number(&mut bytes, 1)), size(&mut bytes))
        } else {
            let args = args(&mut bytes, 6);
            let length = number(&mut bytes, 1) as usize;
            let payload = take(&mut bytes, length);
            let Some((id, awaited)) = Awaited::decode(&token(rank), &args, payload.as_ptr(), payload.len()) else {
                continue;
            };
            puts.head((JobRank(rank), id), awaited.total, awaited)
        };
        if let Ok(Some(awaited)) = ready {
            assert!(awaited.handler >= INDEX_BASE && awaited.source.rank == JobRank(rank));
        }
    }
}

/// A Medium in segments.
pub fn medium(mut bytes: &[u8]) {
    let length = HEADER + number(&mut bytes, 1) as usize;
    let head = take(&mut bytes, length);
    let Some(mut partial) = Partial::begin(head.as_ptr(), head.len()) else {
        return;
    };
    let header = partial.parts().0.header;
    let (kind, nargs, total) = (header.word as u8, header.nargs(), header.bytes as usize);
    assert!((1..=MAX_MEDIUM).contains(&total) && shape(kind, nargs as u8, HEADER + 4 * nargs).is_ok());
    let place = payload(Carrier::Packet, kind, nargs, &header, payload_offset(nargs) + total);
    assert_eq!(place, Ok(Payload::InPlace));
    let mut received = 0;
    while !bytes.is_empty() {
        let (offset, length) = (size(&mut bytes), number(&mut bytes, 1) as usize);
        let segment = take(&mut bytes, length);
        let Some(is_last) = partial.add(offset, segment.as_ptr(), segment.len()) else {
            return;
        };
        received += segment.len();
        assert!(offset + segment.len() <= total && is_last == (received == total));
        let (_, at) = partial.parts();
        // SAFETY: the buffer has as many bytes, all initialised.
        let buffer = unsafe { std::slice::from_raw_parts(at, total) };
        assert_eq!(&buffer[offset..][..segment.len()], segment);
        if is_last {
            return;
        }
    }
}

/// Heads and data of Longs in segments.
pub fn longs(mut bytes: &[u8]) {
    let mut partials = Partials::NONE;
    while !bytes.is_empty() {
        let (step, id) = (number(&mut bytes, 1), number(&mut bytes, 1) % 4);
        let complete = if step % 2 == 0 {
            partials.data((JobRank(1), id), size(&mut bytes))
        } else {
            let length = HEADER + number(&mut bytes, 1) as usize;
            let head = take(&mut bytes, length);
            let head = Head::decode(head.as_ptr(), head.len()).filter(Head::is_of_long);
            let Some(head) = head else { continue };
            partials.head((JobRank(1), id), u64::from(head.header.bytes), head)
        };
        if let Ok(Some(head)) = complete {
            assert!(head.is_of_long() && head.header.handler >= INDEX_BASE);
        }
    }
}

/// Requests for remote atomics, performed on a value between two that must not change.
pub fn atomics(mut bytes: &[u8]) {
    const AROUND: u64 = 0x5a5a_5a5a_5a5a_5a5a;
    let args = args(&mut bytes, 11);
    let Some(request) = ad::Request::decode(&args) else {
        return;
    };
    assert_eq!(request.target % codes::bytes(request.dt), 0);
    let mut memory = [AROUND, 0, AROUND];
    let at = std::ptr::from_mut(&mut memory[1]).cast();
    // SAFETY: eight aligned bytes of this stack.
    let old = unsafe { cpu::perform_wire(request.dt, at, request.op, request.values) };
    assert!(old.is_some() && [memory[0], memory[2]] == [AROUND; 2]);
    assert!(codes::bytes(request.dt) == 8 || u32::from_ne_bytes(memory[1].to_ne_bytes()[4..].try_into().unwrap()) == 0);
}

thread_local! {
    static OPS: std::cell::RefCell<FreeList> = const { std::cell::RefCell::new(FreeList::new()) };
}

#[repr(align(16))]
struct Aligned([u8; 64]);

/// Answers to a put, a get and an atomic of this process, of any rank and to any transfer.
pub fn answers(mut bytes: &[u8]) {
    const AROUND: u8 = 0x5a;
    /// At an odd address: a get may have any.
    const PLACE: usize = 17;
    const ROOM: usize = 8;
    let mut memory = Aligned([AROUND; 64]);
    let memory = &mut memory.0;
    let asked = JobRank(1);
    let local = MemRef::host(memory[PLACE..].as_mut_ptr());
    let op = OPS.with_borrow_mut(FreeList::take);
    let begun = [(OpKind::Put, 100), (OpKind::Get, ROOM), (OpKind::Rmw, ROOM)];
    let begun = begun.map(|(kind, bytes)| transfer::begin(op, kind, asked, local, bytes));
    while !bytes.is_empty() {
        let (step, from) = (number(&mut bytes, 1), JobRank(number(&mut bytes, 1) as u32 % 2));
        let id = begun[step as usize / 4 % 3].0 ^ number(&mut bytes, 1) << (number(&mut bytes, 1) % 64);
        let mut words = args(&mut bytes, 4);
        let id = [(id >> 32) as Arg, id as Arg];
        match step % 4 {
            0 => {
                words.splice(0..0, id);
                let _ = rma::on_put_done(from, &words);
            }
            1 => {
                words.splice(0..0, id);
                let length = number(&mut bytes, 1) as usize;
                let data = take(&mut bytes, length);
                let is_taken = rma::on_data(from, &words, data.as_ptr(), data.len());
                assert!(!is_taken || data.len() <= ROOM);
            }
            2 => {
                let length = number(&mut bytes, 1) as usize;
                let mut payload = join(id[0], id[1]).to_ne_bytes().to_vec();
                payload.extend(take(&mut bytes, length));
                let _ = rma::on_puts_done(from, payload.as_ptr(), payload.len());
            }
            _ => {
                words.splice(0..0, id);
                let is_taken = ad::on_done(from, &words);
                assert!(!is_taken || words.len() <= 4);
            }
        }
        let outside = memory[..PLACE].iter().chain(&memory[PLACE + ROOM..]);
        assert!(outside.clone().all(|byte| *byte == AROUND));
    }
    begun.into_iter().for_each(transfer::finish);
    assert!(op.event().is_done() && transfer::open(Some(op), 1).is_empty());
    OPS.with_borrow_mut(|ops| ops.put(op));
}
