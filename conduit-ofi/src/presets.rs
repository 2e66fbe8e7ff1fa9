//! Variables of libfabric that this conduit sets, unless the user has, before libfabric reads them.

use crate::provider;
use crate::variables;
use gasnet_sys::env;
use std::ffi::{CStr, CString};

/// Limits of the caches of memory registrations. Their defaults are known to slow puts and gets
/// down over cxi and verbs.
const CACHE_LIMITS: [&CStr; 2] = [c"FI_MR_CACHE_MAX_SIZE", c"FI_MR_CACHE_MAX_COUNT"];

/// Peers of an endpoint.
const UNIVERSE_SIZE: &CStr = c"FI_UNIVERSE_SIZE";

/// Sets what is the same in every job. Called before the first use of libfabric.
pub fn before_first_use() {
    // The libraries of the psm providers, which libfabric brings along, would catch signals.
    for name in [c"HFI_NO_BACKTRACE", c"IPATH_NO_BACKTRACE"] {
        if env::get(name).is_none() {
            env::set(name, c"1");
        }
    }
    let named = variables::Choice::read().provider;
    let named = named.or_else(|| env::get(c"FI_PROVIDER").and_then(|name| Some(name.to_str().ok()?.to_owned())));
    if provider::has_cxi() || named.is_some_and(|name| caches_registrations(&name)) {
        for name in CACHE_LIMITS {
            match change(env::get(name)) {
                Change::Set => env::set(name, c"-1"),
                Change::Clear => env::unset(name),
                Change::Keep => {}
            }
        }
    }
}

/// Whether a provider has such a cache.
fn caches_registrations(provider: &str) -> bool {
    ["cxi", "verbs"].contains(&provider::first_word(provider))
}

/// What is done with a variable.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Set,
    Clear,
    Keep,
}

/// The change to a variable with this value: set, unless the user has set it. An empty value asks
/// for libfabric's default.
fn change(value: Option<&CStr>) -> Change {
    match value {
        None => Change::Set,
        Some(value) if value.is_empty() => Change::Clear,
        Some(_) => Change::Keep,
    }
}

/// Sets the number of peers that libfabric expects, for a library of this version.
pub fn set_universe_size(ranks: u32, library: (u32, u32)) {
    if sets_universe_size(variables::sets_universe_size(), library, provider::has_cxi())
        && change(env::get(UNIVERSE_SIZE)) == Change::Set
    {
        if let Ok(size) = CString::new(ranks.to_string()) {
            env::set(UNIVERSE_SIZE, &size);
        }
    }
}

/// The user's wish decides. The cxi provider before 1.15.2 crashes, and the library does not tell
/// 1.15.2 from 1.15.
fn sets_universe_size(wish: Option<bool>, library: (u32, u32), has_cxi: bool) -> bool {
    wish.unwrap_or(library > (1, 15) || !has_cxi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_comes_first() {
        assert_eq!(
            [change(None), change(Some(c"")), change(Some(c"5"))],
            [Change::Set, Change::Clear, Change::Keep]
        );
    }

    #[test]
    fn providers_with_a_cache() {
        assert!(caches_registrations("verbs;ofi_rxm") && caches_registrations("cxi"));
        assert!(!caches_registrations("tcp;ofi_rxm") && !caches_registrations("efa"));
    }

    #[test]
    fn the_size_of_the_universe() {
        assert!(sets_universe_size(None, (1, 15), false) && sets_universe_size(None, (1, 16), true));
        assert!(!sets_universe_size(None, (1, 15), true) && sets_universe_size(Some(true), (1, 15), true));
        assert!(!sets_universe_size(Some(false), (1, 17), false));
    }
}
