//! The memory that a process may register: its share of a limit, and a probe, which registers it
//! (`GASNET_PHYSMEM_PROBE`). All processes do that at the same time, so that the limits of their
//! host count.
#![forbid(unsafe_code)]

use gasnet_conduit::size_spec::Limit;
use gasnet_conduit::{print_line, JobRank, StartInfo};
use gasnet_sys::host_memory;
use std::collections::BTreeMap;

/// The part of a limit of the host (`GASNET_PHYSMEM_MAX`) that one of `processes` processes gets.
pub fn share(limit: Limit, processes: usize) -> u64 {
    limit.bytes(host_memory::query().physical) / processes.max(1) as u64
}

/// Registers up to `share` bytes by `pin`, and releases them when all processes have. Returns what
/// each process of this host could register, after all have released it. `reports`: the first
/// process prints that, for this conduit.
///
/// Collective. All buffers must be registered before the first process begins, which may take all
/// memory ([`all_can`](crate::record::all_can)).
pub fn probe<P>(info: &StartInfo<'_>, pin: impl Fn(usize) -> Option<P>, share: u64, reports: Option<&str>) -> u64 {
    let (held, bytes) = register(pin, share);
    (info.exchange)(&bytes.to_le_bytes());
    drop(held);
    let all = (info.exchange)(&bytes.to_le_bytes());
    let all: Vec<u64> = all
        .chunks_exact(8)
        .map(|word| word.try_into().map_or(0, u64::from_le_bytes))
        .collect();
    if let (Some(conduit), JobRank(0)) = (reports, info.rank) {
        let report = report(&all, |rank| (info.place_of)(rank).host);
        print_line(format_args!("GASNet: {conduit}: {report}"));
    }
    least(info.host.iter().map(|rank| all[rank.index()]))
}

fn least(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.min().unwrap_or(0)
}

/// Registers as much as possible, up to `share` bytes.
fn register<P>(pin: impl Fn(usize) -> Option<P>, share: u64) -> (Vec<P>, u64) {
    /// Steps at first, and the smallest one.
    const STEPS: u64 = 8;
    const LEAST: u64 = 1 << 20;
    let (mut held, mut bytes) = (Vec::new(), 0);
    let mut step = (share / STEPS).max(LEAST);
    while step >= LEAST && bytes < share {
        let next = step.min(share - bytes);
        match pin(next as usize) {
            Some(pinned) => {
                held.push(pinned);
                bytes += next;
            }
            None => step /= 2,
        }
    }
    (held, bytes)
}

/// The result in words, by host.
fn report(all: &[u64], host: impl Fn(JobRank) -> u32) -> String {
    let mut hosts: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for (bytes, rank) in all.iter().zip(0..) {
        hosts.entry(host(JobRank(rank))).or_default().push(*bytes);
    }
    let whole = |shares: &Vec<u64>| (least(shares.iter().copied()) * shares.len() as u64) >> 20;
    let (smallest, largest) = (hosts.values().map(whole).min(), hosts.values().map(whole).max());
    let (smallest, largest) = (smallest.unwrap_or(0), largest.unwrap_or(0));
    let found = if smallest == largest {
        format!("{smallest} MB")
    } else {
        format!("{smallest} to {largest} MB")
    };
    format!(
        "the processes of a host can register {found}. GASNET_PHYSMEM_MAX={smallest}M makes the probe unnecessary; \
         GASNET_PHYSMEM_WARN=0 suppresses this."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_of_the_hosts() {
        let of = |all: &[u64]| report(all, |rank| rank.0 / 2);
        assert!(of(&[3 << 20, 2 << 20, 2 << 20, 2 << 20]).contains("register 4 MB. GASNET_PHYSMEM_MAX=4M"));
        assert!(of(&[3 << 20, 2 << 20, 8 << 20, 9 << 20]).contains("register 4 to 16 MB. GASNET_PHYSMEM_MAX=4M"));
    }
}
