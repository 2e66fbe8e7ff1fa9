//! A process's place in its fabric: the mapping, its slot, and how it detects that another one
//! died.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::heap::Heap;
use crate::lock::{Guard, Lock};
use crate::table::{HasEntry, Table};

/// Most processes that use a fabric at one time.
pub const PROCESSES: usize = 4096;
/// Bytes of the heap. The file is sparse, so only what is used costs memory.
const HEAP_BYTES: usize = 16 << 30;

/// The head of every fabric. All zero but for the lock.
#[repr(C)]
pub struct Head {
    /// `Layout::MAGIC` when the locks are initialised.
    magic: AtomicU64,
    /// Guards `heap`, the tables' free places, and `pids`.
    allocation: Lock,
    heap: Heap,
    /// Processes by slot; 0: free.
    pids: [AtomicU32; PROCESSES],
}

/// The layout of a fabric: valid when all zero, except for locks.
///
/// # Safety
/// The type is `repr(C)`, all zero is valid but for locks, which `init` makes, and everything that
/// changes is atomic.
pub unsafe trait Layout {
    /// Name and version of the layout.
    const MAGIC: u64;
    fn head(&self) -> &Head;
    /// Makes the locks outside the head.
    fn init(&self);
}

/// The part of a process in a fabric.
pub struct Member<F: 'static> {
    pub fabric: &'static F,
    /// The heap, as words.
    pub words: &'static [AtomicU64],
    pub slot: u32,
    pub pid: i32,
    /// The fabric's folder.
    pub dir: String,
    /// The fabric's file. A POSIX lock on byte `slot` says that this process lives.
    file: File,
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

impl<F: Layout> Member<F> {
    /// Joins the fabric in a folder. It is never left: a fork's child joins for itself. `reclaim`
    /// frees the objects of the process of a slot, which is dead.
    pub fn join(dir: &str, reclaim: impl Fn(&Self, u32)) -> Result<Self, String> {
        let joined = Self::attach(dir).and_then(|member| {
            member.reclaim_dead(reclaim)?;
            Ok(member)
        });
        joined.map_err(|error| format!("{dir}: {error}"))
    }

    fn attach(dir: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(Path::new(dir).join("fabric"))?;
        let fabric_bytes = size_of::<F>().next_multiple_of(4096);
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
        // SAFETY: the mapping is large enough, never unmapped, and all zero is valid for both
        // types.
        let (fabric, words): (&'static F, &'static [AtomicU64]) = unsafe {
            let heap = base.cast::<u8>().add(fabric_bytes).cast();
            (&*base.cast::<F>(), std::slice::from_raw_parts(heap, HEAP_BYTES / 8))
        };
        let head = fabric.head();
        if head.magic.load(Acquire) == 0 {
            head.allocation.init();
            fabric.init();
            head.magic.store(F::MAGIC, Release);
        } else if head.magic.load(Acquire) != F::MAGIC {
            return Err(io::Error::other("the fabric is of another version of the emulator"));
        }
        // SAFETY: a plain call; other processes of the user may copy from and to this one.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::MAX) };
        let mut member = Member {
            fabric,
            words,
            slot: 0,
            pid: std::process::id() as i32,
            dir: dir.to_string(),
            file,
        };
        member.take_slot()?;
        file_lock(&member.file, libc::F_SETLK, libc::F_UNLCK, beyond, 1)?;
        Ok(member)
    }

    /// Takes a free slot. The caller holds the lock of the file.
    fn take_slot(&mut self) -> io::Result<()> {
        let pids = &self.fabric.head().pids;
        let free = pids.iter().position(|pid| pid.load(Relaxed) == 0);
        self.slot = free.ok_or_else(|| io::Error::other("too many processes"))? as u32;
        file_lock(&self.file, libc::F_SETLK, libc::F_WRLCK, u64::from(self.slot), 1)?;
        pids[self.slot as usize].store(self.pid as u32, Relaxed);
        Ok(())
    }

    /// Frees the slots of dead processes, after `reclaim` has freed all objects of each. Peers may
    /// be about to use one of these.
    fn reclaim_dead(&self, reclaim: impl Fn(&Self, u32)) -> io::Result<()> {
        let beyond = PROCESSES as u64;
        file_lock(&self.file, libc::F_SETLKW, libc::F_WRLCK, beyond, 1)?;
        for slot in 0..PROCESSES as u32 {
            if self.pid_of(slot) != 0 && !self.alive(slot) {
                reclaim(self, slot);
                self.fabric.head().pids[slot as usize].store(0, Relaxed);
            }
        }
        file_lock(&self.file, libc::F_SETLK, libc::F_UNLCK, beyond, 1).map(drop)
    }

    /// Whether the process of a slot still exists; zombies do not.
    pub fn alive(&self, slot: u32) -> bool {
        slot == self.slot && self.pid_of(slot) == self.pid
            || file_lock(&self.file, libc::F_GETLK, libc::F_WRLCK, u64::from(slot), 1)
                .is_ok_and(|lock| lock.l_type != libc::F_UNLCK as libc::c_short)
    }

    pub fn pid_of(&self, slot: u32) -> i32 {
        self.fabric.head().pids[slot as usize].load(Relaxed) as i32
    }

    pub fn allocation(&self) -> Guard<'static> {
        self.fabric.head().allocation.lock()
    }

    /// Takes a place in a table for an object of this process.
    pub fn take<T: HasEntry, const N: usize>(&self, table: &Table<T, N>) -> Option<u32> {
        let _guard = self.allocation();
        table.take(self.slot)
    }

    /// Indices of the objects of a process in a table.
    pub fn owned<T: HasEntry, const N: usize>(&self, table: &Table<T, N>, slot: u32) -> Vec<u32> {
        let _guard = self.allocation();
        table.owned(slot).collect()
    }

    /// The same, of those that have a value in a field.
    pub fn owned_with<T: HasEntry, const N: usize>(
        &self,
        table: &Table<T, N>,
        slot: u32,
        field: impl Fn(&T) -> &AtomicU32,
        value: u32,
    ) -> Vec<u32> {
        let mut owned = self.owned(table, slot);
        owned.retain(|&index| field(table.at(index)).load(Relaxed) == value);
        owned
    }

    /// The words of a block of the heap.
    pub fn block(&self, offset: u64, bytes: u64) -> &'static [AtomicU64] {
        &self.words[offset as usize / 8..][..bytes as usize / 8]
    }

    /// A block of the heap of at least `bytes` bytes. None: the heap is full.
    pub fn take_bytes(&self, bytes: u64) -> Option<u64> {
        let _guard = self.allocation();
        self.fabric.head().heap.take(self.words, bytes)
    }

    /// Gives a block back. The caller holds `allocation`.
    pub fn give_bytes(&self, offset: u64, bytes: u64) {
        self.fabric.head().heap.give(self.words, offset, bytes);
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
