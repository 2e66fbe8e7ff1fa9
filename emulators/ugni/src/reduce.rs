//! Reductions of the collective engine.

use gasnet_gni_abi as abi;

/// A reduction, partly or completely done.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    pub command: abi::gni_ce_cmd_type_t,
    /// `GNI_CEMODE_*`.
    pub mode: u32,
    pub id: u64,
    pub operands: [u64; 2],
    /// A status that spoils it; 0: none.
    pub status: u8,
    /// `GNI_CE_FPE_*`.
    pub exceptions: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    And,
    Or,
    Xor,
    Add,
    FloatAdd,
    /// The extremum of the first operands, with the index of the second: (greatest wins, is float,
    /// greatest index wins ties).
    Extremum(bool, bool, bool),
}

/// Kind, and whether it is on 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command(Kind, bool);

/// None: there is no such command.
pub fn decode(command: abi::gni_ce_cmd_type_t) -> Option<Command> {
    let kind = match command | 1 {
        0x01 => Kind::And,
        0x03 => Kind::Or,
        0x05 => Kind::Xor,
        0x11 => Kind::Extremum(false, false, false),
        0x13 => Kind::Extremum(true, false, false),
        0x15 => Kind::Add,
        0x19 => Kind::Extremum(false, true, false),
        0x1b => Kind::Extremum(true, true, false),
        0x1d => Kind::FloatAdd,
        0x31 => Kind::Extremum(false, false, true),
        0x33 => Kind::Extremum(true, false, true),
        0x39 => Kind::Extremum(false, true, true),
        0x3b => Kind::Extremum(true, true, true),
        _ => return None,
    };
    Some(Command(kind, command & 1 == 0))
}

/// Whether a command reduces both operands.
pub fn takes_two(command: abi::gni_ce_cmd_type_t) -> bool {
    matches!(
        decode(command),
        Some(Command(
            Kind::And | Kind::Or | Kind::Xor | Kind::Add | Kind::FloatAdd,
            _
        ))
    )
}

impl Command {
    fn float(self, bits: u64) -> f64 {
        if self.1 {
            f64::from(f32::from_bits(bits as u32))
        } else {
            f64::from_bits(bits)
        }
    }

    fn integer(self, bits: u64) -> i64 {
        if self.1 {
            i64::from(bits as i32)
        } else {
            bits as i64
        }
    }

    fn two(self, a: u64, b: u64) -> u64 {
        match self.0 {
            Kind::And => a & b,
            Kind::Or => a | b,
            Kind::Xor => a ^ b,
            Kind::FloatAdd if self.1 => u64::from((f32::from_bits(a as u32) + f32::from_bits(b as u32)).to_bits()),
            Kind::FloatAdd => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
            Kind::Add if self.1 => u64::from((a as u32).wrapping_add(b as u32)),
            Kind::Add | Kind::Extremum(..) => a.wrapping_add(b),
        }
    }

    /// Whether `b` with its index is the winner over `a`.
    fn wins(self, a: [u64; 2], b: [u64; 2]) -> bool {
        let Kind::Extremum(greatest, is_float, greatest_index) = self.0 else {
            return false;
        };
        let order = if is_float {
            self.float(b[0]).partial_cmp(&self.float(a[0]))
        } else {
            Some(self.integer(b[0]).cmp(&self.integer(a[0])))
        };
        match order {
            Some(std::cmp::Ordering::Equal) => (b[1] > a[1]) == greatest_index && a[1] != b[1],
            Some(order) => order.is_gt() == greatest,
            None => self.float(a[0]).is_nan(),
        }
    }
}

impl Reduction {
    /// Adds the operands of one more child.
    pub fn add(&mut self, operands: [u64; 2]) {
        let Some(command) = decode(self.command) else { return };
        if let Kind::Extremum(..) = command.0 {
            if command.wins(self.operands, operands) {
                self.operands = operands;
            }
            return;
        }
        let sum = command.two(self.operands[0], operands[0]);
        if command.0 == Kind::FloatAdd {
            let value = command.float(sum);
            let finite = [self.operands[0], operands[0]]
                .iter()
                .all(|x| command.float(*x).is_finite());
            if value.is_nan() && finite || value.is_nan() {
                self.exceptions |= abi::GNI_CE_FPE_OP_INVAL;
            } else if value.is_infinite() && finite {
                self.exceptions |= abi::GNI_CE_FPE_OFLOW;
            }
        }
        self.operands[0] = sum;
        if self.mode & abi::GNI_CEMODE_TWO_OP != 0 {
            self.operands[1] = command.two(self.operands[1], operands[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduce(command: u32, operands: &[[u64; 2]]) -> [u64; 2] {
        let mut result = Reduction {
            command,
            mode: 1,
            id: 0,
            operands: operands[0],
            status: 0,
            exceptions: 0,
        };
        operands[1..].iter().for_each(|more| result.add(*more));
        result.operands
    }

    #[test]
    fn commands_reduce() {
        assert_eq!(reduce(1, &[[6, 12], [3, 4]]), [2, 4]);
        assert_eq!(reduce(0x15, &[[1, 2], [3, 4], [5, 6]]), [9, 12]);
        assert_eq!(reduce(0x14, &[[u64::from(u32::MAX), 0], [2, 0]])[0], 1);
        let float = |x: f64| x.to_bits();
        assert_eq!(reduce(0x1d, &[[float(0.5), 0], [float(2.0), 0]])[0], float(2.5));
    }

    #[test]
    fn ties_go_to_the_index_that_the_command_names() {
        let minus = -3_i64 as u64;
        assert_eq!(reduce(0x11, &[[minus, 5], [7, 1], [minus, 2]]), [minus, 2]);
        assert_eq!(reduce(0x31, &[[minus, 2], [minus, 5], [7, 9]]), [minus, 5]);
        assert_eq!(reduce(0x33, &[[minus, 2], [7, 1], [7, 0]]), [7, 1]);
        let float = |x: f64| x.to_bits();
        assert_eq!(reduce(0x1b, &[[float(-1.0), 4], [float(2.5), 3]]), [float(2.5), 3]);
    }

    #[test]
    fn only_documented_commands_exist() {
        let known = [
            0, 1, 2, 3, 4, 5, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d,
        ]
        .into_iter()
        .chain([0x30, 0x31, 0x32, 0x33, 0x38, 0x39, 0x3a, 0x3b]);
        assert_eq!(
            (0..256).filter(|c| decode(*c).is_some()).collect::<Vec<_>>(),
            known.collect::<Vec<_>>()
        );
        assert!(takes_two(0x15) && !takes_two(0x11));
    }
}
