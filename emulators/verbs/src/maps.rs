//! What this process has mapped, as `/proc/self/maps` says.

use std::fs;

/// A range of addresses, and its rights as "rw-p".
struct Range<'a> {
    from: u64,
    to: u64,
    rights: &'a str,
}

/// The range of a line.
fn range(line: &str) -> Option<Range<'_>> {
    let mut words = line.split_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    Some(Range {
        from: u64::from_str_radix(from, 16).ok()?,
        to: u64::from_str_radix(to, 16).ok()?,
        rights: words.next()?,
    })
}

/// Whether all of a range is mapped, and writable if it must be.
pub fn mapped(addr: u64, length: u64, write: bool) -> bool {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else {
        return true;
    };
    let mut covered = addr;
    for Range { from, to, rights } in maps.lines().filter_map(range) {
        if from <= covered && covered < to {
            if !rights.starts_with('r') || write && !rights[1..].starts_with('w') {
                return false;
            }
            covered = to;
            if covered >= addr + length {
                return true;
            }
        }
    }
    covered >= addr + length
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
        let addr = CONSTANT.as_ptr() as u64;
        assert!(mapped(addr, 8, false));
        assert!(!mapped(addr, 8, true));
        assert!(!mapped(0, 4096, false));
        assert!(!on_device(addr, 8));
    }
}
