//! Messages that arrive. UCX reports them from inside its calls, so they go to queues there, from
//! which a poll delivers them.

pub mod deliver;

use crate::ffi::{KeptMessage, Message, Retention};
use crate::peers::Peers;
use crate::wire::{Header, Kind};
use gasnet_conduit::{Class, JobRank, PACKET_ALIGN};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_conduit_util::pool::{Item, Pool};

/// Most bytes of a packet that waits in its queue itself.
const SHORT: usize = 96;
/// Larger packets stay in UCX's memory where it allows that; smaller ones are copied, because its
/// buffers have this size.
const COPIED: usize = 4096;
/// Most buffers for copies. Others come from the heap.
const BUFFERS: usize = 1024;

/// A buffer for a copy.
pub type Buffer = Item<(), Mapped>;

/// Room for a short packet.
#[repr(align(16))]
pub struct Short(pub [u8; SHORT]);

const _: () = assert!(align_of::<Short>() == PACKET_ALIGN);

/// The bytes of a packet that waits.
pub enum Body {
    /// A copy of this length.
    Short(Short, usize),
    /// A copy of this length.
    Buffered(Buffer, usize),
    /// A copy on the heap.
    Copy(AlignedCopy),
    /// In UCX's memory, at any alignment.
    Kept(KeptMessage),
}

/// A packet that waits.
pub struct Packet {
    pub source: JobRank,
    pub body: Body,
}

/// Packets that wait for a poll. Those of requests are bounded by credits.
pub struct Arrivals {
    max_packet: usize,
    requests: PendingQueue<Packet>,
    replies: PendingQueue<Packet>,
    buffers: Pool<(), Mapped>,
}

impl Arrivals {
    /// Nothing has arrived. `max_packet`: bytes of the largest packet.
    pub fn new(max_packet: usize) -> Self {
        Self {
            max_packet,
            requests: PendingQueue::default(),
            replies: PendingQueue::default(),
            buffers: Pool::new(COPIED, BUFFERS),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.replies.is_empty()
    }

    /// Those of a class.
    pub fn of(&self, class: Class) -> &PendingQueue<Packet> {
        match class {
            Class::Request => &self.requests,
            Class::Reply => &self.replies,
        }
    }

    fn copy(&self, data: &[u8]) -> Body {
        let mut short = Short([0; SHORT]);
        if let Some(room) = short.0.get_mut(..data.len()) {
            room.copy_from_slice(data);
            return Body::Short(short, data.len());
        }
        let is_small = data.len() <= COPIED;
        match is_small.then(|| self.buffers.take_or_make(|| ())).flatten() {
            Some(mut buffer) => {
                buffer.bytes(data.len()).copy_from_slice(data);
                Body::Buffered(buffer, data.len())
            }
            None => Body::Copy(AlignedCopy::new(data)),
        }
    }

    /// Takes a message of a member of the job.
    pub fn take(&self, peers: &Peers, header: Header, message: Message<'_>) -> Retention {
        let source = JobRank(header.source);
        let corrupt = |what: &str| {
            peers
                .states
                .lose(source, format!("it sent {what}: its memory is corrupt"));
            Retention::Released
        };
        let (Some(kind), Some(data)) = (Kind::of(message.id), message.data) else {
            return corrupt("a message that no rank sends");
        };
        if !peers.account(source).give_back(header.credits) {
            return Retention::Released;
        }
        let Kind::Packet(class) = kind else {
            if kind == Kind::Bye {
                peers.states.note_stop(source);
            }
            return Retention::Released;
        };
        if data.len() > self.max_packet {
            return corrupt("a packet that is longer than the limit");
        }
        if class == Class::Request && !peers.limits.hold(peers.credits(source), peers.limits.cost(data.len())) {
            return corrupt("more requests than its credits allow");
        }
        let (body, retention) = if message.may_keep && data.len() > COPIED {
            (Body::Kept(KeptMessage::new(data)), Retention::Kept)
        } else {
            (self.copy(data), Retention::Released)
        };
        self.of(class).push(Packet { source, body });
        retention
    }
}
