//! Sending, and connecting at the first send. A packet on a socket is a header of 8 bytes and a
//! body.
#![forbid(unsafe_code)]

use crate::start::{Conn, Net};
use crate::{sys, MAX_PACKET_BYTES};
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_sys::lock;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// The first packet on a connection, from the connecting side: its rank, and the job token that
/// authenticates it.
pub const HELLO: u32 = 0x6773_0001;
/// A packet of the runtime.
pub const PACKET: u32 = 0x6773_0002;
/// The sender stops: end-of-file after this packet is not a loss.
pub const BYE: u32 = 0x6773_0003;

/// Bytes of a header: kind and sender, in host byte order, because all processes share a host.
pub const HEADER: usize = 8;
/// Bytes of the largest packet on a socket.
pub const LARGEST: usize = HEADER + MAX_PACKET_BYTES;
/// Maximum number of slices of a `sendmsg`; more parts are joined first.
const SLICES: usize = 16;

/// The header of a packet.
pub fn header(kind: u32, rank: JobRank) -> [u8; HEADER] {
    (u64::from(kind) | u64::from(rank.0) << 32).to_ne_bytes()
}

impl Net {
    /// See [`gasnet_conduit::Network::send`]. Packets to a peer that has stopped are dropped,
    /// because the job is ending.
    pub fn send(&self, rank: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert!(
            bytes <= MAX_PACKET_BYTES,
            "defect: a packet of {bytes} bytes is longer than the conduit's limit"
        );
        if !self.states.is_present(rank) || self.stopped.load(Relaxed) {
            return if self.states.has_stopped(rank) {
                Ok(())
            } else {
                Err(Busy)
            };
        }
        if parts.len() >= SLICES {
            return self.send(rank, class, &[&parts.concat()]);
        }
        let header = header(PACKET, self.rank);
        let mut slices = [IoSlice::new(&[]); SLICES];
        slices[0] = IoSlice::new(&header);
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        // The socket is full or broken. If it is broken, the next poll reads end-of-file and
        // reports the loss.
        sys::send(&self.out(rank, class)?.fd, &slices[..=parts.len()]).map_err(|_| Busy)
    }

    /// The connection for sending, established if there is none.
    fn out(&self, rank: JobRank, class: Class) -> Result<Arc<Conn>, Busy> {
        let mut out = lock(&self.peers[rank.index()].out[class as usize]);
        if let Some(conn) = &*out {
            return Ok(conn.clone());
        }
        match self.connect(rank, class) {
            Ok(conn) => return Ok(out.insert(conn).clone()),
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(why) => self.states.lose(rank, format!("cannot connect to it: {why}")),
        }
        Err(Busy)
    }

    fn connect(&self, rank: JobRank, class: Class) -> io::Result<Arc<Conn>> {
        let fd = sys::socket(LARGEST)?;
        sys::connect(&fd, self.peers[rank.index()].names[class as usize])?;
        let hello = [&header(HELLO, self.rank)[..], &self.token.to_ne_bytes()];
        sys::send(&fd, &hello.map(IoSlice::new))?;
        self.channels[class as usize].watch(fd, rank)
    }
}
