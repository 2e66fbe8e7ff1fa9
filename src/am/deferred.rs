//! Messages of the runtime that found no room and must not wait: later polls send them. A process
//! that takes none delays only those to itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Message;
use gasnet_conduit::{Busy, JobRank};
use gasnet_sys::atomic::{Mutex, MutexGuard};

/// Tries to send the next message of an operation. Returns whether that was the last one.
type Next = Box<dyn FnMut() -> Result<bool, Busy> + Send>;

/// Sends a message of an operation: now or not at all, or waiting for room.
pub type SendMessage<'a> = &'a mut dyn FnMut(&Message<'_>) -> Result<(), Busy>;

/// Bytes that an IMMEDIATE operation copies at most, to send them in later polls. A longer rest
/// waits for room.
pub const MOST_COPIED: usize = 1 << 20;
/// Messages that one poll sends at most.
const BATCH: usize = 64;

/// The operations that wait, in order, by target process.
type Queues = BTreeMap<JobRank, VecDeque<Next>>;

static WAITING: Mutex<Queues> = Mutex::new(BTreeMap::new());
static WAITING_COUNT: AtomicUsize = AtomicUsize::new(0);

fn waiting() -> MutexGuard<'static, Queues> {
    gasnet_sys::lock(&WAITING)
}

/// Lets polls call `next`, which sends to `target`, until it has sent its last message. It must not
/// poll.
pub fn later(target: JobRank, next: impl FnMut() -> Result<bool, Busy> + Send + 'static) {
    waiting().entry(target).or_default().push_back(Box::new(next));
    WAITING_COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Sends messages that wait, those to one process in order until one finds no room. Returns how
/// many went out.
#[inline]
pub fn progress() -> usize {
    if WAITING_COUNT.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    send_waiting()
}

#[cold]
fn send_waiting() -> usize {
    // Sending may defer again, so it happens without the lock.
    let mut queues = std::mem::take(&mut *waiting());
    let (mut sent, mut ended) = (0, 0);
    for queue in queues.values_mut() {
        while sent < BATCH {
            let Some(next) = queue.front_mut() else { break };
            let Ok(was_last) = next() else { break };
            sent += 1;
            if was_last {
                queue.pop_front();
                ended += 1;
            }
        }
    }
    queues.retain(|_, queue| !queue.is_empty());
    let mut newer = waiting();
    for (rank, mut queue) in std::mem::take(&mut *newer) {
        queues.entry(rank).or_default().append(&mut queue);
    }
    *newer = queues;
    WAITING_COUNT.fetch_sub(ended, Ordering::Relaxed);
    sent
}
