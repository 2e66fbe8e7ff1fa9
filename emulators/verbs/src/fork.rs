//! Registered memory and `fork`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gasnet_ibv_abi as abi;

use crate::config::Config;
use crate::process::current;

/// Page size of `madvise(MADV_DONTFORK)` since `ibv_fork_init`, with `huge-pages`; 0: not called.
static FORK_PAGE: AtomicU64 = AtomicU64::new(0);

/// Nothing is pinned for the device, so a fork is harmless. With `huge-pages` it is as on kernels
/// before copy-on-fork.
#[no_mangle]
extern "C" fn ibv_fork_init() -> c_int {
    let knows_huge_pages = std::env::var_os("RDMAV_HUGEPAGES_SAFE").is_some();
    let _ = FORK_PAGE.compare_exchange(0, if knows_huge_pages { HUGE } else { 4096 }, Relaxed, Relaxed);
    0
}

const HUGE: u64 = 2 << 20;

/// Whether `ibv_reg_mr` can keep a region out of children: `madvise` takes whole pages only.
pub fn can_keep_from_children(config: &Config, addr: u64, length: u64) -> bool {
    let page = FORK_PAGE.load(Relaxed);
    let is_whole = addr / 4096 * 4096 % HUGE == 0 && (addr + length).next_multiple_of(4096) % HUGE == 0;
    !config.of_ports.huge_pages || page == 0 || page == HUGE || is_whole
}

#[no_mangle]
extern "C" fn ibv_is_fork_initialized() -> u32 {
    if !current().is_ok_and(|process| process.config.of_ports.huge_pages) {
        return abi::IBV_FORK_UNNEEDED;
    }
    match FORK_PAGE.load(Relaxed) {
        0 => abi::IBV_FORK_DISABLED,
        _ => abi::IBV_FORK_ENABLED,
    }
}
