//! Sending packets: see [`crate::credits`].

mod buffers;

use crate::buffers::{give, Bounce};
use crate::carrier::{Current, QueuedMessage};
use crate::credits::{Am, RequestPath, SendReservation};
use crate::ffi::{SyncFlag, INLINE};
use crate::operations::CompletionAction;
use crate::posts::{DomainGuard, PostDescriptor, Posts, FIRST, MESSAGE};
use crate::region::{Region, FRONT, HEAD};
use crate::settings::Settings;
use crate::wire::{Head, Kind};
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::parts::{gather, length};
use gasnet_conduit_util::peer_states::PeerState;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_sys::atomic::{AtomicBool, Ordering};
use gasnet_sys::maybe_locked::MaybeLocked;

/// A packet in parts.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    slices: &'a [&'a [u8]],
    /// Bytes of all.
    pub bytes: usize,
    /// Number of parts of the payload, which travels apart.
    payload: usize,
}

impl<'a> Parts<'a> {
    /// These parts.
    #[inline]
    pub fn new(parts: &'a [&'a [u8]]) -> Self {
        Self {
            bytes: length(parts),
            slices: parts,
            payload: 0,
        }
    }

    /// The same with a payload of `payload` parts.
    #[inline]
    pub fn with_payload(self, payload: usize) -> Self {
        Self { payload, ..self }
    }

    /// One packet.
    pub fn concat(&self) -> Box<[u8]> {
        self.slices.concat().into()
    }
}

/// The packet of a request.
#[derive(Debug)]
pub enum Packet<'a> {
    Parts(Parts<'a>),
    Reserved(Filled),
}

/// A packet in a buffer that the client has filled.
#[derive(Debug)]
pub struct Filled {
    pub bounce: Bounce,
    pub bytes: usize,
}

impl Packet<'_> {
    #[inline]
    fn bytes(&self) -> usize {
        match self {
            Self::Parts(parts) => parts.bytes,
            Self::Reserved(filled) => filled.bytes,
        }
    }

    #[inline]
    fn payload(&self) -> usize {
        match self {
            Self::Parts(parts) => parts.payload,
            Self::Reserved(_) => 0,
        }
    }

    /// Copies the packet, whose buffer is free then.
    fn copy_to(self, to: &mut [u8]) {
        match self {
            Self::Parts(parts) => gather(parts.slices, to),
            Self::Reserved(mut filled) => {
                to.copy_from_slice(filled.bounce.bytes(filled.bytes));
                filled.bounce.release();
            }
        }
    }
}

/// Resources of a first reply.
#[derive(Debug)]
pub struct ReplyRoom {
    post: PostDescriptor,
    /// For a reply that does not fit into the post.
    bounce: Option<Bounce>,
}

impl ReplyRoom {
    /// Takes the resources of a reply of `bytes` bytes.
    #[inline]
    pub fn take(queue: &mut DomainGuard<'_>, bytes: usize) -> Result<Self, Busy> {
        let Some(post) = queue.take() else { return Err(Busy) };
        let mut bounce = None;
        if FRONT + bytes > INLINE {
            bounce = queue.posts.buffers.pool.take();
            if bounce.is_none() {
                queue.put_back(post);
                return Err(Busy);
            }
        }
        Ok(Self { post, bounce })
    }

    /// Gives them back.
    pub fn give_back(self, posts: &Posts) {
        posts.lock(FIRST).put_back(self.post);
        give(self.bounce);
    }
}

/// Active Messages of a process.
pub struct Messages {
    /// Their state. Domains are locked inside this lock, never around it.
    pub am: MaybeLocked<Am>,
    /// The region that peers write messages into.
    pub region: Region,
    /// Messages whose payloads are complete.
    pub queued: PendingQueue<QueuedMessage>,
    /// Whether a word of a barrier has come, which whoever waits for it reads.
    pub has_word: AtomicBool,
    /// Bytes of the largest packet.
    pub max_packet: usize,
    /// Largest get by FMA.
    pub get_fma: usize,
}

impl Messages {
    /// Whether a word of a barrier has come since the last call.
    #[inline]
    pub fn take_word_event(&self) -> bool {
        self.has_word.load(Ordering::Relaxed) && self.has_word.swap(false, Ordering::Relaxed)
    }

    /// No message is under way.
    pub fn new(settings: &Settings, am: MaybeLocked<Am>, region: Region) -> Self {
        Self {
            am,
            region,
            queued: PendingQueue::default(),
            has_word: AtomicBool::new(false),
            max_packet: settings.max_packet,
            get_fma: settings.get_fma,
        }
    }

    /// A request that this thread delivers now.
    #[inline]
    pub fn as_current(&self, source: JobRank, index: usize, slot: usize) -> Current {
        Current::new(std::ptr::from_ref(self) as usize, source, index, slot)
    }

    /// The request that this thread delivers, if a reply to `peer` is its first.
    #[inline]
    pub fn current(&self, peer: JobRank) -> Option<Current> {
        Current::find(std::ptr::from_ref(self) as usize, peer)
    }

    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, posts: &Posts, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        match posts.peers.states.state(peer) {
            PeerState::Present => {}
            PeerState::Stopped => return Ok(()),
            PeerState::Lost => return Err(Busy),
        }
        let packet = Parts::new(parts);
        let bytes = packet.bytes;
        assert!(bytes <= self.max_packet, "defect: a packet of {bytes} bytes");
        if class == Class::Request {
            return self.request(posts, peer, Packet::Parts(packet));
        }
        match self.current(peer) {
            Some(current) => {
                let mut queue = posts.lock(FIRST);
                let room = ReplyRoom::take(&mut queue, bytes)?;
                self.send_reply(&mut queue, room, current, packet);
                current.note_reply();
                Ok(())
            }
            None => self.further_reply(posts, peer, packet),
        }
    }

    /// Sends a request.
    #[inline]
    fn request(&self, posts: &Posts, peer: JobRank, packet: Packet<'_>) -> Result<(), Busy> {
        let reservation = self.reserve(posts, peer, packet.bytes(), false)?;
        let mut queue = posts.lock(FIRST);
        let Some(post) = queue.take() else {
            drop(queue);
            self.am.lock().cancel(reservation);
            return Err(Busy);
        };
        self.send_request(&mut queue, post, reservation, packet);
        Ok(())
    }

    /// Reserves the resources of a request, except its post.
    #[inline]
    pub fn reserve(&self, posts: &Posts, peer: JobRank, bytes: usize, is_long: bool) -> Result<SendReservation, Busy> {
        let mut am = self.am.lock();
        if let Some(reservation) = am.reserve(peer, bytes, is_long) {
            return Ok(reservation);
        }
        // Peers may keep credits back.
        let asked = am.ask(peer);
        drop(am);
        if let Some(peer) = asked.filter(|peer| !posts.signal(*peer, Kind::Wanted, 0)) {
            self.am.lock().cancel_ask(peer);
        }
        Err(Busy)
    }

    /// Sends a request that has all it needs.
    #[inline]
    pub fn send_request(
        &self,
        queue: &mut DomainGuard<'_>,
        mut post: PostDescriptor,
        reservation: SendReservation,
        packet: Packet<'_>,
    ) {
        let SendReservation {
            peer,
            slot,
            path,
            index,
        } = reservation;
        let (layout, peers) = (&self.region.layout, &queue.posts.peers);
        let (offset, bytes) = (layout.slot(slot), packet.bytes());
        let parts = packet.payload();
        let head = Head { bytes, slot, parts }.encode();
        post.peer = peer;
        let event = match (path, packet) {
            (RequestPath::Eager(space), Packet::Reserved(Filled { bounce, .. })) => {
                let unit = layout.unit(space, index);
                post.put(MESSAGE, bounce.address(), bytes, peers.in_region(peer, unit + FRONT));
                post.and_flag(SyncFlag {
                    value: head,
                    address: peers.in_region(peer, unit + HEAD).address,
                });
                post.done = CompletionAction::Request(slot, Some(bounce));
                Some(peers.event(Kind::Request, index))
            }
            (path, packet) => {
                // SAFETY: the slot is this request's, and has room for the largest packet.
                packet.copy_to(unsafe { self.region.packet(offset, bytes) });
                self.region.word(offset + HEAD).store(head, Ordering::Release);
                post.done = CompletionAction::Request(slot, None);
                if let RequestPath::Eager(space) = path {
                    let from = self.region.base() + offset + HEAD;
                    let to = peers.in_region(peer, layout.unit(space, index) + HEAD);
                    post.put(MESSAGE, from, FRONT - HEAD + bytes, to);
                    Some(peers.event(Kind::Request, index))
                } else {
                    let event = peers.event(Kind::WaitingRequest, index);
                    post.event(MESSAGE, peers.address(peer).handle(), event);
                    None
                }
            }
        };
        // SAFETY: the slot stays as it is until the request has left and is answered.
        unsafe { queue.post(post, event) };
    }

    /// Sends a first reply that has all it needs.
    #[inline]
    pub fn send_reply(&self, queue: &mut DomainGuard<'_>, room: ReplyRoom, current: Current, packet: Parts<'_>) {
        let ReplyRoom { mut post, mut bounce } = room;
        let bytes = FRONT + packet.bytes;
        let head = Head::of_reply(packet.bytes, packet.payload);
        let (from, place) = match &mut bounce {
            None => (post.inline_address(), &mut post.inline()[..bytes]),
            Some(bounce) => (bounce.address(), bounce.bytes(bytes)),
        };
        place[..8].copy_from_slice(&head.to_ne_bytes());
        gather(packet.slices, &mut place[FRONT..]);
        post.done = CompletionAction::Reply(bounce);
        let slot = self.region.layout.slot(current.slot);
        post.put(MESSAGE, from, bytes, queue.posts.peers.in_region(current.source, slot));
        post_reply(queue, post, current);
    }

    /// Sends the first reply to a request from a buffer that the client has filled.
    fn send_reserved_reply(&self, posts: &Posts, current: Current, filled: Filled) -> Result<(), Busy> {
        let Filled { bounce, bytes } = filled;
        let mut queue = posts.lock(FIRST);
        let Some(mut post) = queue.take() else { return Err(Busy) };
        let (slot, peers) = (self.region.layout.slot(current.slot), &posts.peers);
        let to = peers.in_region(current.source, slot + FRONT);
        post.put(MESSAGE, bounce.address(), bytes, to);
        post.and_flag(SyncFlag {
            value: Head::of_reply(bytes, 0),
            address: peers.in_region(current.source, slot).address,
        });
        post.done = CompletionAction::Reply(Some(bounce));
        post_reply(&mut queue, post, current);
        current.note_reply();
        Ok(())
    }

    /// Sends a reply that is not the first to a request that this thread delivers: it waits in a
    /// reply buffer until its receiver has fetched it.
    #[cold]
    pub fn further_reply(&self, posts: &Posts, peer: JobRank, packet: Parts<'_>) -> Result<(), Busy> {
        let Some(place) = self.am.lock().reply_buffers.take(peer) else {
            return Err(Busy);
        };
        let (offset, bytes) = (self.region.layout.reply_buffer(place), packet.bytes);
        // SAFETY: the place is this reply's.
        gather(packet.slices, unsafe { self.region.packet(offset, bytes) });
        let head = Head::of_reply(bytes, 0);
        self.region.word(offset + HEAD).store(head, Ordering::Release);
        if posts.signal(peer, Kind::WaitingReply, place) {
            return Ok(());
        }
        self.am.lock().reply_buffers.give(peer, place);
        Err(Busy)
    }

    /// Sends a packet in a buffer that the client has filled.
    pub fn send_reserved(&self, posts: &Posts, peer: JobRank, class: Class, mut filled: Filled) -> Result<(), Busy> {
        match posts.peers.states.state(peer) {
            PeerState::Present => {}
            PeerState::Stopped => {
                filled.bounce.release();
                return Ok(());
            }
            PeerState::Lost => return Err(Busy),
        }
        match (class, self.current(peer)) {
            (Class::Request, _) => self.request(posts, peer, Packet::Reserved(filled)),
            (Class::Reply, Some(current)) => self.send_reserved_reply(posts, current, filled),
            (Class::Reply, None) => {
                let packet: &[u8] = filled.bounce.bytes(filled.bytes);
                self.further_reply(posts, peer, Parts::new(&[packet]))?;
                filled.bounce.release();
                Ok(())
            }
        }
    }
}

/// Posts a first reply.
#[inline]
fn post_reply(queue: &mut DomainGuard<'_>, mut post: PostDescriptor, current: Current) {
    post.peer = current.source;
    let event = queue.posts.peers.event(Kind::Reply, current.index);
    // SAFETY: inline memory or a buffer, kept until it has left.
    unsafe { queue.post(post, Some(event)) };
}
