//! The ends of receive buffers for many messages, in all shapes that providers have.

use crate::ffi;
use crate::plan::{End, Kind, Plan};
use crate::queue::injected;
use crate::rules::Op;

/// Marks a completion that the user gets as an error.
const CANCELED: u64 = 1 << 62;
/// The same: a message was too long.
const TRUNCATED: u64 = 1 << 63;
/// The same: the message broke off.
pub const BROKEN: u64 = 1 << 61;
/// The same: the peer sent less than it had announced.
pub const SHORT: u64 = 1 << 59;
/// Marks a message whose sender has set `FI_MULTI_RECV`.
pub const FORGED: u64 = 1 << 60;

/// Gives a completion of the provider underneath the shape of the plan. Returns the end that
/// follows it.
pub unsafe fn shape(plan: &Plan, entry: &mut ffi::fi_cq_data_entry, minimum: usize) -> Option<ffi::fi_cq_data_entry> {
    let op = entry.op_context.cast::<Op>().as_mut()?;
    if op.kind != Kind::Receive || !op.many {
        return None;
    }
    // opx: the next message comes after this one, rounded up, and a header.
    if plan.header > 0 && (entry.len + 8) / 8 * 8 + plan.header > minimum {
        violated!(
            "a message of {} bytes and a header of {} can overrun a buffer with {minimum} bytes left",
            entry.len,
            plan.header
        );
    }
    let flag = u64::from(ffi::FI_MULTI_RECV);
    if matches!(plan.end, End::Real | End::Early) {
        return None;
    }
    let base = op.buffers[0].address;
    op.arrived += entry.len;
    if entry.flags & flag != 0 {
        op.full = Some(entry.buf as usize - base + entry.len);
    }
    entry.flags &= !flag;
    let full = op.full.filter(|full| *full == op.arrived)?;
    let mut end = *entry;
    (end.op_context, end.flags, end.len, end.buf) = (op.context as _, flag, 0, std::ptr::null_mut());
    match plan.end {
        End::Any => {
            entry.flags |= flag;
            return None;
        }
        End::Left => (end.len, end.buf) = (op.buffers[0].bytes - full, (base + full) as _),
        End::Canceled => end.flags |= CANCELED,
        End::Truncated => end.flags |= TRUNCATED,
        End::Bare | End::Real | End::Early => {}
    }
    Some(end)
}

/// The error that a completion stands for.
pub fn error(entry: &ffi::fi_cq_data_entry) -> Option<ffi::fi_cq_err_entry> {
    let errno = match entry.flags & (CANCELED | TRUNCATED | BROKEN | SHORT) {
        0 => return None,
        SHORT => {
            let error = injected(entry.op_context, entry.flags & !(SHORT | FORGED), ffi::FI_ETRUNC);
            let (buf, len, olen) = (entry.buf, entry.len, entry.len / 2);
            return Some(ffi::fi_cq_err_entry {
                buf,
                len,
                olen,
                ..error
            });
        }
        BROKEN => {
            return Some(injected(
                entry.op_context,
                entry.flags & !(BROKEN | FORGED),
                ffi::FI_ENOTCONN,
            ))
        }
        CANCELED => ffi::FI_ECANCELED,
        _ => ffi::FI_ETRUNC,
    };
    let flags = ffi::FI_MSG | ffi::FI_RECV | ffi::FI_MULTI_RECV;
    Some(injected(entry.op_context, flags.into(), errno))
}
