//! Atomic memory operations: which codes exist, and what they compute.

use gasnet_gni_abi::amo::{first, second, NO_FETCH, SHORT};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Add,
    And,
    Or,
    Xor,
    /// `(mem & first) ^ second`.
    AndXor,
    Swap,
    CompareSwap,
    Min,
    Max,
    FloatMin,
    FloatMax,
    FloatAdd,
}

/// A decoded command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amo {
    pub operation: Operation,
    /// 32 bits.
    pub short: bool,
    pub fetches: bool,
    /// Second generation: Aries only.
    pub second: bool,
}

/// The second generation has this bit.
const SECOND: u32 = 0x40;

/// None: no operation has this code.
pub fn decode(command: u32) -> Option<Amo> {
    let fetches = command & NO_FETCH == 0;
    if command & SECOND == 0 {
        let operation = match command & !(NO_FETCH | first::CACHED) {
            first::ADD => Operation::Add,
            first::AND => Operation::And,
            first::OR => Operation::Or,
            first::XOR => Operation::Xor,
            first::AX => Operation::AndXor,
            first::CSWAP if fetches => Operation::CompareSwap,
            _ => return None,
        };
        return Some(Amo {
            operation,
            short: false,
            fetches,
            second: false,
        });
    }
    let short = command & SHORT != 0;
    // Bit 0 stands for 64 bits.
    if short == (command & 1 != 0) {
        return None;
    }
    let operation = match command & !(NO_FETCH | SHORT | second::CACHED) | 1 {
        second::AND => Operation::And,
        second::OR => Operation::Or,
        second::XOR => Operation::Xor,
        second::SWAP => Operation::Swap,
        second::AX => Operation::AndXor,
        second::CSWAP => Operation::CompareSwap,
        second::IMIN => Operation::Min,
        second::IMAX => Operation::Max,
        second::IADD => Operation::Add,
        second::FPMIN => Operation::FloatMin,
        second::FPMAX => Operation::FloatMax,
        second::FPADD => Operation::FloatAdd,
        _ => return None,
    };
    Some(Amo {
        operation,
        short,
        fetches,
        second: true,
    })
}

impl Amo {
    /// Bytes of the operand.
    pub fn bytes(self) -> u64 {
        if self.short {
            4
        } else {
            8
        }
    }

    /// Alignment of the target: two operands that are not fetched need twice the usual one.
    pub fn alignment(self) -> u64 {
        let two = matches!(self.operation, Operation::AndXor | Operation::CompareSwap);
        self.bytes() << u32::from(two && !self.fetches)
    }

    /// The new value of the target.
    pub fn apply(self, old: u64, one: u64, two: u64) -> u64 {
        let mask = if self.short { u64::from(u32::MAX) } else { u64::MAX };
        let [old, one, two] = [old, one, two].map(|operand| operand & mask);
        let integer = |bits: u64| {
            if self.short {
                i64::from(bits as i32)
            } else {
                bits as i64
            }
        };
        // Twice the precision: the result is rounded as that of 32 bits.
        let float = |operation: fn(f64, f64) -> f64| {
            if self.short {
                let [a, b] = [old, one].map(|bits| f64::from(f32::from_bits(bits as u32)));
                return u64::from((operation(a, b) as f32).to_bits());
            }
            operation(f64::from_bits(old), f64::from_bits(one)).to_bits()
        };
        let new = match self.operation {
            Operation::Add => old.wrapping_add(one),
            Operation::And => old & one,
            Operation::Or => old | one,
            Operation::Xor => old ^ one,
            Operation::AndXor => (old & one) ^ two,
            Operation::Swap => one,
            Operation::CompareSwap if old == one => two,
            Operation::CompareSwap => old,
            Operation::Min => integer(old).min(integer(one)) as u64,
            Operation::Max => integer(old).max(integer(one)) as u64,
            Operation::FloatMin => float(f64::min),
            Operation::FloatMax => float(f64::max),
            Operation::FloatAdd => float(|a, b| a + b),
        };
        new & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes of the fact sheet: fetching, on 64 bits, with the operation.
    const SECOND_GENERATION: [(u32, Operation); 12] = [
        (0x41, Operation::And),
        (0x43, Operation::Or),
        (0x45, Operation::Xor),
        (0x47, Operation::Swap),
        (0x49, Operation::AndXor),
        (0x4b, Operation::CompareSwap),
        (0x51, Operation::Min),
        (0x53, Operation::Max),
        (0x55, Operation::Add),
        (0x59, Operation::FloatMin),
        (0x5b, Operation::FloatMax),
        (0x5d, Operation::FloatAdd),
    ];

    #[test]
    fn exactly_the_documented_codes_exist() {
        let mut known = Vec::new();
        for (code, operation) in SECOND_GENERATION {
            // The order of the table: F, F_S, F_C, F_SC, then the same without fetch.
            for (bits, short, fetches) in [
                (code, false, true),
                (code + 0x1ff, true, true),
                (code + 0x20, false, true),
                (code + 0x21f, true, true),
                (code + 0x100, false, false),
                (code + 0x2ff, true, false),
                (code + 0x120, false, false),
                (code + 0x31f, true, false),
            ] {
                let expected = Amo {
                    operation,
                    short,
                    fetches,
                    second: true,
                };
                assert_eq!(decode(bits), Some(expected), "{bits:x}");
                known.push(bits);
            }
        }
        known.extend([8, 9, 10, 11, 12, 13].iter().flat_map(|c| [*c, c + 0x10]));
        known.extend([8, 9, 10, 11, 12].iter().flat_map(|c| [c + 0x100, c + 0x110]));
        for code in 0..0x1_0000 {
            assert_eq!(decode(code).is_some(), known.contains(&code), "{code:x}");
        }
        assert_eq!(decode(0xffff), None);
    }

    #[test]
    fn operations_compute() {
        let amo = |code: u32| decode(code).unwrap();
        assert_eq!(amo(0x0d).apply(5, 5, 9), 9);
        assert_eq!(amo(0x0d).apply(6, 5, 9), 6);
        assert_eq!(amo(0x24c - 2).apply(5 | 1 << 40, 5, 9), 9);
        assert_eq!(amo(0x51).apply(u64::MAX, 1, 0), u64::MAX, "signed");
        assert_eq!(
            amo(0x5d).apply(1.5_f64.to_bits(), 2.0_f64.to_bits(), 0),
            3.5_f64.to_bits()
        );
        assert_eq!(amo(0x49).apply(0b1100, 0b0110, 0b0001), 0b0101);
    }

    #[test]
    fn two_operands_without_fetch_need_more_alignment() {
        assert_eq!(decode(0x14b).unwrap().alignment(), 16);
        assert_eq!(decode(0x34a).unwrap().alignment(), 8);
        assert_eq!(decode(0x4b).unwrap().alignment(), 8);
        assert_eq!(decode(0x10c).unwrap().alignment(), 16);
    }
}
