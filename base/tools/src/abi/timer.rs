//! README-tools, "Timers" and "Sleep".

use libc::c_int;

use crate::timer;

/// The current tick count.
#[no_mangle]
pub extern "C" fn gasnett_ticks_now() -> u64 {
    timer::now()
}

/// Ticks to nanoseconds.
#[no_mangle]
pub extern "C" fn gasnett_ticks_to_ns(ticks: u64) -> u64 {
    timer::to_ns(ticks)
}

/// Ticks to microseconds.
#[no_mangle]
pub extern "C" fn gasnett_ticks_to_us(ticks: u64) -> u64 {
    timer::to_ns(ticks) / 1000
}

/// Smallest step of the tick counter in microseconds.
#[no_mangle]
pub extern "C" fn gasnett_tick_granularityus() -> f64 {
    timer::granularity_us()
}

/// Cost of reading the tick counter in microseconds.
#[no_mangle]
pub extern "C" fn gasnett_tick_overheadus() -> f64 {
    timer::overhead_us()
}

/// The wall clock in microseconds since 1970.
#[no_mangle]
pub extern "C" fn gasnett_gettimeofday_us() -> u64 {
    timer::wall_us()
}

/// Sleeps; non-zero with `errno` EINTR if a signal ended the sleep early.
#[no_mangle]
pub extern "C" fn gasnett_nsleep(ns_delay: u64) -> c_int {
    if gasnet_sys::clock::sleep_ns(ns_delay) {
        0
    } else {
        -1
    }
}
