//! Registered memory and `fork`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Once;

use gasnet_ibv_abi as abi;

use crate::config::{Call, Config};
use crate::process::{current, Process};

/// Page size of `madvise(MADV_DONTFORK)` since `ibv_fork_init`, with `huge-pages`; 0: not called.
static FORK_PAGE: AtomicU64 = AtomicU64::new(0);

/// Nothing is pinned for the device, so a fork is harmless. With `huge-pages` it is as on kernels
/// before copy-on-fork.
#[no_mangle]
extern "C" fn ibv_fork_init() -> c_int {
    if let Err(errno) = current().map_or(Ok(()), |process| process.count(Call::ForkInit)) {
        return errno;
    }
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

/// Forks between the process that has loaded the library and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// The forks so far, which are counted from now on.
pub fn forks() -> u32 {
    static ONCE: Once = Once::new();
    // SAFETY: the function only counts, and the library stays loaded.
    ONCE.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) });
    FORKS.load(Relaxed)
}

/// Whether this process is a fork of the one that has this state. It has no access to the objects
/// of its parent (rdma-core@691953d8d: libibverbs/man/ibv_fork_init.3.md).
pub fn is_child_of(process: &Process) -> bool {
    process.forks != FORKS.load(Relaxed)
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
