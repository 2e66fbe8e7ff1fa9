//! The pattern in prepared payload buffers of the debug flavour (README, `GASNET_SD_INIT`): a
//! Commit that still finds it was not preceded by a write of the payload.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use gasnet_tools::heap::Fill;

use super::prepared::Prepared;
use gasnet_conduit::config;

/// The pattern and its length; none when it is not wanted.
fn wanted() -> Option<(Fill, usize)> {
    static WANTED: OnceLock<Option<(Fill, usize)>> = OnceLock::new();
    *WANTED.get_or_init(|| {
        let config = config::get();
        let fill = Fill::parse(&config.get(&config::SD_INITVAL)).unwrap_or(Fill::NAN);
        let length = config.get(&config::SD_INITLEN).max(1) as usize;
        config.get(&config::SD_INIT).then_some((fill, length))
    })
}

/// Writes the pattern to the start of a new buffer of the library.
pub fn write(address: *mut u8, bytes: usize) {
    if let Some((fill, length)) = wanted() {
        // SAFETY: a payload buffer that was just taken, of at least `bytes` bytes, and nobody
        // else's.
        fill.write(unsafe { std::slice::from_raw_parts_mut(address.cast::<MaybeUninit<u8>>(), bytes.min(length)) });
    }
}

/// Whether the first `bytes` bytes of a buffer of the library, about to be sent, show that nobody
/// wrote them.
pub fn is_untouched(prepared: &Prepared, bytes: usize) -> bool {
    let Some((fill, length)) = wanted() else { return false };
    // SAFETY: the prepared buffer has at least `bytes` bytes, and its owner, this thread, has
    // written to it before the Commit, if at all.
    bytes >= length && fill.covers(unsafe { std::slice::from_raw_parts(prepared.address, length) })
}
