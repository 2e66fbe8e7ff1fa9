//! The library's thread that waits for the network, on the conduit's wake-up descriptor.
//!
//! - A thread with neighbours sleeps where these wake it, which the network does not. Before it
//!   sleeps it asks for a wake-up ([`watch`]): from the conduit, if that has a thread of its own,
//!   else from this thread, which is started by the first that asks.
//! - With `GASNET_RCV_THREAD` this thread also polls when something arrives, so handlers run in it
//!   while the client computes. In thread mode PAR only: in the others a client may rely on its
//!   handlers running in its own calls.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::pace::Pace;
use crate::progress;
use crate::sync::Mode;
use crate::thread;
use gasnet_conduit::config::{self, Config};
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

/// Decides whether there may be a thread, and starts the one of `GASNET_RCV_THREAD`.
pub fn start(config: &Config, wake: Option<&'static dyn Wake>, may_start_threads: bool) {
    ALLOWED.store(may_start_threads, Ordering::Relaxed);
    if !config.get(&config::RCV_THREAD) {
        return;
    }
    let reason = match wake {
        _ if Mode::get() != Mode::Par => "this program is not linked with the library for threads (PAR)",
        None => "the network of this job, if it has one, cannot wake a thread",
        Some(wake) => {
            let pace = Some(Pace::read(config));
            THREAD.get_or_init(|| {
                if may_start_threads {
                    NetworkThread::spawn(wake, pace)
                } else {
                    NetworkThread::prepare(wake, pace).ok()
                }
            });
            return;
        }
    };
    // Clients set it whatever the network is, so it is no reason for a warning.
    if config.get(&config::VERBOSEENV) {
        gasnet_tools::process::warn(format_args!("GASNET_RCV_THREAD has no effect: {reason}"));
    }
}

/// Ends what the thread does, at the end of the job. Waits a little for a handler that runs on it.
/// Async-signal-safe.
pub fn stop() {
    ENDING.store(true, Ordering::SeqCst);
    let Some(Some(thread)) = THREAD.get() else { return };
    thread.kick.wake();
    let own = process::thread();
    for _ in 0..STOP_STEPS {
        let receiving = RECEIVING.load(Ordering::SeqCst);
        if receiving == 0 || receiving == own {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether this configuration wants a thread that polls.
pub fn has_thread(config: &Config) -> bool {
    config.get(&config::RCV_THREAD) && Mode::get() == Mode::Par
}

/// Whether the thread polls, or will when the client has started it.
pub fn receives() -> bool {
    matches!(THREAD.get(), Some(Some(thread)) if thread.receives.is_some())
}

/// Whether the client is to start a thread with [`run_deferred`].
pub fn is_deferred() -> bool {
    receives() && !ALLOWED.load(Ordering::Relaxed)
}

/// What a thread of the client runs in place of a thread of the library. Does not return.
pub fn run_deferred() {
    if let Some(Some(thread)) = THREAD.get() {
        let _held = gasnet_sys::float::hold();
        process::count_own_thread();
        thread.run();
    }
}

/// Asks for a wake-up when something arrives.
pub fn watch(wake: &'static dyn Wake) -> WakePromise {
    let own = thread::in_conduit(|| wake.watch(super::wake_own));
    if own != WakePromise::Never {
        return own;
    }
    let runs = || matches!(THREAD.get(), Some(Some(thread)) if thread.runs.load(Ordering::SeqCst));
    if !ALLOWED.load(Ordering::Relaxed) && !runs() {
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
            process::spawn_own_thread("gasnet-network", config::stack_bytes(STACK_BYTES), move || own.run())?;
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
        while !ENDING.load(Ordering::SeqCst) {
            if let Some(pace) = self.receives {
                let woken = Instant::now();
                receive(pace.idle);
                let pause = pace.pause(woken.elapsed());
                if !pause.is_zero() {
                    self.kick.wait(None, pause);
                }
                if self.wake.arm() {
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
        // The process counts it as a thread of the library until it ends.
        loop {
            std::thread::park();
        }
    }
}

/// Polls until nothing has arrived for some time. What other threads wait for may be among it.
fn receive(idle: Duration) {
    RECEIVING.store(process::thread(), Ordering::SeqCst);
    let mut last = Instant::now();
    while !ENDING.load(Ordering::SeqCst) {
        if progress::poll(PollScope::All) > 0 {
            super::notify_process();
            last = Instant::now();
        } else if last.elapsed() >= idle {
            break;
        }
    }
    RECEIVING.store(0, Ordering::SeqCst);
}
