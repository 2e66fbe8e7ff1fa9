//! How to wait. Every blocking loop of the library goes through here.
//!
//! A waiter spins for a short time (not at all when the host has more ranks than cores), then yields the core, and after many yields
//! sleeps until a neighbour sends something. A yield that takes long means that somebody else wants the core for long: then it
//! is better to sleep, because the kernel lets a woken sleeper run before those who never stop. `GASNET_WAITMODE` and
//! `gasnet_set_waitmode` shift the balance: SPIN never sleeps (and still yields), BLOCK sleeps soon. A sleep is always bounded,
//! because clients wait for memory that puts, atomics or other threads change, which wakes nobody.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::conduit::PollScope;
use crate::job::Inside;
use crate::stall::{self, Reason};
use crate::{coll, progress, runtime, thread, trace};

/// `gasnet_set_waitmode` and `GASNET_WAITMODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WaitMode {
    /// `GASNET_WAIT_SPIN`.
    Spin = 0,
    /// `GASNET_WAIT_BLOCK`.
    Block = 1,
    /// `GASNET_WAIT_SPINBLOCK`.
    SpinBlock = 2,
    /// The default: as this module's documentation says.
    Adaptive = 3,
}

static MODE: AtomicU32 = AtomicU32::new(WaitMode::Adaptive as u32);
static CROWDED: AtomicBool = AtomicBool::new(true);
/// A yield longer than this, in nanoseconds, was not a turn of our own ranks only.
static LONG_YIELD: AtomicU64 = AtomicU64::new(500_000);
/// Sleeps left before yields are tried again.
static HOGGED: AtomicU32 = AtomicU32::new(0);

/// Looks of a glance.
const GLANCES: u32 = 32;
/// Turns of the spinning phase: a few microseconds.
const SPINS: u32 = 200;
/// Yields before a sleep: a few milliseconds.
const YIELDS: u32 = 4096;
/// The same in mode BLOCK.
const YIELDS_BEFORE_BLOCK: u32 = 16;
/// Sleeps after a long yield.
const HOGGED_SLEEPS: u32 = 16;
/// Polls that found nothing before the next yields: with and without more ranks than cores.
const VAIN_POLLS: [u32; 2] = [8, 256];
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

impl WaitMode {
    /// From the client's number.
    pub fn from_raw(raw: u32) -> Option<Self> {
        [Self::Spin, Self::Block, Self::SpinBlock, Self::Adaptive]
            .into_iter()
            .find(|&m| m as u32 == raw)
    }

    /// From now on, for all threads.
    pub fn set(self) {
        MODE.store(self as u32, Ordering::Relaxed);
    }

    fn get() -> Self {
        Self::from_raw(MODE.load(Ordering::Relaxed)).unwrap_or(Self::Adaptive)
    }
}

/// Tells how many ranks this host has, and how many cores for them.
pub fn set_host(ranks: u32, cores: u32) {
    CROWDED.store(ranks > cores, Ordering::Relaxed);
    // A round of yields among our own ranks takes each core some microseconds per rank; who computes keeps it for a time slice.
    LONG_YIELD.store(500_000 + 20_000 * u64::from(ranks / cores.max(1)), Ordering::Relaxed);
}

/// Whether this host has more ranks than cores.
#[inline]
pub fn is_crowded() -> bool {
    CROWDED.load(Ordering::Relaxed)
}

/// Looks at something that others of this host are probably about to do: some hundred nanoseconds; once when there are more ranks than cores.
#[inline]
pub fn glance(mut ready: impl FnMut() -> bool) -> bool {
    let glances = if is_crowded() { 1 } else { GLANCES };
    (0..glances).any(|_| ready())
}

/// One wait, from its first idle turn.
#[derive(Debug)]
pub struct Waiter {
    turns: u32,
    reason: Reason,
}

impl Waiter {
    /// At the start of a wait.
    pub fn new(reason: Reason) -> Self {
        let waiter = Self { turns: 0, reason };
        waiter.done();
        waiter
    }

    /// The wait is over.
    #[inline]
    pub fn done(&self) {
        if stall::is_watching() {
            thread::current().watch.progress();
        }
    }

    /// Something happened: start over.
    pub fn reset(&mut self) {
        self.turns = 0;
        self.done();
    }

    /// Nothing happened in this turn.
    #[inline]
    pub fn idle(&mut self) {
        self.turns = self.turns.saturating_add(1);
        if self.turns < SPINS && !CROWDED.load(Ordering::Relaxed) && WaitMode::get() != WaitMode::Block {
            std::hint::spin_loop();
            return;
        }
        self.give_way();
    }

    #[cold]
    fn give_way(&mut self) {
        runtime::heed_exit(Inside::Wait);
        trace::idle();
        if stall::is_watching() {
            thread::current().watch.idle(self.reason);
        }
        let yields = if CROWDED.load(Ordering::Relaxed) {
            self.turns
        } else {
            self.turns.saturating_sub(SPINS)
        };
        let sleepy = match WaitMode::get() {
            WaitMode::Spin => false,
            WaitMode::Block => yields > YIELDS_BEFORE_BLOCK || use_up_sleep(),
            WaitMode::SpinBlock | WaitMode::Adaptive => yields > YIELDS || use_up_sleep(),
        };
        match runtime::try_get() {
            Some(rt) if sleepy => rt.comm.sleep(LONGEST_SLEEP, coll::goes_on),
            _ => give_up_core(),
        }
    }
}

/// Whether a long yield was seen lately; counts down.
fn use_up_sleep() -> bool {
    HOGGED
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
}

/// Yields, and remembers if that took long.
fn give_up_core() {
    let before = Instant::now();
    std::thread::yield_now();
    if before.elapsed().as_nanos() as u64 > LONG_YIELD.load(Ordering::Relaxed) {
        HOGGED.store(HOGGED_SLEEPS, Ordering::Relaxed);
    }
}

/// Polls until `ready` holds; `reason` is what the stall watchdog says about it.
#[inline]
pub fn until(reason: Reason, mut ready: impl FnMut() -> bool) {
    if ready() {
        return;
    }
    until_some(PollScope::All, reason, || ready().then_some(()));
}

/// Polls until `ready` yields something.
pub fn until_some<T>(scope: PollScope, reason: Reason, mut ready: impl FnMut() -> Option<T>) -> T {
    let mut waiter = Waiter::new(reason);
    loop {
        if progress::poll(scope) > 0 {
            waiter.reset();
        } else {
            waiter.idle();
        }
        if let Some(value) = ready() {
            waiter.done();
            return value;
        }
    }
}

/// One step of `GASNET_BLOCKUNTIL`: polls, then waits a bounded time. `state` is the loop's own, zero at first.
pub fn step(state: &mut u32) {
    let mut waiter = if *state == 0 {
        Waiter::new(Reason::Condition)
    } else {
        Waiter {
            turns: *state,
            reason: Reason::Condition,
        }
    };
    if progress::poll(PollScope::All) > 0 {
        waiter.reset();
    } else {
        waiter.idle();
    }
    // Zero is for the next loop only.
    *state = waiter.turns.max(1);
}

/// A client's poll: one that finds nothing time and again gives up the core, since the client is waiting for somebody. Returns how much it found.
#[inline]
pub fn poll_once() -> usize {
    let vain = &crate::thread::current().vain_polls;
    let found = progress::poll(PollScope::All);
    if found > 0 {
        vain.set(0);
        return found;
    }
    vain.set(vain.get() + 1);
    if vain.get() >= VAIN_POLLS[usize::from(!CROWDED.load(Ordering::Relaxed))] {
        vain.set(0);
        runtime::heed_exit(Inside::Poll);
        give_up_core();
    }
    0
}
