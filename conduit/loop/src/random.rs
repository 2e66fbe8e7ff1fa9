//! The environment variables, and the NIC's choices: xorshift64*, from `GASNET_LOOP_SEED` and the
//! rank.
#![forbid(unsafe_code)]

use crate::bootstrap::BOOTSTRAP;
use crate::pinned::PINNED_MAX;
use gasnet_conduit::config::{self, count, FromValue, Key, Variable};
use gasnet_conduit::JobRank;

const SEED: Key<u32> = count(
    "GASNET_LOOP_SEED",
    "1",
    0,
    u32::MAX,
    "Seed of the order and the delays that the conduit chooses at random.",
)
.ours();

const SECTION: &str = "Network: loop";

/// The environment variables of the conduit.
pub static TABLE: &[Variable] = &[
    SEED.variable.section(SECTION),
    PINNED_MAX.variable.section(SECTION),
    BOOTSTRAP.variable.section(SECTION),
];

/// The value of a variable of this conduit. None without a client, as in tests of this crate.
pub fn setting<T: FromValue>(key: &Key<T>) -> Option<T> {
    let mut settings = config::get().settings().iter();
    let set = settings.find(|setting| setting.variable.name == key.variable.name)?;
    T::from_value(&set.value)
}

/// A random sequence.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a rank.
    pub fn of(rank: JobRank) -> Self {
        let seed = setting(&SEED).unwrap_or(1);
        Self((u64::from(seed) << 32 | u64::from(rank.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    /// Removes an element, any one.
    pub fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        (!from.is_empty()).then(|| from.swap_remove(self.below(from.len())))
    }
}
