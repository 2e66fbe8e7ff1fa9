//! Remote atomics on integers. Those on floating-point numbers are left to the owner's CPU: NICs
//! differ in what MIN and MAX make of a NaN and of signed zeros.
//!
//! Every operation fetches, also where the client does not: its completion then implies that it was
//! performed.

use crate::ffi::{atomic as numbers, AtomicCode, Endpoint, ATOMIC_RESULT};
use crate::operations::{take, Kind};
use crate::rma::OneSided;
use gasnet_conduit::{atomic_codes as codes, Atomic, Atomics, Busy};

/// Types.
const TYPES: [(u32, u32); 4] = [
    (codes::I32, numbers::INT32),
    (codes::U32, numbers::UINT32),
    (codes::I64, numbers::INT64),
    (codes::U64, numbers::UINT64),
];

/// Operations of the provider that those of GASNet are made of.
const OPERATIONS: [u32; 10] = [
    numbers::BAND,
    numbers::BOR,
    numbers::BXOR,
    numbers::SUM,
    numbers::PROD,
    numbers::MIN,
    numbers::MAX,
    numbers::WRITE,
    numbers::READ,
    numbers::CSWAP,
];

/// Operand of the provider for an operation of GASNet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    /// The client's first operand.
    First,
    /// The same, negated.
    Negated,
    /// A constant.
    Constant(u64),
    /// The client's second operand; the first is what is expected.
    SecondIfFirst,
}

/// The provider's operation for `op`, and its operand.
fn translate(op: u32) -> Option<(u32, Operand)> {
    let plain = if codes::is_fetching(op) && op != codes::GET {
        op >> 15
    } else {
        op
    };
    Some(match plain {
        codes::AND => (numbers::BAND, Operand::First),
        codes::OR => (numbers::BOR, Operand::First),
        codes::XOR => (numbers::BXOR, Operand::First),
        codes::ADD => (numbers::SUM, Operand::First),
        codes::SUB => (numbers::SUM, Operand::Negated),
        codes::MULT => (numbers::PROD, Operand::First),
        codes::MIN => (numbers::MIN, Operand::First),
        codes::MAX => (numbers::MAX, Operand::First),
        codes::INC => (numbers::SUM, Operand::Constant(1)),
        codes::DEC => (numbers::SUM, Operand::Constant(u64::MAX)),
        codes::SET => (numbers::WRITE, Operand::First),
        codes::CAS => (numbers::CSWAP, Operand::SecondIfFirst),
        codes::GET => (numbers::READ, Operand::Constant(0)),
        _ => return None,
    })
}

fn datatype(dt: u32) -> Option<u32> {
    TYPES.iter().find(|(code, _)| *code == dt).map(|(_, number)| *number)
}

/// Type and operation of the provider, by bit.
fn codes_by_bit() -> impl Iterator<Item = AtomicCode> {
    let codes = |datatype| OPERATIONS.map(|op| AtomicCode { datatype, op });
    TYPES.into_iter().flat_map(move |(_, datatype)| codes(datatype))
}

/// A bit for each type and operation that the provider has. Providers differ: cxi has no product.
pub fn supported(endpoint: &Endpoint) -> u64 {
    let bits = codes_by_bit().enumerate();
    bits.fold(0, |all, (bit, code)| all | u64::from(endpoint.has_atomic(code)) << bit)
}

/// Whether these are all.
pub fn are_all(supported: u64) -> bool {
    supported == (1 << codes_by_bit().count()) - 1
}

impl Atomics for OneSided {
    fn supports(&self, dt: u32, op: u32) -> bool {
        let (Some(datatype), Some((op, _))) = (datatype(dt), translate(op)) else {
            return false;
        };
        let bit = codes_by_bit().position(|code| code == AtomicCode { datatype, op });
        bit.is_some_and(|bit| self.abilities.atomics >> bit & 1 != 0)
    }

    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        let Atomic { dt, op, operands, .. } = *atomic;
        let (Some(datatype), Some((number, operand))) = (datatype(dt), translate(op)) else {
            panic!("defect: an atomic {op:#x} on type {dt:#x}");
        };
        let link = &self.link;
        let target = self.segments.remote(&atomic.target, link.target(atomic.target.peer)?);
        let mut held = take(&self.bounces, &link.endpoint).ok_or(Busy)?;
        let bytes = codes::bytes(dt);
        let (value, expected) = match operand {
            Operand::First => (operands[0], 0),
            Operand::Negated => (operands[0].wrapping_neg(), 0),
            Operand::Constant(value) => (value, 0),
            Operand::SecondIfFirst => (operands[1], operands[0]),
        };
        let room = held.bytes(ATOMIC_RESULT);
        for (at, value) in [(0, value), (bytes, expected)] {
            if bytes == 4 {
                room[at..at + 4].copy_from_slice(&(value as u32).to_ne_bytes());
            } else {
                room[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            }
        }
        held.kind = Kind::Atomic {
            fetched: atomic.fetched as usize,
            bytes,
            result: held.address() + ATOMIC_RESULT,
        };
        held.cookie = atomic.cookie;
        held.peer = atomic.target.peer;
        let (source, code) = (held.source(bytes), AtomicCode { datatype, op: number });
        // SAFETY: operands and result are the operation's own bytes.
        let started = unsafe { link.endpoint.atomic(code, source, target, held.context()) };
        held.started(started).map_err(|(held, why)| link.abandon(held, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_translated() {
        for dt in [codes::I32, codes::U32, codes::I64, codes::U64] {
            let all = (0..codes::OPERATION_BITS).map(|bit| 1 << bit);
            for op in all.filter(|op| codes::operations(dt) & op != 0) {
                assert!(
                    translate(op).is_some_and(|(number, _)| OPERATIONS.contains(&number)),
                    "{op:#x}"
                );
            }
            assert!(datatype(dt).is_some());
        }
        assert_eq!((datatype(codes::DBL), translate(0)), (None, None));
        assert_eq!(translate(codes::SWAP), translate(codes::SET));
        assert_eq!(
            translate(codes::fetch(codes::SUB)),
            Some((numbers::SUM, Operand::Negated))
        );
    }
}
