//! The socket, the peers, and polls.

mod authenticate;
mod coalesce;
mod deferred;
mod peer_timeout;
mod progress_thread;
mod receive;
mod rma;
mod timers;
mod zero_copy;

use crate::mac::Keys;
use crate::memory::Segments;
use crate::peer::{payload_of, Pair, Peer};
use crate::peer_table::{decode, encode, Contact, Place, ENTRY, HERE, LEFT};
use crate::sys::{self, Address, Pieces, Socket, BATCH};
use crate::variables::Settings;
use crate::wire::HEADER;
use crate::MAX_PACKET_BYTES;
use coalesce::Held;
use deferred::Deferred;
use gasnet_conduit::{Busy, Class, JobRank, PollScope, StartInfo, TransferId, Upcalls};
use progress_thread::Keeper;
use receive::{Context, Wanted};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Peers with something under way are looked at so often, nanoseconds.
const LOOK: u64 = 50_000;
/// So many peers on this host, the first, have sockets of their own. (Elsewhere the way is longer than the look for it, and firewalls may know the other port only.)
const LINES: usize = 16;

/// What did not count.
#[derive(Debug, Default)]
pub struct Counters {
    /// Datagrams that no member of the job sent, or that were changed on the way.
    pub strange: AtomicU64,
    /// Those of members that had come before, or came too late.
    pub again: AtomicU64,
}

/// A started conduit.
pub struct Net {
    /// What the environment says.
    pub settings: Settings,
    rank: JobRank,
    /// Whether ranks are on other hosts.
    spans_hosts: bool,
    keys: Keys,
    socket: Socket,
    places: Vec<Place>,
    /// Peers that were spoken to, or heard.
    known: Mutex<Vec<JobRank>>,
    /// How many of them are on this host.
    lines: AtomicUsize,
    began: Instant,
    /// Peers with something under way, or owed, and when to look at them.
    active: Mutex<Vec<JobRank>>,
    next_look: AtomicU64,
    /// When somebody last looked.
    looked: AtomicU64,
    next_beat: AtomicU64,
    /// Whether the kernel takes trains.
    trains: AtomicBool,
    contexts: Mutex<Vec<Context>>,
    /// What peers may name of this process's memory.
    pub segments: Segments,
    /// Packets that nobody wanted when they came, by class.
    deferred: [Deferred; 2],
    /// Transfers that were completed when nobody wanted to know.
    finished: Mutex<Vec<TransferId>>,
    has_finished: AtomicBool,
    held: Held,
    keeper: Keeper,
    /// Peers to report as lost, and why.
    losses: Mutex<Vec<(JobRank, String)>>,
    has_losses: AtomicBool,
    /// When long parts of transfers may be received in their places again.
    in_place_from: AtomicU64,
    /// The next poll is to look at what hosts said about datagrams.
    has_errors: AtomicBool,
    /// A peer that never said anything was spoken of.
    has_doubted: AtomicBool,
    stopped: AtomicBool,
    /// What was dropped.
    pub counters: Counters,
}

/// Locks; nothing here is left half-done by a panic of the runtime.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Net {
    /// Opens the socket and tells everybody where it is.
    pub fn open(info: &StartInfo<'_>) -> io::Result<Self> {
        let mut settings = Settings::read();
        settings.thread &= info.may_start_threads;
        if !settings.thread {
            // Peers have no keeper either: until they look at the network for the first time they may compute as long as they like.
            (settings.introduction, settings.doubts) = (settings.timeout, u64::MAX);
        }
        let socket = Socket::open(SocketAddr::new(info.host_address, 0), settings.buffer)?;
        let own = gasnet_sys::mem::random_u64().to_ne_bytes();
        let table = (info.exchange)(&[&encode(socket.address)[..], &own].concat());
        let entries = table.chunks_exact(ENTRY + own.len());
        let addresses: Vec<SocketAddr> = entries.clone().map(decode).collect();
        if let Some(rank) = addresses.iter().position(|a| a.is_ipv4() != socket.address.is_ipv4()) {
            return Err(io::Error::other(format!(
                "rank {rank} is at {} and rank {} at {}, so that hosts were named by addresses of both versions of IP; GASNET_WORKERIP, set to one host's address \
                 in a network that all hosts have, makes them use that",
                addresses[rank].ip(),
                info.rank,
                socket.address.ip()
            )));
        }
        let randoms: Vec<u8> = entries.clone().flat_map(|entry| entry[ENTRY..].iter().copied()).collect();
        let places = addresses.into_iter().map(|address| Place {
            address,
            peer: OnceLock::new(),
            fate: AtomicU8::new(HERE),
        });
        Ok(Self {
            settings,
            rank: info.rank,
            spans_hosts: info.host_ranks < info.size,
            keys: Keys::new(info.job_token, &randoms),
            places: places.collect(),
            known: Mutex::default(),
            lines: AtomicUsize::new(0),
            socket,
            began: Instant::now(),
            active: Mutex::default(),
            next_look: AtomicU64::new(u64::MAX),
            looked: AtomicU64::new(0),
            next_beat: AtomicU64::new(timers::BEAT),
            trains: AtomicBool::new(true),
            contexts: Mutex::default(),
            segments: Segments::default(),
            deferred: Default::default(),
            finished: Mutex::default(),
            has_finished: AtomicBool::new(false),
            held: Held::default(),
            keeper: Keeper::new(info.host_ranks)?,
            losses: Mutex::default(),
            has_losses: AtomicBool::new(false),
            in_place_from: AtomicU64::new(0),
            has_errors: AtomicBool::new(false),
            has_doubted: AtomicBool::new(false),
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

    /// Whether anything was said to a peer, or heard from it.
    #[cfg(test)]
    pub fn knows(&self, rank: JobRank) -> bool {
        self.places[rank as usize].peer.get().is_some()
    }

    /// Whether nothing is under way.
    #[cfg(test)]
    pub fn is_quiet(&self) -> bool {
        self.contacts().all(|contact| lock(&contact.state).is_quiet())
    }

    /// When a peer was heard.
    #[cfg(test)]
    pub fn heard(&self, rank: JobRank) -> u64 {
        self.contact(rank).heard.load(Relaxed)
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
            let (first, now) = (self.socket.buffer / 4, self.now());
            let address = Address::new(place.address);
            lock(&self.known).push(rank);
            let is_here = place.address.ip() == self.socket.address.ip() && self.lines.fetch_add(1, Relaxed) < LINES;
            let line = is_here.then(|| self.socket.line(&address, self.settings.buffer));
            Box::new(Contact {
                rank,
                address,
                line: line.and_then(Result::ok),
                path: AtomicUsize::new(payload_of(largest)),
                is_changed: AtomicBool::new(false),
                trouble: Mutex::default(),
                has_trouble: AtomicBool::new(false),
                state: Mutex::new(Peer::new(pair, payload_of(largest), first, &self.settings, now)),
                refusals: AtomicU8::new(0),
                refused_at: AtomicU64::new(0),
                heard: AtomicU64::new(now),
                has_spoken: AtomicBool::new(false),
            })
        })
    }

    /// Those of all peers that were spoken to, or heard, when this is called.
    fn contacts(&self) -> impl Iterator<Item = &Contact> {
        let known = lock(&self.known).clone();
        known
            .into_iter()
            .filter_map(|rank| self.places[rank as usize].peer.get().map(|contact| &**contact))
    }

    /// See [`gasnet_conduit::Conduit::send`]. Packets to a peer that ended in order are dropped: the job is ending.
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
        if class == Class::Reply || !self.may_wait(rank, &mut peer, bytes) {
            self.push_on(rank, contact, &mut peer, self.now());
        }
        Ok(())
    }

    /// Whether a sleep may begin, which what comes ends.
    pub fn is_idle(&self) -> bool {
        let has_news = [&self.has_losses, &self.has_errors, &self.has_finished]
            .iter()
            .any(|news| news.load(Relaxed));
        !has_news && self.deferred.iter().all(Deferred::is_empty) && !self.holds()
    }

    /// A sleep on the socket may begin; see [`gasnet_conduit::Conduit::arm_wake`].
    pub fn arm_wake(&self) -> bool {
        self.keeper.note_sleep();
        // What the keeper takes from the socket at this moment wakes nobody. From now on it takes nothing.
        let may = !self.keeper.is_serving() && self.is_idle();
        if !may {
            self.keeper.note_awake();
        }
        may
    }

    /// A sleep elsewhere may begin; see [`gasnet_conduit::Conduit::watch`].
    pub fn watch(&self, wake: fn()) -> bool {
        if !self.keeper.is_here() {
            return false;
        }
        self.keeper.watch(wake);
        // What the keeper has kept before it could know is seen here.
        let may = self.is_idle();
        if !may {
            self.keeper.note_awake();
        }
        may
    }

    /// Sends what may go to a peer, and has it looked at while something is under way.
    fn push_on(&self, rank: JobRank, contact: &Contact, peer: &mut Peer, now: u64) {
        self.transmit(contact, peer, now);
        self.keep_in_view(rank, peer, now);
    }

    /// Sends what may go to a peer.
    fn transmit(&self, contact: &Contact, peer: &mut Peer, now: u64) {
        if contact.is_changed.load(Relaxed) && contact.is_changed.swap(false, Relaxed) {
            peer.resize(contact.path.load(Relaxed));
        }
        peer.transmit(&self.keys, now, |run| self.put(contact, run));
    }

    /// Has a peer looked at while something is under way there, or owed.
    fn keep_in_view(&self, rank: JobRank, peer: &mut Peer, now: u64) {
        if !peer.listed && !peer.is_quiet() {
            peer.listed = true;
            lock(&self.active).push(rank);
            self.next_look.fetch_min(now + LOOK, Relaxed);
            self.keeper.note_work(now);
        }
    }

    /// Sends a run of datagrams. Returns how many went, or need not be tried again now.
    fn put(&self, contact: &Contact, run: &[Pieces<'_>]) -> usize {
        let mut trains = self.trains.load(Relaxed);
        let (socket, to) = match &contact.line {
            Some(line) => (line, None),
            None => (&self.socket, Some(&contact.address)),
        };
        for attempt in 0..4 {
            let why = match socket.send(to, run, trains) {
                Ok(sent) => {
                    contact.ease(true);
                    if sent < run.len() {
                        // The system does not say why it stopped: perhaps what a host said of an earlier datagram, which is still to be read.
                        self.has_errors.store(true, Relaxed);
                    }
                    return sent;
                }
                Err(why) => why,
            };
            if why.kind() == ErrorKind::WouldBlock {
                return 0;
            }
            if why.raw_os_error() == Some(libc::ENOBUFS) {
                self.trouble(contact, &why, true);
                return 0;
            }
            if attempt > 0 && trains && run.len() > 1 && sys::no_trains(&why) {
                trains = false;
                self.look_at_path(contact);
                // The path does not take datagrams of that length any more; or else the kernel takes no trains at all.
                let each: usize = run[0].iter().map(|piece| piece.len()).sum();
                if each <= HEADER + contact.path.load(Relaxed) {
                    self.trains.store(false, Relaxed);
                }
                continue;
            }
            // Perhaps that of an earlier datagram, to somebody else; if it comes again and again it is not.
            self.has_errors.store(true, Relaxed);
            if attempt > 1 {
                self.trouble(contact, &why, true);
            }
        }
        // As good as lost: it will be sent again.
        run.len()
    }

    /// See [`gasnet_conduit::Conduit::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.stopped.load(Relaxed) {
            return 0;
        }
        if self.has_losses.load(Relaxed) && self.has_losses.swap(false, Relaxed) {
            let losses = std::mem::take(&mut *lock(&self.losses));
            for (rank, why) in losses {
                upcalls.peer_lost(rank, &why);
            }
        }
        if self.has_errors.load(Relaxed) && self.has_errors.swap(false, Relaxed) {
            self.hear_errors();
        }
        let used = lock(&self.contexts).pop();
        let mut context = used.unwrap_or_else(Context::new);
        self.release();
        let (wanted, classes) = match scope {
            PollScope::All => (Wanted::All, [Class::Reply, Class::Request].as_slice()),
            PollScope::Replies => (Wanted::Replies, [Class::Reply].as_slice()),
        };
        let mut delivered = self.deliver_kept(classes, upcalls);
        let now = self.receive(wanted, &mut context, &mut delivered, upcalls);
        lock(&self.contexts).push(context);
        self.keeper.note_poll(now);
        if now >= self.next_look.load(Relaxed) {
            self.look(now);
        }
        if now >= self.next_beat.load(Relaxed) {
            self.beat(now);
        }
        delivered
    }

    /// Delivers what was kept: completions, and packets of these classes.
    fn deliver_kept(&self, classes: &[Class], upcalls: &mut dyn Upcalls) -> usize {
        let mut delivered = 0;
        if self.has_finished.load(Relaxed) && self.has_finished.swap(false, Relaxed) {
            let finished = std::mem::take(&mut *lock(&self.finished));
            for id in finished {
                upcalls.rma_done(id);
                delivered += 1;
            }
        }
        for &class in classes {
            for (source, mut packet) in std::iter::from_fn(|| self.deferred[class as usize].take()).take(BATCH) {
                upcalls.packet(source, class, packet.bytes_mut());
                delivered += 1;
            }
        }
        delivered
    }
}

#[cfg(test)]
mod tests;
