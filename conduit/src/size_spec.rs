//! Amounts as users write them for several conduits: parts, sizes, and limits that are either.
#![forbid(unsafe_code)]

use crate::config::{Value, ValueType};

/// An upper limit of the memory of a host that is registered (`GASNET_PHYSMEM_MAX`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Bytes.
    Bytes(u64),
    /// Part of the physical memory, below 1.
    Part(f64),
}

impl Limit {
    /// Reads "2/3", "0.5" or "100G"; megabytes without a unit.
    pub fn parse(text: &str) -> Option<Self> {
        match part(text) {
            Some(part) => Some(Self::Part(part)),
            None => size_in(text, "M").filter(|bytes| *bytes > 0).map(Self::Bytes),
        }
    }

    /// The bytes, of a physical memory.
    #[allow(clippy::cast_precision_loss)] // a limit may be off by some bytes
    pub fn bytes(self, physical: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Part(part) => (physical as f64 * part) as u64,
        }
    }
}

/// Reads a number between 0 and 1, maybe a fraction.
pub fn part(text: &str) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let part = match text.split_once('/') {
        Some((over, under)) => number(over)? / number(under)?,
        None => number(text)?,
    };
    (part > 0.0 && part < 1.0).then_some(part)
}

/// The bytes of a size, which may leave out this unit.
pub fn size_in(text: &str, unit: &str) -> Option<u64> {
    let text = text.trim();
    let unit = if text.ends_with(|last: char| last.is_ascii_digit()) {
        unit
    } else {
        ""
    };
    let kind = ValueType::Size { min: 0, max: 1 << 60 };
    match kind.parse(&format!("{text}{unit}")) {
        Ok(Value::Size(bytes)) => Some(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(Limit::parse("5/8"), Some(Limit::Part(0.625)));
        assert_eq!(Limit::parse(" 0.5 "), Some(Limit::Part(0.5)));
        assert_eq!(Limit::parse("100"), Some(Limit::Bytes(100 << 20)));
        assert_eq!(Limit::parse("1.5G"), Some(Limit::Bytes(3 << 29)));
        // A whole is no part, so this is a size.
        assert_eq!(Limit::parse("1"), Some(Limit::Bytes(1 << 20)));
        for bad in ["", "0", "3/2", "1/0", "abc", "-1", "0/3"] {
            assert_eq!(Limit::parse(bad), None, "{bad}");
        }
        assert_eq!(Limit::Part(0.5).bytes(1 << 30), 1 << 29);
    }
}
