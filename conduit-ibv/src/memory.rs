//! Segments, and the keys of their regions.
//!
//! Memory that is larger than a device's limit is several regions of a power of two of bytes, with
//! borders at pages. An operation across the border of two is split there.

pub mod advice;
pub mod limits;
pub mod mapped;
pub mod on_demand;
mod segments;

use crate::ffi::{Access, Domain, Errno, Region};
use gasnet_conduit::{Dmabuf, LocalMemory, LocalSegment, Registration, RemoteMemory, SegmentMemory};
use gasnet_conduit_util::record::records;
use gasnet_conduit_util::slot_table::SlotTable;

/// Most regions of a segment, or of local memory of an operation.
const MOST_REGIONS: usize = 256;

/// Alignment of their borders: no aligned word crosses one.
const PAGE: usize = 4096;

/// How memory is divided into regions. The owner of a segment and peers agree on it.
struct Division {
    memory: SegmentMemory,
    /// Start of the first region, at a page.
    base: usize,
    /// Binary logarithm of the bytes of a region.
    shift: u32,
    count: usize,
}

impl Division {
    fn new(memory: &SegmentMemory, shift: u32) -> Self {
        let base = memory.base - memory.base % PAGE;
        let count = (memory.base - base + memory.bytes).div_ceil(1 << shift).max(1);
        let memory = *memory;
        Self {
            memory,
            base,
            shift,
            count,
        }
    }

    /// Offset in the memory, and bytes, of a region.
    fn range(&self, region: usize) -> (usize, usize) {
        let skipped = self.memory.base - self.base;
        let start = (region << self.shift).max(skipped) - skipped;
        let end = ((region + 1) << self.shift) - skipped;
        (start, end.min(self.memory.bytes) - start)
    }

    /// With keys by region, and for each by rail.
    fn keys(&self, by_region: Box<[u32]>) -> Keys {
        Keys {
            base: self.base,
            last: self.count - 1,
            shift: self.shift,
            by_region,
        }
    }
}

/// Keys of the regions of memory.
#[derive(Debug)]
pub struct Keys {
    base: usize,
    /// Number of the last region.
    last: usize,
    /// Binary logarithm of the bytes of a region.
    shift: u32,
    /// By region, and for each by rail.
    by_region: Box<[u32]>,
}

impl Keys {
    /// The keys that a peer has published for its memory, for `rails` HCAs. None if they are not of
    /// that memory.
    pub fn read(memory: &SegmentMemory, key: &[u8], rails: usize) -> Option<Self> {
        let (shift, keys) = key.split_first_chunk::<4>()?;
        let shift = u32::from_le_bytes(*shift);
        memory.base.checked_add(memory.bytes)?;
        if shift >= usize::BITS || keys.len() % 4 != 0 {
            return None;
        }
        let keys: Box<[u32]> = records(keys).collect();
        let division = Division::new(memory, shift);
        (division.count.checked_mul(rails) == Some(keys.len())).then(|| division.keys(keys))
    }

    /// The key for an address, and the bytes from there to the next region. The HCA checks the end
    /// of the segment.
    #[inline]
    pub fn at(&self, address: usize, rail: usize, rails: usize) -> (u32, usize) {
        if self.last == 0 {
            return (self.by_region[rail], usize::MAX);
        }
        let offset = address.wrapping_sub(self.base);
        let region = offset >> self.shift;
        if region >= self.last {
            return (self.by_region[self.last * rails + rail], usize::MAX);
        }
        (
            self.by_region[region * rails + rail],
            ((region + 1) << self.shift) - offset,
        )
    }
}

/// Registered memory of this process.
#[derive(Debug)]
pub struct Registered {
    lkeys: Keys,
    /// Of all HCAs; they hold the keys.
    regions: Vec<Region>,
}

impl Registered {
    /// `register` gets the offset and length of a region.
    fn new(
        domains: &[&Domain],
        division: &Division,
        register: impl Fn(&Domain, (usize, usize)) -> Result<Region, Errno>,
    ) -> Result<Self, Errno> {
        if division.count > MOST_REGIONS {
            return Err(Errno(libc::EFBIG));
        }
        let mut regions = Vec::new();
        for index in 0..division.count {
            for domain in domains {
                regions.push(register(domain, division.range(index))?);
            }
        }
        let lkeys = division.keys(regions.iter().map(|region| region.lkey).collect());
        Ok(Self { lkeys, regions })
    }

    /// The key of an address for the only HCA, and the bytes from there to the end of the region.
    pub fn key(&self, address: usize) -> (u32, usize) {
        self.lkeys.at(address, 0, 1)
    }
}

/// Segments of this process, and those of peers that it has learned.
pub struct Segments {
    pub own: SlotTable<Registered>,
    pub learned: SlotTable<Keys>,
    pub rails: usize,
    /// Binary logarithm of the largest region.
    shift: u32,
    access: Access,
}

impl Segments {
    /// None yet, for processes with `rails` HCAs, each of which registers up to `most` bytes at a
    /// time.
    pub fn new(rails: usize, most: u64, access: Access) -> Self {
        /// Beyond what a process addresses.
        const ALL: u32 = 56;
        Self {
            own: SlotTable::new(),
            learned: SlotTable::new(),
            rails,
            shift: most.max(4096).ilog2().min(ALL),
            access,
        }
    }

    /// Most bytes of a key: the size of regions, and the keys.
    pub fn max_key_bytes(&self) -> usize {
        4 + 4 * MOST_REGIONS * self.rails
    }

    /// Registers host memory with each HCA.
    pub fn register(&self, domains: &[&Domain], memory: &SegmentMemory) -> Result<Registration, Errno> {
        // SAFETY: the runtime keeps segments mapped until they are deregistered.
        unsafe { self.pin(domains, memory, self.access) }.map(|registered| self.add(registered))
    }

    /// Registers memory of a device with each HCA: a dmabuf that has it, or its address.
    pub fn register_device(
        &self,
        domains: &[&Domain],
        memory: &SegmentMemory,
        dmabuf: Option<&Dmabuf>,
    ) -> Result<Registration, Errno> {
        // Atomics are for host memory only.
        let access = Access::REMOTE;
        let registered = match dmabuf {
            Some(dmabuf) => Registered::new(domains, &Division::new(memory, self.shift), |domain, (first, bytes)| {
                let address = memory.base + first;
                domain.register_dmabuf(&dmabuf.fd, dmabuf.offset + first, address..address + bytes, access)
            }),
            // SAFETY: as above.
            None => unsafe { self.pin(domains, memory, access) },
        };
        registered.map(|registered| self.add(registered))
    }

    /// Registers memory by its address.
    ///
    /// # Safety
    /// The memory stays mapped until this is dropped.
    pub unsafe fn pin(&self, domains: &[&Domain], memory: &SegmentMemory, access: Access) -> Result<Registered, Errno> {
        Registered::new(domains, &Division::new(memory, self.shift), |domain, (first, bytes)| {
            // SAFETY: by contract.
            unsafe { domain.register(memory.base + first, bytes, access) }
        })
    }

    fn add(&self, registered: Registered) -> Registration {
        let mut key = self.shift.to_le_bytes().to_vec();
        key.extend(registered.regions.iter().flat_map(|region| region.rkey.to_le_bytes()));
        let segment = LocalSegment(self.own.add(registered));
        Registration { segment, key }
    }

    /// The key of local memory for an HCA, and the bytes from its address to the end of the region.
    /// None if it lies in no segment.
    #[inline]
    pub fn local(&self, memory: &LocalMemory, rail: usize) -> Option<(u32, usize)> {
        // SAFETY: the runtime deregisters a segment only when no operation uses it.
        let own = unsafe { self.own.get(memory.segment.0) }?;
        Some(own.lkeys.at(memory.address, rail, self.rails))
    }

    /// The same of a peer's memory.
    #[inline(always)]
    pub fn remote(&self, memory: &RemoteMemory, rail: usize) -> (u32, usize) {
        // SAFETY: the runtime forgets a segment only when no operation uses it.
        let Some(keys) = (unsafe { self.learned.get(memory.segment.0) }) else {
            panic!("defect: no segment {} of rank {}", memory.segment.0, memory.peer);
        };
        keys.at(memory.address, rail, self.rails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of a segment, in regions of 8 KiB.
    fn ranges(base: usize, bytes: usize) -> Vec<(usize, usize)> {
        let division = Division::new(&SegmentMemory::host(base, bytes), 13);
        (0..division.count).map(|region| division.range(region)).collect()
    }

    #[test]
    fn borders_are_at_pages() {
        assert_eq!(ranges(0x5000, 0), [(0, 0)]);
        assert_eq!(ranges(0x5000, 0x2000), [(0, 0x2000)]);
        assert_eq!(ranges(0x5000, 0x2001), [(0, 0x2000), (0x2000, 1)]);
        assert_eq!(ranges(0x5004, 0x2000), [(0, 0x1ffc), (0x1ffc, 4)]);
        assert_eq!(
            ranges(0x5fff, 0x5000),
            [(0, 0x1001), (0x1001, 0x2000), (0x3001, 0x1fff)]
        );
    }

    #[test]
    fn keys_of_impossible_memory_are_refused() {
        let key = |shift: u32, keys: usize| [&shift.to_le_bytes()[..], &vec![7; 4 * keys]].concat();
        let read = |base, bytes, key: &[u8]| Keys::read(&SegmentMemory::host(base, bytes), key, 2);
        assert!(read(0x5000, 0x2000, &key(13, 2)).is_some());
        assert!(read(0x5000, 0x2001, &key(13, 2)).is_none());
        for (base, bytes) in [(usize::MAX, 1), (0x5000, usize::MAX), (usize::MAX - 1, usize::MAX)] {
            for shift in [0, 13, 63, 64, u32::MAX] {
                assert!(read(base, bytes, &key(shift, 2)).is_none(), "{base} {bytes} {shift}");
            }
        }
        // More regions than a number counts, with two HCAs.
        assert!(read(0, usize::MAX, &key(0, 2)).is_none());
    }

    #[test]
    fn every_address_has_the_key_of_its_region() {
        let (base, bytes) = (0x5004, 0x5000);
        let division = Division::new(&SegmentMemory::host(base, bytes), 13);
        let keys = division.keys([10, 11, 20, 21, 30, 31].into());
        for (region, (first, length)) in (0..division.count).map(|region| (region, division.range(region))) {
            for offset in [first, first + length - 1] {
                for rail in 0..2 {
                    let (key, room) = keys.at(base + offset, rail, 2);
                    assert_eq!(key, 10 * (region as u32 + 1) + rail as u32);
                    assert!(room == usize::MAX || room == first + length - offset);
                }
            }
        }
    }
}
