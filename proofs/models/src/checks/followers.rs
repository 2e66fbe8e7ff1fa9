//! `src/wait/followers.rs`.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::atomic::{AtomicBool, Ordering};
use crate::followers::Followers;
use crate::shm::comm::Slept;

/// Threads that wait, and what wakes their leader from outside.
#[derive(Default)]
struct Waiters {
    followers: Followers,
    wakeups: Mutex<u32>,
    is_woken: Condvar,
    /// Threads wait for it.
    is_over: AtomicBool,
}

impl Waiters {
    /// Wakes the leader, as a message does.
    fn wake_leader(&self) {
        *self.wakeups.lock().unwrap() += 1;
        self.is_woken.notify_all();
    }

    /// Waits as `src/wait` does, but without time limits: a lost wake-up is a deadlock.
    fn wait(&self) {
        loop {
            let known = self.followers.count();
            let before = *self.wakeups.lock().unwrap();
            if self.is_over.load(Ordering::Relaxed) {
                self.followers.leave();
                return;
            }
            let lead = |_| {
                let mut wakeups = self.wakeups.lock().unwrap();
                while *wakeups == before {
                    wakeups = self.is_woken.wait(wakeups).unwrap();
                }
                Slept::Woken
            };
            if self.followers.sleep(known, Duration::ZERO, lead) == Slept::Woken {
                self.followers.notify();
            }
        }
    }
}

/// The caller leads while `then` runs, and has slept in vain.
fn lead(waiters: &Waiters, then: impl FnOnce()) {
    let known = waiters.followers.count();
    let lead = |_| {
        then();
        Slept::Ended
    };
    assert_eq!(waiters.followers.sleep(known, Duration::ZERO, lead), Slept::Ended);
}

fn waiting(waiters: &Arc<Waiters>) -> thread::JoinHandle<()> {
    let waiters = Arc::clone(waiters);
    thread::spawn(move || waiters.wait())
}

/// A poll finds what a follower waits for, and notifies, while the leader sleeps on.
/// Catches: no fence between the count and the number of sleepers, on either side; a count that is
/// not acquired or released.
pub fn notification() {
    let waiters = Arc::new(Waiters::default());
    lead(&waiters, || {
        let follower = waiting(&waiters);
        waiters.is_over.store(true, Ordering::Relaxed);
        waiters.followers.notify();
        follower.join().unwrap();
    });
}

/// Two threads wait for the same, which is announced to both followers and leader.
pub fn all() {
    let waiters = Arc::new(Waiters::default());
    let threads = [(); 2].map(|()| waiting(&waiters));
    waiters.is_over.store(true, Ordering::Relaxed);
    waiters.followers.notify();
    waiters.wake_leader();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

/// The leader has what it waited for, and leaves; what its follower waits for is announced to the
/// leader only. Catches: no successor of a leader that leaves.
pub fn promotion() {
    let waiters = Arc::new(Waiters::default());
    let mut follower = None;
    lead(&waiters, || follower = Some(waiting(&waiters)));
    waiters.followers.leave();
    waiters.is_over.store(true, Ordering::Relaxed);
    waiters.wake_leader();
    follower.into_iter().for_each(|t| t.join().unwrap());
}
