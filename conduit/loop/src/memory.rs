//! Registered memory, keys, and access to memory of clients.

use crate::device::Mapping;
use gasnet_conduit::{atomic_codes as codes, atomic_values};
use gasnet_conduit::{JobRank, LocalMemory, LocalSegment, Registration, RemoteMemory, RemoteSegment, SegmentMemory};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering::Acquire, Ordering::Release};

/// Bytes of a key: the key proper, base and length of its memory.
pub const KEY_BYTES: usize = 24;
/// The first number of an own segment. Those of peers begin at 0, so that a mix-up shows.
const FIRST_LOCAL: u32 = 1000;

/// Own segments and those of peers.
#[derive(Debug, Default)]
pub struct Keys {
    own: HashMap<LocalSegment, Own>,
    /// Own segments so far.
    count: u32,
    /// By number: owner and key. None for those that were forgotten; a number is used once.
    learned: Vec<Option<(JobRank, u64)>>,
}

/// A registered segment of this process.
#[derive(Debug)]
struct Own {
    key: u64,
    memory: SegmentMemory,
    /// Of memory of a device.
    mapping: Option<Mapping>,
}

impl Own {
    /// The NIC's address of `[address, address + bytes)`. None if that is beyond the bounds.
    fn reach(&self, address: usize, bytes: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.memory.base);
        let is_inside = offset <= self.memory.bytes && bytes <= self.memory.bytes - offset;
        let first = self.mapping.as_ref().map_or(self.memory.base, Mapping::first);
        is_inside.then(|| first + offset)
    }
}

impl Keys {
    /// See [`gasnet_conduit::Segments::register`] and `register_device`, for which `mapping` is.
    pub fn register(&mut self, memory: &SegmentMemory, mapping: Option<Mapping>) -> Registration {
        assert_eq!(
            memory.device.is_some(),
            mapping.is_some(),
            "defect: registration of {memory:?}"
        );
        let key = gasnet_sys::mem::random_u64();
        let segment = LocalSegment(FIRST_LOCAL + self.count);
        self.count += 1;
        let own = Own {
            key,
            memory: *memory,
            mapping,
        };
        self.own.insert(segment, own);
        let words = [key, memory.base as u64, memory.bytes as u64];
        Registration {
            segment,
            key: words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        }
    }

    /// See [`gasnet_conduit::Segments::deregister`]. Returns how
    /// much memory of the host that unpins.
    pub fn deregister(&mut self, segment: LocalSegment) -> usize {
        let Some(Own { memory, mapping, .. }) = self.own.remove(&segment) else {
            panic!("defect: deregistration of {segment:?}, which is not registered");
        };
        mapping.map_or(memory.bytes, |_| 0)
    }

    /// See [`gasnet_conduit::Segments::learn`].
    pub fn learn(&mut self, peer: JobRank, memory: &SegmentMemory, key: &[u8]) -> RemoteSegment {
        assert!(key.len() == KEY_BYTES, "defect: a key that no rank has made");
        let [key, base, bytes] =
            [0, 8, 16].map(|at| u64::from_ne_bytes(key[at..at + 8].try_into().unwrap_or_default()));
        assert!(
            (base as usize, bytes as usize) == (memory.base, memory.bytes),
            "defect: the key of another segment of rank {peer}"
        );
        let is_known = self.learned.contains(&Some((peer, key)));
        assert!(!is_known, "defect: a segment of rank {peer} was learned twice");
        self.learned.push(Some((peer, key)));
        RemoteSegment(self.learned.len() as u32 - 1)
    }

    /// See [`gasnet_conduit::Segments::forget`].
    pub fn forget(&mut self, peer: JobRank, segment: RemoteSegment) {
        let former = self.learned.get_mut(segment.0 as usize).and_then(Option::take);
        assert!(
            former.is_some_and(|former| former.0 == peer),
            "defect: {segment:?} was forgotten but not learned"
        );
    }

    /// The key for the remote side of an operation.
    pub fn key(&self, remote: &RemoteMemory) -> u64 {
        let learned = self.learned.get(remote.segment.0 as usize).copied().flatten();
        let Some((_, key)) = learned.filter(|(peer, _)| *peer == remote.peer) else {
            panic!("defect: an operation on {remote:?}, a segment that was not learned or was forgotten");
        };
        key
    }

    /// The NIC's address of the local side of an operation. Verifies the runtime's description of
    /// it.
    pub fn local(&self, local: &LocalMemory, bytes: usize) -> usize {
        if local.segment == LocalSegment::NONE {
            assert!(local.device.is_none(), "defect: memory of a device outside segments");
            return local.address;
        }
        let own = self.own.get(&local.segment);
        let own = own.filter(|own| own.memory.device == local.device);
        own.and_then(|own| own.reach(local.address, bytes))
            .unwrap_or_else(|| panic!("defect: {bytes} bytes at {local:?} are not in that segment"))
    }

    /// Memory of this process to which a peer has the key. None if it is beyond the bounds.
    pub fn exposed(&self, key: u64, address: usize, bytes: usize) -> Option<Memory> {
        let mut own = self.own.values();
        let own = own.find(|own| own.key == key)?;
        // SAFETY: registered memory; the caller holds the lock that deregistration takes.
        own.reach(address, bytes).map(|at| unsafe { Memory::new(at, bytes) })
    }
}

/// Memory of a client. Aligned words are accessed at once, because clients wait on flags.
#[derive(Debug)]
pub struct Memory {
    address: usize,
    bytes: usize,
}

impl Memory {
    /// # Safety
    /// Readable while this exists, and writable where [`Memory::write`] or [`Memory::update`] is
    /// called.
    pub const unsafe fn new(address: usize, bytes: usize) -> Self {
        Self { address, bytes }
    }

    /// A copy.
    pub fn read(&self) -> Vec<u8> {
        let at = self.address;
        // SAFETY: readable, by the contract of `new`, and aligned where the type requires it. A
        // client may write meanwhile; then only the bytes that are copied depend on it.
        unsafe {
            match self.bytes {
                2 if at % 2 == 0 => (*(at as *const AtomicU16)).load(Acquire).to_ne_bytes().to_vec(),
                4 if at % 4 == 0 => (*(at as *const AtomicU32)).load(Acquire).to_ne_bytes().to_vec(),
                8 if at % 8 == 0 => (*(at as *const AtomicU64)).load(Acquire).to_ne_bytes().to_vec(),
                bytes => std::slice::from_raw_parts(at as *const u8, bytes).to_vec(),
            }
        }
    }

    /// Writes as many bytes as this has.
    pub fn write(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes);
        let at = self.address;
        // SAFETY: writable, by the contract of `new`, and aligned where the type requires it.
        unsafe {
            match *bytes {
                [a] => (*(at as *const AtomicU8)).store(a, Release),
                [a, b] if at % 2 == 0 => (*(at as *const AtomicU16)).store(u16::from_ne_bytes([a, b]), Release),
                [a, b, c, d] if at % 4 == 0 => {
                    (*(at as *const AtomicU32)).store(u32::from_ne_bytes([a, b, c, d]), Release);
                }
                [a, b, c, d, e, f, g, h] if at % 8 == 0 => {
                    (*(at as *const AtomicU64)).store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Release);
                }
                _ => std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()),
            }
        }
    }

    /// Performs an atomic, and returns the old value; None if there is no such operation. It is
    /// atomic to others of this NIC only: between load and store the CPU may write.
    pub fn update(&self, dt: u32, op: u32, operands: [u64; 2]) -> Option<u64> {
        if self.address % self.bytes != 0 {
            return None;
        }
        let old = word(&self.read());
        let new = atomic_values::after(dt, op, old, operands)?;
        std::thread::yield_now();
        if op != codes::GET {
            self.write(&bytes(new, self.bytes));
        }
        Some(old)
    }
}

/// A value of 4 or 8 bytes, in the low bytes.
fn word(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        _ => u64::from_ne_bytes(bytes.try_into().unwrap_or_default()),
    }
}

/// The reverse of [`word`].
pub fn bytes(word: u64, bytes: usize) -> Vec<u8> {
    if bytes == 4 {
        (word as u32).to_ne_bytes().to_vec()
    } else {
        word.to_ne_bytes().to_vec()
    }
}
