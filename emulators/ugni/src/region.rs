//! Handles of registered memory, and the checks of every access through one.
//!
//! A handle has the address's page and 12 bits of entropy in its first word; pages, page size,
//! flags and MDD index in its second. The entropy is generation and the rest of the index. A real
//! handle has a CRC, too; here both words are compared.

use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use emulator_common::table::INDEX_BITS;
use emulator_common::wait::Using;
use gasnet_gni_abi as abi;

use crate::object::Nic;
use crate::process::Process;
use crate::shm::{self, Region};
use crate::status;

pub const PAGE_SHIFT: u32 = 12;
/// The MDD index. Of the index in the table, the field and the two unused bits after it have the
/// low bits.
const MDH_BITS: u32 = 12;
const LOW_INDEX_BITS: u32 = MDH_BITS + 2;

/// Pages of the memory relocation table that memory takes.
pub fn mrt_pages(start: u64, bytes: u64) -> u32 {
    /// Log2 of the one size that all of these pages of a node have: 2 MiB.
    const SHIFT: u32 = 21;
    ((start + bytes).div_ceil(1 << SHIFT) - (start >> SHIFT)) as u32
}

/// The handle of a region by its key in the table.
pub fn handle(key: u32, start: u64, pages: u64, flags: u64) -> abi::gni_mem_handle_t {
    let (index, generation) = (u64::from(key & 0xffff), u64::from(key >> INDEX_BITS));
    let entropy = generation | index >> LOW_INDEX_BITS << 8;
    abi::gni_mem_handle_t {
        qword1: start >> 12 | entropy << 52,
        qword2: pages
            | u64::from(PAGE_SHIFT) << 28
            | (flags | FLAG_NEW) << 34
            | (index & ((1 << LOW_INDEX_BITS) - 1)) << 42,
    }
}

pub const FLAG_READ_ONLY: u64 = 1;
const FLAG_VMDH: u64 = 2;
pub const FLAG_NEW: u64 = 0x80;

/// The flags of a handle.
pub fn flags(handle: &abi::gni_mem_handle_t) -> u64 {
    handle.qword2 >> 34 & 0xff
}

#[inline(always)]
fn key(handle: &abi::gni_mem_handle_t) -> u32 {
    let entropy = (handle.qword1 >> 52) as u32;
    let low = (handle.qword2 >> 42) as u32 & ((1 << LOW_INDEX_BITS) - 1);
    low | (entropy >> 8 & 3) << LOW_INDEX_BITS | (entropy & 0xff) << INDEX_BITS
}

/// The region that a handle names, with its key.
#[inline(always)]
pub fn find<'a>(process: &'a Process, handle: &abi::gni_mem_handle_t) -> Option<(&'a Region, u32)> {
    let key = key(handle);
    let region = process.fabric.regions.find(key)?;
    let words = [region.words[0].load(Relaxed), region.words[1].load(Relaxed)];
    (words == [handle.qword1, handle.qword2]).then_some((region, key))
}

/// The region of a handle that a program has assembled. Hardware looks only at the NIC, the MDD
/// index and the address's page, so this is the old format with any number of pages and any CRC.
#[cold]
fn find_rebuilt<'a>(process: &'a Process, handle: &abi::gni_mem_handle_t, address: u32) -> Option<&'a Region> {
    if flags(handle) & (FLAG_NEW | FLAG_VMDH) != 0 {
        return None;
    }
    let (index, page) = ((handle.qword1 >> 52) as u32, handle.qword1 & ((1 << 52) - 1));
    let regions = &process.fabric.regions;
    (index..1 << INDEX_BITS)
        .step_by(1 << MDH_BITS)
        .filter(|&index| regions.used().contains(&index))
        .map(|index| regions.at(index))
        .find(|region| region.address.load(SeqCst) == address && region.start.load(Relaxed) >> PAGE_SHIFT == page)
}

/// Access to a region, which stays while this exists.
pub struct Grant<'a> {
    pub region: &'a Region,
    pub slot: u32,
    _using: Using<'a>,
}

/// Access of a domain to a region of a peer at a NIC address. Err: the status of the operation.
#[inline(always)]
pub fn grant(nic: &Nic, handle: &abi::gni_mem_handle_t, address: u32, writes: bool) -> Result<Grant<'static>, u8> {
    let process = nic.process;
    let (region, word) = if let Some((region, _)) = find(process, handle) {
        (region, handle.qword2)
    } else {
        let region = find_rebuilt(process, handle, address).ok_or(status::AT_MDD_INV)?;
        (region, region.words[1].load(Relaxed))
    };
    let grant = Grant {
        region,
        _using: Using::of(&region.users),
        slot: region.entry.slot(),
    };
    // Deregistration takes the address away and then waits for users.
    if region.address.load(SeqCst) != address || region.words[1].load(Relaxed) != word {
        return Err(status::AT_MDD_INV);
    }
    let cdm = nic.cdm;
    if region.ptag.load(Relaxed) != u32::from(cdm.ptag) || region.cookie.load(Relaxed) != cdm.cookie {
        return Err(status::AT_PROTECTION_ERR);
    }
    if writes && region.flags.load(Relaxed) & abi::GNI_MEM_READ_ONLY != 0 {
        return Err(status::AT_MDD_WR_PERMISSION_ERR);
    }
    Ok(grant)
}

impl Region {
    /// Gives back what the region has of the NIC's tables.
    pub fn leave(&self, nic: &shm::Nic) {
        let pages = mrt_pages(self.start.load(Relaxed), self.bytes.load(Relaxed));
        nic.mdd.fetch_sub(1, Relaxed);
        nic.mrt.fetch_sub(pages, Relaxed);
    }
}

impl Grant<'_> {
    /// Bounds, to the page.
    #[inline(always)]
    pub fn check(&self, addr: u64, bytes: u64) -> Result<(), u8> {
        if contains(self.region, addr, bytes) {
            Ok(())
        } else {
            Err(status::AT_BOUNDS_ERR)
        }
    }

    /// Whether the region orders all that is written into it.
    pub fn is_strict(&self) -> bool {
        self.region.flags.load(Relaxed) & abi::GNI_MEM_STRICT_PI_ORDERING != 0
    }

    /// Whether the region keeps data in front of its events.
    pub fn is_ordered(&self) -> bool {
        self.region.flags.load(Relaxed) & (abi::GNI_MEM_STRICT_PI_ORDERING | abi::GNI_MEM_PI_FLUSH) != 0
    }
}

#[inline(always)]
pub fn contains(region: &Region, addr: u64, bytes: u64) -> bool {
    let (start, length) = (region.start.load(Relaxed), region.bytes.load(Relaxed));
    let offset = addr.wrapping_sub(start);
    offset <= length && bytes <= length - offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_keep_their_key() {
        assert_eq!(
            [(0, 1), (0x1f_f000, 0x2000), (0x20_0000, 0x20_0000)].map(|(at, bytes)| mrt_pages(at, bytes)),
            [1, 2, 1]
        );
        for key_in in [1, 0x3fff, 0x4000, 0xffff, 0xff_0001, 0xff_ffff] {
            let handle = handle(key_in, 0x7fff_1234_5000, 77, FLAG_READ_ONLY);
            assert_eq!(key(&handle), key_in);
            assert_eq!(flags(&handle), FLAG_READ_ONLY | FLAG_NEW);
        }
    }
}
