//! The floating-point environment of a thread: sticky flags and traps.
//!
//! A client may read the flags (`fetestexcept`; Fortran's `STOP` prints them) or have traps on
//! (`feenableexcept`, `-ffpe-trap`). Arithmetic of this library is none of its business.

use std::ffi::c_int;
use std::hint::black_box;
use std::mem::MaybeUninit;

/// Room for the C library's `fenv_t`: 32 bytes on x86, at most 16 elsewhere.
type Environment = [u64; 8];

#[link(name = "m")]
extern "C" {
    fn feholdexcept(environment: *mut Environment) -> c_int;
    fn fesetenv(environment: *const Environment) -> c_int;
}

/// The floating-point environment at a call of [`hold`]; restores it when dropped.
#[derive(Debug)]
#[must_use]
pub struct Held(Environment);

/// Turns all traps off and clears the flags, until the result is dropped. The compiler may move
/// arithmetic across this; [`quietly`] keeps it inside.
pub fn hold() -> Held {
    let mut environment = MaybeUninit::<Environment>::zeroed();
    // SAFETY: writable, and larger than a `fenv_t`.
    unsafe { feholdexcept(environment.as_mut_ptr()) };
    // SAFETY: zeroed memory is a valid array, and the call has filled it.
    Held(unsafe { environment.assume_init() })
}

/// Computes with all traps off, and leaves the flags as they are.
pub fn quietly<T>(compute: impl FnOnce() -> T) -> T {
    let _held = hold();
    black_box(black_box(compute)())
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: `feholdexcept` has filled it.
        unsafe { fesetenv(&raw const self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" {
        fn fetestexcept(flags: c_int) -> c_int;
        fn feclearexcept(flags: c_int) -> c_int;
    }
    /// Every flag; the functions ignore bits that the processor does not have.
    const ALL: c_int = 0x3f;

    #[test]
    fn flags_are_those_of_before() {
        // SAFETY: takes a number.
        unsafe { feclearexcept(ALL) };
        let held = hold();
        black_box(black_box(1.0) / black_box(3.0));
        // SAFETY: takes a number.
        assert_ne!(unsafe { fetestexcept(ALL) }, 0);
        drop(held);
        let third = quietly(|| black_box(1.0) / 3.0);
        assert!(0.3 < third && third < 0.4);
        // SAFETY: takes a number.
        assert_eq!(unsafe { fetestexcept(ALL) }, 0);
    }
}
