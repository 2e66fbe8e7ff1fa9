//! Limit of the memory that the NIC pins, for all processes of the host together:
//! `GASNET_LOOP_PINNED_MAX`.

use crate::random::setting;
use gasnet_conduit::config::{size, Key};
use gasnet_conduit::{ConduitError, StartInfo};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// 0: no limit.
pub const PINNED_MAX: Key<u64> = size(
    "GASNET_LOOP_PINNED_MAX",
    "0",
    0,
    1 << 60,
    "Most memory that the processes of a host can register together; 0: no limit.",
)
.unit("bytes")
.ours();

/// The account of this host.
#[derive(Debug)]
pub struct Pinned {
    max: u64,
    /// Bytes that this process may take without asking others.
    share: u64,
    /// Taken by all processes of the host; none without a limit.
    taken: Option<&'static AtomicU64>,
}

impl Pinned {
    /// Opens the account: an exchange, if there is a limit.
    pub fn open(info: &StartInfo<'_>) -> Result<Self, ConduitError> {
        let max = setting(&PINNED_MAX).unwrap_or(0);
        let taken = if max == 0 {
            None
        } else {
            let memory = (info.host_memory)(size_of::<AtomicU64>())?;
            // SAFETY: as large, aligned to a page, zero at first, never unmapped, and accessed as
            // an atomic only.
            Some(unsafe { &*memory.cast::<AtomicU64>() })
        };
        let share = max / info.host.len() as u64;
        Ok(Self { max, share, taken })
    }

    /// Bytes that every process of the host can take.
    pub fn share(&self) -> usize {
        self.taken.map_or(usize::MAX, |_| self.share as usize)
    }

    /// Takes bytes, if enough are left.
    pub fn take(&self, bytes: usize) -> Result<(), ConduitError> {
        let Some(taken) = self.taken else { return Ok(()) };
        let (bytes, max) = (bytes as u64, self.max);
        let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= max);
        taken.fetch_update(Relaxed, Relaxed, more).map(|_| ()).map_err(|taken| {
            let message = format!(
                "cannot register {bytes} bytes: the processes of this host have registered {taken} of {max} \
                 (GASNET_LOOP_PINNED_MAX)"
            );
            ConduitError { message }
        })
    }

    /// Returns taken bytes.
    pub fn give_back(&self, bytes: usize) {
        if let Some(taken) = self.taken {
            taken.fetch_sub(bytes as u64, Relaxed);
        }
    }
}
