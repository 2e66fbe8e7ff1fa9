//! `GEX_DT_*` and `GEX_OP_*` of remote atomics (GASNet-EX 0.19, "Data types for atomics and
//! reductions", "Operation codes").

#![forbid(unsafe_code)]
#![allow(missing_docs)]

pub const I32: u32 = 0x1;
pub const U32: u32 = 0x2;
pub const I64: u32 = 0x4;
pub const U64: u32 = 0x8;
pub const FLT: u32 = 0x10;
pub const DBL: u32 = 0x20;

pub const AND: u32 = 0x1;
pub const OR: u32 = 0x2;
pub const XOR: u32 = 0x4;
pub const ADD: u32 = 0x8;
pub const SUB: u32 = 0x10;
pub const MULT: u32 = 0x20;
pub const MIN: u32 = 0x40;
pub const MAX: u32 = 0x80;
pub const INC: u32 = 0x100;
pub const DEC: u32 = 0x200;
pub const SET: u32 = 0x400;
pub const CAS: u32 = 0x800;
pub const SWAP: u32 = fetch(SET);
pub const FCAS: u32 = fetch(CAS);
pub const GET: u32 = 0x800_0000;

/// The fetching variants of `ops`.
pub const fn fetch(ops: u32) -> u32 {
    ops << 15
}

/// Upper bound of the bit numbers of operations.
pub const OPERATION_BITS: usize = 28;

const BITWISE: u32 = AND | OR | XOR;
const UNARY: u32 = INC | DEC;
const NON_FETCHING: u32 = BITWISE | ADD | SUB | MULT | MIN | MAX | UNARY | SET | CAS;
const FETCHING: u32 = fetch(NON_FETCHING) | GET;

/// The operations of remote atomics on `dt`; 0 if `dt` is not exactly one built-in type.
pub const fn operations(dt: u32) -> u32 {
    match dt {
        I32 | U32 | I64 | U64 => NON_FETCHING | FETCHING,
        FLT | DBL => (NON_FETCHING | FETCHING) & !(BITWISE | fetch(BITWISE)),
        _ => 0,
    }
}

/// Bytes of a value of type `dt`.
pub const fn bytes(dt: u32) -> usize {
    if dt & (I64 | U64 | DBL) != 0 {
        8
    } else {
        4
    }
}

/// Whether `op` returns the old value to the initiator.
#[inline]
pub const fn is_fetching(op: u32) -> bool {
    op & FETCHING != 0
}

/// Number of operands of `op`.
pub const fn operands(op: u32) -> usize {
    if op & (GET | UNARY | fetch(UNARY)) != 0 {
        0
    } else if op & (CAS | FCAS) != 0 {
        2
    } else {
        1
    }
}

/// The C name of a type.
pub const fn type_name(dt: u32) -> &'static str {
    match dt {
        I32 => "GEX_DT_I32",
        U32 => "GEX_DT_U32",
        I64 => "GEX_DT_I64",
        U64 => "GEX_DT_U64",
        FLT => "GEX_DT_FLT",
        DBL => "GEX_DT_DBL",
        _ => "not a type of remote atomics",
    }
}

/// The C name of an operation, without the prefix.
pub fn operation_name(op: u32) -> &'static str {
    const PLAIN: [&str; 12] = [
        "AND", "OR", "XOR", "ADD", "SUB", "MULT", "MIN", "MAX", "INC", "DEC", "SET", "CAS",
    ];
    const FETCH: [&str; 12] = [
        "FAND", "FOR", "FXOR", "FADD", "FSUB", "FMULT", "FMIN", "FMAX", "FINC", "FDEC", "SWAP", "FCAS",
    ];
    match op {
        GET => "GET",
        _ if !op.is_power_of_two() => "unknown",
        _ if op < fetch(AND) => PLAIN.get(op.trailing_zeros() as usize).copied().unwrap_or("unknown"),
        _ => FETCH
            .get((op >> 15).trailing_zeros() as usize)
            .copied()
            .unwrap_or("unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_agree_with_the_header() {
        assert_eq!(
            (SWAP, FCAS, fetch(AND), fetch(DEC)),
            (0x200_0000, 0x400_0000, 0x8000, 0x100_0000)
        );
        assert_eq!(operations(U64) >> OPERATION_BITS, 0);
        assert_eq!(operations(U64).count_ones(), 25);
        assert_eq!(operations(DBL).count_ones(), 19);
        assert_eq!(operations(I32 | U32) | operations(0x40) | operations(0), 0);
    }

    #[test]
    fn names_of_operations() {
        let names = [AND, CAS, fetch(AND), SWAP, FCAS, GET, fetch(GET), 0, 3, 1 << 13].map(operation_name);
        assert_eq!(
            names,
            ["AND", "CAS", "FAND", "SWAP", "FCAS", "GET", "unknown", "unknown", "unknown", "unknown"]
        );
    }

    #[test]
    fn shapes_of_operations() {
        for bit in 0..OPERATION_BITS {
            let op = 1 << bit;
            if operations(U64) & op == 0 {
                continue;
            }
            assert_eq!(is_fetching(op), bit >= 15);
            let expected = match op {
                INC | DEC | GET => 0,
                CAS | FCAS => 2,
                _ if op == fetch(INC) || op == fetch(DEC) => 0,
                _ => 1,
            };
            assert_eq!(operands(op), expected, "{op:#x}");
        }
    }
}
