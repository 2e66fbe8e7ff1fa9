//! Limits on the memory that a process registers: those of the user and of the operating system.
//! On demand, a probe at start finds out what can be registered
//! ([`mod@gasnet_conduit_util::probe`]).
#![forbid(unsafe_code)]

use gasnet_sys::process;
use std::fs;

/// Bytes of the largest page of processors that run verbs.
const PAGE: usize = 64 << 10;

/// Memory that this process locks beside segments, which counts for each HCA that it is registered
/// with.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Bytes that are locked already.
    pub at_start: usize,
    /// Bytes of buffers and queues, if all peers are connected and all buffers needed.
    pub most: usize,
    /// Number of HCAs.
    pub hcas: usize,
}

/// The bytes of segments that this process may register of its `share`, beside its receive
/// `buffers`: whole pages, and half of the share at least, since buffers are registered as they are
/// needed. `probed`: the bytes that can be registered beside the buffers that there are.
pub fn max_bytes(share: u64, buffers: usize, probed: Option<u64>, own: Own) -> usize {
    let share = share.min(probed.unwrap_or(u64::MAX)) as usize;
    let bytes = share.saturating_sub(buffers).max(share / 2);
    // One that hardly holds what is locked already is nobody's choice for segments: where it is
    // enforced, the next registration fails.
    let lockable = lockable().filter(|lockable| *lockable > 2 * own.at_start as u64);
    let bytes = bytes.min(lockable.map_or(usize::MAX, |limit| own.beside(limit)));
    bytes - bytes % PAGE
}

impl Own {
    /// The bytes of segments within a limit: half of it at least. Buffers that do not fit are done
    /// without.
    fn beside(&self, limit: u64) -> usize {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        limit.saturating_sub(self.most).max(limit / 2) / self.hcas.max(1)
    }
}

/// Bytes that are locked for the send queue of a pair, as mlx5 lays it out, which takes most
/// (rdma-core@65: providers/mlx5/verbs.c): 192 of each work request are room for operations that
/// nobody here uses.
pub fn send_queue_bytes(depth: usize, inline: usize) -> usize {
    const OPERATIONS: usize = 192;
    const PIECES: usize = 32;
    let data = (4 + inline).next_multiple_of(16).max(PIECES);
    ((OPERATIONS + data).next_multiple_of(64) * depth).next_power_of_two()
}

/// Bytes that are locked for a completion.
pub const COMPLETION: usize = 64;

/// Raises the limit on locked memory. If it cannot be raised, it counts.
pub fn raise_limit() {
    let _ = process::raise_limit(libc::RLIMIT_MEMLOCK as i32, u64::MAX);
}

/// The limit on locked memory, against which the kernel counts what is registered and the queues,
/// if there is any.
pub fn lockable() -> Option<u64> {
    let limit = process::raise_limit(libc::RLIMIT_MEMLOCK as i32, 0).ok()?.rlim_cur;
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let is_exempt = || is_exempt(&read("/proc/thread-self/status"), &read("/proc/self/uid_map"));
    (limit != libc::RLIM_INFINITY && !is_exempt()).then_some(limit)
}

/// Whether no limit counts, by these files of the process. Root has the capability, but often not
/// in a container; and that of a user namespace means nothing to the kernel here.
fn is_exempt(status: &str, uid_map: &str) -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    let is_initial = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    is_initial && effective.unwrap_or(0) >> CAP_IPC_LOCK & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::size_spec::Limit;
    use gasnet_conduit_util::probe::share;

    #[test]
    fn processes_share() {
        let max_bytes = |processes, buffers, probed| {
            let own = Own {
                at_start: usize::MAX / 2,
                most: 0,
                hcas: 1,
            };
            max_bytes(share(Limit::Part(0.5), processes), buffers, probed, own)
        };
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
    fn segments_within_a_limit() {
        let beside = |limit, most, hcas| {
            let own = Own {
                at_start: 0,
                most,
                hcas,
            };
            own.beside(limit)
        };
        assert_eq!(beside(1000, 100, 1), 900);
        assert_eq!(beside(1000, 800, 1), 500);
        // Each page counts twice.
        assert_eq!(beside(1000, 100, 2), 450);
    }

    #[test]
    fn who_is_exempt_from_the_limit() {
        let (all, docker) = ("Uid:\t0\nCapEff:\t000001ffffffffff\n", "CapEff:\t00000000a80425fb\n");
        let initial = "         0          0 4294967295\n";
        assert!(is_exempt(all, initial));
        assert!(!is_exempt(docker, initial));
        assert!(!is_exempt(all, "         0       1000          1\n"));
        assert!(!is_exempt("", initial));
    }

    #[test]
    fn send_queues_of_mlx5() {
        // 72 bytes of inline data instead of 60 double the queue.
        assert_eq!(
            [0, 60, 72, 124].map(|inline| send_queue_bytes(64, inline) >> 10),
            [16, 16, 32, 32]
        );
    }
}
