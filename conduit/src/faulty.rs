//! A conduit that misbehaves within the contract, from a seed: what is correct over it is correct over a bad network.
//!
//! [`Faulty`] wraps any conduit. Packets that arrive are held for some polls (*delay*) or overtaken by later ones
//! (*reorder*); injections are refused (*busy*); a poll delivers only part of what is there (*split*); this process ends
//! without a word after so many packets (*kill*). Nothing is lost, doubled or altered, and while only replies are polled
//! replies keep flowing. Packets are held where they arrive, so a sender that goes on to compute delays nobody. What is
//! held when the network stops is dropped.
//!
//! The same seed, rank and sequence of calls gives the same faults. It is meant for tests, and is set by
//! `GASNET_FAULTS`; without that variable the runtime does not use it.
#![forbid(unsafe_code)]

use crate::config::{FaultPlan, Variable};
use crate::{
    Busy, Capabilities, Class, Conduit, ConduitError, Device, Identity, JobRank, Limits, LocalCompletion, PollScope, RemoteSegment,
    SegmentKey, StartInfo, TransferId, Upcalls,
};
use gasnet_sys::atomic::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Longest delay, in polls.
const MAX_DELAY: u64 = 8;
/// Most packets held; more are delivered at once.
const MAX_HELD: usize = 256;
/// Held packets delivered in one poll.
const BURST: usize = 32;
/// An injection that is always refused would be a defect of the plan, not of the runtime.
const MAX_BUSY: f64 = 0.95;
/// Alignment of packets that are delivered.
const ALIGN: usize = 64;

/// The decorator. `C` points to a conduit: a box, or a reference to a static one.
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
    /// Packets that this process has to send before it ends.
    life: Option<u64>,
    /// In order of arrival.
    packets: VecDeque<Held>,
    completions: Vec<(u64, TransferId)>,
}

/// A packet that has arrived and waits.
#[derive(Debug)]
struct Held {
    source: JobRank,
    class: Class,
    /// The poll from which on it may be delivered.
    due: u64,
    /// Whether later packets from the same source may pass.
    passable: bool,
    bytes: Vec<u8>,
    /// The packet's place in `bytes`.
    start: usize,
}

impl Held {
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

    /// Decides about a packet that has just arrived: `Some` holds it until that poll, and says whether others may pass.
    fn fate(&mut self, plan: &FaultPlan, source: JobRank, class: Class, split: &mut bool) -> Option<(u64, bool)> {
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

    /// Takes the first packet that may be delivered now. One at a time, so that a poll inside a handler finds the next.
    fn ripe(&mut self, scope: PollScope) -> Option<Held> {
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

    fn ripe_completions(&mut self) -> Vec<TransferId> {
        let now = self.now;
        let (ripe, rest) = std::mem::take(&mut self.completions).into_iter().partition(|c| c.0 <= now);
        self.completions = rest;
        ripe.into_iter().map(|c: (u64, TransferId)| c.1).collect()
    }
}

impl<C> Faulty<C> {
    /// Wraps a conduit. `die` is called in the process that the plan kills, from inside `send`; if it returns, the process
    /// is silent from then on: it sends nothing and receives nothing.
    pub fn new(inner: C, plan: &FaultPlan, die: Box<dyn Fn() + Send + Sync>) -> Self {
        let plan = FaultPlan {
            busy: plan.busy.min(MAX_BUSY),
            ..plan.clone()
        };
        Self {
            inner,
            plan,
            die,
            state: Mutex::default(),
            dead: AtomicBool::new(false),
        }
    }

    /// The conduit underneath.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    fn state(&self) -> MutexGuard<'_, State> {
        gasnet_sys::lock(&self.state)
    }

    /// Whether to refuse an injection.
    fn admit(&self) -> Result<(), Busy> {
        if self.dead.load(Relaxed) || self.plan.busy > 0.0 && self.state().happens(self.plan.busy) {
            return Err(Busy);
        }
        Ok(())
    }

    /// Counts a packet that was sent.
    fn count(&self) {
        if self.plan.kill.is_none() {
            return;
        }
        let mut state = self.state();
        let last = state.life == Some(1);
        state.life = state.life.map(|left| left.saturating_sub(1));
        drop(state);
        if last {
            self.dead.store(true, Relaxed);
            (self.die)();
        }
    }
}

/// Stands between the wrapped conduit and the runtime during a poll.
struct Filter<'a, C> {
    faulty: &'a Faulty<C>,
    upcalls: &'a mut dyn Upcalls,
    delivered: usize,
    split: bool,
}

impl<C> Upcalls for Filter<'_, C> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        let mut state = self.faulty.state();
        if let Some((due, passable)) = state.fate(&self.faulty.plan, source, class, &mut self.split) {
            let mut bytes = vec![0; packet.len() + ALIGN];
            let start = bytes.as_ptr().align_offset(ALIGN);
            bytes.truncate(start + packet.len());
            bytes[start..].copy_from_slice(packet);
            state.packets.push_back(Held {
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

    fn rma_done(&mut self, id: TransferId) {
        let mut state = self.faulty.state();
        if state.happens(self.faulty.plan.delay) {
            let due = state.delay();
            state.completions.push((due, id));
            return;
        }
        drop(state);
        self.delivered += 1;
        self.upcalls.rma_done(id);
    }

    fn source_done(&mut self, id: TransferId) {
        self.upcalls.source_done(id);
    }

    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        self.upcalls.peer_lost(peer, why);
    }
}

impl<C: Deref<Target: Conduit> + Sync> Conduit for Faulty<C> {
    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError> {
        let mut state = self.state();
        state.random = self.plan.seed ^ (u64::from(info.rank) << 32);
        state.life = self.plan.kill.filter(|kill| kill.0 == info.rank).map(|kill| kill.1.max(1));
        drop(state);
        self.inner.start(info)
    }

    fn probe(&self) -> Result<(), ConduitError> {
        self.inner.probe()
    }

    fn needs_single_neighbourhood(&self) -> bool {
        self.inner.needs_single_neighbourhood()
    }

    fn takes_count(&self) -> bool {
        self.inner.takes_count()
    }

    fn reaches_other_hosts(&self) -> bool {
        self.inner.reaches_other_hosts()
    }

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
        drop(state);
        let mut delivered = completions.len();
        for id in completions {
            upcalls.rma_done(id);
        }
        for _ in 0..BURST {
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

    fn stop(&self) {
        self.dead.store(true, Relaxed);
        self.inner.stop();
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn variables(&self) -> &'static [Variable] {
        self.inner.variables()
    }

    fn max_segment_bytes(&self) -> usize {
        self.inner.max_segment_bytes()
    }

    fn register_segment(&self, base: usize, bytes: usize) -> Result<SegmentKey, ConduitError> {
        self.inner.register_segment(base, bytes)
    }

    fn register_device_segment(&self, device: Device, base: usize, bytes: usize) -> Result<SegmentKey, ConduitError> {
        self.inner.register_device_segment(device, base, bytes)
    }

    fn deregister_segment(&self, key: &SegmentKey) {
        self.inner.deregister_segment(key);
    }

    fn learn_segment(&self, peer: JobRank, segment: &mut RemoteSegment) -> Result<(), ConduitError> {
        self.inner.learn_segment(peer, segment)
    }

    fn forget_segment(&self, peer: JobRank, segment: &RemoteSegment) {
        self.inner.forget_segment(peer, segment);
    }

    fn put(
        &self,
        peer: JobRank,
        segment: &RemoteSegment,
        destination: usize,
        source: *const u8,
        bytes: usize,
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        self.admit()?;
        self.inner.put(peer, segment, destination, source, bytes, id)
    }

    fn put_now(
        &self,
        peer: JobRank,
        segment: &RemoteSegment,
        destination: usize,
        source: *const u8,
        bytes: usize,
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        self.admit()?;
        self.inner.put_now(peer, segment, destination, source, bytes, id)
    }

    fn get(
        &self,
        peer: JobRank,
        segment: &RemoteSegment,
        destination: *mut u8,
        source: usize,
        bytes: usize,
        id: TransferId,
    ) -> Result<(), Busy> {
        self.admit()?;
        self.inner.get(peer, segment, destination, source, bytes, id)
    }

    fn put_notify(
        &self,
        peer: JobRank,
        class: Class,
        segment: &RemoteSegment,
        destination: usize,
        source: *const u8,
        bytes: usize,
        packet: &[&[u8]],
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        self.admit()?;
        let done = self
            .inner
            .put_notify(peer, class, segment, destination, source, bytes, packet, id)?;
        self.count();
        Ok(done)
    }

    fn alloc_send(&self, peer: JobRank, class: Class, least: usize, most: usize) -> Result<(*mut u8, usize), Busy> {
        self.admit()?;
        self.inner.alloc_send(peer, class, least, most)
    }

    fn send_prepared(&self, peer: JobRank, class: Class, header: &[u8], buffer: *mut u8, bytes: usize) -> Result<(), Busy> {
        self.admit()?;
        self.inner.send_prepared(peer, class, header, buffer, bytes)?;
        self.count();
        Ok(())
    }

    fn free_send(&self, peer: JobRank, class: Class, buffer: *mut u8) {
        self.inner.free_send(peer, class, buffer);
    }

    fn atomic_support(&self, dt: u32, op: u32) -> bool {
        self.inner.atomic_support(dt, op)
    }

    fn atomic(
        &self,
        peer: JobRank,
        segment: &RemoteSegment,
        dt: u32,
        op: u32,
        target: usize,
        operands: [u64; 2],
        fetched: *mut u8,
        id: TransferId,
    ) -> Result<(), Busy> {
        self.admit()?;
        self.inner.atomic(peer, segment, dt, op, target, operands, fetched, id)
    }

    fn barrier_notify(&self, operands: [u64; 2]) -> Result<(), Busy> {
        self.admit()?;
        self.inner.barrier_notify(operands)
    }

    fn barrier_test(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> Option<[u64; 2]> {
        let mut filter = Filter {
            faulty: self,
            upcalls,
            delivered: 0,
            split: false,
        };
        self.inner.barrier_test(scope, &mut filter)
    }

    /// None: what is held wakes nobody, so a sleeper has to look from time to time.
    fn wake_fd(&self) -> Option<i32> {
        None
    }
}
