use super::*;

const HERE: Place = Place::LIBRARY;

#[test]
fn blocks_are_aligned_and_apart() {
    for align in [1, 8, 16, 64, 4096] {
        for bytes in [0, 1, 7, 64, 5000] {
            let block = allocate(bytes, align, HERE);
            assert!(!block.is_null() && block as usize % align == 0);
            // SAFETY: as large as asked for, and freed once.
            unsafe {
                std::slice::from_raw_parts_mut(block, bytes).fill(7);
                check_block(block, HERE);
                assert_eq!(size_of_block(block, HERE), bytes);
                free(block, HERE);
            }
        }
    }
    assert!(allocate(usize::MAX - 8, 8, HERE).is_null());
}

#[test]
fn damage_is_found() {
    let found = |spoil: fn(*mut u8)| {
        let block = allocate(24, 8, HERE);
        let header = block.wrapping_sub(HEADER).cast::<Header>();
        // SAFETY: the block's own memory, guards included, put back before it is freed. The lock
        // keeps other tests' checks away.
        unsafe {
            let _heap = locked();
            let saved = std::slice::from_raw_parts(block.wrapping_sub(HEADER), HEADER + 24 + TAIL).to_vec_raw();
            spoil(block);
            let result = damage(header, None).map(|d| d.what);
            ptr::copy_nonoverlapping(saved.as_ptr(), block.wrapping_sub(HEADER), saved.len());
            result
        }
    };
    assert_eq!(found(|_| ()), None);
    // SAFETY: guard bytes of a live block.
    assert!(found(|b| unsafe { *b.add(24) ^= 1 }).is_some_and(|w| w.contains("past")));
    // SAFETY: as above.
    assert!(found(|b| unsafe { *b.sub(1) ^= 1 }).is_some_and(|w| w.contains("before")));
}

/// A copy that does not come from the allocator under test, whose lock is held.
trait Raw {
    fn to_vec_raw(&self) -> [u8; HEADER + 24 + TAIL];
}
impl Raw for [u8] {
    fn to_vec_raw(&self) -> [u8; HEADER + 24 + TAIL] {
        let mut copy = [0; HEADER + 24 + TAIL];
        copy.copy_from_slice(self);
        copy
    }
}

#[test]
fn patterns() {
    use std::mem::MaybeUninit;
    for (text, bytes) in [
        ("7", [7; 8]),
        ("255", [255; 8]),
        ("256", 256_i64.to_ne_bytes()),
        ("-1", [255; 8]),
        ("0x0", [0; 8]),
    ] {
        let mut memory = [MaybeUninit::new(1); 19];
        let fill = Fill::parse(text).unwrap();
        fill.write(&mut memory);
        // SAFETY: all bytes were initialised.
        let memory = memory.map(|byte| unsafe { byte.assume_init() });
        assert!(fill.covers(&memory));
        assert_eq!(memory[8..16], bytes, "{text}");
        assert_eq!(memory[16..], bytes[..3], "{text}");
    }
    assert!(Fill::parse("qnan").is_ok() && Fill::parse("SNaN") == Fill::parse("NAN"));
    assert_ne!(Fill::parse("qNAN"), Fill::parse("NAN"));
    assert!(Fill::parse("nothing").is_err() && Fill::parse("").is_err());
}

#[test]
fn counters() {
    let before = stats();
    let block = allocate(1000, 8, HERE);
    // SAFETY: just allocated.
    unsafe { free(block, HERE) };
    let after = stats();
    // Other tests allocate at the same time.
    assert!(after.allocated_bytes >= before.allocated_bytes + 1000);
    assert!(after.freed_objects > before.freed_objects);
    assert!(after.live_bytes_max >= 1000);
}
