//! Reports of a provider that unauthenticated peers cause: lengths and flags from the headers of
//! their messages, messages that break off, and errors of no operation. Also what a corrupted rank
//! sends.

use crate::ends::{BROKEN, FORGED, SHORT};
use crate::ffi;
use crate::plan::{End, Plan, Stray};
use crate::queue::injected;
use crate::rules::Op;
use std::ffi::c_void;

/// Whether a word of the plan is for the message of this number: one in `every`.
fn is_due(every: Option<u64>, count: u64) -> bool {
    every.is_some_and(|every| count % every == 0)
}

/// Changes the completion of the message of this number, in the user's hands.
pub unsafe fn change(plan: &Plan, entry: &mut ffi::fi_cq_data_entry, count: u64) {
    let Some(op) = entry.op_context.cast::<Op>().as_ref() else {
        return;
    };
    let flag = u64::from(ffi::FI_MULTI_RECV);
    // ofi_rxm before 2.0 ends a buffer at a message that claims more than is left of it.
    let is_possible = !op.many || plan.end == End::Bare || entry.flags & flag != 0;
    if let Some((at, value, every)) = plan.byte {
        let first = if op.many {
            entry.buf as usize
        } else {
            op.buffers[0].address
        };
        if is_due(Some(every), count) && at < entry.len {
            *((first + at) as *mut u8) = value;
        }
    }
    if let Some((bytes, every)) = plan.claim {
        if is_possible && is_due(Some(every), count) {
            entry.len = bytes as usize;
        }
    }
    if let Some((address, every)) = plan.place {
        if is_due(Some(every), count) {
            entry.buf = address as *mut c_void;
        }
    }
    if is_due(plan.flag, count) && entry.flags & flag == 0 {
        entry.flags |= flag | FORGED;
    }
    if is_possible && is_due(plan.broken, count) {
        entry.flags |= BROKEN;
    }
    if is_possible && is_due(plan.short, count) {
        entry.flags |= SHORT;
    }
    if !op.many && is_due(plan.stale, count) {
        std::ptr::copy_nonoverlapping(op.before.as_ptr(), op.buffers[0].address as *mut u8, entry.len);
    }
}

/// The error that comes beside the message of this number.
pub fn stray(plan: &Plan, count: u64) -> Option<ffi::fi_cq_err_entry> {
    /// Something of the provider's own.
    static OWN: [u64; 64] = [0x5a5a_5a5a_5a5a_5a5a; 64];
    let (stray, every) = plan.stray?;
    let context = match stray {
        Stray::None => std::ptr::null_mut(),
        Stray::Foreign => OWN.as_ptr().cast_mut().cast(),
    };
    is_due(Some(every), count).then(|| injected(context, 0, ffi::FI_EINVAL))
}
