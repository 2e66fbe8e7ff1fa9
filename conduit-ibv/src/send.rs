//! Sending packets.

pub mod gather;
pub mod queue;

use crate::buffers::{AsLocal, Buffer};
use crate::eager_rdma::{Slot, SlotHeader};
use crate::ffi::{Errno, Local, Work};
use crate::net::Net;
use crate::peers::{Connection, Peers};
use crate::rail::Rail;
use crate::route::Route;
use crate::send::queue::{CompletionAction, SendQueue};
use crate::wire::{self, Kind};
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};
use gasnet_sys::atomic::Ordering;
use std::mem::MaybeUninit;

/// Most bytes of an inline message of several parts.
const INLINE: usize = 256;

/// Where the parts of an inline message are put together.
pub type Room = [MaybeUninit<u8>; INLINE];

/// An empty room.
pub const ROOM: Room = [const { MaybeUninit::uninit() }; INLINE];

/// A peer that may be sent to, and what the message costs and returns, until it is sent or not.
pub struct Grant<'a> {
    pub connection: &'a Connection,
    pub class: Class,
    /// Credits that the message returns.
    pub credits: u32,
}

/// A message that waits for its work request.
pub enum Message<'a> {
    /// Bytes that the work request takes over.
    Inline(&'a [u8]),
    /// So many bytes in a buffer.
    Buffered(Buffer, usize),
}

impl Grant<'_> {
    /// The packet to a peer was not sent.
    #[cold]
    pub fn revoke(&self, peers: &Peers, peer: JobRank) {
        let _ = peers.give_back(self.connection, u32::from(self.class == Class::Request));
        self.connection.credits.owe(self.credits);
        peers.note_owed(peer, self.connection);
    }
}

impl Message<'_> {
    /// It is not sent.
    pub fn release(self) {
        if let Self::Buffered(buffer, _) = self {
            buffer.release();
        }
    }
}

impl Net {
    /// The connection to a peer. None: what is sent may be dropped, because the peer has stopped.
    #[inline]
    pub fn reach(&self, peer: JobRank) -> Result<Option<&Connection>, Busy> {
        match self.peers.connection(peer) {
            Some(connection) if connection.is_established.load(Ordering::Acquire) && self.may_send(peer) => {
                Ok(Some(connection))
            }
            _ => self.contact(peer),
        }
    }

    #[inline]
    fn may_send(&self, peer: JobRank) -> bool {
        !self.is_stopped() && self.peers.states.is_present(peer)
    }

    /// Begins to connect, or says why not.
    #[cold]
    fn contact(&self, peer: JobRank) -> Result<Option<&Connection>, Busy> {
        if self.is_stopped() {
            return Err(Busy);
        }
        if self.peers.states.has_stopped(peer) {
            return Ok(None);
        }
        self.connect(peer);
        // A connection to itself is ready at once.
        let connection = self.peers.connection(peer).filter(|_| peer == self.rank);
        let is_ready = |it: &&Connection| it.is_established.load(Ordering::Acquire);
        connection.filter(is_ready).map(Some).ok_or(Busy)
    }

    /// Pays for a packet. None if it is to be dropped.
    #[inline]
    pub fn grant(&self, peer: JobRank, class: Class) -> Result<Option<Grant<'_>>, Busy> {
        let Some(connection) = self.reach(peer)? else {
            return Ok(None);
        };
        if class == Class::Request && !self.peers.take(connection) {
            return Err(Busy);
        }
        let credits = connection.credits.take_owed(wire::MOST_CREDITS);
        Ok(Some(Grant {
            connection,
            class,
            credits,
        }))
    }

    /// The word beside a packet.
    #[inline]
    pub fn word(&self, grant: &Grant<'_>) -> u32 {
        wire::encode(Kind::Packet(grant.class), self.rank, grant.credits)
    }

    /// The HCA of a queue.
    #[inline]
    pub fn rail(&self, queue: &SendQueue) -> &Rail {
        &self.rails[self.paths[queue.path].rail]
    }

    /// A call for a peer failed: what it was to do. Anything but a lack of room loses the peer,
    /// unless the HCA has failed.
    #[cold]
    pub fn refused(&self, queue: Route<'_>, what: &str, why: Errno) -> Busy {
        if why == Errno::NO_MEMORY {
            return Busy;
        }
        self.take_events(self.rail(&queue));
        if !self.has_failed.load(Ordering::Relaxed) {
            let text = format!("{}: {what} failed: {why}", self.name(queue.path));
            self.peers.states.lose(queue.peer(), text);
        }
        Busy
    }

    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let Some(grant) = self.grant(peer, class)? else {
            return Ok(());
        };
        let bytes = length(parts);
        let sent = if grant.connection.rings.takes(bytes) {
            self.write(&grant, parts, bytes)
        } else {
            self.assemble_and_send(&grant, parts)
        };
        if sent.is_err() {
            grant.revoke(&self.peers, peer);
        }
        sent
    }

    /// Sends a packet into a receive buffer.
    pub fn assemble_and_send(&self, grant: &Grant<'_>, parts: &[&[u8]]) -> Result<(), Busy> {
        let mut room = ROOM;
        match self.message(grant.class, parts, &mut room)? {
            Message::Buffered(buffer, bytes) if bytes > self.eager => {
                let offered = self.offer(grant, buffer, bytes);
                offered.map_err(|buffer| {
                    buffer.release();
                    Busy
                })
            }
            message => self.transmit(grant.connection, message, self.word(grant)),
        }
    }

    /// Writes a packet into the peer's ring, or sends it if that is full.
    fn write(&self, grant: &Grant<'_>, parts: &[&[u8]], bytes: usize) -> Result<(), Busy> {
        let (queue, rings) = (grant.connection.queue(0), &grant.connection.rings);
        let mut inline = Slot::new();
        let mut buffer = None;
        let slot = if Slot::length(bytes) <= self.inline {
            &mut inline
        } else {
            let taken = self.pools.small[usize::from(grant.class == Class::Reply)].take(self.domains());
            Slot::inside(buffer.insert(taken.ok_or(Busy)?))
        };
        slot.fill(parts, bytes);
        let turn = queue.turn(self.rail(&queue));
        let Some((mut turn, (number, remote))) = turn.and_then(|turn| Some((turn, rings.next()?))) else {
            if let Some(buffer) = buffer {
                buffer.release();
            }
            return self.assemble_and_send(grant, parts);
        };
        let beside = SlotHeader {
            word: self.word(grant),
            taken: rings.taken(),
        };
        let record = slot.seal(number, bytes, beside);
        let mut local = Local {
            address: record.as_ptr() as usize,
            bytes: record.len(),
            lkey: 0,
        };
        let (work, done) = if let Some(buffer) = buffer {
            local.lkey = buffer.local(self.paths[queue.path].rail, 0).lkey;
            (Work::write(&local, remote), CompletionAction::Buffer(buffer))
        } else {
            let mut work = Work::write(&local, remote);
            work.inline();
            (work, CompletionAction::Nothing)
        };
        // SAFETY: inline bytes are read before this returns, and the buffer is released after
        // completion.
        if let Err((done, why)) = unsafe { turn.post(work, done) } {
            drop(turn);
            done.release();
            return Err(self.refused(queue, "sending a message", why));
        }
        rings.note_written();
        rings.note_reported(beside.taken);
        Ok(())
    }

    /// Assembles a packet.
    #[inline]
    pub fn message<'a>(&self, class: Class, parts: &[&'a [u8]], room: &'a mut Room) -> Result<Message<'a>, Busy> {
        let bytes = length(parts);
        assert!(
            bytes <= self.settings.max_packet,
            "defect: a packet of {bytes} bytes is longer than the conduit's limit"
        );
        if bytes <= self.inline {
            if let [whole] = parts {
                return Ok(Message::Inline(whole));
            }
            if bytes <= INLINE {
                // SAFETY: the room has at least as many bytes.
                unsafe { concatenate(parts, room.as_mut_ptr().cast()) };
                // SAFETY: so many were written.
                return Ok(Message::Inline(unsafe {
                    std::slice::from_raw_parts(room.as_ptr().cast(), bytes)
                }));
            }
        }
        let (buffer, bytes) = self.buffered(class, parts)?;
        Ok(Message::Buffered(buffer, bytes))
    }

    /// Assembles a packet in a buffer.
    pub fn buffered(&self, class: Class, parts: &[&[u8]]) -> Result<(Buffer, usize), Busy> {
        let bytes = length(parts);
        let index = usize::from(class == Class::Reply);
        let pool = if bytes <= self.pools.small[index].pool.bytes() {
            &self.pools.small[index]
        } else {
            &self.pools.large[index]
        };
        let mut buffer = pool.take(self.domains()).ok_or(Busy)?;
        // SAFETY: the buffer has at least as many bytes.
        unsafe { concatenate(parts, buffer.bytes(bytes).as_mut_ptr()) };
        Ok((buffer, bytes))
    }

    /// Sends a message, with a word beside it.
    #[inline]
    pub fn transmit(&self, connection: &Connection, message: Message<'_>, word: u32) -> Result<(), Busy> {
        let queue = connection.queue(0);
        let Some(mut turn) = queue.turn(self.rail(&queue)) else {
            message.release();
            return Err(Busy);
        };
        let posted = self.post_message(&mut turn, message, word);
        drop(turn);
        posted.map_err(|why| self.refused(queue, "sending a message", why))
    }

    /// Posts a message, in the turn of its queue. If that fails, its buffer is free.
    #[inline]
    pub fn post_message(
        &self,
        turn: &mut crate::send::queue::QueueGuard<'_>,
        message: Message<'_>,
        word: u32,
    ) -> Result<(), Errno> {
        let rail = self.paths[turn.queue().path].rail;
        let posted = match message {
            Message::Inline(bytes) => {
                let local = Local {
                    address: bytes.as_ptr() as usize,
                    bytes: bytes.len(),
                    lkey: 0,
                };
                let mut work = Work::send(&local, word);
                work.inline();
                // SAFETY: the bytes are read before this returns.
                unsafe { turn.post(work, CompletionAction::Nothing) }
            }
            Message::Buffered(buffer, bytes) => {
                let work = Work::send(&buffer.local(rail, bytes), word);
                // SAFETY: the buffer is released after completion.
                unsafe { turn.post(work, CompletionAction::Buffer(buffer)) }
            }
        };
        posted.map_err(|(done, why)| {
            done.release();
            why
        })
    }

    /// Tells a peer that this process has stopped.
    pub fn say_bye(&self, connection: &Connection) -> Result<(), Errno> {
        let queue = connection.queue(0);
        let mut turn = queue.turn(self.rail(&queue)).ok_or(Errno::NO_MEMORY)?;
        turn.signal();
        let word = wire::encode(Kind::Bye, self.rank, 0);
        self.post_message(&mut turn, Message::Inline(&[]), word)
    }

    /// Returns credits to a peer, and reports on rings, in a message of their own.
    pub fn return_credits(&self, peer: JobRank) {
        let Ok(Some(connection)) = self.reach(peer) else {
            return;
        };
        let credits = connection.credits.take_owed(wire::MOST_CREDITS);
        let report = connection.rings.report();
        let encoded = report.encode();
        let mut room = ROOM;
        let message = self.message(Class::Reply, &[&encoded], &mut room);
        let word = wire::encode(Kind::Note, self.rank, credits);
        let sent = message.and_then(|message| self.transmit(connection, message, word));
        if sent.is_err() {
            connection.credits.owe(credits);
            self.peers.note(peer, connection);
        } else {
            connection.rings.note_reported(report.taken);
            self.peers.note_owed(peer, connection);
        }
    }
}

/// Bytes of a packet.
#[inline]
fn length(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Writes the parts one after another.
///
/// # Safety
/// There is room for all of them.
#[inline]
unsafe fn concatenate(parts: &[&[u8]], mut to: *mut u8) {
    for part in parts {
        // SAFETY: the caller's.
        unsafe {
            to.copy_from_nonoverlapping(part.as_ptr(), part.len());
            to = to.add(part.len());
        }
    }
}

/// The buffer that was reserved.
pub fn buffer_of(reserved: SendBuffer) -> Buffer {
    // SAFETY: the runtime returns what `reserve` has given it, once.
    unsafe { Buffer::from_address(reserved.0 as usize) }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.settings.max_packet
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        assert!(bytes <= self.max_bytes(), "defect: a send buffer of {bytes} bytes");
        let buffer = self.pools.reserved.take(self.domains()).ok_or(Busy)?;
        Ok(SendBuffer(buffer.into_address() as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        let grant = self.grant(peer, class)?;
        let mut held = buffer_of(buffer);
        let Some(grant) = grant else {
            held.release();
            return Ok(());
        };
        let queue = grant.connection.queue(0);
        let keep = |held: Buffer| {
            held.into_address();
            grant.revoke(&self.peers, peer);
        };
        if grant.connection.rings.takes(bytes) {
            let written = self.write(&grant, &[held.bytes(bytes)], bytes);
            match written {
                Ok(()) => held.release(),
                Err(Busy) => keep(held),
            }
            return written;
        }
        if bytes > self.eager {
            return self.offer(&grant, held, bytes).map_err(|held| {
                keep(held);
                Busy
            });
        }
        let Some(mut turn) = queue.turn(self.rail(&queue)) else {
            keep(held);
            return Err(Busy);
        };
        let rail = self.paths[queue.path].rail;
        let work = Work::send(&held.local(rail, bytes), self.word(&grant));
        // SAFETY: the buffer is released after completion.
        let posted = unsafe { turn.post(work, CompletionAction::Buffer(held)) };
        drop(turn);
        posted.map_err(|(done, why)| {
            if let CompletionAction::Buffer(held) = done {
                keep(held);
            }
            self.refused(queue, "sending a message", why)
        })
    }

    fn release(&self, buffer: SendBuffer) {
        buffer_of(buffer).release();
    }
}
