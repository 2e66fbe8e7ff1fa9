//! Sending packets.

pub mod buffers;
pub mod gather;
pub mod message;
pub mod offer;
pub mod post;
pub mod queue;

use crate::buffers::pools::Pools;
use crate::buffers::AsLocal;
use crate::connect::Connector;
use crate::credits::SendReservation;
use crate::eager_rdma::{Slot, SlotHeader};
use crate::fabric::Fabric;
use crate::ffi::{Local, Work};
use crate::operations::CompletionAction;
use crate::peers::Connection;
use crate::send::message::{Message, ROOM};
use crate::send::offer::Offered;
use crate::settings::Settings;
use crate::wire::{self, Kind};
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::parts::length;
use gasnet_conduit_util::peer_states::PeerState;
use gasnet_sys::atomic::Ordering;

/// Messages to peers, and all that they need.
pub struct Messages {
    pub connector: Connector,
    offered: Offered,
    pub pools: Pools,
    /// Bytes of the largest packet.
    pub max_packet: usize,
    /// Bytes of the largest packet that fits receive buffers.
    pub eager: usize,
    /// The least payload of a gathered message, if there are any.
    gather: Option<usize>,
    pub fabric: Fabric,
}

impl Drop for Messages {
    /// Queue pairs end first: they use the memory of all other parts.
    fn drop(&mut self) {
        self.fabric.peers.disconnect();
        self.connector.pairs.xrc = None;
    }
}

impl Messages {
    /// No messages yet. Peers have receive buffers for packets of up to `eager` bytes.
    pub fn new(fabric: Fabric, connector: Connector, pools: Pools, settings: &Settings, eager: usize) -> Self {
        Self {
            connector,
            offered: Offered::default(),
            pools,
            max_packet: settings.max_packet,
            eager,
            gather: settings.gather,
            fabric,
        }
    }

    /// Whether messages are gathered.
    pub fn gathers(&self) -> bool {
        self.gather.is_some()
    }

    /// The connection to a peer. None: what is sent may be dropped, because the peer has stopped.
    #[inline]
    pub fn reach(&self, peer: JobRank) -> Result<Option<&Connection>, Busy> {
        match self.fabric.peers.connection(peer) {
            Some(connection)
                if connection.is_established.load(Ordering::Acquire)
                    && self.fabric.peers.states.state(peer) == PeerState::Present =>
            {
                Ok(Some(connection))
            }
            _ => self.contact(peer),
        }
    }

    /// Begins to connect, or says why not.
    #[cold]
    fn contact(&self, peer: JobRank) -> Result<Option<&Connection>, Busy> {
        match self.fabric.peers.states.state(peer) {
            PeerState::Present => {}
            PeerState::Stopped => return Ok(None),
            PeerState::Lost => return Err(Busy),
        }
        self.connector.connect(&self.fabric, peer);
        // A connection to itself is ready at once.
        let connection = self.fabric.peers.connection(peer).filter(|_| peer == self.fabric.rank);
        let is_ready = |it: &&Connection| it.is_established.load(Ordering::Acquire);
        connection.filter(is_ready).map(Some).ok_or(Busy)
    }

    /// Pays for a packet. None if it is to be dropped.
    #[inline]
    pub fn reserve_send(&self, peer: JobRank, class: Class) -> Result<Option<SendReservation<'_>>, Busy> {
        match self.reach(peer)? {
            Some(connection) => SendReservation::take(&self.fabric.peers, connection, class).map(Some),
            None => Ok(None),
        }
    }

    /// The word header a packet.
    #[inline]
    pub fn word(&self, reservation: &SendReservation<'_>) -> u32 {
        wire::encode(Kind::Packet(reservation.class), self.fabric.rank, reservation.credits)
    }

    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let Some(reservation) = self.reserve_send(peer, class)? else {
            return Ok(());
        };
        let bytes = length(parts);
        let sent = if reservation.connection.rings.takes(bytes) {
            self.write(&reservation, parts, bytes)
        } else {
            self.assemble_and_send(&reservation, parts)
        };
        if sent.is_err() {
            reservation.cancel(&self.fabric.peers);
        }
        sent
    }

    /// Sends a packet into a receive buffer.
    pub fn assemble_and_send(&self, reservation: &SendReservation<'_>, parts: &[&[u8]]) -> Result<(), Busy> {
        let mut room = ROOM;
        match self.message(reservation.class, parts, &mut room)? {
            Message::Buffered(buffer, bytes) if bytes > self.eager => {
                let offered = self.offer(reservation, buffer, bytes);
                offered.map_err(|buffer| {
                    buffer.release();
                    Busy
                })
            }
            message => self
                .fabric
                .transmit(reservation.connection, message, self.word(reservation)),
        }
    }

    /// Writes a packet into the peer's ring, or sends it if that is full.
    fn write(&self, reservation: &SendReservation<'_>, parts: &[&[u8]], bytes: usize) -> Result<(), Busy> {
        let (queue, rings) = (reservation.connection.queue(0), &reservation.connection.rings);
        let mut inline = Slot::new();
        let mut buffer = None;
        let slot = if Slot::length(bytes) <= self.fabric.inline {
            &mut inline
        } else {
            let taken = self.pools.small[usize::from(reservation.class == Class::Reply)].take(self.fabric.domains());
            Slot::inside(buffer.insert(taken.ok_or(Busy)?))
        };
        slot.fill(parts, bytes);
        let guard = self.fabric.lock_queue(queue);
        let Some((mut guard, (number, remote))) = guard.and_then(|guard| Some((guard, rings.next()?))) else {
            if let Some(buffer) = buffer {
                buffer.release();
            }
            return self.assemble_and_send(reservation, parts);
        };
        let header = SlotHeader {
            word: self.word(reservation),
            taken: rings.taken(),
        };
        let record = slot.complete(number, bytes, header);
        let mut local = Local {
            address: record.as_ptr() as usize,
            bytes: record.len(),
            lkey: 0,
        };
        let (work, done) = if let Some(buffer) = buffer {
            local.lkey = buffer.local(queue.rail, 0).lkey;
            (Work::write(&local, remote), CompletionAction::Buffer(buffer))
        } else {
            let mut work = Work::write(&local, remote);
            work.inline();
            (work, CompletionAction::Nothing)
        };
        // SAFETY: inline bytes are read before this returns, and the buffer is released after
        // completion.
        if let Err((done, why)) = unsafe { guard.post(work, done) } {
            drop(guard);
            done.release();
            return Err(self.fabric.refused(queue, "sending a message", why));
        }
        rings.note_written();
        rings.note_reported(header.taken);
        Ok(())
    }
}
