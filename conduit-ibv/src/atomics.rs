//! Remote atomics: 64-bit additions, reads and compare-and-swap by the HCA of the target. All
//! processes reach a target through its first path, hence one HCA, because HCAs are atomic only to
//! themselves.

use crate::buffers::AsLocal;
use crate::ffi::{Local, Work};
use crate::operations::CompletionAction;
use crate::rma::Operations;
use crate::send::Messages;
use gasnet_conduit::atomic_codes as codes;
use gasnet_conduit::{Atomic, Atomics, Busy};

/// The instruction of the HCA for an operation.
enum Does {
    /// Adds.
    Add(u64),
    /// Replaces the first by the second.
    Swap(u64, u64),
}

/// The operations that HCAs have.
const SUPPORTED: u32 = codes::GET
    | codes::CAS
    | codes::FCAS
    | codes::ADD
    | codes::SUB
    | codes::INC
    | codes::DEC
    | codes::fetch(codes::ADD | codes::SUB | codes::INC | codes::DEC);

fn does(op: u32, [first, second]: [u64; 2]) -> Does {
    const ADDS: u32 = codes::ADD | codes::fetch(codes::ADD);
    const SUBTRACTS: u32 = codes::SUB | codes::fetch(codes::SUB);
    const INCREMENTS: u32 = codes::INC | codes::fetch(codes::INC);
    const DECREMENTS: u32 = codes::DEC | codes::fetch(codes::DEC);
    match op {
        codes::GET => Does::Add(0),
        _ if op & ADDS != 0 => Does::Add(first),
        _ if op & SUBTRACTS != 0 => Does::Add(first.wrapping_neg()),
        _ if op & INCREMENTS != 0 => Does::Add(1),
        _ if op & DECREMENTS != 0 => Does::Add(u64::MAX),
        _ => Does::Swap(first, second),
    }
}

impl Atomics for Operations {
    fn supports(&self, dt: u32, op: u32) -> bool {
        self.has_atomics && matches!(dt, codes::I64 | codes::U64) && op & SUPPORTED == op
    }

    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        let Messages { fabric, pools, .. } = &self.messages;
        let connection = self.messages.reach(atomic.target.peer)?.ok_or(Busy)?;
        let bytes = codes::bytes(atomic.dt);
        let queue = connection.route(0);
        let Some(remote) = fabric.remote(&atomic.target, bytes, &queue) else {
            panic!("defect: an atomic on {bytes} bytes in two regions");
        };
        let mut buffer = pools.small_copies.take(fabric.domains()).ok_or(Busy)?;
        buffer.copy_to = (
            atomic.fetched as usize,
            if atomic.fetched.is_null() { 0 } else { bytes },
        );
        let local: Local = buffer.local(queue.rail, bytes);
        let work = match does(atomic.op, atomic.operands) {
            Does::Add(addend) => Work::fetch_add(&local, remote, addend),
            Does::Swap(expected, new) => Work::compare_swap(&local, remote, expected, new),
        };
        let done = CompletionAction::Atomic(atomic.cookie, buffer);
        self.post_fenced(queue, work, remote, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_additions_or_swaps() {
        let adds = |op, first| match does(op, [first, 0]) {
            Does::Add(addend) => Some(addend),
            Does::Swap(..) => None,
        };
        assert_eq!(adds(codes::GET, 9), Some(0));
        for (op, addend) in [
            (codes::ADD, 9),
            (codes::SUB, 9_u64.wrapping_neg()),
            (codes::INC, 1),
            (codes::DEC, u64::MAX),
        ] {
            assert_eq!([op, codes::fetch(op)].map(|op| adds(op, 9)), [Some(addend); 2]);
        }
        assert_eq!([codes::CAS, codes::FCAS].map(|op| adds(op, 9)), [None; 2]);
    }
}
