//! State of this process. It is made at the first call and never freed; a fork's child makes its
//! own.

use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};
use std::sync::Mutex;

use crate::lock::locked;

/// A static variable that holds such a state.
pub struct PerProcess<T: 'static> {
    /// The state and the process that made it; null: none has.
    current: AtomicPtr<(u32, T)>,
    making: Mutex<()>,
}

impl<T> PerProcess<T> {
    #[allow(clippy::new_without_default, reason = "statics need a constant")]
    pub const fn new() -> Self {
        Self {
            current: AtomicPtr::new(std::ptr::null_mut()),
            making: Mutex::new(()),
        }
    }

    /// None: this process has not made it yet.
    pub fn get(&self) -> Option<&'static T> {
        let current = self.current.load(Acquire);
        // SAFETY: never freed once it is stored.
        let current = (!current.is_null()).then(|| unsafe { &*current });
        current
            .filter(|(pid, _)| *pid == std::process::id())
            .map(|(_, state)| state)
    }

    /// The state, made by `make` at the first call. `begin` runs before anybody else finds it.
    pub fn get_or_make(
        &self,
        make: impl FnOnce() -> Result<T, String>,
        begin: impl FnOnce(&'static T),
    ) -> Result<&'static T, String> {
        if let Some(state) = self.get() {
            return Ok(state);
        }
        let _guard = locked(&self.making);
        if let Some(state) = self.get() {
            return Ok(state);
        }
        let made = Box::into_raw(Box::new((std::process::id(), make()?)));
        // SAFETY: a new box, which is never freed.
        let (_, state) = unsafe { &*made };
        begin(state);
        self.current.store(made, Release);
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_tried_again_and_a_state_is_kept() {
        static STATE: PerProcess<u32> = PerProcess::new();
        assert_eq!(STATE.get(), None);
        assert!(STATE.get_or_make(|| Err("no".to_string()), |_| ()).is_err());
        assert_eq!(STATE.get_or_make(|| Ok(1), |_| ()), Ok(&1));
        assert_eq!(STATE.get_or_make(|| Ok(2), |_| ()), Ok(&1));
        assert_eq!(STATE.get(), Some(&1));
    }
}
