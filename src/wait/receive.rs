//! `GASNET_RCV_THREAD`: a thread that polls when something arrives, so handlers run in it while the
//! client computes. In thread mode PAR only: in the others a client may rely on its handlers
//! running in its own calls.
//!
//! In a rank without neighbours it is the thread that waits for the network ([`network`]). Else it
//! sleeps where neighbours wake this process, as waiting threads of the client do, and is one of
//! their followers; for the network it asks for a wake-up, as they do ([`network::watch`]).
//!
//! While a thread of the client polls, it takes what wakes this thread. A wake-up for nothing is
//! therefore followed by a pause, in which senders do not wake this thread.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::{network, FOLLOWERS};
use crate::runtime::{self, Runtime};
use crate::shm::comm::Slept;
use crate::sync::Mode;
use crate::{progress, thread};
use gasnet_conduit::config::{self, Config};
use gasnet_conduit::{PollScope, WakePromise};
use gasnet_sys::eventfd::Eventfd;
use gasnet_sys::process;

/// Longest sleep: a bound, should a wake-up get lost; and where the network cannot wake this
/// process.
const MAX_SLEEP: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(1)];
/// Pause after a wake-up for nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// The thread of a rank with neighbours, as others see it.
#[derive(Debug)]
struct ReceiveThread {
    pace: Pace,
    /// Ends its pauses.
    kick: Eventfd,
}

static THREAD: OnceLock<Option<Arc<ReceiveThread>>> = OnceLock::new();

/// Decides whether there is a receive thread, and starts it if that is not left to the client.
pub fn start(config: &Config, rt: &Runtime) {
    if !config.get(&config::RCV_THREAD) {
        return;
    }
    let has_neighbours = rt.nbrhd.count() > 1;
    let reason = match rt.abilities.wake {
        _ if Mode::get() != Mode::Par => "this program is not linked with the library for threads (PAR)",
        // The headers of such a library promise that no handler runs on another thread.
        _ if runtime::linked_conduits().iter().all(|c| !c.identity().has_network()) => {
            "the network of this job, if it has one, cannot wake a thread"
        }
        Some(wake) if !has_neighbours => {
            network::set_receiving(wake, Pace::read(config));
            return note_thread(rt);
        }
        None if !has_neighbours || !rt.single_neighbourhood() => {
            "the network of this job, if it has one, cannot wake a thread"
        }
        _ => {
            ReceiveThread::set(Pace::read(config));
            return note_thread(rt);
        }
    };
    // Clients set it whatever the network is, so it is no reason for a warning.
    if config.get(&config::VERBOSEENV) {
        gasnet_tools::process::warn(format_args!("GASNET_RCV_THREAD has no effect: {reason}"));
    }
}

/// Tells the node agent, unless the client has yet to start the thread.
fn note_thread(rt: &Runtime) {
    if receives() && network::may_start_threads() {
        rt.job.note_receiving();
    }
}

/// Ends what the library's threads do, at the end of the job. Waits a little for a handler that
/// runs on one. Async-signal-safe.
pub fn stop() {
    network::end();
    if let Some(thread) = ReceiveThread::get() {
        thread.kick.wake();
    }
    network::await_handler();
}

/// Whether this configuration wants a thread that polls.
pub fn has_thread(config: &Config) -> bool {
    config.get(&config::RCV_THREAD) && Mode::get() == Mode::Par
}

/// Whether a thread polls, or will when the client has started it.
pub fn receives() -> bool {
    ReceiveThread::get().is_some() || network::receives()
}

/// Whether the client is to start a thread with [`run_deferred`].
pub fn is_deferred() -> bool {
    receives() && !network::may_start_threads()
}

/// Runs on a thread of the client in place of a thread of the library. Does not return.
pub fn run_deferred() {
    if !receives() {
        return;
    }
    let _held = gasnet_sys::float::hold();
    process::count_own_thread();
    runtime::get().job.note_receiving();
    match ReceiveThread::get() {
        Some(thread) => thread.run(),
        None => network::run_receiving(),
    }
    network::stay();
}

impl ReceiveThread {
    /// Makes that of this process, and starts it if that is not left to the client.
    fn set(pace: Pace) {
        THREAD.get_or_init(|| {
            let started = Eventfd::new().and_then(|kick| {
                let thread = Arc::new(Self { pace, kick });
                let own = thread.clone();
                if network::may_start_threads() {
                    network::spawn(move || own.run())?;
                }
                Ok(thread)
            });
            started
                .inspect_err(|why| {
                    gasnet_tools::process::warn(format_args!("cannot start the receive thread: {why}"));
                })
                .ok()
        });
    }

    fn get() -> Option<&'static Self> {
        THREAD.get()?.as_deref()
    }

    /// Receives until the job ends.
    fn run(&self) {
        thread::enter_as_library();
        let mut slept = Slept::Ended;
        while !network::is_ending() {
            let woken = Instant::now();
            let received = network::receive(self.pace.idle);
            if !received.found && slept == Slept::Woken {
                // The wake-up was for a barrier or similar, which a follower may wait for.
                FOLLOWERS.notify();
            }
            let pause = self.pace.pause(woken.elapsed());
            let pause = if received.found { pause } else { pause.max(PAUSE) };
            if !pause.is_zero() {
                self.kick.wait(None, pause);
            }
            slept = sleep(received.known);
        }
    }
}

/// Sleeps until something arrives. `known`: the eventcount before the last poll.
fn sleep(known: u32) -> Slept {
    let rt = runtime::get();
    let promise = rt.abilities.wake.map_or(WakePromise::Wakes, network::watch);
    if promise == WakePromise::Arrived {
        return Slept::Refused;
    }
    let limit = MAX_SLEEP[usize::from(promise == WakePromise::Never)];
    let also = || progress::advances() || FOLLOWERS.count() != known;
    FOLLOWERS.sleep(known, limit, |limit| rt.comm.sleep(limit, PollScope::All, also))
}
