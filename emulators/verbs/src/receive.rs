//! Posted receives, of a QP or an SRQ.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::copy::{Pieces, Sge, PIECES};
use crate::mr::{self, grant, Grant, Wanted};
use crate::process::Process;
use crate::shm::Receives;

/// A receive taken from its queue.
#[derive(Clone, Copy)]
pub struct Posted {
    pub wr_id: u64,
    sges: [Sge; PIECES],
    count: usize,
}

impl Posted {
    pub fn sges(&self) -> &[Sge] {
        &self.sges[..self.count]
    }
}

fn stride(max_sge: u32) -> u32 {
    2 + 2 * max_sge
}

/// Makes a queue. None: the heap is full.
pub fn create(process: &Process, receives: &Receives, max_wr: u32, max_sge: u32) -> Option<()> {
    receives.lock.init();
    receives.max_sge.store(max_sge, Relaxed);
    receives.outstanding.store(0, Relaxed);
    receives.ring.make(process, max_wr, stride(max_sge))
}

/// Posts a receive; `max_wr` is the limit of the queue. Err: errno.
pub fn post(process: &Process, receives: &Receives, max_wr: u32, wr_id: u64, sges: &[Sge]) -> Result<(), i32> {
    if sges.len() > receives.max_sge.load(Relaxed) as usize {
        return Err(libc::EINVAL);
    }
    let _guard = receives.lock.lock();
    if receives.outstanding.load(Relaxed) >= max_wr {
        return Err(libc::ENOMEM);
    }
    let mut record = [0; 2 + 2 * PIECES];
    record[0] = wr_id;
    record[1] = sges.len() as u64;
    for (n, sge) in sges.iter().enumerate() {
        record[2 + 2 * n] = sge.addr;
        record[3 + 2 * n] = u64::from(sge.length) | u64::from(sge.lkey) << 32;
    }
    if !receives.ring.push(process.words, &record[..2 + 2 * sges.len()]) {
        return Err(libc::ENOMEM);
    }
    receives.outstanding.fetch_add(1, Relaxed);
    mr::note_queued(process, sges, 1);
    Ok(())
}

fn decode(record: &[AtomicU64]) -> Posted {
    let mut posted = Posted {
        wr_id: record[0].load(Relaxed),
        sges: [Sge::default(); PIECES],
        count: record[1].load(Relaxed) as usize,
    };
    for n in 0..posted.count {
        let word = record[3 + 2 * n].load(Relaxed);
        posted.sges[n] = Sge {
            addr: record[2 + 2 * n].load(Relaxed),
            length: word as u32,
            lkey: (word >> 32) as u32,
        };
    }
    posted
}

/// Takes the oldest receive.
pub fn take(process: &Process, receives: &Receives) -> Option<Posted> {
    if receives.ring.is_empty() {
        return None;
    }
    let _guard = receives.lock.lock();
    let posted = decode(receives.ring.peek(process.words, 0)?);
    receives.ring.pop();
    mr::note_queued(process, posted.sges(), -1);
    Some(posted)
}

/// Forgets what is posted (RESET).
pub fn clear(process: &Process, receives: &Receives) {
    let _guard = receives.lock.lock();
    for record in (0..receives.ring.len()).filter_map(|n| receives.ring.peek(process.words, n)) {
        mr::note_queued(process, decode(record).sges(), -1);
    }
    receives.ring.clear();
    receives.outstanding.store(0, Relaxed);
}

/// The memory behind SGEs, with the grants that keep it registered.
pub struct Memory<'a> {
    pub pieces: Pieces,
    grants: [Option<Grant<'a>>; PIECES],
}

impl Memory<'_> {
    /// Whether a region of it follows the page tables.
    pub fn is_on_demand(&self) -> bool {
        self.grants.iter().flatten().any(Grant::is_on_demand)
    }
}

/// Looks the keys of SGEs up. None: a protection error. Empty SGEs need no key.
pub fn memory<'a>(process: &'a Process, sges: &[Sge], device: u32, pd: u32, access: u32) -> Option<Memory<'a>> {
    let mut memory = Memory {
        pieces: Pieces::default(),
        grants: [const { None }; PIECES],
    };
    for (sge, place) in sges.iter().zip(&mut memory.grants) {
        if sge.length != 0 {
            let bytes = u64::from(sge.length);
            let grant = grant(
                process,
                &Wanted {
                    device,
                    pd,
                    key: sge.lkey,
                    addr: sge.addr,
                    bytes,
                    access,
                },
            )?;
            if !grant.is_paged(process, bytes) {
                return None;
            }
            memory.pieces.push(grant.addr, bytes);
            *place = Some(grant);
        }
    }
    Some(memory)
}
