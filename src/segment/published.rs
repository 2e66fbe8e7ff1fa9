//! Segments that other processes have published to this one
//! (GASNet-EX 0.19, "gex_EP_PublishBoundSegment").
//!
//! Lookups take no lock: the table is an open-addressed array of pointers. Tables and entries that
//! were replaced are kept, because a thread may still read them; publishing is rare.
//!
//! SYNC POINT published: a table, and an entry in it, is stored with release and loaded with
//! acquire.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::directory::Learned;
use super::Bounds;
use crate::endpoint;
use crate::thread;
use crate::types::Location;
use gasnet_conduit::{Device, RemoteSegment, SegmentMemory, Segments};
use gasnet_sys::atomic::Mutex;

/// The bound segment of another process's endpoint.
#[derive(Debug)]
pub struct Published {
    place: Location,
    memory: SegmentMemory,
    /// None if it is not registered.
    key: Option<Vec<u8>>,
    learned: Learned,
}

impl Published {
    /// Its memory.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            base: self.memory.base,
            bytes: self.memory.bytes,
            on_device: self.memory.device.is_some(),
        }
    }

    /// The conduit's number for it, which it learns now if need be. None if it is not registered.
    pub fn remote_segment(&self, segments: &dyn Segments) -> Option<RemoteSegment> {
        let key = self.key.as_deref()?;
        let learn = || thread::in_conduit(|| segments.learn(self.place.rank, &self.memory, key));
        Some(self.learned.get_or(learn))
    }
}

#[derive(Debug)]
struct Table {
    /// A power of two, at most half of them used.
    slots: Box<[AtomicPtr<Published>]>,
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());
/// Entries of the table; locked by who publishes.
static COUNT: Mutex<usize> = Mutex::new(0);

impl Table {
    fn new(slots: usize) -> &'static Self {
        let slots = std::iter::repeat_with(AtomicPtr::default).take(slots).collect();
        Box::leak(Box::new(Self { slots }))
    }

    /// The slot of `place`, or the empty one that ends the search, and what is in it.
    fn find(&self, place: Location) -> (&AtomicPtr<Published>, Option<&'static Published>) {
        let mask = self.slots.len() - 1;
        let mut index = (place.rank.index() << 6 ^ usize::from(place.ep)).wrapping_mul(0x9e37_79b9) >> 7;
        loop {
            let slot = &self.slots[index & mask];
            // SAFETY: null or leaked by `add`.
            let entry = unsafe { slot.load(Ordering::Acquire).as_ref() };
            if entry.is_none_or(|entry| entry.place == place) {
                return (slot, entry);
            }
            index += 1;
        }
    }
}

fn table() -> Option<&'static Table> {
    // SAFETY: null or leaked by `Table::new`.
    unsafe { TABLE.load(Ordering::Acquire).as_ref() }
}

/// The segment that was published for `place`.
#[inline]
pub fn find(place: Location) -> Option<&'static Published> {
    table()?.find(place).1
}

/// Records a segment that another process has published. A former one of the same endpoint is used
/// no more; `segments` forgets it.
pub fn add(place: Location, memory: SegmentMemory, key: Option<&[u8]>, segments: Option<&dyn Segments>) {
    if place.ep == 0 {
        endpoint::primordial_is_not_attached();
    }
    let mut count = gasnet_sys::lock(&COUNT);
    let former = find(place);
    if let Some(former) = former.filter(|former| former.memory == memory && former.key.as_deref() == key) {
        debug_assert_eq!(former.place, place);
        return;
    }
    let entry = ptr::from_mut(Box::leak(Box::new(Published {
        place,
        memory,
        key: key.map(<[u8]>::to_vec),
        learned: Learned::new(),
    })));
    *count += usize::from(former.is_none());
    with_room(*count).find(place).0.store(entry, Ordering::Release);
    if let (Some(segments), Some(learned)) = (segments, former.and_then(|former| former.learned.get())) {
        thread::in_conduit(|| segments.forget(place.rank, learned));
    }
}

/// The table, which has room for `count` entries.
fn with_room(count: usize) -> &'static Table {
    match table() {
        Some(table) if 2 * count <= table.slots.len() => table,
        old => {
            let new = Table::new(old.map_or(64, |old| 2 * old.slots.len()));
            for slot in old.iter().flat_map(|old| &old.slots) {
                let entry = slot.load(Ordering::Relaxed);
                // SAFETY: null or leaked by `add`.
                if let Some(known) = unsafe { entry.as_ref() } {
                    new.find(known.place).0.store(entry, Ordering::Relaxed);
                }
            }
            TABLE.store(ptr::from_ref(new).cast_mut(), Ordering::Release);
            new
        }
    }
}

/// The length of the key of a segment that is not registered.
const NO_KEY: u32 = u32::MAX;

/// A segment as it is published: endpoint, memory, key if it is registered.
pub fn encode(ep: u16, memory: &SegmentMemory, key: Option<&[u8]>) -> Vec<u8> {
    let (kind, number) = match memory.device {
        None => (0u8, 0),
        Some(Device::Cuda(number)) => (1, number),
        Some(Device::Hip(number)) => (2, number),
        Some(Device::LevelZero(number)) => (3, number),
    };
    let length = key.map_or(NO_KEY, |key| key.len() as u32);
    let key = key.unwrap_or_default();
    let mut bytes = Vec::with_capacity(27 + key.len());
    bytes.extend(ep.to_le_bytes());
    bytes.push(kind);
    bytes.extend(number.to_le_bytes());
    bytes.extend((memory.base as u64).to_le_bytes());
    bytes.extend((memory.bytes as u64).to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(key);
    bytes
}

/// Most bytes of the segments that a process publishes at a time.
const MOST_BYTES: u64 = 1 << 24;

/// The lengths of what the members of a team publish. The error is the place of one that announces
/// more than a process has.
pub fn lengths(announced: &[u64]) -> Result<Vec<usize>, usize> {
    match announced.iter().position(|&bytes| bytes > MOST_BYTES) {
        None => Ok(announced.iter().map(|&bytes| bytes as usize).collect()),
        Some(place) => Err(place),
    }
}

/// Takes one segment off `bytes`. None if they are malformed.
pub fn decode<'a>(bytes: &mut &'a [u8]) -> Option<(u16, SegmentMemory, Option<&'a [u8]>)> {
    let ep = u16::from_le_bytes(take(bytes)?);
    if usize::from(ep) >= endpoint::MAX_ENDPOINTS {
        return None;
    }
    let [kind] = take(bytes)?;
    let number = u32::from_le_bytes(take(bytes)?);
    let base = u64::from_le_bytes(take(bytes)?) as usize;
    let length = u64::from_le_bytes(take(bytes)?) as usize;
    base.checked_add(length)?;
    let key = match u32::from_le_bytes(take(bytes)?) {
        NO_KEY => None,
        length => {
            let (key, rest) = bytes.split_at_checked(length as usize)?;
            *bytes = rest;
            Some(key)
        }
    };
    let device = match kind {
        0 => None,
        1 => Some(Device::Cuda(number)),
        2 => Some(Device::Hip(number)),
        3 => Some(Device::LevelZero(number)),
        _ => return None,
    };
    let memory = SegmentMemory {
        base,
        bytes: length,
        device,
    };
    Some((ep, memory, key))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (&head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::JobRank;

    #[test]
    fn entries_are_found_and_replaced_while_the_table_grows() {
        let place = |i: u32| Location {
            rank: JobRank(1_000_000 + i / 3),
            ep: (1 + i % 3) as u16,
        };
        for i in 0..500 {
            add(place(i), SegmentMemory::host(4096 * i as usize, 4096), Some(&[]), None);
        }
        add(place(7), SegmentMemory::host(1, 2), Some(b"key"), None);
        for i in (0..500).filter(|&i| i != 7) {
            assert_eq!(find(place(i)).unwrap().bounds(), Bounds::host(4096 * i as usize, 4096));
        }
        assert_eq!(find(place(7)).unwrap().bounds(), Bounds::host(1, 2));
        assert!(find(place(500)).is_none());
    }

    #[test]
    fn lengths_without_bounds_are_refused() {
        assert_eq!(lengths(&[0, 100, MOST_BYTES]), Ok(vec![0, 100, MOST_BYTES as usize]));
        for bad in [MOST_BYTES + 1, u64::MAX] {
            assert_eq!(lengths(&[0, 7, bad]), Err(2));
        }
    }

    #[test]
    fn what_is_published_is_decoded_and_nothing_else() {
        for device in [
            None,
            Some(Device::Cuda(3)),
            Some(Device::Hip(0)),
            Some(Device::LevelZero(9)),
        ] {
            let memory = SegmentMemory {
                base: usize::MAX - 5,
                bytes: 5,
                device,
            };
            for key in [None, Some(&b""[..])] {
                assert_eq!(decode(&mut &encode(7, &memory, key)[..]), Some((7, memory, key)));
            }
            let mut bytes = encode(7, &memory, Some(b"abc"));
            let whole = bytes.clone();
            assert_eq!(decode(&mut &bytes[..]), Some((7, memory, Some(&b"abc"[..]))));
            for length in 0..bytes.len() {
                assert_eq!(decode(&mut &bytes[..length]), None);
            }
            let mut of_no_endpoint = bytes.clone();
            of_no_endpoint[0] = endpoint::MAX_ENDPOINTS as u8;
            let mut beyond_all_addresses = bytes.clone();
            beyond_all_addresses[15] = 6;
            for bad in [of_no_endpoint, beyond_all_addresses] {
                assert_eq!(decode(&mut &bad[..]), None);
            }
            bytes.extend(whole);
            let mut two = &bytes[..];
            assert!(decode(&mut two).is_some() && decode(&mut two).is_some() && two.is_empty());
        }
    }
}
