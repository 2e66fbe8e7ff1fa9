//! Waking threads that sleep until the network has something for them.

/// Promise of the network to a thread that is about to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakePromise {
    /// It wakes the process.
    Wakes,
    /// Something has arrived: poll again.
    Arrived,
    /// Nothing.
    Never,
}

/// A network that can wake a sleeping thread. Threads sleep after a poll that found nothing.
pub trait Wake: Sync {
    /// The wake-up descriptor: readable when a poll would deliver something. May be readable
    /// without reason. The caller never reads or closes it. Constant from the start on.
    fn fd(&self) -> i32;

    /// Names of the devices that the descriptor stands for, for people: at least one.
    fn devices(&self) -> Vec<String>;

    /// Called before a thread sleeps on the descriptor. `false`: poll again. `true`: every arrival
    /// from now on makes the descriptor readable.
    fn arm(&self) -> bool {
        true
    }

    /// Called before a thread sleeps on something else. [`WakePromise::Wakes`]: until the next
    /// poll, the conduit calls `wake` on a thread of its own when a poll would deliver something,
    /// and repeats it if no poll follows. [`WakePromise::Never`]: it has no such thread.
    fn watch(&self, wake: fn()) -> WakePromise {
        let _ = wake;
        WakePromise::Never
    }
}
