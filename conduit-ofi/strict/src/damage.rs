//! Data that a provider corrupts, and completions and updates that it loses.

use crate::domain::Domain;
use crate::ffi;
use crate::plan::{Kind, Plan};
use crate::rules::{Buffer, Op};
use emulator_common::damage::{corrupt, hits};

/// The data that a provider sends in place of a put's. None: those of the user.
pub unsafe fn altered(domain: &Domain, buffer: &Buffer) -> Option<Vec<u8>> {
    let bytes = buffer.bytes as u64;
    let is_damaged = hits(&domain.offer.plan.damage, Kind::Put, bytes);
    let frames = domain.frames.as_ref();
    let stale = frames.map_or_else(Vec::new, |frames| frames.stale(buffer.address as u64, bytes));
    if !is_damaged && stale.is_empty() {
        return None;
    }
    let mut data = std::slice::from_raw_parts(buffer.address as *const u8, buffer.bytes).to_vec();
    for bytes in stale {
        data[bytes].fill(0);
    }
    if is_damaged {
        corrupt(&mut data);
    }
    Some(data)
}

/// Damages what a get has brought.
pub unsafe fn alter_get(plan: &Plan, op: &Op) {
    let Some(buffer) = op.buffers.first().filter(|_| op.kind == Kind::Get) else {
        return;
    };
    if hits(&plan.damage, Kind::Get, buffer.bytes as u64) {
        let last = (buffer.address + buffer.bytes - 1) as *mut u8;
        corrupt(std::slice::from_mut(&mut *last));
    }
}

/// The operation of an atomic, of which one in some changes nothing.
pub fn operation(domain: &Domain, op: ffi::fi_op) -> ffi::fi_op {
    let every = domain.offer.plan.lost_update;
    match every {
        Some(every) if domain.state().count_update() % every == 0 => ffi::FI_ATOMIC_READ,
        _ => op,
    }
}
