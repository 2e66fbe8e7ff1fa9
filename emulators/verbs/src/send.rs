//! The requester: work requests are checked, queued, and executed in order, at once by the thread
//! that posts them unless something must wait.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use emulator_common::lock::locked;
use gasnet_ibv_abi as abi;

use crate::config::{Ability, Operation};
use crate::copy;
use crate::cq::{self, Cqe, From};
use crate::event;
use crate::migration;
use crate::process::now_ns;
use crate::qp::{fail, fail_with, Qp, SendQueue};
use crate::respond::{self, Answer};
use crate::text;
use crate::ud;
use crate::wqe::{class, completion_opcode, Outcome, Wqe};

/// A QP of fault `qp-event`: nothing of it completes, or arrives.
const SILENT: u8 = 2;

/// Whether a transport has an operation.
fn offered(kind: u32, opcode: u32, atomics: bool) -> bool {
    match class(opcode) {
        Some(Operation::Send) => true,
        Some(Operation::Write) => kind != abi::IBV_QPT_UD,
        Some(Operation::Read) => matches!(kind, abi::IBV_QPT_RC | abi::IBV_QPT_XRC_SEND),
        Some(Operation::Atomic) => atomics && matches!(kind, abi::IBV_QPT_RC | abi::IBV_QPT_XRC_SEND),
        None => false,
    }
}

impl Qp {
    /// Checks a work request and queues it. Err: errno; it is not posted.
    pub fn enqueue(&self, queue: &mut SendQueue, mut wqe: Wqe) -> Result<(), i32> {
        let config = &self.process.config;
        let device = self.shared.device.load(Relaxed);
        self.process.check(device)?;
        let state = self.state();
        let inline = wqe.flags & abi::IBV_SEND_INLINE != 0;
        if matches!(state, abi::IBV_QPS_RESET | abi::IBV_QPS_INIT | abi::IBV_QPS_RTR)
            || !offered(self.kind, wqe.opcode, config.has(device, Ability::Atomics))
            || wqe.sges.len() > self.cap.max_send_sge as usize
            || wqe.operation() == Operation::Read && wqe.sges.len() > config.most_read() as usize
            || inline && matches!(wqe.operation(), Operation::Read | Operation::Atomic)
            || inline && wqe.length() > u64::from(self.cap.max_inline_data)
            || (self.kind == abi::IBV_QPT_UD) != wqe.ud.is_some()
        {
            return Err(libc::EINVAL);
        }
        let unpolled = queue.posted.wrapping_sub(self.shared.sends_polled.load(Relaxed));
        if unpolled >= self.cap.max_send_wr {
            return Err(libc::ENOMEM);
        }
        if let Some(change) = wqe.has_imm().then(|| self.process.forgery()).flatten() {
            wqe.alter(change);
        }
        if inline && wqe.data.is_none() {
            wqe.data = Some(copy::gather_inline(&wqe.sges, wqe.length() as usize));
        }
        queue.posted = queue.posted.wrapping_add(1);
        wqe.number = queue.posted;
        wqe.forced = self.process.forced_error(wqe.operation());
        if self.kind == abi::IBV_QPT_UD && self.process.fails_datagram() {
            wqe.forced = Some(abi::IBV_WC_LOC_QP_OP_ERR);
        }
        if self.kind != abi::IBV_QPT_UD && self.process.cuts() {
            respond::cut(self);
        }
        if self.kind != abi::IBV_QPT_UD {
            if let Some(event) = self.process.ends_qp() {
                self.shared.cut.store(SILENT, Relaxed);
                event::push(self.process, self.shared.events.load(Relaxed), (event, self.key));
            }
        }
        if config.delays(device) {
            // Operations that a fence waits for may change the data.
            if config.late_visible && !config.late && wqe.flags & abi::IBV_SEND_FENCE == 0 {
                self.capture(&mut wqe);
            }
            let delay = self.process.delay_ns(device);
            queue.last_due_ns = queue.last_due_ns.max(now_ns()) + delay;
            wqe.due_ns = queue.last_due_ns;
            if matches!(wqe.operation(), Operation::Read | Operation::Atomic) {
                wqe.due_ns += self.process.delay_ns(device);
            }
        }
        wqe.note_queued(self.process, 1);
        queue.entries.push_back(wqe);
        Ok(())
    }

    /// Reads the data of a send or write now. A failure to read shows when it executes.
    fn capture(&self, wqe: &mut Wqe) {
        if matches!(wqe.operation(), Operation::Send | Operation::Write) && wqe.data.is_none() {
            wqe.data = self.local(wqe, 0).and_then(|memory| copy::gather(&memory.pieces).ok());
        }
    }

    /// Retries a transmission without an answer, or fails.
    fn unanswered(&self, wqe: &mut Wqe) -> Outcome {
        if self.kind == abi::IBV_QPT_UC {
            return Outcome::Done;
        }
        let timeout = self.shared.path.timeout.load(Relaxed);
        let migrations = self.shared.migrations.load(Relaxed);
        if wqe.migrations != migrations {
            (wqe.migrations, wqe.lost) = (migrations, 0);
        }
        wqe.lost += 1;
        if timeout == 0 || wqe.lost <= self.shared.retry_cnt.load(Relaxed) {
            return Outcome::Again(retry_ns(timeout));
        }
        if migration::leave(self.process, self.key, self.shared, migrations) {
            return Outcome::Again(0);
        }
        Outcome::Failed(abi::IBV_WC_RETRY_EXC_ERR)
    }

    fn not_ready(&self, wqe: &mut Wqe, timer: u32) -> Outcome {
        if self.kind == abi::IBV_QPT_UC {
            return Outcome::Done;
        }
        let limit = self.shared.rnr_retry.load(Relaxed);
        self.process.rnr_naks.fetch_add(1, Relaxed);
        wqe.rnr += 1;
        if limit != 7 && wqe.rnr > limit {
            return Outcome::Failed(abi::IBV_WC_RNR_RETRY_EXC_ERR);
        }
        Outcome::Again(rnr_ns(timer))
    }

    fn execute(&self, wqe: &mut Wqe) -> Outcome {
        if let Some(status) = wqe.forced {
            return Outcome::Failed(status);
        }
        if self.kind == abi::IBV_QPT_UD {
            return ud::send(self, wqe);
        }
        if wqe.length() > self.process.config.largest_message() {
            return Outcome::Failed(abi::IBV_WC_LOC_LEN_ERR);
        }
        match respond::execute(self, wqe) {
            Answer::Nak(status) if self.kind != abi::IBV_QPT_UC => Outcome::Failed(status),
            Answer::Done | Answer::Nak(_) => Outcome::Done,
            Answer::Local(status) => Outcome::Failed(status),
            Answer::NotReady(timer) => self.not_ready(wqe, timer),
            Answer::Silence => self.unanswered(wqe),
        }
    }

    /// Appends the completion of a work request, if it has one. False: the CQ has overrun.
    fn complete(&self, wqe: &Wqe, status: u32) -> bool {
        if status == abi::IBV_WC_SUCCESS && !self.sig_all && wqe.flags & abi::IBV_SEND_SIGNALED == 0 {
            return true;
        }
        if self.process.config.trace && status != abi::IBV_WC_SUCCESS && status != abi::IBV_WC_WR_FLUSH_ERR {
            self.trace(wqe, status);
        }
        if status == abi::IBV_WC_SUCCESS && self.process.loses_completion(wqe.operation()) {
            return true;
        }
        let from = From::Send(self.key, wqe.number);
        let mut cqe = Cqe::new(wqe.wr_id, status, completion_opcode(wqe.opcode), self.key, from);
        cqe.byte_len = match wqe.operation() {
            Operation::Atomic => 8,
            _ => wqe.length() as u32,
        };
        cq::push(self.process, self.shared.send_cq.load(Relaxed), &cqe)
    }

    /// Reports a failure.
    #[cold]
    fn trace(&self, wqe: &Wqe, status: u32) {
        let peer = self.shared.dest_qpn.load(Relaxed);
        eprintln!(
            "emulator of verbs: queue pair {:#x} to {peer:#x}: {:?} of {} bytes, to {:#x} with key {:#x}: {}",
            self.key,
            wqe.operation(),
            wqe.length(),
            wqe.remote_addr,
            wqe.rkey,
            text::status(status).to_string_lossy()
        );
    }

    /// Completes a work request that failed. Unreliable QPs only stop sending. False: the CQ is
    /// full.
    fn complete_failed(&self, wqe: &Wqe, status: u32) -> bool {
        let _guard = self.shared.entry.lock.lock();
        let state = &self.shared.state;
        if matches!(self.kind, abi::IBV_QPT_UD | abi::IBV_QPT_UC) && !self.process.config.no_sqe {
            let _ = state.compare_exchange(abi::IBV_QPS_RTS, abi::IBV_QPS_SQE, Relaxed, Relaxed);
            return self.complete(wqe, status);
        }
        let mut kept = false;
        fail_with(self.process, self.shared, self.key, || {
            kept = self.complete(wqe, status);
        });
        kept
    }

    /// The state after a completion that found no room.
    fn overrun(&self) {
        let _guard = self.shared.entry.lock.lock();
        event::push(
            self.process,
            self.shared.events.load(Relaxed),
            (abi::IBV_EVENT_QP_FATAL, self.key),
        );
        fail(self.process, self.shared, self.key);
    }
}

/// Executes and completes what can be. The caller holds the queue's lock.
pub fn progress(qp: &Arc<Qp>, queue: &mut SendQueue) {
    if qp.shared.cut.load(Relaxed) == SILENT {
        return;
    }
    let due_ns = if qp.state() == abi::IBV_QPS_RTS {
        execute_ready(qp, queue)
    } else {
        None
    };
    while let Some(wqe) = queue.entries.front_mut() {
        let status = match qp.state() {
            abi::IBV_QPS_ERR | abi::IBV_QPS_SQE => abi::IBV_WC_WR_FLUSH_ERR,
            _ => match wqe.done {
                Some(status) => status,
                None => break,
            },
        };
        // The poll of its completion may end what it names.
        wqe.handle = None;
        wqe.note_queued(qp.process, -1);
        let kept = match status {
            abi::IBV_WC_SUCCESS | abi::IBV_WC_WR_FLUSH_ERR => qp.complete(wqe, status),
            _ => qp.complete_failed(wqe, status),
        };
        queue.entries.pop_front();
        if !kept {
            qp.overrun();
        }
    }
    if let Some(due_ns) = due_ns.filter(|_| !queue.entries.is_empty()) {
        wait(qp, queue, due_ns);
    }
}

/// Executes work requests in order. A send or write may overtake reads and atomics that are under
/// way, unless it has a fence. Returns when the next one may execute.
fn execute_ready(qp: &Qp, queue: &mut SendQueue) -> Option<u64> {
    let depth = qp.shared.max_rd_atomic.load(Relaxed).max(1);
    let mut outstanding = 0;
    let mut next: Option<u64> = None;
    for wqe in queue.entries.iter_mut().filter(|wqe| wqe.done.is_none()) {
        let reads = matches!(wqe.operation(), Operation::Read | Operation::Atomic);
        let fenced = wqe.flags & abi::IBV_SEND_FENCE != 0;
        if outstanding != 0 && (fenced || reads && outstanding == depth) {
            break;
        }
        if wqe.due_ns != 0 && wqe.due_ns > now_ns() || reads && outstanding != 0 {
            next = Some(next.map_or(wqe.due_ns, |due_ns| due_ns.min(wqe.due_ns)));
            if reads {
                outstanding += 1;
                continue;
            }
            break;
        }
        match qp.execute(wqe) {
            Outcome::Done => wqe.done = Some(abi::IBV_WC_SUCCESS),
            Outcome::Failed(status) => {
                wqe.done = Some(status);
                break;
            }
            Outcome::Again(delay_ns) => {
                wqe.due_ns = now_ns() + delay_ns;
                next = Some(next.map_or(wqe.due_ns, |due_ns| due_ns.min(wqe.due_ns)));
                break;
            }
        }
    }
    next
}

fn wait(qp: &Arc<Qp>, queue: &mut SendQueue, due_ns: u64) {
    if queue.timer_ns == 0 || due_ns < queue.timer_ns {
        queue.timer_ns = due_ns;
        let qp = Arc::clone(qp);
        qp.process.later.at(due_ns, move || {
            let mut queue = locked(&qp.queue);
            queue.timer_ns = 0;
            progress(&qp, &mut queue);
        });
    }
}

/// Posts work requests. Err: errno, and how many were posted before.
pub fn post(qp: &Arc<Qp>, wqes: impl Iterator<Item = Wqe>) -> Result<(), (i32, usize)> {
    let mut queue = locked(&qp.queue);
    let mut result = Ok(());
    for (n, wqe) in wqes.enumerate() {
        if let Err(error) = qp.enqueue(&mut queue, wqe) {
            result = Err((error, n));
            break;
        }
    }
    progress(qp, &mut queue);
    result
}

/// Time between transmissions without an answer. A timeout t means 4.096 µs · 2^t; here an
/// eighth, but at least a few ms, since processes share few cores.
fn retry_ns(timeout: u32) -> u64 {
    match timeout {
        0 => 100_000_000,
        _ => ((4096_u64 << timeout) / 8).clamp(5_000_000, 4_000_000_000),
    }
}

/// The RNR timers of the specification (table 45), in units of 10 µs.
const RNR_TIMERS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
    6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

fn rnr_ns(timer: u32) -> u64 {
    u64::from(RNR_TIMERS[timer as usize % 32]) * 10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_differ_in_operations() {
        let all = [
            abi::IBV_WR_SEND,
            abi::IBV_WR_RDMA_WRITE,
            abi::IBV_WR_RDMA_READ,
            abi::IBV_WR_ATOMIC_CMP_AND_SWP,
        ];
        let of = |kind| all.map(|opcode| offered(kind, opcode, true));
        assert_eq!(of(abi::IBV_QPT_RC), [true; 4]);
        assert_eq!(of(abi::IBV_QPT_UC), [true, true, false, false]);
        assert_eq!(of(abi::IBV_QPT_UD), [true, false, false, false]);
        assert!(!offered(abi::IBV_QPT_RC, abi::IBV_WR_BIND_MW, true));
        assert!(!offered(abi::IBV_QPT_RC, abi::IBV_WR_ATOMIC_CMP_AND_SWP, false));
    }

    #[test]
    fn timers_are_those_of_the_specification() {
        assert_eq!(rnr_ns(12), 640_000);
        assert_eq!(rnr_ns(0), 655_360_000);
        assert!(retry_ns(14) < retry_ns(18));
    }
}
