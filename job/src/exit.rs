//! How a rank ends (GASNet-1 spec, `gasnet_exit`). The first caller, in any context, ends the
//! process; other threads park.
//!
//! The rank sends its code to the node agent, waits until all ranks are in exit or have ended,
//! stops its conduit, flushes its output streams, and ends. `gasnet_exit` does not run the client's
//! exit handlers. The end of `main` and `exit` run those that remain, because languages other than
//! C flush their buffers there.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::control_block::Phase;
use super::control_socket::{self, RankMessage};
use super::job::{self, Job};
use super::pmi;
use gasnet_sys::{clock, fd, process, progress, signal};

/// The thread that ends this process; 0 if none.
static THREAD: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static HOOKS: OnceLock<ExitHooks> = OnceLock::new();
static BY_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// A thread has reached the exit inside a call of the conduit, in a signal handler of the client's.
/// It may hold the conduit's locks until the process ends.
static IN_CONDUIT: AtomicBool = AtomicBool::new(false);
/// The signal that ends a job without a node agent; 0 if none.
static TERMINATION: AtomicI32 = AtomicI32::new(0);
static FLUSHES: AtomicBool = AtomicBool::new(false);
static HOOK_RAN: AtomicBool = AtomicBool::new(false);

/// Sleeps of a rank in exit: with nothing to do for its peers, and when its conduit may have to
/// answer them.
const SLEEP: Duration = Duration::from_millis(100);
const SLEEP_BETWEEN_POLLS: Duration = Duration::from_millis(2);

/// Watchdog of the last flush and of exit handlers: longest interval between checks, fewest checks
/// before it ends the process, and how long a flush may make no progress while its reader reads.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
const FEWEST_CHECKS: u32 = 9;
const STALL_LIMIT: Duration = Duration::from_millis(2250);
static CHECKS_LEFT: AtomicU32 = AtomicU32::new(0);
/// The same while the process computes.
static BUSY_CHECKS_LEFT: AtomicU32 = AtomicU32::new(0);
/// At the last check: the clock, and how long the process had run and waited for a processor.
static LAST_CHECK: [AtomicU64; 3] = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];

/// Work of a higher layer in a rank that exits.
#[derive(Clone, Copy, Debug)]
pub struct ExitHooks {
    /// Called repeatedly while the rank waits for the others, unless locks of the conduit may be
    /// taken. The runtime lets its conduit answer its peers.
    pub linger: Option<fn()>,
    /// Whether the calling thread is inside a call of the conduit, and may hold its locks. If so,
    /// the rank ends as by a signal. Async-signal-safe.
    pub is_in_conduit: fn() -> bool,
    /// Called after each wait for the others that timed out, on the thread that ends the process.
    pub waits: fn(&Job),
    /// Called once, before the last output. The runtime stops its conduit there. It may run on any
    /// thread, in a signal handler (true), and while other threads are inside GASNet.
    pub stop: fn(bool),
}

/// Sets the hooks. The first call wins.
pub fn set_exit_hooks(hooks: ExitHooks) {
    let _ = HOOKS.set(hooks);
}

/// A signal handler is about to end the process: the interrupted code may hold locks.
pub(super) fn by_signal(number: i32) {
    BY_SIGNAL.store(number, Ordering::Relaxed);
}

/// A signal asks for the end, perhaps of a process that is already ending. Its last output then
/// waits for a reader at max for the exit timeout, which the node agent enforces if there is one.
/// Async-signal-safe.
pub(super) fn request_termination(job: &Job, number: i32) {
    if begun() {
        job.send(RankMessage::Asked { signal: number });
    }
    let is_first = job.control_socket.is_none()
        && TERMINATION
            .compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
    if is_first && FLUSHES.load(Ordering::Relaxed) {
        let limit = job.options.exit_timeouts.exit;
        limit_flush(limit, limit);
    }
}

/// Gives a flush without progress this much time from now; if the process computes, `busy`.
/// Async-signal-safe.
fn limit_flush(time: Duration, busy: Duration) {
    let interval = (time / FEWEST_CHECKS)
        .clamp(Duration::from_millis(1), CHECK_INTERVAL)
        .as_millis();
    let checks = |time: Duration| u32::try_from(time.as_millis() / interval).unwrap_or(u32::MAX);
    CHECKS_LEFT.store(checks(time), Ordering::Relaxed);
    BUSY_CHECKS_LEFT.store(checks(busy), Ordering::Relaxed);
    time_since_check();
    signal::repeat_alarm(interval as i32);
}

/// In nanoseconds: the time since the last call, and how long the process has run and waited for a
/// processor in it. Async-signal-safe.
fn time_since_check() -> [u64; 3] {
    let now = [
        clock::monotonic_ns(),
        clock::process_cpu_ns(),
        progress::own_queued_ns(),
    ];
    [0, 1, 2].map(|i| now[i].saturating_sub(LAST_CHECK[i].swap(now[i], Ordering::Relaxed)))
}

/// Counts a check down. False if it was the last one.
fn count_down(checks: &AtomicU32) -> bool {
    let left = checks.load(Ordering::Relaxed);
    checks.store(left.saturating_sub(1), Ordering::Relaxed);
    left > 1
}

/// Makes the end of `main` and `exit()` end the job. Not in children of the client.
pub(super) fn catch_exit() {
    process::at_exit(|status| {
        if let Some(job) = job::current().filter(|job| job.is_own_process()) {
            job.returned(status);
        }
    });
}

/// Ends a process that has no job.
pub(super) fn without_job(code: i32) -> ! {
    let _ = process::flush_streams();
    process::end(code)
}

/// An exit handler that ran after the last output called `gasnet_exit`. Its failure replaces a
/// success. The node agent sees the status of the process.
fn exit_again(code: i32) {
    if HOOK_RAN.load(Ordering::Acquire) && CODE.load(Ordering::Relaxed) == 0 {
        CODE.store(code, Ordering::Relaxed);
    }
}

/// Whether another thread is ending this process. Async-signal-safe.
pub(super) fn by_another_thread() -> bool {
    let thread = THREAD.load(Ordering::Acquire);
    thread != 0 && thread != process::thread()
}

/// Whether the interrupted code of a signal handler, of the client's or ours, may hold locks of the
/// conduit: then the exit calls nothing that takes one.
fn locks_may_be_taken() -> bool {
    BY_SIGNAL.load(Ordering::Relaxed) != 0 || IN_CONDUIT.load(Ordering::SeqCst)
}

/// Whether this process is in exit. Async-signal-safe.
pub(super) fn begun() -> bool {
    THREAD.load(Ordering::Acquire) != 0
}

impl Job {
    /// `gasnet_exit`: ends the whole job with `code`. May be called from any thread and context,
    /// collectively or not. A child that the client has forked ends only itself.
    pub fn exit(&self, code: i32) -> ! {
        let _whole = gasnet_sys::cancel::disable();
        if !self.is_own_process() {
            without_job(code);
        }
        self.finish(code, true);
        process::end(CODE.load(Ordering::Relaxed))
    }

    /// The client returned from `main` or called `exit`. The exit handlers registered before ours
    /// run next. They get the exit timeout, because one of them may wait for a thread that found
    /// the job ending; and the longer one of ranks that compute while they do.
    fn returned(&self, code: i32) {
        self.finish(code, false);
        let timeouts = self.options.exit_timeouts;
        limit_flush(timeouts.exit, timeouts.busy);
    }

    /// Whether this rank is frozen or traced. Async-signal-safe.
    fn is_held(&self) -> bool {
        self.status().frozen.load(Ordering::Relaxed) != 0 || progress::is_own_traced()
    }

    /// Ends this rank for the others, up to its last output. `whole`: no client code runs
    /// afterwards.
    fn finish(&self, code: i32, whole: bool) {
        let me = process::thread();
        let hooks = HOOKS.get();
        // Also if another thread ends the process: this one keeps the locks while it parks.
        if hooks.is_some_and(|hooks| (hooks.is_in_conduit)()) {
            IN_CONDUIT.store(true, Ordering::SeqCst);
        }
        match THREAD.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => self.announce(code),
            // A signal handler or the hook re-entered, or an exit handler called exit again.
            // Restart: steps already done have no effect.
            Err(thread) if thread == me => exit_again(code),
            Err(_) => process::park(),
        }
        self.wait_for_go();
        if let Some(hooks) = hooks.filter(|_| !HOOK_RAN.swap(true, Ordering::AcqRel)) {
            (hooks.stop)(locks_may_be_taken());
        }
        pmi::current::finalize(whole);
        self.flush();
    }

    fn announce(&self, code: i32) {
        CODE.store(code, Ordering::Relaxed);
        self.status().in_exit.store(1, Ordering::Relaxed);
        if self.control_socket.is_some() {
            // The first and small message on this socket, so there is room.
            let signal = BY_SIGNAL.load(Ordering::Relaxed);
            self.send(RankMessage::Exit { code, signal });
        } else {
            self.control.set_code(code);
            self.control.advance(Phase::Go);
        }
    }

    /// A fault ends this rank, which is in exit. A process manager or a custom command may not pass
    /// on the status of the process. Async-signal-safe.
    pub(super) fn report_fault(&self, number: i32) {
        if begun() {
            self.send(RankMessage::Exit {
                code: 128 + number,
                signal: number,
            });
        }
    }

    /// The node agent kills a rank that delays the exit. The limit here is for an agent that is
    /// stopped: one that runs waits for ranks that a user examines in a debugger.
    fn wait_for_go(&self) {
        let limit = (self.options.exit_timeouts.exit + self.options.exit_timeouts.busy) * 2 + Duration::from_secs(10);
        let (mut start, mut beats) = (Instant::now(), 0);
        let hooks = HOOKS.get();
        while start.elapsed() < limit {
            let seen = self.control.phase();
            if seen == Phase::Go {
                return;
            }
            let agent_beats = self.control.beats();
            if agent_beats != beats {
                (start, beats) = (Instant::now(), agent_beats);
            }
            let linger = hooks.and_then(|hooks| hooks.linger).filter(|_| !locks_may_be_taken());
            if let Some(linger) = linger {
                linger();
            }
            self.control
                .wait_phase(seen, linger.map_or(SLEEP, |_| SLEEP_BETWEEN_POLLS));
            if let Some(hooks) = hooks {
                (hooks.waits)(self);
            }
            if let Some(socket) = &self.control_socket {
                control_socket::check(socket.as_raw_fd());
            }
        }
    }

    /// Flushes output streams. A slow reader may take its time unless a signal asks for the end. An
    /// alarm ends the process if another thread holds a stream's lock for too long (in `fgets` on
    /// standard input, for example).
    fn flush(&self) {
        signal::handle(libc::SIGALRM, on_flush_alarm, &[]);
        signal::unblock(&[libc::SIGALRM]);
        FLUSHES.store(true, Ordering::Relaxed);
        let timeouts = self.options.exit_timeouts;
        match TERMINATION.load(Ordering::Relaxed) {
            0 => limit_flush(STALL_LIMIT, timeouts.busy.max(STALL_LIMIT)),
            _ => limit_flush(timeouts.exit, timeouts.exit),
        }
        if let Err(why) = process::flush_streams() {
            // No message when the reader is gone or the client has closed the stream.
            if !fd::peer_is_gone(1) {
                let why = why.map_or("an earlier write failed".into(), |why| why.to_string());
                gasnet_tools::process::warn(format_args!(
                    "standard output cannot be written, so that some of it is lost: {why}"
                ));
            }
        }
        if self.options.sync_files {
            process::sync_files();
        }
        FLUSHES.store(false, Ordering::Relaxed);
        signal::repeat_alarm(0);
    }
}

extern "C" fn on_flush_alarm(_signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let asked = TERMINATION.load(Ordering::Relaxed);
    if asked == 0 && job::current().is_some_and(Job::is_held) {
        return;
    }
    let reader_pauses = || !fd::is_writable(1) || !fd::is_writable(2);
    if asked == 0 && reader_pauses() {
        if let Some(job) = job::current() {
            job.status().stalled_flushes.fetch_add(1, Ordering::Relaxed);
        }
        return;
    }
    let [passed, used, queued] = time_since_check();
    // The machine is busy.
    if asked == 0 && queued >= passed / 2 {
        return;
    }
    let computes = asked == 0 && used >= passed / 50;
    if count_down(if computes { &BUSY_CHECKS_LEFT } else { &CHECKS_LEFT }) {
        return;
    }
    // Output cut off by a signal is not a success.
    match CODE.load(Ordering::Relaxed) {
        0 if asked != 0 => process::end(128 + asked),
        code => process::end(code),
    }
}
