//! `gasnett_format_dt`, `_op`, `_ti`: masks of the interface as text, for messages. The reference's
//! test programs use them.

use std::ffi::c_char;

use crate::ad::codes;
use crate::flags::{TI_ENTRY, TI_EP, TI_IS_LONG, TI_IS_REQ, TI_SRCRANK};

/// The name of a bit, if it has one.
type Naming = fn(u32) -> Option<String>;

fn type_name(bit: u32) -> Option<String> {
    match bit {
        0x40 => Some("GEX_DT_USER".into()),
        _ => (codes::operations(bit) != 0).then(|| codes::type_name(bit).into()),
    }
}

fn operation_name(bit: u32) -> Option<String> {
    let name = match bit {
        0x4000_0000 => "USER",
        0x8000_0000 => "USER_NC",
        _ => codes::operation_name(bit),
    };
    (name != "unknown").then(|| format!("GEX_OP_{name}"))
}

fn token_info_name(bit: u32) -> Option<String> {
    let name = match bit {
        TI_SRCRANK => "SRCRANK",
        TI_EP => "EP",
        TI_ENTRY => "ENTRY",
        TI_IS_REQ => "IS_REQ",
        TI_IS_LONG => "IS_LONG",
        _ => return None,
    };
    Some(format!("GEX_TI_{name}"))
}

fn bits(mask: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(move |bit| mask & 1 << bit).filter(|&bit| bit != 0)
}

/// The names of the bits in `mask`, and the bits without a name as a number, joined by `|`; `0` for
/// none.
fn describe(mask: u32, name: Naming) -> String {
    let rest: u32 = bits(mask).filter(|&bit| name(bit).is_none()).sum();
    let mut parts: Vec<String> = bits(mask).filter_map(name).collect();
    if rest != 0 || parts.is_empty() {
        parts.push(if rest == 0 { "0".into() } else { format!("{rest:#x}") });
    }
    parts.join("|")
}

/// Writes `text` and a NUL unless `buffer` is null. Returns their length.
///
/// # Safety
/// `buffer` is null or has room for both.
pub unsafe fn deliver(buffer: *mut c_char, text: &str) -> usize {
    if !buffer.is_null() {
        // SAFETY: the caller's contract.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len()) };
        // SAFETY: the caller's contract.
        unsafe { buffer.add(text.len()).write(0) };
    }
    text.len() + 1
}

macro_rules! formats {
    ($($name:ident $names:ident;)*) => {$(
        /// Writes the names in `mask` to `buf` unless it is null. Returns the length with the NUL.
        ///
        /// # Safety
        /// `buf` is null or has the room that a call with null returned.
        #[no_mangle]
        pub unsafe extern "C" fn $name(buf: *mut c_char, mask: u32) -> usize {
            // SAFETY: the caller's contract.
            unsafe { deliver(buf, &describe(mask, $names)) }
        }
    )*};
}

formats! {
    gasnett_format_dt type_name;
    gasnett_format_op operation_name;
    gasnett_format_ti token_info_name;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_headers() {
        let header = concat!(
            include_str!("../../../include/gasnet_fwd.h"),
            include_str!("../../../include/gasnetex.h")
        );
        let all: [(Naming, &str); 3] = [
            (type_name, "GEX_DT_"),
            (operation_name, "GEX_OP_"),
            (token_info_name, "GEX_TI_"),
        ];
        for (naming, prefix) in all {
            let mut found = 0;
            for line in header.lines().filter(|l| l.starts_with(&format!("#define {prefix}"))) {
                let mut words = line.split_whitespace().skip(1);
                let (name, value) = (words.next().unwrap(), words.next().unwrap_or_default());
                let Some(digits) = value.strip_prefix("0x").and_then(|v| v.strip_suffix('U')) else {
                    continue;
                };
                let value = u32::from_str_radix(digits, 16).unwrap();
                if name == "GEX_TI_ALL" || name == "GEX_OP_CSWAP" {
                    continue;
                }
                assert_eq!(naming(value).as_deref(), Some(name), "{value:#x}");
                found += 1;
            }
            assert_eq!(found, bits(u32::MAX).filter_map(naming).count());
        }
    }

    #[test]
    fn masks_as_text() {
        assert_eq!(describe(0, type_name), "0");
        assert_eq!(describe(0x21, type_name), "GEX_DT_I32|GEX_DT_DBL");
        assert_eq!(describe(0x1000_0001, operation_name), "GEX_OP_AND|0x10000000");
        let mut buffer = [1; 32];
        // SAFETY: a null buffer, then one that is longer than the text.
        let lengths = unsafe { [deliver(std::ptr::null_mut(), "ab"), deliver(buffer.as_mut_ptr(), "ab")] };
        assert_eq!(
            (lengths, &buffer[..4]),
            ([3, 3], &[b'a' as c_char, b'b' as c_char, 0, 1][..])
        );
    }
}
