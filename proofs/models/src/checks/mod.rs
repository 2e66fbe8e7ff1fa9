//! The models, each small enough to run in seconds.

mod barrier;
mod coll_buffers;
mod comm;
mod event;
mod followers;
mod job_barrier;
mod locks;
mod pool;
mod ring;
mod segment_pointer;

use loom::cell::UnsafeCell;

/// Name, model, maximum number of preemptions.
pub const ALL: &[(&str, fn(), usize)] = &[
    ("ring: two producers, wrap-around", ring::two_producers_wrap_around, 3),
    ("ring: reuse through another thread's view of the head", ring::reuse, 3),
    ("ring: a full ring loses nothing", ring::full, 3),
    ("pool: a block has one owner", pool::one_owner, 3),
    ("pool: the receiver frees a block", pool::receiver_frees, 3),
    ("event: completion publishes", event::completion_publishes, 3),
    ("event: operations move between threads", event::lists_exchange, 3),
    ("event: a set that outlives its thread", event::orphan, 3),
    ("try-lock: exclusion", locks::try_lock, 3),
    ("hsl: exclusion and wake-up", locks::hsl, 3),
    ("barrier: words are reused", barrier::three_phases, 3),
    ("barrier: three ranks", barrier::three_ranks, 2),
    ("barrier: few ranks with flags", barrier::flags, 3),
    ("barrier: the leader releases", barrier::leader_releases, 3),
    ("barrier: a stage of two", barrier::stage, 3),
    (
        "coll buffers: published data is whole, and slots are reused",
        coll_buffers::one_publishes,
        3,
    ),
    (
        "coll buffers: a published slot carries its owner's retired value",
        coll_buffers::all_publish,
        3,
    ),
    (
        "coll buffers: threads of a member retire and find room for each other",
        coll_buffers::threads,
        3,
    ),
    (
        "coll buffers: the last arrival releases the others",
        coll_buffers::all_arrive,
        3,
    ),
    ("comm: no pending bit is lost", comm::pending_masks, 3),
    ("comm: a sleeper is woken", comm::sleep_and_scan, 3),
    (
        "comm: a sleeper is woken with pending masks",
        comm::sleep_and_pending_mask,
        3,
    ),
    ("comm: two threads sleep", comm::two_sleepers, 3),
    ("followers: a follower is notified", followers::notification, 3),
    ("followers: all threads are woken", followers::all, 2),
    ("followers: a leader that leaves is replaced", followers::promotion, 3),
    ("job barrier: two ranks", job_barrier::two_ranks, 3),
    ("job barrier: the node agent releases", job_barrier::relayed, 2),
    (
        "segment pointer: no reader of a freed segment",
        segment_pointer::freed,
        3,
    ),
];

/// Plain memory that threads hand over: loom fails on unordered accesses.
#[derive(Debug, Default)]
struct Data(UnsafeCell<u32>);

// SAFETY: that this holds is what the models check.
unsafe impl Sync for Data {}
// SAFETY: as above.
unsafe impl Send for Data {}

impl Data {
    fn set(&self, value: u32) {
        // SAFETY: loom checks.
        self.0.with_mut(|p| unsafe { *p = value });
    }

    fn get(&self) -> u32 {
        // SAFETY: loom checks.
        self.0.with(|p| unsafe { *p })
    }
}
