//! Waiting. Every blocking loop of the library goes through this module.
//!
//! A waiter passes through three phases:
//!
//! 1. It spins, for a few microseconds, while its own yields show that no other thread wants the
//!    core. Before its first timed yield it spins if the host has a core for every thread that uses
//!    GASNet, in all ranks.
//! 2. It yields the core, for some milliseconds. If it has a core, and nothing could wake it, it
//!    goes on spinning: what it waits for takes microseconds, but a yield may give a whole time
//!    slice to a computation.
//! 3. It sleeps until a neighbour sends something or something arrives. Where the network cannot
//!    wake it, it sleeps for a millisecond at a time if the host has more ranks than cores, and
//!    otherwise goes on yielding.
//!
//! While other processes compute on the cores, it sleeps at once ([`oversubscription`]), if it may
//! sleep.
//!
//! `GASNET_WAITMODE` and `gasnet_set_waitmode` shift the balance. SPIN never sleeps (but its waits
//! still yield; single polls do not); BLOCK sleeps as soon as a sleep may cost less than yields,
//! but yields for longer where nothing could wake it. A sleep is always bounded: clients wait for
//! memory that puts, atomics or other threads change, and those wake no one.

mod followers;
pub mod network;
pub mod oversubscription;
mod pace;
pub mod receive;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use gasnet_tools::timer::monotonic_ns;

use crate::counters::Outer;
use crate::runtime::Runtime;
use crate::shm::comm::Slept;
use crate::stall::{self, Reason};
use crate::thread::Context;
use crate::{progress, runtime, thread, trace};
use followers::Followers;
use gasnet_conduit::config::Config;
use gasnet_conduit::{PollScope, Wake, WakePromise};
use gasnet_job::Inside;
use gasnet_sys::{fd, process};

pub use gasnet_conduit::config::WaitMode;
use oversubscription::PollYields;
pub use oversubscription::{SleepEpisodes, YieldStats};

/// The modes by their numbers in the client interface (`GASNET_WAIT_SPIN`, `_BLOCK`, `_SPINBLOCK`);
/// the default follows them.
const MODES: [WaitMode; 4] = [WaitMode::Spin, WaitMode::Block, WaitMode::SpinBlock, WaitMode::Adaptive];

/// An index of [`MODES`].
static MODE: AtomicU32 = AtomicU32::new(3);
static OVERSUBSCRIBED: AtomicBool = AtomicBool::new(true);
/// Ranks and cores of this host.
static HOST: [AtomicU32; 2] = [AtomicU32::new(1), AtomicU32::new(1)];
/// Threads per core that may wait at the same time, if all ranks have as many threads as this one.
static WAITERS_PER_CORE: AtomicU64 = AtomicU64::new(1);
/// Whether there is a core for each of them.
static MAY_SPIN: AtomicBool = AtomicBool::new(false);
/// Shared by the ranks of this host: when they sleep rather than yield.
static EPISODES: OnceLock<SleepEpisodes> = OnceLock::new();
/// The sleeping threads of this process.
static FOLLOWERS: Followers = Followers::new();

/// Checks of [`spin`].
const SPIN_CHECKS: u32 = 32;
/// Iterations of the spinning phase: a few microseconds.
const SPINS: u32 = 200;
/// Polls for completions alone at the start of a wait: with and without a core per waiter.
const COMPLETION_POLLS: [u32; 2] = [1, 16];
/// Of this many waits of a thread one has none, so that a loop of puts receives what others send.
const WAITS_PER_POLL: u32 = 16;
/// A time that grows with the waiters per core.
#[derive(Clone, Copy)]
struct PerWaiter {
    base_ns: u64,
    each_ns: u64,
}

impl PerWaiter {
    fn ns(self) -> u64 {
        self.base_ns + self.each_ns * WAITERS_PER_CORE.load(Ordering::Relaxed)
    }
}

/// Length of a wait before its first yield, where nothing could wake it: some round trips, in which
/// a process that computes would not return the core. Other jobs on it wait for as long.
const KEEP_NS: u64 = 50_000;
/// Length of the yield phase.
const YIELD_PHASE: PerWaiter = PerWaiter {
    base_ns: 4_000_000,
    each_ns: 100_000,
};
/// The same in mode BLOCK, where what arrives wakes the thread.
const BLOCK_YIELD_PHASE: PerWaiter = PerWaiter {
    base_ns: 50_000,
    each_ns: 50_000,
};
/// The same where it does not, and there are cores enough: a sleep of a millisecond is to be a
/// small part of a wait.
const UNWOKEN_YIELD_PHASE: PerWaiter = PerWaiter {
    base_ns: 20_000_000,
    each_ns: 100_000,
};
/// Yields longer than this gave the core to a thread that computes: waiting ranks take microseconds
/// each, a computation takes a time slice.
const LONG_YIELD: PerWaiter = PerWaiter {
    base_ns: 500_000,
    each_ns: 20_000,
};
/// Consecutive empty polls after which a client's poll may yield the core: without and with a core
/// per waiter.
const EMPTY_POLLS: [u32; 2] = [8, 256];
/// Minimum sleep. Later sleeps of a wait grow with its length, up to the maximum, so that an idle
/// rank costs almost nothing.
const MIN_SLEEP_NS: u64 = 1_000_000;
const MAX_SLEEP_NS: u64 = 4_000_000;
/// Length of a sleep as a fraction (1/n) of the wait so far: where other ranks wake the sleeper,
/// and for a client's condition, where no one may, so that the sleep adds latency.
const SLEEP_FRACTION: [u64; 2] = [4, 16];

/// Flag in the state word of a client's loop: the other bits are a time.
const TIMED: u32 = 1 << 31;
/// Unit of that time: a power of two of nanoseconds.
const TICK: u32 = 16;

/// The mode with this number in the client interface.
pub fn mode_from_raw(raw: u32) -> Option<WaitMode> {
    MODES.get(raw as usize).copied()
}

/// Sets the mode for all threads.
pub fn set_mode(mode: WaitMode) {
    let index = MODES.iter().position(|&known| known == mode).unwrap_or(MODES.len() - 1);
    MODE.store(index as u32, Ordering::Relaxed);
}

fn mode() -> WaitMode {
    MODES[MODE.load(Ordering::Relaxed) as usize % MODES.len()]
}

/// Sets the number of ranks of this host, the cores for them, and their shared sleep episodes.
pub fn set_host(ranks: u32, cores: u32, episodes: SleepEpisodes) {
    OVERSUBSCRIBED.store(ranks > cores, Ordering::Relaxed);
    HOST[0].store(ranks, Ordering::Relaxed);
    HOST[1].store(cores.max(1), Ordering::Relaxed);
    count_threads();
    // A process has only one host, so the first value stays.
    let _ = EPISODES.set(episodes);
}

/// Called when the number of client threads of this process has changed.
pub fn count_threads() {
    let [ranks, cores] = HOST.each_ref().map(|count| u64::from(count.load(Ordering::Relaxed)));
    loop {
        let threads = thread::live();
        let waiters = ranks * threads.max(1) as u64;
        WAITERS_PER_CORE.store(waiters.div_ceil(cores), Ordering::SeqCst);
        MAY_SPIN.store(waiters <= cores, Ordering::SeqCst);
        // Two threads may run this at a time; the one that sees the final count stores last.
        if thread::live() == threads {
            return;
        }
    }
}

/// Whether waiting threads are to sleep in this job, so that the network should be able to wake
/// them (`StartInfo::threads_sleep`).
pub fn threads_sleep(config: &Config) -> bool {
    match mode() {
        WaitMode::Spin => receive::has_thread(config),
        WaitMode::Block => true,
        WaitMode::SpinBlock | WaitMode::Adaptive => is_oversubscribed() || receive::has_thread(config),
    }
}

/// Whether this host has more ranks than cores. All ranks of the host agree.
#[inline]
pub fn is_oversubscribed() -> bool {
    OVERSUBSCRIBED.load(Ordering::Relaxed)
}

/// Spins for some hundred nanoseconds until `ready`, for something that ranks of this host will
/// probably do soon. Checks only once if there is no core per waiter.
#[inline]
pub fn spin(mut ready: impl FnMut() -> bool) -> bool {
    let checks = if MAY_SPIN.load(Ordering::Relaxed) {
        SPIN_CHECKS
    } else {
        1
    };
    (0..checks).any(|_| ready())
}

/// One wait. Times are nanoseconds, 0 while unknown.
#[derive(Debug)]
pub struct Waiter {
    iterations: u32,
    /// When the wait left its spinning phase, at its first timed iteration.
    began: u64,
    /// The end of the last timed yield or sleep.
    now: u64,
    reason: Reason,
    /// The messages that its polls take: inside an upcall only replies.
    scope: PollScope,
    /// Once other processes see the wait: what they saw before.
    outer: Option<Outer>,
}

impl Waiter {
    /// Starts a wait, whose polls have this scope.
    pub fn new(scope: PollScope, reason: Reason) -> Self {
        let waiter = Self {
            iterations: 0,
            began: 0,
            now: 0,
            reason,
            scope,
            outer: None,
        };
        thread::current().recorder.get().wait_begins(waiter.reason.kind());
        waiter.done();
        waiter
    }

    /// Ends the wait.
    #[inline(always)]
    pub fn done(&self) {
        if self.began != 0 || self.outer.is_some() || stall::is_watching() {
            self.note_progress();
            if let Some(outer) = self.outer {
                thread::current().recorder.get().waited(outer);
            }
        }
    }

    #[cold]
    fn note_progress(&self) {
        if stall::is_watching() {
            thread::current().watch.progress();
        }
        if self.began != 0 {
            FOLLOWERS.leave();
        }
    }

    /// Restarts the wait after progress.
    pub fn reset(&mut self) {
        if self.began != 0 && matches!(self.reason, Reason::Condition) {
            // Its loop may now end without `step_done`.
            thread::current().recorder.get().waits_no_more();
        }
        (self.iterations, self.began, self.now) = (0, 0, 0);
        if stall::is_watching() {
            self.note_progress();
        }
    }

    /// Shows a wait that takes long to other processes, until it is done. That for a condition is
    /// shown until [`step_done`] or the next progress, since each step is a new waiter.
    fn show(&mut self) {
        let (recorder, word) = (
            thread::current().recorder.get(),
            self.reason.word(thread::current().context() != Context::Client),
        );
        if !matches!(self.reason, Reason::Condition) {
            self.outer = Some(recorder.waits(word, self.began));
        } else if !recorder.shows(word) {
            recorder.waits(word, self.began);
        }
    }

    /// A wait for a client's condition, from the state word of its loop, which is 0 initially.
    fn from_state(state: u32) -> Self {
        let mut waiter = if state == 0 {
            Self::new(PollScope::All, Reason::Condition)
        } else {
            Self {
                iterations: state & !TIMED,
                began: 0,
                now: 0,
                reason: Reason::Condition,
                scope: PollScope::All,
                outer: None,
            }
        };
        if state & TIMED != 0 {
            waiter.iterations = SPINS;
            waiter.now = monotonic_ns();
            let passed = (waiter.now >> TICK).wrapping_sub(u64::from(state & !TIMED)) & u64::from(!TIMED);
            waiter.began = waiter.now.saturating_sub(passed << TICK).max(1);
        }
        waiter
    }

    /// The state word: iterations in the spinning phase, later the time at which that ended. Never
    /// 0.
    fn state(&self) -> u32 {
        if self.began == 0 {
            self.iterations.max(1)
        } else {
            (self.began >> TICK) as u32 | TIMED
        }
    }

    /// One iteration: polls, or yields or sleeps. If a poll is a system call and the host is
    /// oversubscribed, a waiter that has just found something yields before its next poll: the next
    /// message comes from a rank that needs the core.
    #[inline]
    fn iterate(&mut self) {
        let found = &thread::current().found;
        if !found.replace(false) && progress::poll(self.scope) > 0 {
            found.set(is_oversubscribed() && !runtime::get().single_neighbourhood());
            self.reset();
        } else {
            self.idle();
        }
    }

    /// Call after an iteration that found nothing.
    #[inline]
    pub fn idle(&mut self) {
        self.iterations = self.iterations.saturating_add(1);
        if self.iterations < SPINS && self.iterations <= max_spins() && mode() != WaitMode::Block {
            std::hint::spin_loop();
            return;
        }
        self.yield_or_sleep();
    }

    /// Advances collectives before a sleep. Not inside an upcall: they may send requests and run
    /// the client's reduction functions.
    fn advances(&self) -> bool {
        self.scope == PollScope::All && progress::advances()
    }

    /// Whether another thread of this process, which may never call GASNet, could end this wait.
    fn may_end_here(&self) -> bool {
        matches!(self.reason, Reason::Condition) && gasnet_job::exiting() && process::client_threads() > 1
    }

    #[cold]
    fn yield_or_sleep(&mut self) {
        let _whole = gasnet_sys::cancel::disable();
        let thread = thread::current();
        if thread.was_woken.take() {
            // The poll after the wake-up found nothing, so it was for a barrier or similar, which
            // another thread may wait for. That is nothing new to this thread.
            FOLLOWERS.notify();
            thread.known_count.set(thread.known_count.get().wrapping_add(1));
        }
        gasnet_job::check_exit(if self.may_end_here() {
            Inside::Poll
        } else {
            Inside::Wait
        });
        trace::idle();
        if stall::is_watching() {
            thread.watch.idle(self.reason);
        }
        let waited = self.now.saturating_sub(self.began);
        let yield_phase = yield_phase(mode(), is_woken(), is_oversubscribed());
        let is_episode = || EPISODES.get().is_some_and(|episodes| episodes.is_on(monotonic_ns));
        let is_due = |time: PerWaiter| waited >= time.ns() || is_episode();
        let should_sleep = yield_phase.is_some_and(is_due) && may_sleep();
        let timed = match runtime::try_get() {
            Some(rt) if should_sleep => Some(self.sleep(rt, waited)),
            _ if waited < KEEP_NS && MAY_SPIN.load(Ordering::Relaxed) && !may_sleep() => {
                let now = monotonic_ns();
                Some((now, now))
            }
            _ => yield_core(),
        };
        if let Some((began, ended)) = timed {
            if self.began == 0 {
                self.began = began;
            }
            self.now = ended;
            if self.outer.is_none() {
                self.show();
            }
        }
        thread.known_count.set(FOLLOWERS.count());
    }

    /// Sleeps for a fraction of the time `waited` so far, or until something arrives. Returns when
    /// the sleep began and ended.
    fn sleep(&self, rt: &Runtime, waited: u64) -> (u64, u64) {
        let thread = thread::current();
        let began = monotonic_ns();
        let fraction = SLEEP_FRACTION[usize::from(matches!(self.reason, Reason::Condition))];
        let alone = network_wake(rt);
        let watch = match rt.abilities.wake.filter(|_| alone.is_none()) {
            Some(wake) => network::watch(wake),
            None if alone.is_some() || rt.single_neighbourhood() => WakePromise::Wakes,
            None => WakePromise::Never,
        };
        let longest = if watch == WakePromise::Never {
            MIN_SLEEP_NS
        } else {
            MAX_SLEEP_NS
        };
        let limit = Duration::from_nanos((waited / fraction).clamp(MIN_SLEEP_NS, longest));
        let known = thread.known_count.get();
        // The thread that waits for the network may have found something since this thread's
        // last poll.
        let also = || self.advances() || FOLLOWERS.count() != known;
        let slept = if watch == WakePromise::Arrived {
            Slept::Refused
        } else {
            FOLLOWERS.sleep(known, limit, |limit| match alone {
                Some(_) if self.advances() => Slept::Refused,
                Some(wake) => sleep_on(wake, limit),
                None => rt.comm.sleep(limit, self.scope, also),
            })
        };
        thread.was_woken.set(slept == Slept::Woken);
        if slept == Slept::Refused {
            std::thread::yield_now();
        }
        (began, monotonic_ns())
    }
}

/// Length of the yield phase in a mode; None: nothing but yields follows.
fn yield_phase(mode: WaitMode, is_woken: bool, is_oversubscribed: bool) -> Option<PerWaiter> {
    match mode {
        WaitMode::Spin => None,
        WaitMode::Block if is_woken => Some(BLOCK_YIELD_PHASE),
        WaitMode::Block if !is_oversubscribed => Some(UNWOKEN_YIELD_PHASE),
        WaitMode::Block | WaitMode::SpinBlock | WaitMode::Adaptive => Some(YIELD_PHASE),
    }
}

/// Whether waits may sleep: after their yield phase, or at once in an episode. A network that
/// cannot wake this process would serve its peers late; then only mode BLOCK sleeps, and a host
/// with more ranks than cores.
fn may_sleep() -> bool {
    mode() == WaitMode::Block || is_oversubscribed() || is_woken()
}

/// Whether what arrives wakes a thread that sleeps. A client may choose mode BLOCK after the
/// network was opened for threads that do not sleep.
fn is_woken() -> bool {
    let wakes = |rt: &Runtime| rt.single_neighbourhood() || rt.abilities.wake.is_some();
    runtime::try_get().is_none_or(wakes)
}

/// Notifies the sleeping threads of this process that a poll found something.
#[inline]
pub fn notify_threads() {
    if thread::are_several() {
        FOLLOWERS.notify();
    }
}

/// Wakes this process, if one of its threads sleeps.
fn wake_own() {
    let comm = &runtime::get().comm;
    comm.wake(comm.me());
}

/// Wakes this process, and makes threads that are about to sleep poll once more.
fn notify_process() {
    FOLLOWERS.notify();
    wake_own();
}

/// The wake-up object of a thread that only the network can wake. None if there are neighbours,
/// whose messages do not arrive there, or if a thread receives.
fn network_wake(rt: &Runtime) -> Option<&'static dyn Wake> {
    let alone = rt.nbrhd.count() == 1 && !network::receives();
    rt.abilities.wake.filter(|_| alone)
}

/// Sleeps for at most `limit` until network traffic arrives, which a poll then finds. Refused also
/// while a thread of the conduit may be processing the traffic.
fn sleep_on(wake: &dyn Wake, limit: Duration) -> Slept {
    let mut item = [libc::pollfd {
        fd: wake.fd(),
        events: libc::POLLIN,
        revents: 0,
    }];
    if !thread::in_conduit(|| wake.arm()) {
        return Slept::Refused;
    }
    // A failure counts as an empty sleep.
    let _ = fd::poll(&mut item, Some(limit));
    Slept::Ended
}

/// Iterations that a wait may spin.
#[inline]
fn max_spins() -> u32 {
    let unknown = if MAY_SPIN.load(Ordering::Relaxed) { SPINS } else { 0 };
    thread::current().yields.spins().unwrap_or(unknown)
}

/// Yields the core. Some yields are timed; then returns when the yield began and ended.
fn yield_core() -> Option<(u64, u64)> {
    let stats = &thread::current().yields;
    let known = EPISODES.get();
    if known.is_some_and(|episodes| !episodes.wants_time(stats)) {
        std::thread::yield_now();
        return None;
    }
    let began = monotonic_ns();
    std::thread::yield_now();
    let ended = monotonic_ns();
    if let Some(episodes) = known {
        episodes.yielded(began, ended, LONG_YIELD.ns(), stats);
    }
    Some((began, ended))
}

/// Polls until `ready`. `reason` is for the stall watchdog.
#[inline]
pub fn until(reason: Reason, mut ready: impl FnMut() -> bool) {
    if ready() {
        return;
    }
    until_some(PollScope::All, reason, || ready().then_some(()));
}

/// As [`until`], for puts, gets and atomics: most often the network completes them by itself, soon.
#[inline(always)]
pub fn until_complete(reason: Reason, mut ready: impl FnMut() -> bool) {
    if !ready() && !completes_soon(&mut ready) {
        until_some(PollScope::All, reason, || ready().then_some(()));
    }
}

/// Polls for completions alone, until `ready` or for a short time. Returns whether it is.
#[inline(always)]
fn completes_soon(mut ready: impl FnMut() -> bool) -> bool {
    let waits = &thread::current().waits;
    waits.set(waits.get().wrapping_add(1));
    if waits.get() % WAITS_PER_POLL == 0 || runtime::get().abilities.rma.is_none() {
        return false;
    }
    // A loop, which is compiled into the caller.
    for _ in 0..COMPLETION_POLLS[usize::from(MAY_SPIN.load(Ordering::Relaxed))] {
        progress::poll_completions();
        if ready() {
            return true;
        }
    }
    false
}

/// Polls until `ready` returns a value.
pub fn until_some<T>(scope: PollScope, reason: Reason, mut ready: impl FnMut() -> Option<T>) -> T {
    let mut waiter = Waiter::new(scope, reason);
    loop {
        waiter.iterate();
        if let Some(value) = ready() {
            waiter.done();
            return value;
        }
    }
}

/// One step of `GASNET_BLOCKUNTIL`: polls, then waits for a bounded time. `state` belongs to the
/// loop and is 0 initially.
pub fn step(state: &mut u32) {
    let mut waiter = Waiter::from_state(*state);
    waiter.iterate();
    *state = waiter.state();
}

/// The end of a `GASNET_BLOCKUNTIL` that left the spinning phase.
pub fn step_done() {
    thread::current().recorder.get().waits_no_more();
    FOLLOWERS.leave();
}

/// The yields of polls in this process.
static POLLS_YIELDED: AtomicU32 = AtomicU32::new(0);

fn yield_in_poll(yields: &PollYields) {
    if !yields.is_due() {
        return;
    }
    let before = POLLS_YIELDED.fetch_add(1, Ordering::Relaxed);
    if let Some((began, ended)) = yield_core() {
        let is_long = ended - began > LONG_YIELD.ns();
        // A rank without a core of its own leaves it to those that compute, and a thread to others
        // that poll.
        let is_alone = POLLS_YIELDED.load(Ordering::Relaxed) == before.wrapping_add(1);
        yields.took(is_long && is_alone && !is_oversubscribed());
    }
}

/// A client's poll. After several empty polls it yields the core, since the client is probably
/// waiting; in mode SPIN never. Returns how much it found.
#[inline]
pub fn poll_once() -> usize {
    let thread = thread::current();
    let empty_polls = &thread.empty_polls;
    let found = progress::poll(PollScope::All);
    if found > 0 {
        empty_polls.set(0);
        return found;
    }
    empty_polls.set(empty_polls.get() + 1);
    let unknown = EMPTY_POLLS[usize::from(MAY_SPIN.load(Ordering::Relaxed))];
    let most = thread.yields.spins().map_or(unknown, |spins| spins.max(EMPTY_POLLS[0]));
    if empty_polls.get() >= most {
        empty_polls.set(0);
        gasnet_job::check_exit(Inside::Poll);
        if mode() != WaitMode::Spin {
            yield_in_poll(&thread.poll_yields);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::{Collectives, ACTIVE};
    use gasnet_conduit::JobRank;

    #[test]
    fn a_wait_inside_an_upcall_leaves_collectives_alone() {
        progress::set_collectives(Collectives {
            advance: || 0,
            advances: || true,
        });
        ACTIVE.fetch_add(1, Ordering::Relaxed);
        let advances = |scope| Waiter::new(scope, Reason::Source(JobRank(0))).advances();
        assert_eq!([PollScope::All, PollScope::Replies].map(advances), [true, false]);
        ACTIVE.fetch_sub(1, Ordering::Relaxed);
    }

    #[test]
    fn a_sleep_without_a_wake_up_is_a_small_part_of_a_wait() {
        let phase =
            |mode, is_woken, is_oversubscribed| yield_phase(mode, is_woken, is_oversubscribed).map(PerWaiter::ns);
        let adaptive = phase(WaitMode::Adaptive, false, true);
        assert!(phase(WaitMode::Block, false, false) >= Some(16 * MIN_SLEEP_NS));
        assert_eq!(phase(WaitMode::Block, false, true), adaptive);
        assert!(phase(WaitMode::Block, true, true) < adaptive);
        assert_eq!(phase(WaitMode::Spin, true, true), None);
    }
}
