//! The client's `argc` and `argv`: a library may be told the number of ranks in the first argument (udp-conduit README, "Choosing the spawn
//! mechanism").

use std::ffi::{c_char, c_int, CStr};

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

    /// The words and their number, if there is one after the program's name.
    fn words(&self) -> Option<(*mut *mut c_char, usize)> {
        if self.count.is_null() || self.words.is_null() {
            return None;
        }
        // SAFETY: the promise of `new`.
        let (count, words) = unsafe { (*self.count, *self.words) };
        (count >= 2 && !words.is_null()).then_some((words, count as usize))
    }

    /// The first argument, if it is a whole number; [`u32::MAX`] stands for all that are greater.
    pub fn ranks(&self) -> Option<u32> {
        let (words, _) = self.words()?;
        // SAFETY: there are at least two words; each is null or a C string.
        let word = unsafe { *words.add(1) };
        if word.is_null() {
            return None;
        }
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(word) }.to_str().ok()?;
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u32::MAX))
    }

    /// Takes the first argument away.
    pub fn drop_first(&self) {
        let Some((words, count)) = self.words() else { return };
        for i in 1..count {
            // SAFETY: after the words there is a null pointer, which moves down, too.
            unsafe { *words.add(i) = *words.add(i + 1) };
        }
        // SAFETY: not null, and the client's to write.
        unsafe { *self.count = count as c_int - 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(words: &[&CStr]) -> (Option<u32>, Vec<String>) {
        let mut pointers: Vec<*mut c_char> = words
            .iter()
            .map(|w| w.as_ptr().cast_mut())
            .chain([std::ptr::null_mut()])
            .collect();
        let (mut count, mut first) = (words.len() as c_int, pointers.as_mut_ptr());
        // SAFETY: as `main` gets them.
        let arguments = unsafe { Arguments::new(&raw mut count, &raw mut first) };
        let ranks = arguments.ranks();
        arguments.drop_first();
        assert!(pointers[count as usize].is_null());
        // SAFETY: C strings, of `words`.
        let text = |&p: &*mut c_char| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned();
        (ranks, pointers[..count as usize].iter().map(text).collect())
    }

    #[test]
    fn a_number_is_taken() {
        assert_eq!(
            with(&[c"a.out", c"4", c"x", c"y"]),
            (Some(4), vec!["a.out".into(), "x".into(), "y".into()])
        );
        assert_eq!(with(&[c"a.out"]), (None, vec!["a.out".into()]));
        for other in [c"", c"x", c"-4", c"+4", c"4x"] {
            assert_eq!(with(&[c"a.out", other]).0, None, "{other:?}");
        }
        assert_eq!(with(&[c"a.out", c"0"]).0, Some(0));
        assert_eq!(with(&[c"a.out", c"99999999999"]).0, Some(u32::MAX));
        // SAFETY: null is allowed.
        let none = unsafe { Arguments::new(std::ptr::null_mut(), std::ptr::null_mut()) };
        none.drop_first();
        assert_eq!(none.ranks(), None);
    }
}
