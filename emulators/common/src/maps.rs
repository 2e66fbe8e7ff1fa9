//! Mappings of this process, from `/proc/self/maps`.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

/// A mapping: its addresses, its rights, and its file or purpose.
struct Range {
    from: u64,
    to: u64,
    can_read: bool,
    can_write: bool,
    is_shared: bool,
    name: String,
}

/// The range of a line.
fn range(line: &str) -> Option<Range> {
    let mut words = line.split_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    Some(Range {
        from: u64::from_str_radix(from, 16).ok()?,
        to: u64::from_str_radix(to, 16).ok()?,
        can_read: rights.starts_with('r'),
        can_write: rights[1..].starts_with('w'),
        is_shared: rights.ends_with('s'),
        name: words.nth(3).unwrap_or("").to_owned(),
    })
}

/// `struct procmap_query` of <linux/fs.h>.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    device: [u32; 2],
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;
const _: () = assert!(size_of::<ProcmapQuery>() == (PROCMAP_QUERY >> 16 & 0x3fff) as usize);
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const SHARED: u64 = 8;

/// The source of ranges.
enum Maps {
    /// A kernel from 6.11 on finds the range of an address, in a small part of the time.
    Queried(File),
    Text(String),
}

impl Maps {
    fn open() -> Option<Maps> {
        let file = File::open("/proc/self/maps").ok()?;
        // The kernel knows the request if it finds nothing there.
        let is_known = match query(&file, u64::MAX, &mut []) {
            Err(errno) => errno == libc::ENOENT,
            Ok(_) => true,
        };
        if is_known {
            Some(Maps::Queried(file))
        } else {
            Maps::read()
        }
    }

    fn read() -> Option<Maps> {
        fs::read_to_string("/proc/self/maps").ok().map(Maps::Text)
    }

    /// The mapping that has an address.
    fn at(&self, addr: u64) -> Option<Range> {
        match self {
            Maps::Queried(file) => {
                let mut name = [0; libc::PATH_MAX as usize];
                query(file, addr, &mut name).ok()
            }
            Maps::Text(text) => {
                let has_it = |range: &Range| range.from <= addr && addr < range.to;
                text.lines().filter_map(range).find(has_it)
            }
        }
    }
}

/// Asks the kernel for the mapping that has an address. Err: errno; ENOENT if none has it.
fn query(file: &File, addr: u64, name: &mut [u8]) -> Result<Range, i32> {
    let mut query = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_addr: addr,
        vma_name_size: name.len() as u32,
        vma_name_addr: if name.is_empty() { 0 } else { name.as_mut_ptr() as u64 },
        ..ProcmapQuery::default()
    };
    // SAFETY: the struct and the name live through the call.
    if unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &mut query) } != 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    let name = &name[..(query.vma_name_size as usize).saturating_sub(1)];
    Ok(Range {
        from: query.vma_start,
        to: query.vma_end,
        can_read: query.vma_flags & READABLE != 0,
        can_write: query.vma_flags & WRITABLE != 0,
        is_shared: query.vma_flags & SHARED != 0,
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

/// Rights of a range of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapped {
    No,
    /// All of it can be read, some of it not be written.
    ReadOnly,
    Writable,
}

/// How a range is mapped. `name` is called with the name of each mapping in it.
pub fn mapped(addr: u64, length: u64, name: impl FnMut(&str)) -> Mapped {
    Maps::open().map_or(Mapped::Writable, |maps| mapped_by(&maps, addr, length, name))
}

fn mapped_by(maps: &Maps, addr: u64, length: u64, mut name: impl FnMut(&str)) -> Mapped {
    let (mut covered, end) = (addr, addr + length);
    let mut result = Mapped::Writable;
    loop {
        let Some(range) = maps.at(covered).filter(|range| range.can_read) else {
            return Mapped::No;
        };
        if !range.can_write {
            result = Mapped::ReadOnly;
        }
        name(&range.name);
        covered = range.to;
        if covered >= end {
            return result;
        }
    }
}

/// Whether all of a range is mapped, and writable if it must be.
pub fn is_mapped(addr: u64, length: u64, write: bool) -> bool {
    match mapped(addr, length, |_| ()) {
        Mapped::No => false,
        Mapped::ReadOnly => !write,
        Mapped::Writable => true,
    }
}

/// Whether a range is memory of a stand-in's device: shared, and without rights.
pub fn on_device(addr: u64, length: u64) -> bool {
    let owner = Maps::open().and_then(|maps| maps.at(addr));
    owner.is_some_and(|range| range.is_shared && !range.can_read && !range.can_write && length <= range.to - addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_memory_is_not_writable() {
        static CONSTANT: [u8; 8] = [1; 8];
        let variable = 0_u64;
        let addr = CONSTANT.as_ptr() as u64;
        for maps in [Maps::open(), Maps::read()].map(Option::unwrap) {
            let mut names = Vec::new();
            let constant = mapped_by(&maps, addr, 8, |name| names.push(name.to_string()));
            assert_eq!(constant, Mapped::ReadOnly);
            assert_eq!(names.len(), 1);
            assert!(names[0].contains("emulator_common"), "{names:?}");
            let variable = mapped_by(&maps, &raw const variable as u64, 8, |_| ());
            assert_eq!(variable, Mapped::Writable);
            assert_eq!(mapped_by(&maps, 0, 4096, |_| ()), Mapped::No);
        }
        assert!(!on_device(addr, 8));
    }

    #[test]
    fn ranges_of_several_mappings() {
        const PAGE: usize = 4096;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, of which the third page is protected and the fourth removed.
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                4 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.byte_add(2 * PAGE), PAGE, libc::PROT_READ), 0);
            assert_eq!(libc::munmap(start.byte_add(3 * PAGE), PAGE), 0);
            start as u64
        };
        for maps in [Maps::open(), Maps::read()].map(Option::unwrap) {
            let pages = |pages: u64| mapped_by(&maps, start, pages * PAGE as u64, |_| ());
            assert_eq!(pages(2), Mapped::Writable);
            assert_eq!(pages(3), Mapped::ReadOnly);
            assert_eq!(pages(4), Mapped::No);
        }
    }
}
