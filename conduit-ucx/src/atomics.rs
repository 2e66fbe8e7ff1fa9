//! Remote atomics on integers. UCX has no minimum, maximum or product, and no floating-point
//! numbers: domains with those use Active Messages.
//!
//! Every operation fetches, also where the client does not: its completion then implies that it was
//! performed.

use crate::ffi::{AtomicOp, Source};
use crate::operations::{Kind, OwnedOperation};
use crate::rma::OneSided;
use gasnet_conduit::{atomic_codes as codes, Atomic, Atomics, Busy};

/// Bytes from the operand to the result.
const RESULT: usize = 8;

/// The operation of UCX for `op` with these operands: its operand, and the new value of a
/// compare-and-swap.
fn translate(op: u32, [first, second]: [u64; 2]) -> Option<(AtomicOp, u64, u64)> {
    let plain = if codes::is_fetching(op) && op != codes::GET {
        op >> 15
    } else {
        op
    };
    Some(match plain {
        codes::AND => (AtomicOp::AND, first, 0),
        codes::OR => (AtomicOp::OR, first, 0),
        codes::XOR => (AtomicOp::XOR, first, 0),
        codes::ADD => (AtomicOp::ADD, first, 0),
        codes::SUB => (AtomicOp::ADD, first.wrapping_neg(), 0),
        codes::INC => (AtomicOp::ADD, 1, 0),
        codes::DEC => (AtomicOp::ADD, u64::MAX, 0),
        codes::SET => (AtomicOp::SWAP, first, 0),
        codes::CAS => (AtomicOp::CSWAP, first, second),
        codes::GET => (AtomicOp::ADD, 0, 0),
        _ => return None,
    })
}

impl Atomics for OneSided {
    fn supports(&self, dt: u32, op: u32) -> bool {
        let integers = codes::I32 | codes::U32 | codes::I64 | codes::U64;
        dt & integers != 0 && codes::operations(dt) & op != 0 && translate(op, [0; 2]).is_some()
    }

    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        let Some((op, operand, new)) = translate(atomic.op, atomic.operands) else {
            panic!("defect: an atomic {:#x} on type {:#x}", atomic.op, atomic.dt);
        };
        let bytes = codes::bytes(atomic.dt);
        let mut held = self.bounces.take().ok_or(Busy)?;
        for (room, value) in held.bytes(2 * RESULT).chunks_exact_mut(RESULT).zip([operand, new]) {
            if bytes == 4 {
                room[..4].copy_from_slice(&(value as u32).to_ne_bytes());
            } else {
                room.copy_from_slice(&value.to_ne_bytes());
            }
        }
        let (operand, result) = (held.address(), held.address() + RESULT);
        let kind = Kind::Atomic {
            cookie: atomic.cookie,
            fetched: atomic.fetched as usize,
            result: Source { address: result, bytes },
        };
        let done = self.begin(held, kind, &atomic.target, |turn, target, held| {
            // SAFETY: operand and result are the operation's own bytes.
            unsafe { turn.atomic::<OwnedOperation>(op, target, (operand, result, bytes), held.context()) }
        })?;
        if let Some(done) = done {
            done.reap(Ok(()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_are_left_to_messages() {
        let left = codes::MIN | codes::MAX | codes::MULT;
        let left = left | codes::fetch(left);
        for op in (0..codes::OPERATION_BITS).map(|bit| 1 << bit) {
            let is_ours = codes::operations(codes::U64) & op != 0 && op & left == 0;
            assert_eq!(translate(op, [0; 2]).is_some(), is_ours, "{op:#x}");
        }
        assert_eq!(
            translate(codes::fetch(codes::SUB), [1, 0]),
            Some((AtomicOp::ADD, u64::MAX, 0))
        );
        assert_eq!(translate(codes::FCAS, [1, 2]), Some((AtomicOp::CSWAP, 1, 2)));
    }
}
