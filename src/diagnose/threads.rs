//! Sections with several threads and without communication.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::local::{atomic32, atomic64, strong32, strong64};
use super::{Random, Run};
use crate::abi::hsl::{gex_HSL_Destroy, gex_HSL_Lock, gex_HSL_Trylock, gex_HSL_Unlock};
use crate::hsl::Hsl;

/// `GASNETT_ATOMIC_REL`.
const RELEASE: i32 = 2;
/// `GASNETT_ATOMIC_ACQ`.
const ACQUIRE: i32 = 4;

/// Calls `body` with the thread's number on all threads of the run.
fn on_threads(run: &Run, body: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for i in 0..run.args.threads {
            let body = &body;
            scope.spawn(move || body(i));
        }
    });
}

/// Concurrent updates: none may be lost.
pub fn atomics(run: &Run) {
    let (a, b) = (atomic32::Shared::default(), strong32::Shared::default());
    let (c, d) = (atomic64::Shared::default(), strong64::Shared::default());
    let (swapped, zeros) = (atomic64::Shared::default(), AtomicU32::new(0));
    let taken = AtomicU32::new(0);
    let total = run.args.threads as u64 * u64::from(run.args.iterations);
    let countdown = atomic32::Shared::default();
    countdown.set(total as u32, 0);
    on_threads(run, |me| {
        let mut random = Random(run.args.seed ^ me as u64);
        for i in 0..run.args.iterations {
            a.increment();
            b.add(3);
            c.add(1 << 33);
            loop {
                let old = d.read(0);
                if d.compare_and_swap(old, old + 2) {
                    break;
                }
            }
            if swapped.swap(random.word() | 1) != 0 {
                taken.fetch_add(1, Ordering::Relaxed);
            }
            if countdown.decrement_and_test() {
                zeros.fetch_add(1, Ordering::Relaxed);
            }
            if i % 64 == 0 {
                thread::yield_now();
            }
        }
    });
    run.check(
        a.read(0) == total as u32,
        format_args!("{total} increments made {}", a.read(0)),
    );
    run.check(
        b.read(0) == (3 * total) as u32,
        format_args!("{total} additions of 3 made {}", b.read(0)),
    );
    run.check(
        c.read(0) == total << 33,
        format_args!("{total} additions of 2^33 made {:#x}", c.read(0)),
    );
    run.check(
        d.read(0) == 2 * total,
        format_args!("{total} compare-and-swaps made {}", d.read(0)),
    );
    // Every value that was swapped in came out again, except the last.
    let taken = u64::from(taken.into_inner());
    run.check(taken + 1 == total, format_args!("{total} swaps found {taken} values"));
    let zeros = zeros.into_inner();
    run.check(
        zeros == 1,
        format_args!("{zeros} threads saw the countdown reach zero, expected 1"),
    );
}

/// A value published with release is complete for a reader with acquire.
pub fn fences(run: &Run) {
    const WORDS: usize = 8;
    struct Message(UnsafeCell<[u64; WORDS]>);
    // SAFETY: one thread writes while `turn` is even, the other reads while it is odd.
    unsafe impl Sync for Message {}
    let (message, turn) = (Message(UnsafeCell::new([0; WORDS])), atomic32::Shared::default());
    let (message, turn) = (&message, &turn);
    let wait = |wanted: u32| {
        let mut empty_polls = 0u32;
        while turn.read(ACQUIRE) != wanted {
            empty_polls += 1;
            if empty_polls % 100 == 0 {
                thread::yield_now();
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..run.args.iterations {
                wait(2 * i);
                // SAFETY: it is this thread's turn.
                unsafe { *message.0.get() = [u64::from(i) + 1; WORDS] };
                turn.set(2 * i + 1, RELEASE);
            }
        });
        for i in 0..run.args.iterations {
            wait(2 * i + 1);
            // SAFETY: it is this thread's turn.
            let got = unsafe { *message.0.get() };
            run.check(
                got == [u64::from(i) + 1; WORDS],
                format_args!("message {i} arrived as {got:?}"),
            );
            turn.set(2 * i + 2, RELEASE);
        }
    });
}

unsafe extern "C" {
    fn gasnett_mutex_init(lock: *mut libc::pthread_mutex_t);
    fn gasnett_mutex_destroy(lock: *mut libc::pthread_mutex_t);
    fn gasnett_mutex_lock(lock: *mut libc::pthread_mutex_t);
    fn gasnett_mutex_unlock(lock: *mut libc::pthread_mutex_t);
    fn gasnett_cond_init(condition: *mut libc::pthread_cond_t);
    fn gasnett_cond_destroy(condition: *mut libc::pthread_cond_t);
    fn gasnett_cond_broadcast(condition: *mut libc::pthread_cond_t);
    fn gasnett_cond_wait(condition: *mut libc::pthread_cond_t, lock: *mut libc::pthread_mutex_t);
}

/// A thread barrier from the tools' mutex and condition variable.
struct ThreadBarrier {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    condition: UnsafeCell<libc::pthread_cond_t>,
    /// Waiting threads, and completed rounds; under the lock.
    state: UnsafeCell<(usize, u32)>,
}

// SAFETY: `state` is used under the lock only; lock and condition are thread-safe.
unsafe impl Sync for ThreadBarrier {}

impl ThreadBarrier {
    fn new() -> Self {
        let barrier = Self {
            lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            condition: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            state: UnsafeCell::new((0, 0)),
        };
        // SAFETY: memory of the right types, not in use yet. Both are initialised by value, so they
        // may move before first use.
        unsafe {
            gasnett_mutex_init(barrier.lock.get());
            gasnett_cond_init(barrier.condition.get());
        }
        barrier
    }

    /// Waits for `count` threads; returns the number of the round.
    fn wait(&self, count: usize) -> u32 {
        // SAFETY: initialised; the state is used between lock and unlock, and the condition wait
        // returns with the lock.
        unsafe {
            gasnett_mutex_lock(self.lock.get());
            let state = self.state.get();
            let round = (*state).1;
            (*state).0 += 1;
            if (*state).0 == count {
                *state = (0, round + 1);
                gasnett_cond_broadcast(self.condition.get());
            }
            loop {
                // Other threads change it during the wait.
                if (*self.state.get()).1 != round {
                    break;
                }
                gasnett_cond_wait(self.condition.get(), self.lock.get());
            }
            gasnett_mutex_unlock(self.lock.get());
            round
        }
    }
}

impl Drop for ThreadBarrier {
    fn drop(&mut self) {
        // SAFETY: no thread uses them any more.
        unsafe {
            gasnett_cond_destroy(self.condition.get());
            gasnett_mutex_destroy(self.lock.get());
        }
    }
}

/// Rounds of a thread barrier: no thread is a round ahead.
pub fn conditions(run: &Run) {
    let barrier = ThreadBarrier::new();
    let arrived = AtomicU32::new(0);
    let rounds = run.args.iterations.min(500);
    on_threads(run, |_| {
        for round in 0..rounds {
            arrived.fetch_add(1, Ordering::Relaxed);
            let seen = barrier.wait(run.args.threads);
            run.check(
                seen == round,
                format_args!("thread barrier: round {seen}, expected {round}"),
            );
            let count = arrived.load(Ordering::Relaxed);
            run.check(
                count >= (round + 1) * run.args.threads as u32,
                format_args!("a thread left round {round} after {count} arrivals"),
            );
        }
    });
}

/// Mutual exclusion, by lock and by trylock.
pub fn locks(run: &Run) {
    struct Counted(UnsafeCell<u64>);
    // SAFETY: used under the lock only.
    unsafe impl Sync for Counted {}
    let (lock, count, tried) = (Hsl::new(), Counted(UnsafeCell::new(0)), AtomicU32::new(0));
    let (lock, count) = (&lock, &count);
    on_threads(run, |me| {
        let mut random = Random(run.args.seed ^ me as u64);
        for _ in 0..run.args.iterations {
            // SAFETY: a lock that lives, taken and given back by this thread.
            let taken = unsafe {
                if random.below(2) == 0 {
                    gex_HSL_Lock(lock);
                    true
                } else {
                    gex_HSL_Trylock(lock) == 0
                }
            };
            if taken {
                // SAFETY: this thread holds the lock.
                unsafe {
                    let old = count.0.get().read_volatile();
                    if random.below(64) == 0 {
                        thread::yield_now();
                    }
                    count.0.get().write_volatile(old + 1);
                    gex_HSL_Unlock(lock);
                }
                tried.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    // SAFETY: all threads have ended.
    let count = unsafe { *count.0.get() };
    let tried = u64::from(tried.into_inner());
    run.check(
        count == tried,
        format_args!("{tried} increments under a lock made {count}"),
    );
    // SAFETY: nobody uses it any more.
    unsafe { gex_HSL_Destroy(std::ptr::from_ref(lock).cast_mut()) };
}
