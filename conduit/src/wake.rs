//! Waking threads that sleep until the network has something for them.

/// A network that can wake a sleeping thread. Threads sleep after a poll that found nothing.
pub trait Wake: Sync {
    /// The wake-up descriptor: readable when a poll would deliver something. May be readable
    /// without reason. The caller never reads or closes it. Constant from the start on.
    fn fd(&self) -> i32;

    /// Called before a thread sleeps on the descriptor. `false`: poll again. `true`: every arrival
    /// from now on makes the descriptor readable.
    fn arm(&self) -> bool {
        true
    }

    /// Called before a thread sleeps on something else. `true`: until the next poll, the conduit
    /// calls `wake` on a thread of its own when a poll would deliver something, and repeats it if
    /// no poll follows. `false`: it does not, and the caller must poll periodically; or there is
    /// something to deliver now.
    fn watch(&self, wake: fn()) -> bool {
        let _ = wake;
        false
    }
}
