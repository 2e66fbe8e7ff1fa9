//! The library's thread that waits for the network, on the conduit's wake-up descriptor.
//!
//! - A thread with neighbours sleeps where these wake it, which the network does not. Before it
//!   sleeps it asks for a wake-up ([`watch`]): from the conduit, if that has a thread of its own,
//!   else from this thread, which is started by the first that asks.
//! - With `GASNET_RCV_THREAD`, in a rank without neighbours, it also polls when something arrives
//!   (`receive`).

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::FOLLOWERS;
use crate::progress;
use crate::thread;
use gasnet_conduit::config;
use gasnet_conduit::{PollScope, Wake, WakePromise};
use gasnet_sys::eventfd::Eventfd;
use gasnet_sys::process;

/// A handler of a client may run on it.
const STACK_BYTES: usize = 8 << 20;
/// Longest sleep: a bound, should a wake-up get lost.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// Milliseconds that the end of the job waits for a handler on the thread.
const STOP_STEPS: u32 = 100;

/// The thread, as others see it.
struct NetworkThread {
    wake: &'static dyn Wake,
    /// Ends its sleep.
    kick: Eventfd,
    /// A thread is about to sleep and wants a wake-up. Whoever clears it notifies the process; a
    /// thread that has not yet announced its sleep then finds a new count of notifications.
    wanted: AtomicBool,
    /// Whether it polls, and how much.
    receives: Option<Pace>,
    /// Whether it runs. One that polls is left to the client to start if it has deferred threads.
    runs: AtomicBool,
}

static THREAD: OnceLock<Option<Arc<NetworkThread>>> = OnceLock::new();
/// Whether the client allows threads.
static ALLOWED: AtomicBool = AtomicBool::new(false);
static ENDING: AtomicBool = AtomicBool::new(false);
/// The thread, by its number in the system, while it polls.
static RECEIVING: AtomicI32 = AtomicI32::new(0);

/// Decides whether the library may start threads.
pub fn allow_threads(may_start_threads: bool) {
    ALLOWED.store(may_start_threads, Ordering::Relaxed);
}

/// Whether the library may start threads.
pub fn may_start_threads() -> bool {
    ALLOWED.load(Ordering::Relaxed)
}

/// Makes the thread poll, in a rank without neighbours. Starts it if that is not left to the
/// client.
pub fn set_receiving(wake: &'static dyn Wake, pace: Pace) {
    THREAD.get_or_init(|| {
        if may_start_threads() {
            NetworkThread::spawn(wake, Some(pace))
        } else {
            NetworkThread::prepare(wake, Some(pace)).ok()
        }
    });
}

/// Ends what the thread does, at the end of the job. Async-signal-safe.
pub fn end() {
    ENDING.store(true, Ordering::SeqCst);
    if let Some(Some(thread)) = THREAD.get() {
        thread.kick.wake();
    }
}

/// Waits a little for a handler that runs on a thread that polls. Async-signal-safe.
pub fn await_handler() {
    let own = process::thread();
    for _ in 0..STOP_STEPS {
        let receiving = RECEIVING.load(Ordering::SeqCst);
        if receiving == 0 || receiving == own {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the thread polls, or will when the client has started it.
pub fn receives() -> bool {
    matches!(THREAD.get(), Some(Some(thread)) if thread.receives.is_some())
}

/// Runs the thread that polls on the calling one, until the job ends.
pub fn run_receiving() {
    if let Some(Some(thread)) = THREAD.get() {
        thread.run();
    }
}

/// The end of a thread of the library: the process counts it until it ends.
pub fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

/// Starts a thread that runs `body` until the job ends.
pub fn spawn(body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let body = move || {
        body();
        stay();
    };
    process::spawn_own_thread("gasnet-network", config::stack_bytes(STACK_BYTES), body).map(drop)
}

/// Asks for a wake-up when something arrives.
pub fn watch(wake: &'static dyn Wake) -> WakePromise {
    let own = thread::in_conduit(|| wake.watch(super::wake_own));
    if own != WakePromise::Never {
        return own;
    }
    let runs = || matches!(THREAD.get(), Some(Some(thread)) if thread.runs.load(Ordering::SeqCst));
    if !may_start_threads() && !runs() {
        return WakePromise::Never;
    }
    let Some(thread) = THREAD.get_or_init(|| NetworkThread::spawn(wake, None)) else {
        return WakePromise::Never;
    };
    if thread.receives.is_some() {
        return WakePromise::Wakes;
    }
    if !thread::in_conduit(|| wake.arm()) {
        return WakePromise::Arrived;
    }
    if !thread.wanted.swap(true, Ordering::SeqCst) {
        thread.kick.wake();
    }
    WakePromise::Wakes
}

impl NetworkThread {
    fn prepare(wake: &'static dyn Wake, receives: Option<Pace>) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            wake,
            kick: Eventfd::new()?,
            wanted: AtomicBool::new(false),
            receives,
            runs: AtomicBool::new(false),
        }))
    }

    fn spawn(wake: &'static dyn Wake, receives: Option<Pace>) -> Option<Arc<Self>> {
        let start = || {
            let thread = Self::prepare(wake, receives)?;
            let own = thread.clone();
            spawn(move || own.run())?;
            Ok(thread)
        };
        let started: std::io::Result<_> = start();
        started
            .inspect_err(|why| {
                gasnet_tools::process::warn(format_args!(
                    "cannot start the thread that waits for the network: {why}"
                ));
            })
            .ok()
    }

    fn run(&self) {
        self.runs.store(true, Ordering::SeqCst);
        if self.receives.is_some() {
            thread::enter_as_library();
        }
        while !is_ending() {
            if let Some(pace) = self.receives {
                let woken = Instant::now();
                let _ = receive(pace.idle);
                let pause = pace.pause(woken.elapsed());
                if !pause.is_zero() {
                    self.kick.wait(None, pause);
                }
                // With GEX_FLAG_DEFER_THREADS this is a thread of the client's.
                if thread::in_conduit(|| self.wake.arm()) {
                    self.kick.wait(Some(self.wake.fd()), MAX_SLEEP);
                }
                continue;
            }
            let wanted = self.wanted.load(Ordering::SeqCst);
            let arrived = self.kick.wait(wanted.then(|| self.wake.fd()), MAX_SLEEP);
            if arrived && self.wanted.swap(false, Ordering::SeqCst) {
                super::notify_process();
            }
        }
    }
}

/// Whether the job ends.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// The result of [`receive`].
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Whether anything had arrived.
    pub found: bool,
    /// The eventcount before the last poll.
    pub known: u32,
}

/// Polls until nothing has arrived for some time. Other threads may wait for some of it.
pub fn receive(idle: Duration) -> Received {
    RECEIVING.store(process::thread(), Ordering::SeqCst);
    let mut last = Instant::now();
    let mut received = Received {
        found: false,
        known: FOLLOWERS.count(),
    };
    while !is_ending() {
        received.known = FOLLOWERS.count();
        if progress::poll(PollScope::All) > 0 {
            super::notify_process();
            received.found = true;
            last = Instant::now();
        } else if last.elapsed() >= idle {
            break;
        }
    }
    RECEIVING.store(0, Ordering::SeqCst);
    received
}
