//! The client's `argc` and `argv`: the first argument may be the number of ranks (udp-conduit README, "Choosing the spawn mechanism").

use std::ffi::{c_char, c_int, CStr};

use crate::job::Count;

/// Places of `argc` and `argv`, each null or valid.
pub struct Arguments {
    count: *mut c_int,
    words: *mut *mut *mut c_char,
}

impl Arguments {
    /// # Safety
    /// Both are null or valid; the words are as `main` gets them.
    pub unsafe fn new(count: *mut c_int, words: *mut *mut *mut c_char) -> Self {
        Self { count, words }
    }

    /// The words. None if the client passed none.
    fn words(&self) -> Option<&[*mut c_char]> {
        if self.count.is_null() || self.words.is_null() {
            return None;
        }
        // SAFETY: the promise of `new`.
        let (count, words) = unsafe { (*self.count, *self.words) };
        let count = usize::try_from(count).unwrap_or(0);
        if words.is_null() || count == 0 {
            return None;
        }
        // SAFETY: as above: there are `count` words.
        Some(unsafe { std::slice::from_raw_parts(words, count) })
    }

    /// The first argument, if it is a whole number. Where the client passed no words, the process's own command line is looked at.
    pub fn ranks(&self) -> Option<Count> {
        let Some(words) = self.words() else {
            let line = std::fs::read("/proc/self/cmdline").ok()?;
            let word = line.split(|&byte| byte == 0).nth(1)?;
            return number(word).map(Count::Unpassed);
        };
        let word = *words.get(1).filter(|word| !word.is_null())?;
        // SAFETY: not null; the promise of `new`.
        number(unsafe { CStr::from_ptr(word) }.to_bytes()).map(Count::Passed)
    }

    /// Takes the first argument away: `*argc` and `*argv` become those of a new array. The old one stays as it is, because the client may have
    /// copies of the pointer to it.
    pub fn drop_first(&self) {
        let Some(words) = self.words().filter(|words| words.len() > 1) else { return };
        let mut rest: Vec<*mut c_char> = vec![words[0]];
        rest.extend_from_slice(&words[2..]);
        let left = rest.len();
        rest.push(std::ptr::null_mut());
        // SAFETY: `words()` gives something only if neither is null; both are the client's to write.
        unsafe { *self.words = Box::leak(rest.into_boxed_slice()).as_mut_ptr() };
        // SAFETY: as above.
        unsafe { *self.count = left as c_int };
    }
}

/// A word of digits; [`u32::MAX`] stands for all numbers that are greater.
fn number(word: &[u8]) -> Option<u32> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(word).ok().filter(|_| digits)?;
    Some(text.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(words: &[&CStr]) -> (Option<Count>, Vec<String>) {
        let original: Vec<*mut c_char> = words
            .iter()
            .map(|w| w.as_ptr().cast_mut())
            .chain([std::ptr::null_mut()])
            .collect();
        let mut pointers = original.clone();
        let (mut count, mut first) = (words.len() as c_int, pointers.as_mut_ptr());
        // SAFETY: as `main` gets them.
        let arguments = unsafe { Arguments::new(&raw mut count, &raw mut first) };
        let ranks = arguments.ranks();
        arguments.drop_first();
        assert_eq!(pointers, original, "the client's own array is left alone");
        // SAFETY: the words and the null pointer behind them.
        let after = unsafe { std::slice::from_raw_parts(first, count as usize + 1) };
        assert!(after[count as usize].is_null());
        // SAFETY: C strings, of `words`.
        let text = |&p: &*mut c_char| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned();
        (ranks, after[..count as usize].iter().map(text).collect())
    }

    #[test]
    fn a_number_is_taken() {
        assert_eq!(
            with(&[c"a.out", c"4", c"x", c"y"]),
            (Some(Count::Passed(4)), vec!["a.out".into(), "x".into(), "y".into()])
        );
        assert_eq!(with(&[c"a.out"]), (None, vec!["a.out".into()]));
        for other in [c"", c"x", c"-4", c"+4", c"4x"] {
            assert_eq!(with(&[c"a.out", other]).0, None, "{other:?}");
        }
        assert_eq!(with(&[c"a.out", c"0"]).0, Some(Count::Passed(0)));
        assert_eq!(with(&[c"a.out", c"99999999999"]).0, Some(Count::Passed(u32::MAX)));
    }

    #[test]
    fn no_words_are_no_error() {
        let mut none: *mut *mut c_char = std::ptr::null_mut();
        let mut count = 0;
        for (count, words) in [
            (std::ptr::null_mut(), std::ptr::null_mut()),
            (&raw mut count, std::ptr::null_mut()),
            (&raw mut count, &raw mut none),
        ] {
            // SAFETY: null is allowed.
            let arguments = unsafe { Arguments::new(count, words) };
            arguments.drop_first();
            // The command line of this test has no number.
            assert_eq!(arguments.ranks(), None);
        }
    }
}
