//! The client's `argc` and `argv`. Their first argument may be the number of ranks (udp-conduit
//! README, "Choosing the spawn mechanism"). They are not changed: the program is started again
//! without the number (`job::restart`).

use std::ffi::{c_char, c_int, CStr, CString};

use gasnet_job::Count;

/// The first argument, if it begins with a number that `atoi` reads, as in the reference. Without
/// one in the client's arguments, that of the process's own command line.
///
/// # Safety
/// Both are null or valid. The arguments are as `main` gets them.
pub unsafe fn count(argc: *const c_int, argv: *const *mut *mut c_char) -> Option<Count> {
    let line = gasnet_sys::started::words();
    // SAFETY: the caller's contract.
    let words = unsafe { words(argc, argv) };
    match words.get(1).and_then(|word| number(word.to_bytes())) {
        Some(ranks) => Some(Count::Passed {
            ranks,
            rest: without_first(&words, &line),
        }),
        None => line
            .get(1)
            .and_then(|word| number(word.to_bytes()))
            .map(Count::Unpassed),
    }
}

/// The client's arguments; empty if one of them is null.
///
/// # Safety
/// As for [`count`].
unsafe fn words(argc: *const c_int, argv: *const *mut *mut c_char) -> Vec<CString> {
    if argc.is_null() || argv.is_null() {
        return Vec::new();
    }
    // SAFETY: not null, so valid by contract.
    let (count, words) = unsafe { (*argc, *argv) };
    let count = usize::try_from(count).unwrap_or(0);
    if words.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: `count` arguments by contract.
    let words = unsafe { std::slice::from_raw_parts(words, count) };
    if words.iter().any(|word| word.is_null()) {
        return Vec::new();
    }
    words
        .iter()
        // SAFETY: not null; C strings by contract.
        .map(|word| unsafe { CStr::from_ptr(*word) }.to_owned())
        .collect()
}

/// The arguments to start the program again with. Keeps an interpreter or a loader that precedes
/// the client's arguments in the command line.
fn without_first(words: &[CString], line: &[CString]) -> Vec<CString> {
    let before = match line.len().checked_sub(words.len()) {
        Some(before) if line[before + 1..] == words[1..] => &line[..before],
        _ => &[],
    };
    before.iter().chain(&words[..1]).chain(&words[2..]).cloned().collect()
}

/// The number that an argument begins with: 0, an invalid number of ranks, for a negative one;
/// [`u32::MAX`] for a greater one.
fn number(word: &[u8]) -> Option<u32> {
    let word = word.trim_ascii_start();
    let digits = |word: &[u8]| word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match word.split_first() {
        Some((b'-', rest)) if digits(rest) > 0 => Some(0),
        Some((b'+', rest)) => value(&rest[..digits(rest)]),
        _ => value(&word[..digits(word)]),
    }
}

fn value(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(words: &[&CStr]) -> Option<(u32, Vec<String>)> {
        let mut pointers: Vec<*mut c_char> = words.iter().map(|w| w.as_ptr().cast_mut()).collect();
        pointers.push(std::ptr::null_mut());
        let (argc, argv) = (words.len() as c_int, pointers.as_mut_ptr());
        // SAFETY: arguments as `main` gets them.
        match unsafe { count(&raw const argc, &raw const argv) }? {
            Count::Passed { ranks, rest } => {
                Some((ranks, rest.iter().map(|w| w.to_string_lossy().into_owned()).collect()))
            }
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
        for other in [c"", c"x", c"-n", c"+", c"-", c" "] {
            assert_eq!(with(&[c"a.out", other]), None, "{other:?}");
        }
        for other in [c"+4", c" 4", c"4x", c"4.5"] {
            assert_eq!(with(&[c"a.out", other]).unwrap().0, 4, "{other:?}");
        }
        assert_eq!(with(&[c"a.out", c"-4"]).unwrap().0, 0);
        assert_eq!(with(&[c"a.out", c"0"]).unwrap().0, 0);
        assert_eq!(with(&[c"a.out", c"99999999999"]).unwrap().0, u32::MAX);
    }

    #[test]
    fn what_stands_before_the_program_stays() {
        let owned = |words: &[&CStr]| words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>();
        let words = owned(&[c"x.py", c"2", c"a"]);
        for (line, expected) in [
            (
                owned(&[c"python3", c"x.py", c"2", c"a"]),
                owned(&[c"python3", c"x.py", c"a"]),
            ),
            (owned(&[c"./y", c"2", c"a"]), owned(&[c"x.py", c"a"])),
            (owned(&[c"./y", c"2", c"b"]), owned(&[c"x.py", c"a"])),
            (owned(&[]), owned(&[c"x.py", c"a"])),
        ] {
            assert_eq!(without_first(&words, &line), expected);
        }
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
