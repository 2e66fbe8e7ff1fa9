//! Remote atomics by the CPU's atomic instructions, on memory that is mapped here.
//!
//! A neighbour on the owner's memory and the owner, for processes of other neighbourhoods, both use
//! [`perform`], so all operations are atomic to each other. Floating-point values are updated by
//! compare-and-swap of their bits.
//!
//! SYNC POINT ad: every operation that writes releases and every one that reads acquires, so that
//! what precedes an operation with `GEX_FLAG_AD_REL` is visible after one with `GEX_FLAG_AD_ACQ`
//! that saw its value. A GET that releases, also a comparison that fails, and a SET that acquires
//! have nothing to pair with; they get the fence that keeps them in order ([`perform`]).

use crate::flags::Flags;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{fence, AtomicI32, AtomicI64, AtomicU32, AtomicU64};

use super::codes::{
    self, fetch, ADD, AND, CAS, DEC, FCAS, GET, INC, MAX, MIN, MULT, OPERATION_BITS, OR, SET, SUB, SWAP, XOR,
};

/// Performs one operation with its operands, and returns the old value; SET returns anything.
pub type Operation<T> = fn(&<T as Number>::Cell, T, T) -> T;
/// Operations by bit number.
type Table<T> = [Option<Operation<T>>; OPERATION_BITS];

/// A type of remote atomics.
pub trait Number: Copy + 'static {
    /// The type of the target location, as the CPU sees it.
    type Cell;
    /// `GEX_DT_*`.
    const DT: u32;
    /// The operations of the type.
    const OPERATIONS: &'static Table<Self>;
    /// As it travels, in the low bytes.
    fn to_wire(self) -> u64;
    /// The reverse of `to_wire`.
    fn from_wire(bits: u64) -> Self;
}

/// A table with each function at the places of all its operations.
const fn table<T: Number>(rows: &[(u32, Operation<T>)]) -> Table<T> {
    let mut table: Table<T> = [None; OPERATION_BITS];
    let mut row = 0;
    while row < rows.len() {
        let (ops, operation) = rows[row];
        let mut bit = 0;
        while bit < OPERATION_BITS {
            if ops & (1 << bit) != 0 {
                table[bit] = Some(operation);
            }
            bit += 1;
        }
        row += 1;
    }
    table
}

/// `op` and its fetching partner.
const fn both(op: u32) -> u32 {
    op | fetch(op)
}

/// Replaces the value by a function of it, and returns the old one.
macro_rules! update {
    ($cell:ident, $old:ident => $new:expr) => {{
        let mut seen = $cell.load(Relaxed);
        loop {
            let $old = seen;
            match $cell.compare_exchange_weak(seen, $new, AcqRel, Relaxed) {
                Ok(old) => break old,
                Err(now) => seen = now,
            }
        }
    }};
}

/// Both outcomes of a comparison hold the old value.
fn either<T>(outcome: Result<T, T>) -> T {
    outcome.unwrap_or_else(|old| old)
}

macro_rules! integers {
    ($($number:ty, $cell:ty, $unsigned:ty, $dt:expr;)*) => {$(
        impl Number for $number {
            type Cell = $cell;
            const DT: u32 = $dt;
            const OPERATIONS: &'static Table<Self> = &table::<Self>(&[
                (both(AND), |cell, a, _| cell.fetch_and(a, AcqRel)),
                (both(OR), |cell, a, _| cell.fetch_or(a, AcqRel)),
                (both(XOR), |cell, a, _| cell.fetch_xor(a, AcqRel)),
                (both(ADD), |cell, a, _| cell.fetch_add(a, AcqRel)),
                (both(SUB), |cell, a, _| cell.fetch_sub(a, AcqRel)),
                (both(MULT), |cell, a, _| update!(cell, old => old.wrapping_mul(a))),
                (both(MIN), |cell, a, _| cell.fetch_min(a, AcqRel)),
                (both(MAX), |cell, a, _| cell.fetch_max(a, AcqRel)),
                (both(INC), |cell, _, _| cell.fetch_add(1, AcqRel)),
                (both(DEC), |cell, _, _| cell.fetch_sub(1, AcqRel)),
                (SET, |cell, a, _| { cell.store(a, Release); a }),
                (SWAP, |cell, a, _| cell.swap(a, AcqRel)),
                (CAS | FCAS, |cell, a, b| either(cell.compare_exchange(a, b, AcqRel, Acquire))),
                (GET, |cell, _, _| cell.load(Acquire)),
            ]);

            fn to_wire(self) -> u64 {
                u64::from(self as $unsigned)
            }

            fn from_wire(bits: u64) -> Self {
                bits as Self
            }
        }
    )*};
}

integers! {
    i32, AtomicI32, u32, codes::I32;
    u32, AtomicU32, u32, codes::U32;
    i64, AtomicI64, u64, codes::I64;
    u64, AtomicU64, u64, codes::U64;
}

/// As `update!`, on a floating-point value.
macro_rules! update_float {
    ($float:ty, $cell:ident, $old:ident => $new:expr) => {
        <$float>::from_bits(update!($cell, bits => {
            let $old = <$float>::from_bits(bits);
            <$float>::to_bits($new)
        }))
    };
}

// Comparisons are of bits, which the specification allows: a loop of GET and CAS then ends on a
// NaN, too.
macro_rules! floats {
    ($($number:ty, $cell:ty, $bits:ty, $dt:expr;)*) => {$(
        impl Number for $number {
            type Cell = $cell;
            const DT: u32 = $dt;
            const OPERATIONS: &'static Table<Self> = &table::<Self>(&[
                (both(ADD), |cell, a, _| update_float!($number, cell, old => old + a)),
                (both(SUB), |cell, a, _| update_float!($number, cell, old => old - a)),
                (both(MULT), |cell, a, _| update_float!($number, cell, old => old * a)),
                (both(MIN), |cell, a, _| update_float!($number, cell, old => if old < a { old } else { a })),
                (both(MAX), |cell, a, _| update_float!($number, cell, old => if old > a { old } else { a })),
                (both(INC), |cell, _, _| update_float!($number, cell, old => old + 1.0)),
                (both(DEC), |cell, _, _| update_float!($number, cell, old => old - 1.0)),
                (SET, |cell, a, _| { cell.store(a.to_bits(), Release); a }),
                (SWAP, |cell, a, _| Self::from_bits(cell.swap(a.to_bits(), AcqRel))),
                (CAS | FCAS, |cell, a, b| {
                    Self::from_bits(either(cell.compare_exchange(a.to_bits(), b.to_bits(), AcqRel, Acquire)))
                }),
                (GET, |cell, _, _| Self::from_bits(cell.load(Acquire))),
            ]);

            fn to_wire(self) -> u64 {
                u64::from(self.to_bits())
            }

            fn from_wire(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }
        }
    )*};
}

floats! {
    f32, AtomicU32, u32, codes::FLT;
    f64, AtomicU64, u64, codes::DBL;
}

/// Whether nothing that `op` writes may release what comes before it. A comparison that fails is a
/// read, except on x86, where its instruction is a fence.
fn is_read(op: u32) -> bool {
    op == GET || (cfg!(not(target_arch = "x86_64")) && (op == CAS || op == FCAS))
}

/// Performs `op` at `at` and returns the old value; None if the type has no such operation.
///
/// # Safety
/// `at` is mapped, aligned for `T`, and accessed by nobody but through this function meanwhile
/// (other processes included).
#[inline]
pub unsafe fn perform<T: Number>(at: *mut u8, op: u32, operands: [T; 2], flags: Flags) -> Option<T> {
    let operation = (*T::OPERATIONS.get(op.trailing_zeros() as usize)?)?;
    if is_read(op) && flags.has(Flags::AD_REL) {
        fence(SeqCst);
    }
    // SAFETY: by contract; a Cell has the size and alignment of T.
    let old = operation(unsafe { &*at.cast::<T::Cell>() }, operands[0], operands[1]);
    if op == SET && flags.has(Flags::AD_ACQ) {
        fence(SeqCst);
    }
    Some(old)
}

/// As [`perform`], for a type that is known by its code only, with values as they travel.
///
/// # Safety
/// As for [`perform`] with that type.
pub unsafe fn perform_wire(dt: u32, at: *mut u8, op: u32, operands: [u64; 2]) -> Option<u64> {
    unsafe fn typed<T: Number>(at: *mut u8, op: u32, operands: [u64; 2]) -> Option<u64> {
        // SAFETY: by contract.
        unsafe { perform::<T>(at, op, operands.map(T::from_wire), Flags::NONE) }.map(T::to_wire)
    }
    let typed = match dt {
        codes::I32 => typed::<i32>,
        codes::U32 => typed::<u32>,
        codes::I64 => typed::<i64>,
        codes::U64 => typed::<u64>,
        codes::FLT => typed::<f32>,
        codes::DBL => typed::<f64>,
        _ => return None,
    };
    // SAFETY: by contract.
    unsafe { typed(at, op, operands) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Old value as fetched, and the new value.
    fn run<T: Number>(value: T, op: u32, a: T, b: T) -> (T, T) {
        let mut memory = [value];
        let at = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the vector's memory, which nobody else uses.
        let old = unsafe { perform(at, op, [a, b], Flags::AD_ACQ | Flags::AD_REL) }.expect("an operation of the type");
        (old, memory[0])
    }

    #[test]
    fn every_operation_of_integers() {
        let rows: [(u32, u32, i32); 10] = [
            (AND, 0x8000_0005 & 0x1c, (-3) & 0x1c),
            (OR, 0x8000_0005 | 0x1c, (-3) | 0x1c),
            (XOR, 0x8000_0005 ^ 0x1c, (-3) ^ 0x1c),
            (ADD, 0x8000_0021, 25),
            (SUB, 0x7fff_ffe9, -31),
            (MULT, 0x8c, -84),
            (MIN, 0x1c, -3),
            (MAX, 0x8000_0005, 0x1c),
            (INC, 0x8000_0006, -2),
            (DEC, 0x8000_0004, -4),
        ];
        for (op, unsigned, signed) in rows {
            for op in [op, fetch(op)] {
                assert_eq!(run(0x8000_0005u32, op, 0x1c, 99), (0x8000_0005, unsigned), "{op:#x}");
                assert_eq!(run(-3i32, op, 0x1c, 99), (-3, signed), "{op:#x}");
                assert_eq!(run(-3i64, op, 0x1c, 99), (-3, i64::from(signed)), "{op:#x}");
            }
        }
        assert_eq!(run(u64::MAX, INC, 7, 7), (u64::MAX, 0));
        assert_eq!(run(i64::MIN, fetch(DEC), 7, 7), (i64::MIN, i64::MAX));
    }

    #[test]
    fn every_operation_of_floats() {
        let rows = [
            (ADD, 1.25),
            (SUB, -4.25),
            (MULT, -4.125),
            (MIN, -1.5),
            (MAX, 2.75),
            (INC, -0.5),
            (DEC, -2.5),
        ];
        for (op, new) in rows {
            for op in [op, fetch(op)] {
                assert_eq!(run(-1.5f64, op, 2.75, 99.0), (-1.5, new), "{op:#x}");
                assert_eq!(run(-1.5f32, op, 2.75, 99.0), (-1.5, new as f32), "{op:#x}");
            }
        }
        for op in [AND, fetch(AND), OR, fetch(OR), XOR, fetch(XOR)] {
            assert!(<f64 as Number>::OPERATIONS[op.trailing_zeros() as usize].is_none());
        }
    }

    fn accessors<T: Number + PartialEq + std::fmt::Debug>(x: T, y: T, z: T) {
        assert_eq!(run(x, SET, y, z).1, y);
        assert_eq!(run(x, GET, y, z), (x, x));
        assert_eq!(run(x, SWAP, y, z), (x, y));
        for op in [CAS, FCAS] {
            assert_eq!(run(x, op, x, z), (x, z));
            assert_eq!(run(x, op, y, z), (x, x));
        }
        for value in [x, y, z] {
            assert_eq!(T::from_wire(value.to_wire()), value);
        }
    }

    #[test]
    fn accessors_of_all_types() {
        accessors(1i32, -2, i32::MIN);
        accessors(1u32, 2, u32::MAX);
        accessors(1i64, -2, i64::MIN);
        accessors(1u64, 2, u64::MAX);
        accessors(1.0f32, -2.5, f32::MAX);
        accessors(1.0f64, -2.5, f64::MIN_POSITIVE);
    }

    #[test]
    fn by_code_it_is_the_same_and_other_codes_are_refused() {
        let mut memory = [u64::MAX];
        let at = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the array's memory, which nobody else uses.
        let call = |dt, op, operands| unsafe { perform_wire(dt, at, op, operands) };
        assert_eq!(
            call(codes::I32, ADD, [u64::from(u32::MAX), 0]),
            Some(u64::from(u32::MAX))
        );
        assert_eq!(call(codes::DBL, SET, [2.5f64.to_bits(), 0]), Some(2.5f64.to_bits()));
        assert_eq!(
            call(codes::DBL, fetch(MULT), [4.0f64.to_bits(), 0]),
            Some(2.5f64.to_bits())
        );
        assert_eq!(call(codes::DBL, GET, [0; 2]), Some(10.0f64.to_bits()));
        for (dt, op) in [
            (0, ADD),
            (3, ADD),
            (0x40, ADD),
            (codes::FLT, OR),
            (codes::U64, 0),
            (codes::U64, 1 << 31),
            (codes::U64, 1 << 12),
        ] {
            assert_eq!(call(dt, op, [0; 2]), None);
        }
        assert_eq!(memory[0], 10.0f64.to_bits());
    }

    #[test]
    fn a_nan_can_be_swapped_out() {
        let (old, new) = run(f64::NAN, FCAS, f64::NAN, 1.0);
        assert!(old.is_nan());
        assert_eq!(new.to_bits(), 1.0f64.to_bits());
    }
}
