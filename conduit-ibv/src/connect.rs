//! Connections: at start by an exchange, later by handshakes with retransmission and a limit.

pub mod file;
pub mod handshake;
pub mod policy;
pub mod resolve;
pub mod thread;

use crate::connect::handshake::{Datagram, Endpoint, Step, MOST_PATHS};
use crate::connect::resolve::{Failure, Unresolved};
use crate::events;
use crate::ffi::{Access, Channel, Datagrams, Errno, SendError, Transport};
use crate::memory::limits::advised;
use crate::net::Net;
use crate::peers::{pair_name, Connection};
use crate::send::queue::SendQueue;
use crate::xrc::XrcPeer;
use gasnet_conduit::{JobRank, StartInfo};
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::eventfd::Eventfd;
use gasnet_sys::lock;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The handshakes of a process. Its lock is taken before all others.
pub struct Connector {
    inner: Mutex<Inner>,
    /// That of the datagrams, if a thread waits for them.
    channel: Option<Channel>,
    /// Wakes that thread.
    alarm: Option<Eventfd>,
    /// Handshakes under way.
    count: AtomicUsize,
    /// Whether the address of a peer is not resolved. Calls that need it may block for seconds.
    may_block: AtomicBool,
}

struct Inner {
    datagrams: Datagrams,
    waiting: Vec<Waiting>,
    unresolved: Unresolved,
    /// Whether an error of a datagram was reported.
    has_warned: bool,
}

/// A handshake under way.
struct Waiting {
    peer: JobRank,
    /// What is sent again.
    step: Step,
    begun: Instant,
    /// When that is.
    next: Instant,
    interval: Duration,
}

impl Connector {
    /// No handshakes yet. With a channel of the datagrams' own, a thread waits for them.
    pub fn new(datagrams: Datagrams, channel: Option<Channel>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                datagrams,
                waiting: Vec::new(),
                unresolved: Unresolved::default(),
                has_warned: false,
            }),
            alarm: channel.as_ref().and_then(|_| Eventfd::new().ok()),
            channel,
            count: AtomicUsize::new(0),
            may_block: AtomicBool::new(false),
        }
    }

    /// Whether a thread waits for datagrams.
    pub fn has_channel(&self) -> bool {
        self.channel.is_some()
    }

    /// Whether polls leave handshakes to it, so that they do not block.
    pub fn is_left_to_thread(&self) -> bool {
        self.alarm.is_some() && self.may_block.load(Ordering::Relaxed)
    }

    /// What that thread waits for.
    pub fn fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        let channel = self.channel.as_ref().map(Channel::fd);
        channel.into_iter().chain(self.alarm.as_ref().map(Eventfd::fd))
    }

    /// Before that thread sleeps: makes the next datagram readable. False if a handshake is under
    /// way, so that it has to look again soon.
    pub fn arm_own(&self) -> bool {
        if let Some(channel) = &self.channel {
            let _ = channel.drain();
        }
        if let Some(alarm) = &self.alarm {
            alarm.wait(None, Duration::ZERO);
        }
        lock(&self.inner).datagrams.arm().is_ok() && !self.is_busy()
    }

    /// Whether any handshake is under way.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Before another thread sleeps: makes the next datagram an event of its channel. False if a
    /// poll should look first.
    pub fn arm(&self) -> bool {
        !self.is_busy() && (self.has_channel() || lock(&self.inner).datagrams.arm().is_ok())
    }
}

impl Net {
    /// Begins to connect to a peer, if nobody has. Polls do the rest. No effect if another thread
    /// does the same for any peer.
    #[cold]
    pub fn connect(&self, peer: JobRank) {
        let Ok(mut inner) = self.connector.inner.try_lock() else {
            return;
        };
        if self.peers.connection(peer).is_some() || !self.peers.states.is_present(peer) {
            return;
        }
        if !self.settings.connects_later && peer != self.rank {
            let why = "GASNET_CONNECTFILE_IN does not name it, and GASNET_CONNECT_DYNAMIC is off";
            self.peers.states.lose(peer, format!("it is not connected: {why}"));
            return;
        }
        let created = self.create(peer).and_then(|connection| {
            if peer != self.rank {
                self.wait_for(&mut inner, peer, Step::Ask);
                return Ok(());
            }
            let own = self.endpoints(connection);
            self.ready(connection, &own).map_err(|failure| failure.why)?;
            connection.is_established.store(true, Ordering::Release);
            self.arm_migration(connection);
            Ok(())
        });
        if let Err(why) = created {
            self.not_connected(peer, &Failure::local(why));
        }
    }

    /// Connects to all peers of `wanted`, which contains this process for each of them. Collective.
    ///
    /// Each process contributes its ports, and the numbers of its queue pairs by peer.
    pub fn connect_all(&self, info: &StartInfo<'_>, wanted: &[JobRank]) -> Result<(), String> {
        let failed = |why: Errno| format!("{}: connections failed: {}", self.name(0), self.why_no_pair(why));
        let created = wanted.iter().try_for_each(|peer| self.create(*peer).map(|_| ()));
        let ports: Vec<Endpoint> = self.paths.iter().map(|path| path.endpoint(0)).collect();
        let numbers = self.peers.ranks().flat_map(|peer| {
            let connection = self.peers.connection(peer);
            let number = move |path: usize| connection.map_or(0, |it: &Connection| Self::target(it, path));
            (0..self.paths.len()).map(number)
        });
        let senders = self.xrc.as_ref().map(|xrc| xrc.senders(self.paths.len()));
        let mut own: Vec<u8> = ports.iter().flat_map(Endpoint::encode).collect();
        let front = own.len();
        own.extend(numbers.chain(senders.into_iter().flatten()).flat_map(u32::to_le_bytes));
        let all = (info.exchange)(&own);
        let connected = created.map_err(failed).and_then(|()| {
            wanted.iter().try_for_each(|peer| {
                let theirs = &all[peer.index() * own.len()..][..own.len()];
                let number = |place: usize| {
                    let at = &theirs[front + 4 * place..];
                    u32::from_le_bytes([at[0], at[1], at[2], at[3]])
                };
                let ports = theirs[..front].chunks_exact(Endpoint::BYTES).enumerate();
                let paths = self.paths.len();
                let first_sender = self.peers.count() as usize * paths;
                let endpoints = ports.map(|(path, port)| Endpoint {
                    number: number(self.rank.index() * paths + path),
                    sender: self
                        .xrc
                        .as_ref()
                        .map_or(0, |xrc| number(first_sender + xrc.sender_to(self.rank, path, paths))),
                    ..Endpoint::decode(port)
                });
                let endpoints: Vec<Endpoint> = endpoints.collect();
                let connection = self.peers.connection(*peer).ok_or("defect: no connection")?;
                resolve::in_time(|| self.ready(connection, &endpoints)).map_err(|failure| {
                    let host = (info.place_of)(*peer).host;
                    format!(
                        "no connection to rank {peer} (host {host}): {}",
                        self.describe(&failure)
                    )
                })
            })
        });
        // A message to a queue pair that is not connected yet would be lost, and sent again late.
        let all = (info.exchange)(&[u8::from(connected.is_ok())]);
        connected?;
        if let Some(rank) = all.iter().position(|ok| *ok == 0) {
            return Err(format!("rank {rank} could not connect"));
        }
        for connection in wanted.iter().filter_map(|peer| self.peers.connection(*peer)) {
            connection.is_established.store(true, Ordering::Release);
            self.arm_migration(connection);
        }
        Ok(())
    }

    /// The connection to a peer failed, so that it is lost.
    fn not_connected(&self, peer: JobRank, failure: &Failure) {
        self.peers
            .states
            .lose(peer, format!("a connection failed: {}", self.describe(failure)));
    }

    /// A call with the address of a peer failed. If that may pass, the datagram that led to it
    /// counts as lost: it is sent again.
    fn not_reached(&self, inner: &mut Inner, peer: JobRank, failure: &Failure) {
        if !failure.why.is_unresolved() || inner.unresolved.is_given_up(peer) {
            return self.not_connected(peer, failure);
        }
        self.connector.may_block.store(true, Ordering::Relaxed);
        if let Some(alarm) = &self.connector.alarm {
            alarm.wake();
        }
    }

    fn note_resolved(&self, inner: &mut Inner, peer: JobRank) {
        let any_left = inner.unresolved.forget(peer);
        self.connector.may_block.store(any_left, Ordering::Relaxed);
    }

    /// Why a connection could not be made, and what to do about it.
    pub fn why_no_pair(&self, why: Errno) -> String {
        if why != Errno::NO_MEMORY {
            return why.to_string();
        }
        format!(
            "{}. It has {} queue pairs for all processes of its host: GASNET_CONNECT_STATIC=0 makes only those that \
             are used, and GASNET_USE_XRC=1 one for each host",
            advised(why),
            self.rails[0].context.attributes.max_qp
        )
    }

    /// Makes queue pairs for a peer, which take receive buffers.
    fn create(&self, peer: JobRank) -> Result<&Connection, Errno> {
        let queue = |(index, path): (usize, &crate::net::Path)| {
            let rail = &self.rails[path.rail];
            let (pair, depth) = rail.new_pair(events::name(peer, index))?;
            pair.initialise(&path.port, self.access)?;
            Ok(SendQueue::new(peer, index, (pair, depth), false))
        };
        let queues = if let Some(xrc) = &self.xrc {
            self.create_over_xrc(xrc, peer)?
        } else {
            let queues: Result<Arc<[SendQueue]>, Errno> = self.paths.iter().enumerate().map(queue).collect();
            (queues?, XrcPeer::new(peer))
        };
        // Both sides choose the same.
        let home = (self.rank.index() + peer.index()) % self.paths.len();
        let mut pairs = [0; MOST_PATHS];
        for ((name, path), queue) in pairs.iter_mut().zip(&self.paths).zip(queues.0.iter()) {
            *name = pair_name(path.rail, queues.1.receiver(queue));
        }
        let connection = self.peers.connect(peer, queues, (home, pairs));
        for queue in connection.queues.iter() {
            let rail = &self.rails[self.paths[queue.path].rail];
            match &rail.shared {
                Some(shared) => rail
                    .receives
                    .add_shared(&rail.domain, shared, self.settings.receives_of_peer())?,
                None => rail.receives.add_owned(&rail.domain, queue)?,
            }
        }
        Ok(connection)
    }

    /// The queue pairs of a connection, as a peer needs them.
    fn endpoints(&self, connection: &Connection) -> Vec<Endpoint> {
        let endpoint = |queue: &SendQueue| Endpoint {
            sender: if self.xrc.is_some() { queue.pair.number } else { 0 },
            ..self.paths[queue.path].endpoint(Self::target(connection, queue.path))
        };
        connection.queues.iter().map(endpoint).collect()
    }

    /// The number of the pair that the peer sends to.
    fn target(connection: &Connection, path: usize) -> u32 {
        connection.ends.receiver(&connection.queues[path])
    }

    /// Connects queue pairs to those of the peer, if they are not.
    fn ready(&self, connection: &Connection, theirs: &[Endpoint]) -> Result<(), Failure> {
        if connection.is_ready.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(xrc) = &self.xrc {
            self.ready_over_xrc(xrc, connection, theirs)?;
        } else {
            let (low, high) = (
                self.rank.min(connection.ends.peer).0,
                self.rank.max(connection.ends.peer).0,
            );
            for (queue, endpoint) in connection.queues.iter().zip(theirs) {
                let transport = self.transport(queue.path, endpoint, (low, high));
                let port = &self.paths[queue.path].port;
                queue
                    .pair
                    .connect(port, (&endpoint.address, endpoint.number), transport)
                    .map_err(|why| Failure::of(queue.path, endpoint.address, why))?;
                self.add_alternate(queue, endpoint);
            }
        }
        connection.is_ready.store(true, Ordering::Release);
        Ok(())
    }

    /// How a queue pair of a path transmits. `ends` are the same numbers at both ends, and others
    /// for each two pairs of a path.
    pub fn transport(&self, path: usize, endpoint: &Endpoint, ends: (u32, u32)) -> Transport {
        let own = &self.paths[path];
        Transport {
            mtu: u32::from(own.mtu.min(endpoint.mtu)),
            timeout: self.settings.timeout,
            retries: self.settings.retries,
            reads: own.initiated.min(endpoint.reads),
            peer_reads: own.reads,
            first_packet: self.first_packet(path, ends),
        }
    }

    /// The number of the first packet of a queue pair: the same at both ends, another in each job.
    fn first_packet(&self, path: usize, (low, high): (u32, u32)) -> u32 {
        let pair = u64::from(low) << 32 | u64::from(high);
        let mixed = (self.token ^ pair ^ (path as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as u32
    }

    fn wait_for(&self, inner: &mut Inner, peer: JobRank, step: Step) {
        let (now, interval) = (Instant::now(), Duration::from_micros(self.settings.retransmission.0));
        match inner.waiting.iter_mut().find(|waiting| waiting.peer == peer) {
            Some(waiting) => waiting.step = step,
            None => inner.waiting.push(Waiting {
                peer,
                step,
                begun: now,
                next: now + interval,
                interval,
            }),
        }
        self.connector.count.store(inner.waiting.len(), Ordering::Relaxed);
        self.tell(inner, peer, step);
    }

    /// Sends a datagram.
    fn tell(&self, inner: &mut Inner, peer: JobRank, step: Step) {
        let Some(connection) = self.peers.connection(peer) else {
            return;
        };
        let datagram = Datagram {
            token: self.token,
            source: self.rank,
            target: peer,
            step,
            endpoints: self.endpoints(connection),
        };
        let mailbox = self.peers.mailbox(peer);
        let sent = inner
            .datagrams
            .send(&mailbox.address, mailbox.number, &datagram.encode());
        match sent {
            Err(why) => self.not_reached(inner, peer, &Failure::of(0, mailbox.address, why)),
            // Else its queue pairs need the address, too.
            Ok(()) if connection.is_ready.load(Ordering::Acquire) => self.note_resolved(inner, peer),
            Ok(()) => {}
        }
    }

    /// A datagram failed at its sender, and counts as lost.
    fn note_send_error(&self, inner: &mut Inner, error: SendError) {
        /// More errors in a row mean that no datagram is ever sent.
        const MOST: u32 = 8;
        let status = self.rails[self.paths[0].rail].context.library().status(error.status);
        let text = format!(
            "{}: a datagram failed: {status} (vendor error {:#x})",
            self.name(0),
            error.vendor
        );
        if error.failures > MOST {
            return self.fail(&format!("{text}, as did {MOST} before it"));
        }
        if !std::mem::replace(&mut inner.has_warned, true) {
            gasnet_conduit::warn(format_args!("ibv: {text}. It is sent again."));
        }
    }

    /// Handles datagrams and time-outs.
    #[cold]
    pub fn attend(&self) {
        let Ok(mut inner) = self.connector.inner.try_lock() else {
            return;
        };
        let mut arrived = Vec::new();
        let polled = inner
            .datagrams
            .poll(&mut |bytes| arrived.extend(Datagram::decode(bytes)));
        match polled {
            Ok(None) => {}
            Ok(Some(error)) => self.note_send_error(&mut inner, error),
            Err(why) => self.fail(&format!("{}: datagrams failed: {why}", self.name(0))),
        }
        for datagram in arrived {
            self.arrived(&mut inner, &datagram);
        }
        self.repeat(&mut inner);
        self.connector.count.store(inner.waiting.len(), Ordering::Relaxed);
    }

    #[inline(never)]
    fn arrived(&self, inner: &mut Inner, datagram: &Datagram) {
        let peer = datagram.source;
        let is_ours = datagram.token == self.token
            && datagram.target == self.rank
            && peer.0 < self.peers.count()
            && datagram.endpoints.len() == self.paths.len();
        if !is_ours || !self.peers.states.is_present(peer) || self.is_stopped() {
            return;
        }
        let connection = match (self.peers.connection(peer), datagram.step) {
            (Some(connection), _) => Ok(connection),
            (None, Step::Ask) => self.create(peer),
            (None, _) => return,
        };
        let is_ready = connection.map_err(Failure::local).and_then(|connection| {
            if datagram.step != Step::Confirm && !connection.is_ready.load(Ordering::Acquire) {
                self.ready(connection, &datagram.endpoints)?;
                self.note_resolved(inner, peer);
            }
            Ok(connection)
        });
        let connection = match is_ready {
            Ok(connection) => connection,
            Err(failure) => return self.not_reached(inner, peer, &failure),
        };
        match datagram.step {
            Step::Ask if connection.is_established.load(Ordering::Acquire) => self.tell(inner, peer, Step::Answer),
            Step::Ask => self.wait_for(inner, peer, Step::Answer),
            Step::Answer => {
                connection.is_established.store(true, Ordering::Release);
                self.tell(inner, peer, Step::Confirm);
                self.arm_migration(connection);
            }
            Step::Confirm if connection.is_ready.load(Ordering::Acquire) => {
                connection.is_established.store(true, Ordering::Release);
            }
            Step::Confirm => {}
        }
    }

    /// Sends again what was not answered, and gives up what was not for long.
    #[inline(never)]
    fn repeat(&self, inner: &mut Inner) {
        if inner.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        let is_over = |waiting: &Waiting| {
            let connection = self.peers.connection(waiting.peer);
            !self.peers.states.is_present(waiting.peer)
                || connection.is_none_or(|connection| connection.is_established.load(Ordering::Acquire))
        };
        inner.waiting.retain(|waiting| !is_over(waiting));
        let limit = Duration::from_micros(self.settings.retransmission.1);
        let mut due = Vec::new();
        for waiting in &mut inner.waiting {
            if now.duration_since(waiting.begun) > limit {
                let why = format!(
                    "{}: it has not answered connection requests for {} seconds",
                    self.name(0),
                    limit.as_secs()
                );
                self.peers.states.lose(waiting.peer, why);
            } else if now >= waiting.next {
                waiting.interval = longer(waiting.interval);
                waiting.next = now + waiting.interval;
                due.push((waiting.peer, waiting.step));
            }
        }
        for (peer, step) in due {
            self.tell(inner, peer, step);
        }
    }
}

/// The time until the next retransmission, after one of `interval`.
fn longer(interval: Duration) -> Duration {
    const MOST: Duration = Duration::from_secs(1);
    (interval * 2).min(interval.max(MOST))
}

/// What queue pairs allow peers.
pub const fn access(atomics: bool) -> Access {
    if atomics {
        Access::REMOTE_ATOMIC
    } else {
        Access::REMOTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_up_to_a_second() {
        let all = |first| std::iter::successors(Some(first), |interval| Some(longer(*interval)));
        let milliseconds: Vec<u128> = all(Duration::from_millis(300))
            .take(4)
            .map(|it| it.as_millis())
            .collect();
        assert_eq!(milliseconds, [300, 600, 1000, 1000]);
        assert_eq!(all(Duration::from_secs(3)).nth(1000), Some(Duration::from_secs(3)));
    }
}
