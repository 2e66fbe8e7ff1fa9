//! The progress engine: what a poll does. Handlers run here, and in requests of a rank to itself
//! (`am/loopback.rs`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

use crate::am::deferred;
use crate::am::deliver::{self, Delivery};
use crate::runtime;
use crate::sync::Mode;
use crate::{thread, wait};
use gasnet_conduit::PollScope;

const CHECKED: bool = cfg!(feature = "debug-checks");

/// Loopback requests of a thread from one poll to the next.
const LOOPBACKS_PER_POLL: u32 = 16;

/// Active collectives. Zero makes polls skip their engine.
pub static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// The functions of the collectives' engine that polls and sleepers call.
#[derive(Clone, Copy, Debug)]
pub struct Collectives {
    /// Advances the collectives; returns how many completed.
    pub advance: fn() -> usize,
    /// Advances the collectives that use shared memory; returns whether one advanced. Called by a
    /// thread that is about to sleep.
    pub advances: fn() -> bool,
}

static COLLECTIVES: OnceLock<Collectives> = OnceLock::new();

/// Registers the collectives' engine.
pub fn set_collectives(hooks: Collectives) {
    let _ = COLLECTIVES.set(hooks);
}

/// See [`Collectives::advances`].
pub fn advances() -> bool {
    ACTIVE.load(Ordering::Relaxed) != 0 && COLLECTIVES.get().is_some_and(|hooks| (hooks.advances)())
}

/// Address of the state of the polling thread in a PARSYNC library; 0 for none.
static POLLING: AtomicUsize = AtomicUsize::new(0);

/// In the debug flavour with PARSYNC: detects two threads that poll or run a handler at the same
/// time. Does not see threads elsewhere inside GASNet.
pub struct ParsyncGuard {
    outermost: bool,
}

impl ParsyncGuard {
    /// Enters; the guard leaves when it is dropped.
    #[inline]
    pub fn enter() -> Self {
        if !CHECKED || Mode::get() != Mode::Parsync {
            return Self { outermost: false };
        }
        let me = std::ptr::from_ref(thread::current()) as usize;
        match POLLING.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Self { outermost: true },
            Err(other) if other == me => Self { outermost: false },
            Err(_) => fatal!(
                "two threads are inside GASNet at the same time, but this program is linked with the library for \
                 one thread at a time (PARSYNC). Link the PAR library, or lock around the calls."
            ),
        }
    }
}

impl Drop for ParsyncGuard {
    #[inline]
    fn drop(&mut self) {
        if CHECKED && self.outermost {
            POLLING.store(0, Ordering::Release);
        }
    }
}

/// Takes a bounded number of arrived messages; returns how many. Scope `Replies` is for a reply
/// that waits for room inside a request handler.
#[inline]
pub fn poll(scope: PollScope) -> usize {
    poll_from(scope, !runtime::get().single_neighbourhood())
}

/// A poll of the network for completions of puts, gets and atomics, which need not look for
/// anything else.
#[inline(always)]
pub fn poll_completions() {
    let rt = runtime::get();
    let _guard = ParsyncGuard::enter();
    let mut delivery = Delivery::new(rt);
    if thread::in_conduit(|| rt.network.poll_completions(&mut delivery)) > 0 {
        deliver::acknowledge(thread::current());
        wait::notify_threads();
    }
}

/// The poll of a call that has nothing to wait for: a request, or a collective or a wait that is
/// complete at once. Without it, a loop of such calls would receive nothing.
#[inline]
pub fn poll_along() {
    let rt = runtime::get();
    let network = !rt.single_neighbourhood() && {
        let polls = &thread::current().polls_along;
        polls.set(polls.get() + 1);
        let is_due = polls.get() >= rt.conduit_limits.requests_per_poll;
        if is_due {
            polls.set(0);
        }
        is_due
    };
    poll_from(PollScope::All, network);
}

/// Call after a loopback request. Its handler has run, so the caller has nothing to wait for; but a
/// thread that calls nothing else must still receive what others send. A poll costs as much as the
/// request, so one request of [`LOOPBACKS_PER_POLL`] polls.
#[inline]
pub fn poll_after_loopback() {
    let count = &thread::current().loopbacks;
    count.set(count.get().wrapping_add(1));
    if count.get() % LOOPBACKS_PER_POLL == 0 {
        poll_loopback();
    }
}

#[cold]
#[inline(never)]
fn poll_loopback() {
    poll_along();
}

/// Advances collectives and requests that wait for room, without polling for messages. Returns how
/// much progress was made.
#[inline]
pub fn advance() -> usize {
    let mut count = deferred::progress();
    if ACTIVE.load(Ordering::Relaxed) != 0 {
        count += COLLECTIVES.get().map_or(0, |hooks| (hooks.advance)());
    }
    count
}

#[inline(always)]
fn poll_from(scope: PollScope, network: bool) -> usize {
    let rt = runtime::get();
    let _guard = ParsyncGuard::enter();
    if CHECKED {
        gasnet_tools::heap::poll();
    }
    if let Some(thread) = thread::existing() {
        thread.recorder.get().polls();
    }
    let mut delivery = Delivery::new(rt);
    let mut count = rt.comm.poll(scope, &mut delivery);
    if network {
        count += thread::in_conduit(|| rt.network.poll(scope, &mut delivery));
        runtime::check_loss();
    }
    if scope == PollScope::All {
        count += advance();
    }
    if count > 0 {
        if let Some(thread) = thread::existing() {
            thread.recorder.get().found();
            if scope == PollScope::All {
                deliver::acknowledge(thread);
            }
        }
        wait::notify_threads();
    }
    count
}
