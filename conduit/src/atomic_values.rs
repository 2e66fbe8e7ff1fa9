//! Remote atomics as functions of values, for those who load and store themselves: NICs in
//! software.
#![forbid(unsafe_code)]

use crate::atomic_codes::{
    self as codes, fetch, ADD, AND, CAS, DBL, DEC, FLT, GET, I32, I64, INC, MAX, MIN, MULT, OR, SET, SUB, U32, U64, XOR,
};

/// The value after `op` on a value of type `dt`, all as bits in the low bytes; None if the type has
/// no such operation.
pub fn after(dt: u32, op: u32, old: u64, operands: [u64; 2]) -> Option<u64> {
    if !op.is_power_of_two() || codes::operations(dt) & op == 0 {
        return None;
    }
    let used = if codes::bytes(dt) == 4 {
        u64::from(u32::MAX)
    } else {
        u64::MAX
    };
    let (old, operands) = (old & used, operands.map(|operand| operand & used));
    let op = if op >= fetch(AND) && op != GET { op >> 15 } else { op };
    match op {
        SET => return Some(operands[0]),
        CAS if old == operands[0] => return Some(operands[1]),
        GET | CAS => return Some(old),
        _ => {}
    }
    let (a, old32, a32) = (operands[0], old as u32, operands[0] as u32);
    match dt {
        I32 => signed(op, (old32 as i32).into(), (a32 as i32).into()).map(|new| u64::from(new as u32)),
        I64 => signed(op, old as i64, a as i64).map(|new| new as u64),
        U32 => unsigned(op, old32.into(), a32.into()).map(|new| u64::from(new as u32)),
        U64 => unsigned(op, old, a),
        FLT => float(op, f32::from_bits(old32).into(), f32::from_bits(a32).into())
            .map(|new| u64::from((new as f32).to_bits())),
        DBL => float(op, f64::from_bits(old), f64::from_bits(a)).map(f64::to_bits),
        _ => None,
    }
}

fn unsigned(op: u32, old: u64, a: u64) -> Option<u64> {
    Some(match op {
        AND => old & a,
        OR => old | a,
        XOR => old ^ a,
        ADD => old.wrapping_add(a),
        SUB => old.wrapping_sub(a),
        MULT => old.wrapping_mul(a),
        MIN => old.min(a),
        MAX => old.max(a),
        INC => old.wrapping_add(1),
        DEC => old.wrapping_sub(1),
        _ => return None,
    })
}

fn signed(op: u32, old: i64, a: i64) -> Option<i64> {
    match op {
        MIN => Some(old.min(a)),
        MAX => Some(old.max(a)),
        // The same bits as unsigned.
        _ => unsigned(op, old as u64, a as u64).map(|new| new as i64),
    }
}

/// Also of single precision: one operation in double precision, rounded, is the same.
fn float(op: u32, old: f64, a: f64) -> Option<f64> {
    Some(match op {
        ADD => old + a,
        SUB => old - a,
        MULT => old * a,
        // Of NaN and of zeros of both signs, too, as the runtime's: a domain gives the same values
        // whatever performs it.
        MIN if old < a => old,
        MAX if old > a => old,
        MIN | MAX => a,
        INC => old + 1.0,
        DEC => old - 1.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_at_their_width() {
        let old = u64::from((-3i32) as u32);
        let rows = [
            (AND, 0x1c, [0x1c & -3i32 as u32, 0x1c & -3i32 as u32]),
            (OR, 1, [old as u32 | 1; 2]),
            (XOR, 5, [old as u32 ^ 5; 2]),
            (ADD, 28, [25; 2]),
            (SUB, 0x7fff_ffff, [0x7fff_fffe; 2]),
            (MULT, 28, [-84i32 as u32; 2]),
            (MIN, 28, [-3i32 as u32, 28]),
            (MAX, 28, [28, -3i32 as u32]),
            (INC, 99, [-2i32 as u32; 2]),
            (DEC, 99, [-4i32 as u32; 2]),
        ];
        for (op, a, [as_signed, as_unsigned]) in rows {
            for op in [op, fetch(op)] {
                assert_eq!(after(I32, op, old, [a, 7]), Some(as_signed.into()), "{op:#x}");
                assert_eq!(after(U32, op, old, [a, 7]), Some(as_unsigned.into()), "{op:#x}");
            }
        }
        assert_eq!(after(U32, INC, u32::MAX.into(), [0; 2]), Some(0));
        assert_eq!(after(I64, fetch(DEC), i64::MIN as u64, [0; 2]), Some(i64::MAX as u64));
        assert_eq!(after(I64, MIN, u64::MAX, [0; 2]), Some(u64::MAX));
        assert_eq!(after(U64, MIN, u64::MAX, [0; 2]), Some(0));
    }

    #[test]
    fn floats() {
        let (single, double) = (|x: f32| u64::from(x.to_bits()), f64::to_bits);
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
                assert_eq!(
                    after(DBL, op, double(-1.5), [double(2.75), 0]),
                    Some(double(new)),
                    "{op:#x}"
                );
                assert_eq!(
                    after(FLT, op, single(-1.5), [single(2.75), 0]),
                    Some(single(new as f32)),
                    "{op:#x}"
                );
            }
        }
        for op in [AND, fetch(AND), OR, fetch(OR), XOR, fetch(XOR)] {
            assert_eq!(after(DBL, op, 0, [0; 2]), None);
        }
    }

    #[test]
    fn accessors_of_all_types() {
        for dt in [I32, U32, I64, U64, FLT, DBL] {
            assert_eq!(after(dt, GET, 5, [6, 7]), Some(5));
            for (op, old, new) in [
                (SET, 5, 6),
                (codes::SWAP, 5, 6),
                (CAS, 6, 7),
                (CAS, 5, 5),
                (codes::FCAS, 6, 7),
            ] {
                assert_eq!(after(dt, op, old, [6, 7]), Some(new));
            }
            for op in [0, 1 << 12, 1 << 31, ADD | SUB] {
                assert_eq!(after(dt, op, 5, [6, 7]), None);
            }
        }
        // Beside the low bytes of a short type anything may stand.
        assert_eq!(after(U32, CAS, 5 << 32 | 6, [7 << 32 | 6, 8 << 32 | 7]), Some(7));
        assert_eq!(after(0, ADD, 0, [0; 2]), None);
        assert_eq!(after(I32 | U32, ADD, 0, [0; 2]), None);
    }
}
