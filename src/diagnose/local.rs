//! Sections with one thread and without communication.

use std::collections::BTreeMap;

use gasnet_tools::heap::{self, Place};
use gasnet_tools::{bytes as tools, number, timer};

use super::{Random, Run};

/// Counting and summing bytes, compared with plain loops; conversion of numbers to text and back.
pub fn bytes(run: &Run) {
    let mut random = Random(run.args.seed);
    for i in 0..run.args.iterations as usize {
        let mut memory = random.bytes(i % 300);
        for byte in memory.iter_mut().filter(|b| **b < 100) {
            *byte = 0;
        }
        let zeros = memory.iter().map(|&b| usize::from(b == 0)).sum();
        run.check(
            tools::zero_bytes(&memory) == zeros,
            format_args!("zero_bytes of {} bytes", memory.len()),
        );
        let word = random.word() & random.word();
        let zeros: usize = word.to_ne_bytes().iter().map(|&b| usize::from(b == 0)).sum();
        run.check(
            tools::zero_bytes_in(word) as usize == zeros,
            format_args!("zero_bytes_in({word:#x})"),
        );
        let sum = tools::checksum(&memory);
        run.check(
            sum == tools::checksum(&memory.clone()),
            format_args!("two checksums of the same bytes"),
        );
        if let Some(first) = memory.first_mut() {
            *first ^= 0x55;
            run.check(
                sum != tools::checksum(&memory),
                format_args!("the checksum misses a changed byte"),
            );
        }
        let value = random.word() as i64 >> (i % 63);
        let text = number::format_int(value, false);
        run.check(
            number::parse_int(&text, 0) == Ok(value),
            format_args!("{value} was formatted as {text}"),
        );
    }
}

/// The clock never goes back, and ticks convert to nanoseconds.
pub fn timers(run: &Run) {
    let mut last = timer::now();
    for _ in 0..run.args.iterations {
        let now = timer::now();
        run.check(now >= last, format_args!("ticks went back from {last} to {now}"));
        last = now;
    }
    run.check(
        timer::granularity_us() > 0.0,
        format_args!("the granularity of ticks is not positive"),
    );
    run.check(
        timer::overhead_us() >= 0.0,
        format_args!("reading ticks takes negative time"),
    );
    let start = (timer::now(), std::time::Instant::now());
    std::thread::sleep(std::time::Duration::from_millis(20));
    let ticks = timer::to_ns(timer::now() - start.0);
    let outside = start.1.elapsed().as_nanos() as u64;
    // The ticks were read inside the interval of the other clock, which can only be longer.
    let slack = outside / 20;
    run.check(
        ticks >= 19_000_000 && ticks <= outside + slack,
        format_args!("20 ms of sleep are {ticks} ns in ticks, {outside} ns by the system clock"),
    );
}

/// Blocks keep their contents while others are allocated and freed.
pub fn allocation(run: &Run) {
    const ALIGNS: [usize; 4] = [1, 16, 64, 4096];
    let mut random = Random(run.args.seed ^ 1);
    let mut live: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
    let release = |run: &Run, address: usize, bytes: usize, seed: u64| {
        let block = address as *mut u8;
        // SAFETY: a live block of that size, this section's own.
        let same = unsafe { std::slice::from_raw_parts(block, bytes) } == Random(seed).bytes(bytes);
        run.check(same, format_args!("a block of {bytes} bytes has changed"));
        // SAFETY: as above, freed once.
        unsafe { heap::free(block, Place::LIBRARY) };
    };
    for _ in 0..run.args.iterations {
        let (bytes, align, seed) = (random.below(3000), ALIGNS[random.below(4)], random.word());
        let block = heap::allocate(bytes, align, Place::LIBRARY);
        run.check(
            !block.is_null() && block as usize % align == 0,
            format_args!("{bytes} bytes at a multiple of {align}"),
        );
        if block.is_null() {
            break;
        }
        // SAFETY: allocated with this size.
        Random(seed).fill(unsafe { std::slice::from_raw_parts_mut(block, bytes) });
        run.check(
            live.insert(block as usize, (bytes, seed)).is_none(),
            format_args!("a live block was allocated again"),
        );
        if live.len() > 50 {
            let place = random.below(live.len());
            if let Some((&address, &(bytes, seed))) = live.iter().nth(place) {
                live.remove(&address);
                release(run, address, bytes, seed);
            }
        }
    }
    heap::check(true, Place::LIBRARY);
    for (address, (bytes, seed)) in live {
        release(run, address, bytes, seed);
    }
}

macro_rules! twins {
    ($(
        $(#[$doc:meta])*
        $module:ident $type:ty: $read:ident $set:ident $add:ident $subtract:ident $increment:ident
            $decrement:ident $test:ident $swap:ident $cas:ident;
    )*) => {$(
        $(#[$doc])*
        pub mod $module {
            use std::ffi::c_int;
            unsafe extern "C" {
                fn $read(at: *mut $type, flags: c_int) -> $type;
                fn $set(at: *mut $type, value: $type, flags: c_int);
                fn $add(at: *mut $type, value: $type, flags: c_int) -> $type;
                fn $subtract(at: *mut $type, value: $type, flags: c_int) -> $type;
                fn $increment(at: *mut $type, flags: c_int);
                fn $decrement(at: *mut $type, flags: c_int);
                fn $test(at: *mut $type, flags: c_int) -> c_int;
                fn $swap(at: *mut $type, value: $type, flags: c_int) -> $type;
                fn $cas(at: *mut $type, old: $type, new: $type, flags: c_int) -> c_int;
            }

            /// A shared number, accessed by the tools' atomics only.
            #[derive(Debug, Default)]
            pub struct Shared(std::cell::UnsafeCell<$type>);

            // SAFETY: every access is one of the atomic functions.
            unsafe impl Sync for Shared {}

            impl Shared {
                /// `gasnett_atomic*_read`.
                pub fn read(&self, flags: c_int) -> $type {
                    // SAFETY: an aligned number that lives; so in all functions below.
                    unsafe { $read(self.0.get(), flags) }
                }
                /// `gasnett_atomic*_set`.
                pub fn set(&self, value: $type, flags: c_int) {
                    // SAFETY: as above.
                    unsafe { $set(self.0.get(), value, flags) };
                }
                /// `gasnett_atomic*_add`: the new value.
                pub fn add(&self, value: $type) -> $type {
                    // SAFETY: as above.
                    unsafe { $add(self.0.get(), value, 0) }
                }
                /// `gasnett_atomic*_subtract`: the new value.
                pub fn subtract(&self, value: $type) -> $type {
                    // SAFETY: as above.
                    unsafe { $subtract(self.0.get(), value, 0) }
                }
                /// `gasnett_atomic*_increment`.
                pub fn increment(&self) {
                    // SAFETY: as above.
                    unsafe { $increment(self.0.get(), 0) };
                }
                /// `gasnett_atomic*_decrement`.
                pub fn decrement(&self) {
                    // SAFETY: as above.
                    unsafe { $decrement(self.0.get(), 0) };
                }
                /// `gasnett_atomic*_decrement_and_test`.
                pub fn decrement_and_test(&self) -> bool {
                    // SAFETY: as above.
                    unsafe { $test(self.0.get(), 0) != 0 }
                }
                /// `gasnett_atomic*_swap`: the old value.
                pub fn swap(&self, value: $type) -> $type {
                    // SAFETY: as above.
                    unsafe { $swap(self.0.get(), value, 0) }
                }
                /// `gasnett_atomic*_compare_and_swap`.
                pub fn compare_and_swap(&self, old: $type, new: $type) -> bool {
                    // SAFETY: as above.
                    unsafe { $cas(self.0.get(), old, new, 0) != 0 }
                }
            }

            /// Compares every operation with plain arithmetic.
            pub fn model(run: &super::Run, random: &mut super::Random) {
                let shared = Shared::default();
                let mut model: $type = 0;
                for i in 0..run.args.iterations {
                    let value = random.word() as $type;
                    let good = match random.below(9) {
                        0 => { shared.set(value, 0); model = value; true }
                        1 => { model = model.wrapping_add(value); shared.add(value) == model }
                        2 => { model = model.wrapping_sub(value); shared.subtract(value) == model }
                        3 => { shared.increment(); model = model.wrapping_add(1); true }
                        4 => { shared.decrement(); model = model.wrapping_sub(1); true }
                        5 => { shared.set(1, 0); model = 0; shared.decrement_and_test() }
                        6 => { let old = std::mem::replace(&mut model, value); shared.swap(value) == old }
                        7 => { let old = std::mem::replace(&mut model, value); shared.compare_and_swap(old, value) }
                        _ => !shared.compare_and_swap(model.wrapping_add(1), value),
                    };
                    let now = shared.read(0);
                    run.check(
                        good && now == model,
                        format_args!("{}: step {i}: {now}, expected {model}", stringify!($module)),
                    );
                }
            }
        }
    )*};
}

twins! {
    /// 32 bits.
    atomic32 u32: gasnett_atomic32_read gasnett_atomic32_set gasnett_atomic32_add gasnett_atomic32_subtract
        gasnett_atomic32_increment gasnett_atomic32_decrement gasnett_atomic32_decrement_and_test
        gasnett_atomic32_swap gasnett_atomic32_compare_and_swap;
    /// 64 bits.
    atomic64 u64: gasnett_atomic64_read gasnett_atomic64_set gasnett_atomic64_add gasnett_atomic64_subtract
        gasnett_atomic64_increment gasnett_atomic64_decrement gasnett_atomic64_decrement_and_test
        gasnett_atomic64_swap gasnett_atomic64_compare_and_swap;
    /// 32 bits, strong: atomic to all threads and signal handlers.
    strong32 u32: gasnett_strongatomic32_read gasnett_strongatomic32_set gasnett_strongatomic32_add
        gasnett_strongatomic32_subtract gasnett_strongatomic32_increment gasnett_strongatomic32_decrement
        gasnett_strongatomic32_decrement_and_test
        gasnett_strongatomic32_swap gasnett_strongatomic32_compare_and_swap;
    /// 64 bits, strong: atomic to all threads and signal handlers.
    strong64 u64: gasnett_strongatomic64_read gasnett_strongatomic64_set gasnett_strongatomic64_add
        gasnett_strongatomic64_subtract gasnett_strongatomic64_increment gasnett_strongatomic64_decrement
        gasnett_strongatomic64_decrement_and_test
        gasnett_strongatomic64_swap gasnett_strongatomic64_compare_and_swap;
}

/// Compares every atomic operation with plain arithmetic.
pub fn atomics(run: &Run) {
    let mut random = Random(run.args.seed ^ 2);
    atomic32::model(run, &mut random);
    atomic64::model(run, &mut random);
    strong32::model(run, &mut random);
    strong64::model(run, &mut random);
}
