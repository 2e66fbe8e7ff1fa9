//! The keeper: a thread that does what time asks for while the client does something else.
//!
//! While the client polls, the keeper sees to it that requests which wait for company ([`super::coalesce`]) go soon, and sleeps otherwise. While the client
//! computes, the keeper takes in what comes: it acknowledges, repeats what was lost, places puts and answers gets, and keeps packets for the next poll;
//! handlers never run on it. While the client sleeps elsewhere, it wakes it when something comes.
#![forbid(unsafe_code)]

use super::receive::ReceiveContext;
use super::{lock, Deferred, Net};
use crate::sys::WakeEventfd;
use gasnet_conduit::{Class, JobRank, TransferId, Upcalls};
use gasnet_sys::{process, signal};
use std::io;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

/// How long requests that wait for company see none come, at most, before they go; longer while the client adds to them.
const FLUSH_DELAY: Duration = Duration::from_micros(100);
const MAX_FLUSH_DELAY: Duration = Duration::from_millis(1);
/// After so many looks that found none waiting, it is told of the next one.
const IDLE_FLUSHES: u32 = 4;
/// How often it looks whether the client still polls; a client that has not done so for that long computes. Where processes share cores, each waits for
/// its own for longer.
const TICK: Duration = Duration::from_millis(5);
/// How long it sleeps at most: others may look whether this host answers.
const MAX_SLEEP: Duration = Duration::from_millis(200);
/// How long it lets the client that it has woken alone.
const WAKE_GRACE: Duration = Duration::from_millis(1);
/// What it needs beside its buffers.
const STACK_BYTES: usize = 256 << 10;

/// What the client does: it polls now and then; it sleeps, and what comes wakes it; it sleeps, and has to be woken.
const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NEEDS_WAKE: u8 = 2;

/// What the client and the keeper know of each other.
#[derive(Debug)]
pub struct ProgressThread {
    wakeup: WakeEventfd,
    tick: Duration,
    /// Whether there is one.
    running: AtomicBool,
    client: AtomicU8,
    /// When the client last polled.
    last_poll: AtomicU64,
    client_wake: Mutex<Option<fn()>>,
    /// Whether it looks soon without being told.
    flushing: AtomicBool,
    /// Whether it sleeps where what comes wakes it.
    on_socket: AtomicBool,
    /// Whether it takes in what has come.
    receiving: AtomicBool,
}

impl ProgressThread {
    /// Nobody yet. So many processes share this host.
    pub fn new(processes: u32) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Ok(Self {
            wakeup: WakeEventfd::new()?,
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

    /// Whether there is one.
    pub fn is_running(&self) -> bool {
        self.running.load(Relaxed)
    }

    /// The client polls, at `now`.
    pub fn on_poll(&self, now: u64) {
        self.last_poll.store(now, Relaxed);
        if self.client.load(Relaxed) != AWAKE {
            self.client.store(AWAKE, Relaxed);
        }
    }

    /// Whether the client has polled so lately that it needs nobody to look after its peers.
    fn polled_recently(&self, now: u64) -> bool {
        now < self.last_poll.load(Relaxed) + self.tick.as_nanos() as u64
    }

    /// Something is under way, since `now`. Who computes has a keeper that knows of it.
    pub fn on_work(&self, now: u64) {
        if self.on_socket.load(Relaxed) && !self.polled_recently(now) {
            self.wakeup.wake();
        }
    }

    /// The client sleeps where what comes wakes it.
    pub fn on_sleep(&self) {
        self.client.store(ASLEEP, SeqCst);
    }

    /// It does not, after all.
    pub fn on_awake(&self) {
        self.client.store(AWAKE, Relaxed);
    }

    /// Whether it takes in what has come, and may not know that the client sleeps.
    pub fn is_receiving(&self) -> bool {
        self.receiving.load(SeqCst)
    }

    /// Something waits for company.
    pub fn on_coalesced(&self) {
        fence(SeqCst);
        if !self.flushing.load(Relaxed) && !self.flushing.swap(true, SeqCst) {
            self.wakeup.wake();
        }
    }

    /// Until the next poll the client is to be woken when something comes.
    pub fn watch(&self, wake: fn()) {
        *lock(&self.client_wake) = Some(wake);
        self.client.store(NEEDS_WAKE, SeqCst);
        if !self.on_socket.load(SeqCst) {
            self.wakeup.wake();
        }
        fence(SeqCst);
    }

    /// The end: it looks, and goes.
    pub fn wake(&self) {
        self.wakeup.wake();
    }
}

/// What the keeper has to itself.
struct LoopState {
    context: ReceiveContext,
    /// Looks in a row that found nothing waiting for company.
    idle: u32,
    /// Requests that had waited at the last look, and how long it sleeps before the next one.
    coalesced_seen: u32,
    pause: Duration,
}

/// How the thread sleeps.
struct Sleep {
    limit: Duration,
    /// Whether what comes ends it.
    on_socket: bool,
}

/// Nothing is delivered on this thread: packets are kept, and news of transfers is.
struct NoUpcalls;

impl Upcalls for NoUpcalls {
    fn packet(&mut self, source: JobRank, class: Class, _packet: &mut [u8]) {
        unreachable!("defect: a {class:?} packet of rank {source} was delivered by the keeper");
    }
    fn rma_done(&mut self, id: TransferId) {
        unreachable!("defect: transfer {id:?} was completed by the keeper");
    }
    fn peer_lost(&mut self, _peer: JobRank, _why: &str) {}
}

impl Net {
    /// Starts the keeper, if the system lets it. It goes with the network.
    pub fn start_progress_thread(net: &Arc<Self>) {
        let weak = Arc::downgrade(net);
        // Signals are the client's.
        let mask = signal::block_all();
        let started = thread::Builder::new()
            .name("gasnet-udp".into())
            .stack_size(STACK_BYTES)
            .spawn(move || run(&weak));
        signal::set_mask(&mask);
        net.progress.running.store(started.is_ok(), Relaxed);
        if started.is_ok() {
            process::count_own_thread();
        }
        if let Err(why) = started {
            gasnet_conduit::warn(format_args!(
                "The udp conduit cannot start a thread: {why}. While this rank computes it answers nobody."
            ));
        }
    }

    /// Does what is due. Returns how long to sleep, and whether what comes shall end that.
    fn iterate(&self, state: &mut LoopState) -> Sleep {
        let progress = &self.progress;
        let flush_in = if progress.flushing.load(Relaxed) {
            self.flush_stalled(state)
        } else {
            None
        };
        let (pause, on_socket) = match (progress.client.load(SeqCst), progress.polled_recently(self.now())) {
            // It may have seen what was kept, or not; and slept since, or not.
            (NEEDS_WAKE, true) if self.has_deferred() => {
                self.wake_client();
                (WAKE_GRACE, true)
            }
            // What is due the client does itself, if it polls before it computes.
            (NEEDS_WAKE, true) => (progress.tick.min(MAX_SLEEP), true),
            (_, true) => (progress.tick, false),
            // Also one that adds to what waits all the time: others wait for it. And one whose sleep has ended without a poll.
            (_, false) => {
                progress.receiving.store(true, SeqCst);
                // Who polls and sleeps meanwhile sees that, or is seen here.
                let is_asleep = progress.client.load(SeqCst) == ASLEEP && progress.polled_recently(self.now());
                let pause = if is_asleep { progress.tick } else { self.make_progress(state) };
                progress.receiving.store(false, SeqCst);
                (pause, !is_asleep)
            }
        };
        Sleep {
            limit: flush_in.map_or(pause, |flush_in| flush_in.min(pause)),
            on_socket,
        }
    }

    /// Sends what waits for company if that does not come. Returns how long to sleep before the next look; none: there is no need for another.
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
        // Who added one before that has not rung; the other side has such a fence, too.
        fence(SeqCst);
        self.has_coalesced().then(|| {
            self.progress.flushing.store(true, SeqCst);
            FLUSH_DELAY
        })
    }

    /// Takes in what has come for a client that computes. Returns how long nothing is due.
    fn make_progress(&self, state: &mut LoopState) -> Duration {
        if self.has_icmp_errors.load(Relaxed) && self.has_icmp_errors.swap(false, Relaxed) {
            self.drain_icmp_errors();
        }
        let now = self.receive(&mut state.context, &mut NoUpcalls);
        if now >= self.next_timers.load(Relaxed) {
            self.run_timers(now);
        }
        if now >= self.next_keepalive.load(Relaxed) {
            self.keepalive(now);
        }
        // It may have begun to sleep before these were kept; or sees them.
        fence(SeqCst);
        if self.has_deferred() {
            self.wake_client();
        }
        let next = self.next_timers.load(Relaxed).min(self.next_keepalive.load(Relaxed));
        // A look each so often is enough for what waits for nobody.
        Duration::from_nanos(next.saturating_sub(now)).clamp(WAKE_GRACE, MAX_SLEEP)
    }

    /// Whether something waits for the client's next poll.
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
        let Sleep { limit, on_socket } = net.iterate(&mut state);
        let progress = &net.progress;
        progress.on_socket.store(on_socket, SeqCst);
        // Who began to sleep meanwhile has seen that nobody watches, and rung; or is seen here.
        let needs_wake = progress.client.load(SeqCst) == NEEDS_WAKE;
        let socket = (on_socket || needs_wake).then(|| net.wake_fd());
        let readable = progress.wakeup.wait(socket, limit);
        progress.on_socket.store(false, SeqCst);
        if readable && progress.client.load(SeqCst) == NEEDS_WAKE {
            net.wake_client();
            progress.wakeup.wait(None, WAKE_GRACE);
        }
    }
}
