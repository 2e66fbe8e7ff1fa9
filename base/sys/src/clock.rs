//! The monotonic clock, the time-stamp counter, and sleeping.

use rustix::time::{clock_gettime, ClockId};

/// The monotonic clock in nanoseconds. Async-signal-safe.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of this process in nanoseconds. Async-signal-safe.
pub fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps. False, with `errno` EINTR, if a signal ended the sleep early. Async-signal-safe.
pub fn sleep_ns(ns: u64) -> bool {
    if ns == 0 {
        return true;
    }
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    // Not rustix, because callers in C read `errno`.
    // SAFETY: a valid interval; a null remainder is allowed.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) == 0 }
}

/// The time-stamp counter. Use it only where [`tsc_is_invariant`].
#[cfg(target_arch = "x86_64")]
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The time-stamp counter. Use it only where [`tsc_is_invariant`].
#[cfg(not(target_arch = "x86_64"))]
pub fn tsc() -> u64 {
    monotonic_ns()
}

/// Whether the time-stamp counter runs at one rate in all power states.
#[cfg(target_arch = "x86_64")]
pub fn tsc_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    // `__cpuid` is a safe function in newer compilers.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has cpuid; leaf 0x80000000 returns the highest extended leaf.
    let has_leaf = unsafe { __cpuid(0x8000_0000) }.eax >= POWER_LEAF;
    #[allow(unused_unsafe)]
    // SAFETY: as above.
    let power = unsafe { __cpuid(POWER_LEAF) };
    has_leaf && power.edx & INVARIANT_TSC != 0
}

/// Whether the time-stamp counter runs at one rate in all power states.
#[cfg(not(target_arch = "x86_64"))]
pub fn tsc_is_invariant() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_takes_its_time() {
        let start = monotonic_ns();
        assert!(sleep_ns(0) && sleep_ns(2_000_000));
        assert!(monotonic_ns() - start >= 2_000_000);
    }
}
