//! What this process has mapped, as `/proc/self/maps` says.

use std::fs;

/// A range of addresses, its rights as "rw-p", and the file or purpose of the mapping.
struct Range<'a> {
    from: u64,
    to: u64,
    rights: &'a str,
    name: &'a str,
}

/// The range of a line.
fn range(line: &str) -> Option<Range<'_>> {
    let mut words = line.split_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    Some(Range {
        from: u64::from_str_radix(from, 16).ok()?,
        to: u64::from_str_radix(to, 16).ok()?,
        rights: words.next()?,
        name: words.nth(3).unwrap_or(""),
    })
}

/// What registration must know of a range of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapped {
    No,
    /// All of it can be read, some of it not be written.
    ReadOnly,
    Writable,
}

/// How a range is mapped. `name` is called with the name of each mapping in it.
pub fn mapped(addr: u64, length: u64, mut name: impl FnMut(&str)) -> Mapped {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else {
        return Mapped::Writable;
    };
    let (mut covered, end) = (addr, addr + length);
    let mut result = Mapped::Writable;
    for range in maps.lines().filter_map(range) {
        if range.from <= covered && covered < range.to {
            if !range.rights.starts_with('r') {
                return Mapped::No;
            }
            if !range.rights[1..].starts_with('w') {
                result = Mapped::ReadOnly;
            }
            name(range.name);
            covered = range.to;
            if covered >= end {
                return result;
            }
        }
    }
    Mapped::No
}

/// Whether all of a range is mapped, and writable if it must be.
pub fn is_mapped(addr: u64, length: u64, write: bool) -> bool {
    match mapped(addr, length, |_| ()) {
        Mapped::No => false,
        Mapped::ReadOnly => !write,
        Mapped::Writable => true,
    }
}

/// Whether a range is memory of a stand-in's device: shared, and nobody may touch it.
pub fn on_device(addr: u64, length: u64) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let owner = maps
        .lines()
        .filter_map(range)
        .find(|range| range.from <= addr && addr < range.to);
    owner.is_some_and(|range| range.rights == "---s" && length <= range.to - addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_memory_is_not_writable() {
        static CONSTANT: [u8; 8] = [1; 8];
        let variable = 0_u64;
        let addr = CONSTANT.as_ptr() as u64;
        let mut names = Vec::new();
        assert_eq!(mapped(addr, 8, |name| names.push(name.to_string())), Mapped::ReadOnly);
        assert_eq!(names.len(), 1);
        assert!(names[0].contains("emulator_common"), "{names:?}");
        assert_eq!(mapped(&raw const variable as u64, 8, |_| ()), Mapped::Writable);
        assert_eq!(mapped(0, 4096, |_| ()), Mapped::No);
        assert!(!on_device(addr, 8));
    }
}
