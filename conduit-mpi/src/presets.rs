//! Variables of MPIs that this conduit sets, unless the user has, before a library is opened.
#![forbid(unsafe_code)]

use gasnet_sys::env;
use std::ffi::CStr;

/// Name and value.
const PRESETS: [(&CStr, &CStr); 3] = [
    // Open MPI otherwise handles SIGABRT, SIGBUS, SIGFPE and SIGSEGV, and GASNet's report of a
    // fault does not come.
    (c"OMPI_MCA_opal_signal", c""),
    // UCX, which MPIs bring along, otherwise handles these and SIGHUP when it is loaded.
    (c"UCX_HANDLE_ERRORS", c"none"),
    (c"UCX_DEBUG_SIGNO", c"0"),
];

/// Sets them.
pub fn set() {
    for (name, value) in PRESETS {
        if env::get(name).is_none() {
            env::set(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_comes_first() {
        env::set(c"OMPI_MCA_opal_signal", c"11");
        set();
        assert_eq!(
            PRESETS.map(|(name, _)| env::get(name)),
            [Some(c"11"), Some(c"none"), Some(c"0")]
        );
    }
}
