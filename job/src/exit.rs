//! How a rank ends (GASNet-1 spec, `gasnet_exit`). Whoever calls first, from whatever context, ends the process; other threads park. The
//! rank tells the supervisor its code, waits until all ranks are in exit or gone, stops its conduit, writes what its output streams
//! hold, and goes: after `gasnet_exit` without running the client's exit handlers; after the end of `main` and `exit` by running those
//! that are left, for there languages other than C write their buffers.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::control_block::Phase;
use super::control_socket::{self, RankMessage};
use super::{pmi_bootstrap, signals, Inside, Job, JOB};
use gasnet_sys::{fd, process, signal};

/// The thread that ends this process; 0 while there is none.
static THREAD: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static HOOK: OnceLock<fn()> = OnceLock::new();
static LINGER: OnceLock<fn()> = OnceLock::new();
static WAIT_HOOK: OnceLock<fn(&Job)> = OnceLock::new();
static BY_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The signal that has asked for the end of a job without an agent; 0 while there is none.
static ASKED: AtomicI32 = AtomicI32::new(0);
static FLUSHES: AtomicBool = AtomicBool::new(false);
static HOOK_RAN: AtomicBool = AtomicBool::new(false);
static QUIT_RAISED: AtomicBool = AtomicBool::new(false);

/// How long a rank in exit sleeps at a time: when it owes others nothing, and when its network may.
const LONG_LOOK: Duration = Duration::from_millis(100);
const SHORT_LOOK: Duration = Duration::from_millis(2);

/// While output is flushed, or exit handlers run, how often somebody looks at least whether that gets anywhere, how many times at least before it is over, and
/// how long a flush may stand still while its reader does not.
const LOOK: Duration = Duration::from_millis(250);
const LEAST_LOOKS: u32 = 9;
const STANDSTILL: Duration = Duration::from_millis(2250);
static LOOKS_LEFT: AtomicU32 = AtomicU32::new(0);

/// See [`super::on_linger_hook`].
pub(super) fn set_linger(hook: fn()) {
    let _ = LINGER.set(hook);
}

/// See [`super::on_exit_wait_hook`].
pub(super) fn set_wait_hook(hook: fn(&Job)) {
    let _ = WAIT_HOOK.set(hook);
}

/// A signal handler is about to end the process: what it has interrupted may hold locks.
pub(super) fn by_signal(number: i32) {
    BY_SIGNAL.store(number, Ordering::Relaxed);
}

/// A signal has asked for the end, maybe of a process that is ending already: then its last output waits for its reader no longer than the exit timeout, which
/// the agent looks after, if there is one. Async-signal-safe.
pub(super) fn asked(job: &Job, number: i32) {
    if let Some(socket) = job.control_socket.as_ref().filter(|_| begun()) {
        let _ = fd::send(socket.as_raw_fd(), &RankMessage::Asked { signal: number }.encode());
    }
    let is_first = job.control_socket.is_none()
        && ASKED
            .compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
    if is_first && FLUSHES.load(Ordering::Relaxed) {
        allow(job.options.exit_timeouts.exit);
    }
}

/// From now on a standstill may last so long. Async-signal-safe.
fn allow(time: Duration) {
    let interval = (time / LEAST_LOOKS).clamp(Duration::from_millis(1), LOOK).as_millis();
    let looks = time.as_millis() / interval;
    LOOKS_LEFT.store(u32::try_from(looks).unwrap_or(u32::MAX), Ordering::Relaxed);
    signal::repeat_alarm(interval as i32);
}

/// See [`super::on_exit_hook`].
pub(super) fn set_hook(hook: fn()) {
    let _ = HOOK.set(hook);
}

fn run_hook() {
    if let Some(hook) = HOOK.get() {
        if !HOOK_RAN.swap(true, Ordering::AcqRel) {
            hook();
        }
    }
}

/// Makes the end of `main` and `exit()` end the job. Not in children that the client forks.
pub(super) fn catch_exit() {
    process::at_exit(|status| {
        if let Some(job) = JOB.get().filter(|job| job.is_own_process()) {
            job.returned(status);
        }
    });
}

/// Ends a process that is in no job.
pub(super) fn without_job(code: i32) -> ! {
    let _ = process::flush_streams();
    process::end(code)
}

/// Whether another thread than the caller is ending this process. Async-signal-safe.
pub(super) fn by_another_thread() -> bool {
    let thread = THREAD.load(Ordering::Acquire);
    thread != 0 && thread != process::thread()
}

/// Whether this process is in exit. Async-signal-safe.
pub(super) fn begun() -> bool {
    THREAD.load(Ordering::Acquire) != 0
}

impl Job {
    /// `gasnet_exit`: ends the whole job with `code`. May be called from any thread and context, collectively or not. In a child that
    /// the client has forked it ends that child only.
    pub fn exit(&self, code: i32) -> ! {
        if !self.is_own_process() {
            without_job(code);
        }
        self.take_leave(code, true);
        process::end(CODE.load(Ordering::Relaxed))
    }

    /// The client returned from `main` or called `exit`, and goes on with the exit handlers that were registered before ours. They have
    /// the exit timeout: one of them may wait for a thread that has met the end of the job.
    fn returned(&self, code: i32) {
        self.take_leave(code, false);
        allow(self.options.exit_timeouts.exit);
    }

    /// Everything that an ending rank does for the others, up to its last output. `whole`: nothing of the client runs afterwards.
    fn take_leave(&self, code: i32, whole: bool) {
        let me = process::thread();
        match THREAD.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => self.announce(code),
            // A signal handler or the hook came back here: go on from the start; what is done already does nothing.
            Err(thread) if thread == me => {}
            Err(_) => process::park(),
        }
        self.wait_for_go();
        run_hook();
        pmi_bootstrap::take_leave(whole);
        self.flush();
    }

    /// To be called by a thread that is inside GASNet when [`super::exiting`] is true and that has nothing better to do. Returns while other
    /// ranks may still be on their way to a collective exit; when that time is over, this rank exits as well. Keep calling it every
    /// millisecond or so: the supervisor then knows that this rank waits, and need not give it time to finish something.
    #[cold]
    pub fn while_exiting(&self, inside: Inside) {
        match self.control.phase() {
            Phase::Running => {}
            Phase::Announced => {
                let line = self.control.status(self.rank);
                let beat = match inside {
                    Inside::Wait => &line.waits,
                    Inside::Poll => &line.polls,
                };
                beat.fetch_add(1, Ordering::Relaxed);
            }
            Phase::Leave | Phase::Go => self.leave(),
        }
    }

    /// Others have ended the job. A client that has installed a SIGQUIT handler gets the signal, as the specification promises.
    fn leave(&self) -> ! {
        if !begun() && !QUIT_RAISED.swap(true, Ordering::AcqRel) && signals::client_has_quit_handler() {
            signal::raise(libc::SIGQUIT);
        }
        self.exit(self.control.code())
    }

    fn announce(&self, code: i32) {
        CODE.store(code, Ordering::Relaxed);
        self.control.status(self.rank).in_exit.store(1, Ordering::Relaxed);
        if let Some(socket) = &self.control_socket {
            // The message is small and the first: it cannot meet a full socket. A failure means that the supervisor is gone, and then
            // this process ends by signal.
            let signal = BY_SIGNAL.load(Ordering::Relaxed);
            let _ = fd::send(socket.as_raw_fd(), &RankMessage::Exit { code, signal }.encode());
        } else {
            self.control.set_code(code);
            self.control.advance(Phase::Go);
        }
    }

    /// The supervisor kills whoever delays an exit, so this wait ends; its own limit is for a supervisor that is stopped.
    fn wait_for_go(&self) {
        let limit = (self.options.exit_timeouts.exit + self.options.exit_timeouts.busy) * 2 + Duration::from_secs(10);
        let start = Instant::now();
        while start.elapsed() < limit {
            match self.control.phase() {
                Phase::Go => return,
                seen => {
                    let linger = LINGER.get().filter(|_| BY_SIGNAL.load(Ordering::Relaxed) == 0);
                    if let Some(linger) = linger {
                        linger();
                    }
                    self.control.wait_phase(seen, linger.map_or(LONG_LOOK, |_| SHORT_LOOK));
                }
            }
            if let Some(hook) = WAIT_HOOK.get() {
                hook(self);
            }
            if let Some(socket) = &self.control_socket {
                control_socket::check(socket.as_raw_fd());
            }
        }
    }

    /// Writes what streams hold. A slow reader may take its time, unless a signal asks for the end; a lock that some other thread holds (in `fgets` on
    /// standard input, say) must not keep the process for ever, so an alarm looks after it.
    fn flush(&self) {
        signal::handle(libc::SIGALRM, look_after_flush, &[]);
        signal::unblock(&[libc::SIGALRM]);
        FLUSHES.store(true, Ordering::Relaxed);
        match ASKED.load(Ordering::Relaxed) {
            0 => allow(STANDSTILL),
            _ => allow(self.options.exit_timeouts.exit),
        }
        if let Err(why) = process::flush_streams() {
            // A reader who has gone, or a stream that the client has closed, is nothing to speak of.
            if !fd::peer_is_gone(1) {
                let why = why.map_or("an earlier write has failed".into(), |why| why.to_string());
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

extern "C" fn look_after_flush(_signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let asked = ASKED.load(Ordering::Relaxed);
    let reader_pauses = || !fd::is_writable(1) || !fd::is_writable(2);
    if asked == 0 && reader_pauses() {
        if let Some(job) = JOB.get() {
            job.control.status(job.rank).stalled_flushes.fetch_add(1, Ordering::Relaxed);
        }
        return;
    }
    let left = LOOKS_LEFT.load(Ordering::Relaxed);
    if left > 1 {
        LOOKS_LEFT.store(left - 1, Ordering::Relaxed);
        return;
    }
    // What a signal has cut off is no success.
    match CODE.load(Ordering::Relaxed) {
        0 if asked != 0 => process::end(128 + asked),
        code => process::end(code),
    }
}
