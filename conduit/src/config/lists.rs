//! Sets of ranks and sets of signals, in the syntax of the environment.
#![forbid(unsafe_code)]

use gasnet_sys::signal;
use gasnet_tools::parse::{self, ParseError};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A set of ranks: all (`*` or an empty text), or numbers and ranges (`0,2-4,6`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankSet {
    /// Every rank.
    All,
    /// The union of these.
    Some(Vec<RangeInclusive<u32>>),
}

impl RankSet {
    /// Whether `rank` is in the set.
    pub fn contains(&self, rank: u32) -> bool {
        match self {
            Self::All => true,
            Self::Some(ranges) => ranges.iter().any(|r| r.contains(&rank)),
        }
    }
}

impl FromStr for RankSet {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if matches!(text.trim(), "" | "*") {
            return Ok(Self::All);
        }
        text.split(',').map(one_range).collect::<Result<_, _>>().map(Self::Some)
    }
}

fn one_range(text: &str) -> Result<RangeInclusive<u32>, ParseError> {
    let rank = |t: &str| parse::integer(t).and_then(|v| u32::try_from(v).map_err(|_| ParseError::OutOfRange));
    match text.split_once('-') {
        None => rank(text).map(|r| r..=r),
        Some((first, last)) => {
            let range = rank(first)?..=rank(last)?;
            if range.is_empty() {
                Err(ParseError::OutOfRange)
            } else {
                Ok(range)
            }
        }
    }
}

impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Some(ranges) = self else {
            return f.write_str("*");
        };
        for (i, range) in ranges.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match (range.start(), range.end()) {
                (a, b) if a == b => write!(f, "{comma}{a}")?,
                (a, b) => write!(f, "{comma}{a}-{b}")?,
            }
        }
        Ok(())
    }
}

/// A set of signals: all (`*`, alone), or names and numbers (`SIGSEGV,usr1,11`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalSet {
    /// Every signal.
    All,
    /// The signals in the list.
    Some(Vec<i32>),
}

impl SignalSet {
    /// Whether `signal` is in the set.
    pub fn contains(&self, signal: i32) -> bool {
        match self {
            Self::All => true,
            Self::Some(list) => list.contains(&signal),
        }
    }
}

impl FromStr for SignalSet {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.trim() {
            "*" => Ok(Self::All),
            "" => Ok(Self::Some(Vec::new())),
            list => list
                .split(',')
                .map(parse::signal)
                .collect::<Result<_, _>>()
                .map(Self::Some),
        }
    }
}

impl fmt::Display for SignalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Some(list) = self else {
            return f.write_str("*");
        };
        let names: Vec<_> = list
            .iter()
            .map(|&n| signal::name(n).map_or_else(|| n.to_string(), str::to_owned))
            .collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        let set: RankSet = "0,2-4, 6".parse().unwrap();
        let members: Vec<u32> = (0..9).filter(|&r| set.contains(r)).collect();
        assert_eq!(members, [0, 2, 3, 4, 6]);
        assert_eq!(set.to_string(), "0,2-4,6");
        assert!("*".parse::<RankSet>().unwrap().contains(u32::MAX));
        assert!("".parse::<RankSet>().unwrap().contains(0));
        for bad in ["a", "1,", "4-2", "-1", "1-", "1-2-3", "4294967296"] {
            assert!(bad.parse::<RankSet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn signals() {
        let set: SignalSet = "SIGSEGV, usr1,6".parse().unwrap();
        assert!(set.contains(libc::SIGSEGV) && set.contains(libc::SIGUSR1) && set.contains(libc::SIGABRT));
        assert!(!set.contains(libc::SIGINT));
        assert_eq!(set.to_string(), "SIGSEGV,SIGUSR1,SIGABRT");
        assert!("*".parse::<SignalSet>().unwrap().contains(libc::SIGINT));
        assert!("*,INT".parse::<SignalSet>().is_err());
    }
}
