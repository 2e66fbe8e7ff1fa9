//! `gasnett_format_dt`, `_op`, `_ti`: masks of the interface as text, for messages. The reference's
//! test programs use them.

use std::ffi::c_char;

use crate::flags::{TI_ENTRY, TI_EP, TI_IS_LONG, TI_IS_REQ, TI_SRCRANK};

const TYPES: &[(u32, &str)] = &[
    (0x1, "GEX_DT_I32"),
    (0x2, "GEX_DT_U32"),
    (0x4, "GEX_DT_I64"),
    (0x8, "GEX_DT_U64"),
    (0x10, "GEX_DT_FLT"),
    (0x20, "GEX_DT_DBL"),
    (0x40, "GEX_DT_USER"),
];

const OPERATIONS: &[(u32, &str)] = &[
    (0x1, "GEX_OP_AND"),
    (0x2, "GEX_OP_OR"),
    (0x4, "GEX_OP_XOR"),
    (0x8, "GEX_OP_ADD"),
    (0x10, "GEX_OP_SUB"),
    (0x20, "GEX_OP_MULT"),
    (0x40, "GEX_OP_MIN"),
    (0x80, "GEX_OP_MAX"),
    (0x100, "GEX_OP_INC"),
    (0x200, "GEX_OP_DEC"),
    (0x400, "GEX_OP_SET"),
    (0x800, "GEX_OP_CAS"),
    (0x8000, "GEX_OP_FAND"),
    (0x1_0000, "GEX_OP_FOR"),
    (0x2_0000, "GEX_OP_FXOR"),
    (0x4_0000, "GEX_OP_FADD"),
    (0x8_0000, "GEX_OP_FSUB"),
    (0x10_0000, "GEX_OP_FMULT"),
    (0x20_0000, "GEX_OP_FMIN"),
    (0x40_0000, "GEX_OP_FMAX"),
    (0x80_0000, "GEX_OP_FINC"),
    (0x100_0000, "GEX_OP_FDEC"),
    (0x200_0000, "GEX_OP_SWAP"),
    (0x400_0000, "GEX_OP_FCAS"),
    (0x800_0000, "GEX_OP_GET"),
    (0x4000_0000, "GEX_OP_USER"),
    (0x8000_0000, "GEX_OP_USER_NC"),
];

const TOKEN_INFO: &[(u32, &str)] = &[
    (TI_SRCRANK, "GEX_TI_SRCRANK"),
    (TI_EP, "GEX_TI_EP"),
    (TI_ENTRY, "GEX_TI_ENTRY"),
    (TI_IS_REQ, "GEX_TI_IS_REQ"),
    (TI_IS_LONG, "GEX_TI_IS_LONG"),
];

/// The names of the bits in `mask`, and the bits without a name as a number, joined by `|`; `0` for
/// none.
fn describe(mask: u32, names: &[(u32, &str)]) -> String {
    let named = names.iter().filter(|(bit, _)| mask & bit != 0);
    let rest = names.iter().fold(mask, |rest, (bit, _)| rest & !bit);
    let mut parts: Vec<String> = named.map(|(_, name)| (*name).to_string()).collect();
    if rest != 0 || parts.is_empty() {
        parts.push(if rest == 0 { "0".into() } else { format!("{rest:#x}") });
    }
    parts.join("|")
}

/// Writes `text` and a NUL unless `buffer` is null. Returns their length.
///
/// # Safety
/// `buffer` is null or has room for both.
unsafe fn deliver(buffer: *mut c_char, text: &str) -> usize {
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
    gasnett_format_dt TYPES;
    gasnett_format_op OPERATIONS;
    gasnett_format_ti TOKEN_INFO;
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
        for (names, prefix) in [(TYPES, "GEX_DT_"), (OPERATIONS, "GEX_OP_"), (TOKEN_INFO, "GEX_TI_")] {
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
                assert!(names.contains(&(value, name)), "{name} {value:#x}");
                found += 1;
            }
            assert_eq!(found, names.len());
        }
    }

    #[test]
    fn masks_as_text() {
        assert_eq!(describe(0, TYPES), "0");
        assert_eq!(describe(0x21, TYPES), "GEX_DT_I32|GEX_DT_DBL");
        assert_eq!(describe(0x1000_0001, OPERATIONS), "GEX_OP_AND|0x10000000");
        let mut buffer = [1; 32];
        // SAFETY: a null buffer, then one that is longer than the text.
        let lengths = unsafe { [deliver(std::ptr::null_mut(), "ab"), deliver(buffer.as_mut_ptr(), "ab")] };
        assert_eq!(
            (lengths, &buffer[..4]),
            ([3, 3], &[b'a' as c_char, b'b' as c_char, 0, 1][..])
        );
    }
}
