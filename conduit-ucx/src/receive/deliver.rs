//! Delivery of the packets that wait.

use crate::link::Link;
use crate::receive::{Body, Packet};
use gasnet_conduit::{Class, JobRank, Upcalls, PACKET_ALIGN};
use gasnet_conduit_util::aligned_copy::AlignedCopy;

/// Most packets of a class that a poll delivers.
const MOST: usize = 64;

impl Link {
    /// Delivers packets of a class. Returns their number.
    pub fn deliver(&self, class: Class, upcalls: &mut dyn Upcalls) -> usize {
        let queue = self.arrivals.of(class);
        let mut delivered = 0;
        while delivered < MOST && !queue.is_empty() {
            let Some(Packet { source, body }) = queue.pop() else {
                break;
            };
            match body {
                Body::Short(mut short, bytes) => self.upcall(source, class, &mut short.0[..bytes], upcalls),
                Body::Buffered(mut buffer, bytes) => {
                    self.upcall(source, class, buffer.bytes(bytes), upcalls);
                    buffer.release();
                }
                Body::Copy(mut copy) => self.upcall(source, class, copy.bytes(), upcalls),
                Body::Kept(mut message) => {
                    let bytes = message.bytes();
                    if bytes.as_ptr().align_offset(PACKET_ALIGN) == 0 {
                        self.upcall(source, class, bytes, upcalls);
                    } else {
                        self.upcall(source, class, AlignedCopy::new(bytes).bytes(), upcalls);
                    }
                    self.worker.turn().release(message);
                }
            }
            delivered += 1;
        }
        delivered
    }

    fn upcall(&self, source: JobRank, class: Class, packet: &mut [u8], upcalls: &mut dyn Upcalls) {
        if class == Class::Reply {
            return upcalls.packet(source, class, packet);
        }
        let (credits, cost) = (self.peers.credits(source), self.peers.limits.cost(packet.len()));
        credits.release(cost);
        // Before the upcall: its reply returns the credit.
        credits.owe(cost);
        upcalls.packet(source, class, packet);
        self.peers.limits.note_owed(source, credits);
    }
}
