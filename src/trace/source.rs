//! The client's place in its source (`GASNETT_TRACE_SETSOURCELINE`), one per thread.

use std::cell::Cell;
use std::ffi::{c_char, CStr};
use std::fmt;
use std::ptr;

/// A file name, which the client keeps alive, and a line. Null: none.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// NUL-terminated, or null.
    pub file: *const c_char,
    /// Line in it.
    pub line: u32,
}

// SAFETY: the name is the client's constant, which no thread changes.
unsafe impl Send for Source {}

impl Source {
    /// No place.
    pub const NONE: Self = Self {
        file: ptr::null(),
        line: 0,
    };
}

impl fmt::Display for Source {
    /// `FILE:LINE`, or `-`. What would end the field is replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_null() {
            return f.write_str("-");
        }
        // SAFETY: not null; the client's NUL-terminated name, which it keeps alive.
        let name = unsafe { CStr::from_ptr(self.file) };
        for chunk in name.to_bytes().utf8_chunks() {
            for c in chunk.valid().chars() {
                fmt::Write::write_char(f, if c.is_control() || c == ']' { '?' } else { c })?;
            }
            if !chunk.invalid().is_empty() {
                f.write_str("?")?;
            }
        }
        write!(f, ":{}", self.line)
    }
}

struct Place {
    source: Cell<Source>,
    frozen: Cell<u32>,
}

// No destructor: it may be used while the thread ends.
thread_local! {
    static PLACE: Place = const { Place { source: Cell::new(Source::NONE), frozen: Cell::new(0) } };
}

/// Where the calling thread is.
pub fn here() -> Source {
    PLACE.with(|place| place.source.get())
}

/// Moves the calling thread to `source`, unless its place is frozen.
pub fn set(source: Source) {
    PLACE.with(|place| {
        if place.frozen.get() == 0 {
            place.source.set(source);
        }
    });
}

/// From now on [`set`] does nothing, until as many calls of [`unfreeze`].
pub fn freeze() {
    PLACE.with(|place| place.frozen.set(place.frozen.get() + 1));
}

/// Takes one [`freeze`] back.
pub fn unfreeze() {
    PLACE.with(|place| place.frozen.set(place.frozen.get().saturating_sub(1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_place_stays() {
        let at = |line| Source {
            file: c"a]b\n.c".as_ptr(),
            line,
        };
        set(at(1));
        freeze();
        freeze();
        set(at(2));
        unfreeze();
        set(at(3));
        assert_eq!(here().to_string(), "a?b?.c:1");
        unfreeze();
        unfreeze();
        set(at(4));
        assert_eq!(here().to_string(), "a?b?.c:4");
        set(Source::NONE);
        assert_eq!(here().to_string(), "-");
    }
}
