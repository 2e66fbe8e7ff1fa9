//! Polling: accepts connections, receives packets, detects the end of connections.
#![forbid(unsafe_code)]

use crate::send::{header, BYE, HEADER, HELLO, LARGEST, PACKET};
use crate::start::{Channel, Conn, Net, LISTENER, UNAUTHENTICATED};
use crate::sys;
use gasnet_conduit::{Class, JobRank, PollScope, Upcalls};
use gasnet_sys::lock;
use std::io::ErrorKind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Maximum number of connections that a poll of a class reads, and that it accepts.
const CONNS_PER_POLL: usize = 16;
/// Maximum number of packets from one connection per poll.
const PACKETS_PER_CONN: usize = 4;
/// Alignment of packets that are delivered.
const ALIGN: usize = 64;

/// The result of reading a connection once.
enum Read {
    /// No packet, or another thread is reading the connection.
    Nothing,
    /// A packet of this conduit, not for the runtime.
    Control,
    /// A packet of the runtime: source, and length with the header.
    Packet(JobRank, usize),
    /// The connection to this peer has ended, and why.
    End(JobRank, &'static str),
}

impl Net {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.stopped.load(Relaxed) {
            return 0;
        }
        if self.states.has_losses() {
            for (rank, why) in self.states.take_losses() {
                upcalls.peer_lost(rank, &why);
            }
        }
        if scope == PollScope::Replies {
            return self.poll_channel(Class::Reply, upcalls);
        }
        // Replies first: they return credits.
        let (mut requests, mut delivered) = (false, 0);
        for class in self.top.ready::<2>() {
            requests |= class == Class::Request as u64;
            if class == Class::Reply as u64 {
                delivered += self.poll_channel(Class::Reply, upcalls);
            }
        }
        if requests {
            delivered += self.poll_channel(Class::Request, upcalls);
        }
        delivered
    }

    fn poll_channel(&self, class: Class, upcalls: &mut dyn Upcalls) -> usize {
        let channel = &self.channels[class as usize];
        let mut memory = lock(&self.buffers).pop().unwrap_or_else(|| vec![0; LARGEST + ALIGN]);
        // A packet is aligned behind its header.
        let start = memory[HEADER..].as_ptr().align_offset(ALIGN);
        let buffer = &mut memory[start..start + LARGEST];
        let mut delivered = 0;
        for number in channel.epoll.ready::<CONNS_PER_POLL>() {
            if number == LISTENER {
                self.accept(channel);
            } else {
                delivered += self.drain(class, number as usize, buffer, upcalls);
            }
        }
        lock(&self.buffers).push(memory);
        delivered
    }

    fn accept(&self, channel: &Channel) {
        use ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        for _ in 0..CONNS_PER_POLL {
            match sys::accept(&channel.listener, LARGEST).and_then(|fd| channel.watch(fd, UNAUTHENTICATED)) {
                Ok(_) => {}
                Err(why) if matches!(why.kind(), WouldBlock | Interrupted | ConnectionAborted) => return,
                Err(why) => {
                    return self
                        .states
                        .lose(self.rank, format!("it cannot accept connections: {why}"))
                }
            }
        }
    }

    fn drain(&self, class: Class, index: usize, buffer: &mut [u8], upcalls: &mut dyn Upcalls) -> usize {
        let channel = &self.channels[class as usize];
        let Some(conn) = lock(&channel.conns).get(index).cloned().flatten() else {
            return 0;
        };
        let mut delivered = 0;
        for _ in 0..PACKETS_PER_CONN {
            match self.read(&conn, class, buffer) {
                Read::Nothing => break,
                Read::Control => {}
                Read::Packet(source, bytes) => {
                    upcalls.packet(source, class, &mut buffer[HEADER..bytes]);
                    delivered += 1;
                }
                Read::End(peer, why) => {
                    channel.forget(&conn);
                    // That of an unauthenticated peer concerns no rank.
                    if peer != UNAUTHENTICATED {
                        self.states.lose(peer, why.to_owned());
                    }
                    break;
                }
            }
        }
        delivered
    }

    /// Reads one packet from a connection. Rejects everything before a valid HELLO.
    fn read(&self, conn: &Arc<Conn>, class: Class, buffer: &mut [u8]) -> Read {
        let Ok(mut peer) = conn.peer.try_lock() else {
            return Read::Nothing;
        };
        // A packet may be shorter than a header.
        buffer[..HEADER].fill(0);
        let bytes = match sys::receive(&conn.fd, buffer) {
            Ok(0) => return Read::End(*peer, "its process ended"),
            Ok(bytes) => bytes,
            // Packets from before a reset can still be read; end-of-file follows them.
            Err(why) if why.kind() == ErrorKind::ConnectionReset => return Read::Control,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Read::Nothing,
            Err(_) => return Read::End(*peer, "its connection failed"),
        };
        let head: [u8; HEADER] = std::array::from_fn(|i| buffer[i]);
        let sender = JobRank((u64::from_ne_bytes(head) >> 32) as u32);
        let Some(record) = self.peers.get(sender.index()) else {
            return Read::End(*peer, "it sent a malformed packet");
        };
        if *peer == sender && head == header(PACKET, sender) && (HEADER..=LARGEST).contains(&bytes) {
            return Read::Packet(sender, bytes);
        }
        if *peer == sender && head == header(BYE, sender) {
            self.states.note_stop(sender);
            return Read::Control;
        }
        let token = self.token.to_ne_bytes();
        let authenticated = bytes == HEADER + token.len() && buffer[HEADER..bytes] == token;
        if *peer == UNAUTHENTICATED && head == header(HELLO, sender) && authenticated {
            *peer = sender;
            // The lock is taken while this process connects itself: then that connection is used.
            if let Ok(mut out) = record.out[class as usize].try_lock() {
                out.get_or_insert_with(|| conn.clone());
            }
            return Read::Control;
        }
        Read::End(*peer, "it sent a malformed packet")
    }
}
