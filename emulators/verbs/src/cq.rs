//! Completion queues in shared memory: whoever executes an operation appends, the owner polls.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use emulator_common::table::set;
use gasnet_ibv_abi as abi;

use crate::event;
use crate::handle::misuse;
use crate::process::{now_ns, Process};
use crate::reclaim::destroy_cq;
use crate::shm::Cq;

/// Words of a completion.
pub const STRIDE: u32 = 8;

/// The queue of the work request, whose room is freed when the completion is polled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// The send queue of a QP (key), and the number of work requests posted up to this one.
    Send(u32, u32),
    /// The receive queue of a QP (key).
    Receive(u32),
    /// An SRQ (key).
    Shared(u32),
}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub struct Cqe {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub byte_len: u32,
    pub imm: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub slid: u16,
    pub service_level: u8,
    pub from: From,
    /// Whether a CQ armed for solicited completions makes an event. Not in the record.
    pub solicited: bool,
    /// When it was appended; set by `push`.
    pub time_ns: u64,
}

impl Cqe {
    pub fn new(wr_id: u64, status: u32, opcode: u32, qp_num: u32, from: From) -> Cqe {
        Cqe {
            wr_id,
            status,
            opcode,
            byte_len: 0,
            imm: 0,
            qp_num,
            src_qp: 0,
            wc_flags: 0,
            slid: 0,
            service_level: 0,
            from,
            solicited: false,
            time_ns: 0,
        }
    }

    fn encode(&self) -> [u64; STRIDE as usize] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (kind, key, count) = match self.from {
            From::Send(key, count) => (0, key, count),
            From::Receive(key) => (1, key, 0),
            From::Shared(key) => (2, key, 0),
        };
        [
            self.wr_id,
            pair(self.status, self.opcode),
            pair(kind, self.byte_len),
            pair(self.imm, self.qp_num),
            pair(self.src_qp, self.wc_flags),
            pair(u32::from(self.slid), u32::from(self.service_level)),
            now_ns(),
            pair(key, count),
        ]
    }

    fn decode(record: &[AtomicU64]) -> Cqe {
        let low = |n: usize| record[n].load(Relaxed) as u32;
        let high = |n: usize| (record[n].load(Relaxed) >> 32) as u32;
        Cqe {
            wr_id: record[0].load(Relaxed),
            status: low(1),
            opcode: high(1),
            byte_len: high(2),
            imm: low(3),
            qp_num: high(3),
            src_qp: low(4),
            wc_flags: high(4),
            slid: low(5) as u16,
            service_level: high(5) as u8,
            from: match low(2) {
                0 => From::Send(low(7), high(7)),
                1 => From::Receive(low(7)),
                _ => From::Shared(low(7)),
            },
            solicited: false,
            time_ns: record[6].load(Relaxed),
        }
    }
}

/// The live CQ of a key.
pub fn find(process: &Process, key: u32) -> Option<&Cq> {
    process.fabric.cqs.find(key)
}

/// Appends a completion. False: the CQ has overrun, and the QP must go to the error state.
pub fn push(process: &Process, key: u32, cqe: &Cqe) -> bool {
    let Some(cq) = find(process, key) else { return true };
    let _guard = cq.entry.lock.lock();
    if cq.overrun.load(Relaxed) != 0 {
        return false;
    }
    if !cq.ring.push(process.words, &cqe.encode()) {
        if process.config.no_overrun {
            misuse(&format!("CQ of {} completions has overrun", cq.ring.capacity()));
        }
        cq.overrun.store(1, Relaxed);
        event::push(process, cq.events.load(Relaxed), (abi::IBV_EVENT_CQ_ERR, key));
        return false;
    }
    let armed = cq.armed.load(Relaxed);
    if armed == 2 || armed == 1 && (cqe.solicited || cqe.status != abi::IBV_WC_SUCCESS) {
        cq.armed.store(0, Relaxed);
        event::push(process, cq.channel.load(Relaxed), (0, key));
    }
    true
}

/// Takes up to `limit` completions; their work requests free their room. Err: the CQ has overrun.
pub fn poll(process: &Process, cq: &Cq, limit: usize, mut each: impl FnMut(&Cqe)) -> Result<usize, ()> {
    if cq.ring.is_empty() {
        return if cq.overrun.load(Relaxed) == 0 { Ok(0) } else { Err(()) };
    }
    let _guard = cq.entry.lock.lock();
    let mut taken = 0;
    while taken < limit {
        let Some(record) = cq.ring.peek(process.words, 0) else {
            break;
        };
        let cqe = Cqe::decode(record);
        cq.ring.pop();
        free_room(process, cqe.from);
        each(&cqe);
        taken += 1;
    }
    Ok(taken)
}

fn free_room(process: &Process, from: From) {
    match from {
        From::Send(key, count) => {
            if let Some(qp) = process.fabric.qps.find(key) {
                qp.sends_polled.store(count, Relaxed);
            }
        }
        From::Receive(key) => {
            if let Some(qp) = process.fabric.qps.find(key) {
                qp.receives.outstanding.fetch_sub(1, Relaxed);
            }
        }
        From::Shared(key) => {
            if let Some(srq) = process.fabric.srqs.find(key) {
                srq.receives.outstanding.fetch_sub(1, Relaxed);
            }
        }
    }
}

/// Removes the completions of a QP that is reset or destroyed.
pub fn forget(process: &Process, key: u32, qp_num: u32) {
    let Some(cq) = find(process, key) else { return };
    let _guard = cq.entry.lock.lock();
    for n in 0..cq.ring.len() {
        let cqe = cq.ring.peek(process.words, n).map(Cqe::decode);
        if let Some(cqe) = cqe.filter(|cqe| cqe.qp_num == qp_num) {
            free_room(process, cqe.from);
        }
    }
    cq.ring
        .retain(process.words, |record| Cqe::decode(record).qp_num != qp_num);
}

/// Makes a CQ for `capacity` completions. `channel`, `events`: of `Fabric::events`.
pub fn create(process: &Process, capacity: u32, channel: u32, events: u32) -> Option<u32> {
    let index = process.take(&process.fabric.cqs)?;
    let cq = process.fabric.cqs.at(index);
    set([
        (&cq.armed, 0),
        (&cq.channel, channel),
        (&cq.events, events),
        (&cq.overrun, 0),
    ]);
    if cq.ring.make(process, capacity, STRIDE).is_none() {
        destroy_cq(process, index);
        return None;
    }
    Some(index)
}
