//! The segment configurations of GASNet-1 (specification 1.8, "Segments"), of which a library has
//! one, like its thread mode.
//!
//! FAST: segments are registered with the network. LARGE: they are if they can be, and may be as
//! large as memory; networks carry puts and gets of one that is not registered in messages.
//! EVERYTHING: nothing is attached, and all memory of every process is the segment of its
//! primordial endpoint.

use std::sync::atomic::{AtomicU32, Ordering};

/// One of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// `GASNET_SEGMENT_FAST`.
    Fast,
    /// `GASNET_SEGMENT_LARGE`.
    Large,
    /// `GASNET_SEGMENT_EVERYTHING`.
    Everything,
}

static CONFIGURATION: AtomicU32 = AtomicU32::new(0);

impl Configuration {
    /// From the marker's number.
    pub fn from_raw(raw: i32) -> Option<Self> {
        [Self::Fast, Self::Large, Self::Everything]
            .into_iter()
            .find(|&c| c as i32 == raw)
    }

    /// Remembers the configuration of this process.
    pub fn set(self) {
        CONFIGURATION.store(self as u32, Ordering::Relaxed);
    }

    /// The configuration of this process.
    #[inline]
    pub fn get() -> Self {
        match CONFIGURATION.load(Ordering::Relaxed) {
            0 => Self::Fast,
            1 => Self::Large,
            _ => Self::Everything,
        }
    }
}

/// Whether all memory of every process is its segment.
#[inline]
pub fn is_everything() -> bool {
    Configuration::get() == Configuration::Everything
}
