//! The current source line of the client (`GASNETT_TRACE_SETSOURCELINE`), per thread.

use std::cell::Cell;
use std::ffi::{c_char, CStr};
use std::fmt;
use std::ptr;

/// A source line. The client keeps the file name alive.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// File name, NUL-terminated; null for none.
    pub file: *const c_char,
    /// Line number.
    pub line: u32,
}

// SAFETY: the name is the client's constant, which no thread changes.
unsafe impl Send for Source {}

impl Source {
    /// No source line.
    pub const NONE: Self = Self {
        file: ptr::null(),
        line: 0,
    };
}

impl fmt::Display for Source {
    /// `FILE:LINE`, or `-`. Characters that would end the field are replaced.
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

struct Current {
    source: Cell<Source>,
    frozen: Cell<u32>,
}

// No destructor: it may be used while the thread ends.
thread_local! {
    static CURRENT: Current = const { Current { source: Cell::new(Source::NONE), frozen: Cell::new(0) } };
}

/// The source line of the calling thread.
pub fn here() -> Source {
    CURRENT.with(|current| current.source.get())
}

/// Sets the source line of the calling thread, unless it is frozen.
pub fn set(source: Source) {
    CURRENT.with(|current| {
        if current.frozen.get() == 0 {
            current.source.set(source);
        }
    });
}

/// Makes [`set`] ineffective until an equal number of [`unfreeze`] calls.
pub fn freeze() {
    CURRENT.with(|current| current.frozen.set(current.frozen.get() + 1));
}

/// Reverts one [`freeze`].
pub fn unfreeze() {
    CURRENT.with(|current| current.frozen.set(current.frozen.get().saturating_sub(1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_line_stays() {
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
