//! Network addresses of memory that the network reads and writes. On Elan4 that is all memory, at
//! its virtual addresses. Symmetric memory has addresses of its own on both, since the attachments
//! of one process cannot have it at one virtual address.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use emulator_common::lock::locked;
use gasnet_elan_abi as abi;

use crate::attachment::{Attachment, Mapping};
use crate::config::{Config, WINDOW_START};
use crate::process::Process;
use crate::shm::Endpoint;

pub const PAGE: u64 = 4096;

/// Pages of the window.
pub fn pages(config: &Config) -> u64 {
    if config.is_elan3() {
        config.window / PAGE
    } else {
        0
    }
}

/// Network address of symmetric memory: on Elan4 no process has such virtual addresses.
fn symmetric_start(config: &Config) -> u64 {
    if config.is_elan3() {
        0x1000_0000
    } else {
        1 << 60
    }
}

/// The page table of an endpoint of Elan3.
fn table(process: &Process, endpoint: &Endpoint) -> &'static [AtomicU64] {
    process.block(endpoint.pages.load(Relaxed), pages(&process.config) * 8)
}

impl Attachment {
    /// The network address of symmetric memory.
    pub fn symmetric_address(&self, offset: usize) -> u64 {
        symmetric_start(&self.process.config) + offset as u64
    }

    /// The virtual address of a network address at a peer. None: nothing is mapped there. This
    /// attachment has the same symmetric blocks as its peer.
    #[inline(always)]
    pub fn translate(&self, endpoint: &Endpoint, address: u64, bytes: u64) -> Option<u64> {
        let config = &self.process.config;
        let offset = address.wrapping_sub(symmetric_start(config));
        if offset < self.symmetric.bytes as u64 {
            let held = self.symmetric.holds(offset as usize, bytes as usize);
            return held.then(|| endpoint.symmetric.load(Relaxed) + offset);
        }
        if !config.is_elan3() {
            return Some(address);
        }
        let offset = address.checked_sub(WINDOW_START)?;
        let last = (offset.checked_add(bytes)? - 1) / PAGE;
        let table = table(self.process, endpoint).get((offset / PAGE) as usize..=last as usize)?;
        let first = table[0].load(Acquire);
        let expected = (first..).step_by(PAGE as usize);
        let is_mapped = first != 0 && table.iter().zip(expected).all(|(page, at)| page.load(Acquire) == at);
        is_mapped.then(|| first + offset % PAGE)
    }

    /// Whether the network reads and writes this memory.
    pub fn is_addressable(&self, memory: u64, bytes: u64) -> bool {
        if !self.process.config.is_elan3() {
            return true;
        }
        let (at, length) = (memory as usize, bytes as usize);
        let is_mapped = |m: &Mapping| memory >= m.memory && memory - m.memory <= m.bytes.wrapping_sub(bytes);
        self.pool.find(at, length).is_some()
            || self.symmetric.find(at, length).is_some()
            || locked(&self.mappings).iter().any(|m| bytes <= m.bytes && is_mapped(m))
    }

    fn map(&self, memory: u64, bytes: u64) -> u64 {
        let process = self.process;
        if bytes == 0 || memory % PAGE != 0 || bytes % PAGE != 0 || memory == 0 {
            self.die("map", &format!("{memory:#x}, {bytes} bytes: these are not whole pages"));
        }
        if self.counts.map.is(process.config.fail_map) {
            return 0;
        }
        let mut mappings = locked(&self.mappings);
        let (mut page, count) = (0, bytes / PAGE);
        let mut place = 0;
        if process.config.is_elan3() {
            for mapping in mappings.iter() {
                if page + count <= mapping.page {
                    break;
                }
                page = mapping.page + mapping.bytes / PAGE;
                place += 1;
            }
            if page + count > pages(&process.config) {
                return 0;
            }
            let table = table(process, self.endpoint);
            // A page has one place: libelan ends its former mapping (`elan3_clearperm_main`).
            for entry in table {
                if entry
                    .load(Relaxed)
                    .checked_sub(memory)
                    .is_some_and(|offset| offset < bytes)
                {
                    entry.store(0, Release);
                }
            }
            let table = &table[page as usize..(page + count) as usize];
            for (entry, at) in table.iter().zip((memory..).step_by(PAGE as usize)) {
                entry.store(at, Release);
            }
        }
        mappings.insert(place, Mapping { memory, bytes, page });
        if process.config.is_elan3() {
            WINDOW_START + page * PAGE
        } else {
            memory
        }
    }

    fn unmap(&self, memory: u64, bytes: u64) {
        let mut mappings = locked(&self.mappings);
        let Some(place) = mappings.iter().position(|m| (m.memory, m.bytes) == (memory, bytes)) else {
            self.die("unmap", &format!("{memory:#x}, {bytes} bytes: `map` did not map them"));
        };
        let mapping = mappings.remove(place);
        if self.process.config.is_elan3() {
            let (from, to) = (mapping.page as usize, (mapping.page + bytes / PAGE) as usize);
            table(self.process, self.endpoint)[from..to]
                .iter()
                .for_each(|page| page.store(0, Release));
        }
    }
}

pub extern "C" fn is_addressable(elan: *mut abi::gasnet_elan_t, memory: *const c_void, bytes: usize) -> libc::c_int {
    let (attachment, _inside) = Attachment::enter(elan, "is_addressable");
    attachment.is_addressable(memory as u64, bytes as u64).into()
}

pub extern "C" fn map(elan: *mut abi::gasnet_elan_t, memory: *mut c_void, bytes: usize) -> u64 {
    let (attachment, _inside) = Attachment::enter(elan, "map");
    attachment.map(memory as u64, bytes as u64)
}

pub extern "C" fn unmap(elan: *mut abi::gasnet_elan_t, memory: *mut c_void, bytes: usize) {
    let (attachment, _inside) = Attachment::enter(elan, "unmap");
    attachment.unmap(memory as u64, bytes as u64);
}
