//! Registration of memory.
#![allow(non_snake_case)]

use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use emulator_common::maps::{mapped, Mapped};
use emulator_common::table::{index_of, set};
use emulator_common::unregistrable::Unregistrable;
use emulator_common::wait::drain;
use gasnet_gni_abi as abi;

use crate::object::{Cq, Living, Nic, Role};
use crate::process::{take, take_some, Process};
use crate::refuse::{call, invalid, load, quiet, refusal, store, Outcome};
use crate::region::{self, FLAG_READ_ONLY, PAGE_SHIFT};

const FLAGS: u32 = abi::GNI_MEM_READ_ONLY
    | abi::GNI_MEM_USE_GART
    | abi::GNI_MEM_STRICT_PI_ORDERING
    | abi::GNI_MEM_PI_FLUSH
    | abi::GNI_MEM_MDD_CLONE
    | abi::GNI_MEM_RELAXED_PI_ORDERING
    | abi::GNI_MEM_MDD_SHARED
    | abi::GNI_MEM_MDD_DEDICATED;
const REFUSED_FLAGS: u32 = abi::GNI_MEM_USE_VMDH
    | abi::GNI_MEM_PHYS_CONT
    | abi::GNI_MEM_PHYS_SEGMENTS
    | abi::GNI_MEM_RESERVE_REGION
    | abi::GNI_MEM_UPDATE_REGION;
const PAGE: u64 = 1 << PAGE_SHIFT;
/// Ranges up to this are populated instead of being looked up, which takes less time.
const SMALL: u64 = 1 << 20;

/// Memory to register.
struct Wanted {
    address: u64,
    length: u64,
    flags: u32,
}

impl Wanted {
    fn start(&self) -> u64 {
        self.address & !(PAGE - 1)
    }

    /// Whole pages.
    fn bytes(&self) -> u64 {
        (self.address + self.length).next_multiple_of(PAGE) - self.start()
    }
}

/// Whether the kernel can pin all pages of a small range with these rights.
fn populates(wanted: &Wanted) -> bool {
    const MADV_POPULATE_READ: i32 = 22;
    const MADV_POPULATE_WRITE: i32 = 23;
    let advice = if wanted.flags & abi::GNI_MEM_READ_ONLY == 0 {
        MADV_POPULATE_WRITE
    } else {
        MADV_POPULATE_READ
    };
    // SAFETY: the advice changes no content, whatever is there.
    wanted.bytes() <= SMALL && unsafe { libc::madvise(wanted.start() as *mut _, wanted.bytes() as usize, advice) } == 0
}

/// Whether memory can be registered: mapped, writable if it must be, and not excluded by a word.
fn check_memory(process: &Process, wanted: &Wanted, nth: u64) -> Outcome {
    let excluded = &process.config.reg_invalid;
    let mut named = false;
    let hits = |one: &Unregistrable| one.hits(nth, wanted.address, wanted.length);
    if excluded.iter().any(hits) {
        return Err(quiet(abi::GNI_RC_INVALID_PARAM));
    }
    let by_name = excluded.iter().any(|one| matches!(one, Unregistrable::Named(_)));
    if !by_name && populates(wanted) {
        return Ok(());
    }
    let is_mapped = mapped(wanted.address, wanted.length, |name| {
        named |= excluded.iter().any(|one| one.is_named(name));
    });
    match is_mapped {
        _ if named => Err(quiet(abi::GNI_RC_INVALID_PARAM)),
        Mapped::No => Err(invalid("the memory is not mapped")),
        Mapped::ReadOnly if wanted.flags & abi::GNI_MEM_READ_ONLY == 0 => Err(refusal(
            abi::GNI_RC_PERMISSION_ERROR,
            "the memory can only be read; register it with GNI_MEM_READ_ONLY",
        )),
        Mapped::ReadOnly | Mapped::Writable => Ok(()),
    }
}

fn check_flags(process: &Process, flags: u32) -> Outcome {
    if process.is_gemini && flags & (abi::GNI_MEM_MDD_SHARED | abi::GNI_MEM_MDD_DEDICATED) != 0 {
        return Err(invalid("Gemini has no such flags of registrations"));
    }
    if flags & REFUSED_FLAGS != 0 {
        return Err(invalid("the emulator has no such registrations"));
    }
    if flags & !FLAGS != 0 {
        return Err(invalid("no such flags of registrations"));
    }
    Ok(())
}

/// Registers memory. The caller is in the domain.
fn register(nic: &'static Nic, wanted: &Wanted, cq: Option<&'static Cq>) -> Outcome<abi::gni_mem_handle_t> {
    let process = nic.process;
    if wanted.length == 0 || wanted.address.checked_add(wanted.length + PAGE).is_none() {
        return Err(invalid("no memory"));
    }
    check_flags(process, wanted.flags)?;
    if let Some(cq) = cq {
        if cq.role.get() == Role::Source {
            return Err(invalid("the completion queue is that of endpoints"));
        }
    }
    let nth = process.registrations.fetch_add(1, Relaxed) + 1;
    if process.config.reg_fail == nth || process.random.hits(process.config.reg_busy) {
        return Err(quiet(abi::GNI_RC_ERROR_RESOURCE));
    }
    check_memory(process, wanted, nth)?;
    let limit = process.config.reg_bytes;
    let add = |sum: u64| sum.checked_add(wanted.bytes()).filter(|&sum| sum <= limit);
    let no_resources = quiet(abi::GNI_RC_ERROR_RESOURCE);
    if process.registered.fetch_update(Relaxed, Relaxed, add).is_err() {
        return Err(no_resources);
    }
    let undo = || process.registered.fetch_sub(wanted.bytes(), Relaxed);
    if !take(&nic.hardware.mdd, process.config.mdd) {
        undo();
        return Err(no_resources);
    }
    let _guard = process.allocation();
    let pages = region::mrt_pages(wanted.start(), wanted.bytes());
    if !take_some(&nic.hardware.mrt, pages, process.config.mrt_pages()) {
        nic.hardware.mdd.fetch_sub(1, Relaxed);
        undo();
        return Err(no_resources);
    }
    let Some(index) = process.fabric.regions.take(process.slot) else {
        nic.hardware.mdd.fetch_sub(1, Relaxed);
        nic.hardware.mrt.fetch_sub(pages, Relaxed);
        undo();
        return Err(no_resources);
    };
    let region = process.fabric.regions.at(index);
    let key = process.fabric.regions.key(index);
    let read_only = wanted.flags & abi::GNI_MEM_READ_ONLY != 0;
    let flags = if read_only { FLAG_READ_ONLY } else { 0 };
    let handle = region::handle(key, wanted.start(), wanted.bytes() / PAGE, flags);
    set([
        (&region.domain, nic.domain),
        (&region.ptag, u32::from(nic.cdm.ptag)),
        (&region.cookie, nic.cdm.cookie),
        (&region.flags, wanted.flags),
        (&region.users, 0),
        (&region.cq, cq.map_or(0, |cq| cq.key)),
    ]);
    region.start.store(wanted.start(), Relaxed);
    region.bytes.store(wanted.bytes(), Relaxed);
    region.words[0].store(handle.qword1, Relaxed);
    region.words[1].store(handle.qword2, Relaxed);
    region.address.store(nic.address, SeqCst);
    if let Some(frames) = &process.frames {
        frames.renew(wanted.start(), wanted.bytes());
    }
    if let Some(cq) = cq {
        cq.role.set(Role::Destination);
    }
    Ok(handle)
}

#[no_mangle]
#[allow(clippy::too_many_arguments)]
extern "C" fn GNI_MemRegister(
    nic: abi::gni_nic_handle_t,
    address: u64,
    length: u64,
    cq: abi::gni_cq_handle_t,
    flags: u32,
    vmdh_index: u32,
    out: *mut abi::gni_mem_handle_t,
) -> abi::gni_return_t {
    call("GNI_MemRegister", || {
        let (nic, _inside) = Nic::enter(nic)?;
        let cq = if cq.is_null() { None } else { Some(Cq::of(cq)?) };
        if out.is_null() {
            return Err(invalid("the pointer for the handle is null"));
        }
        if vmdh_index != u32::MAX && vmdh_index != 0 {
            return Err(invalid("no such index of virtual MDDs"));
        }
        let wanted = Wanted { address, length, flags };
        store(out, register(nic, &wanted, cq)?, "")
    })
}

/// Ends a registration: no access is granted, and none is under way, when this returns.
pub fn release(process: &Process, index: u32) {
    let region = process.fabric.regions.at(index);
    let address = region.address.swap(0, SeqCst);
    drain(&region.users);
    process.registered.fetch_sub(region.bytes.load(Relaxed), Relaxed);
    if let Some(nic) = process.nic(address) {
        region.leave(nic);
    }
    let _guard = process.allocation();
    process.fabric.regions.give(index);
}

/// Other threads may be in the domain, without option `check-all`: the kernel orders it, and the
/// reference's program relies on it.
#[no_mangle]
extern "C" fn GNI_MemDeregister(nic: abi::gni_nic_handle_t, handle: *mut abi::gni_mem_handle_t) -> abi::gni_return_t {
    call("GNI_MemDeregister", || {
        let nic = Nic::of(nic)?;
        let _inside = nic.enter_if_strict();
        let handle = load(handle, "no handle of memory")?;
        let stale = invalid("the handle names no registered memory (any more)");
        let (region, key) = region::find(nic.process, &handle).ok_or(stale)?;
        if region.entry.slot() != nic.process.slot || region.domain.load(Relaxed) != nic.domain {
            return Err(invalid("the memory was registered by another domain"));
        }
        release(nic.process, index_of(key));
        Ok(())
    })
}

/// Checks a local range of an operation: a handle of this process that covers it. A handle of
/// memory that can only be read does not for writing.
#[inline(always)]
pub fn check_local(nic: &Nic, handle: &abi::gni_mem_handle_t, address: u64, length: u64, writes: bool) -> Outcome {
    let Some((region, _)) = region::find(nic.process, handle) else {
        return Err(invalid("the handle of the local memory names nothing"));
    };
    if region.entry.slot() != nic.process.slot || region.address.load(Relaxed) != nic.address {
        return Err(invalid("the handle of the local memory is of another process or NIC"));
    }
    if !region::contains(region, address, length) {
        return Err(invalid("the local memory is not in the range of its handle"));
    }
    if writes && region.flags.load(Relaxed) & abi::GNI_MEM_READ_ONLY != 0 {
        return Err(refusal(
            abi::GNI_RC_PERMISSION_ERROR,
            "the local memory was registered for reading",
        ));
    }
    Ok(())
}
