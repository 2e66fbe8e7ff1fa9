//! Memory that processes share: objects without a name, and mappings of them.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::signal;
use super::{check, retry};

/// The size of a page in bytes.
pub fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    let known = SIZE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    SIZE.store(size, Ordering::Relaxed);
    size
}

/// Whether this process may read and write all of `[base, base + bytes)`. None when the system does not say.
pub fn is_writable(base: usize, bytes: usize) -> Option<bool> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    Some(covers(&maps, base, base.checked_add(bytes)?))
}

/// Whether the mappings listed in `maps`, ascending, leave no gap from `start` to `end` that cannot be read and written.
fn covers(maps: &str, start: usize, end: usize) -> bool {
    let mut reached = start;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else {
            continue;
        };
        let Some((low, high)) = range.split_once('-') else { continue };
        let (Ok(low), Ok(high)) = (usize::from_str_radix(low, 16), usize::from_str_radix(high, 16)) else {
            continue;
        };
        if (low..high).contains(&reached) && rights.starts_with("rw") {
            reached = high;
        }
    }
    reached >= end
}

/// Asks for huge pages in a shared mapping. The error says why there will be none.
pub fn want_huge_pages(base: usize, bytes: usize) -> io::Result<()> {
    let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    if policy.contains("[never]") || policy.contains("[deny]") || policy.is_empty() {
        let why = "huge pages for shared memory are off on this host (/sys/kernel/mm/transparent_hugepage/shmem_enabled)";
        return Err(io::Error::other(why));
    }
    // SAFETY: advice about a mapping of ours; it changes no content.
    check(unsafe { libc::madvise(base as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) }).map(drop)
}

/// How an [`AnonMemory`] came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// `memfd_create`: limited by memory only, and its size can be sealed.
    Memfd,
    /// A POSIX shared-memory object, unlinked at once. Limited by the size of `/dev/shm`.
    PosixShm,
    /// A file, unlinked at once.
    File,
}

/// A memory object that has a descriptor but no name, so that nothing is left when its last user is gone, however that happens.
#[derive(Debug)]
pub struct AnonMemory {
    fd: OwnedFd,
    backing: Backing,
}

/// Creates a memory object of size 0. `name` is for people who look at `/proc`. Tries memfd, POSIX shared memory, and a file in
/// `directory`; `report` gets one line for each that did not work. The error is that of the last.
pub fn anon_memory(name: &str, directory: &Path, report: &mut dyn FnMut(&str)) -> io::Result<AnonMemory> {
    let label = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    match memfd(&label) {
        Ok(fd) => {
            return Ok(AnonMemory {
                fd,
                backing: Backing::Memfd,
            })
        }
        Err(e) => report(&format!("memfd_create for {name} failed ({e}); trying POSIX shared memory")),
    }
    match posix_shm(name) {
        Ok(fd) => {
            return Ok(AnonMemory {
                fd,
                backing: Backing::PosixShm,
            })
        }
        Err(e) => report(&format!(
            "shm_open for {name} failed ({e}); trying a file in {}",
            directory.display()
        )),
    }
    match unnamed_file(directory) {
        Ok(fd) => Ok(AnonMemory {
            fd,
            backing: Backing::File,
        }),
        Err(e) => {
            report(&format!("a file for {name} in {} failed ({e})", directory.display()));
            Err(e)
        }
    }
}

impl AnonMemory {
    /// One that another process has made.
    pub fn from_fd(fd: OwnedFd) -> Self {
        // SAFETY: takes numbers. Only a memfd has seals.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        let backing = if seals >= 0 { Backing::Memfd } else { Backing::File };
        Self { fd, backing }
    }

    /// Its descriptor, close-on-exec.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// How it came to be.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// Sets its size in bytes. A memfd takes memory when it is touched; the others reserve it now, because a full file system would
    /// otherwise end a rank with SIGBUS much later. Call it once, from one process.
    pub fn resize(&self, bytes: usize) -> io::Result<()> {
        let length = libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        // A limit on the size of files counts for memory objects too, and its default answer is a signal.
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
        // SAFETY: the descriptor is open.
        check(unsafe { libc::ftruncate(self.fd(), length) })?;
        if self.backing == Backing::Memfd || length == 0 {
            return Ok(());
        }
        // SAFETY: the descriptor is open.
        match unsafe { libc::posix_fallocate(self.fd(), 0, length) } {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Forbids any later change of the size, so that no process can make another fault by shrinking. Only a memfd can be sealed;
    /// returns whether it is.
    pub fn seal(&self) -> bool {
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is open; the call takes a number.
        self.backing == Backing::Memfd && unsafe { libc::fcntl(self.fd(), libc::F_ADD_SEALS, seals) } == 0
    }
}

fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: called with a descriptor that a system call has just returned and nobody else knows.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Such an object with these bytes, to be read as a file from its beginning.
pub fn file_of(name: &str, directory: &Path, bytes: &[u8]) -> io::Result<OwnedFd> {
    let memory = anon_memory(name, directory, &mut |_| {})?;
    // Where a limit of the user's does not allow it, that says so.
    memory.resize(bytes.len())?;
    let mut file = File::from(memory.fd);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

fn memfd(name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string.
    check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) }).map(own)
}

fn posix_shm(name: &str) -> io::Result<OwnedFd> {
    for attempt in 0..100u32 {
        let unique = CString::new(format!("/{name}-{}-{attempt}-{:x}", std::process::id(), random_u64()))?;
        // SAFETY: the name is a C string.
        let fd = unsafe {
            libc::shm_open(
                unique.as_ptr(),
                libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC,
                0o600,
            )
        };
        if fd >= 0 {
            // SAFETY: the name is a C string.
            unsafe { libc::shm_unlink(unique.as_ptr()) };
            return Ok(own(fd));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(error);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EEXIST))
}

fn unnamed_file(directory: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt;
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: the path is a C string.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC, 0o600) };
    if fd >= 0 {
        return Ok(own(fd));
    }
    // Some file systems (NFS, old overlays) do not know O_TMPFILE.
    let mut template = directory.join("gasnet-XXXXXX").into_os_string().into_encoded_bytes();
    template.push(0);
    // SAFETY: the template is a writable C string that ends in six X.
    let fd = check(unsafe { libc::mkostemp(template.as_mut_ptr().cast(), libc::O_CLOEXEC) })?;
    // SAFETY: mkostemp left a C string.
    unsafe { libc::unlink(template.as_ptr().cast()) };
    Ok(own(fd))
}

/// Random bits from the kernel: by its call, or by its device where a rule forbids that. Secrets are made of them, so that nothing else will do.
///
/// # Panics
/// If the system has neither.
pub fn random_u64() -> u64 {
    let mut bits = [0; 8];
    // SAFETY: the buffer has eight bytes.
    let got = retry(|| unsafe { libc::getrandom(bits.as_mut_ptr().cast(), bits.len(), 0) });
    if !got.is_ok_and(|n| n == bits.len()) {
        let read = std::fs::File::open("/dev/urandom").and_then(|mut device| device.read_exact(&mut bits));
        read.unwrap_or_else(|e| panic!("neither getrandom nor /dev/urandom gives random numbers, of which secrets are made: {e}"));
    }
    u64::from_ne_bytes(bits)
}

/// Maps the first `bytes` of `fd` readable, writable and shared, at `wanted` if nothing is there, else anywhere. Zero bytes give
/// one page that must not be touched.
pub fn map_shared(fd: RawFd, bytes: usize, wanted: Option<usize>) -> io::Result<usize> {
    let hint = wanted.map_or(ptr::null_mut(), |address| address as *mut libc::c_void);
    // MAP_NORESERVE: the job promises no more than there is, and a strict overcommit mode would count the object once per process.
    map(hint, bytes, libc::MAP_SHARED | libc::MAP_NORESERVE, fd)
}

/// Maps zeroed memory that is shared with the children of later forks.
pub fn map_for_children(bytes: usize) -> io::Result<usize> {
    map(
        ptr::null_mut(),
        bytes,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        -1,
    )
}

/// Maps zeroed private memory.
pub fn map_private(bytes: usize) -> io::Result<usize> {
    map(ptr::null_mut(), bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
}

fn map(hint: *mut libc::c_void, bytes: usize, flags: i32, fd: RawFd) -> io::Result<usize> {
    let length = bytes.max(1).next_multiple_of(page_size());
    // SAFETY: without MAP_FIXED nothing that exists is replaced.
    let address = unsafe { libc::mmap(hint, length, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0) };
    if address == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(address as usize)
    }
}

/// Takes a mapping away.
///
/// # Safety
/// `[address, address + bytes)` is a mapping of this module that nobody uses any more.
pub unsafe fn unmap(address: usize, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(address as *mut libc::c_void, bytes.max(1).next_multiple_of(page_size())) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_covered_by_what_can_be_written() {
        let maps = "1000-2000 rw-p 0 0:0 0\n2000-3000 rw-s 0 0:0 0 /x y\n3000-4000 r--p 0 0:0 0\n5000-6000 rw-p 0 0:0 0\n";
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
            // SAFETY: nobody uses the mapping any more.
            unsafe { unmap(address, 3 * page_size()) };
        }
    }

    #[test]
    fn every_backing_works() {
        let memory = anon_memory("gasnet-test", Path::new("/tmp"), &mut |_| ()).unwrap();
        works(&memory);
        assert_eq!(memory.seal(), memory.backing() == Backing::Memfd);
        if memory.backing() == Backing::Memfd {
            assert!(memory.resize(0).is_err());
        }
        works(&AnonMemory {
            fd: unnamed_file(Path::new("/tmp")).unwrap(),
            backing: Backing::File,
        });
        if let Ok(fd) = posix_shm("gasnet-test") {
            works(&AnonMemory {
                fd,
                backing: Backing::PosixShm,
            });
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        assert!(unnamed_file(Path::new("/nonexistent/directory")).is_err());
    }
}
