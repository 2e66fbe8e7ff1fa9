//! The process manager of this process, from the start of the job to its end.
#![forbid(unsafe_code)]

use super::{Membership, ProcessManager};
use gasnet_sys::atomic::{lock, Mutex};

pub type Manager = Box<dyn ProcessManager>;

static MANAGER: Mutex<Option<Manager>> = Mutex::new(None);

pub fn set(manager: Manager) {
    *lock(&MANAGER) = Some(manager);
}

/// Calls `join` with the manager, if there is one. It is dropped afterwards if it is a launcher
/// process, which only serves the start.
pub fn with<T>(join: impl FnOnce(&mut Manager) -> T) -> Option<T> {
    let mut held = lock(&MANAGER);
    let joined = join(held.as_mut()?);
    if held
        .as_ref()
        .is_some_and(|manager| manager.launcher_contact().is_some())
    {
        *held = None;
    }
    Some(joined)
}

/// The place of this process in the job of its manager, if there is one.
pub fn membership() -> Option<Membership> {
    lock(&MANAGER).as_ref().map(|manager| manager.membership().clone())
}

/// This rank ends normally; `whole` as for [`ProcessManager::finalize`]. May be called without a
/// manager, and from any thread.
pub fn finalize(whole: bool) {
    // If the lock is taken, its holder is ending the process, too.
    if let Some(mut manager) = MANAGER.try_lock().ok().and_then(|mut held| held.take()) {
        manager.finalize(whole);
    }
}
