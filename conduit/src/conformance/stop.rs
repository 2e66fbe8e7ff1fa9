//! A conduit stops inside a signal handler: part of `conformance_tests!`.

use super::{connect_all, packet, IgnoreAll, Job, Make};
use crate::{Class, JobRank, PollScope, Stop};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A job of two ranks, and whether rank 0 was stopped.
type Target = (Job, AtomicBool);

thread_local! {
    /// The job whose rank 0 the interrupted thread is.
    static TARGET: Cell<*const Target> = const { Cell::new(std::ptr::null()) };
}

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: null, or the thread that runs this owns it.
    if let Some((job, stopped)) = unsafe { TARGET.get().as_ref() } {
        job.of(0).stop(Stop::Signal);
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
        // A scope would wait for a handler that hangs: the process ends instead.
        interrupted(job, Duration::from_micros(instant * instant * 3));
    }
}

fn interrupted(job: Job, after: Duration) {
    let shared = Arc::new((job, AtomicBool::new(false)));
    let (job, stopped) = &*shared;
    let of_thread = Arc::clone(&shared);
    let thread = std::thread::spawn(move || {
        TARGET.set(Arc::as_ptr(&of_thread));
        let (job, stopped) = &*of_thread;
        let network = job.of(0);
        let request = packet(JobRank(0), 1, 200);
        while !stopped.load(SeqCst) {
            let _ = network.send(JobRank(1), Class::Request, &[&request]);
            network.poll(PollScope::All, &mut IgnoreAll);
        }
        TARGET.set(std::ptr::null());
    });
    let of_peer = Arc::clone(&shared);
    let peer = std::thread::spawn(move || {
        let (job, stopped) = &*of_peer;
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
