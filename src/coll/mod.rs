//! Collectives (GASNet-EX 0.19, "Collectives").
//!
//! A collective is an async function. Members of a team exchange p2p messages ([`call`], [`p2p`])
//! and data in shared memory ([`pshm`]); [`choose`] selects the algorithm. There is no thread and
//! no waker: the engine in this file polls the active collectives from every GASNet call that
//! polls.
//!
//! A poll without active collectives reads one counter. A collective that uses only p2p messages is
//! polled when a message has arrived. Of many others, each poll runs a few.

pub mod broadcast;
pub mod call;
pub mod choose;
pub mod gather;
pub mod operators;
pub mod p2p;
pub mod pshm;
pub mod reduce;
pub mod scan;
pub mod team_barrier;

use std::any::{type_name, type_name_of_val};
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use crate::barrier::blocks;
use crate::event::{Category, Event, Op};
use crate::progress::{Collectives, ACTIVE};
use crate::stall::{self, Reason};
use crate::team::Team;
use crate::{progress, thread, wait};
use gasnet_conduit::PollScope;
use gasnet_sys::atomic::Mutex;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An active collective.
struct Running {
    work: Work,
    /// Type name of the future, for stall reports.
    name: &'static str,
    op: &'static Op,
    /// Waits for p2p messages only.
    network_only: bool,
}

struct Engine {
    /// Oldest first.
    running: VecDeque<Running>,
    /// Index at which the next poll resumes, after the oldest [`POLL_BATCH`].
    cursor: usize,
    /// [`p2p::arrived`] when all of `running` were last polled.
    polled_messages: u64,
}

static ENGINE: Mutex<Engine> = Mutex::new(Engine {
    running: VecDeque::new(),
    cursor: 0,
    polled_messages: 0,
});
/// With many active collectives, one poll runs this many of the oldest, on which younger ones of
/// the same team depend, and this many of the rest in rotation, which may belong to other teams.
const POLL_BATCH: usize = 8;

/// Active collectives that use shared memory.
static PSHM_ACTIVE: AtomicUsize = AtomicUsize::new(0);
/// Something other than a p2p message may let a collective advance.
static POLL_REQUESTED: AtomicBool = AtomicBool::new(false);

/// Completed [`until`] waits, over all collectives: changes when a collective advances.
static WAITS_DONE: AtomicUsize = AtomicUsize::new(0);

/// Whether a collective is active in this process.
fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed) != 0
}

/// Makes the next poll run all collectives, whether or not a message has arrived.
pub fn request_poll() {
    POLL_REQUESTED.store(true, Ordering::Release);
}

/// Waits, inside an algorithm, until `ready`: for a p2p message, for room to send, or for a
/// neighbour.
async fn until(mut ready: impl FnMut() -> bool) {
    let mut waited = false;
    poll_fn(|_| {
        if !ready() {
            waited = true;
            return Poll::Pending;
        }
        if waited {
            WAITS_DONE.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Ready(())
    })
    .await;
}

fn poll_work<T>(work: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match work.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Starts a collective of `team`. Calls `op` only if the collective does not complete at once.
pub fn start<W: Future<Output = ()> + Send + 'static>(team: &Team, work: W, op: impl FnOnce() -> &'static Op) -> Event {
    let mut work: Work = Box::pin(work);
    if completes_at_once(work.as_mut(), team.groups.pshm.is_some()) {
        return Event::INVALID;
    }
    enqueue(team, work, type_name::<W>(), op())
}

/// As [`start`], for a barrier that may be polled before it is boxed.
pub fn start_barrier<W: Future<Output = ()> + Unpin + Send + 'static>(
    team: &Team,
    mut work: W,
    op: impl FnOnce() -> &'static Op,
) -> Event {
    let spins = team.groups.pshm.is_some() || blocks::is_of_network(team.barriers().block);
    if completes_at_once(Pin::new(&mut work), spins) {
        return Event::INVALID;
    }
    enqueue(team, Box::pin(work), type_name::<W>(), op())
}

/// `spins`: others change memory that the collective waits for.
fn completes_at_once(mut work: Pin<&mut (impl Future<Output = ()> + ?Sized)>, spins: bool) -> bool {
    thread::current().recorder.get().collective();
    let mut is_done = || poll_work(work.as_mut()).is_some();
    // Members that call together meet within a few cache misses, so a short spin pays. Not while
    // other collectives are active: those would not advance.
    let completes = is_done() || (spins && !is_active() && wait::spin(is_done));
    if completes {
        progress::poll_along();
    }
    completes
}

fn enqueue(team: &Team, work: Work, name: &'static str, op: &'static Op) -> Event {
    op.begin(Category::Coll);
    if cfg!(feature = "debug-checks") {
        op.belongs_to(team.number);
    }
    let network_only = team.groups.pshm.is_none();
    ACTIVE.fetch_add(1, Ordering::Relaxed);
    if !network_only {
        PSHM_ACTIVE.fetch_add(1, Ordering::Relaxed);
    }
    let mut engine = gasnet_sys::lock(&ENGINE);
    engine.running.push_back(Running {
        work,
        name,
        op,
        network_only,
    });
    if network_only {
        // The engine does not count messages that arrived before this collective was queued.
        request_poll();
    }
    op.event()
}

/// Runs a collective to completion, polling.
pub fn run<T>(work: impl Future<Output = T> + Send) -> T {
    let name = type_name_of_val(&work);
    thread::current().recorder.get().collective();
    let mut work = Box::pin(work);
    if let Some(value) = poll_work(work.as_mut()) {
        progress::poll_along();
        return value;
    }
    wait::until_some(PollScope::All, Reason::Collective(name), || poll_work(work.as_mut()))
}

/// Called by polls.
pub const HOOKS: Collectives = Collectives {
    advance: || advance(false),
    advances,
};

/// Polls the collectives that use shared memory; returns whether one advanced. A thread calls this
/// before it sleeps outside upcalls.
fn advances() -> bool {
    if PSHM_ACTIVE.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let before = WAITS_DONE.load(Ordering::Relaxed);
    advance(true) > 0 || WAITS_DONE.load(Ordering::Relaxed) != before
}

fn advance(thorough: bool) -> usize {
    let Ok(mut engine) = ENGINE.try_lock() else { return 0 };
    let arrived = p2p::arrived();
    let requested = POLL_REQUESTED.load(Ordering::Relaxed) && POLL_REQUESTED.swap(false, Ordering::Acquire);
    let all = requested || arrived != engine.polled_messages;
    if !all && PSHM_ACTIVE.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    engine.polled_messages = arrived;
    if all || thorough || engine.running.len() <= 2 * POLL_BATCH {
        let count = engine.running.len();
        return engine.poll_range(0, count, all).0;
    }
    let (oldest, _) = engine.poll_range(0, POLL_BATCH, false);
    let from = if engine.cursor < engine.running.len() {
        engine.cursor
    } else {
        POLL_BATCH
    };
    let (others, cursor) = engine.poll_range(from, POLL_BATCH, false);
    engine.cursor = cursor.max(POLL_BATCH);
    oldest + others
}

impl Engine {
    /// Polls `count` collectives from index `at` on; those that wait for p2p messages only if
    /// `all`. Returns how many completed, and the index after the last one polled.
    fn poll_range(&mut self, mut at: usize, count: usize, all: bool) -> (usize, usize) {
        let mut ended = 0;
        for _ in 0..count {
            let Some(running) = self.running.get_mut(at) else { break };
            if (all || !running.network_only) && poll_work(running.work.as_mut()).is_some() {
                ACTIVE.fetch_sub(1, Ordering::Relaxed);
                if !running.network_only {
                    PSHM_ACTIVE.fetch_sub(1, Ordering::Relaxed);
                }
                running.op.complete(Category::Coll);
                self.running.remove(at);
                ended += 1;
            } else {
                stall::note(|| format!("{} is in progress", stall::algorithm(running.name)));
                at += 1;
            }
        }
        (ended, at)
    }
}
