//! Variables of other libraries that are set for them.

use gasnet_sys::env;
use std::ffi::CStr;

/// What the providers of HCAs read: without them they lock their queues.
const SINGLE_THREADED: [&CStr; 2] = [c"MLX4_SINGLE_THREADED", c"MLX5_SINGLE_THREADED"];

/// Sets them before a device is opened. What the user has set stays.
pub fn before_first_use(single_threaded: bool) {
    if single_threaded {
        for name in SINGLE_THREADED.into_iter().filter(|name| env::get(name).is_none()) {
            env::set(name, c"1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_left_out_of_single_threaded_programs() {
        before_first_use(false);
        assert_eq!(env::get(c"MLX5_SINGLE_THREADED"), None);
        env::set(c"MLX4_SINGLE_THREADED", c"0");
        before_first_use(true);
        assert_eq!(env::get(c"MLX5_SINGLE_THREADED"), Some(c"1"));
        assert_eq!(env::get(c"MLX4_SINGLE_THREADED"), Some(c"0"));
    }
}
