//! The socket, the peers, and polls.
#![forbid(unsafe_code)]

use crate::incoming::ALL_ACKS;
use crate::peer::{payload_of, Heard, Pair, Peer};
use crate::sys::{self, Address, Socket, BATCH, BUFFER};
use crate::tag::Keys;
use crate::wire::{Header, Kind, HEADER};
use crate::MAX_PACKET_BYTES;
use gasnet::conduit::{Busy, Class, JobRank, PollScope, StartInfo, Upcalls};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Bytes that each of the socket's buffers is asked to have.
const SOCKET_BUFFER: usize = 8 << 20;
/// Peers with something under way are looked at so often, nanoseconds, and with many of them less often.
const LOOK: u64 = 50_000;
const LOOK_EACH: u64 = 1_000;
/// Alignment of packets that are delivered.
const ALIGN: usize = 64;
/// Times that a peer's host says that nobody listens there, with so much time between them, before the peer is lost.
const REFUSALS: u8 = 3;
const REFUSED_AGAIN: u64 = 10_000_000;
/// A peer that is silent for so long, nanoseconds, is sent something, so that its host can say that it is gone. With many peers less often.
const BEAT: u64 = 500_000_000;
const BEAT_EACH: u64 = 1_000_000;

/// [`Place::fate`]: present.
const HERE: u8 = 0;
/// Gone in order.
const LEFT: u8 = 1;
/// Gone.
const LOST: u8 = 2;

/// Where a peer is, and what is known of it since the first contact.
#[derive(Debug)]
struct Place {
    address: SocketAddr,
    peer: OnceLock<Box<Contact>>,
    fate: AtomicU8,
}

#[derive(Debug)]
struct Contact {
    address: Address,
    state: Mutex<Peer>,
    /// Refusals since it was heard, and when the last of them was.
    refusals: Mutex<(u8, u64)>,
    /// When it was heard.
    heard: AtomicU64,
}

/// What a poll receives into. Polls of several threads, and one inside another, have one each.
struct Context {
    memory: Vec<u8>,
    /// Where the buffers begin, and a place for one packet behind them.
    start: usize,
    found: Vec<(usize, usize)>,
    /// Peers that sent something in this poll.
    touched: Vec<JobRank>,
}

impl Context {
    fn new() -> Self {
        let memory = vec![0; BATCH * BUFFER + MAX_PACKET_BYTES + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Self {
            memory,
            start,
            found: Vec::with_capacity(BATCH),
            touched: Vec::new(),
        }
    }
}

/// What did not count.
#[derive(Debug, Default)]
pub struct Counters {
    /// Datagrams that no member of the job sent, or that were changed on the way.
    pub strange: AtomicU64,
}

/// A started conduit.
pub struct Net {
    rank: JobRank,
    keys: Keys,
    socket: Socket,
    places: Vec<Place>,
    began: Instant,
    /// Peers with something under way, or owed, and when to look at them.
    active: Mutex<Vec<JobRank>>,
    next_look: AtomicU64,
    next_beat: AtomicU64,
    contexts: Mutex<Vec<Context>>,
    /// Requests that came while only replies were wanted.
    deferred: Mutex<VecDeque<(JobRank, Vec<u8>)>>,
    has_deferred: AtomicBool,
    /// Peers to report as lost, and why.
    losses: Mutex<Vec<(JobRank, String)>>,
    has_losses: AtomicBool,
    stopped: AtomicBool,
    /// What was dropped.
    pub counters: Counters,
}

/// Locks; nothing here is left half-done by a panic of the runtime.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An address for the table that all exchange: 16 bytes, port, family.
fn encode(address: SocketAddr) -> [u8; 19] {
    let mut out = [0; 19];
    match address.ip() {
        IpAddr::V4(ip) => {
            out[..4].copy_from_slice(&ip.octets());
            out[18] = 4;
        }
        IpAddr::V6(ip) => {
            out[..16].copy_from_slice(&ip.octets());
            out[18] = 6;
        }
    }
    out[16..18].copy_from_slice(&address.port().to_be_bytes());
    out
}

fn decode(bytes: &[u8]) -> SocketAddr {
    let port = u16::from_be_bytes([bytes[16], bytes[17]]);
    let ip: IpAddr = if bytes[18] == 4 {
        [bytes[0], bytes[1], bytes[2], bytes[3]].into()
    } else {
        std::array::from_fn::<u8, 16, _>(|i| bytes[i]).into()
    };
    SocketAddr::new(ip, port)
}

impl Net {
    /// Opens the socket and tells everybody where it is.
    pub fn open(info: &StartInfo<'_>) -> io::Result<Self> {
        let socket = Socket::open(SocketAddr::new(info.host_address, 0), SOCKET_BUFFER)?;
        let own = gasnet::os::mem::random_u64().to_ne_bytes();
        let table = (info.exchange)(&[&encode(socket.address)[..], &own].concat());
        let entries = table.chunks_exact(19 + own.len());
        let addresses: Vec<SocketAddr> = entries.clone().map(decode).collect();
        if let Some(rank) = addresses.iter().position(|a| a.is_ipv4() != socket.address.is_ipv4()) {
            return Err(io::Error::other(format!(
                "rank {rank} is at {}, rank {} at {}, which are of different versions of IP; GASNET_WORKERIP names the network to use",
                addresses[rank].ip(),
                info.rank,
                socket.address.ip()
            )));
        }
        let randoms: Vec<u8> = entries.clone().flat_map(|entry| entry[19..].iter().copied()).collect();
        let places = addresses.into_iter().map(|address| Place {
            address,
            peer: OnceLock::new(),
            fate: AtomicU8::new(HERE),
        });
        Ok(Self {
            rank: info.rank,
            keys: Keys::new(info.job_token, &randoms),
            places: places.collect(),
            socket,
            began: Instant::now(),
            active: Mutex::default(),
            next_look: AtomicU64::new(u64::MAX),
            next_beat: AtomicU64::new(BEAT),
            contexts: Mutex::default(),
            deferred: Mutex::default(),
            has_deferred: AtomicBool::new(false),
            losses: Mutex::default(),
            has_losses: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }

    /// The descriptor that becomes readable when something has come.
    pub fn fd(&self) -> i32 {
        self.socket.raw()
    }

    /// Where the socket is.
    #[cfg(test)]
    pub fn port(&self) -> u16 {
        self.socket.address.port()
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64 + 1
    }

    fn contact(&self, rank: JobRank) -> &Contact {
        let place = &self.places[rank as usize];
        place.peer.get_or_init(|| {
            let largest = sys::largest_to(place.address).unwrap_or(1280 - 48);
            let pair = Pair {
                me: self.rank,
                peer: rank,
            };
            Box::new(Contact {
                address: Address::new(place.address),
                state: Mutex::new(Peer::new(pair, payload_of(largest), self.socket.buffer / 4, self.now())),
                refusals: Mutex::default(),
                heard: AtomicU64::new(self.now()),
            })
        })
    }

    /// See [`gasnet::conduit::Conduit::send`]. Packets to a peer that ended in order are dropped: the job is ending.
    pub fn send(&self, rank: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert!(
            bytes <= MAX_PACKET_BYTES,
            "defect: a packet of {bytes} bytes is longer than the conduit's limit"
        );
        match self.places[rank as usize].fate.load(Relaxed) {
            HERE if !self.stopped.load(Relaxed) => {}
            LEFT => return Ok(()),
            _ => return Err(Busy),
        }
        let contact = self.contact(rank);
        let mut peer = lock(&contact.state);
        if !peer.has_room(class as usize, bytes) {
            return Err(Busy);
        }
        peer.keep(&self.keys, class as usize, parts);
        self.push_on(rank, contact, &mut peer, self.now());
        Ok(())
    }

    /// Sends what may go to a peer, and has it looked at while something is under way.
    fn push_on(&self, rank: JobRank, contact: &Contact, peer: &mut Peer, now: u64) {
        peer.transmit(&self.keys, now, |header, payload| self.put(contact, header, payload));
        if !peer.listed && !peer.is_quiet() {
            peer.listed = true;
            lock(&self.active).push(rank);
            self.next_look.fetch_min(now + LOOK, Relaxed);
        }
    }

    /// Sends a datagram. False: there is no room now.
    fn put(&self, contact: &Contact, header: &[u8; HEADER], payload: &[u8]) -> bool {
        let pieces = [IoSlice::new(header), IoSlice::new(payload)];
        for _ in 0..3 {
            match self.socket.send(&contact.address, &pieces) {
                Ok(()) => return true,
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock) || why.raw_os_error() == Some(libc::ENOBUFS) => {
                    return false
                }
                // That of an earlier datagram, perhaps to somebody else.
                Err(_) => self.hear_errors(),
            }
        }
        // As good as lost: it will be sent again.
        true
    }

    /// See [`gasnet::conduit::Conduit::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.stopped.load(Relaxed) {
            return 0;
        }
        if self.has_losses.load(Relaxed) && self.has_losses.swap(false, Relaxed) {
            for (rank, why) in std::mem::take(&mut *lock(&self.losses)) {
                upcalls.peer_lost(rank, &why);
            }
        }
        let mut context = lock(&self.contexts).pop().unwrap_or_else(Context::new);
        let mut delivered = 0;
        if scope == PollScope::All && self.has_deferred.load(Relaxed) {
            delivered += self.deliver_deferred(&mut context, upcalls);
        }
        delivered += self.receive(scope, &mut context, upcalls);
        lock(&self.contexts).push(context);
        let now = self.now();
        if now >= self.next_look.load(Relaxed) {
            self.look(now);
        }
        let next_beat = self.next_beat.load(Relaxed);
        if now >= next_beat
            && self
                .next_beat
                .compare_exchange(next_beat, now + BEAT, Relaxed, Relaxed)
                .is_ok()
        {
            self.beat(now);
        }
        delivered
    }

    /// Says something to peers that are silent.
    fn beat(&self, now: u64) {
        let (mut contacts, mut doubts) = (0, false);
        for place in &self.places {
            let Some(contact) = place.peer.get().filter(|_| place.fate.load(Relaxed) == HERE) else {
                continue;
            };
            contacts += 1;
            let refused = lock(&contact.refusals).0 > 0;
            doubts |= refused;
            if refused || now >= contact.heard.load(Relaxed) + BEAT {
                self.acknowledge(contact, &mut lock(&contact.state));
            }
        }
        let next = if doubts { REFUSED_AGAIN } else { BEAT + BEAT_EACH * contacts };
        self.next_beat.store(now + next, Relaxed);
    }

    fn deliver_deferred(&self, context: &mut Context, upcalls: &mut dyn Upcalls) -> usize {
        let mut delivered = 0;
        while delivered < BATCH {
            let next = {
                let mut deferred = lock(&self.deferred);
                let next = deferred.pop_front();
                self.has_deferred.store(!deferred.is_empty(), Relaxed);
                next
            };
            let Some((source, bytes)) = next else { break };
            context.deliver(source, Class::Request, &bytes, upcalls);
            delivered += 1;
        }
        delivered
    }

    fn receive(&self, scope: PollScope, context: &mut Context, upcalls: &mut dyn Upcalls) -> usize {
        let buffers = context.start..context.start + BATCH * BUFFER;
        let result = self.socket.receive(&mut context.memory[buffers], &mut context.found);
        match result {
            Ok(()) => {}
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return 0,
            Err(_) => {
                self.hear_errors();
                return 0;
            }
        }
        let now = self.now();
        let mut delivered = 0;
        let found = std::mem::take(&mut context.found);
        for (i, &(bytes, each)) in found.iter().enumerate() {
            let begin = context.start + i * BUFFER;
            if bytes == 0 {
                self.counters.strange.fetch_add(1, Relaxed);
            }
            let each = if each == 0 { bytes.max(1) } else { each };
            for at in (0..bytes).step_by(each) {
                let range = begin + at..begin + (at + each).min(bytes);
                delivered += usize::from(self.datagram(scope, range, context, now, upcalls));
            }
        }
        context.found = found;
        self.answer(&mut context.touched, now);
        delivered
    }

    /// Takes in one datagram. Returns whether a packet was delivered.
    fn datagram(
        &self,
        scope: PollScope,
        range: std::ops::Range<usize>,
        context: &mut Context,
        now: u64,
        upcalls: &mut dyn Upcalls,
    ) -> bool {
        let Some((source, heard)) = self.hear(&context.memory[range.clone()], now) else {
            self.counters.strange.fetch_add(1, Relaxed);
            return false;
        };
        if context.touched.last() != Some(&source) {
            context.touched.push(source);
        }
        let class = |class: usize| if class == 0 { Class::Request } else { Class::Reply };
        let wanted = |class: Class| scope == PollScope::All || class == Class::Reply;
        let payload = range.start + HEADER..range.end;
        match heard {
            Heard::Nothing => false,
            Heard::Packet(number) if wanted(class(number)) => {
                if (payload.start - context.start) % ALIGN == 0 {
                    upcalls.packet(source, class(number), &mut context.memory[payload]);
                } else {
                    let at = context.start + BATCH * BUFFER;
                    let bytes = payload.len();
                    context.memory.copy_within(payload, at);
                    upcalls.packet(source, class(number), &mut context.memory[at..at + bytes]);
                }
                true
            }
            Heard::Joined(number, bytes) if wanted(class(number)) => {
                context.deliver(source, class(number), &bytes, upcalls);
                true
            }
            Heard::Packet(_) => self.defer(source, context.memory[payload].to_vec()),
            Heard::Joined(_, bytes) => self.defer(source, bytes),
            Heard::Bye => {
                let _ = self.places[source as usize]
                    .fate
                    .compare_exchange(HERE, LEFT, Relaxed, Relaxed);
                false
            }
            Heard::Nonsense => {
                self.lose(source, "it sent a malformed packet".to_owned());
                false
            }
        }
    }

    fn defer(&self, source: JobRank, bytes: Vec<u8>) -> bool {
        lock(&self.deferred).push_back((source, bytes));
        self.has_deferred.store(true, Relaxed);
        false
    }

    /// What a datagram says, and who sent it. None: nobody of this job.
    fn hear(&self, bytes: &[u8], now: u64) -> Option<(JobRank, Heard)> {
        let (head, payload) = bytes.split_first_chunk::<HEADER>()?;
        let header = Header::decode(head)?;
        let place = self.places.get(header.source as usize)?;
        let plausible = header.job == self.keys.job && header.target == self.rank && header.payload as usize == payload.len();
        if !plausible || place.fate.load(Relaxed) != HERE {
            return None;
        }
        // Strangers make no contact.
        if place.peer.get().is_none() && !self.keys.proves(head, u64::from(header.number), payload) {
            return None;
        }
        let contact = self.contact(header.source);
        let mut peer = lock(&contact.state);
        let number = peer.number(&header);
        if !self.keys.proves(head, number, payload) {
            return None;
        }
        lock(&contact.refusals).0 = 0;
        contact.heard.store(now, Relaxed);
        let heard = peer.hear(&header, number, payload, now);
        if peer.waits() {
            self.push_on(header.source, contact, &mut peer, now);
        }
        Some((header.source, heard))
    }

    /// Acknowledges what is due, after a batch, and has the rest looked at later.
    fn answer(&self, touched: &mut Vec<JobRank>, now: u64) {
        touched.sort_unstable();
        touched.dedup();
        for rank in touched.drain(..) {
            let contact = self.contact(rank);
            let mut peer = lock(&contact.state);
            if peer.is_ack_due(now) {
                self.acknowledge(contact, &mut peer);
            }
            self.push_on(rank, contact, &mut peer, now);
        }
    }

    fn acknowledge(&self, contact: &Contact, peer: &mut Peer) {
        let (header, payload) = peer.acknowledge(&self.keys);
        debug_assert_eq!(payload.len(), ALL_ACKS);
        self.put(contact, &header, &payload);
    }

    /// Looks at the peers with something under way.
    fn look(&self, now: u64) {
        let Ok(mut active) = self.active.try_lock() else { return };
        let ranks = std::mem::take(&mut *active);
        self.next_look.store(now + LOOK + LOOK_EACH * ranks.len() as u64, Relaxed);
        drop(active);
        let mut rest = Vec::with_capacity(ranks.len());
        for rank in ranks {
            let contact = self.contact(rank);
            let mut peer = lock(&contact.state);
            let here = self.places[rank as usize].fate.load(Relaxed) == HERE;
            if here {
                peer.look(now);
                if peer.is_ack_due(now) {
                    self.acknowledge(contact, &mut peer);
                }
                peer.transmit(&self.keys, now, |header, payload| self.put(contact, header, payload));
            }
            if here && !peer.is_quiet() {
                rest.push(rank);
            } else {
                peer.listed = false;
            }
        }
        let mut active = lock(&self.active);
        active.append(&mut rest);
        if active.is_empty() {
            self.next_look.store(u64::MAX, Relaxed);
        }
    }

    /// Reads what hosts said about datagrams that they could not deliver.
    fn hear_errors(&self) {
        while let Some((why, Some(address))) = self.socket.next_error() {
            if why.kind() != ErrorKind::ConnectionRefused {
                continue;
            }
            let Some(rank) = self.places.iter().position(|place| place.address == address) else {
                continue;
            };
            let Some(contact) = self.places[rank].peer.get() else {
                continue;
            };
            let (now, mut refusals) = (self.now(), lock(&contact.refusals));
            if refusals.0 == 0 || now >= refusals.1 + REFUSED_AGAIN {
                *refusals = (refusals.0 + 1, now);
            }
            if refusals.0 >= REFUSALS {
                drop(refusals);
                self.lose(
                    rank as JobRank,
                    "its host says that nobody listens at its port any more".to_owned(),
                );
            }
        }
    }

    /// Notes that a peer is gone, for the next poll to report, once.
    fn lose(&self, rank: JobRank, why: String) {
        let place = &self.places[rank as usize];
        if place.fate.compare_exchange(HERE, LOST, Relaxed, Relaxed).is_ok() {
            lock(&self.losses).push((rank, why));
            self.has_losses.store(true, Relaxed);
        }
    }

    /// Takes leave of all peers that were spoken to.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
        for _ in 0..2 {
            for contact in self.places.iter().filter_map(|place| place.peer.get()) {
                let header = lock(&contact.state).control(&self.keys, Kind::Bye, &[]);
                self.put(contact, &header, &[]);
            }
        }
    }
}

impl Context {
    /// Delivers a packet from memory of its own.
    fn deliver(&mut self, source: JobRank, class: Class, bytes: &[u8], upcalls: &mut dyn Upcalls) {
        let at = self.start + BATCH * BUFFER;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        upcalls.packet(source, class, &mut self.memory[at..at + bytes.len()]);
    }
}
