//! Fault injection: a network that behaves as badly as the contract allows.
//!
//! [`Faulty`] wraps any started network. Its faults, the first four with a probability:
//!
//! - *delay*: a received packet is held for some polls;
//! - *reorder*: later packets overtake a received packet;
//! - *busy*: an injection is refused;
//! - *split*: a poll delivers only a part of the packets;
//! - *kill*: the process is killed after a number of packets;
//! - *network*: the network of a process fails after a number of packets;
//! - *register*: the first registration of memory of a rank fails.
//!
//! Packets are never lost, duplicated or altered. Replies keep flowing while only replies are
//! polled. Packets are held at the receiver, so a sender that computes does not delay them further.
//! Packets held at `stop` are dropped.
//!
//! The same seed, rank and sequence of calls gives the same faults. For tests: the runtime uses it
//! only if `GASNET_FAULTS` is set, in the debug flavour.
#![forbid(unsafe_code)]

use crate::config::FaultPlan;
use crate::{
    Abilities, Atomic, Atomics, Barrier, Busy, Class, Completion, ConduitError, Cookie, Dmabuf, Gather, GatheredPacket,
    Get, JobRank, LocalCompletion, LocalSegment, Network, PollScope, Put, PutNotify, Registration, RemoteSegment, Rma,
    SegmentMemory, Segments, SendBuffer, SendBuffers, Stop, Upcalls, Words, PACKET_ALIGN,
};
use gasnet_sys::atomic::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Maximum delay, in polls.
const MAX_DELAY: u64 = 8;
/// Maximum number of held packets. Further packets are delivered immediately.
const MAX_HELD: usize = 256;
/// Maximum number of held packets that a poll delivers.
const MAX_PER_POLL: usize = 32;
/// Upper bound of `busy`: with 1 no job can make progress.
const MAX_BUSY: f64 = 0.95;

/// The decorator. `C` points to a network.
pub struct Faulty<C> {
    inner: C,
    plan: FaultPlan,
    die: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
    dead: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    random: u64,
    /// Polls so far.
    now: u64,
    /// Packets left to send before this process is killed.
    life: Option<u64>,
    /// Packets left to send before the network fails; 0 until that is reported.
    network: Option<u64>,
    /// The next registration fails.
    refuses_memory: bool,
    /// Held packets, in order of arrival.
    packets: VecDeque<HeldPacket>,
    /// Held completions, with the poll that delivers them.
    completions: Vec<(u64, Cookie, Completion)>,
}

/// A held packet.
#[derive(Debug)]
struct HeldPacket {
    source: JobRank,
    class: Class,
    /// The first poll that may deliver it.
    due: u64,
    /// Whether later packets of the same source and class may overtake it.
    passable: bool,
    bytes: Vec<u8>,
    /// Offset of the packet in `bytes`, which aligns it.
    start: usize,
}

impl HeldPacket {
    fn packet(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

impl State {
    /// `SplitMix64`.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn happens(&mut self, probability: f64) -> bool {
        // 53 random bits are a fraction from 0 to 1.
        #[allow(clippy::cast_precision_loss)]
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        fraction < probability
    }

    fn delay(&mut self) -> u64 {
        self.now + 1 + self.next() % MAX_DELAY
    }

    /// Decides about a packet that has just arrived. `Some` holds it until that poll; true if
    /// others may overtake it.
    fn decide(&mut self, plan: &FaultPlan, source: JobRank, class: Class, split: &mut bool) -> Option<(u64, bool)> {
        if self.packets.len() >= MAX_HELD {
            return None;
        }
        *split = *split || self.happens(plan.split);
        let (delayed, passable) = (self.happens(plan.delay), self.happens(plan.reorder));
        if delayed || passable {
            return Some((self.delay(), passable));
        }
        let behind = self
            .packets
            .iter()
            .any(|h| !h.passable && h.source == source && h.class == class);
        (*split || behind).then_some((self.now + u64::from(*split), false))
    }

    /// Takes the first packet that may be delivered now. One at a time, so that a poll inside a
    /// handler gets the next.
    fn ripe(&mut self, scope: PollScope) -> Option<HeldPacket> {
        let mut blocked: Vec<(JobRank, Class)> = Vec::new();
        let index = self.packets.iter().position(|held| {
            let key = (held.source, held.class);
            let wanted = scope == PollScope::All || held.class == Class::Reply;
            let free = wanted && held.due <= self.now && !blocked.contains(&key);
            if !free && !held.passable {
                blocked.push(key);
            }
            free
        })?;
        self.packets.remove(index)
    }

    fn ripe_completions(&mut self) -> Vec<(u64, Cookie, Completion)> {
        let now = self.now;
        let (ripe, rest) = std::mem::take(&mut self.completions)
            .into_iter()
            .partition(|c| c.0 <= now);
        self.completions = rest;
        ripe
    }
}

impl<C> Faulty<C> {
    /// Wraps the network of `rank`. `send` calls `die` in the process that the plan kills. If `die`
    /// returns, the process neither sends nor receives from then on.
    pub fn new(inner: C, rank: JobRank, plan: &FaultPlan, die: Box<dyn Fn() + Send + Sync>) -> Self {
        let packets = |victim: Option<(JobRank, u64)>| victim.filter(|v| v.0 == rank).map(|v| v.1.max(1));
        let state = State {
            random: plan.seed ^ (u64::from(rank.0) << 32),
            life: packets(plan.kill),
            network: packets(plan.network),
            refuses_memory: plan.register == Some(rank),
            ..State::default()
        };
        Self {
            inner,
            plan: FaultPlan {
                busy: plan.busy.min(MAX_BUSY),
                ..plan.clone()
            },
            die,
            state: Mutex::new(state),
            dead: AtomicBool::new(false),
        }
    }

    /// The wrapped network.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    fn state(&self) -> MutexGuard<'_, State> {
        gasnet_sys::lock(&self.state)
    }

    /// Refuses an injection with the probability of the plan.
    fn admit(&self) -> Result<(), Busy> {
        if self.dead.load(Relaxed) || self.plan.busy > 0.0 && self.state().happens(self.plan.busy) {
            return Err(Busy);
        }
        Ok(())
    }

    /// Counts a packet sent.
    fn count(&self) {
        if self.plan.kill.is_none() && self.plan.network.is_none() {
            return;
        }
        let mut state = self.state();
        state.network = state.network.map(|left| left.saturating_sub(1));
        let last = state.life == Some(1);
        state.life = state.life.map(|left| left.saturating_sub(1));
        drop(state);
        if last {
            self.dead.store(true, Relaxed);
            (self.die)();
        }
    }
}

/// The upcalls of the wrapped network during a poll: holds packets, or forwards them to the
/// runtime.
struct Filter<'a, C> {
    faulty: &'a Faulty<C>,
    upcalls: &'a mut dyn Upcalls,
    delivered: usize,
    split: bool,
}

impl<C> Upcalls for Filter<'_, C> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        let mut state = self.faulty.state();
        if let Some((due, passable)) = state.decide(&self.faulty.plan, source, class, &mut self.split) {
            let mut bytes = vec![0; packet.len() + PACKET_ALIGN];
            let start = bytes.as_ptr().align_offset(PACKET_ALIGN);
            bytes.truncate(start + packet.len());
            bytes[start..].copy_from_slice(packet);
            state.packets.push_back(HeldPacket {
                source,
                class,
                due,
                passable,
                bytes,
                start,
            });
            return;
        }
        drop(state);
        self.delivered += 1;
        self.upcalls.packet(source, class, packet);
    }

    fn done(&mut self, cookie: Cookie, part: Completion) {
        let mut state = self.faulty.state();
        // Remote completion must not overtake the local one.
        let behind = state
            .completions
            .iter()
            .filter(|held| held.1 == cookie)
            .map(|held| held.0)
            .max();
        if behind.is_some() || state.happens(self.faulty.plan.delay) {
            let due = state.delay().max(behind.unwrap_or(0));
            state.completions.push((due, cookie, part));
            return;
        }
        drop(state);
        self.delivered += 1;
        self.upcalls.done(cookie, part);
    }

    fn barrier(&mut self, words: [u64; 2]) {
        self.delivered += 1;
        self.upcalls.barrier(words);
    }

    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        self.upcalls.peer_lost(peer, why);
    }
    fn network_lost(&mut self, why: &str) {
        self.upcalls.network_lost(why);
    }
}

impl<C: Deref<Target: Network> + Send + Sync> Network for Faulty<C> {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.admit()?;
        self.inner.send(peer, class, parts)?;
        self.count();
        Ok(())
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.dead.load(Relaxed) {
            return 0;
        }
        let mut state = self.state();
        state.now += 1;
        let completions = state.ripe_completions();
        let fails = state.network.take_if(|left| *left == 0).is_some();
        drop(state);
        if fails {
            self.dead.store(true, Relaxed);
            upcalls.network_lost("GASNET_FAULTS: the port is down");
            return 0;
        }
        let mut delivered = completions.len();
        for (_, cookie, part) in completions {
            upcalls.done(cookie, part);
        }
        for _ in 0..MAX_PER_POLL {
            let ripe = self.state().ripe(scope);
            let Some(mut held) = ripe else { break };
            upcalls.packet(held.source, held.class, held.packet());
            delivered += 1;
        }
        let mut filter = Filter {
            faulty: self,
            upcalls,
            delivered,
            split: false,
        };
        self.inner.poll(scope, &mut filter);
        filter.delivered
    }

    fn stop(&self, how: Stop) {
        self.dead.store(true, Relaxed);
        self.inner.stop(how);
    }

    /// Without `wake`: held packets do not make a descriptor readable, so a waiter must poll
    /// periodically.
    fn abilities(&self) -> Abilities<'_> {
        let inner = self.inner.abilities();
        Abilities {
            send_buffers: inner.send_buffers.map(|_| self as &dyn SendBuffers),
            gather: inner.gather.map(|_| self as &dyn Gather),
            segments: inner.segments.map(|_| self as &dyn Segments),
            rma: inner.rma.map(|_| self as &dyn Rma),
            put_notify: inner.put_notify.map(|_| self as &dyn PutNotify),
            atomics: inner.atomics.map(|_| self as &dyn Atomics),
            barrier: inner.barrier.map(|_| self as &dyn Barrier),
            words: inner.words.map(|_| self as &dyn Words),
            wake: None,
        }
    }
}

/// An ability of the wrapped network. The decorator offers only those that exist.
const OFFERED: &str = "defect: an ability that the network does not offer";

impl<C: Deref<Target: Network> + Send + Sync> SendBuffers for Faulty<C> {
    fn max_bytes(&self) -> usize {
        self.inner.abilities().send_buffers.expect(OFFERED).max_bytes()
    }

    fn reserve(&self, peer: JobRank, class: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        self.admit()?;
        self.inner
            .abilities()
            .send_buffers
            .expect(OFFERED)
            .reserve(peer, class, bytes)
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        self.admit()?;
        let buffers = self.inner.abilities().send_buffers.expect(OFFERED);
        buffers.send_reserved(peer, class, buffer, bytes)?;
        self.count();
        Ok(())
    }

    fn release(&self, buffer: SendBuffer) {
        self.inner.abilities().send_buffers.expect(OFFERED).release(buffer);
    }
}

impl<C: Deref<Target: Network> + Send + Sync> Gather for Faulty<C> {
    fn gather_limit(&self) -> usize {
        self.inner.abilities().gather.expect(OFFERED).gather_limit()
    }

    fn send_gathered(&self, packet: &GatheredPacket<'_>) -> Result<LocalCompletion, Busy> {
        self.admit()?;
        let local = self.inner.abilities().gather.expect(OFFERED).send_gathered(packet)?;
        self.count();
        Ok(local)
    }
}

impl<C: Deref<Target: Network> + Send + Sync> Segments for Faulty<C> {
    fn max_key_bytes(&self) -> usize {
        self.inner.abilities().segments.expect(OFFERED).max_key_bytes()
    }

    fn max_bytes(&self) -> usize {
        self.inner.abilities().segments.expect(OFFERED).max_bytes()
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        if std::mem::take(&mut self.state().refuses_memory) {
            return Err(ConduitError {
                message: format!(
                    "GASNET_FAULTS: the registration of {} bytes fails; try again",
                    memory.bytes
                ),
            });
        }
        self.inner.abilities().segments.expect(OFFERED).register(memory)
    }

    fn register_device(&self, memory: &SegmentMemory, dmabuf: &dyn Fn() -> Option<Dmabuf>) -> Option<Registration> {
        self.inner
            .abilities()
            .segments
            .expect(OFFERED)
            .register_device(memory, dmabuf)
    }

    fn deregister(&self, segment: LocalSegment) {
        self.inner.abilities().segments.expect(OFFERED).deregister(segment);
    }

    fn learn(&self, peer: JobRank, memory: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        self.inner.abilities().segments.expect(OFFERED).learn(peer, memory, key)
    }

    fn forget(&self, peer: JobRank, segment: RemoteSegment) {
        self.inner.abilities().segments.expect(OFFERED).forget(peer, segment);
    }
}

impl<C: Deref<Target: Network> + Send + Sync> Rma for Faulty<C> {
    fn reaches_all_memory(&self) -> bool {
        self.inner.abilities().rma.expect(OFFERED).reaches_all_memory()
    }

    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        self.admit()?;
        self.inner.abilities().rma.expect(OFFERED).put(put)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        self.admit()?;
        self.inner.abilities().rma.expect(OFFERED).get(get)
    }
}

impl<C: Deref<Target: Network> + Send + Sync> PutNotify for Faulty<C> {
    fn packed_limit(&self) -> usize {
        self.inner.abilities().put_notify.expect(OFFERED).packed_limit()
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        self.admit()?;
        let notify = self.inner.abilities().put_notify.expect(OFFERED);
        let local = notify.put_and_notify(put, reserved, class, parts)?;
        self.count();
        Ok(local)
    }
}

impl<C: Deref<Target: Network> + Send + Sync> Atomics for Faulty<C> {
    fn supports(&self, dt: u32, op: u32) -> bool {
        self.inner.abilities().atomics.expect(OFFERED).supports(dt, op)
    }

    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        self.admit()?;
        self.inner.abilities().atomics.expect(OFFERED).atomic(atomic)
    }
}

impl<C: Deref<Target: Network> + Send + Sync> Barrier for Faulty<C> {
    fn enter(&self, words: [u64; 2]) -> Result<(), Busy> {
        self.admit()?;
        self.inner.abilities().barrier.expect(OFFERED).enter(words)
    }
}

impl<C: Deref<Target: Network> + Send + Sync> Words for Faulty<C> {
    fn own(&self) -> &[AtomicU64] {
        self.inner.abilities().words.expect(OFFERED).own()
    }

    fn write(&self, peer: JobRank, index: usize, word: u64) -> Result<bool, Busy> {
        self.admit()?;
        let is_written = self.inner.abilities().words.expect(OFFERED).write(peer, index, word)?;
        if is_written {
            self.count();
        }
        Ok(is_written)
    }
}
