//! State of a client thread: its NBI set, its spare Ops, its negotiated-payload descriptors, and
//! whether it runs a handler.
//!
//! The state hangs on one `const` thread-local pointer without a destructor; a pthread key retires
//! it, and entering GASNet again from a later thread destructor makes a new one, which arms the key
//! again. There is no limit on the number of threads: a retired state is freed, and what may
//! outlive it (Ops) lives in `event`'s table.

mod count;

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_void, CStr};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::OnceLock;

use crate::am::prepared::SrcDesc;
use crate::am::token::Token;
use crate::am::unacknowledged::Unacknowledged;
use crate::counters::Recorder;
use crate::event::{FreeList, Op};
use crate::hsl::HeldLocks;
use crate::recent::Recent;
use crate::stall::Watch;
use crate::sync::Mode;
use crate::types::PeerCompletion;
use crate::wait::oversubscription::{PollYields, YieldStats};
use count::Count;
use gasnet_conduit::{config, JobRank};
use gasnet_sys::process;
use gasnet_sys::signal::AlternateStack;

/// Whether rules about locks are checked.
const CHECKED: bool = cfg!(feature = "debug-checks");

/// The context of a thread, for rules that depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Ordinary client code.
    Client,
    /// Inside a request handler.
    RequestHandler,
    /// Inside a reply handler.
    ReplyHandler,
}

/// An access of another process to this one's memory, under way in a handler of the runtime's.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    /// The accessing rank.
    pub source: JobRank,
    /// First byte.
    pub address: usize,
    /// Length.
    pub bytes: usize,
}

/// State of one thread inside GASNet.
#[derive(Debug)]
pub struct Thread {
    /// Its number among all threads that ever had a state.
    pub number: u32,
    /// Whether it is the client's.
    of_client: bool,
    /// Spare operations.
    pub free: RefCell<FreeList>,
    /// The implicit set outside an access region.
    set: Cell<&'static Op>,
    /// Segments that it has reached.
    pub recent: Recent,
    /// Of its blocking operations.
    pub blocking: &'static Op,
    /// The open access region, if any.
    region: Cell<Option<&'static Op>>,
    /// Payload buffers of loopback AMs, by class.
    pub loopback_buffers: [RefCell<Vec<u128>>; 2],
    /// Lengths of its last yields.
    pub yields: YieldStats,
    /// Packets of puts that it has received and not yet acknowledged.
    pub unacknowledged: Unacknowledged,
    /// Between Prepare and Commit of a request.
    pub request_desc: SrcDesc,
    /// Between Prepare and Commit of a reply.
    pub reply_desc: SrcDesc,
    /// Calls of the conduit that this thread is inside ([`in_conduit`]).
    conduit_calls: Cell<u32>,
    /// Handler context.
    context: Cell<Context>,
    /// Name of the running handler, for messages.
    handler_name: Cell<*const c_char>,
    /// Token of the running handler, known in the debug flavour.
    pub token: Cell<*const Token>,
    /// Index of the running handler.
    handler_index: Cell<u8>,
    /// Polls in a row that found nothing.
    pub empty_polls: Cell<u32>,
    /// When its polls yield.
    pub poll_yields: PollYields,
    /// Whether its last poll found messages, after which another thread may take its turn.
    pub found: Cell<bool>,
    /// The eventcount before it last checked what it waits for (`wait/followers.rs`).
    pub known_count: Cell<u32>,
    /// Its last sleep was ended by a wake-up, not by its limit.
    pub was_woken: Cell<bool>,
    /// Calls of `progress::poll_along` since the last that polled the network.
    pub polls_along: Cell<u32>,
    /// Its waits for puts, gets and atomics, modulo 2^32.
    pub waits: Cell<u32>,
    /// Loopback requests of the client, modulo 2^32.
    pub loopbacks: Cell<u32>,
    /// Its counters and state, for other processes.
    pub recorder: Cell<Recorder>,
    /// The present wait, for the stall watchdog.
    pub watch: Watch,
    /// HSLs held, known in the debug flavour.
    pub locks_held: HeldLocks,
    /// Whether a client's reduction function runs, known in the debug flavour.
    pub reducing: Cell<bool>,
    /// For the report of an overflow of the thread's own stack.
    signal_stack: Option<AlternateStack>,
    /// For the report of a fault.
    pub serving: Cell<Option<Serving>>,
    /// Armed for the next VIS put.
    pub vis_completion: Cell<Option<PeerCompletion>>,
}

thread_local! {
    static CURRENT: Cell<*const Thread> = const { Cell::new(ptr::null()) };
}

/// Threads that have a state now: the client's, and the library's.
static LIVE: Count = Count(AtomicUsize::new(0));
static OF_LIBRARY: Count = Count(AtomicUsize::new(0));
/// Whether a thread without state is inside the conduit, in exit.
static POLLS_IN_EXIT: AtomicBool = AtomicBool::new(false);
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
static RETIRE_HOOKS: OnceLock<&'static [fn(&Thread)]> = OnceLock::new();
static COUNT_HOOK: OnceLock<fn()> = OnceLock::new();

/// The calling thread's state, made at first use.
#[inline]
pub fn current() -> &'static Thread {
    let known = CURRENT.get();
    if known.is_null() {
        return create(true);
    }
    // SAFETY: the pointer is set by `create` and cleared by `retire` on this very thread; the state
    // lives in between.
    unsafe { &*known }
}

/// The calling thread's state, if it has one. Safe in a signal handler.
pub fn existing() -> Option<&'static Thread> {
    let known = CURRENT.get();
    // SAFETY: as in `current`.
    unsafe { known.as_ref() }
}

/// Runs `call`, a call of the conduit that may take its locks. INVARIANT: while a thread holds a
/// lock of the conduit, [`is_in_conduit`] holds in a signal handler that interrupts it. The count
/// is the thread's own, so program order suffices: the conduit is behind a `dyn`, and the compiler
/// cannot move a store past its call.
#[inline(always)]
pub fn in_conduit<R>(call: impl FnOnce() -> R) -> R {
    let calls = &current().conduit_calls;
    calls.set(calls.get() + 1);
    let result = call();
    calls.set(calls.get() - 1);
    result
}

/// As [`in_conduit`], on a thread that ends the process. It may never have called GASNet; then it
/// gets no state: that would count as another thread of the client's, and allocate.
pub fn in_conduit_at_exit(call: impl FnOnce()) {
    if existing().is_some() {
        return in_conduit(call);
    }
    POLLS_IN_EXIT.store(true, Ordering::SeqCst);
    call();
    POLLS_IN_EXIT.store(false, Ordering::SeqCst);
}

/// Whether the calling thread may hold a lock of the conduit: it is inside a call of it, and not in
/// a handler of the client's, or it is a thread of the library's own. Async-signal-safe.
pub fn is_in_conduit() -> bool {
    let without_state = || process::is_own_thread() || POLLS_IN_EXIT.load(Ordering::SeqCst);
    existing().map_or_else(without_state, |thread| thread.conduit_calls.get() > 0)
}

/// Makes the state of the calling thread, which is the library's and has none. It does not count as
/// one of the client's: it is asleep most of the time, and limits are the client's.
pub fn enter_as_library() {
    create(false);
}

/// Whether several threads have a state now, the library's included.
#[inline]
pub fn are_several() -> bool {
    live() + of_library() > 1
}

/// Client threads that have a state now.
#[inline]
pub fn live() -> usize {
    LIVE.now()
}

/// Makes the calling thread, if it has a state, count where new threads do.
pub fn count_anew() {
    if let Some(thread) = existing() {
        thread.recorder.get().release();
        thread.recorder.set(Recorder::claim());
    }
}

/// Threads of the library that have a state now.
fn of_library() -> usize {
    OF_LIBRARY.now()
}

/// Threads of the library that may have loaded a pointer to an object of the client. The caller has
/// cleared all pointers to it.
pub fn readers_of_library() -> usize {
    OF_LIBRARY.of_readers()
}

/// Registers, once, what the end of a thread calls with its state: `on_end`; and what is called
/// when [`live`] has changed: `on_count`.
pub fn set_hooks(on_end: &'static [fn(&Thread)], on_count: fn()) {
    let _ = RETIRE_HOOKS.set(on_end);
    let _ = COUNT_HOOK.set(on_count);
}

fn count_changed() {
    if let Some(hook) = COUNT_HOOK.get() {
        hook();
    }
}

extern "C" fn retire(state: *mut c_void) {
    CURRENT.set(ptr::null());
    // SAFETY: the key's value is the Box that `create` leaked on this thread; it is handed over
    // exactly once.
    let mut thread = unsafe { Box::from_raw(state.cast::<Thread>()) };
    for hook in RETIRE_HOOKS.get().copied().unwrap_or_default() {
        hook(&thread);
    }
    thread.recorder.get().release();
    if let Some(stack) = thread.signal_stack.take() {
        stack.remove();
    }
    let mut free = thread.free.borrow_mut();
    if let Some(region) = thread.region.take() {
        free.orphan(region);
    }
    free.orphan(thread.blocking);
    free.retire(thread.set.get());
    if thread.of_client {
        LIVE.leave();
        count_changed();
    } else {
        OF_LIBRARY.leave();
    }
}

#[cold]
fn create(of_client: bool) -> &'static Thread {
    let key = *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is writable and `retire` has the signature that pthread asks for.
        let failed = unsafe { libc::pthread_key_create(&mut key, Some(retire)) };
        assert_eq!(
            failed, 0,
            "pthread_key_create failed: too many pthread keys in this process"
        );
        key
    });
    let mut free = FreeList::new();
    let (set, blocking) = (free.take(), free.take());
    let thread = Box::into_raw(Box::new(Thread {
        number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
        of_client,
        free: RefCell::new(free),
        set: Cell::new(set),
        blocking,
        recent: Recent::default(),
        region: Cell::new(None),
        loopback_buffers: [const { RefCell::new(Vec::new()) }; 2],
        unacknowledged: Unacknowledged::none(),
        request_desc: SrcDesc::new(),
        reply_desc: SrcDesc::new(),
        yields: YieldStats::default(),
        conduit_calls: Cell::new(0),
        context: Cell::new(Context::Client),
        handler_name: Cell::new(ptr::null()),
        token: Cell::new(ptr::null()),
        handler_index: Cell::new(0),
        empty_polls: Cell::new(0),
        poll_yields: PollYields::default(),
        found: Cell::new(false),
        known_count: Cell::new(0),
        was_woken: Cell::new(false),
        polls_along: Cell::new(0),
        waits: Cell::new(0),
        loopbacks: Cell::new(0),
        recorder: Cell::new(Recorder::claim()),
        watch: Watch::new(),
        locks_held: HeldLocks::none(),
        reducing: Cell::new(false),
        signal_stack: AlternateStack::install(),
        serving: Cell::new(None),
        vis_completion: Cell::new(None),
    }));
    CURRENT.set(thread);
    let count = if of_client { &LIVE } else { &OF_LIBRARY };
    count.enter();
    // SAFETY: the key exists; its value goes to `retire` when this thread ends.
    let failed = unsafe { libc::pthread_setspecific(key, thread as *const c_void) };
    assert_eq!(failed, 0, "pthread_setspecific failed: no memory for a thread's state");
    if of_client {
        count_changed();
        check_count();
    }
    // SAFETY: just leaked from a Box.
    unsafe { &*thread }
}

/// Ends the job if there are too many threads of the client's.
fn check_count() {
    let live = live();
    if CHECKED && live > 1 && Mode::get() == Mode::Seq {
        fatal!(
            "a second thread calls GASNet, and this program is linked with the single-threaded (SEQ) \
             library. Link with PARSYNC or PAR."
        );
    }
    let most = config::get().get(&config::MAX_THREADS) as usize;
    if live > most {
        fatal!(
            "{live} threads use GASNet, and GASNET_MAX_THREADS allows {most}. Raise it, or leave it unset for no \
            limit."
        );
    }
}

impl Thread {
    /// The Op that implicit operations count in now: the open access region's or the thread's own
    /// set.
    pub fn implicit(&self) -> &'static Op {
        self.region.get().unwrap_or_else(|| self.set.get())
    }

    /// The thread's own set.
    pub fn nbi_set(&self) -> &'static Op {
        self.set.get()
    }

    /// Whether an access region is open.
    pub fn in_region(&self) -> bool {
        self.region.get().is_some()
    }

    /// Opens an access region; false when one is open already.
    pub fn begin_region(&self) -> bool {
        if self.in_region() {
            return false;
        }
        self.region.set(Some(self.free.borrow_mut().take()));
        true
    }

    /// Closes the access region and returns its Op.
    pub fn end_region(&self) -> Option<&'static Op> {
        self.region.take()
    }

    /// Puts another access region (or none) in place of the open one and returns that.
    pub fn swap_region(&self, region: Option<&'static Op>) -> Option<&'static Op> {
        self.region.replace(region)
    }

    /// The context of this thread.
    pub fn context(&self) -> Context {
        self.context.get()
    }

    /// The running handler: its name, if it was registered with one, and its index.
    pub fn handler(&self) -> Option<(Option<&CStr>, u8)> {
        if self.context.get() == Context::Client {
            return None;
        }
        let name = self.handler_name.get();
        // SAFETY: a non-null name is the client's NUL-terminated `gex_name`, which it keeps alive
        // while registered.
        let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
        Some((name, self.handler_index.get()))
    }

    /// Runs `body` as a handler.
    #[inline]
    pub fn in_handler(&self, context: Context, name: *const c_char, index: u8, body: impl FnOnce()) {
        let (outer, outer_name, outer_index) = (self.context.get(), self.handler_name.get(), self.handler_index.get());
        // An upcall holds no lock of the conduit.
        let conduit_calls = self.conduit_calls.replace(0);
        self.context.set(context);
        self.handler_name.set(name);
        self.handler_index.set(index);
        let locks = if CHECKED { self.locks_held.count() } else { 0 };
        // A reply handler may run inside the Commit of a reply.
        let committing = CHECKED && self.reply_desc.prepared().is_some();
        body();
        if CHECKED && self.locks_held.count() != locks {
            fatal!(
                "AM handler {index} returned while it holds a handler-safe lock. A handler releases the locks that \
                it takes."
            );
        }
        if CHECKED && !committing && self.reply_desc.prepared().is_some() {
            let name = self
                .handler()
                .and_then(|(name, _)| name)
                .map_or("unnamed".into(), CStr::to_string_lossy);
            fatal!(
                "AM handler {index} ({name}) returned between gex_AM_PrepareReply and its Commit. Commit or cancel \
                first."
            );
        }
        self.conduit_calls.set(conduit_calls);
        self.context.set(outer);
        self.handler_name.set(outer_name);
        self.handler_index.set(outer_index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn threads_of_the_library_that_may_use_objects_are_counted() {
        let (entered, has_entered) = mpsc::channel();
        let body = move || {
            assert!(process::is_own_thread() && is_in_conduit());
            enter_as_library();
            assert!(!is_in_conduit());
            let _ = entered.send(of_library());
            loop {
                std::thread::park();
            }
        };
        process::spawn_own_thread("test", 1 << 20, body).unwrap();
        assert!(has_entered.recv().unwrap() >= 1 && of_library() >= 1);
    }

    #[test]
    fn a_handler_is_not_inside_the_conduit_whose_poll_runs_it() {
        assert!(!is_in_conduit());
        in_conduit(|| {
            assert!(is_in_conduit());
            current().in_handler(Context::RequestHandler, ptr::null(), 0, || {
                assert!(!is_in_conduit());
                in_conduit(|| assert!(is_in_conduit()));
            });
            assert!(is_in_conduit());
        });
        assert!(!is_in_conduit());
    }
}
