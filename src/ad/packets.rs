//! Remote atomics over packets: the initiator asks, the owner performs and answers. For targets
//! outside the neighbourhood, where the domain does not use the conduit's own.

use super::codes;
use super::{cpu, Call};
use crate::am::token::Token;
use crate::am::{inject, internal, join, split, Arg, Message};
use crate::event::Op;
use crate::rma::transfer::{self, TransferId};
use crate::runtime;
use crate::segment::reach;
use crate::types::Location;
use gasnet_conduit::{Busy, Class, JobRank};

/// Arguments in front of the operands: target, transfer, operation, type.
const HEAD: usize = 6;

/// Asks `peer`; what is under way is counted in `op`.
pub fn start(peer: Location, call: &Call, op: &'static Op, immediate: bool) -> Result<(), Busy> {
    let id = call.begin(op, peer.rank);
    let mut args = [0; HEAD + 4];
    args[..2].copy_from_slice(&split(call.target as u64));
    args[2..4].copy_from_slice(&split(id.0));
    args[4..HEAD].copy_from_slice(&[call.op as Arg, call.dt as Arg]);
    args[HEAD..HEAD + 2].copy_from_slice(&split(call.operands[0]));
    args[HEAD + 2..].copy_from_slice(&split(call.operands[1]));
    let used = HEAD + 2 * codes::operands(call.op);
    let message = Message::internal(Class::Request, peer, internal::AD_OPERATION, &args[..used], None);
    if immediate {
        return inject::try_send(&message).inspect_err(|_| transfer::finish(id));
    }
    inject::send(&message);
    Ok(())
}

/// A request for an atomic operation, whose shape was checked: the type has the operation, with so
/// many operands, and the target is aligned for it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Address of the value.
    pub target: usize,
    /// The initiator's name of the transfer.
    pub id: [Arg; 2],
    /// `GEX_OP_*`.
    pub op: u32,
    /// `GEX_DT_*`.
    pub dt: u32,
    /// Operands, as they travel.
    pub values: [u64; 2],
}

impl Request {
    /// From arguments of a message; None if they are malformed.
    pub fn decode(args: &[Arg]) -> Option<Self> {
        let (&[a, b, c, d, op, dt], operands) = args.split_first_chunk::<HEAD>()?;
        let (target, op, dt) = (join(a, b) as usize, op as u32, dt as u32);
        let values = match *operands {
            [] => [0; 2],
            [e, f] => [join(e, f), 0],
            [e, f, g, h] => [join(e, f), join(g, h)],
            _ => return None,
        };
        let shaped = op.is_power_of_two() && codes::operations(dt) & op != 0;
        let is_whole = operands.len() == 2 * codes::operands(op) && target % codes::bytes(dt) == 0;
        (shaped && is_whole).then_some(Self {
            target,
            id: [c, d],
            op,
            dt,
            values,
        })
    }
}

/// Owner of the target: performs the operation, and replies with the old value if the operation
/// fetches. Returns false if the message is malformed.
pub fn on_operation(token: &Token, args: &[Arg]) -> bool {
    let Some(request) = Request::decode(args) else {
        return false;
    };
    let Request {
        target,
        id: [c, d],
        op,
        dt,
        values,
    } = request;
    let bytes = codes::bytes(dt);
    let memory = runtime::get().admit(token.source.rank, token.target_ep, target, bytes);
    if memory.kind.is_some() {
        return false;
    }
    // SAFETY: the target is host memory that the sender may name, and aligned (checked); the client
    // keeps other accesses away.
    let perform = || unsafe { cpu::perform_wire(dt, target as *mut u8, op, values) };
    let Some(old) = reach::serving(token.source.rank, token.target_ep, target, bytes, perform) else {
        return false;
    };
    let value = split(old);
    let answer = [c, d, value[1], value[0]];
    let used = match (codes::is_fetching(op), bytes) {
        (false, _) => 2,
        (true, 4) => 3,
        _ => 4,
    };
    inject::reply(token, internal::AD_DONE, &answer[..used], None);
    true
}

/// Initiator: the operation is done; what is fetched follows in one or two words, low one first.
pub fn on_done(from: JobRank, args: &[Arg]) -> bool {
    let Some((&[c, d], words)) = args.split_first_chunk::<2>() else {
        return false;
    };
    let id = TransferId(join(c, d));
    let Some(to) = transfer::fetch_destination(id, from, size_of_val(words)) else {
        return false;
    };
    match *words {
        [] => {}
        // SAFETY: `fetch_destination` checked the length against that of the client's memory.
        [low] => unsafe { to.cast::<Arg>().write_unaligned(low) },
        // SAFETY: as above.
        [low, high] => unsafe { to.cast::<u64>().write_unaligned(join(high, low)) },
        _ => return false,
    }
    transfer::finish(id);
    true
}
