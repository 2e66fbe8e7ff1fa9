//! What each thread has recorded and not written yet, and its counters.
//!
//! A thread has a log of its own, so recording waits for nobody. Others take it for a moment only: to write what has grown old, to add counters
//! up, at the end of the process. A log outlives its thread and goes to the next new one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use super::counters::Counters;
use super::sink::Sink;
use gasnet_sys::atomic::{Mutex, MutexGuard};
use gasnet_sys::lock;

/// Text is written when there is so much,
const FULL: usize = 48 << 10;
/// or when something is recorded or awaited this many nanoseconds after the last time.
const OLD_NS: u64 = 200_000_000;
/// Turns of waiting for a log that another thread looks at. A signal handler may have interrupted the owner: then its event is lost.
const PATIENCE: u32 = 2000;

/// What is behind a log's lock.
#[derive(Debug)]
pub struct State {
    /// Number of the owner, in the order in which threads recorded first.
    pub thread: u32,
    /// Lines that are not written yet.
    pub text: Vec<u8>,
    /// Sums of this log since the last reset.
    pub counters: Counters,
}

/// A thread's log.
#[derive(Debug)]
pub struct Log(Mutex<State>);

thread_local! {
    static MINE: Cell<Option<&'static Log>> = const { Cell::new(None) };
}
/// Called when a thread has recorded something for the first time.
static FIRST_HOOK: OnceLock<fn()> = OnceLock::new();
/// All logs, and those without an owner.
static ALL: Mutex<Vec<&'static Log>> = Mutex::new(Vec::new());
static FREE: Mutex<Vec<&'static Log>> = Mutex::new(Vec::new());
static THREADS: AtomicU32 = AtomicU32::new(0);
/// When old text was written last.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
/// Events that could not be recorded.
static LOST: AtomicU64 = AtomicU64::new(0);

impl Log {
    /// The state, unless its holder does not let go.
    pub fn lock(&self) -> Option<MutexGuard<'_, State>> {
        for _ in 0..PATIENCE {
            if let Ok(state) = self.0.try_lock() {
                return Some(state);
            }
            std::thread::yield_now();
        }
        None
    }
}

/// The calling thread's log, made at first use.
pub fn mine() -> &'static Log {
    MINE.get().unwrap_or_else(|| {
        let log = adopt();
        MINE.set(Some(log));
        if let Some(hook) = FIRST_HOOK.get() {
            hook();
        }
        log
    })
}

#[cold]
fn adopt() -> &'static Log {
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

/// The calling thread ends.
pub fn retire(sink: Option<&Sink>) {
    let Some(log) = MINE.take() else { return };
    if let (Some(sink), Some(mut state)) = (sink, log.lock()) {
        write(sink, &mut state);
    }
    lock(&FREE).push(log);
}

/// An event was lost.
pub fn lose() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

/// Events lost so far.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Writes the text of a log.
pub fn write(sink: &Sink, state: &mut State) {
    sink.write(&state.text);
    state.text.clear();
}

/// Whether a log is to be written before more is added.
pub fn is_full(state: &State) -> bool {
    state.text.len() >= FULL
}

/// Whether it is time to write what all logs have; then the caller does, and nobody else.
pub fn is_old(now: u64) -> bool {
    let last = WRITTEN.load(Ordering::Relaxed);
    now.saturating_sub(last) > OLD_NS
        && WRITTEN
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

/// Lets `each` see the state of all logs that nobody keeps.
pub fn for_each(mut each: impl FnMut(&mut State)) {
    // A signal handler may have interrupted who holds the list.
    for _ in 0..PATIENCE {
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
pub fn write_all(sink: &Sink) {
    for_each(|state| write(sink, state));
}
