//! Connections: at start by an exchange, later by handshakes with retransmission and a limit.

mod at_start;
pub mod file;
pub mod handshake;
pub mod pairs;
pub mod policy;
pub mod resolve;
pub mod thread;
pub mod transport;

use crate::connect::handshake::{Datagram, Step};
use crate::connect::pairs::PairMaker;
use crate::connect::resolve::{Failure, Unresolved};
use crate::fabric::Fabric;
use crate::ffi::{Channel, Datagrams, SendError};
use crate::ports::SEVERAL_NETWORKS;
use crate::settings::Settings;
use gasnet_conduit::{connections, JobRank};
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::eventfd::Eventfd;
use gasnet_sys::lock;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

/// Makes connections, by handshakes. Its lock is taken before all others.
pub struct Connector {
    pub pairs: PairMaker,
    /// Whether peers are connected after the start.
    connects_later: bool,
    /// Time until a handshake is sent again, and until it fails.
    retransmission: Duration,
    limit: Duration,
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
    /// None: no peer is connected later.
    datagrams: Option<Datagrams>,
    waiting: Vec<Waiting>,
    unresolved: Unresolved,
    /// Whether an error of a datagram was reported.
    has_warned: bool,
}

impl Inner {
    /// Makes the next datagram an event of its channel. False if that failed.
    fn arm(&self) -> bool {
        let datagrams = self.datagrams.as_ref();
        datagrams.is_none_or(|datagrams| datagrams.arm().is_ok())
    }
}

/// A handshake under way.
struct Waiting {
    peer: JobRank,
    /// Datagram that is retransmitted.
    step: Step,
    begun: Instant,
    /// Time of the next retransmission.
    next: Instant,
    interval: Duration,
}

impl Connector {
    /// No handshakes yet. With a channel of the datagrams' own, a thread waits for them.
    pub fn new(pairs: PairMaker, settings: &Settings, datagrams: Option<Datagrams>, channel: Option<Channel>) -> Self {
        Self {
            pairs,
            connects_later: settings.connects_later,
            retransmission: Duration::from_micros(settings.retransmit_after),
            limit: Duration::from_micros(settings.connect_timeout),
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

    /// Descriptors that the connection thread polls.
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
        lock(&self.inner).arm() && !self.is_busy()
    }

    /// Whether any handshake is under way.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Before another thread sleeps: makes the next datagram an event of its channel. False if a
    /// poll should look first.
    pub fn arm(&self) -> bool {
        !self.is_busy() && (self.has_channel() || lock(&self.inner).arm())
    }

    /// Begins to connect to a peer, if nobody has. Polls do the rest. No effect if another thread
    /// does the same for any peer.
    #[cold]
    pub fn connect(&self, fabric: &Fabric, peer: JobRank) {
        let Ok(mut inner) = self.inner.try_lock() else {
            return;
        };
        if fabric.peers.connection(peer).is_some() || !fabric.peers.states.is_present(peer) {
            return;
        }
        if !self.connects_later && peer != fabric.rank {
            let why = "GASNET_CONNECTFILE_IN does not name it, and GASNET_CONNECT_DYNAMIC is off";
            fabric.peers.states.lose(peer, format!("it is not connected: {why}"));
            return;
        }
        let created = self.pairs.create(fabric, peer).and_then(|connection| {
            if peer != fabric.rank {
                self.wait_for(fabric, &mut inner, peer, Step::Ask);
                return Ok(());
            }
            let own = self.pairs.endpoints(fabric, connection);
            let ready = self.pairs.ready(fabric, connection, &own);
            ready.map_err(|failure| failure.why)?;
            connection.establish();
            fabric.arm_migration(connection);
            Ok(())
        });
        if let Err(why) = created {
            not_connected(fabric, peer, &Failure::local(why));
        }
    }

    /// A call with the address of a peer failed. If that may pass, the datagram that led to it
    /// counts as lost: it is sent again.
    fn not_reached(&self, fabric: &Fabric, inner: &mut Inner, peer: JobRank, failure: &Failure) {
        if !failure.why.is_unresolved() || inner.unresolved.is_given_up(peer) {
            return not_connected(fabric, peer, failure);
        }
        self.may_block.store(true, Ordering::Relaxed);
        if let Some(alarm) = &self.alarm {
            alarm.wake();
        }
    }

    fn note_resolved(&self, inner: &mut Inner, peer: JobRank) {
        let any_left = inner.unresolved.forget(peer);
        self.may_block.store(any_left, Ordering::Relaxed);
    }

    fn wait_for(&self, fabric: &Fabric, inner: &mut Inner, peer: JobRank, step: Step) {
        let (now, interval) = (Instant::now(), self.retransmission);
        connections::begin(peer);
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
        self.count.store(inner.waiting.len(), Ordering::Relaxed);
        self.tell(fabric, inner, peer, step);
    }

    /// Sends a datagram.
    fn tell(&self, fabric: &Fabric, inner: &mut Inner, peer: JobRank, step: Step) {
        let Some(connection) = fabric.peers.connection(peer) else {
            return;
        };
        let datagram = Datagram {
            token: self.pairs.transports.token,
            source: fabric.rank,
            target: peer,
            step,
            endpoints: self.pairs.endpoints(fabric, connection),
        };
        let mailbox = fabric.peers.mailbox(peer);
        let Some(datagrams) = &mut inner.datagrams else {
            return;
        };
        let sent = datagrams.send(&mailbox.address, mailbox.number, &datagram.encode());
        match sent {
            Err(why) => self.not_reached(fabric, inner, peer, &Failure::of(0, mailbox.address, why)),
            // Else its queue pairs need the address, too.
            Ok(()) if connection.is_ready.load(Ordering::Acquire) => self.note_resolved(inner, peer),
            Ok(()) => {}
        }
    }

    /// Handles datagrams and time-outs.
    #[cold]
    pub fn serve_requests(&self, fabric: &Fabric) {
        let Ok(mut inner) = self.inner.try_lock() else {
            return;
        };
        let Some(datagrams) = &mut inner.datagrams else {
            return;
        };
        let mut arrived = Vec::new();
        let polled = datagrams.poll(&mut |bytes| arrived.extend(Datagram::decode(bytes)));
        match polled {
            Ok(None) => {}
            Ok(Some(error)) => note_send_error(fabric, &mut inner, error),
            Err(why) => fabric
                .peers
                .states
                .fail(&format!("{}: datagrams failed: {why}", fabric.name(0))),
        }
        for datagram in arrived {
            self.arrived(fabric, &mut inner, &datagram);
        }
        self.repeat(fabric, &mut inner);
        self.count.store(inner.waiting.len(), Ordering::Relaxed);
    }

    #[inline(never)]
    fn arrived(&self, fabric: &Fabric, inner: &mut Inner, datagram: &Datagram) {
        let peer = datagram.source;
        let is_ours = datagram.token == self.pairs.transports.token
            && datagram.target == fabric.rank
            && peer.0 < fabric.peers.count()
            && datagram.endpoints.len() == fabric.paths.len();
        if !is_ours || !fabric.peers.states.is_present(peer) || fabric.peers.states.is_stopped() {
            return;
        }
        let connection = match (fabric.peers.connection(peer), datagram.step) {
            (Some(connection), _) => Ok(connection),
            (None, Step::Ask) => self.pairs.create(fabric, peer),
            (None, _) => return,
        };
        let is_ready = connection.map_err(Failure::local).and_then(|connection| {
            if datagram.step != Step::Confirm && !connection.is_ready.load(Ordering::Acquire) {
                self.pairs.ready(fabric, connection, &datagram.endpoints)?;
                self.note_resolved(inner, peer);
            }
            Ok(connection)
        });
        let connection = match is_ready {
            Ok(connection) => connection,
            Err(failure) => return self.not_reached(fabric, inner, peer, &failure),
        };
        match datagram.step {
            Step::Ask if connection.is_established.load(Ordering::Acquire) => {
                self.tell(fabric, inner, peer, Step::Answer);
            }
            Step::Ask => self.wait_for(fabric, inner, peer, Step::Answer),
            Step::Answer => {
                connection.establish();
                self.tell(fabric, inner, peer, Step::Confirm);
                fabric.arm_migration(connection);
            }
            Step::Confirm if connection.is_ready.load(Ordering::Acquire) => connection.establish(),
            Step::Confirm => {}
        }
    }

    /// Sends again what was not answered, and gives up what was not for long.
    #[inline(never)]
    fn repeat(&self, fabric: &Fabric, inner: &mut Inner) {
        if inner.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        let is_over = |waiting: &Waiting| {
            let connection = fabric.peers.connection(waiting.peer);
            !fabric.peers.states.is_present(waiting.peer)
                || connection.is_none_or(|connection| connection.is_established.load(Ordering::Acquire))
        };
        inner.waiting.retain(|waiting| {
            let is_over = is_over(waiting);
            if is_over {
                connections::end(waiting.peer);
            }
            !is_over
        });
        let limit = self.limit;
        let mut due = Vec::new();
        for waiting in &mut inner.waiting {
            if now.duration_since(waiting.begun) > limit {
                let why = format!(
                    "{}: it has not answered connection requests for {} seconds. {SEVERAL_NETWORKS}",
                    fabric.name(0),
                    limit.as_secs()
                );
                fabric.peers.states.lose(waiting.peer, why);
            } else if now >= waiting.next {
                waiting.interval = longer(waiting.interval);
                waiting.next = now + waiting.interval;
                due.push((waiting.peer, waiting.step));
            }
        }
        for (peer, step) in due {
            self.tell(fabric, inner, peer, step);
        }
    }
}

/// The connection to a peer failed, so that it is lost.
fn not_connected(fabric: &Fabric, peer: JobRank, failure: &Failure) {
    let why = format!("a connection failed: {}", fabric.describe(failure));
    fabric.peers.states.lose(peer, why);
}

/// A datagram failed at its sender, and counts as lost.
fn note_send_error(fabric: &Fabric, inner: &mut Inner, error: SendError) {
    /// More errors in a row mean that no datagram is ever sent.
    const MOST: u32 = 8;
    let status = fabric.rails[fabric.paths[0].rail].context.library.status(error.status);
    let text = format!(
        "{}: a datagram failed: {status} (vendor error {:#x})",
        fabric.name(0),
        error.vendor
    );
    if error.failures > MOST {
        return fabric.peers.states.fail(&format!("{text}, as did {MOST} before it"));
    }
    if !std::mem::replace(&mut inner.has_warned, true) {
        gasnet_conduit::warn(format_args!("ibv: {text}. It is sent again."));
    }
}

/// The time until the next retransmission, after one of `interval`.
fn longer(interval: Duration) -> Duration {
    const MOST: Duration = Duration::from_secs(1);
    (interval * 2).min(interval.max(MOST))
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
