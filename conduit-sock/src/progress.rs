//! Polling: accepting connections, receiving packets, noticing ends.
#![forbid(unsafe_code)]

use crate::am::{header, BYE, HEADER, HELLO, LARGEST, PACKET};
use crate::init::{Conn, Lane, Net, HERE, LEFT, LISTENER, NOBODY};
use crate::{sys, MAX_PACKET_BYTES};
use gasnet_conduit::{Class, JobRank, PollScope, Upcalls};
use gasnet_sys::lock;
use std::io::{ErrorKind, IoSliceMut};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Connections looked at in one poll of a class, and connections accepted.
const CONNS_PER_POLL: usize = 16;
/// Packets taken from one connection before the next one's turn.
const PACKETS_PER_CONN: usize = 4;
/// Alignment of packets that are delivered.
const ALIGN: usize = 64;

/// What reading a connection once gave.
enum Read {
    /// Nothing now, or another thread is reading it.
    Nothing,
    /// Something that the runtime need not see.
    Control,
    /// A packet of the runtime: source and length.
    Packet(JobRank, usize),
    /// The connection with this peer is over, and why.
    End(JobRank, &'static str),
}

impl Net {
    /// See [`gasnet_conduit::Conduit::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.stopped.load(Relaxed) {
            return 0;
        }
        let losses = std::mem::take(&mut *lock(&self.losses));
        for (rank, why) in losses {
            upcalls.peer_lost(rank, &why);
        }
        if scope == PollScope::Replies {
            return self.poll_lane(Class::Reply, upcalls);
        }
        // Replies first: they make room.
        let (mut requests, mut delivered) = (false, 0);
        for class in self.top.ready::<2>() {
            requests |= class == Class::Request as u64;
            if class == Class::Reply as u64 {
                delivered += self.poll_lane(Class::Reply, upcalls);
            }
        }
        if requests {
            delivered += self.poll_lane(Class::Request, upcalls);
        }
        delivered
    }

    fn poll_lane(&self, class: Class, upcalls: &mut dyn Upcalls) -> usize {
        let lane = &self.lanes[class as usize];
        let mut memory = lock(&self.buffers).pop().unwrap_or_else(|| vec![0; MAX_PACKET_BYTES + ALIGN]);
        let start = memory.as_ptr().align_offset(ALIGN);
        let buffer = &mut memory[start..start + MAX_PACKET_BYTES];
        let mut delivered = 0;
        for number in lane.epoll.ready::<CONNS_PER_POLL>() {
            if number == LISTENER {
                self.accept(lane);
            } else {
                delivered += self.drain(lane, class, number as usize, buffer, upcalls);
            }
        }
        lock(&self.buffers).push(memory);
        delivered
    }

    fn accept(&self, lane: &Lane) {
        use ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        for _ in 0..CONNS_PER_POLL {
            match sys::accept(&lane.listener, LARGEST).and_then(|fd| lane.watch(fd, NOBODY)) {
                Ok(_) => {}
                Err(why) if matches!(why.kind(), WouldBlock | Interrupted | ConnectionAborted) => return,
                Err(why) => return self.lose(self.rank, format!("it cannot accept connections: {why}")),
            }
        }
    }

    fn drain(&self, lane: &Lane, class: Class, index: usize, buffer: &mut [u8], upcalls: &mut dyn Upcalls) -> usize {
        let Some(conn) = lock(&lane.conns).get(index).cloned().flatten() else {
            return 0;
        };
        let mut delivered = 0;
        for _ in 0..PACKETS_PER_CONN {
            match self.read(&conn, class, buffer) {
                Read::Nothing => break,
                Read::Control => {}
                Read::Packet(source, bytes) => {
                    upcalls.packet(source, class, &mut buffer[..bytes]);
                    delivered += 1;
                }
                Read::End(peer, why) => {
                    lane.forget(&conn);
                    self.lose(peer, why.to_owned());
                    break;
                }
            }
        }
        delivered
    }

    /// Takes one packet off a connection. Believes nothing before the hello.
    fn read(&self, conn: &Arc<Conn>, class: Class, buffer: &mut [u8]) -> Read {
        let Ok(mut peer) = conn.peer.try_lock() else {
            return Read::Nothing;
        };
        let mut head = [0; HEADER];
        let bytes = match sys::receive(&conn.fd, &mut [IoSliceMut::new(&mut head), IoSliceMut::new(buffer)]) {
            Ok(0) => return Read::End(*peer, "its process ended"),
            Ok(bytes) => bytes,
            // What arrived before a reset can still be read; the end follows it.
            Err(why) if why.kind() == ErrorKind::ConnectionReset => return Read::Control,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Read::Nothing,
            Err(_) => return Read::End(*peer, "its connection broke"),
        };
        let sender = (u64::from_ne_bytes(head) >> 32) as JobRank;
        let Some(record) = self.peers.get(sender as usize) else {
            return Read::End(*peer, "it sent a malformed packet");
        };
        if *peer == sender && head == header(PACKET, sender) && (HEADER..=LARGEST).contains(&bytes) {
            return Read::Packet(sender, bytes - HEADER);
        }
        if *peer == sender && head == header(BYE, sender) {
            let _ = record.fate.compare_exchange(HERE, LEFT, Relaxed, Relaxed);
            return Read::Control;
        }
        let greeting = bytes == HEADER + 8 && buffer[..8] == self.token.to_ne_bytes();
        if *peer == NOBODY && head == header(HELLO, sender) && greeting {
            *peer = sender;
            // While this process is itself connecting, that connection will do.
            if let Ok(mut out) = record.out[class as usize].try_lock() {
                out.get_or_insert_with(|| conn.clone());
            }
            return Read::Control;
        }
        Read::End(*peer, "it sent a malformed packet")
    }
}
