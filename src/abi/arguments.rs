//! The client's `argc` and `argv`: the first argument may be the number of ranks (udp-conduit README, "Choosing the spawn mechanism"). They are only
//! read: where the number counts, the program is started again without it (`job::restart`).

use std::ffi::{c_char, c_int, CStr};

use crate::job::Count;

/// The first argument, if it is a whole number. Where the client passes no arguments, the process's own command line is looked at.
///
/// # Safety
/// Both are null or valid; the words are as `main` gets them.
pub unsafe fn count(argc: *const c_int, argv: *const *mut *mut c_char) -> Option<Count> {
    if argc.is_null() || argv.is_null() {
        return unpassed();
    }
    // SAFETY: not null, by contract valid.
    let (count, words) = unsafe { (*argc, *argv) };
    let count = usize::try_from(count).unwrap_or(0);
    if words.is_null() || count == 0 {
        return unpassed();
    }
    // SAFETY: by contract there are `count` words.
    let words = unsafe { std::slice::from_raw_parts(words, count) };
    if words.len() < 2 || words.iter().any(|word| word.is_null()) {
        return None;
    }
    // SAFETY: not null; C strings by contract.
    let text = |word: &*mut c_char| unsafe { CStr::from_ptr(*word) };
    let ranks = number(text(&words[1]).to_bytes())?;
    let rest = words[..1].iter().chain(&words[2..]).map(|word| text(word).to_owned());
    Some(Count::Passed {
        ranks,
        rest: rest.collect(),
    })
}

fn unpassed() -> Option<Count> {
    let line = std::fs::read("/proc/self/cmdline").ok()?;
    let word = line.split(|&byte| byte == 0).nth(1)?;
    number(word).map(Count::Unpassed)
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

    fn with(words: &[&CStr]) -> Option<(u32, Vec<String>)> {
        let mut pointers: Vec<*mut c_char> = words.iter().map(|w| w.as_ptr().cast_mut()).collect();
        pointers.push(std::ptr::null_mut());
        let (argc, argv) = (words.len() as c_int, pointers.as_mut_ptr());
        // SAFETY: as `main` gets them.
        match unsafe { count(&raw const argc, &raw const argv) }? {
            Count::Passed { ranks, rest } => Some((ranks, rest.iter().map(|w| w.to_string_lossy().into_owned()).collect())),
            Count::Unpassed(_) => panic!("arguments were passed"),
        }
    }

    #[test]
    fn a_number_is_found() {
        assert_eq!(
            with(&[c"a.out", c"4", c"x", c"5"]),
            Some((4, vec!["a.out".into(), "x".into(), "5".into()]))
        );
        assert_eq!(with(&[c"a.out"]), None);
        for other in [c"", c"x", c"-4", c"+4", c"4x"] {
            assert_eq!(with(&[c"a.out", other]), None, "{other:?}");
        }
        assert_eq!(with(&[c"a.out", c"0"]).unwrap().0, 0);
        assert_eq!(with(&[c"a.out", c"99999999999"]).unwrap().0, u32::MAX);
    }

    #[test]
    fn no_arguments_are_no_error() {
        let (argc, argv) = (0, std::ptr::null_mut());
        for (argc, argv) in [
            (std::ptr::null(), std::ptr::null()),
            (&raw const argc, std::ptr::null()),
            (&raw const argc, &raw const argv),
        ] {
            // SAFETY: null is allowed. The command line of this test has no number.
            assert_eq!(unsafe { count(argc, argv) }, None);
        }
    }
}
