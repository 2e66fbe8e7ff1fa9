//! How much memory a process registers. The limits of the user and of the operating system decide,
//! and a registration that fails all the same says what to raise. On demand, a probe at start finds
//! out what can be registered ([`mod@gasnet_conduit::probe`]).
#![forbid(unsafe_code)]

use crate::settings;
use gasnet_conduit::amounts::{part, Limit};
use gasnet_sys::{host_memory, process};

/// Part of the physical memory of a host that its processes register together, by default.
const PART: f64 = 2.0 / 3.0;

/// Bytes of the largest page of processors that run verbs.
const PAGE: usize = 64 << 10;

/// An upper limit of registrations (`GASNET_PINNED_REGIONS_MAX`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Regions {
    /// So many.
    Count(u64),
    /// Part of what an HCA has, below 1.
    Part(f64),
}

impl Regions {
    /// Reads "1/2", "0.25" or "1000".
    pub fn parse(text: &str) -> Option<Self> {
        match part(text) {
            Some(part) => Some(Self::Part(part)),
            None => text.trim().parse().ok().map(Self::Count),
        }
    }

    /// The share of one of so many processes, of an HCA that has `most`.
    #[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)] // not negative, and a limit may be off by one
    pub fn share(self, most: i32, processes: usize) -> usize {
        let all = match self {
            Self::Count(count) => count,
            Self::Part(part) => (f64::from(most.max(0)) * part) as u64,
        };
        all as usize / processes.max(1)
    }
}

/// The bytes of segments that this process may register, one of so many on this host, beside its
/// own `buffers`: whole pages, and half of its share at least, since buffers are registered as they
/// are needed. `probed`: what can be registered beside the buffers that there are.
pub fn max_bytes(processes: usize, buffers: usize, probed: Option<u64>) -> usize {
    let lockable = lockable().filter(|lockable| *lockable > 2 * buffers as u64);
    let most = lockable.unwrap_or(u64::MAX).min(probed.unwrap_or(u64::MAX));
    let share = share(processes).min(most) as usize;
    let bytes = share.saturating_sub(buffers).max(share / 2);
    bytes - bytes % PAGE
}

/// What this process may register by `GASNET_PHYSMEM_MAX`.
pub fn share(processes: usize) -> u64 {
    let limit = settings::physmem_max().unwrap_or(Limit::Part(PART));
    limit.bytes(host_memory::query().physical) / processes.max(1) as u64
}

/// Raises the limit on locked memory, unless that is not wanted.
pub fn raise_limit() {
    if settings::raises_limits() {
        // If it cannot be raised, it counts.
        let _ = process::raise_limit(libc::RLIMIT_MEMLOCK as i32, u64::MAX);
    }
}

/// The pinned pages of a process count against this limit, except root's. One that hardly holds
/// the buffers is nobody's choice for segments: where it is enforced, the first registration fails.
fn lockable() -> Option<u64> {
    let limit = process::raise_limit(libc::RLIMIT_MEMLOCK as i32, 0).ok()?;
    (process::user() != 0).then_some(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_share() {
        let alone = max_bytes(1, 0, None);
        let shared = max_bytes(4, 0, None);
        assert!(alone > 0 && (alone / 4).abs_diff(shared) <= PAGE);
        assert_eq!(max_bytes(1, PAGE, None), alone - PAGE);
        assert_eq!(max_bytes(4, usize::MAX, None), shared / 2 / PAGE * PAGE);
        assert_eq!(shared % PAGE, 0);
        let probed = 3 * PAGE as u64 + 1;
        assert_eq!(max_bytes(1, PAGE, Some(probed)), 2 * PAGE);
    }

    #[test]
    fn regions() {
        let share = |text: &str| Regions::parse(text).map(|regions| regions.share(1000, 2));
        assert_eq!(share("1/2"), Some(250));
        assert_eq!(share("0.25"), Some(125));
        assert_eq!(share("64"), Some(32));
        assert_eq!(share("0"), Some(0));
        for bad in ["", "3/2", "1/0", "abc", "-1", "1.5"] {
            assert_eq!(share(bad), None, "{bad}");
        }
    }
}
