//! Bytes of queues, as mlx5 lays them out (rdma-core@65: providers/mlx5/verbs.c), and the limit on
//! locked memory, which counts them as it does regions.

use std::sync::atomic::Ordering::Relaxed;

use gasnet_ibv_abi as abi;

use crate::process::Process;

/// Unit of send queues.
pub const UNIT: u64 = 64;
/// Most bytes of a work request.
const LONGEST: u64 = 1024;
const PAGE: u64 = 4096;

/// Bytes of a work request before its data. `ibv_create_qp` leaves room for every operation, of
/// which the binding of memory windows takes most.
fn overhead(kind: u32) -> u64 {
    match kind {
        abi::IBV_QPT_UD => 64,
        abi::IBV_QPT_XRC_SEND => 208,
        _ => 192,
    }
}

/// Bytes of a work request of a send queue; None: it would be too long.
fn work_request(kind: u32, cap: &abi::ibv_qp_cap) -> Option<u64> {
    let inline = match u64::from(cap.max_inline_data) {
        0 => 0,
        bytes => (4 + bytes).next_multiple_of(16),
    };
    let bytes = overhead(kind) + inline.max(16 * u64::from(cap.max_send_sge));
    (bytes <= LONGEST).then_some(bytes.next_multiple_of(UNIT))
}

/// Bytes of a send queue; None: a work request would be too long.
pub fn send_queue(kind: u32, cap: &abi::ibv_qp_cap) -> Option<u64> {
    if cap.max_send_wr == 0 {
        return Some(0);
    }
    let bytes = work_request(kind, cap)? * u64::from(cap.max_send_wr);
    Some(bytes.next_power_of_two())
}

/// Bytes of inline data that work requests have room for.
pub fn inline(kind: u32, cap: &abi::ibv_qp_cap) -> u32 {
    work_request(kind, cap).map_or(0, |bytes| (bytes - overhead(kind) - 4) as u32)
}

/// Bytes of a queue of receives.
pub fn receives(count: u32, sges: u32, head: u64) -> u64 {
    let each = (head + 16 * u64::from(sges.max(1))).next_power_of_two();
    if count == 0 {
        0
    } else {
        u64::from(count.next_power_of_two()) * each
    }
}

/// Bytes of a CQ.
pub fn completions(count: u32) -> u64 {
    u64::from((count + 1).next_power_of_two()) * 64
}

/// Locked memory, which counts against the limit of the process until this is dropped.
pub struct Locked {
    process: &'static Process,
    bytes: u64,
}

impl Locked {
    /// Locks the memory of a queue. Err: errno.
    pub fn new(process: &'static Process, bytes: u64) -> Result<Locked, i32> {
        let bytes = bytes.next_multiple_of(PAGE);
        lock(process, bytes).map(|()| Locked { process, bytes })
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.process.pinned.fetch_sub(self.bytes, Relaxed);
    }
}

/// Counts locked memory, up to the limit. Err: errno, which is another one where nothing may be
/// locked (torvalds/linux@0446cad: drivers/infiniband/core/umem.c, `can_do_mlock`).
pub fn lock(process: &Process, bytes: u64) -> Result<(), i32> {
    let limit = limit(process);
    if limit == 0 && bytes != 0 {
        return Err(libc::EPERM);
    }
    let lock = |locked: u64| locked.checked_add(bytes).filter(|&sum| sum <= limit);
    let locked = process.pinned.fetch_update(Relaxed, Relaxed, lock);
    locked.map(drop).map_err(|_| libc::ENOMEM)
}

/// Option `memlock`: as the kernel has it, also for root without the capability.
fn limit(process: &Process) -> u64 {
    const CAP_IPC_LOCK: u32 = 14;
    let config = &process.config;
    if !config.memlock {
        return config.pin_limit;
    }
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    if effective.unwrap_or(0) >> CAP_IPC_LOCK & 1 != 0 {
        return config.pin_limit;
    }
    // SAFETY: the call writes the struct.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit);
        limit.rlim_cur
    };
    limit.min(config.pin_limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_mlx5() {
        let cap = |max_send_wr, max_inline_data| abi::ibv_qp_cap {
            max_send_wr,
            max_recv_wr: 0,
            max_send_sge: 2,
            max_recv_sge: 1,
            max_inline_data,
        };
        let rc = abi::IBV_QPT_RC;
        // 12 bytes more take 64 of each work request, and twice the queue.
        assert_eq!(send_queue(rc, &cap(64, 60)), Some(16 << 10));
        assert_eq!(send_queue(rc, &cap(64, 72)), Some(32 << 10));
        assert_eq!([60, 72].map(|bytes| inline(rc, &cap(64, bytes))), [60, 124]);
        assert_eq!(send_queue(rc, &cap(1, 1024)), None);
    }
}
