//! A conduit stops inside a signal handler: part of `conformance_tests!`.

use super::{connect_all, packet, IgnoreAll, Job, Make};
use crate::{Class, JobRank, Network, PollScope, Stop};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The conduit that the interrupted thread uses, and where it learns that it was stopped.
type Target = (*const dyn Network, *const AtomicBool);

thread_local! {
    static TARGET: Cell<Option<Target>> = const { Cell::new(None) };
}

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    if let Some((network, stopped)) = TARGET.get() {
        // SAFETY: `interrupted` keeps both while the thread runs.
        let (network, stopped) = unsafe { (&*network, &*stopped) };
        network.stop(Stop::Signal);
        stopped.store(true, SeqCst);
    }
}

/// A thread that sends and polls all the time is interrupted, at any instruction, by a signal
/// handler that stops its conduit. It waits for no lock.
pub fn stop_in_a_signal_handler(make: Make<'_>) {
    const INSTANTS: u64 = 60;
    gasnet_sys::signal::handle(libc::SIGUSR2, on_signal, &[]);
    for instant in 0..INSTANTS {
        let job = Job::start(make, 2);
        connect_all(&job);
        // If the handler hangs, so does this scope: end the process instead.
        interrupted(job, Duration::from_micros(instant * instant * 3));
    }
}

fn interrupted(job: Job, after: Duration) {
    let job: &'static Job = Box::leak(Box::new(job));
    let stopped: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let thread = std::thread::spawn(move || {
        let network = job.of(0);
        TARGET.set(Some((std::ptr::from_ref(network), std::ptr::from_ref(stopped))));
        let request = packet(JobRank(0), 1, 200);
        while !stopped.load(SeqCst) {
            let _ = network.send(JobRank(1), Class::Request, &[&request]);
            network.poll(PollScope::All, &mut IgnoreAll);
        }
    });
    let peer = std::thread::spawn(move || {
        while !stopped.load(SeqCst) {
            job.of(1).poll(PollScope::All, &mut IgnoreAll);
        }
    });
    std::thread::sleep(after);
    let start = Instant::now();
    while !thread.is_finished() {
        if !stopped.load(SeqCst) {
            // SAFETY: the thread was not joined.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR2) };
        }
        std::thread::sleep(Duration::from_millis(1));
        assert!(
            start.elapsed() < super::PROGRESS_TIMEOUT,
            "stop in a signal handler waits for what the interrupted code holds"
        );
    }
    thread.join().expect("the interrupted thread");
    peer.join().expect("the peer");
    job.of(1).stop(Stop::Orderly);
}
