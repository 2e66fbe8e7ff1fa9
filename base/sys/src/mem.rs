//! Memory that processes share: objects without a name, and mappings of them.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
pub use rustix::param::page_size;
use rustix::shm;

use super::signal;
use super::{check, retry};

/// Whether this process may read and write all of `[base, base + bytes)`. None if `/proc` is not
/// readable.
pub fn is_writable(base: usize, bytes: usize) -> Option<bool> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    Some(covers(&maps, base, base.checked_add(bytes)?))
}

/// Whether the readable and writable mappings in `maps`, which ascend, cover all of `[start, end)`.
fn covers(maps: &str, start: usize, end: usize) -> bool {
    let mut reached = start;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else {
            continue;
        };
        let Some((low, high)) = range.split_once('-') else {
            continue;
        };
        let (Ok(low), Ok(high)) = (usize::from_str_radix(low, 16), usize::from_str_radix(high, 16)) else {
            continue;
        };
        if (low..high).contains(&reached) && rights.starts_with("rw") {
            reached = high;
        }
    }
    reached >= end
}

/// Requests huge pages for a shared mapping. The error is the reason why there will be none.
pub fn want_huge_pages(base: usize, bytes: usize) -> io::Result<()> {
    let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    if policy.contains("[never]") || policy.contains("[deny]") || policy.is_empty() {
        let why =
            "huge pages for shared memory are off on this host (/sys/kernel/mm/transparent_hugepage/shmem_enabled)";
        return Err(io::Error::other(why));
    }
    // SAFETY: advice about a mapping of ours; it changes no content.
    check(unsafe { libc::madvise(base as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) }).map(drop)
}

/// Kind of memory of an [`AnonMemory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// `memfd_create`: only memory limits its size, which can be sealed.
    Memfd,
    /// A POSIX shared-memory object, unlinked at once. Limited by the size of `/dev/shm`.
    PosixShm,
    /// A file, unlinked at once.
    File,
}

/// A memory object with a descriptor and no name: nothing is left when its last user ends, however
/// that happens.
#[derive(Debug)]
pub struct AnonMemory {
    fd: OwnedFd,
    backing: Backing,
}

/// Creates a memory object of size 0, which `/proc` shows as `name`. Tries memfd, then POSIX shared
/// memory, then a file in `directory`. `report` gets a message for each failure; the error is that
/// of the last one.
pub fn anon_memory(name: &str, directory: &Path, report: &mut dyn FnMut(&str)) -> io::Result<AnonMemory> {
    let label = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let made = memfd(&label).map(|fd| (fd, Backing::Memfd));
    let made = made.or_else(|e| {
        report(&format!(
            "memfd_create for {name} failed ({e}); trying POSIX shared memory"
        ));
        posix_shm(name).map(|fd| (fd, Backing::PosixShm))
    });
    let made = made.or_else(|e| {
        let place = directory.display();
        report(&format!("shm_open for {name} failed ({e}); trying a file in {place}"));
        unnamed_file(name, directory).map(|fd| (fd, Backing::File))
    });
    let (fd, backing) =
        made.inspect_err(|e| report(&format!("a file for {name} in {} failed ({e})", directory.display())))?;
    Ok(AnonMemory { fd, backing })
}

impl AnonMemory {
    /// An object that another process created.
    pub fn from_fd(fd: OwnedFd) -> Self {
        // Only a memfd has seals.
        let backing = match rustix::fs::fcntl_get_seals(&fd) {
            Ok(_) => Backing::Memfd,
            Err(_) => Backing::File,
        };
        Self { fd, backing }
    }

    /// The descriptor, close-on-exec.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The same object by another descriptor.
    pub fn share(&self) -> io::Result<Self> {
        let (fd, backing) = (self.fd.try_clone()?, self.backing);
        Ok(Self { fd, backing })
    }

    /// Its kind of memory.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// Sets the size in bytes. A memfd allocates memory when it is touched. The others reserve it
    /// now, because a full file system would otherwise kill a process with SIGBUS much later. Call
    /// it once, from one process.
    pub fn resize(&self, bytes: usize) -> io::Result<()> {
        let length = libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        // The limit on file sizes applies to memory objects too; by default exceeding it raises
        // SIGXFSZ.
        let before = signal::saved(libc::SIGXFSZ);
        signal::ignore(libc::SIGXFSZ);
        let result = self.set_length(length);
        if let Some(before) = before {
            signal::restore(libc::SIGXFSZ, &before);
        }
        result.map_err(|why| match why.raw_os_error() {
            Some(libc::EFBIG) => io::Error::other(format!("{why}; the limit on file sizes (ulimit -f) may be too low")),
            _ => why,
        })
    }

    fn set_length(&self, length: libc::off_t) -> io::Result<()> {
        rustix::fs::ftruncate(&self.fd, length as u64)?;
        if self.backing == Backing::Memfd || length == 0 {
            return Ok(());
        }
        // Not rustix: its fallocate fails where the file system has no such operation.
        // SAFETY: takes numbers.
        match unsafe { libc::posix_fallocate(self.fd(), 0, length) } {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Forbids later changes of the size, so that no process can make another one fault by
    /// shrinking it. Only a memfd can be sealed; returns whether it is.
    pub fn seal(&self) -> bool {
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        self.backing == Backing::Memfd && rustix::fs::fcntl_add_seals(&self.fd, seals).is_ok()
    }
}

/// Takes ownership of a descriptor that a system call has just returned.
fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: just returned, so there is no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A memory object that contains `bytes`, positioned at its beginning.
pub fn file_of(name: &str, directory: &Path, bytes: &[u8]) -> io::Result<OwnedFd> {
    let memory = anon_memory(name, directory, &mut |_| {})?;
    // Reports a limit on file sizes, which a write would meet with a signal.
    memory.resize(bytes.len())?;
    let mut file = File::from(memory.fd);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// A sealable memfd. Async-signal-safe.
pub(crate) fn memfd(name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string.
    check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) }).map(own)
}

const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);

fn posix_shm(name: &str) -> io::Result<OwnedFd> {
    for attempt in 0..100u32 {
        let unique = CString::new(format!("/{name}-{}-{attempt}-{:x}", std::process::id(), random_u64()))?;
        let flags = shm::OFlags::RDWR | shm::OFlags::CREATE | shm::OFlags::EXCL;
        match shm::open(&unique, flags, OWNER_ONLY) {
            Ok(fd) => {
                let _ = shm::unlink(&unique);
                return Ok(fd);
            }
            Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(Errno::EXIST.into())
}

fn unnamed_file(name: &str, directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(fd) = rustix::fs::open(directory, flags, OWNER_ONLY) {
        return Ok(fd);
    }
    // Some file systems (NFS, old overlays) lack O_TMPFILE.
    let mut template = directory
        .join(format!("{name}-XXXXXX"))
        .into_os_string()
        .into_encoded_bytes();
    template.push(0);
    // SAFETY: the template is a writable C string that ends in six X.
    let fd = check(unsafe { libc::mkostemp(template.as_mut_ptr().cast(), libc::O_CLOEXEC) })?;
    // SAFETY: mkostemp left a C string.
    unsafe { libc::unlink(template.as_ptr().cast()) };
    Ok(own(fd))
}

/// Random bits from the kernel: from `getrandom`, or from `/dev/urandom` where a seccomp filter
/// forbids the call. Secrets are made of them, so there is no weaker fallback.
///
/// # Panics
/// If both fail.
pub fn random_u64() -> u64 {
    let mut bits = [0; 8];
    // SAFETY: the buffer has eight bytes.
    let got = retry(|| unsafe { libc::getrandom(bits.as_mut_ptr().cast(), bits.len(), 0) });
    if !got.is_ok_and(|n| n == bits.len()) {
        let read = std::fs::File::open("/dev/urandom").and_then(|mut device| device.read_exact(&mut bits));
        read.unwrap_or_else(|e| panic!("no random numbers for secrets: getrandom and /dev/urandom both failed: {e}"));
    }
    u64::from_ne_bytes(bits)
}

/// Maps the first `bytes` of `fd` readable, writable and shared, at `wanted` if that range is free,
/// else anywhere. Zero bytes map one page, which must not be touched.
pub fn map_shared(fd: RawFd, bytes: usize, wanted: Option<usize>) -> io::Result<usize> {
    let hint = wanted.map_or(ptr::null_mut(), |address| address as *mut libc::c_void);
    // MAP_NORESERVE: strict overcommit would count the object once per process that maps it. The
    // callers do not promise more memory than there is.
    map(hint, bytes.max(1), libc::MAP_SHARED | libc::MAP_NORESERVE, fd)
}

/// Gives a file of size 0 `bytes`, a multiple of 8, and maps them as words for the rest of the
/// process. The kernel writes them to the file, however the process ends.
pub fn file_words(file: &File, bytes: usize) -> io::Result<&'static [AtomicU64]> {
    AnonMemory::from_fd(file.try_clone()?.into()).resize(bytes)?;
    let base = map_shared(file.as_raw_fd(), bytes, None)?;
    // SAFETY: a mapping of this length that nothing unmaps; every value is valid for an atomic.
    Ok(unsafe { std::slice::from_raw_parts(base as *const AtomicU64, bytes / size_of::<AtomicU64>()) })
}

/// Asks the processor to have the cache line of a word ready for writing.
#[inline]
pub fn prefetch(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it neither reads nor writes.
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_ET0};
        _mm_prefetch::<_MM_HINT_ET0>(word.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

/// Frees what the file system holds for the part of a file from `start` on, which reads as zeros
/// then. Mappings remain valid.
pub fn free_from(file: &File, start: u64) -> io::Result<()> {
    let length = file.metadata()?.len();
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if start < length {
        rustix::fs::fallocate(file, flags, start, length - start)?;
    }
    Ok(())
}

/// Maps the first `bytes` of `fd` readable and shared: what other processes write appears in it.
pub fn map_readable(fd: RawFd, bytes: usize) -> io::Result<usize> {
    map_with(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, fd)
}

/// `GASNETT_PAGESIZE` of the C headers: the largest page with which kernels of this architecture
/// are configured.
const LARGEST_PAGE: usize = if cfg!(any(target_arch = "aarch64", target_arch = "powerpc64")) {
    64 << 10
} else {
    4096
};

/// Granularity of segments, whatever the page of this host's kernel is: clients know only the
/// headers' page.
pub fn segment_page() -> usize {
    LARGEST_PAGE.max(page_size())
}

/// As [`map_shared`], at a multiple of `alignment`.
pub fn map_shared_aligned(fd: RawFd, bytes: usize, alignment: usize, wanted: Option<usize>) -> io::Result<usize> {
    let base = map_shared(fd, bytes, wanted)?;
    if base % alignment == 0 {
        return Ok(base);
    }
    // SAFETY: mapped above, and unknown to others.
    unsafe { unmap(base, bytes) };
    map_aligned(bytes, alignment, libc::MAP_SHARED | libc::MAP_NORESERVE, fd)
}

/// Maps zeroed private memory at a multiple of `alignment`.
pub fn map_private_aligned(bytes: usize, alignment: usize) -> io::Result<usize> {
    map_aligned(bytes, alignment, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
}

/// Maps at a multiple of `alignment`, a power of two and at least a page: reserves more addresses,
/// and returns those on both sides.
fn map_aligned(bytes: usize, alignment: usize, flags: i32, fd: RawFd) -> io::Result<usize> {
    let bytes = bytes.max(1).next_multiple_of(page_size());
    let reserved = bytes + alignment - page_size();
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let first = map(ptr::null_mut(), reserved, anonymous, -1)?;
    let base = first.next_multiple_of(alignment);
    // SAFETY: replaces a part of the mapping above, which nobody else knows.
    let mapped = map(base as *mut libc::c_void, bytes, flags | libc::MAP_FIXED, fd);
    let (low, high) = match mapped {
        Ok(_) => (base - first, first + reserved - base - bytes),
        Err(_) => (reserved, 0),
    };
    for (address, bytes) in [(first, low), (base + bytes, high)] {
        if bytes > 0 {
            // SAFETY: of the mapping above, and not used.
            unsafe { unmap(address, bytes) };
        }
    }
    mapped
}

/// Makes pages of an own mapping inaccessible.
pub fn forbid(base: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: later accesses fault, which is what the caller wants; nothing of Rust's lies there.
    let result = unsafe { libc::mprotect(base as *mut libc::c_void, bytes, libc::PROT_NONE) };
    crate::check(result).map(drop)
}

/// Maps zeroed memory that later forked children share.
pub fn map_for_children(bytes: usize) -> io::Result<usize> {
    map(
        ptr::null_mut(),
        bytes,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        -1,
    )
}

/// Maps zeroed private memory. Zero bytes map one page.
pub fn map_private(bytes: usize) -> io::Result<usize> {
    map(
        ptr::null_mut(),
        bytes.max(1),
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        -1,
    )
}

fn map(hint: *mut libc::c_void, bytes: usize, flags: i32, fd: RawFd) -> io::Result<usize> {
    map_with(hint, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd)
}

fn map_with(hint: *mut libc::c_void, bytes: usize, access: i32, flags: i32, fd: RawFd) -> io::Result<usize> {
    // SAFETY: without MAP_FIXED no existing mapping is replaced, and with it the caller's own.
    let address = unsafe { libc::mmap(hint, bytes, access, flags, fd, 0) };
    if address == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(address as usize)
    }
}

/// Removes a mapping.
///
/// # Safety
/// `[address, address + bytes)` was mapped by this module and is no longer used.
pub unsafe fn unmap(address: usize, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(address as *mut libc::c_void, bytes.max(1)) };
}

/// Makes the C library's malloc take memory from the heap only and give none back, so that a block
/// of any size reuses pages that are mapped. Elsewhere than in glibc it has no effect.
pub fn keep_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets two numbers, under the lock of malloc.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_mappings_cover_a_range() {
        let maps =
            "1000-2000 rw-p 0 0:0 0\n2000-3000 rw-s 0 0:0 0 /x y\n3000-4000 r--p 0 0:0 0\n5000-6000 rw-p 0 0:0 0\n";
        assert!(covers(maps, 0x1000, 0x3000) && covers(maps, 0x1fff, 0x2001) && covers(maps, 0x5000, 0x6000));
        assert!(
            !covers(maps, 0x0fff, 0x2000)
                && !covers(maps, 0x2000, 0x3001)
                && !covers(maps, 0x4000, 0x4001)
                && !covers(maps, 0x5000, 0x6001)
        );
        let here = [0u8; 5000];
        assert_eq!(is_writable(here.as_ptr() as usize, here.len()), Some(true));
        assert_eq!(is_writable(covers as *const () as usize, 1), Some(false));
    }

    fn works(memory: &AnonMemory) {
        memory.resize(3 * page_size()).unwrap();
        let a = map_shared(memory.fd(), 3 * page_size(), None).unwrap();
        let b = map_shared(memory.fd(), 3 * page_size(), Some(a)).unwrap();
        assert_ne!(a, b);
        // SAFETY: both addresses are mapped, and aligned.
        unsafe { (a as *mut u64).write_volatile(42) };
        // SAFETY: as above.
        assert_eq!(unsafe { (b as *mut u64).read_volatile() }, 42);
        for address in [a, b] {
            // SAFETY: the mapping is no longer used.
            unsafe { unmap(address, 3 * page_size()) };
        }
    }

    #[test]
    fn mappings_are_aligned_and_return_the_addresses_around_them() {
        let page = page_size();
        let memory = anon_memory("sys-test", Path::new("/tmp"), &mut |_| ()).unwrap();
        memory.resize(3 * page).unwrap();
        for alignment in [page, 2 * page, 64 * page] {
            let shared = map_shared_aligned(memory.fd(), 3 * page, alignment, None).unwrap();
            let near = map_shared_aligned(memory.fd(), 3 * page, alignment, Some(shared + page)).unwrap();
            let private = map_private_aligned(3 * page, alignment).unwrap();
            for base in [shared, near, private] {
                assert_eq!(base % alignment, 0);
                assert_eq!(is_writable(base, 3 * page), Some(true));
            }
            if alignment > 4 * page {
                assert_eq!(is_writable(private - page, 5 * page), Some(false));
            }
            // SAFETY: mapped, and aligned.
            unsafe { (shared as *mut u64).write_volatile(alignment as u64) };
            // SAFETY: as above.
            assert_eq!(unsafe { (near as *mut u64).read_volatile() }, alignment as u64);
            for base in [shared, near, private] {
                // SAFETY: the mapping is no longer used.
                unsafe { unmap(base, 3 * page) };
            }
        }
    }

    #[test]
    fn every_backing_works() {
        let memory = anon_memory("sys-test", Path::new("/tmp"), &mut |_| ()).unwrap();
        works(&memory);
        assert_eq!(memory.seal(), memory.backing() == Backing::Memfd);
        if memory.backing() == Backing::Memfd {
            assert!(memory.resize(0).is_err());
        }
        works(&AnonMemory {
            fd: unnamed_file("sys-test", Path::new("/tmp")).unwrap(),
            backing: Backing::File,
        });
        if let Ok(fd) = posix_shm("sys-test") {
            works(&AnonMemory {
                fd,
                backing: Backing::PosixShm,
            });
        }
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        assert!(unnamed_file("sys-test", Path::new("/nonexistent/directory")).is_err());
    }
}
