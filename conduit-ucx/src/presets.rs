//! Variables of UCX that this conduit sets, unless the user has, before UCX is loaded: it reads
//! them then.
#![forbid(unsafe_code)]

use crate::ffi::{self, Functions};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::{env, lock};
use std::ffi::CStr;

/// Name and value.
type Preset = (&'static CStr, &'static CStr);

const PRESETS: [Preset; 4] = [
    // Loading UCX up to 1.19 replaces the process's handlers of SIGSEGV and others, and loading any
    // replaces that of SIGHUP.
    (c"UCX_HANDLE_ERRORS", c"none"),
    (c"UCX_DEBUG_SIGNO", c"0"),
    // From 1.21 on, loading waits eight times this long before it changes code of the C library,
    // for threads that are inside. It is loaded before GASNet starts threads.
    (c"UCX_MEM_BISTRO_GRACE_DURATION", c"0"),
    // Older versions warn of variables that they do not have.
    (c"UCX_WARN_UNUSED_ENV_VARS", c"n"),
];

/// The variables that were set.
static SET: Mutex<Vec<Preset>> = Mutex::new(Vec::new());

/// UCX, before whose load variables are set. The error is a message.
pub fn library() -> Result<&'static Functions, String> {
    Functions::load(|| {
        // A copy that the process has already has read them.
        if !ffi::is_loaded() {
            *lock(&SET) = set();
        }
    })
}

fn set() -> Vec<Preset> {
    let unset = PRESETS.into_iter().filter(|(name, _)| env::get(name).is_none());
    let unset: Vec<_> = unset.collect();
    for (name, value) in &unset {
        env::set(name, value);
    }
    unset
}

/// The variables that were set, for people.
pub fn shown() -> String {
    let set = lock(&SET);
    let shown = set
        .iter()
        .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() {
        "none".into()
    } else {
        shown.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_comes_first() {
        env::set(c"UCX_HANDLE_ERRORS", c"bt");
        assert_eq!(set(), PRESETS[1..]);
        assert_eq!(env::get(c"UCX_HANDLE_ERRORS"), Some(c"bt"));
        assert_eq!(env::get(c"UCX_DEBUG_SIGNO"), Some(c"0"));
        assert!(set().is_empty());
    }
}
