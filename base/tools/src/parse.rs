//! Parsers of environment values, for `gasnett_getenv_*` and for the table of variables of the
//! runtime. Pure functions: they read no environment, print nothing and never panic.
//!
//! They ignore white space around a value, and the case of letters.
#![forbid(unsafe_code)]

use gasnet_sys::float;
use std::fmt;

/// The reason why a text is not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The text does not have the form of such a value.
    Malformed,
    /// The text has the right form, but the value does not fit.
    OutOfRange,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not of the expected form",
            Self::OutOfRange => "out of range",
        })
    }
}

impl std::error::Error for ParseError {}

/// A boolean: `1`, `y`, `yes`, `true` or `on`; `0`, `n`, `no`, `false` or `off`.
pub fn boolean(text: &str) -> Result<bool, ParseError> {
    let text = text.trim();
    let is = |words: &[&str]| words.iter().any(|w| text.eq_ignore_ascii_case(w));
    if is(&["1", "y", "yes", "true", "on"]) {
        Ok(true)
    } else if is(&["0", "n", "no", "false", "off"]) {
        Ok(false)
    } else {
        Err(ParseError::Malformed)
    }
}

/// An integer in decimal, or in hexadecimal after `0x`, with an optional sign. A hexadecimal number
/// may use all 64 bits.
pub fn integer(text: &str) -> Result<i64, ParseError> {
    let (negative, digits) = sign(text.trim());
    let magnitude = if let Some(hex) = hex_digits(digits) {
        let bits = digits_of(hex, 16)?;
        if !negative && i64::try_from(bits).is_err() {
            return u64::try_from(bits)
                .map(|v| v as i64)
                .map_err(|_| ParseError::OutOfRange);
        }
        bits
    } else {
        digits_of(digits, 10)?
    };
    let magnitude = i128::try_from(magnitude).map_err(|_| ParseError::OutOfRange)?;
    i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| ParseError::OutOfRange)
}

/// A memory size in bytes: a decimal number, possibly with a fraction, and a unit (`B`, `K`, `KB`,
/// `KiB`, `M` … `P`), a power of 1024. A number without a unit counts `unit_bytes`; so does a
/// hexadecimal number after `0x`, which takes no unit. A fraction of a byte is dropped. At most
/// `i64::MAX`.
#[allow(clippy::cast_precision_loss)] // units are powers of two
pub fn size(text: &str, unit_bytes: u64) -> Result<u64, ParseError> {
    let text = text.trim();
    if let Some(hex) = hex_digits(text) {
        return scaled(digits_of(hex, 16)?, unit_bytes);
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit_bytes = match unit.trim() {
        "" => unit_bytes,
        unit => multiplier(unit).ok_or(ParseError::Malformed)?,
    };
    let Some((whole, fraction)) = number.split_once('.') else {
        return scaled(digits_of(number, 10)?, unit_bytes);
    };
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(ParseError::Malformed);
    }
    let whole = if whole.is_empty() {
        0
    } else {
        scaled(digits_of(whole, 10)?, unit_bytes)?
    };
    let part = float::quietly(|| {
        let part = format!("0.{fraction}").parse::<f64>();
        part.map(|part| (part * unit_bytes as f64) as u64)
    });
    let total = whole + part.map_err(|_| ParseError::Malformed)?;
    i64::try_from(total).map(|_| total).map_err(|_| ParseError::OutOfRange)
}

/// A finite number, or a fraction of two of them: `1.5`, `-1e4`, `0x1p3`, `3/8`.
pub fn double(text: &str) -> Result<f64, ParseError> {
    let value = float::quietly(|| match text.split_once('/') {
        None => number(text),
        Some((over, under)) => Ok(number(over)? / number(under)?),
    })?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(ParseError::OutOfRange)
    }
}

/// A signal: its name with or without `SIG`, or its number from 1 to 64.
pub fn signal(text: &str) -> Result<i32, ParseError> {
    let text = text.trim();
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return match integer(text)? {
            number @ 1..=64 => Ok(number as i32),
            _ => Err(ParseError::OutOfRange),
        };
    }
    gasnet_sys::signal::number(text).ok_or(ParseError::Malformed)
}

/// A size in the largest unit that divides it, as in `2 MB`.
pub fn display_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024 && value.trailing_zeros() >= 10 && unit + 1 < UNITS.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value} {}", UNITS[unit])
}

/// Like [`size`], with an optional sign.
pub fn signed_size(text: &str, unit_bytes: u64) -> Result<i64, ParseError> {
    let (negative, rest) = sign(text.trim());
    let bytes = size(rest, unit_bytes)? as i64;
    Ok(if negative { -bytes } else { bytes })
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn hex_digits(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

/// Parses digits only: no sign, no separators, not empty.
fn digits_of(text: &str, radix: u32) -> Result<u128, ParseError> {
    if text.is_empty() || !text.chars().all(|c| c.is_digit(radix)) {
        return Err(ParseError::Malformed);
    }
    u128::from_str_radix(text, radix).map_err(|_| ParseError::OutOfRange)
}

fn scaled(count: u128, unit_bytes: u64) -> Result<u64, ParseError> {
    let total = count
        .checked_mul(u128::from(unit_bytes))
        .ok_or(ParseError::OutOfRange)?;
    i64::try_from(total)
        .map(|v| v as u64)
        .map_err(|_| ParseError::OutOfRange)
}

fn multiplier(unit: &str) -> Option<u64> {
    let upper = unit.to_ascii_uppercase();
    if upper == "B" {
        return Some(1);
    }
    let letter = upper
        .strip_suffix("IB")
        .or_else(|| upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let power = ["K", "M", "G", "T", "P"].iter().position(|l| *l == letter)?;
    Some(1 << (10 * (power + 1)))
}

/// A finite number as `strtod` reads it, decimal or hexadecimal. `inf` and `nan` are no numbers
/// here.
fn number(text: &str) -> Result<f64, ParseError> {
    let text = text.trim();
    let (negative, magnitude) = sign(text);
    if let Some(digits) = hex_digits(magnitude) {
        let value = hexadecimal(digits)?;
        return Ok(if negative { -value } else { value });
    }
    if !text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) {
        return Err(ParseError::Malformed);
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(ParseError::OutOfRange),
        Err(_) => Err(ParseError::Malformed),
    }
}

/// A hexadecimal number without `0x`: digits with at most one point, and possibly a power of two in
/// decimal (`1.8p-3`).
#[allow(clippy::cast_precision_loss)] // rounded once, to even
fn hexadecimal(text: &str) -> Result<f64, ParseError> {
    /// Beyond the exponents of a double, however many digits there are.
    const MOST_POWER: u128 = 1 << 20;
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        None => (text, 0),
        Some((digits, power)) => {
            let (negative, power) = sign(power);
            let power = match digits_of(power, 10) {
                Ok(power) => power.min(MOST_POWER) as i32,
                Err(ParseError::OutOfRange) => MOST_POWER as i32,
                Err(why) => return Err(why),
            };
            (digits, if negative { -power } else { power })
        }
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(ParseError::Malformed);
    }
    let (mut mantissa, mut exponent) = (0_u128, exponent);
    for (at, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u128::from(digit.to_digit(16).ok_or(ParseError::Malformed)?);
        let is_whole = at < whole.len();
        if mantissa >> 120 == 0 {
            mantissa = mantissa * 16 + digit;
            exponent -= if is_whole { 0 } else { 4 };
        } else {
            // Far below the last bit of a double: only whether it is zero matters for rounding.
            mantissa |= u128::from(digit != 0);
            exponent += if is_whole { 4 } else { 0 };
        }
    }
    if mantissa == 0 {
        return Ok(0.0);
    }
    let half = (exponent / 2).clamp(-1200, 1200);
    let rest = (exponent - exponent / 2).clamp(-1200, 1200);
    let value = mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(rest);
    if value.is_finite() {
        Ok(value)
    } else {
        Err(ParseError::OutOfRange)
    }
}

#[cfg(test)]
mod tests {
    use super::ParseError::{Malformed, OutOfRange};
    use super::*;

    #[test]
    fn booleans() {
        for yes in ["1", "y", "Y", "yes", "YES", " Yes ", "true", "on"] {
            assert_eq!(boolean(yes), Ok(true), "{yes}");
        }
        for no in ["0", "n", "NO", "false", "Off"] {
            assert_eq!(boolean(no), Ok(false), "{no}");
        }
        for bad in ["", "2", "yess", "-1", "qq"] {
            assert_eq!(boolean(bad), Err(Malformed), "{bad}");
        }
        assert_eq!(Malformed.to_string(), "not of the expected form");
    }

    #[test]
    fn integers() {
        assert_eq!(integer("42"), Ok(42));
        assert_eq!(integer(" -17 "), Ok(-17));
        assert_eq!(integer("+0x1F"), Ok(31));
        assert_eq!(integer("0xFFFFFFFFFFFFFFFF"), Ok(-1));
        assert_eq!(integer("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(integer("9223372036854775808"), Err(OutOfRange));
        assert_eq!(integer("0x10000000000000000"), Err(OutOfRange));
        assert_eq!(integer("-0xFFFFFFFFFFFFFFFF"), Err(OutOfRange));
        for bad in ["", "-", "0x", "1.5", "12abc", "--3", "1 2", "4K"] {
            assert_eq!(integer(bad), Err(Malformed), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("4GB", 1), Ok(4 << 30));
        assert_eq!(size("4 gb", 1), Ok(4 << 30));
        assert_eq!(size("128.5MB", 1), Ok((128 << 20) + (1 << 19)));
        assert_eq!(size(".5K", 1), Ok(512));
        assert_eq!(size("16", 1024), Ok(16384));
        assert_eq!(size("16B", 1024), Ok(16));
        assert_eq!(size("0x1000", 1), Ok(4096));
        assert_eq!(size("2MiB", 1), Ok(2 << 20));
        assert_eq!(size("0", 1), Ok(0));
        assert_eq!(size("9223372036854775807", 1), Ok(i64::MAX as u64));
        assert_eq!(size("9223372036854775808", 1), Err(OutOfRange));
        assert_eq!(size("99999999999PB", 1), Err(OutOfRange));
        assert_eq!(signed_size("-5", 1024), Ok(-5120));
        for bad in ["", ".", "-1", "4XB", "GB", "1.2.3", "4GBB", "1e9", "IB"] {
            assert_eq!(size(bad, 1), Err(Malformed), "{bad}");
        }
    }

    #[test]
    fn doubles() {
        assert_eq!(double("1.5"), Ok(1.5));
        assert_eq!(double("-1e4"), Ok(-1e4));
        assert_eq!(double("3/8"), Ok(0.375));
        assert_eq!(double("0x1p3"), Ok(8.0));
        assert_eq!(double("-0X.8P+4"), Ok(-8.0));
        assert_eq!(double("0x1F"), Ok(31.0));
        assert_eq!(double("0x1.8p-1/0x3"), Ok(0.25));
        assert_eq!(double("0x1.fffffffffffffp1023"), Ok(f64::MAX));
        assert_eq!(double("0x1p-1074"), Ok(f64::from_bits(1)));
        assert_eq!(double("0x0p99999999999999999999"), Ok(0.0));
        let long = format!("0x1{}p-{}", "0".repeat(300), 300 * 4);
        assert_eq!(double(&long), Ok(1.0));
        assert_eq!(double(&format!("0x.{}1p4", "0".repeat(30))), Ok(2_f64.powi(4 - 31 * 4)));
        // Halfway between two doubles, and a bit above it far to the right.
        assert_eq!(double("0x1.00000000000008p0"), Ok(1.0));
        let zeros = "0".repeat(40);
        assert_eq!(double(&format!("0x1.00000000000008{zeros}p0")), Ok(1.0));
        for above in ["1", "11"] {
            let above = format!("0x1.00000000000008{zeros}{above}p0");
            assert_eq!(double(&above), Ok(1.0 + f64::EPSILON), "{above}");
        }
        assert_eq!(double("0x1p1024"), Err(OutOfRange));
        for bad in ["0x", "0x.", "0x1p", "0x1p1.5", "0x1.2.3", "0xg", "0x1e+3", "0x-1"] {
            assert_eq!(double(bad), Err(Malformed), "{bad}");
        }
        assert_eq!(double("1/0"), Err(OutOfRange));
        assert_eq!(double("1e999"), Err(OutOfRange));
        assert_eq!(double("1/1e999"), Err(OutOfRange));
        for bad in ["", "inf", "nan", "1/", "/2", "1/2/3", "x"] {
            assert_eq!(double(bad), Err(Malformed), "{bad}");
        }
    }

    #[test]
    fn signals() {
        for text in ["SIGSEGV", "SEGV", "sigsegv", "segv", "11"] {
            assert_eq!(signal(text), Ok(libc::SIGSEGV), "{text}");
        }
        assert_eq!(signal("65"), Err(OutOfRange));
        assert_eq!(signal("0"), Err(OutOfRange));
        assert_eq!(signal("SIGNOPE"), Err(Malformed));
        assert_eq!(signal(""), Err(Malformed));
    }

    #[test]
    fn sizes_print_and_read_back() {
        assert_eq!(display_size(2 << 20), "2 MB");
        assert_eq!(display_size(1500), "1500 B");
        for bytes in [0, 1, 1024, 4096, 65536, 10 << 30, (1 << 40) + 1] {
            assert_eq!(size(&display_size(bytes), 1), Ok(bytes));
        }
    }

    /// Random texts from the alphabet of the parsers, so that most of them get past the first
    /// character.
    #[test]
    fn random_texts_never_panic_and_stay_in_range() {
        const ALPHABET: &[u8] = b"0123456789.-+/eExXKMGTPBibygSIGHUPno, \t";
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..200_000 {
            let length = next() as usize % 24;
            let text: String = (0..length)
                .map(|_| ALPHABET[next() as usize % ALPHABET.len()] as char)
                .collect();
            let unit = 1 << (next() % 41);
            let _ = boolean(&text);
            let _ = integer(&text);
            if let Ok(bytes) = size(&text, unit) {
                assert!(i64::try_from(bytes).is_ok(), "{text}");
            }
            if let Ok(value) = double(&text) {
                assert!(value.is_finite(), "{text}");
            }
            if let Ok(number) = signal(&text) {
                assert!((1..=64).contains(&number), "{text}");
            }
        }
    }
}
