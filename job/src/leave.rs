//! How a rank notices that others have ended the job, and leaves.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use super::control_block::Phase;
use super::job::{current, Job};
use super::{exit, signals};
use gasnet_sys::signal;

/// The phase word of a process without a job.
static NEVER: AtomicU32 = AtomicU32::new(0);
static PHASE: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());
static QUIT_RAISED: AtomicBool = AtomicBool::new(false);

/// From here on [`exiting`] reads the phase of this job.
pub(super) fn watch(job: &'static Job) {
    PHASE.store(
        std::ptr::from_ref(job.control.phase_word()).cast_mut(),
        Ordering::Release,
    );
}

/// Whether a rank has called exit: one relaxed load. A wait whose own condition does not hold then
/// calls [`Job::while_exiting`].
#[inline]
pub fn exiting() -> bool {
    // SAFETY: the pointer is to a static or into the control block, which is never unmapped.
    unsafe { &*PHASE.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// The check of an idle waiter. It may not return if the job is ending.
#[inline]
pub fn check_exit(inside: Inside) {
    if exiting() {
        if let Some(job) = current() {
            job.while_exiting(inside);
        }
    }
}

/// Activity of a thread that finds the job ending. See [`Job::while_exiting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// It waits for a condition and can do nothing else.
    Wait,
    /// It polled once and found nothing; its caller may have other work.
    Poll,
}

impl Job {
    /// Call this inside GASNet when [`exiting`] is true and the thread can do nothing else.
    /// It returns while other ranks may still be about to join a collective exit. Afterwards this
    /// rank exits as well. Call it about every millisecond: the node agent then sees that this
    /// rank waits, and gives it no time to finish work.
    #[cold]
    pub fn while_exiting(&self, inside: Inside) {
        match self.control.phase() {
            Phase::Running => {}
            Phase::Announced => {
                let line = self.status();
                let beat = match inside {
                    Inside::Wait => &line.waits,
                    Inside::Poll => &line.polls,
                };
                beat.fetch_add(1, Ordering::Relaxed);
            }
            Phase::Leave | Phase::Go => self.leave(),
        }
    }

    /// Other ranks have ended the job. The specification promises SIGQUIT to clients with a handler
    /// for it.
    fn leave(&self) -> ! {
        if !exit::begun() && !QUIT_RAISED.swap(true, Ordering::AcqRel) && signals::client_has_quit_handler() {
            signal::raise(libc::SIGQUIT);
        }
        self.exit(self.control.code())
    }
}
