//! Remote atomics by the NIC: the table of the manual. All go through the NIC, also those to
//! neighbours and to this process, because NICs are atomic only to themselves.
//!
//! Gemini has additions and bitwise operations on 64 bits. Aries has more, on 32 bits, too, and
//! minima and maxima of signed integers and of floating-point numbers, but not sums of doubles.

use crate::ffi::Extent;
use crate::operations::CompletionAction;
use crate::rma::OneSided;
use crate::settings::Flavour;
use gasnet_conduit::atomic_codes::{self as codes, fetch, DBL, FLT, I32, I64, U64};
use gasnet_conduit::{Atomic, Atomics, Busy};
use gasnet_conduit_util::peer_states::PeerState;
use gasnet_gni_abi::amo::{first, second, NO_FETCH, SHORT};

/// A command of the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Command {
    /// `GNI_FMA_ATOMIC*`.
    code: u32,
    operands: [u64; 2],
}

/// The operation without "fetch".
fn plain(op: u32) -> u32 {
    if op >= fetch(codes::AND) && op != codes::GET {
        op >> 15
    } else {
        op
    }
}

/// The negative of a value.
fn negative(dt: u32, value: u64) -> u64 {
    match dt {
        FLT => value ^ 1 << 31,
        DBL => value ^ 1 << 63,
        _ => value.wrapping_neg(),
    }
}

/// The command for an operation. None: the NIC has none.
fn command(flavour: Flavour, dt: u32, op: u32, operands: [u64; 2]) -> Option<Command> {
    if codes::operations(dt) & op == 0 || !op.is_power_of_two() {
        return None;
    }
    let is_float = dt & (FLT | DBL) != 0;
    let one = match dt {
        FLT => u64::from(1_f32.to_bits()),
        DBL => 1_f64.to_bits(),
        _ => 1,
    };
    let [value, other] = operands;
    // The operation of the second generation, and of the first if that has it.
    let add = |value| {
        (
            if is_float { second::FPADD } else { second::IADD },
            Some(first::ADD),
            value,
        )
    };
    let (code, old_code, value) = match plain(op) {
        codes::SET => (second::SWAP, None, value),
        codes::GET => (second::AND, Some(first::AND), u64::MAX),
        codes::CAS => (second::CSWAP, Some(first::CSWAP), value),
        codes::ADD => add(value),
        codes::SUB => add(negative(dt, value)),
        codes::INC => add(one),
        codes::DEC => add(negative(dt, one)),
        codes::AND => (second::AND, Some(first::AND), value),
        codes::OR => (second::OR, Some(first::OR), value),
        codes::XOR => (second::XOR, Some(first::XOR), value),
        codes::MIN if is_float => (second::FPMIN, None, value),
        codes::MAX if is_float => (second::FPMAX, None, value),
        codes::MIN if matches!(dt, I32 | I64) => (second::IMIN, None, value),
        codes::MAX if matches!(dt, I32 | I64) => (second::IMAX, None, value),
        _ => return None,
    };
    // Sums of doubles by the NIC are not those of IEEE 754.
    if dt == DBL && code == second::FPADD {
        return None;
    }
    // Without a result, a compare-and-swap demands a stricter alignment.
    let no_fetch = if codes::is_fetching(op) || code == second::CSWAP {
        0
    } else {
        NO_FETCH
    };
    let is_short = codes::bytes(dt) == 4;
    let code = match flavour {
        Flavour::Aries if is_short => (code & !1) | SHORT | no_fetch,
        Flavour::Aries => code | no_fetch,
        Flavour::Gemini if matches!(dt, I64 | U64) => old_code? | no_fetch,
        Flavour::Gemini => return None,
    };
    let used = if is_short { u64::from(u32::MAX) } else { u64::MAX };
    Some(Command {
        code,
        operands: [value & used, other & used],
    })
}

impl Atomics for OneSided {
    fn supports(&self, dt: u32, op: u32) -> bool {
        command(self.settings.flavour, dt, op, [0; 2]).is_some()
    }

    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        let (posts, peer) = (&self.posts, atomic.target.peer);
        if posts.peers.states.state(peer) != PeerState::Present {
            return Err(Busy);
        }
        let Atomic { dt, op, operands, .. } = *atomic;
        let Some(Command { code, operands }) = command(self.settings.flavour, dt, op, operands) else {
            panic!("defect: an atomic that is not supported");
        };
        let mut queue = posts.lock(posts.domain_of_thread());
        let Some(mut post) = queue.take() else { return Err(Busy) };
        let (cookie, bytes) = (atomic.cookie, codes::bytes(dt));
        post.peer = peer;
        post.done = if atomic.fetched.is_null() {
            CompletionAction::Direct(cookie)
        } else {
            CompletionAction::Atomic {
                cookie,
                to: atomic.fetched as usize,
                bytes,
            }
        };
        let extent = Extent {
            local: queue.inline(&post),
            remote: self.memory.remote(&atomic.target),
            bytes,
        };
        post.atomic(code, operands, extent);
        // SAFETY: inline memory.
        unsafe { queue.try_post(post, None) }.map_err(|post| {
            queue.put_back(post);
            Busy
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::atomic_codes::U32;

    /// The table of the manual: rows are operations, columns I32 U32 I64 U64 FLT DBL.
    #[test]
    fn aries_has_what_the_manual_says() {
        let types = [I32, U32, I64, U64, FLT, DBL];
        for (op, row) in [
            (codes::SET, "YYYYYY"),
            (codes::GET, "YYYYYY"),
            (codes::CAS, "YYYYYY"),
            (codes::ADD, "YYYYYN"),
            (codes::SUB, "YYYYYN"),
            (codes::INC, "YYYYYN"),
            (codes::DEC, "YYYYYN"),
            (codes::MULT, "NNNNNN"),
            (codes::MIN, "YNYNYY"),
            (codes::MAX, "YNYNYY"),
            (codes::AND, "YYYYNN"),
            (codes::OR, "YYYYNN"),
            (codes::XOR, "YYYYNN"),
        ] {
            for (dt, yes) in types.iter().zip(row.chars()) {
                let both = [op, if op == codes::GET { op } else { fetch(op) }];
                for op in both {
                    let has = command(Flavour::Aries, *dt, op, [0; 2]).is_some();
                    assert_eq!(
                        has,
                        yes == 'Y',
                        "{} {}",
                        codes::operation_name(op),
                        codes::type_name(*dt)
                    );
                }
            }
        }
    }

    #[test]
    fn gemini_has_64_bits_of_the_first_generation() {
        let has = |dt, op| command(Flavour::Gemini, dt, op, [0; 2]).is_some();
        for op in [codes::GET, codes::FCAS, fetch(codes::ADD), codes::DEC, codes::XOR] {
            assert!(has(U64, op) && has(I64, op) && !has(U32, op) && !has(DBL, op));
        }
        assert!(!has(U64, codes::SET) && !has(I64, codes::MIN) && !has(I64, codes::SWAP));
    }

    #[test]
    fn commands_are_those_of_the_library() {
        let code = |dt, op| command(Flavour::Aries, dt, op, [5, 7]).unwrap();
        assert_eq!(code(U64, codes::SET).code, 0x147);
        assert_eq!(code(U32, codes::SWAP).code, 0x246);
        assert_eq!(code(I32, fetch(codes::MIN)).code, 0x250);
        assert_eq!(
            code(I64, codes::CAS),
            Command {
                code: 0x4b,
                operands: [5, 7]
            }
        );
        assert_eq!(code(FLT, codes::ADD).code, 0x35c);
        assert_eq!(code(U32, codes::DEC).operands[0], u64::from(u32::MAX));
        assert_eq!(code(FLT, codes::DEC).operands[0], u64::from((-1_f32).to_bits()));
        let gemini = command(Flavour::Gemini, U64, codes::ADD, [5, 0]).unwrap();
        assert_eq!(gemini.code, 0x108);
    }
}
