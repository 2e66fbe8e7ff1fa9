//! How much memory a process registers. There is no probe: the limits of the user and of the
//! operating system decide, and a registration that fails all the same says what to raise.
#![forbid(unsafe_code)]

use crate::variables;
use gasnet_conduit::config::{Value, ValueType};
use gasnet_sys::{host_memory, process};

/// Part of the physical memory of a host that its processes register together, by default.
const PART: f64 = 2.0 / 3.0;

/// Bytes of the largest page of processors that run verbs.
const PAGE: usize = 64 << 10;

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
        let text = text.trim();
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let part = match text.split_once('/') {
            Some((over, under)) => Some(number(over)? / number(under)?),
            None => number(text),
        };
        match part {
            Some(part) if part > 0.0 && part < 1.0 => return Some(Self::Part(part)),
            Some(_) if text.contains('/') => return None,
            _ => {}
        }
        let unit = if text.ends_with(|last: char| last.is_ascii_digit()) {
            "M"
        } else {
            ""
        };
        let kind = ValueType::Size { min: 1, max: 1 << 60 };
        match kind.parse(&format!("{text}{unit}")) {
            Ok(Value::Size(bytes)) => Some(Self::Bytes(bytes)),
            _ => None,
        }
    }

    #[allow(clippy::cast_precision_loss)] // a limit may be off by some bytes
    fn bytes(self, physical: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Part(part) => (physical as f64 * part) as u64,
        }
    }
}

/// The bytes of segments that this process may register, one of so many on this host, beside its
/// own `buffers`: whole pages, and half of its share at least, since buffers are registered as they
/// are needed.
pub fn max_bytes(processes: usize, buffers: usize) -> usize {
    let limit = variables::physmem_max().unwrap_or(Limit::Part(PART));
    let share = limit.bytes(host_memory::query().physical) / processes.max(1) as u64;
    let lockable = lockable().filter(|lockable| *lockable > 2 * buffers as u64);
    let share = share.min(lockable.unwrap_or(u64::MAX)) as usize;
    let bytes = share.saturating_sub(buffers).max(share / 2);
    bytes - bytes % PAGE
}

/// The pinned pages of a process count against this limit, except root's. One that hardly holds
/// the buffers is nobody's choice for segments: where it is enforced, the first registration fails.
fn lockable() -> Option<u64> {
    let limit = process::raise_limit(libc::RLIMIT_MEMLOCK as i32, u64::MAX).ok()?;
    (process::user() != 0).then_some(limit.rlim_max)
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
        for bad in ["", "0", "3/2", "1/0", "abc", "-1", "0/3"] {
            assert_eq!(Limit::parse(bad), None, "{bad}");
        }
        assert_eq!(Limit::Part(0.5).bytes(1 << 30), 1 << 29);
    }

    #[test]
    fn processes_share() {
        let alone = max_bytes(1, 0);
        let shared = max_bytes(4, 0);
        assert!(alone > 0 && (alone / 4).abs_diff(shared) <= PAGE);
        assert_eq!(max_bytes(1, PAGE), alone - PAGE);
        assert_eq!(max_bytes(4, usize::MAX), shared / 2 / PAGE * PAGE);
        assert_eq!(shared % PAGE, 0);
    }
}
