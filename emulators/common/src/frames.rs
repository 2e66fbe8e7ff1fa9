//! Fault `stale-pages`: a device, or a provider's cache of registrations, keeps the frames that
//! pages had when it first read them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use crate::lock::locked;

const PAGE: u64 = 4096;

/// The frames of this process's pages.
pub struct Frames {
    pagemap: File,
    /// By page.
    known: Mutex<HashMap<u64, u64>>,
}

impl Frames {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            pagemap: File::open("/proc/self/pagemap")?,
            known: Mutex::default(),
        })
    }

    /// The frame of a page. None: it has none, or this process is not root, who alone sees them.
    fn of(&self, page: u64) -> Option<u64> {
        let mut entry = [0; 8];
        self.pagemap.read_exact_at(&mut entry, page * 8).ok()?;
        let (entry, present) = (u64::from_ne_bytes(entry), 1 << 63);
        let frame = entry & ((1 << 55) - 1);
        (entry & present != 0 && frame != 0).then_some(frame)
    }

    /// Forgets the frames that a buffer's pages had: it is registered anew.
    pub fn renew(&self, at: u64, bytes: u64) {
        let mut known = locked(&self.known);
        for page in at / PAGE..(at + bytes).div_ceil(PAGE) {
            match self.of(page) {
                Some(frame) => known.insert(page, frame),
                None => known.remove(&page),
            };
        }
    }

    /// The bytes of a buffer whose pages have other frames than when they were first asked for, by
    /// their place in the buffer.
    pub fn stale(&self, at: u64, bytes: u64) -> Vec<Range<usize>> {
        let mut known = locked(&self.known);
        let end = at + bytes;
        let mut found = Vec::new();
        for page in at / PAGE..end.div_ceil(PAGE) {
            let Some(frame) = self.of(page) else { continue };
            if *known.entry(page).or_insert(frame) != frame {
                let part = (page * PAGE).max(at)..((page + 1) * PAGE).min(end);
                found.push((part.start - at) as usize..(part.end - at) as usize);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_moves_is_stale() {
        let frames = Frames::new().unwrap();
        let map = |at: *mut libc::c_void, bytes: u64, flags| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
            // SAFETY: new memory, or in place of memory of this test.
            let pages = unsafe { libc::mmap(at, bytes as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            assert_ne!(pages, libc::MAP_FAILED);
            pages
        };
        let pages = map(std::ptr::null_mut(), 2 * PAGE, 0);
        let write = |page: usize| {
            // SAFETY: the pages are this test's.
            unsafe { pages.cast::<u8>().add(page * PAGE as usize).write(1) };
        };
        let (at, bytes) = (pages as u64 + 10, 2 * PAGE - 20);
        assert!(frames.stale(at, bytes).is_empty(), "nobody has written there");
        write(0);
        write(1);
        assert!(frames.stale(at, bytes).is_empty());
        let kept = map(std::ptr::null_mut(), PAGE, 0);
        // SAFETY: moves the first page elsewhere, so that its frame stays in use.
        let moved = unsafe {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            libc::mremap(pages, PAGE as usize, PAGE as usize, flags, kept)
        };
        assert_eq!(moved, kept);
        map(pages, PAGE, libc::MAP_FIXED);
        write(0);
        // SAFETY: a plain call.
        let is_root = unsafe { libc::geteuid() } == 0;
        let expected = is_root.then_some(0..PAGE as usize - 10);
        assert_eq!(frames.stale(at, bytes), Vec::from_iter(expected));
        frames.renew(at, bytes);
        assert!(frames.stale(at, bytes).is_empty());
    }
}
