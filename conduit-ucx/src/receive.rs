//! Messages that arrive. UCX reports them from inside its calls, so they wait in queues there, and a
//! poll delivers them.

use crate::ffi::{Fate, KeptMessage, Message};
use crate::link::Link;
use crate::peers::Peers;
use crate::wire::{Header, Kind};
use gasnet_conduit::{Class, JobRank, Upcalls, PACKET_ALIGN};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_conduit_util::pending_queue::PendingQueue;

/// Larger packets stay in UCX's memory where it allows that; smaller ones are copied, because its
/// buffers have this size.
const COPIED: usize = 4096;
/// Most packets of a class that a poll delivers.
const MOST: usize = 64;

/// The bytes of a packet that waits.
enum Body {
    /// A copy.
    Copy(AlignedCopy),
    /// In UCX's memory, at any alignment.
    Kept(KeptMessage),
}

/// A packet that waits.
struct Packet {
    source: JobRank,
    body: Body,
}

/// Packets that wait for a poll. Those of requests are bounded by credits.
pub struct Arrivals {
    max_packet: usize,
    requests: PendingQueue<Packet>,
    replies: PendingQueue<Packet>,
}

impl Arrivals {
    /// Nothing has arrived. `max_packet`: bytes of the largest packet.
    pub fn new(max_packet: usize) -> Self {
        Self {
            max_packet,
            requests: PendingQueue::default(),
            replies: PendingQueue::default(),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.replies.is_empty()
    }

    fn of(&self, class: Class) -> &PendingQueue<Packet> {
        match class {
            Class::Request => &self.requests,
            Class::Reply => &self.replies,
        }
    }

    /// Takes a message of a member of the job.
    pub fn take(&self, peers: &Peers, header: Header, message: Message<'_>) -> Fate {
        let source = JobRank(header.source);
        let corrupt = |what: &str| {
            peers
                .states
                .lose(source, format!("it sent {what}: its memory is corrupt"));
            Fate::Released
        };
        let (Some(kind), Some(data)) = (Kind::of(message.id), message.data) else {
            return corrupt("a message that no rank sends");
        };
        if !peers.give_back(source, header.credits) {
            return Fate::Released;
        }
        let Kind::Packet(class) = kind else {
            if kind == Kind::Bye {
                peers.states.note_stop(source);
            }
            return Fate::Released;
        };
        if data.len() > self.max_packet {
            return corrupt("a packet that is longer than the limit");
        }
        if class == Class::Request && !peers.limits.hold(peers.credits(source), peers.cost(data.len())) {
            return corrupt("more requests than its credits allow");
        }
        let (body, fate) = if message.may_keep && data.len() > COPIED {
            (Body::Kept(KeptMessage::new(data)), Fate::Kept)
        } else {
            (Body::Copy(AlignedCopy::new(data)), Fate::Released)
        };
        self.of(class).push(Packet { source, body });
        fate
    }
}

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
        let (credits, cost) = (self.peers.credits(source), self.peers.cost(packet.len()));
        credits.release(cost);
        // Before the upcall: its reply returns the credit.
        credits.owe(cost);
        upcalls.packet(source, class, packet);
        self.peers.limits.note_owed(source, credits);
    }
}
