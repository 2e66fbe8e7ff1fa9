//! The debug allocator (README, "GASNet debug malloc services"): guards around every block,
//! patterns in new and in freed memory, and a report at exit.
//!
//! A thin layer over the system's `malloc`. In the debug flavour the library's Rust allocations
//! come from here; clients call `gasnett_debug_malloc` and its variants. Every operation checks one
//! block in turn, or all blocks with `GASNET_MALLOC_EXTRACHECK`.
//!
//! Nothing here allocates from anywhere else, and nothing is printed while the lock is held: an
//! error is found under the lock and reported after its release.

mod fill;
mod report;
mod settings;

use std::ffi::{c_char, CStr};
use std::fmt;
use std::ptr;
use std::sync::TryLockError;

use gasnet_sys::atomic::{Mutex, MutexGuard};

pub use fill::Fill;
pub use report::{at_exit, write as report};
use settings::Settings;

/// The place that requested a block.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The source file, a static C string; null for blocks of the library.
    pub file: *const c_char,
    /// The line in it.
    pub line: u32,
}

impl Place {
    /// Inside the library.
    pub const LIBRARY: Self = Self {
        file: ptr::null(),
        line: 0,
    };
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_null() {
            return f.write_str("libgasnet");
        }
        // SAFETY: a string literal of the client, from the macros in gasnet_tools.h.
        let file = unsafe { CStr::from_ptr(self.file) };
        write!(f, "{}:{}", file.to_str().unwrap_or("(file)"), self.line)
    }
}

/// Precedes a block. The guard comes last, next to the first byte of the client.
#[repr(C)]
struct Header {
    previous: *mut Header,
    next: *mut Header,
    bytes: usize,
    place: Place,
    /// The address from the system's allocator.
    base: *mut u8,
    /// Padding, for a size of 64 bytes.
    _spare: u64,
    guard: u64,
}

const HEADER: usize = size_of::<Header>();
const TAIL: usize = size_of::<u64>();
const LIVE: u64 = 0x6c69_7665_b10c_a5e5;
const FREED: u64 = 0x6672_6565_b10c_dead;
const _: () = assert!(HEADER == 64);

/// Counters since the start of the process (`gasnett_heapstats_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes ever allocated.
    pub allocated_bytes: u64,
    /// Bytes freed.
    pub freed_bytes: u64,
    /// In use now.
    pub live_bytes: u64,
    /// The most that were in use at one time.
    pub live_bytes_max: u64,
    /// Blocks ever allocated.
    pub allocated_objects: u64,
    /// Blocks freed.
    pub freed_objects: u64,
    /// In use now.
    pub live_objects: u64,
    /// The most that were in use at one time.
    pub live_objects_max: u64,
    /// Bytes of guards and headers now.
    pub overhead_bytes: u64,
}

struct Heap {
    /// List of all blocks, including freed ones that are kept.
    first: *mut Header,
    /// The block to check next.
    cursor: *mut Header,
    stats: Stats,
}

// SAFETY: only the holder of the lock accesses the headers.
unsafe impl Send for Heap {}

static HEAP: Mutex<Heap> = Mutex::new(Heap {
    first: ptr::null_mut(),
    cursor: ptr::null_mut(),
    stats: Stats {
        allocated_bytes: 0,
        freed_bytes: 0,
        live_bytes: 0,
        live_bytes_max: 0,
        allocated_objects: 0,
        freed_objects: 0,
        live_objects: 0,
        live_objects_max: 0,
        overhead_bytes: 0,
    },
});

fn locked() -> MutexGuard<'static, Heap> {
    gasnet_sys::lock(&HEAP)
}

/// A damaged block.
#[derive(Clone, Copy, Debug)]
struct Damage {
    what: &'static str,
    address: usize,
    /// Size and origin, if the header is intact.
    origin: Option<(usize, Place)>,
}

/// Ends the process if a block is damaged, which was found at `when`. Not under the lock.
fn report_damage(found: Option<Damage>, when: Place) {
    let Some(Damage { what, address, origin }) = found else {
        return;
    };
    match origin {
        Some((bytes, place)) => crate::fatal::fatal(format_args!(
            "memory is corrupted: the block of {bytes} bytes at {address:#x} (from {place}) {what}; found at {when}"
        )),
        None => crate::fatal::fatal(format_args!(
            "memory is corrupted: the block at {address:#x} {what}; found at {when}"
        )),
    }
}

fn guard(state: u64, user: *const u8, bytes: usize) -> u64 {
    state ^ (user as u64).rotate_left(17) ^ (bytes as u64).rotate_left(40)
}

/// # Safety
/// `header` is readable memory of that size.
unsafe fn damage(header: *const Header, scan_freed: Option<Fill>) -> Option<Damage> {
    // SAFETY: by contract.
    let (user, h) = unsafe { (header.add(1).cast::<u8>(), header.read()) };
    let address = user as usize;
    let freed = h.guard == guard(FREED, user, h.bytes);
    if !freed && h.guard != guard(LIVE, user, h.bytes) {
        let what = "was written before its first byte, or is not a block of this allocator";
        return Some(Damage {
            what,
            address,
            origin: None,
        });
    }
    let origin = Some((h.bytes, h.place));
    // SAFETY: the guard vouches for the size, and the tail follows the block.
    let (content, tail) = unsafe {
        (
            std::slice::from_raw_parts(user, h.bytes),
            user.add(h.bytes).cast::<u64>().read_unaligned(),
        )
    };
    if tail != guard(LIVE, user, h.bytes) {
        let what = "was written past its last byte";
        return Some(Damage { what, address, origin });
    }
    if freed && scan_freed.is_some_and(|fill| !fill.covers(content)) {
        let what = "was written after it was freed";
        return Some(Damage { what, address, origin });
    }
    None
}

impl Heap {
    /// Checks the next block in turn, or all.
    fn check(&mut self, all: bool, settings: &Settings) -> Option<Damage> {
        let scan = settings.scan_freed.then_some(settings.clobber).flatten();
        let mut left = if all { usize::MAX } else { 1 };
        if all || self.cursor.is_null() {
            self.cursor = self.first;
        }
        while left > 0 && !self.cursor.is_null() {
            // SAFETY: a header in the list. If it was overwritten, its guard shows that first.
            if let Some(found) = unsafe { damage(self.cursor, scan) } {
                return Some(found);
            }
            // SAFETY: as above.
            self.cursor = unsafe { (*self.cursor).next };
            left -= 1;
        }
        None
    }

    /// # Safety
    /// `header` is initialised and not in the list.
    unsafe fn insert(&mut self, header: *mut Header) {
        // SAFETY: by contract; the headers in the list are valid.
        unsafe {
            (*header).previous = ptr::null_mut();
            (*header).next = self.first;
            if let Some(next) = self.first.as_mut() {
                next.previous = header;
            }
        }
        self.first = header;
    }

    /// # Safety
    /// `header` is in the list.
    unsafe fn remove(&mut self, header: *mut Header) {
        // SAFETY: by contract; the adjacent headers are in the list too.
        unsafe {
            let (previous, next) = ((*header).previous, (*header).next);
            if let Some(next) = next.as_mut() {
                next.previous = previous;
            }
            match previous.as_mut() {
                Some(previous) => previous.next = next,
                None => self.first = next,
            }
            if self.cursor == header {
                self.cursor = next;
            }
        }
    }

    fn count_new(&mut self, bytes: usize) {
        let s = &mut self.stats;
        s.allocated_bytes += bytes as u64;
        s.allocated_objects += 1;
        s.live_bytes += bytes as u64;
        s.live_objects += 1;
        s.live_bytes_max = s.live_bytes_max.max(s.live_bytes);
        s.live_objects_max = s.live_objects_max.max(s.live_objects);
        s.overhead_bytes += (HEADER + TAIL) as u64;
    }

    fn count_freed(&mut self, bytes: usize, kept: bool) {
        let s = &mut self.stats;
        s.freed_bytes += bytes as u64;
        s.freed_objects += 1;
        s.live_bytes -= bytes as u64;
        s.live_objects -= 1;
        if !kept {
            s.overhead_bytes -= (HEADER + TAIL) as u64;
        }
    }
}

/// Allocates `bytes` bytes at a multiple of `align` (a power of two); null if there is no memory.
/// Zero bytes give a unique address.
pub fn allocate(bytes: usize, align: usize, place: Place) -> *mut u8 {
    let settings = settings::get();
    let align = align.max(align_of::<Header>());
    let Some(total) = bytes.checked_add(HEADER + TAIL + align) else {
        return ptr::null_mut();
    };
    // SAFETY: any size is allowed; null is handled.
    let base = unsafe { libc::malloc(total) }.cast::<u8>();
    if base.is_null() {
        return base;
    }
    let start = base as usize + HEADER;
    let user = base.wrapping_add(start.next_multiple_of(align) - base as usize);
    let header = user.wrapping_sub(HEADER).cast::<Header>();
    // SAFETY: header, block and tail are within the `total` bytes just allocated; `user` is aligned
    // for a header.
    unsafe {
        header.write(Header {
            previous: ptr::null_mut(),
            next: ptr::null_mut(),
            bytes,
            place,
            base,
            _spare: 0,
            guard: guard(LIVE, user, bytes),
        });
        user.add(bytes).cast::<u64>().write_unaligned(guard(LIVE, user, bytes));
        if let Some(fill) = settings.init {
            fill.write(std::slice::from_raw_parts_mut(user.cast(), bytes));
        }
    }
    let found = {
        let mut heap = locked();
        let found = heap.check(settings.extra, settings);
        // SAFETY: just written.
        unsafe { heap.insert(header) };
        heap.count_new(bytes);
        found
    };
    report_damage(found, place);
    user
}

/// Frees a block. Null has no effect.
///
/// # Safety
/// `user` is null, or from [`allocate`] and not freed. Violations are detected where possible.
pub unsafe fn free(user: *mut u8, place: Place) {
    if user.is_null() {
        return;
    }
    let settings = settings::get();
    let header = user.wrapping_sub(HEADER).cast::<Header>();
    let found = {
        let mut heap = locked();
        // SAFETY: by contract, or at worst readable memory that is not a block.
        let found = unsafe { wrong_to_free(header) };
        if found.is_none() {
            // SAFETY: a block in the list: its guards are intact.
            unsafe { heap.release(header, settings) };
        }
        found.or_else(|| heap.check(settings.extra, settings))
    };
    report_damage(found, place);
}

/// # Safety
/// `header` is readable memory of that size.
unsafe fn wrong_to_free(header: *const Header) -> Option<Damage> {
    // SAFETY: by contract.
    let (user, h) = unsafe { (header.add(1).cast::<u8>(), header.read()) };
    if h.guard == guard(FREED, user, h.bytes) {
        let (what, address, origin) = ("is freed a second time", user as usize, Some((h.bytes, h.place)));
        return Some(Damage { what, address, origin });
    }
    // SAFETY: by contract.
    unsafe { damage(header, None) }
}

impl Heap {
    /// # Safety
    /// `header` is that of a live block.
    unsafe fn release(&mut self, header: *mut Header, settings: &Settings) {
        // SAFETY: by contract; the memory of the block is valid until `libc::free`.
        unsafe {
            let (user, bytes, base) = (header.add(1).cast::<u8>(), (*header).bytes, (*header).base);
            if let Some(fill) = settings.clobber {
                fill.write(std::slice::from_raw_parts_mut(user.cast(), bytes));
            }
            (*header).guard = guard(FREED, user, bytes);
            self.count_freed(bytes, settings.leak_all);
            if !settings.leak_all {
                self.remove(header);
                libc::free(base.cast());
            }
        }
    }
}

/// Size of a block.
///
/// # Safety
/// `user` is from [`allocate`] and not freed.
pub unsafe fn size_of_block(user: *const u8, place: Place) -> usize {
    // SAFETY: by contract.
    unsafe {
        check_block(user, place);
        (*user.wrapping_sub(HEADER).cast::<Header>()).bytes
    }
}

/// Ends the process if the block is damaged. Null is allowed.
///
/// # Safety
/// `user` is null or from [`allocate`]. Violations are detected where possible.
pub unsafe fn check_block(user: *const u8, place: Place) {
    if user.is_null() {
        return;
    }
    let found = {
        let _heap = locked();
        // SAFETY: by contract.
        unsafe { wrong_to_use(user.wrapping_sub(HEADER).cast()) }
    };
    report_damage(found, place);
}

/// # Safety
/// `header` is readable memory of that size.
unsafe fn wrong_to_use(header: *const Header) -> Option<Damage> {
    // SAFETY: by contract.
    let found = unsafe { wrong_to_free(header) }?;
    let what = if found.what == "is freed a second time" {
        "was freed"
    } else {
        found.what
    };
    Some(Damage { what, ..found })
}

/// Checks one block in turn, or all; ends the process if one is damaged.
pub fn check(all: bool, place: Place) {
    let found = locked().check(all, settings::get());
    report_damage(found, place);
}

/// Checks one block in turn, unless another thread holds the lock. Called by every poll.
pub fn poll() {
    let settings = settings::get();
    let found = match HEAP.try_lock() {
        Ok(mut heap) => heap.check(settings.extra, settings),
        Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => None,
    };
    report_damage(found, Place::LIBRARY);
}

/// The counters now.
pub fn stats() -> Stats {
    locked().stats
}

/// The allocator of the library in the debug flavour.
#[cfg(feature = "debug-checks")]
mod global {
    use super::{allocate, free, Place};
    use std::alloc::{GlobalAlloc, Layout};

    struct Checked;

    #[global_allocator]
    static CHECKED: Checked = Checked;

    // SAFETY: blocks have the requested size and alignment, are disjoint, and live until they are
    // freed; a failure is null, never a panic.
    unsafe impl GlobalAlloc for Checked {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            allocate(layout.size(), layout.align(), Place::LIBRARY)
        }

        unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
            // SAFETY: by the trait's contract the block came from `alloc`.
            unsafe { free(block, Place::LIBRARY) };
        }
    }
}

#[cfg(test)]
mod tests;
