//! Kinds and copies over drivers that keep "device memory" in a vector, shifted so that using an
//! address of it directly crashes.

use super::*;

const SHIFT: usize = 1 << 60;

/// Addresses are those of host memory plus [`SHIFT`].
struct Shifted {
    number: u32,
    direct: bool,
}

impl Driver for Shifted {
    fn owner(&self) -> Owner {
        Owner {
            device: Device::Cuda(self.number),
            handles: [0, 0],
        }
    }
    fn allocate(&self, _: usize) -> Result<usize, String> {
        Err("no memory".into())
    }
    fn free(&self, _: usize) -> Result<(), String> {
        Ok(())
    }
    fn check(&self, _: usize, _: usize) -> Result<(), String> {
        Ok(())
    }
    unsafe fn write(&self, to: usize, from: *const u8, bytes: usize) -> Result<(), String> {
        // SAFETY: the tests pass shifted addresses of their own memory.
        unsafe { std::ptr::copy_nonoverlapping(from, (to - SHIFT) as *mut u8, bytes) };
        Ok(())
    }
    unsafe fn read(&self, to: *mut u8, from: usize, bytes: usize) -> Result<(), String> {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping((from - SHIFT) as *const u8, to, bytes) };
        Ok(())
    }
    unsafe fn copy(&self, to: usize, owner: Owner, from: usize, bytes: usize) -> Option<Result<(), String>> {
        // SAFETY: as above.
        (owner == self.owner() || self.direct).then(|| unsafe { self.write(to, (from - SHIFT) as *const u8, bytes) })
    }
    fn export(&self, _: usize, _: usize) -> Option<Dmabuf> {
        None
    }
    fn close(&self) {}
}

/// A device whose memory nobody may touch.
pub fn kind(number: u32, direct: bool) -> &'static MemoryKind {
    MemoryKind::register(Box::new(Shifted { number, direct }))
}

fn mem(kind: &'static MemoryKind, memory: &[u8]) -> MemRef {
    MemRef {
        kind: Some(kind),
        address: memory.as_ptr() as usize + SHIFT,
    }
}

#[test]
fn any_two_memories_copy() {
    let bytes = 2 * STAGE + 12_345;
    let source: Vec<u8> = (0..bytes).map(|i| (i * 7 % 251) as u8).collect();
    let kinds = [kind(0, false), kind(1, false), kind(2, true)];
    for from in [None, Some(kinds[0]), Some(kinds[1])] {
        for to in [None, Some(kinds[0]), Some(kinds[2])] {
            let target = vec![0_u8; bytes];
            let place = |kind: Option<&'static MemoryKind>, memory: &[u8]| {
                kind.map_or(MemRef::host(memory.as_ptr()), |k| mem(k, memory))
            };
            // SAFETY: both vectors have the length.
            unsafe { copy(place(to, &target), place(from, &source), bytes) };
            assert!(target == source, "{from:?} {to:?}");
        }
    }
    let mut bounce = Vec::new();
    // SAFETY: 100 bytes from 50 on are in the vector.
    let here = unsafe { mem(kinds[0], &source).plus(50).readable(100, &mut bounce) };
    assert!(here == bounce.as_ptr() && bounce == source[50..150]);
    // SAFETY: as above.
    let here = unsafe { MemRef::host(source.as_ptr()).readable(100, &mut bounce) };
    assert!(here == source.as_ptr());
}

#[test]
fn a_kind_lives_as_long_as_its_segments() {
    let handle = std::ptr::from_ref(kind(7, false)) as usize;
    let held = MemoryKind::hold(handle).unwrap();
    assert!(MemoryKind::hold(handle + 1).is_none());
    assert!(MemoryKind::destroy(handle).unwrap_err().contains("CUDA device 7"));
    held.release();
    assert_eq!(MemoryKind::destroy(handle), Ok(()));
    assert!(MemoryKind::hold(handle).is_none() && MemoryKind::destroy(handle).is_err());
}

#[test]
fn descriptors_of_vendors_do_not_outlive_exec() {
    let file = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: a descriptor number; without FD_CLOEXEC, as a vendor may make it.
    let vendors = unsafe { libc::dup(file.as_raw_fd()) };
    // SAFETY: the copy above, which nobody else has.
    let ours = unsafe { take_descriptor(vendors) }.unwrap();
    // SAFETY: reads a flag.
    let flags = unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_GETFD) };
    assert_eq!(flags, libc::FD_CLOEXEC);
}
