//! The grammar of `GASNET_MAX_SEGSIZE`: `<size>` or `<fraction of the memory>`, then `/P` or `/H`.
#![forbid(unsafe_code)]

use gasnet_tools::parse::{self, ParseError};
use std::fmt;
use std::str::FromStr;

/// An upper limit of segment memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentLimit {
    /// How much.
    pub amount: Amount,
    /// Per process or per host.
    pub per: Per,
}

/// How much memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Bytes, at least 1.
    Bytes(u64),
    /// Fraction of the host's memory, above 0 and at most 1.
    Fraction(f64),
}

/// The scope of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Each process; the library's own memory is not counted.
    Process,
    /// All processes of a host together; the library's own shared memory is counted.
    Host,
}

impl SegmentLimit {
    /// The limit in bytes on a host with `memory_bytes`, per process or per host (see
    /// [`SegmentLimit::per`]).
    #[allow(clippy::cast_precision_loss)] // a limit may be off by some bytes
    pub fn bytes(&self, memory_bytes: u64) -> u64 {
        match self.amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Fraction(part) => (memory_bytes as f64 * part) as u64,
        }
    }
}

impl FromStr for SegmentLimit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (amount, per) = match text.split_once('/') {
            None => (text, Per::Process),
            Some((amount, per)) => match per.trim() {
                "" | "P" | "p" => (amount, Per::Process),
                "H" | "h" => (amount, Per::Host),
                _ => return Err(ParseError::Malformed),
            },
        };
        Ok(Self {
            amount: amount_of(amount.trim())?,
            per,
        })
    }
}

/// A number with a decimal point and without a unit is a fraction of the memory; everything else is
/// a size.
fn amount_of(text: &str) -> Result<Amount, ParseError> {
    if text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        let part = parse::double(text)?;
        return if part > 0.0 && part <= 1.0 {
            Ok(Amount::Fraction(part))
        } else {
            Err(ParseError::OutOfRange)
        };
    }
    match parse::size(text, 1)? {
        0 => Err(ParseError::OutOfRange),
        bytes => Ok(Amount::Bytes(bytes)),
    }
}

impl fmt::Display for SegmentLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.amount {
            Amount::Bytes(bytes) => f.write_str(&parse::display_size(bytes))?,
            Amount::Fraction(part) => write!(f, "{part:?}")?,
        }
        f.write_str(if self.per == Per::Host { "/H" } else { "/P" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        let read = |t: &str| t.parse::<SegmentLimit>().unwrap();
        assert_eq!(
            read("0.85/H"),
            SegmentLimit {
                amount: Amount::Fraction(0.85),
                per: Per::Host
            }
        );
        assert_eq!(
            read("4GB/P"),
            SegmentLimit {
                amount: Amount::Bytes(4 << 30),
                per: Per::Process
            }
        );
        assert_eq!(read("128.0MB/P").amount, Amount::Bytes(128 << 20));
        assert_eq!(read("4096").amount, Amount::Bytes(4096));
        assert_eq!(read("0.5").per, Per::Process);
        assert_eq!(read("1.0/h").amount, Amount::Fraction(1.0));
        for bad in ["", "0", "0.0", "1.5", "/H", "4GB/X", "4GB/P/H", "abc", "12Q", "-1"] {
            assert!(bad.parse::<SegmentLimit>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_of_a_host() {
        let read = |t: &str| t.parse::<SegmentLimit>().unwrap();
        assert_eq!(read("0.5/H").bytes(1 << 30), 1 << 29);
        assert_eq!(read("4GB/P").bytes(1 << 30), 4 << 30);
    }

    #[test]
    fn prints_and_reads_back() {
        for text in ["0.85/H", "4 GB/P", "1.0/P"] {
            assert_eq!(text.parse::<SegmentLimit>().unwrap().to_string(), text);
        }
    }
}
