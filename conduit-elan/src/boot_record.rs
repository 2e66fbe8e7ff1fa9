//! The exchange at the start.
#![forbid(unsafe_code)]

/// Record of a process in the exchange at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootRecord {
    pub vp: u32,
    /// The same in all processes.
    pub credits: u32,
    pub putget: u32,
    /// Whether it cannot start.
    pub has_failed: u32,
    pub has_barrier: u32,
    /// The name of the barrier, hashed. The same in all processes.
    pub barrier: u32,
}

impl BootRecord {
    pub const BYTES: usize = 24;

    pub fn bytes(self) -> [u8; Self::BYTES] {
        let words = [
            self.vp,
            self.credits,
            self.putget,
            self.has_failed,
            self.has_barrier,
            self.barrier,
        ];
        let mut bytes = [0; Self::BYTES];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word = |index: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[4 * index + byte]));
        Self {
            vp: word(0),
            credits: word(1),
            putget: word(2),
            has_failed: word(3),
            has_barrier: word(4),
            barrier: word(5),
        }
    }
}
