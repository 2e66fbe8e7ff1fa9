//! The progress engine: what a poll does. Handlers run here, and in requests of a rank to itself (`am/home.rs`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

use crate::am::deferred;
use crate::am::deliver::Delivery;
use crate::runtime;
use crate::sync::Mode;
use crate::{thread, wait};
use gasnet_conduit::PollScope;

const CHECKED: bool = cfg!(feature = "debug-checks");

/// Collectives under way: polls push them on.
pub static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// What polls and sleepers call of the engine of collectives.
#[derive(Clone, Copy, Debug)]
pub struct Collectives {
    /// Pushes them on; returns how many ended.
    pub advance: fn() -> usize,
    /// Whether one that uses shared memory has gone on since it was last polled: asked by a thread that is about to sleep.
    pub advances: fn() -> bool,
}

static COLLECTIVES: OnceLock<Collectives> = OnceLock::new();

/// Registers the engine of collectives.
pub fn set_collectives(hooks: Collectives) {
    let _ = COLLECTIVES.set(hooks);
}

/// See [`Collectives::advances`].
pub fn advances() -> bool {
    ACTIVE.load(Ordering::Relaxed) != 0 && COLLECTIVES.get().is_some_and(|hooks| (hooks.advances)())
}

/// Address of the state of the thread that polls in a PARSYNC library; 0 for none.
static POLLING: AtomicUsize = AtomicUsize::new(0);

/// In the debug flavour and PARSYNC: the only thread that polls, or runs a handler. Threads that are elsewhere inside GASNet are not seen.
pub struct ParsyncGuard {
    outermost: bool,
}

impl ParsyncGuard {
    /// Until this goes.
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
                "two threads are inside GASNet at the same time, and this program is linked with the library for one at a time (PARSYNC). Use that \
                 of PAR, or a lock around the calls."
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

/// So many requests of a thread that goes on sending look at the network once: a look is a call of the system there, and no answer can have come yet.
const REQUESTS_PER_NETWORK_POLL: u32 = 4;

/// Takes what has arrived, a bounded amount; returns how much. `Replies` when called for a reply that waits inside a request handler.
#[inline]
pub fn poll(scope: PollScope) -> usize {
    poll_from(scope, !runtime::get().single_neighbourhood())
}

/// The poll that is part of a request.
#[inline]
pub fn poll_after_request() {
    let looks = !runtime::get().single_neighbourhood() && {
        let requests = &thread::current().requests;
        requests.set(requests.get().wrapping_add(1));
        requests.get() % REQUESTS_PER_NETWORK_POLL == 0
    };
    poll_from(PollScope::All, looks);
}

/// Pushes on collectives and requests that wait for room, without a look at what has arrived. Returns how much happened.
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
    let mut delivery = Delivery::new(rt);
    let mut count = rt.comm().poll(scope, &mut delivery);
    if network {
        count += rt.conduit().poll(scope, &mut delivery);
    }
    if scope == PollScope::All {
        count += advance();
    }
    if count > 0 {
        wait::notify_threads();
    }
    count
}
