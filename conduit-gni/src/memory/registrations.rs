//! Registrations of memory outside segments, each for the operations that are under way on it.
//!
//! Cray's UDREG caches registrations beyond their operations, and drops those of memory that is
//! unmapped by a notification of the kernel. Here none outlives its operations, so none can go
//! stale; operations at the same time on the same memory share one.

use crate::ffi::{Arrivals, Code, Domain};
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::{lock, mem};

/// A registration that an operation uses.
#[derive(Debug)]
struct Entry {
    domain: usize,
    /// First byte, and the byte after the last one.
    range: (usize, usize),
    writable: bool,
    handle: abi::gni_mem_handle_t,
    users: usize,
}

/// Memory that an operation of a domain uses.
#[derive(Clone, Copy, Debug)]
pub struct MemoryUse {
    pub domain: usize,
    pub address: usize,
    pub bytes: usize,
    /// Whether the operation writes it.
    pub is_written: bool,
}

impl Entry {
    /// Whether the operation may use this registration as well.
    fn covers(&self, wanted: &MemoryUse) -> bool {
        self.domain == wanted.domain
            && self.range.0 <= wanted.address
            && wanted.address + wanted.bytes <= self.range.1
            && (self.writable || !wanted.is_written)
    }
}

/// Those of a process.
#[derive(Debug)]
pub struct Registrations {
    entries: Mutex<Vec<Entry>>,
    most: usize,
    shares: bool,
}

impl Registrations {
    /// No registrations yet, and at most `most` at a time.
    pub fn new(most: usize, shares: bool) -> Self {
        Self {
            entries: Mutex::default(),
            most,
            shares,
        }
    }

    /// Registers memory for an operation.
    ///
    /// # Safety
    /// The memory stays mapped until [`Registrations::give`].
    pub unsafe fn take<A>(&self, domains: &[Domain<A>], wanted: MemoryUse) -> Result<abi::gni_mem_handle_t, Code> {
        let mut entries = lock(&self.entries);
        if self.shares {
            if let Some(entry) = entries.iter_mut().find(|entry| entry.covers(&wanted)) {
                entry.users += 1;
                return Ok(entry.handle);
            }
        }
        if entries.len() >= self.most {
            return Err(Code::RESOURCE);
        }
        let MemoryUse {
            domain,
            address,
            bytes,
            is_written: writable,
        } = wanted;
        let flags = abi::GNI_MEM_RELAXED_PI_ORDERING | if writable { 0 } else { abi::GNI_MEM_READ_ONLY };
        let page = mem::page_size();
        let start = address - address % page;
        let range = (start, (address + bytes).next_multiple_of(page));
        // SAFETY: by contract. Pages are mapped as a whole.
        let handle = unsafe { domains[domain].register((start, range.1 - start), Arrivals::None, flags)? };
        entries.push(Entry {
            domain,
            range,
            writable,
            handle,
            users: 1,
        });
        Ok(handle)
    }

    /// An operation that used a handle is complete.
    pub fn give<A>(&self, domains: &[Domain<A>], domain: usize, handle: abi::gni_mem_handle_t) {
        let mut entries = lock(&self.entries);
        let is_it = |entry: &Entry| entry.domain == domain && entry.handle == handle;
        let Some(index) = entries.iter().position(is_it) else {
            return;
        };
        entries[index].users -= 1;
        if entries[index].users == 0 {
            entries.swap_remove(index);
            domains[domain].deregister(handle);
        }
    }
}
