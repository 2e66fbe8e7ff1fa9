//! Numbers for the C interface: one function for integers and sizes, a lenient parser, and signed
//! sizes as text. The grammar is that of [`crate::parse`].

use crate::parse::{self, ParseError};

/// Parses an integer (`default_unit` 0), or a memory size in bytes, where a number without a unit
/// counts `default_unit` bytes.
pub fn parse_int(text: &str, default_unit: u64) -> Result<i64, ParseError> {
    match default_unit {
        0 => parse::integer(text),
        unit => parse::signed_size(text, unit),
    }
}

/// Most bytes of a number: a longer one does not fit.
const MAX_BYTES: usize = 64;

/// As [`parse_int`], but parses the longest number that `text` starts with (0 if none) and clamps
/// it to the range.
pub fn parse_int_prefix(text: &str, default_unit: u64) -> i64 {
    let text = text.trim_start();
    let ends = (1..=text.len().min(MAX_BYTES))
        .rev()
        .filter(|end| text.is_char_boundary(*end));
    for end in ends {
        match parse_int(&text[..end], default_unit) {
            Ok(value) => return value,
            Err(ParseError::OutOfRange) if text.starts_with('-') => return i64::MIN,
            Err(ParseError::OutOfRange) => return i64::MAX,
            Err(ParseError::Malformed) => {}
        }
    }
    0
}

/// An integer as text; a memory size in the largest unit that divides it. [`parse_int`] parses it
/// back exactly.
pub fn format_int(value: i64, is_memory_size: bool) -> String {
    if !is_memory_size {
        return value.to_string();
    }
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", parse::display_size(value.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenient_prefix() {
        assert_eq!(parse_int_prefix("5KB", 0), 5);
        assert_eq!(parse_int_prefix("5KX", 1), 5 << 10);
        assert_eq!(parse_int_prefix("1.5", 0), 1);
        assert_eq!(parse_int_prefix(" 0x10 ", 0), 16);
        assert_eq!(parse_int_prefix("junk", 0), 0);
        assert_eq!(parse_int_prefix("", 1), 0);
        assert_eq!(parse_int_prefix("9999999999GB", 1), i64::MAX);
        assert_eq!(parse_int_prefix("-9999999999GB", 1), i64::MIN);
        assert_eq!(parse_int_prefix(&"9".repeat(400), 0), i64::MAX);
        assert_eq!(parse_int_prefix("7µ", 0), 7);
    }

    #[test]
    fn formatted_numbers_parse_back() {
        for shift in 0..63 {
            for value in [
                1_i64 << shift,
                -(1_i64 << shift),
                (1_i64 << shift) - 1,
                3_i64.wrapping_mul(1 << shift),
            ] {
                assert_eq!(parse_int(&format_int(value, false), 0), Ok(value));
                if value != i64::MIN {
                    assert_eq!(parse_int(&format_int(value, true), 1), Ok(value));
                }
            }
        }
        assert_eq!(format_int(5 << 30, true), "5 GB");
        assert_eq!(format_int(-1536, true), "-1536 B");
        assert_eq!(format_int(0, true), "0 B");
    }
}
