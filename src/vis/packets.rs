//! Scattered puts and gets of memory that is not mapped here.
//!
//! A put's packet is [`records`] of the pieces at the target, then their data; the target scatters
//! it and acknowledges as it does a piece of `rma::packets`. A get's packet is records only; the
//! target gathers what they name into one reply, and the initiator, which keeps where in its own
//! side the data of each packet belongs, scatters that. Large pieces are separate `rma` operations:
//! the network or the kernel may then move them without the owner, and no data is packed twice.

use super::records::{self, Records};
use super::shape::{Cursor, Position, Row, Side};
use super::{mapped, peer, Direction, VisAccess};
use crate::am::deferred::{self, SendMessage};
use crate::am::inject::wait_for_room;
use crate::am::token::Token;
use crate::am::{inject, internal, join, max_medium, split, Arg, Message};
use crate::event::{Category, Op, OpKind};
use crate::mk::MemRef;
use crate::rma::transfer::{self, TransferId};
use crate::rma::{self, Manner, Started};
use crate::runtime::{self, Runtime};
use crate::segment::{disposition, reach, Bounds};
use crate::types::Location;
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
    let (remote, local) = access.sides();
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
    let rank = access.peer.rank;
    let id = (access.direction == Direction::Put).then(|| {
        // Local completion is counted only if packets are sent later.
        transfer::begin(op, OpKind::Put, rank, MemRef::host(std::ptr::null()), total)
    });
    if let (Some(completion), Some(id)) = (&access.completion, id) {
        peer::send(access, completion, id.0, total as u64);
    }
    let packets = Packets {
        peer: access.peer,
        remote,
        local,
        at: (Position::default(), Position::default()),
        left: total,
        op,
        id,
        counted: if access.completion.is_some() { COUNTED } else { 0 },
        made: Vec::new(),
        encoded: 0,
        data: 0,
        held: None,
    };
    // With a completion, something was sent already.
    packets.start(access.immediate && access.completion.is_none())
}

/// A call with memory of a device on either side: piece by piece. Of an IMMEDIATE call the first
/// piece decides, the others wait for room.
pub fn on_devices(rt: &Runtime, access: &VisAccess<'_>, op: &mut dyn FnMut() -> &'static Op) -> Result<Started, Busy> {
    let (remote, local) = access.sides();
    let Some(completion) = &access.completion else {
        return one_by_one(rt, access, &remote, &local, op());
    };
    // Only this call's pieces are waited for, so they have an operation of their own.
    let thread = thread::current();
    let own = thread.free.borrow_mut().take();
    if one_by_one(rt, access, &remote, &local, own).is_err() {
        thread.free.borrow_mut().put(own);
        return Err(Busy);
    }
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
            let (low, length) = row.extent();
            peer.require(low, length);
            records.push_row(&row);
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

/// The packets of a call that were not sent yet. Without IMMEDIATE each waits for room. With
/// IMMEDIATE only the first may be refused; if a later one finds no room, it and those after it are
/// sent in later polls.
struct Packets {
    peer: Location,
    remote: Side,
    local: Side,
    /// The beginning of the next packet, on both sides.
    at: (Position, Position),
    /// Bytes of data.
    left: usize,
    op: &'static Op,
    /// Of a put.
    id: Option<TransferId>,
    counted: Arg,
    /// The next packet of a put, if that found no room: records, of `encoded` bytes, and `data`
    /// bytes.
    made: Vec<u8>,
    encoded: usize,
    data: usize,
    /// The category that later polls complete with the last packet.
    held: Option<Category>,
}

// SAFETY: the sides are lists of the client's, valid until completion, and our own descriptions.
unsafe impl Send for Packets {}

impl Packets {
    /// Sends the next packet. Returns whether it was the last.
    fn next(&mut self, send: SendMessage<'_>) -> Result<bool, Busy> {
        match self.id {
            Some(id) => self.put_next(id, send)?,
            None => self.get_next(send)?,
        }
        let was_last = self.left == 0;
        if let Some(category) = self.held.filter(|_| was_last) {
            self.op.complete(category);
        }
        Ok(was_last)
    }

    fn put_next(&mut self, id: TransferId, send: SendMessage<'_>) -> Result<(), Busy> {
        if self.made.is_empty() {
            self.make_put();
        }
        let [a, b] = split(id.0);
        let args = [a, b, self.encoded as Arg, self.counted];
        let payload = (self.made.as_ptr(), self.encoded + self.data);
        send(&Message::internal(
            Class::Request,
            self.peer,
            internal::VIS_PUT,
            &args,
            Some(payload),
        ))?;
        self.made.clear();
        self.left -= self.data;
        Ok(())
    }

    fn make_put(&mut self) {
        let packet = max_medium(Some(self.peer.rank));
        let to = Peer::new(runtime::get(), self.peer);
        let mut remote = Cursor::new(&self.remote, self.at.0);
        let mut local = Cursor::new(&self.local, self.at.1);
        let records = fill(&to, &mut remote, self.left, |encoded, data| {
            packet.saturating_sub(encoded + data + records::LARGEST)
        });
        (self.encoded, self.data) = (records.encoded(), records.data());
        self.made.reserve(packet);
        records.write(&mut self.made);
        let data = self.made.as_mut_ptr().wrapping_add(self.encoded);
        // SAFETY: `fill` left room for the data in a packet; the client answers for the local side.
        local.take(self.data, |row, before| unsafe {
            mapped::gather(data.wrapping_add(before), row);
        });
        self.at = (remote.position(), local.position());
    }

    fn get_next(&mut self, send: SendMessage<'_>) -> Result<(), Busy> {
        let packet = max_medium(Some(self.peer.rank));
        let from = Peer::new(runtime::get(), self.peer);
        let mut remote = Cursor::new(&self.remote, self.at.0);
        let records = fill(&from, &mut remote, self.left, |encoded, data| {
            if encoded + records::LARGEST > packet {
                0
            } else {
                packet - data
            }
        });
        let mut buffer = Vec::with_capacity(records.encoded());
        records.write(&mut buffer);
        let id = pending_gets().add(PendingGet {
            op: self.op,
            side: self.local.clone(),
            at: self.at.1,
            bytes: records.data(),
            source: self.peer.rank,
        });
        self.op.begin_kind(OpKind::Get, self.peer.rank);
        let args = split(id.0);
        let payload = Some((buffer.as_ptr(), buffer.len()));
        let message = Message::internal(Class::Request, self.peer, internal::VIS_GET, &args, payload);
        if send(&message).is_err() {
            pending_gets().take(id, self.peer.rank);
            self.op.complete(Category::Get);
            return Err(Busy);
        }
        let mut local = Cursor::new(&self.local, self.at.1);
        local.take(records.data(), |_, _| ());
        self.at = (remote.position(), local.position());
        self.left -= records.data();
        Ok(())
    }

    fn send_all(&mut self, send: SendMessage<'_>) -> Result<(), Busy> {
        while !self.next(send)? {}
        Ok(())
    }

    fn start(mut self, immediate: bool) -> Result<Started, Busy> {
        if !immediate {
            self.send_all(&mut wait_for_room)?;
            return Ok(Started::UnderWay);
        }
        let total = self.left;
        if self.send_all(&mut inject::try_send).is_ok() {
            return Ok(Started::UnderWay);
        }
        if self.left == total {
            if let Some(id) = self.id {
                transfer::finish(id);
            }
            return Err(Busy);
        }
        let held = if self.id.is_some() {
            Category::Local
        } else {
            Category::Get
        };
        self.op.begin(held);
        self.held = Some(held);
        deferred::later(self.peer.rank, move || self.next(&mut inject::try_send));
        Ok(Started::UnderWay)
    }
}

/// Destination of the data of one packet of a get.
#[derive(Debug)]
struct PendingGet {
    op: &'static Op,
    side: Side,
    at: Position,
    bytes: usize,
    /// Its sender.
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

/// Reads the records of a packet. None if they are malformed or name memory of a device.
fn read_runs(token: &Token, payload: *const u8, encoded: usize) -> Option<(Vec<Row>, usize)> {
    let mut copy = vec![0_u8; encoded];
    // SAFETY: the caller checked that the message has these bytes. They are copied, since a
    // neighbour could still write them.
    unsafe { std::ptr::copy_nonoverlapping(payload, copy.as_mut_ptr(), encoded) };
    let (runs, data) = records::read(&copy)?;
    let rt = runtime::get();
    let of_host = runs.iter().all(|run| {
        let (low, bytes) = run.extent();
        rt.admit(token.source.rank, token.target_ep, low, bytes).kind.is_none()
    });
    (of_host && data > 0).then_some((runs, data))
}

/// Runs `body`, which touches `run` for the sender of a message.
fn serve(run: &Row, token: &Token, body: impl FnOnce()) {
    let (low, bytes) = run.extent();
    reach::serving(token.source.rank, token.target_ep, low, bytes, body);
}

/// Target of a put: scatters and acknowledges. Returns false if the message is malformed.
pub fn on_put(token: &Token, args: &[Arg], payload: *mut u8, bytes: usize) -> bool {
    let &[a, b, encoded, counted] = args else { return false };
    let encoded = encoded as u32 as usize;
    let Some((runs, data)) = (encoded <= bytes).then(|| read_runs(token, payload, encoded)).flatten() else {
        return false;
    };
    if data != bytes - encoded {
        return false;
    }
    let mut from = payload.wrapping_add(encoded).cast_const();
    for run in &runs {
        // SAFETY: the run is memory that the sender may name, and its data in the message (checked).
        serve(run, token, || unsafe { mapped::scatter(run, from) });
        from = from.wrapping_add(run.bytes * run.count);
    }
    if counted == COUNTED && !peer::arrived(token.source.rank, join(a, b), data) {
        return false;
    }
    inject::reply(token, internal::RMA_PUT_DONE, &[a, b, data as Arg], None);
    true
}

/// Target of a get: gathers and answers. Returns false if the message is malformed.
pub fn on_get(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[a, b] = args else { return false };
    let Some((runs, data)) = read_runs(token, payload, bytes) else {
        return false;
    };
    if data > max_medium(Some(token.source.rank)) {
        return false;
    }
    let mut buffer: Vec<u8> = Vec::with_capacity(data);
    let mut to = buffer.as_mut_ptr();
    for run in &runs {
        // SAFETY: the run is memory that the sender may name, and the buffer has room for all of them
        // (checked).
        serve(run, token, || unsafe { mapped::gather(to, run) });
        to = to.wrapping_add(run.bytes * run.count);
    }
    inject::reply(token, internal::VIS_DATA, &[a, b], Some((buffer.as_ptr(), data)));
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
    let mut local = Cursor::new(&pending.side, pending.at);
    // SAFETY: the client keeps its side until completion, which is now at the earliest; the data is
    // in the message.
    local.take(bytes, |row, before| unsafe {
        mapped::scatter(row, payload.wrapping_add(before));
    });
    pending.op.complete(Category::Get);
    true
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
