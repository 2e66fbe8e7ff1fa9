//! Sections of several threads that do not communicate.

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

/// Runs `body` on all threads of the run; gives it the thread's number.
fn on_threads(run: &Run, body: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for i in 0..run.threads {
            let body = &body;
            scope.spawn(move || body(i));
        }
    });
}

/// Sums that no update may be missing from.
pub fn atomics(run: &Run) {
    let (a, b) = (atomic32::Shared::default(), strong32::Shared::default());
    let (c, d) = (atomic64::Shared::default(), strong64::Shared::default());
    let (swapped, zeros) = (atomic64::Shared::default(), AtomicU32::new(0));
    let taken = AtomicU32::new(0);
    let total = run.threads as u64 * u64::from(run.iterations);
    let countdown = atomic32::Shared::default();
    countdown.set(total as u32, 0);
    on_threads(run, |me| {
        let mut random = Random(run.seed ^ me as u64);
        for i in 0..run.iterations {
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
    // Every value that went in came out again, but for the last.
    let taken = u64::from(taken.into_inner());
    run.check(taken + 1 == total, format_args!("{total} swaps found {taken} values"));
    let zeros = zeros.into_inner();
    run.check(zeros == 1, format_args!("{zeros} threads counted down to zero"));
}

/// A value published with release is seen with acquire, whole.
pub fn fences(run: &Run) {
    const WORDS: usize = 8;
    struct Letter(UnsafeCell<[u64; WORDS]>);
    // SAFETY: written while `turn` is even and read while it is odd, which the two threads hand each other.
    unsafe impl Sync for Letter {}
    let (letter, turn) = (Letter(UnsafeCell::new([0; WORDS])), atomic32::Shared::default());
    let (letter, turn) = (&letter, &turn);
    let wait = |wanted: u32| {
        let mut vain = 0u32;
        while turn.read(ACQUIRE) != wanted {
            vain += 1;
            if vain % 100 == 0 {
                thread::yield_now();
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..run.iterations {
                wait(2 * i);
                // SAFETY: it is this thread's turn.
                unsafe { *letter.0.get() = [u64::from(i) + 1; WORDS] };
                turn.set(2 * i + 1, RELEASE);
            }
        });
        for i in 0..run.iterations {
            wait(2 * i + 1);
            // SAFETY: it is this thread's turn.
            let got = unsafe { *letter.0.get() };
            run.check(
                got == [u64::from(i) + 1; WORDS],
                format_args!("letter {i} arrived as {got:?}"),
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

/// A thread barrier of the tools' mutex and condition variable.
struct ThreadBarrier {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    condition: UnsafeCell<libc::pthread_cond_t>,
    /// Threads that wait, and rounds so far; under the lock.
    state: UnsafeCell<(usize, u32)>,
}

// SAFETY: `state` is used under the lock only; lock and condition are made for threads.
unsafe impl Sync for ThreadBarrier {}

impl ThreadBarrier {
    fn new() -> Self {
        let barrier = Self {
            lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            condition: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            state: UnsafeCell::new((0, 0)),
        };
        // SAFETY: memory of the right types, not yet used; neither moves while somebody uses it, since they are initialised by value.
        unsafe {
            gasnett_mutex_init(barrier.lock.get());
            gasnett_cond_init(barrier.condition.get());
        }
        barrier
    }

    /// Waits for `count` threads; returns the number of the round.
    fn wait(&self, count: usize) -> u32 {
        // SAFETY: initialised; the state is used between lock and unlock, which waiting keeps.
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
                // Others change it while this thread waits.
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
        // SAFETY: nobody uses them any more.
        unsafe {
            gasnett_cond_destroy(self.condition.get());
            gasnett_mutex_destroy(self.lock.get());
        }
    }
}

/// Rounds of a barrier of threads: nobody is a round ahead.
pub fn conditions(run: &Run) {
    let barrier = ThreadBarrier::new();
    let arrived = AtomicU32::new(0);
    let rounds = run.iterations.min(500);
    on_threads(run, |_| {
        for round in 0..rounds {
            arrived.fetch_add(1, Ordering::Relaxed);
            let seen = barrier.wait(run.threads);
            run.check(
                seen == round,
                format_args!("barrier of threads: round {seen} in place of {round}"),
            );
            let count = arrived.load(Ordering::Relaxed);
            run.check(
                count >= (round + 1) * run.threads as u32,
                format_args!("a thread left round {round} when {count} had come"),
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
        let mut random = Random(run.seed ^ me as u64);
        for _ in 0..run.iterations {
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
    run.check(count == tried, format_args!("{tried} turns under a lock counted {count}"));
    // SAFETY: nobody uses it any more.
    unsafe { gex_HSL_Destroy(std::ptr::from_ref(lock).cast_mut()) };
}
