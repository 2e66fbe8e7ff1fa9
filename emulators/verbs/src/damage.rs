//! Faults of a device that corrupts data: `damage` and `stale-pages`.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use emulator_common::damage::{self, corrupt, hits};
use gasnet_ibv_abi as abi;

use crate::config::Operation;
use crate::copy::{self, Pieces};
use crate::process::Process;
use crate::wqe::Wqe;

pub type Damage = damage::Damage<Kind>;

/// Operations of connected QPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Send,
    Write,
    /// Sends and writes whose data are in the work request.
    Inline,
    Read,
}

pub fn parse(text: &str) -> Result<Damage, String> {
    let kinds = [
        ("send", Kind::Send),
        ("write", Kind::Write),
        ("inline", Kind::Inline),
        ("read", Kind::Read),
    ];
    Damage::parse(text, &kinds)
}

/// The data that a device sends in place of a program's. None: no fault alters them.
pub fn altered(process: &Process, wqe: &Wqe, local: &Pieces) -> Option<Vec<u8>> {
    let kind = match wqe.operation() {
        Operation::Send | Operation::Write if wqe.flags & abi::IBV_SEND_INLINE != 0 => Kind::Inline,
        Operation::Send => Kind::Send,
        Operation::Write => Kind::Write,
        Operation::Read | Operation::Atomic => return None,
    };
    let is_damaged = hits(&process.config.damage, kind, local.bytes());
    let stale = stale(process, wqe, local);
    if !is_damaged && stale.is_empty() {
        return None;
    }
    let mut data = copy::gather(local).ok()?;
    for bytes in stale {
        data[bytes].fill(0);
    }
    if is_damaged {
        corrupt(&mut data);
    }
    Some(data)
}

/// Damages what a read has brought.
pub fn alter_read(process: &Process, local: &Pieces) {
    let bytes = local.bytes();
    if !hits(&process.config.damage, Kind::Read, bytes) {
        return;
    }
    let mut last = *local;
    last.skip(bytes - 1);
    if let Ok(mut byte) = copy::gather(&last) {
        corrupt(&mut byte);
        // The read has written there.
        let _ = copy::write(process.pid, &Pieces::of(byte.as_ptr() as u64, 1), &last);
    }
}

/// Bytes of a work request that are in pages of on-demand regions which have moved since the device
/// first read them.
fn stale(process: &Process, wqe: &Wqe, local: &Pieces) -> Vec<Range<usize>> {
    let Some(frames) = process.frames.as_ref().filter(|_| wqe.data.is_none()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut start = 0;
    let sges = wqe.sges.iter().filter(|sge| sge.length != 0);
    for (sge, piece) in sges.zip(local.slice()) {
        if is_on_demand(process, sge.lkey) {
            let parts = frames.stale(piece.iov_base as u64, piece.iov_len as u64);
            found.extend(parts.into_iter().map(|part| start + part.start..start + part.end));
        }
        start += piece.iov_len;
    }
    found
}

/// Whether a region follows the page tables.
fn is_on_demand(process: &Process, key: u32) -> bool {
    let region = process.fabric.find_mr(key);
    region.is_some_and(|mr| mr.access.load(Relaxed) & abi::IBV_ACCESS_ON_DEMAND != 0)
}
