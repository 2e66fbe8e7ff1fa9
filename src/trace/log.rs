//! Logs: the unwritten lines and the counters of each thread.
//!
//! Each thread has a log of its own, so that recording does not block. Other threads lock a log
//! briefly: to write old text, to sum up counters, and at the end of the process. A log outlives
//! its thread and is reused by the next new thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use super::counters::Counters;
use super::sink::TraceSink;
use gasnet_sys::atomic::{Mutex, MutexGuard};
use gasnet_sys::lock;

/// Bytes of text at which a log is written.
const FULL: usize = 48 << 10;
/// Age in nanoseconds (0.2 s) at which the text of all logs is written, by the next event or idle
/// wait.
const OLD_NS: u64 = 200_000_000;
/// Attempts to lock a log. A signal handler may have interrupted the owner: its event is then lost.
const LOCK_ATTEMPTS: u32 = 2000;

/// The contents of a log, under its lock.
#[derive(Debug)]
pub struct State {
    /// Number of the owner, in the order of the first events of threads.
    pub thread: u32,
    /// Lines not written yet.
    pub text: Vec<u8>,
    /// Counters of this log since the last reset.
    pub counters: Counters,
}

/// A thread's log.
#[derive(Debug)]
pub struct Log(Mutex<State>);

thread_local! {
    static MINE: Cell<Option<&'static Log>> = const { Cell::new(None) };
}
/// Called at the first event of a thread.
static FIRST_HOOK: OnceLock<fn()> = OnceLock::new();
/// All logs, and those without an owner.
static ALL: Mutex<Vec<&'static Log>> = Mutex::new(Vec::new());
static FREE: Mutex<Vec<&'static Log>> = Mutex::new(Vec::new());
static THREADS: AtomicU32 = AtomicU32::new(0);
/// When old text was last written, in nanoseconds.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
/// Events that could not be recorded.
static LOST: AtomicU64 = AtomicU64::new(0);

impl Log {
    /// The contents; none if the holder does not release the lock.
    pub fn lock(&self) -> Option<MutexGuard<'_, State>> {
        for _ in 0..LOCK_ATTEMPTS {
            if let Ok(state) = self.0.try_lock() {
                return Some(state);
            }
            std::thread::yield_now();
        }
        None
    }
}

/// The log of the calling thread, created at first use.
pub fn mine() -> &'static Log {
    MINE.get().unwrap_or_else(|| {
        let log = new_log();
        MINE.set(Some(log));
        if let Some(hook) = FIRST_HOOK.get() {
            hook();
        }
        log
    })
}

#[cold]
fn new_log() -> &'static Log {
    let number = THREADS.fetch_add(1, Ordering::Relaxed);
    if let Some(log) = lock(&FREE).pop() {
        if let Some(mut state) = log.lock() {
            state.thread = number;
        }
        return log;
    }
    let log: &'static Log = Box::leak(Box::new(Log(Mutex::new(State {
        thread: number,
        text: Vec::with_capacity(FULL + 4096),
        counters: Counters::default(),
    }))));
    lock(&ALL).push(log);
    log
}

/// See [`super::on_first_record`].
pub fn on_first(hook: fn()) {
    let _ = FIRST_HOOK.set(hook);
}

/// Called when the calling thread ends.
pub fn retire(sink: Option<&TraceSink>) {
    let Some(log) = MINE.take() else { return };
    if let (Some(sink), Some(mut state)) = (sink, log.lock()) {
        write(sink, &mut state);
    }
    lock(&FREE).push(log);
}

/// Counts a lost event.
pub fn count_lost() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

/// Events lost so far.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Writes the text of a log.
pub fn write(sink: &TraceSink, state: &mut State) {
    sink.write(&state.text);
    state.text.clear();
}

/// Whether a log must be written before the next event.
pub fn is_full(state: &State) -> bool {
    state.text.len() >= FULL
}

/// Whether the logs are old. Returns true to one caller only, which must write them.
pub fn is_old(now: u64) -> bool {
    let last = WRITTEN.load(Ordering::Relaxed);
    now.saturating_sub(last) > OLD_NS
        && WRITTEN
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

/// Calls `each` with the contents of every log that can be locked.
pub fn for_each(mut each: impl FnMut(&mut State)) {
    // A signal handler may have interrupted the thread that locks the list.
    for _ in 0..LOCK_ATTEMPTS {
        if let Ok(all) = ALL.try_lock() {
            for log in all.iter() {
                if let Some(mut state) = log.lock() {
                    each(&mut state);
                }
            }
            return;
        }
        std::thread::yield_now();
    }
}

/// Writes the text of all logs.
pub fn write_all(sink: &TraceSink) {
    for_each(|state| write(sink, state));
}
