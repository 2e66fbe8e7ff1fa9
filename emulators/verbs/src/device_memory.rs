//! Memory of the stand-ins' devices (emulators/devices), which no process may touch at its own
//! address. Regions of it have a second mapping, through which operations reach it.

use std::ffi::{c_int, c_void};
use std::io::Error;

use emulator_common::maps;

pub const PAGE: u64 = 4096;

/// A second mapping of a region of device memory, through which operations reach it.
pub struct Mapping {
    /// Whole pages.
    base: *mut c_void,
    bytes: usize,
    /// Offset of the region's first byte in them.
    offset: u64,
}

/// The pages of a range: the first byte's offset in its page, and the bytes of all.
fn pages(start: u64, length: u64) -> Option<(u64, usize)> {
    let offset = start % PAGE;
    let bytes = length.checked_add(offset)?.checked_next_multiple_of(PAGE)?;
    Some((offset, bytes as usize))
}

impl Mapping {
    /// The pages that a system call mapped.
    fn new(base: *mut c_void, bytes: usize, offset: u64) -> Result<Mapping, i32> {
        if base == libc::MAP_FAILED {
            return Err(Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
        }
        Ok(Mapping { base, bytes, offset })
    }

    /// Maps a part of a dmabuf, which is a file here. Err: errno.
    pub fn of_dmabuf(fd: c_int, start: u64, length: u64) -> Result<Mapping, i32> {
        // SAFETY: the call writes the struct.
        let (result, file) = unsafe {
            let mut file: libc::stat = std::mem::zeroed();
            (libc::fstat(fd, &mut file), file)
        };
        if result != 0 {
            return Err(libc::EBADF);
        }
        let within = start.checked_add(length).is_some_and(|end| end <= file.st_size as u64);
        let (offset, bytes) = pages(start, length).filter(|_| within).ok_or(libc::EINVAL)?;
        let (access, from) = (libc::PROT_READ | libc::PROT_WRITE, (start - offset) as libc::off_t);
        // SAFETY: a new mapping.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, from) };
        Mapping::new(base, bytes, offset)
    }

    /// Maps device memory that a program names by its address. Err: errno; EFAULT if it is none.
    pub fn of_peer_memory(addr: u64, length: u64) -> Result<Mapping, i32> {
        let (offset, bytes) = pages(addr, length)
            .filter(|_| maps::on_device(addr, length))
            .ok_or(libc::EFAULT)?;
        let from = (addr - offset) as *mut c_void;
        // SAFETY: no bytes are moved, which copies a shared mapping.
        let base = unsafe { libc::mremap(from, 0, bytes, libc::MREMAP_MAYMOVE) };
        let mapping = Mapping::new(base, bytes, offset)?;
        // SAFETY: pages of the new mapping only.
        match unsafe { libc::mprotect(base, bytes, libc::PROT_READ | libc::PROT_WRITE) } {
            0 => Ok(mapping),
            _ => Err(libc::EFAULT),
        }
    }

    /// The address of the region's first byte.
    pub fn addr(&self) -> u64 {
        self.base as u64 + self.offset
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the region is gone, and nobody else knows the mapping.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of four pages, and its mapping as a device's memory.
    fn device() -> (c_int, u64) {
        // SAFETY: plain calls; the file has the size of the mapping.
        unsafe {
            let fd = libc::memfd_create(c"device".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(fd, 4 * PAGE as libc::off_t), 0);
            let base = libc::mmap(
                std::ptr::null_mut(),
                4 * PAGE as usize,
                libc::PROT_NONE,
                libc::MAP_SHARED,
                fd,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            (fd, base as u64)
        }
    }

    #[test]
    fn both_ways_reach_the_same_bytes() {
        let (fd, memory) = device();
        let dmabuf = Mapping::of_dmabuf(fd, PAGE + 8, 5000).unwrap();
        let peer = Mapping::of_peer_memory(memory + PAGE + 8, 5000).unwrap();
        // SAFETY: inside both mappings.
        unsafe {
            (dmabuf.addr() as *mut u64).write(77);
            assert_eq!((peer.addr() as *const u64).read(), 77);
        }
        assert_eq!((dmabuf.addr() % PAGE, peer.addr() % PAGE), (8, 8));
    }

    #[test]
    fn ranges_must_be_of_the_device() {
        let (fd, memory) = device();
        let host = 7_u64;
        assert_eq!(Mapping::of_dmabuf(fd, PAGE, 4 * PAGE).err(), Some(libc::EINVAL));
        assert_eq!(Mapping::of_dmabuf(fd, u64::MAX, 2).err(), Some(libc::EINVAL));
        assert_eq!(Mapping::of_dmabuf(-1, 0, 8).err(), Some(libc::EBADF));
        assert_eq!(
            Mapping::of_peer_memory(memory + PAGE, 4 * PAGE).err(),
            Some(libc::EFAULT)
        );
        assert_eq!(
            Mapping::of_peer_memory(&raw const host as u64, 8).err(),
            Some(libc::EFAULT)
        );
    }
}
