//! The floating-point environment of a thread: sticky flags and traps.
//!
//! A client may read the flags (`fetestexcept`; Fortran's `STOP` prints them) or have traps on
//! (`feenableexcept`, `-ffpe-trap`). Arithmetic of this library is none of its business.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
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

/// As [`hold`], at the price of a few instructions, for each call of another library: without the
/// state of the x87, which arithmetic of `float` and `double` does not use.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn keep() -> Kept {
    /// Masks of all exceptions, no flags, round to nearest: as a process begins.
    const DEFAULT: u32 = 0x1f80;
    let before = sse_state();
    if before != DEFAULT {
        set_sse_state(DEFAULT);
    }
    Kept(before)
}

/// As [`hold`], where nothing is cheaper.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn keep() -> Held {
    hold()
}

/// The state at a call of [`keep`]; restores it when dropped.
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
#[must_use]
pub struct Kept(u32);

#[cfg(not(target_arch = "x86_64"))]
pub use Held as Kept;

#[cfg(target_arch = "x86_64")]
impl Drop for Kept {
    #[inline]
    fn drop(&mut self) {
        if sse_state() != self.0 {
            set_sse_state(self.0);
        }
    }
}

/// MXCSR: masks and flags of exceptions, and rounding.
#[cfg(target_arch = "x86_64")]
#[inline]
fn sse_state() -> u32 {
    let mut state = 0;
    // SAFETY: stores 4 bytes there. Not `pure`: calls before and after it change the register.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut state, options(nostack, preserves_flags)) };
    state
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn set_sse_state(state: u32) {
    // SAFETY: a state that the register had, or the default one.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const state, options(nostack, preserves_flags)) };
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
        let kept = keep();
        black_box(black_box(1.0) / black_box(3.0));
        // SAFETY: takes a number.
        assert_ne!(unsafe { fetestexcept(ALL) }, 0);
        drop(kept);
        // SAFETY: takes a number.
        assert_eq!(unsafe { fetestexcept(ALL) }, 0);
        let third = quietly(|| black_box(1.0) / 3.0);
        assert!(0.3 < third && third < 0.4);
        // SAFETY: takes a number.
        assert_eq!(unsafe { fetestexcept(ALL) }, 0);
    }
}
