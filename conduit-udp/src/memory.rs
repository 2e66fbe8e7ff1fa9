//! Client memory that transfers access: sources and destinations, and the registered segments.
//!
//! Others may write there at any time. Such races are the client's; nothing here relies on reading
//! the same value twice.

use std::ptr;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};

use gasnet_sys::atomic::RwLock;

/// Client memory that is valid until a transfer is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientMemory {
    address: usize,
    /// Length in bytes.
    pub bytes: usize,
}

impl ClientMemory {
    /// # Safety
    /// The memory must be readable until its transfer is complete, and writable where
    /// [`ClientMemory::write`] or [`crate::sys::Socket::receive_split`] is called.
    pub const unsafe fn new(address: usize, bytes: usize) -> Self {
        Self { address, bytes }
    }

    /// Splits off the first `bytes`.
    pub fn split_off_front(&mut self, bytes: usize) -> Self {
        let first = bytes.min(self.bytes);
        let taken = Self {
            address: self.address,
            bytes: first,
        };
        self.address += first;
        self.bytes -= first;
        taken
    }

    /// The `bytes` at an offset. `None`: out of bounds.
    pub fn slice(&self, offset: usize, bytes: usize) -> Option<Self> {
        let has = offset <= self.bytes && bytes <= self.bytes - offset;
        has.then_some(Self {
            address: self.address.wrapping_add(offset),
            bytes,
        })
    }

    /// Whether two ranges have a byte in common.
    pub fn overlaps(&self, other: Self) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }

    /// The first byte, for the kernel to write to.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.address as *mut u8
    }

    /// The memory as a slice.
    pub fn read(&self) -> &[u8] {
        // SAFETY: readable, by the contract of `new`. A client may write here meanwhile, against
        // the rules of its interface, or because the memory is the source of another rank's get.
        // Then the slice changes while it is read; only the bytes that are sent depend on it.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }

    /// Appends a copy to `to`; 2, 4 or 8 aligned bytes by one load.
    pub fn copy_to(&self, to: &mut Vec<u8>) {
        let at = self.address;
        // SAFETY: readable, by the contract of `new`, and aligned where the type requires it. The
        // loads are atomic because others may write at the same time.
        unsafe {
            match self.bytes {
                2 if at % 2 == 0 => to.extend((*(at as *const AtomicU16)).load(Ordering::Acquire).to_ne_bytes()),
                4 if at % 4 == 0 => to.extend((*(at as *const AtomicU32)).load(Ordering::Acquire).to_ne_bytes()),
                8 if at % 8 == 0 => to.extend((*(at as *const AtomicU64)).load(Ordering::Acquire).to_ne_bytes()),
                _ => to.extend_from_slice(self.read()),
            }
        }
    }

    /// Writes at an offset; 1, 2, 4 or 8 aligned bytes by one store, because clients wait on flags.
    /// Does nothing if the bytes were received in place. Returns whether they fit.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(Self { address: at, .. }) = self.slice(offset, bytes.len()) else {
            return false;
        };
        if ptr::addr_eq(bytes.as_ptr(), at as *const u8) {
            return true;
        }
        // SAFETY: writable, by the contract of `new`, and the range was just checked. Aligned where
        // the type requires it. The stores are atomic because others may read at the same time.
        unsafe {
            match *bytes {
                [a] => (*(at as *const AtomicU8)).store(a, Ordering::Release),
                [a, b] if at % 2 == 0 => {
                    (*(at as *const AtomicU16)).store(u16::from_ne_bytes([a, b]), Ordering::Release);
                }
                [a, b, c, d] if at % 4 == 0 => {
                    (*(at as *const AtomicU32)).store(u32::from_ne_bytes([a, b, c, d]), Ordering::Release);
                }
                [a, b, c, d, e, f, g, h] if at % 8 == 0 => {
                    (*(at as *const AtomicU64)).store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Ordering::Release);
                }
                _ => ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()),
            }
        }
        true
    }
}

/// The segments of this process that peers may access: base and length, by number.
#[derive(Debug, Default)]
pub struct Segments(RwLock<Vec<Option<(usize, usize)>>>);

impl Segments {
    /// Registers a segment, which stays readable and writable until it is unregistered. Returns its
    /// number.
    pub fn register(&self, base: usize, bytes: usize) -> u32 {
        let mut all = gasnet_sys::write_lock(&self.0);
        let free = all.iter().position(Option::is_none).unwrap_or(all.len());
        if free == all.len() {
            all.push(None);
        }
        all[free] = Some((base, bytes));
        free as u32
    }

    /// Unregisters a segment. Returns its base and length.
    pub fn unregister(&self, segment: u32) -> Option<(usize, usize)> {
        let mut all = gasnet_sys::write_lock(&self.0);
        all.get_mut(segment as usize)?.take()
    }

    /// The range that a peer names. `None`: no segment contains all of it.
    pub fn find(&self, address: u64, bytes: u64) -> Option<ClientMemory> {
        let (address, bytes) = (usize::try_from(address).ok()?, usize::try_from(bytes).ok()?);
        let all = gasnet_sys::read_lock(&self.0);
        let inside = |&(base, length): &(usize, usize)| {
            let offset = address.wrapping_sub(base);
            offset <= length && bytes <= length - offset
        };
        let found = bytes > 0 && all.iter().flatten().any(inside);
        // SAFETY: inside a registered segment. Peers no longer access a segment that is
        // unregistered, and `Net::unregister_segment` copies what this process may have to
        // retransmit of it.
        found.then(|| unsafe { ClientMemory::new(address, bytes) })
    }
}

#[cfg(any(test, fuzzing))]
pub mod tests {
    use super::*;
    use gasnet_conduit::{JobRank, LocalMemory, LocalSegment, RemoteMemory, RemoteSegment};

    /// Memory of a peer, in any segment.
    pub fn remote_memory(peer: JobRank, address: usize) -> RemoteMemory {
        RemoteMemory {
            peer,
            segment: RemoteSegment(0),
            address,
        }
    }

    /// Memory of this process, outside all segments.
    pub fn local_memory(address: usize) -> LocalMemory {
        LocalMemory {
            address,
            segment: LocalSegment::NONE,
            device: None,
        }
    }

    /// Memory that the test keeps until the transfer is complete.
    pub fn client_memory(memory: &mut [u8]) -> ClientMemory {
        // SAFETY: readable and writable, and kept by the test.
        unsafe { ClientMemory::new(memory.as_mut_ptr() as usize, memory.len()) }
    }

    #[test]
    fn only_registered_memory_is_found() {
        let segments = Segments::default();
        segments.register(0x1000, 0x100);
        segments.register(0x1100, 0x100);
        for (address, bytes, found) in [
            (0x1000, 0x100, true),
            (0x10ff, 1, true),
            (0x10ff, 2, false),
            (0x1100, 0x100, true),
            (0x1200, 1, false),
            (0xfff, 1, false),
            (0x1000, 0, false),
            (0x1001, u64::MAX, false),
            (u64::MAX, 2, false),
        ] {
            assert_eq!(segments.find(address, bytes).is_some(), found, "{address:#x}, {bytes}");
        }
        assert_eq!(segments.unregister(0), Some((0x1000, 0x100)));
        assert!(segments.find(0x1000, 1).is_none() && segments.find(0x1100, 1).is_some());
    }

    #[test]
    fn writes_stay_inside() {
        for bytes in 0..20 {
            for offset in 0..20 {
                let mut array = [0u64; 4];
                // SAFETY: 24 bytes of the array's 32.
                let memory = unsafe { ClientMemory::new(array.as_mut_ptr() as usize, 24) };
                let data: Vec<u8> = (1..=bytes as u8).collect();
                assert_eq!(memory.write(offset, &data), offset + bytes <= 24);
                let now: Vec<u8> = array.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let mut expected = vec![0; 32];
                if offset + bytes <= 24 {
                    expected[offset..offset + bytes].copy_from_slice(&data);
                }
                assert_eq!(now, expected);
                let (mut rest, mut copy) = (memory, Vec::new());
                rest.split_off_front(offset);
                rest.split_off_front(bytes).copy_to(&mut copy);
                assert_eq!(copy, expected[offset..(offset + bytes).min(24).max(offset)]);
            }
        }
    }
}
