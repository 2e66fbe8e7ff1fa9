//! The network's own barrier.

use crate::{config, Busy};

/// The barrier that the user wants (`GASNET_BARRIER`).
pub fn wanted() -> String {
    config::get().get_or_default(&config::BARRIER).unwrap_or_default()
}

/// Its name, in any case, as a number that processes compare: FNV-1a.
pub fn choice(name: &str) -> u32 {
    let add = |hash: u32, byte: u8| (hash ^ u32::from(byte.to_ascii_uppercase())).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, add)
}

/// A barrier among the leaders of all neighbourhoods ([`crate::StartInfo`]), which ANDs two words.
/// Offered in [`crate::Abilities`], in all leaders or in none.
///
/// It works in rounds, one at a time: a leader enters the next round after the last one was
/// reported to it. All barriers of the runtime share these rounds. A leader enters one with a bit
/// for each barrier that its neighbourhood has reached, so it does not matter in which order the
/// leaders reach them: a barrier is complete when its bit survives. If none does, the leaders that
/// wait enter another round.
///
/// A network whose barrier carries no words (elan) broadcasts those of the first leader before it,
/// and only leaders with other words report theirs.
pub trait Barrier: Sync {
    /// Enters the next round. [`crate::Upcalls::barrier`] reports its end. May be called inside
    /// that upcall. Does not block.
    fn enter(&self, words: [u64; 2]) -> Result<(), Busy>;
}
