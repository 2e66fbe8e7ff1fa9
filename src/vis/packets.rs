//! Scattered puts and gets of memory that is not mapped here.
//!
//! A put's packet is [`records`] of the pieces at the target, then their data; the target scatters
//! it and acknowledges as it does a piece of `rma::packets`. A get's packet is records only; the
//! target gathers what they name into one reply, and the initiator, which keeps where in its own
//! side the data of each packet belongs, scatters that. Large pieces are separate `rma` operations:
//! the network or the kernel may then move them without the owner, and no data is packed twice.

use super::records::{self, Records, Run};
use super::shape::{Cursor, Dim, Position, Side};
use super::{mapped, peer, Direction, VisAccess};
use crate::am::deferred;
use crate::am::token::Token;
use crate::am::{inject, internal, join, max_medium, split, Arg, Message};
use crate::event::{Category, Op, OpKind};
use crate::mk::MemRef;
use crate::rma::transfer::{self, TransferId};
use crate::rma::{self, Manner, Started};
use crate::runtime::{self, Runtime};
use crate::segment::{disposition, reach, Bounds};
use crate::types::{EpIndex, Location};
use crate::{thread, wait};
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_sys::atomic::{Mutex, MutexGuard};

/// Pieces of this average are worth an operation of the network, or a copy of the kernel's, each.
const WORTH_RMA: usize = 2048;
/// A piece up to this length is not divided between packets, so that a client's words stay whole.
const WHOLE: usize = 256;
/// The data of this put's packets counts for its peer completion.
const COUNTED: Arg = 1;

/// See [`super::start`]. There is something to move.
pub fn start(rt: &Runtime, access: &VisAccess<'_>, op: &mut dyn FnMut() -> &'static Op) -> Result<Started, Busy> {
    let Some(total) = access.data.bytes() else {
        return Ok(Started::Complete);
    };
    let peer = Peer::new(rt, access.peer);
    // Lists are checked piece by piece, when they are packed.
    if let Some((low, bytes)) = access.remote_extent() {
        peer.require(low, bytes);
    }
    let (to, from) = access.data.sides();
    let (remote, local) = match access.direction {
        Direction::Put => (to, from),
        Direction::Get => (from, to),
    };
    let op = op();
    let pieces = remote.pieces().max(local.pieces());
    let worth = if rt.spares_owner(access.peer) {
        WORTH_RMA
    } else {
        max_medium(Some(access.peer.rank)) / 2
    };
    // Only the first of several operations could be refused as a whole.
    let alone = pieces == 1 || (!access.immediate && total / pieces >= worth);
    if alone && access.completion.is_none() {
        return one_by_one(rt, access, &remote, &local, op);
    }
    match access.direction {
        Direction::Put => put(&peer, access, &remote, &local, total, op),
        Direction::Get => get(&peer, access, &remote, &local, total, op),
    }
}

/// A call with memory of a device on either side: piece by piece. Of an IMMEDIATE call the first
/// piece decides, the others wait for room.
pub fn on_devices(rt: &Runtime, access: &VisAccess<'_>, op: &mut dyn FnMut() -> &'static Op) -> Result<Started, Busy> {
    let (to, from) = access.data.sides();
    let (remote, local) = match access.direction {
        Direction::Put => (to, from),
        Direction::Get => (from, to),
    };
    let Some(completion) = &access.completion else {
        return one_by_one(rt, access, &remote, &local, op());
    };
    // Only this call's pieces are waited for, so they have an operation of their own.
    let thread = thread::current();
    let own = thread.free.borrow_mut().take();
    one_by_one(rt, access, &remote, &local, own)?;
    let event = own.event();
    wait::until(crate::stall::Reason::Event(event), || event.is_done());
    event.consume(&mut thread.free.borrow_mut());
    peer::send(access, completion, 0, 0);
    Ok(Started::Complete)
}

fn one_by_one(
    rt: &Runtime,
    access: &VisAccess<'_>,
    remote: &Side,
    local: &Side,
    op: &'static Op,
) -> Result<Started, Busy> {
    let mut manner = Manner {
        immediate: access.immediate,
        kind: OpKind::PutWithLocal,
        copy: false,
    };
    let mut remote = Cursor::new(remote, Position::default());
    let mut local = Cursor::new(local, Position::default());
    while let (Some((there, left)), Some((here, room))) = (remote.run(), local.run()) {
        let bytes = left.min(room);
        let piece = rma::Access {
            peer: disposition::narrow(access.peer, there, bytes),
            remote: there,
            local: here as *mut u8,
            device: rt.local_mem(access.source_ep, here as *const u8, bytes).kind,
            bytes,
        };
        match access.direction {
            Direction::Put => rma::put(&piece, || op, manner)?,
            Direction::Get => rma::get(&piece, || op, manner)?,
        };
        manner.immediate = false;
        remote.advance(piece.bytes);
        local.advance(piece.bytes);
    }
    Ok(Started::UnderWay)
}

/// The peer and what it has bound.
struct Peer<'a> {
    rt: &'a Runtime,
    place: Location,
    segment: Option<Bounds>,
}

impl<'a> Peer<'a> {
    fn new(rt: &'a Runtime, place: Location) -> Self {
        Self {
            rt,
            place,
            segment: rt.segment_of(place),
        }
    }

    /// Ends the job if a range is not in the segment.
    fn require(&self, address: usize, bytes: usize) {
        if !self.segment.is_some_and(|s| s.contains(address, bytes)) {
            self.rt.outside_segment(self.place, address, bytes);
        }
    }
}

/// Takes pieces of the remote side, `left` bytes at most, as long as `room` (of encoded and data
/// bytes so far) allows more data after one more record.
fn fill(peer: &Peer<'_>, remote: &mut Cursor<'_>, left: usize, room: impl Fn(usize, usize) -> usize) -> Records {
    let mut records = Records::default();
    while let Some((address, bytes)) = remote.run().filter(|_| records.data() < left) {
        let bytes = bytes.min(left - records.data());
        let room = room(records.encoded(), records.data());
        if let Some(row) = remote.row(room.min(left - records.data())) {
            let steps = std::iter::once((row.count, row.step));
            let (low, length) = super::extent(row.address, row.bytes, steps);
            peer.require(low, length);
            records.push_row(row.address, row.bytes, row.count, row.step);
            remote.advance_row(&row);
            continue;
        }
        let piece = match bytes {
            _ if bytes <= room => bytes,
            _ if bytes <= WHOLE => 0,
            _ => room & !63,
        };
        if piece == 0 {
            break;
        }
        peer.require(address, piece);
        records.push(address, piece);
        remote.advance(piece);
    }
    records
}

fn put(
    to: &Peer<'_>,
    access: &VisAccess<'_>,
    remote: &Side,
    local: &Side,
    total: usize,
    op: &'static Op,
) -> Result<Started, Busy> {
    let packet = max_medium(Some(access.peer.rank));
    // All data is copied into packets before return.
    let id = transfer::begin(op, OpKind::Put, access.peer.rank, MemRef::host(std::ptr::null()), total);
    let ([a, b], mut first) = (split(id.0), true);
    if let Some(completion) = &access.completion {
        peer::send(access, completion, id.0, total as u64);
        first = false;
    }
    let counted = if access.completion.is_some() { COUNTED } else { 0 };
    let mut remote = Cursor::new(remote, Position::default());
    let mut local = Cursor::new(local, Position::default());
    let mut left = total;
    let mut buffer = Vec::with_capacity(packet);
    while left > 0 {
        let records = fill(to, &mut remote, left, |encoded, data| {
            packet.saturating_sub(encoded + data + records::LARGEST)
        });
        buffer.clear();
        records.write(&mut buffer);
        // SAFETY: `fill` left room for the data in a packet; the client answers for the local side.
        unsafe { mapped::gather(buffer.as_mut_ptr().add(records.encoded()), &mut local, records.data()) };
        let args = [a, b, records.encoded() as Arg, counted];
        let payload = (buffer.as_ptr(), records.encoded() + records.data());
        let message = Message::internal(Class::Request, access.peer, internal::VIS_PUT, &args, Some(payload));
        if deferred::send(&message, first, access.immediate).is_err() {
            transfer::finish(id);
            return Err(Busy);
        }
        first = false;
        left -= records.data();
    }
    Ok(Started::UnderWay)
}

fn get(
    peer: &Peer<'_>,
    access: &VisAccess<'_>,
    remote: &Side,
    local: &Side,
    total: usize,
    op: &'static Op,
) -> Result<Started, Busy> {
    let packet = max_medium(Some(access.peer.rank));
    let mut remote = Cursor::new(remote, Position::default());
    let mut here = Cursor::new(local, Position::default());
    let (mut left, mut buffer) = (total, Vec::with_capacity(packet));
    while left > 0 {
        let records = fill(peer, &mut remote, left, |encoded, data| {
            if encoded + records::LARGEST > packet {
                0
            } else {
                packet - data
            }
        });
        buffer.clear();
        records.write(&mut buffer);
        let id = pending_gets().add(PendingGet {
            op,
            side: local.clone(),
            at: here.position(),
            bytes: records.data(),
            source: access.peer.rank,
        });
        op.begin(Category::Get);
        let args = split(id.0);
        let payload = Some((buffer.as_ptr(), buffer.len()));
        let message = Message::internal(Class::Request, access.peer, internal::VIS_GET, &args, payload);
        if deferred::send(&message, left == total, access.immediate).is_err() {
            pending_gets().take(id, access.peer.rank);
            op.complete(Category::Get);
            return Err(Busy);
        }
        here.skip(records.data());
        left -= records.data();
    }
    Ok(Started::UnderWay)
}

/// Where the data of one packet of a get belongs.
#[derive(Debug)]
struct PendingGet {
    op: &'static Op,
    side: Side,
    at: Position,
    bytes: usize,
    /// Who is to send it.
    source: JobRank,
}

/// PendingGets by index and generation.
#[derive(Debug)]
struct PendingGets {
    slots: Vec<(u32, Option<PendingGet>)>,
    free: Vec<u32>,
}

static PENDING_GETS: Mutex<PendingGets> = Mutex::new(PendingGets {
    slots: Vec::new(),
    free: Vec::new(),
});

fn pending_gets() -> MutexGuard<'static, PendingGets> {
    gasnet_sys::lock(&PENDING_GETS)
}

impl PendingGets {
    fn add(&mut self, pending: PendingGet) -> TransferId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.1 = Some(pending);
        TransferId(u64::from(index) << 32 | u64::from(slot.0))
    }

    /// The pending of that name that waits for data of `source`; it is free then.
    fn take(&mut self, id: TransferId, source: JobRank) -> Option<PendingGet> {
        let index = (id.0 >> 32) as usize;
        let slot = self.slots.get_mut(index).filter(|s| s.0 == id.0 as u32)?;
        let pending = slot.1.take_if(|l| l.source == source)?;
        slot.0 = slot.0.wrapping_add(1);
        self.free.push(index as u32);
        Some(pending)
    }
}

/// Reads the records of a packet. None unless all that they name is in the segment of endpoint
/// `ep`.
fn read_runs(ep: EpIndex, payload: *const u8, encoded: usize) -> Option<(Vec<Run>, usize)> {
    let mut copy = vec![0_u8; encoded];
    // SAFETY: the caller checked that the message has so many bytes. They are copied, since a
    // neighbour could still write them.
    unsafe { std::ptr::copy_nonoverlapping(payload, copy.as_mut_ptr(), encoded) };
    let (runs, data) = records::read(&copy)?;
    let rt = runtime::get();
    let inside = runs.iter().all(|run| {
        let (low, bytes) = run.extent();
        rt.in_own_segment(ep, low, bytes)
    });
    (inside && data > 0).then_some((runs, data))
}

impl Run {
    /// Lowest address and length of all that it touches.
    fn extent(&self) -> (usize, usize) {
        super::extent(self.address, self.bytes, std::iter::once((self.count, self.step)))
    }

    /// Runs `body`, which touches it for the sender of a message.
    fn serve(&self, token: &Token, body: impl FnOnce()) {
        let (low, bytes) = self.extent();
        reach::serving(token.source.rank, token.target_ep, low, bytes, body);
    }
}

/// Target of a put: scatters and acknowledges. Returns false if the message is malformed.
pub fn on_put(token: &Token, args: &[Arg], payload: *mut u8, bytes: usize) -> bool {
    let &[a, b, encoded, counted] = args else { return false };
    let encoded = encoded as u32 as usize;
    let Some((runs, data)) = (encoded <= bytes)
        .then(|| read_runs(token.target_ep, payload, encoded))
        .flatten()
    else {
        return false;
    };
    if data != bytes - encoded {
        return false;
    }
    let mut from = payload.wrapping_add(encoded).cast_const();
    for run in &runs {
        let row = Dim {
            count: run.count,
            to: run.step,
            from: run.bytes as isize,
        };
        // SAFETY: the run is in the own segment, and its data in the message (both checked).
        run.serve(token, || unsafe {
            mapped::nest(run.address as *mut u8, from, run.bytes, &[row]);
        });
        from = from.wrapping_add(run.bytes * run.count);
    }
    if counted == COUNTED && !peer::arrived(token.source.rank, join(a, b), data) {
        return false;
    }
    reply(token, internal::RMA_PUT_DONE, &[a, b, data as Arg], None);
    true
}

/// Target of a get: gathers and answers. Returns false if the message is malformed.
pub fn on_get(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[a, b] = args else { return false };
    let Some((runs, data)) = read_runs(token.target_ep, payload, bytes) else {
        return false;
    };
    if data > max_medium(Some(token.source.rank)) {
        return false;
    }
    let mut buffer: Vec<u8> = Vec::with_capacity(data);
    let mut to = buffer.as_mut_ptr();
    for run in &runs {
        let row = Dim {
            count: run.count,
            to: run.bytes as isize,
            from: run.step,
        };
        // SAFETY: the run is in the own segment, and the buffer has room for all of them (checked).
        run.serve(token, || unsafe {
            mapped::nest(to, run.address as *const u8, run.bytes, &[row]);
        });
        to = to.wrapping_add(run.bytes * run.count);
    }
    reply(token, internal::VIS_DATA, &[a, b], Some((buffer.as_ptr(), data)));
    true
}

/// Initiator of a get: the data of one packet. Returns false if the message is malformed.
pub fn on_data(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[a, b] = args else { return false };
    let Some(pending) = pending_gets().take(TransferId(join(a, b)), token.source.rank) else {
        return false;
    };
    if bytes != pending.bytes {
        return false;
    }
    // SAFETY: the client keeps its side until completion, which is now at the earliest; the data is
    // in the message.
    unsafe { mapped::scatter(&mut Cursor::new(&pending.side, pending.at), payload, bytes) };
    pending.op.complete(Category::Get);
    true
}

/// Replies to the runtime's own request. From a handler: drains replies while it waits.
fn reply(token: &Token, handler: u8, args: &[Arg], payload: Option<(*const u8, usize)>) {
    inject::send(&Message::internal(Class::Reply, token.source, handler, args, payload));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FreeList;
    use crate::vis::shape::List;

    #[test]
    fn a_landing_is_taken_once_and_by_its_source_only() {
        let op = FreeList::new().take();
        let side = Side::List(List::Indexed {
            entries: std::ptr::null(),
            count: 0,
            bytes: 0,
            base: 0,
        });
        let pending = |bytes| PendingGet {
            op,
            side: side.clone(),
            at: Position::default(),
            bytes,
            source: JobRank(1),
        };
        let mut table = PendingGets {
            slots: Vec::new(),
            free: Vec::new(),
        };
        let (a, b) = (table.add(pending(1)), table.add(pending(2)));
        assert!(table.take(a, JobRank(2)).is_none());
        assert_eq!(table.take(a, JobRank(1)).map(|l| l.bytes), Some(1));
        assert!(table.take(a, JobRank(1)).is_none());
        let c = table.add(pending(3));
        assert!(c != a && c.0 >> 32 == a.0 >> 32);
        assert_eq!(table.take(b, JobRank(1)).map(|l| l.bytes), Some(2));
        assert!(table.take(TransferId(9 << 32), JobRank(1)).is_none());
    }
}
