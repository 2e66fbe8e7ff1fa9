//! This process's place in its fabric: the mapping, its slot, and how it sees that another one
//! died.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, OnceLock};

use crate::config::Config;
use crate::faults::Faults;
use crate::nic::{self, Nic};
use crate::shm::{Fabric, Guard, PROCESSES};
use crate::stale::Watch;

/// Bytes of the heap. The file is sparse, so only what is used costs memory.
const HEAP_BYTES: usize = 2 << 30;
/// Layout of the file; also its version.
const MAGIC: u64 = 0x0076_6572_6273_0003;

/// All that a process has of a fabric. Never freed: a fork's child makes its own.
pub struct Process {
    pub config: Config,
    pub fabric: &'static Fabric,
    /// The heap, as words.
    pub words: &'static [AtomicU64],
    pub slot: u32,
    pub pid: i32,
    pub faults: Faults,
    pub nic: Nic,
    /// Lets data land, for option `early-completion`.
    pub bus: Nic,
    /// Sends doorbells to the descriptors of all processes.
    pub socket: OwnedFd,
    /// Option `stale`.
    pub watch: OnceLock<Watch>,
    /// Registrations so far.
    pub registrations: AtomicU64,
    /// Bytes registered, for `pin-limit`.
    pub pinned: AtomicU64,
    /// The fabric's file. A POSIX lock on byte `slot` says that this process lives.
    file: File,
}

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static ATTACHING: Mutex<()> = Mutex::new(());

/// The process's state, made at the first call. Err: EMU_VERBS is not set, or cannot be used.
pub fn current() -> Result<&'static Process, String> {
    let pid = std::process::id() as i32;
    let find = || {
        let process = CURRENT.load(Acquire);
        // SAFETY: never freed once it is stored.
        (!process.is_null())
            .then(|| unsafe { &*process })
            .filter(|p| p.pid == pid)
    };
    if let Some(process) = find() {
        return Ok(process);
    }
    let _guard = ATTACHING.lock();
    if let Some(process) = find() {
        return Ok(process);
    }
    let text = std::env::var("EMU_VERBS").map_err(|_| "EMU_VERBS is not set; use scripts/with-emulator".to_string())?;
    let config = Config::parse(&text).map_err(|why| format!("EMU_VERBS: {why}"))?;
    let dir = config.dir.clone();
    let process = attach(config).map_err(|error| format!("{dir}: {error}"))?;
    let process: &'static Process = Box::leak(Box::new(process));
    if process.config.stale {
        let watch = Watch::new().map_err(|error| format!("userfaultfd: {error}"))?;
        let watch = process.watch.get_or_init(|| watch);
        nic::start(|| watch.run(process));
    }
    CURRENT.store(std::ptr::from_ref(process).cast_mut(), Release);
    Ok(process)
}

/// A lock of type F_WRLCK on `length` bytes from `start`.
fn file_lock(file: &File, command: i32, kind: i32, start: u64, length: u64) -> io::Result<libc::flock> {
    // SAFETY: all zero is valid, and the call writes only the struct.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = kind as _;
        lock.l_whence = libc::SEEK_SET as _;
        lock.l_start = start as _;
        lock.l_len = length as _;
        match libc::fcntl(file.as_raw_fd(), command, &mut lock) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(lock),
        }
    }
}

fn attach(config: Config) -> io::Result<Process> {
    let path = Path::new(&config.dir).join("fabric");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let fabric_bytes = size_of::<Fabric>().next_multiple_of(4096);
    let beyond = PROCESSES as u64;
    file_lock(&file, libc::F_SETLKW, libc::F_WRLCK, beyond, 1)?;
    file.set_len((fabric_bytes + HEAP_BYTES) as u64)?;
    // SAFETY: a new mapping of a file that has this size.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            fabric_bytes + HEAP_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is large enough, never unmapped, and all zero is valid for both types.
    let (fabric, words): (&'static Fabric, &'static [AtomicU64]) = unsafe {
        let heap = base.cast::<u8>().add(fabric_bytes).cast();
        (
            &*base.cast::<Fabric>(),
            std::slice::from_raw_parts(heap, HEAP_BYTES / 8),
        )
    };
    if fabric.magic.load(Acquire) == 0 {
        fabric.allocation.init();
        fabric.atomics.iter().for_each(crate::shm::Lock::init);
        fabric.landings.iter().for_each(|landings| landings.lock.init());
        fabric.magic.store(MAGIC, Release);
    } else if fabric.magic.load(Acquire) != MAGIC {
        return Err(io::Error::other("the fabric is of another version of the emulator"));
    }
    // SAFETY: plain calls; other processes of the user may copy from and to this one.
    let socket = unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::MAX);
        libc::socket(
            libc::AF_UNIX,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            0,
        )
    };
    if socket == -1 {
        return Err(io::Error::last_os_error());
    }
    let mut process = Process {
        faults: Faults::new(&config),
        config,
        fabric,
        words,
        slot: 0,
        pid: std::process::id() as i32,
        nic: Nic::default(),
        bus: Nic::default(),
        // SAFETY: a new descriptor.
        socket: unsafe { OwnedFd::from_raw_fd(socket) },
        watch: OnceLock::new(),
        registrations: AtomicU64::new(0),
        pinned: AtomicU64::new(0),
        file,
    };
    process.take_slot()?;
    file_lock(&process.file, libc::F_SETLK, libc::F_UNLCK, beyond, 1)?;
    Ok(process)
}

impl Process {
    /// Takes a slot, after freeing those of dead processes with all that they had.
    fn take_slot(&mut self) -> io::Result<()> {
        for slot in 0..PROCESSES as u32 {
            if self.fabric.pids[slot as usize].load(Relaxed) != 0 && !self.alive(slot) {
                crate::reclaim::reclaim(self, slot);
                self.fabric.pids[slot as usize].store(0, Relaxed);
            }
        }
        let free = self.fabric.pids.iter().position(|pid| pid.load(Relaxed) == 0);
        self.slot = free.ok_or_else(|| io::Error::other("too many processes"))? as u32;
        self.faults.reseed(u64::from(self.slot));
        file_lock(&self.file, libc::F_SETLK, libc::F_WRLCK, u64::from(self.slot), 1)?;
        self.fabric.pids[self.slot as usize].store(self.pid as u32, Relaxed);
        Ok(())
    }

    /// Whether the process of a slot still exists; zombies do not.
    pub fn alive(&self, slot: u32) -> bool {
        slot == self.slot && self.fabric.pids[slot as usize].load(Relaxed) == self.pid as u32
            || file_lock(&self.file, libc::F_GETLK, libc::F_WRLCK, u64::from(slot), 1)
                .is_ok_and(|lock| lock.l_type != libc::F_UNLCK as libc::c_short)
    }

    pub fn pid_of(&self, slot: u32) -> i32 {
        self.fabric.pids[slot as usize].load(Relaxed) as i32
    }

    pub fn allocation(&self) -> Guard<'static> {
        self.fabric.allocation.lock()
    }

    /// Makes room for a ring and sets it. None: the heap is full.
    pub fn set_ring(&self, ring: &crate::shm::Ring, capacity: u32, stride: u32) -> Option<()> {
        let _guard = self.allocation();
        let bytes = crate::shm::Ring::bytes(capacity.max(1), stride);
        let offset = self.fabric.heap.take(self.words, bytes)?;
        ring.set(offset, capacity.max(1), stride);
        Some(())
    }

    /// Frees a ring's room. The caller holds `allocation`.
    pub fn free_ring(&self, ring: &crate::shm::Ring, stride: u32) {
        if ring.capacity() != 0 {
            self.fabric.heap.give(
                self.words,
                ring.offset(),
                crate::shm::Ring::bytes(ring.capacity(), stride),
            );
            ring.set(0, 0, 1);
        }
    }
}

/// CLOCK_MONOTONIC in nanoseconds, which all processes share.
pub fn now_ns() -> u64 {
    // SAFETY: the call writes the struct.
    unsafe {
        let mut time = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}
