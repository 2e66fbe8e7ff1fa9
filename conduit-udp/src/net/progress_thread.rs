//! The progress thread: timer work and reception while the client does not poll.
//!
//! While the client polls, the thread only flushes held requests ([`super::coalesce`]) and sleeps
//! otherwise. While the client computes, the thread receives: it acknowledges, retransmits, places
//! puts, answers gets, and defers packets to the next poll. Handlers never run on it. While the
//! client sleeps outside the conduit, the thread wakes it when a datagram arrives.
#![forbid(unsafe_code)]

use super::receive::ReceiveContext;
use super::{Deferred, Net};
use gasnet_conduit::{config, Class, Completion, Cookie, JobRank, Upcalls};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::eventfd::Eventfd;
use gasnet_sys::{lock, process};
use std::io;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time that held requests wait for more. Doubles with each iteration in which the client added
/// some, up to the maximum.
const FLUSH_DELAY: Duration = Duration::from_micros(100);
const MAX_FLUSH_DELAY: Duration = Duration::from_millis(1);
/// Iterations in a row without new held requests, after which the thread disarms and waits for a
/// wake-up.
const IDLE_FLUSHES: u32 = 4;
/// Interval at which the thread checks that the client still polls. A client that has not polled
/// for that long is computing. It is multiplied by the processes per core, since each waits longer
/// for its core.
const TICK: Duration = Duration::from_millis(5);
/// Longest sleep: peers may be checking that this rank answers.
const MAX_SLEEP: Duration = Duration::from_millis(200);
/// Time for a client that was just woken to poll.
const WAKE_GRACE: Duration = Duration::from_millis(1);
/// Stack size; the receive buffers are on the heap.
const STACK_BYTES: usize = 256 << 10;

/// State of the client: it polls; it sleeps on the socket, which wakes it; it sleeps elsewhere and
/// this thread must wake it.
const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NEEDS_WAKE: u8 = 2;

/// State shared by the client and the progress thread.
#[derive(Debug)]
pub struct ProgressThread {
    wakeup: Eventfd,
    tick: Duration,
    /// Whether the thread exists.
    running: AtomicBool,
    client: AtomicU8,
    /// Time of the client's last poll, in nanoseconds since the conduit started.
    last_poll: AtomicU64,
    client_wake: Mutex<Option<fn()>>,
    /// Whether the thread flushes soon without a wake-up.
    flushing: AtomicBool,
    /// Whether the thread sleeps on the socket.
    on_socket: AtomicBool,
    /// Whether the thread receives from the socket.
    receiving: AtomicBool,
}

impl ProgressThread {
    /// The state before the thread starts. `processes` is the number of ranks on this host.
    pub fn new(processes: u32) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Ok(Self {
            wakeup: Eventfd::new()?,
            tick: TICK * processes.div_ceil(cores).max(1),
            running: AtomicBool::new(false),
            client: AtomicU8::new(AWAKE),
            last_poll: AtomicU64::new(0),
            client_wake: Mutex::new(None),
            flushing: AtomicBool::new(false),
            on_socket: AtomicBool::new(false),
            receiving: AtomicBool::new(false),
        })
    }

    /// Whether the thread exists.
    pub fn is_running(&self) -> bool {
        self.running.load(Relaxed)
    }

    /// Called by every client poll.
    pub fn on_poll(&self, now: u64) {
        self.last_poll.store(now, Relaxed);
        if self.client.load(Relaxed) != AWAKE {
            self.client.store(AWAKE, Relaxed);
        }
    }

    /// Nanoseconds from the client's last poll to `now`.
    pub fn since_poll(&self, now: u64) -> u64 {
        now.saturating_sub(self.last_poll.load(Relaxed))
    }

    /// Whether the client has polled within the tick, so that it runs its own timers.
    fn polled_recently(&self, now: u64) -> bool {
        self.since_poll(now) < self.tick.as_nanos() as u64
    }

    /// Called when a peer gets unacknowledged data. If the client computes, the thread must run
    /// that peer's timers.
    pub fn on_work(&self, now: u64) {
        if self.on_socket.load(Relaxed) && !self.polled_recently(now) {
            self.wakeup.wake();
        }
    }

    /// Called before the client sleeps on the socket.
    pub fn on_sleep(&self) {
        self.client.store(ASLEEP, SeqCst);
    }

    /// Called when the client does not sleep after all.
    pub fn on_awake(&self) {
        self.client.store(AWAKE, Relaxed);
    }

    /// Whether the thread receives, and may not have seen that the client sleeps.
    pub fn is_receiving(&self) -> bool {
        self.receiving.load(SeqCst)
    }

    /// Called when a request was held.
    pub fn on_coalesced(&self) {
        fence(SeqCst);
        if !self.flushing.load(Relaxed) && !self.flushing.swap(true, SeqCst) {
            self.wakeup.wake();
        }
    }

    /// Asks the thread to call `wake` when a datagram arrives, until the next poll.
    pub fn watch(&self, wake: fn()) {
        *lock(&self.client_wake) = Some(wake);
        self.client.store(NEEDS_WAKE, SeqCst);
        if !self.on_socket.load(SeqCst) {
            self.wakeup.wake();
        }
        fence(SeqCst);
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        self.wakeup.wake();
    }
}

/// State of the thread's own.
struct LoopState {
    context: ReceiveContext,
    /// Iterations in a row without new held requests.
    idle: u32,
    /// Requests held in total at the last iteration, and the current flush delay.
    coalesced_seen: u32,
    pause: Duration,
}

/// The upcalls of a thread on which nothing is delivered: packets and completions are deferred.
struct NoUpcalls;

impl Upcalls for NoUpcalls {
    fn packet(&mut self, source: JobRank, class: Class, _packet: &mut [u8]) {
        unreachable!("defect: a {class:?} packet of rank {source} was delivered by the progress thread");
    }
    fn done(&mut self, cookie: Cookie, _: Completion) {
        unreachable!("defect: {cookie:?} was completed by the progress thread");
    }
    fn peer_lost(&mut self, _peer: JobRank, _why: &str) {}
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

impl Net {
    /// Starts the progress thread. If the system refuses, prints a warning. The thread ends when
    /// the network is dropped.
    pub fn start_progress_thread(net: &Arc<Self>) {
        let weak = Arc::downgrade(net);
        let started = process::spawn_own_thread("gasnet-udp", config::stack_bytes(STACK_BYTES), move || run(&weak));
        net.progress.running.store(started.is_ok(), Relaxed);
        if let Err(error) = started {
            gasnet_conduit::warn(format_args!(
                "The udp conduit cannot start its progress thread: {error}. This rank does not answer while it \
                 computes."
            ));
        }
    }

    /// Runs one iteration. Returns how long to sleep until the next, and whether an arriving
    /// datagram ends the sleep.
    fn iterate(&self, state: &mut LoopState) -> (Duration, bool) {
        let progress = &self.progress;
        let flush_in = if progress.flushing.load(Relaxed) {
            self.flush_stalled(state)
        } else {
            None
        };
        let (pause, on_socket) = match (progress.client.load(SeqCst), progress.polled_recently(self.now())) {
            // Whether the client saw the deferred packets before it slept is unknown, so wake it.
            (NEEDS_WAKE, true) if self.has_deferred() => {
                self.wake_client();
                (WAKE_GRACE, true)
            }
            // The client runs the timers itself, if it polls before it computes.
            (NEEDS_WAKE, true) => (progress.tick.min(MAX_SLEEP), true),
            (_, true) => (progress.tick, false),
            // This includes a client that sends all the time without a poll, and one whose sleep
            // ended without a poll.
            (_, false) => {
                progress.receiving.store(true, SeqCst);
                // A client that polls and sleeps at this moment either sees `receiving`, or is seen
                // here.
                let is_asleep = progress.client.load(SeqCst) == ASLEEP && progress.polled_recently(self.now());
                let pause = if is_asleep {
                    progress.tick
                } else {
                    self.make_progress(state)
                };
                progress.receiving.store(false, SeqCst);
                (pause, !is_asleep)
            }
        };
        (flush_in.map_or(pause, |flush_in| flush_in.min(pause)), on_socket)
    }

    /// Flushes held requests if none was added since the last iteration. Returns the delay until
    /// the next iteration; `None`: the thread is disarmed.
    fn flush_stalled(&self, state: &mut LoopState) -> Option<Duration> {
        let count = self.coalescer.count();
        let is_new = std::mem::replace(&mut state.coalesced_seen, count) != count;
        if is_new {
            (state.idle, state.pause) = (0, (2 * state.pause).clamp(FLUSH_DELAY, MAX_FLUSH_DELAY));
            return Some(state.pause);
        }
        self.flush_coalesced();
        state.idle += 1;
        state.pause = FLUSH_DELAY;
        if state.idle < IDLE_FLUSHES {
            return Some(MAX_FLUSH_DELAY);
        }
        state.idle = 0;
        self.progress.flushing.store(false, SeqCst);
        // A thread that held a request before the store did not wake this one. `on_coalesced` has
        // the matching fence.
        fence(SeqCst);
        self.has_coalesced().then(|| {
            self.progress.flushing.store(true, SeqCst);
            FLUSH_DELAY
        })
    }

    /// Receives, and runs timers, for a client that computes. Returns the time until the next
    /// timer.
    fn make_progress(&self, state: &mut LoopState) -> Duration {
        if self.has_icmp_errors.load(Relaxed) && self.has_icmp_errors.swap(false, Relaxed) {
            self.drain_icmp_errors();
        }
        let (now, _) = self.receive(&mut state.context, &mut NoUpcalls);
        if now >= self.next_timers.load(Relaxed) {
            self.run_timers(now);
        }
        if now >= self.next_keepalive.load(Relaxed) {
            self.keepalive(now);
        }
        // The client may have begun to sleep before these were deferred; otherwise it sees them.
        fence(SeqCst);
        if self.has_deferred() {
            self.wake_client();
        }
        let next = self.next_timers.load(Relaxed).min(self.next_keepalive.load(Relaxed));
        // The lower bound suffices for work that nobody waits for.
        Duration::from_nanos(next.saturating_sub(now)).clamp(WAKE_GRACE, MAX_SLEEP)
    }

    /// Whether packets or completions wait for the client's next poll.
    fn has_deferred(&self) -> bool {
        self.has_completed.load(Relaxed) || !self.deferred.iter().all(Deferred::is_empty)
    }

    fn wake_client(&self) {
        let wake = *lock(&self.progress.client_wake);
        if let Some(wake) = wake.filter(|_| self.progress.client.load(SeqCst) == NEEDS_WAKE) {
            wake();
        }
    }
}

fn run(net: &Weak<Net>) {
    let mut state = LoopState {
        context: ReceiveContext::new(),
        idle: 0,
        coalesced_seen: 0,
        pause: FLUSH_DELAY,
    };
    while let Some(net) = net.upgrade() {
        if net.stopped.load(Relaxed) {
            return;
        }
        let (limit, on_socket) = net.iterate(&mut state);
        let progress = &net.progress;
        progress.on_socket.store(on_socket, SeqCst);
        // A client that began to sleep meanwhile either saw that this thread does not sleep on the
        // socket, and woke it, or is seen here.
        let needs_wake = progress.client.load(SeqCst) == NEEDS_WAKE;
        let socket = (on_socket || needs_wake).then(|| net.socket.raw());
        let readable = progress.wakeup.wait(socket, limit);
        progress.on_socket.store(false, SeqCst);
        if readable && progress.client.load(SeqCst) == NEEDS_WAKE {
            net.wake_client();
            progress.wakeup.wait(None, WAKE_GRACE);
        }
    }
}
