//! Memory regions: registration, and the checks of every access through a key.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use emulator_common::copy::{self, Pieces};
use emulator_common::maps::{is_mapped, mapped};
use emulator_common::wait::{drain, Using};
use gasnet_ibv_abi as abi;

use crate::config::{Ability, Call};
use crate::copy::Sge;
use crate::footprint;
use crate::fork::can_keep_from_children;
use crate::process::Process;
use crate::shm::Mr;

/// Memory to register.
pub struct Region {
    pub device: u32,
    pub pd: u32,
    pub addr: u64,
    pub length: u64,
    pub iova: u64,
    pub access: u32,
}

const LOCAL_WRITE: u32 = abi::IBV_ACCESS_LOCAL_WRITE;
const NEEDS_LOCAL_WRITE: u32 = abi::IBV_ACCESS_REMOTE_WRITE | abi::IBV_ACCESS_REMOTE_ATOMIC;

fn pages(addr: u64, length: u64) -> u64 {
    (addr + length).next_multiple_of(4096) - addr / 4096 * 4096
}

/// Registers a region. Returns the index in the table; Err: errno.
pub fn register(process: &Process, region: &Region) -> Result<u32, i32> {
    // The optional ones may be ignored (IBV_ACCESS_OPTIONAL_RANGE).
    let known = 0xff | 0x3ff0_0000;
    if region.access & !known != 0 || region.access & NEEDS_LOCAL_WRITE != 0 && region.access & LOCAL_WRITE == 0 {
        return Err(libc::EINVAL);
    }
    if region.access & (abi::IBV_ACCESS_MW_BIND | abi::IBV_ACCESS_ZERO_BASED) != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let on_demand = region.access & abi::IBV_ACCESS_ON_DEMAND != 0;
    if on_demand && !process.config.has(region.device, Ability::Odp) {
        return Err(libc::EOPNOTSUPP);
    }
    let implicit = on_demand && region.addr == 0 && region.length == u64::MAX;
    if implicit && !process.config.odp_bits.implicit {
        return Err(libc::EINVAL);
    }
    if !implicit && (region.length > process.config.max_mr || region.addr.checked_add(region.length).is_none()) {
        return Err(libc::EINVAL);
    }
    process.check(region.device)?;
    process.count(Call::RegMr)?;
    if process.refuses_registration() {
        return Err(libc::ENOMEM);
    }
    if !on_demand {
        check_kind(process, region)?;
    }
    let writes = region.access & LOCAL_WRITE != 0 || !process.config.read_only;
    let can_be_pinned = || is_mapped(region.addr, region.length, writes) && has_pages(region.addr, region.length);
    if !on_demand && !can_be_pinned() {
        return Err(libc::EFAULT);
    }
    if !on_demand && !can_keep_from_children(&process.config, region.addr, region.length) {
        return Err(libc::EINVAL);
    }
    if !on_demand {
        let bytes = pages(region.addr, region.length);
        footprint::lock(process, bytes)?;
        // Waits until no event of earlier memory there is to come. No lock is held.
        if let Some(watch) = &process.watch {
            watch.settle(region.addr);
        }
    }
    let _guard = process.allocation();
    let Some(index) = process.fabric.mrs.take(process.slot) else {
        unpin(process, region.addr, region.length, region.access);
        return Err(libc::ENOMEM);
    };
    let mr = process.fabric.mrs.at(index);
    mr.device.store(region.device, Relaxed);
    mr.users.store(0, Relaxed);
    mr.queued.store(0, Relaxed);
    mr.number.store(process.registrations.fetch_add(1, SeqCst), Relaxed);
    mr.addr.store(region.addr, Relaxed);
    mr.iova.store(region.iova, Relaxed);
    mr.length.store(region.length, Relaxed);
    mr.access.store(region.access, Relaxed);
    mr.pd.store(region.pd, SeqCst);
    Ok(index)
}

/// Option `reg-invalid`.
fn check_kind(process: &Process, region: &Region) -> Result<(), i32> {
    let excluded = &process.config.reg_invalid;
    if excluded.is_empty() {
        return Ok(());
    }
    let nth = process.counts.kinds.next();
    let (addr, length) = (region.addr, region.length);
    let mut found = excluded.iter().find(|(kind, _)| kind.hits(nth, addr, length));
    mapped(addr, length, |name| {
        found = found.or_else(|| excluded.iter().find(|(kind, _)| kind.is_named(name)));
    });
    found.map_or(Ok(()), |(_, errno)| Err(*errno))
}

fn unpin(process: &Process, addr: u64, length: u64, access: u32) {
    if access & abi::IBV_ACCESS_ON_DEMAND == 0 {
        process.pinned.fetch_sub(pages(addr, length), Relaxed);
    }
}

/// Option `strict-lifetimes`: counts work requests that name regions when they are queued (1) and
/// when they complete (-1).
pub fn note_queued(process: &Process, sges: &[Sge], change: i32) {
    if process.config.strict_lifetimes {
        let named = sges.iter().filter(|sge| sge.length != 0);
        for mr in named.filter_map(|sge| process.fabric.find_mr(sge.lkey)) {
            mr.queued.fetch_add(change as u32, SeqCst);
        }
    }
}

/// No access is granted, and none is under way, when this returns.
pub fn deregister(process: &Process, index: u32) {
    let mr = process.fabric.mrs.at(index);
    mr.pd.store(0, SeqCst);
    drain(&mr.users);
    let [addr, length] = [&mr.addr, &mr.length].map(|field| field.load(Relaxed));
    unpin(process, addr, length, mr.access.load(Relaxed));
    let _guard = process.allocation();
    process.fabric.mrs.give(index);
}

/// Access to a part of a region; the region stays while this exists.
pub struct Grant<'a> {
    mr: &'a Mr,
    _using: Using<'a>,
    /// Address in the memory of the process of `slot`.
    pub addr: u64,
    pub slot: u32,
}

impl Grant<'_> {
    /// Whether the region follows the page tables.
    pub fn is_on_demand(&self) -> bool {
        self.mr.access.load(Relaxed) & abi::IBV_ACCESS_ON_DEMAND != 0
    }

    /// Pages `bytes` bytes in, if the region follows the page tables. As with mlx5, a fault in a
    /// writable region asks for write access even where the operation only reads (torvalds/linux
    /// drivers/infiniband/hw/mlx5/odp.c). Memory of another process is written; the copy pages it
    /// in. False: a protection error.
    pub fn is_paged(&self, process: &Process, bytes: u64) -> bool {
        let follows = self.is_on_demand() && self.slot == process.slot;
        let is_written = self.mr.access.load(Relaxed) & LOCAL_WRITE != 0;
        !follows || has_pages(self.addr, bytes) && (!is_written || fault_for_writing(self.addr, bytes))
    }
}

/// Whether the first and last page of a range are pages that the kernel can pin, or map for a
/// device: those of VM_IO and VM_PFNMAP are not (torvalds/linux mm/gup.c, mm/hmm.c). By the call
/// they are memory of another process, which the kernel pins.
fn has_pages(addr: u64, bytes: u64) -> bool {
    let mut ends = Pieces::<2>::of(addr, bytes.min(1));
    ends.push(addr + bytes.saturating_sub(1), bytes.min(1));
    copy::gather(&ends).is_some()
}

/// Faults pages in for writing, so that private ones are copied. False: some cannot be written.
fn fault_for_writing(addr: u64, bytes: u64) -> bool {
    let first = addr - addr % 4096;
    // SAFETY: populating pages changes no byte; the kernel checks the range.
    let result = unsafe {
        libc::madvise(
            first as *mut _,
            (addr + bytes - first) as usize,
            libc::MADV_POPULATE_WRITE,
        )
    };
    // Kernels before 5.14 do not know the advice.
    result == 0 || is_mapped(addr, bytes, true)
}

/// An access, with the device and PD of the QP that asks for it.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub device: u32,
    pub pd: u32,
    pub key: u32,
    pub addr: u64,
    pub bytes: u64,
    /// Flags of `ibv_access_flags` that the region must have.
    pub access: u32,
}

/// Checks key, device, PD, bounds and access. None: a protection error.
pub fn grant<'a>(process: &'a Process, wanted: &Wanted) -> Option<Grant<'a>> {
    let mr = process.fabric.find_mr(wanted.key)?;
    let grant = Grant {
        mr,
        _using: Using::of(&mr.users),
        addr: wanted
            .addr
            .wrapping_sub(mr.iova.load(Relaxed))
            .wrapping_add(mr.addr.load(Relaxed)),
        slot: mr.entry.owner.load(Acquire).wrapping_sub(1),
    };
    let offset = wanted.addr.checked_sub(mr.iova.load(Relaxed))?;
    let length = mr.length.load(Relaxed);
    let allowed = mr.pd.load(SeqCst) == wanted.pd
        && wanted.pd != 0
        && mr.device.load(Relaxed) == wanted.device
        && mr.access.load(Relaxed) & wanted.access == wanted.access
        && offset <= length
        && wanted.bytes <= length - offset;
    allowed.then_some(grant)
}
