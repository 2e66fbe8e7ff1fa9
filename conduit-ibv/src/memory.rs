//! Segments, and the keys of their regions.
//!
//! A segment that is larger than a device's limit is several regions of a power of two of bytes. An
//! operation across the border of two is split there.

use crate::verbs::{Access, Domain, Errno, Region};
use gasnet_conduit::numbered::Numbered;
use gasnet_conduit::{Dmabuf, LocalMemory, LocalSegment, RemoteMemory, RemoteSegment, SegmentMemory};

/// Most regions of a segment.
const MOST_REGIONS: usize = 256;

/// Keys of the regions of a segment.
#[derive(Debug)]
struct Keys {
    base: usize,
    /// Number of the last region.
    last: usize,
    /// Binary logarithm of the bytes of a region.
    shift: u32,
    /// By region, and for each by rail.
    by_region: Box<[u32]>,
}

impl Keys {
    /// The key for an address, and the bytes from there to the next region. The HCA checks the end
    /// of the segment.
    #[inline]
    fn at(&self, address: usize, (rail, rails): (usize, usize)) -> (u32, usize) {
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

/// A segment of this process.
struct Own {
    lkeys: Keys,
    #[allow(dead_code, reason = "holds the keys")]
    regions: Vec<Region>,
}

/// Segments of this process, and those of peers that it has learned.
pub struct Segments {
    own: Numbered<Own>,
    learned: Numbered<Keys>,
    rails: usize,
    /// Binary logarithm of the largest region.
    shift: u32,
    access: Access,
}

impl Segments {
    /// None yet, for processes with so many HCAs, each of which registers up to `most` bytes at a
    /// time.
    pub fn new(rails: usize, most: u64, access: Access) -> Self {
        /// Beyond what a process addresses.
        const ALL: u32 = 56;
        Self {
            own: Numbered::new(),
            learned: Numbered::new(),
            rails,
            shift: most.max(4096).ilog2().min(ALL),
            access,
        }
    }

    /// Most bytes of a key: the size of regions, and the keys.
    pub fn max_key_bytes(&self) -> usize {
        4 + 4 * MOST_REGIONS * self.rails
    }

    /// Registers memory with each HCA. `None` in place of an error: the dmabuf is not taken.
    pub fn register(
        &self,
        domains: &[&Domain],
        memory: &SegmentMemory,
        dmabuf: Option<&Dmabuf>,
    ) -> Result<Option<(LocalSegment, Vec<u8>)>, Errno> {
        let mut regions = Vec::new();
        let bytes = 1 << self.shift;
        let count = memory.bytes.div_ceil(bytes).max(1);
        if count > MOST_REGIONS {
            return Err(Errno(libc::EFBIG));
        }
        for index in 0..count {
            let (first, length) = (index * bytes, bytes.min(memory.bytes - index * bytes));
            let range = (memory.base + first, length);
            for domain in domains {
                let region = match dmabuf {
                    Some(dmabuf) => domain.register_dmabuf(&dmabuf.fd, dmabuf.offset + first, range, self.access)?,
                    // SAFETY: the runtime keeps segments mapped until they are deregistered.
                    None => Some(unsafe { domain.register(range.0, range.1, self.access)? }),
                };
                let Some(region) = region else { return Ok(None) };
                regions.push(region);
            }
        }
        let mut key = self.shift.to_le_bytes().to_vec();
        key.extend(regions.iter().flat_map(|region| region.rkey.to_le_bytes()));
        let lkeys = Keys {
            base: memory.base,
            last: count - 1,
            shift: self.shift,
            by_region: regions.iter().map(|region| region.lkey).collect(),
        };
        let number = self.own.add(Own { lkeys, regions });
        Ok(Some((LocalSegment(number), key)))
    }

    /// Reverts it.
    pub fn deregister(&self, segment: LocalSegment) {
        // SAFETY: the runtime uses the segment no more.
        drop(unsafe { self.own.remove(segment.0) });
    }

    /// Takes note of a segment of a peer. None if its key is none of ours.
    pub fn learn(&self, memory: &SegmentMemory, key: &[u8]) -> Option<RemoteSegment> {
        let (shift, keys) = key.split_first_chunk::<4>()?;
        let shift = u32::from_le_bytes(*shift);
        if shift >= usize::BITS || keys.len() % 4 != 0 {
            return None;
        }
        let words = keys.chunks_exact(4);
        let keys: Box<[u32]> = words
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let count = memory.bytes.div_ceil(1 << shift).max(1);
        (keys.len() == count * self.rails).then(|| {
            RemoteSegment(self.learned.add(Keys {
                base: memory.base,
                last: count - 1,
                shift,
                by_region: keys,
            }))
        })
    }

    /// Reverts it.
    pub fn forget(&self, segment: RemoteSegment) {
        // SAFETY: no operation on the segment is under way.
        drop(unsafe { self.learned.remove(segment.0) });
    }

    /// The key of local memory for an HCA, and the bytes from its address to the end of the region.
    /// None if it lies in no segment.
    #[inline]
    pub fn local(&self, memory: &LocalMemory, rail: usize) -> Option<(u32, usize)> {
        // SAFETY: the runtime deregisters a segment only when no operation uses it.
        let own = unsafe { self.own.get(memory.segment.0) }?;
        Some(own.lkeys.at(memory.address, (rail, self.rails)))
    }

    /// The same of a peer's memory.
    #[inline(always)]
    pub fn remote(&self, memory: &RemoteMemory, rail: usize) -> (u32, usize) {
        // SAFETY: the runtime forgets a segment only when no operation uses it.
        let Some(keys) = (unsafe { self.learned.get(memory.segment.0) }) else {
            panic!("defect: no segment {} of rank {}", memory.segment.0, memory.peer);
        };
        keys.at(memory.address, (rail, self.rails))
    }
}
