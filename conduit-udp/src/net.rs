//! The socket, the peers, and polling.

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
use crate::peer::{payload_of, Peer, Ranks};
use crate::peers::{decode_address, encode_address, Connection, PeerEntry, ADDRESS_BYTES};
use crate::per_class::PerClass;
use crate::settings::Settings;
use crate::sys::{self, Address, DatagramSlices, Socket, RECV_BATCH};
use crate::wire::HEADER_BYTES;
use crate::{last_part, MAX_PACKET_BYTES};
use coalesce::Coalescer;
use deferred::Deferred;
use gasnet_conduit::{Busy, Class, Cookie, JobRank, PollScope, StartInfo, Upcalls, Wake, WakePromise};
use gasnet_conduit_util::peer_states::PeerStates;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use progress_thread::ProgressThread;
use receive::{Deliverable, ReceiveContext};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds between two runs of the timers of peers with unacknowledged data.
const TIMER_INTERVAL: u64 = 50_000;
/// This number of peers on this host get connected sockets: the first ones. Peers elsewhere do not:
/// a route lookup is short beside their round trip, and a firewall may admit the main port only.
const MAX_CONNECTED: usize = 16;
/// Nanoseconds after which the next poll finds more than a batch: peers fill their windows.
const INATTENTIVE: u64 = 50_000;
/// Batches that such a poll receives at most.
const MAX_BATCHES: usize = 32;

/// Datagrams that were dropped.
#[derive(Debug, Default)]
pub struct Counters {
    /// Datagrams that are damaged or forged, or not addressed to this rank of this job.
    pub rejected: AtomicU64,
    /// Authentic datagrams that were received before, or that are too late to be of use.
    pub duplicates: AtomicU64,
}

/// A started conduit.
pub struct Net {
    /// The environment's settings.
    pub settings: Settings,
    rank: JobRank,
    /// Whether the job spans several hosts.
    spans_hosts: bool,
    keys: Keys,
    socket: Socket,
    peers: Vec<PeerEntry>,
    states: PeerStates,
    /// Ranks with a [`Connection`].
    connected_ranks: Mutex<Vec<JobRank>>,
    /// Peers on this host that got a [`Connection`] so far; the first [`MAX_CONNECTED`] have a
    /// connected socket.
    connected_sockets: AtomicUsize,
    epoch: Instant,
    /// Ranks whose timers run: those with unacknowledged data, or that an ACK is owed to.
    active: Mutex<Vec<JobRank>>,
    next_timers: AtomicU64,
    /// When the timers last ran, in nanoseconds since `epoch`.
    last_timers: AtomicU64,
    next_keepalive: AtomicU64,
    /// Whether the kernel accepts super-packets.
    gso: AtomicBool,
    contexts: Mutex<Vec<ReceiveContext>>,
    /// The memory of this process that peers may access.
    pub segments: Segments,
    /// Packets that arrived when a poll did not deliver their class.
    deferred: PerClass<Deferred>,
    /// Transfers that completed on the progress thread.
    completed: Mutex<Vec<Cookie>>,
    has_completed: AtomicBool,
    coalescer: Coalescer,
    progress: ProgressThread,
    /// Time from which zero-copy placement is allowed; 0: always.
    zero_copy_from: AtomicU64,
    /// Whether the next poll must read the sockets' error queues.
    has_icmp_errors: AtomicBool,
    /// Whether the warning about a peer that never connected was printed.
    has_warned: AtomicBool,
    stopped: AtomicBool,
    /// Counts of dropped datagrams.
    pub counters: Counters,
}

impl Net {
    /// Opens the socket and exchanges addresses and key material. Collective.
    pub fn open(info: &StartInfo<'_>) -> io::Result<Self> {
        let mut settings = Settings::read();
        settings.progress_thread &= info.may_start_threads;
        if !settings.progress_thread {
            // The peers have no progress thread either, so they may compute for any time before
            // they poll first.
            (settings.connect_timeout, settings.warn_after) = (settings.timeout, u64::MAX);
        }
        let socket = Socket::open(SocketAddr::new(info.host_address, 0), settings.buffer).map_err(|error| {
            io::Error::other(format!(
                "no socket on {}: {error}. Check that an interface with this address is up (`ip address`), or select \
                 another with GASNET_WORKERIP",
                info.host_address
            ))
        })?;
        let own_random = gasnet_sys::mem::random_u64().to_ne_bytes();
        let table = (info.exchange)(&[&encode_address(socket.address)[..], &own_random].concat());
        let entries = table.chunks_exact(ADDRESS_BYTES + own_random.len());
        let addresses: Vec<SocketAddr> = entries.clone().map(decode_address).collect();
        if let Some(rank) = addresses.iter().position(|a| a.is_ipv4() != socket.address.is_ipv4()) {
            return Err(io::Error::other(format!(
                "rank {rank} is at {} and rank {} at {}, which are different versions of IP. Set GASNET_WORKERIP to \
                 the address of one host in a network that all hosts share",
                addresses[rank].ip(),
                info.rank,
                socket.address.ip()
            )));
        }
        let randoms: Vec<u8> = entries
            .clone()
            .flat_map(|entry| entry[ADDRESS_BYTES..].iter().copied())
            .collect();
        let peers = addresses.into_iter().map(|address| PeerEntry {
            address,
            connection: OnceLock::new(),
        });
        Ok(Self {
            settings,
            rank: info.rank,
            spans_hosts: info.host.len() < info.size as usize,
            keys: Keys::new(info.job_token, &randoms),
            peers: peers.collect(),
            states: PeerStates::new(info.size as usize),
            connected_ranks: Mutex::default(),
            connected_sockets: AtomicUsize::new(0),
            socket,
            epoch: Instant::now(),
            active: Mutex::default(),
            next_timers: AtomicU64::new(u64::MAX),
            last_timers: AtomicU64::new(0),
            next_keepalive: AtomicU64::new(timers::KEEPALIVE),
            gso: AtomicBool::new(true),
            contexts: Mutex::default(),
            segments: Segments::default(),
            deferred: PerClass::default(),
            completed: Mutex::default(),
            has_completed: AtomicBool::new(false),
            coalescer: Coalescer::default(),
            progress: ProgressThread::new(info.host.len() as u32)?,
            zero_copy_from: AtomicU64::new(0),
            has_icmp_errors: AtomicBool::new(false),
            has_warned: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64 + 1
    }

    fn connection(&self, rank: JobRank) -> &Connection {
        let entry = &self.peers[rank.index()];
        entry.connection.get_or_init(|| {
            let largest = sys::path_payload(entry.address).unwrap_or(1280 - 48);
            let ranks = Ranks {
                me: self.rank,
                peer: rank,
            };
            let (initial_window, now) = (self.socket.buffer / 4, self.now());
            let address = Address::from(entry.address);
            lock(&self.connected_ranks).push(rank);
            let is_local = entry.address.ip() == self.socket.address.ip();
            let may_connect = is_local && self.connected_sockets.fetch_add(1, Relaxed) < MAX_CONNECTED;
            let connected = may_connect.then(|| self.socket.connected(entry.address, self.settings.buffer));
            Box::new(Connection {
                rank,
                address,
                connected: connected.and_then(Result::ok),
                payload: AtomicUsize::new(payload_of(largest)),
                pmtu_changed: AtomicBool::new(false),
                send_errors: Mutex::default(),
                has_send_errors: AtomicBool::new(false),
                state: Mutex::new(Peer::new(
                    ranks,
                    payload_of(largest),
                    initial_window,
                    &self.settings,
                    now,
                )),
                refusals: AtomicU8::new(0),
                refused_at: AtomicU64::new(0),
                last_received: AtomicU64::new(now),
                has_received: AtomicBool::new(false),
            })
        })
    }

    /// The connections that exist now.
    fn connections(&self) -> impl Iterator<Item = &Connection> {
        let ranks = lock(&self.connected_ranks).clone();
        ranks.into_iter().filter_map(|rank| {
            self.peers[rank.index()]
                .connection
                .get()
                .map(|connection| &**connection)
        })
    }

    /// See [`gasnet_conduit::Network::send`]. Packets to a peer that closed in order are dropped:
    /// the job is ending.
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
        let connection = self.connection(rank);
        let mut peer = lock(&connection.state);
        if !peer.has_room(class, bytes) {
            return Err(Busy);
        }
        peer.queue_message(&self.keys, class, parts);
        if class == Class::Reply || !self.try_coalesce(rank, &mut peer, bytes) {
            self.transmit_and_track(rank, connection, &mut peer, self.now());
        }
        Ok(())
    }

    /// Whether the client may sleep until a datagram arrives: nothing waits for a poll.
    pub fn may_sleep(&self) -> bool {
        let has_pending = self.has_icmp_errors.load(Relaxed) || self.has_completed.load(Relaxed);
        !has_pending
            && !self.states.has_losses()
            && self.deferred.iter().all(Deferred::is_empty)
            && !self.has_coalesced()
    }

    /// Transmits what the windows allow, and starts the peer's timers.
    fn transmit_and_track(&self, rank: JobRank, connection: &Connection, peer: &mut Peer, now: u64) {
        self.transmit(connection, peer, now);
        self.track(rank, peer, now);
    }

    /// Transmits what the windows allow.
    fn transmit(&self, connection: &Connection, peer: &mut Peer, now: u64) {
        if connection.pmtu_changed.load(Relaxed) && connection.pmtu_changed.swap(false, Relaxed) {
            peer.set_kernel_payload(connection.payload.load(Relaxed));
        }
        peer.transmit(&self.keys, now, |batch| self.send_batch(connection, batch));
    }

    /// Starts the peer's timers while data is unacknowledged or an ACK is owed.
    fn track(&self, rank: JobRank, peer: &mut Peer, now: u64) {
        if !peer.tracked && !peer.is_idle() {
            peer.tracked = true;
            lock(&self.active).push(rank);
            self.next_timers.fetch_min(now + TIMER_INTERVAL, Relaxed);
            self.progress.on_work(now);
        }
    }

    /// Sends a batch of datagrams. Returns how many were sent, or count as lost: the caller does
    /// not retry these.
    fn send_batch(&self, connection: &Connection, batch: &[DatagramSlices<'_>]) -> usize {
        let mut gso = self.gso.load(Relaxed);
        let (socket, to) = match &connection.connected {
            Some(socket) => (socket, None),
            None => (&self.socket, Some(&connection.address)),
        };
        for attempt in 0..4 {
            let error = match socket.send(to, batch, gso) {
                Ok(sent) => {
                    connection.clear_send_errors(true);
                    if sent < batch.len() {
                        // The kernel does not say why it stopped. The cause may be an ICMP error of
                        // an earlier datagram, which is still in the error queue.
                        self.has_icmp_errors.store(true, Relaxed);
                    }
                    return sent;
                }
                Err(error) => error,
            };
            if error.kind() == ErrorKind::WouldBlock {
                return 0;
            }
            if error.raw_os_error() == Some(libc::ENOBUFS) {
                self.on_send_error(connection, &error, true);
                return 0;
            }
            if attempt > 0 && gso && batch.len() > 1 && sys::is_gso_refusal(&error) {
                gso = false;
                self.refresh_pmtu(connection);
                // Either the path MTU is smaller now, or this kernel does not support GSO. Only the
                // latter disables it.
                let each: usize = batch[0].iter().map(|slice| slice.len()).sum();
                if each <= HEADER_BYTES + connection.payload.load(Relaxed) {
                    self.gso.store(false, Relaxed);
                }
                continue;
            }
            // The error may belong to an earlier datagram to another peer. From the third attempt
            // on it counts as this peer's.
            self.has_icmp_errors.store(true, Relaxed);
            if attempt > 1 {
                self.on_send_error(connection, &error, true);
            }
        }
        // They count as lost; the retransmit timer recovers them.
        batch.len()
    }

    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.stopped.load(Relaxed) {
            return 0;
        }
        if self.states.has_losses() {
            self.states.report(upcalls);
        }
        if self.has_icmp_errors.load(Relaxed) && self.has_icmp_errors.swap(false, Relaxed) {
            self.drain_icmp_errors();
        }
        let pooled = lock(&self.contexts).pop();
        let mut context = pooled.unwrap_or_else(ReceiveContext::new);
        self.on_client_poll();
        let (deliverable, classes) = match scope {
            PollScope::All => (Deliverable::All, [Class::Reply, Class::Request].as_slice()),
            PollScope::Replies => (Deliverable::Replies, [Class::Reply].as_slice()),
        };
        context.deliverable = deliverable;
        context.delivered = self.deliver_deferred(classes, upcalls);
        let now = self.receive_due(&mut context, upcalls);
        let delivered = context.delivered;
        lock(&self.contexts).push(context);
        self.progress.on_poll(now);
        if now >= self.next_timers.load(Relaxed) {
            self.run_timers(now);
        }
        if now >= self.next_keepalive.load(Relaxed) {
            self.keepalive(now);
        }
        delivered
    }

    /// Receives a batch, or several after a time without a poll. Returns the time afterwards.
    fn receive_due(&self, context: &mut ReceiveContext, upcalls: &mut dyn Upcalls) -> u64 {
        let (mut now, mut is_more) = self.receive(context, upcalls);
        if self.progress.since_poll(now) < INATTENTIVE {
            return now;
        }
        for _ in 1..MAX_BATCHES {
            if !is_more {
                break;
            }
            (now, is_more) = self.receive(context, upcalls);
        }
        now
    }

    /// Delivers deferred completions, and deferred packets of these classes.
    fn deliver_deferred(&self, classes: &[Class], upcalls: &mut dyn Upcalls) -> usize {
        let mut delivered = 0;
        if self.has_completed.load(Relaxed) && self.has_completed.swap(false, Relaxed) {
            let completed = std::mem::take(&mut *lock(&self.completed));
            for cookie in completed {
                upcalls.done(cookie.with_tag(0), last_part(cookie));
                delivered += 1;
            }
        }
        for &class in classes {
            let deferred = std::iter::from_fn(|| self.deferred[class].pop());
            for (source, mut packet) in deferred.take(MAX_BATCHES * RECV_BATCH) {
                upcalls.packet(source, class, packet.bytes_mut());
                delivered += 1;
            }
        }
        delivered
    }
}

impl Wake for Net {
    fn fd(&self) -> i32 {
        self.socket.raw()
    }

    fn devices(&self) -> Vec<String> {
        vec![self.socket.address.ip().to_string()]
    }

    fn arm(&self) -> bool {
        self.progress.on_sleep();
        // A datagram that the progress thread is receiving now does not wake the client. After
        // `on_sleep` it receives no more.
        let may_sleep = !self.progress.is_receiving() && self.may_sleep();
        if !may_sleep {
            self.progress.on_awake();
        }
        may_sleep
    }

    /// The progress thread ends the sleep.
    fn watch(&self, wake: fn()) -> WakePromise {
        if !self.progress.is_running() {
            return WakePromise::Never;
        }
        self.progress.watch(wake);
        // Detects what the progress thread deferred before it saw the request to wake the client.
        if self.may_sleep() {
            return WakePromise::Wakes;
        }
        self.progress.on_awake();
        WakePromise::Arrived
    }
}

#[cfg(test)]
mod tests;
