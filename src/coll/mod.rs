//! Collectives (GASNet-EX 0.19, "Collectives").
//!
//! A collective is an async function over letters between the members of a team ([`call`], [`mail`]); the engine here polls those that are under
//! way in every poll, from whatever call. A poll without active collectives looks at one counter, and one in which no letter has arrived looks
//! at one more. The job's own barrier, which needs no letters inside a neighbourhood, is in [`job_barrier`].

pub mod broadcast;
pub mod call;
pub mod gather;
pub mod job_barrier;
pub mod mail;
pub mod operators;
pub mod reduce;
pub mod scan;
pub mod team_barrier;

use std::any::{type_name, type_name_of_val};
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use crate::atomic::Mutex;
use crate::conduit::PollScope;
use crate::event::{Category, Event, Op};
use crate::stall::{self, Reason};
use crate::wait;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A collective under way.
struct Running {
    work: Work,
    /// Of its type, for reports.
    name: &'static str,
    op: &'static Op,
}

struct Engine {
    running: Vec<Running>,
    /// Letters that had arrived when all of `running` were last polled.
    seen: u64,
}

static ENGINE: Mutex<Engine> = Mutex::new(Engine {
    running: Vec::new(),
    seen: 0,
});
/// Collectives of any kind that wait for progress.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);
/// Something other than a letter may let a collective go on.
static LOOK_AGAIN: AtomicBool = AtomicBool::new(false);

/// Whether a collective is under way here.
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed) != 0
}

/// Something became active.
fn activate() {
    ACTIVE.fetch_add(1, Ordering::Relaxed);
}

/// Something became complete.
fn deactivate() {
    ACTIVE.fetch_sub(1, Ordering::Relaxed);
}

/// The next poll is not to wait for a letter.
pub fn look_again() {
    LOOK_AGAIN.store(true, Ordering::Release);
}

/// Waits, inside an algorithm, for what a letter or room for a message brings about.
async fn until(mut ready: impl FnMut() -> bool) {
    poll_fn(|_| if ready() { Poll::Ready(()) } else { Poll::Pending }).await;
}

fn poll_work<T>(work: Pin<&mut (dyn Future<Output = T> + Send)>) -> Option<T> {
    match work.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Starts a collective. `op` is asked for when it is not complete at once.
pub fn start<W: Future<Output = ()> + Send + 'static>(work: W, op: impl FnOnce() -> &'static Op) -> Event {
    let name = type_name::<W>();
    let mut work: Work = Box::pin(work);
    if poll_work(work.as_mut()).is_some() {
        return Event::INVALID;
    }
    let op = op();
    op.begin(Category::Coll);
    activate();
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    engine.running.push(Running { work, name, op });
    // What has arrived since it was polled is not news to the engine.
    look_again();
    op.event()
}

/// Does a collective to its end, polling meanwhile.
pub fn run<T>(work: impl Future<Output = T> + Send) -> T {
    let name = type_name_of_val(&work);
    let mut work = Box::pin(work);
    if let Some(value) = poll_work(work.as_mut()) {
        return value;
    }
    wait::until_some(PollScope::All, Reason::Collective(name), || poll_work(work.as_mut()))
}

/// Pushes active collectives and waiting packets on. Returns how much happened.
#[inline]
pub fn progress() -> usize {
    let mut count = crate::rma::progress();
    if ACTIVE.load(Ordering::Relaxed) != 0 {
        count += job_barrier::progress() + advance();
    }
    count
}

fn advance() -> usize {
    let Ok(mut engine) = ENGINE.try_lock() else { return 0 };
    let arrived = mail::arrived();
    if !LOOK_AGAIN.swap(false, Ordering::Acquire) && arrived == engine.seen {
        return 0;
    }
    engine.seen = arrived;
    let before = engine.running.len();
    engine.running.retain_mut(|running| {
        let done = poll_work(running.work.as_mut()).is_some();
        if !done {
            stall::note(|| format!("{} is under way", stall::algorithm(running.name)));
        }
        if done {
            deactivate();
            running.op.complete(Category::Coll);
        }
        !done
    });
    before - engine.running.len()
}
