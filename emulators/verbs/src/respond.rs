//! The responder of connected QPs: the requester's thread finds the peer, makes the peer's checks
//! with the peer's tables, moves the data, and appends to the peer's CQ.

use std::sync::atomic::Ordering::Relaxed;

use gasnet_ibv_abi as abi;

use crate::address;
use crate::config::Operation;
use crate::copy::{self, Fault, Pieces};
use crate::cq::{self, Cqe, From};
use crate::damage;
use crate::event;
use crate::landing;
use crate::migration;
use crate::mr::{grant, Grant, Wanted};
use crate::path::{are_connected, End};
use crate::process::Process;
use crate::qp::{fail, fail_with, Qp};
use crate::receive::{self, Memory, Posted};
use crate::shm::{Path, Qp as Shared, Srq};
use crate::srq;
use crate::wqe::Wqe;

/// Answer to the requester.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Done,
    /// An error of the requester, found before or after sending.
    Local(u32),
    /// A NAK, as the requester's status.
    Nak(u32),
    /// No receive is posted; the responder's RNR timer.
    NotReady(u32),
    /// No answer arrives.
    Silence,
}

/// A work request and the QP that sends it.
#[derive(Clone, Copy)]
struct Message<'a> {
    qp: &'a Qp,
    wqe: &'a Wqe,
}

/// A peer QP, and the queue and PD that its memory is checked with.
struct Peer<'a> {
    process: &'a Process,
    qp: &'a Shared,
    key: u32,
    /// SRQ of an RC QP, or the one that a request to an XRC QP names.
    srq: Option<(u32, &'a Srq)>,
}

/// The type of the GID that a QP sends from.
fn gid_type(process: &Process, qp: &Shared) -> Option<u32> {
    let path = &qp.path;
    if path.global.load(Relaxed) == 0 {
        return Some(address::TYPE_IB);
    }
    let port = path.port(qp.device.load(Relaxed));
    address::gid(&process.config, port, path.sgid_index.load(Relaxed)).map(|(_, kind)| kind)
}

/// The QP that a connected QP sends to, if packets arrive and both agree to be connected.
fn connected(qp: &Qp) -> Option<(u32, &'static Shared)> {
    let (process, own) = (qp.process, qp.shared);
    let key = own.dest_qpn.load(Relaxed);
    let peer = process.fabric.qps.find(key)?;
    let kind = match qp.kind {
        abi::IBV_QPT_XRC_SEND => abi::IBV_QPT_XRC_RECV,
        kind => kind,
    };
    let (config, port) = (&process.config, qp.port());
    let agreed = own.cut.load(Relaxed) == 0
        && peer.cut.load(Relaxed) == 0
        && peer.kind.load(Relaxed) == kind
        && peer.dest_qpn.load(Relaxed) == qp.key
        && peer.rq_psn.load(Relaxed) == own.sq_psn.load(Relaxed)
        && gid_type(process, own) == gid_type(process, peer);
    let target = address::find(config, port, own.path.destination(config, port.device))?;
    if !agreed || !process.port_is_up(port) || !process.port_is_up(target) {
        return None;
    }
    let leads_back = |path: &Path| {
        let ends = [End { path: &own.path, port }, End { path, port: target }];
        path.port(peer.device.load(Relaxed)) == target && are_connected(config, ends)
    };
    let has_arrived = leads_back(&peer.path)
        || peer.has_alternate.load(Relaxed) != 0
            && leads_back(&peer.alternate)
            && migration::follow(process, own, key, peer);
    has_arrived.then_some((key, peer))
}

/// Whether a message between QPs fits into packets that both ports take. Both ends must divide
/// messages in the same way.
fn fits_packets(qp: &Qp, shared: &Shared, bytes: u64) -> bool {
    let words = &qp.process.config.of_ports;
    let mtus = [qp.shared, shared].map(|qp| 128_u64 << qp.path_mtu.load(Relaxed));
    let ports = [qp.shared, shared].map(|qp| u64::from(words.mtu(qp.path.port(qp.device.load(Relaxed)))));
    bytes <= mtus[0].min(mtus[1]) && bytes <= ports[0].min(ports[1])
        || mtus[0] == mtus[1] && mtus[0] <= ports[0].min(ports[1])
}

/// Fault `drop-connection`: nothing arrives any more at either end.
pub fn cut(qp: &Qp) {
    qp.shared.cut.store(1, Relaxed);
    if let Some(peer) = qp.process.fabric.qps.find(qp.shared.dest_qpn.load(Relaxed)) {
        peer.cut.store(1, Relaxed);
    }
}

/// Executes a work request of a connected QP.
pub fn execute(qp: &Qp, wqe: &Wqe) -> Answer {
    let operation = wqe.operation();
    let local_access = match operation {
        Operation::Read | Operation::Atomic => abi::IBV_ACCESS_LOCAL_WRITE,
        Operation::Send | Operation::Write => 0,
    };
    // The memory stays registered while it is held.
    let (local, _memory) = if let Some(data) = &wqe.data {
        (Pieces::of(data.as_ptr() as u64, data.len() as u64), None)
    } else if let Some(memory) = qp.local(wqe, local_access) {
        (memory.pieces, Some(memory))
    } else {
        return Answer::Local(abi::IBV_WC_LOC_PROT_ERR);
    };
    let altered = damage::altered(qp.process, wqe, &local);
    let local = altered
        .as_ref()
        .map_or(local, |data| Pieces::of(data.as_ptr() as u64, data.len() as u64));
    if local_access != 0 && qp.shared.max_rd_atomic.load(Relaxed) == 0 {
        return Answer::Local(abi::IBV_WC_LOC_QP_OP_ERR);
    }
    if operation == Operation::Atomic && local.bytes() != 8 {
        return Answer::Local(abi::IBV_WC_LOC_LEN_ERR);
    }
    let Some((key, shared)) = connected(qp).filter(|(_, shared)| fits_packets(qp, shared, wqe.length())) else {
        return Answer::Silence;
    };
    if qp.process.config.early_completion && (operation != Operation::Write || wqe.has_imm()) {
        landing::settle(qp.process, shared.device.load(Relaxed));
    }
    let _guard = shared.entry.lock.lock();
    let listens = match shared.state.load(Relaxed) {
        abi::IBV_QPS_RTR | abi::IBV_QPS_RTS | abi::IBV_QPS_SQD => true,
        abi::IBV_QPS_SQE => qp.kind == abi::IBV_QPT_UC,
        _ => false,
    };
    if !listens {
        return Answer::Silence;
    }
    migration::note_exchange(qp.shared, shared);
    let mut peer = Peer {
        process: qp.process,
        qp: shared,
        key,
        srq: None,
    };
    if qp.kind == abi::IBV_QPT_XRC_SEND {
        return peer.respond_xrc(qp, wqe, &local);
    }
    peer.srq = find_srq(qp.process, shared.srq.load(Relaxed));
    peer.respond(qp, wqe, &local)
}

/// The live SRQ of a key, with the key.
fn find_srq(process: &Process, key: u32) -> Option<(u32, &Srq)> {
    srq::find(process, key).map(|srq| (key, srq))
}

/// The process of a fault, for the requester.
fn local_fault(fault: Fault) -> Answer {
    match fault {
        Fault::Dead => Answer::Silence,
        _ => Answer::Local(abi::IBV_WC_LOC_PROT_ERR),
    }
}

impl<'a> Peer<'a> {
    fn pd(&self) -> u32 {
        match self.srq {
            Some((_, srq)) if self.qp.kind.load(Relaxed) == abi::IBV_QPT_XRC_RECV => srq.pd.load(Relaxed),
            _ => self.qp.pd.load(Relaxed),
        }
    }

    fn respond(&self, qp: &Qp, wqe: &Wqe, local: &Pieces) -> Answer {
        let operation = wqe.operation();
        let reads = matches!(operation, Operation::Read | Operation::Atomic);
        // Hardware refuses only those that are outstanding at once.
        if reads && qp.shared.max_rd_atomic.load(Relaxed) > self.qp.max_dest_rd_atomic.load(Relaxed) {
            return self.refuse(abi::IBV_WC_REM_INV_REQ_ERR);
        }
        match operation {
            Operation::Send => self.receive(qp, wqe, local),
            Operation::Write => self.write(qp, wqe, local),
            Operation::Read => self.read(wqe, local),
            Operation::Atomic => self.atomic(wqe, local),
        }
    }

    /// Responds as an XRC receive QP, with the SRQ that the request names.
    fn respond_xrc(&mut self, qp: &Qp, wqe: &Wqe, local: &Pieces) -> Answer {
        let found = find_srq(self.process, wqe.srqn);
        // No QP keeps the SRQ from being destroyed, so it is looked up again under its lock.
        let lock = found.map(|(_, srq)| srq.entry.lock.lock());
        self.srq = found.and_then(|(key, _)| find_srq(self.process, key));
        let is_of_domain = self.srq.is_some_and(|(_, srq)| {
            srq.xrcd.load(Relaxed) == self.qp.xrcd.load(Relaxed)
                && srq.device.load(Relaxed) == self.qp.device.load(Relaxed)
        });
        if !is_of_domain {
            return self.refuse(abi::IBV_WC_REM_INV_REQ_ERR);
        }
        let answer = self.respond(qp, wqe, local);
        drop(lock);
        // The SRQ of a dead process is gone, while the QP lives on in others.
        if answer == Answer::Silence && !self.lives() && self.process.alive(self.qp.entry.slot()) {
            return self.refuse(abi::IBV_WC_REM_INV_REQ_ERR);
        }
        answer
    }

    /// Answers with a NAK: the connection is over for the responder too.
    fn refuse(&self, status: u32) -> Answer {
        if self.qp.kind.load(Relaxed) != abi::IBV_QPT_UC {
            let event = match status {
                abi::IBV_WC_REM_ACCESS_ERR => abi::IBV_EVENT_QP_ACCESS_ERR,
                _ => abi::IBV_EVENT_QP_REQ_ERR,
            };
            event::push(self.process, self.qp.events.load(Relaxed), (event, self.key));
            fail(self.process, self.qp, self.key);
        }
        Answer::Nak(status)
    }

    /// Access of a request to memory of the responder.
    fn remote(&self, wqe: &Wqe, bytes: u64, access: u32) -> Result<Grant<'a>, Answer> {
        if self.qp.access.load(Relaxed) & access == 0 {
            return Err(self.refuse(abi::IBV_WC_REM_INV_REQ_ERR));
        }
        let wanted = self.wanted(wqe, bytes, access);
        grant(self.process, &wanted).ok_or_else(|| self.refuse(abi::IBV_WC_REM_ACCESS_ERR))
    }

    /// The access of a work request.
    fn wanted(&self, wqe: &Wqe, bytes: u64, access: u32) -> Wanted {
        Wanted {
            device: self.qp.device.load(Relaxed),
            pd: self.pd(),
            key: wqe.rkey,
            addr: wqe.remote_addr,
            bytes,
            access,
        }
    }

    fn write(&self, qp: &Qp, wqe: &Wqe, local: &Pieces) -> Answer {
        let bytes = local.bytes();
        let taken = if wqe.has_imm() {
            self.take(qp).map(Some)
        } else {
            Ok(None)
        };
        let posted = match taken {
            Ok(posted) => posted,
            Err(answer) => return answer,
        };
        if bytes != 0 {
            let grant = match self.remote(wqe, bytes, abi::IBV_ACCESS_REMOTE_WRITE) {
                Ok(grant) => grant,
                Err(answer) => return answer,
            };
            if qp.process.config.early_completion && posted.is_none() {
                let Ok(data) = copy::gather(local) else {
                    return local_fault(Fault::Local);
                };
                let relaxed = qp.process.config.relaxed.filter(|_| qp.process.random.hits(50));
                if let Some(together) = relaxed {
                    let pid = self.process.pid_of(grant.slot);
                    landing::overtake(qp.process, pid, grant.addr, &data, together);
                    return Answer::Done;
                }
                landing::later(qp.process, self.wanted(wqe, bytes, abi::IBV_ACCESS_REMOTE_WRITE), data);
                return Answer::Done;
            }
            let pid = self.process.pid_of(grant.slot);
            match copy::write(pid, local, &Pieces::of(grant.addr, bytes)) {
                Ok(()) => {}
                Err(Fault::Remote) => return self.refuse(abi::IBV_WC_REM_ACCESS_ERR),
                Err(fault) => return local_fault(fault),
            }
        } else if !self.lives() {
            return Answer::Silence;
        }
        if let Some(posted) = posted {
            self.complete(
                Message { qp, wqe },
                &posted,
                abi::IBV_WC_RECV_RDMA_WITH_IMM,
                abi::IBV_WC_SUCCESS,
            );
        }
        Answer::Done
    }

    fn read(&self, wqe: &Wqe, local: &Pieces) -> Answer {
        let bytes = local.bytes();
        if bytes == 0 {
            return if self.lives() { Answer::Done } else { Answer::Silence };
        }
        let grant = match self.remote(wqe, bytes, abi::IBV_ACCESS_REMOTE_READ) {
            Ok(grant) => grant,
            Err(answer) => return answer,
        };
        match copy::read(self.process.pid_of(grant.slot), local, &Pieces::of(grant.addr, bytes)) {
            Ok(()) => {
                damage::alter_read(self.process, local);
                Answer::Done
            }
            Err(Fault::Remote) => self.refuse(abi::IBV_WC_REM_ACCESS_ERR),
            Err(fault) => local_fault(fault),
        }
    }

    /// Atomic among the operations of the responder's device, not for its CPUs (IBV_ATOMIC_HCA).
    fn atomic(&self, wqe: &Wqe, local: &Pieces) -> Answer {
        if wqe.remote_addr % 8 != 0 {
            return self.refuse(abi::IBV_WC_REM_INV_REQ_ERR);
        }
        let grant = match self.remote(wqe, 8, abi::IBV_ACCESS_REMOTE_ATOMIC) {
            Ok(grant) => grant,
            Err(answer) => return answer,
        };
        if grant.is_on_demand() && !self.process.config.odp_bits.has(Operation::Atomic) {
            return self.refuse(abi::IBV_WC_REM_ACCESS_ERR);
        }
        let _guard = self.process.fabric.atomics[self.qp.device.load(Relaxed) as usize].lock();
        let (pid, remote) = (self.process.pid_of(grant.slot), Pieces::of(grant.addr, 8));
        let mut old = 0_u64;
        let word = Pieces::of(&raw mut old as u64, 8);
        if let Err(fault) = copy::read(pid, &word, &remote) {
            return if fault == Fault::Dead {
                Answer::Silence
            } else {
                self.refuse(abi::IBV_WC_REM_ACCESS_ERR)
            };
        }
        let new = match wqe.opcode {
            abi::IBV_WR_ATOMIC_FETCH_AND_ADD => Some(old.wrapping_add(wqe.compare_add)),
            _ => (old == wqe.compare_add).then_some(wqe.swap),
        };
        if let Some(new) = new.filter(|_| !self.process.loses_update()) {
            if copy::write(pid, &Pieces::of(&raw const new as u64, 8), &remote).is_err() {
                return self.refuse(abi::IBV_WC_REM_ACCESS_ERR);
            }
        }
        match copy::write(self.process.pid, &word, local) {
            Ok(()) => Answer::Done,
            Err(_) => Answer::Local(abi::IBV_WC_LOC_PROT_ERR),
        }
    }

    /// The slot of the process whose receives these are.
    fn owner(&self) -> u32 {
        let entry = self.srq.map_or(&self.qp.entry, |(_, srq)| &srq.entry);
        entry.owner.load(Relaxed).wrapping_sub(1)
    }

    fn lives(&self) -> bool {
        self.process.alive(self.owner())
    }

    /// Takes a receive.
    fn take(&self, qp: &Qp) -> Result<Posted, Answer> {
        let is_ready = !qp.process.random.hits(qp.process.config.rnr);
        let receives = self.srq.map_or(&self.qp.receives, |(_, srq)| &srq.receives);
        let posted = is_ready.then(|| receive::take(self.process, receives)).flatten();
        posted.ok_or_else(|| {
            if self.lives() {
                Answer::NotReady(self.qp.min_rnr_timer.load(Relaxed))
            } else {
                Answer::Silence
            }
        })
    }

    fn memory(&self, posted: &Posted) -> Option<Memory<'a>> {
        let pd = self.srq.map_or(&self.qp.pd, |(_, srq)| &srq.pd).load(Relaxed);
        receive::memory(
            self.process,
            posted.sges(),
            self.qp.device.load(Relaxed),
            pd,
            abi::IBV_ACCESS_LOCAL_WRITE,
        )
        .filter(|memory| !memory.is_on_demand() || self.process.config.odp_bits.has_receives(self.srq.is_some()))
    }

    fn receive(&self, qp: &Qp, wqe: &Wqe, local: &Pieces) -> Answer {
        let posted = match self.take(qp) {
            Ok(posted) => posted,
            Err(answer) => return answer,
        };
        let fails = |status: u32, answer: u32| {
            fail_with(self.process, self.qp, self.key, || {
                self.complete(Message { qp, wqe }, &posted, abi::IBV_WC_RECV, status);
            });
            Answer::Nak(answer)
        };
        let bytes = local.bytes();
        let room: u64 = posted.sges().iter().map(|sge| u64::from(sge.length)).sum();
        if bytes > room {
            return fails(abi::IBV_WC_LOC_LEN_ERR, abi::IBV_WC_REM_INV_REQ_ERR);
        }
        let Some(memory) = self.memory(&posted) else {
            return fails(abi::IBV_WC_LOC_PROT_ERR, abi::IBV_WC_REM_OP_ERR);
        };
        let mut remote = memory.pieces;
        remote.truncate(bytes);
        if bytes == 0 && !self.lives() {
            return Answer::Silence;
        }
        match copy::write(self.process.pid_of(self.owner()), local, &remote) {
            Ok(()) => {}
            Err(Fault::Dead) => return Answer::Silence,
            Err(Fault::Remote) => return fails(abi::IBV_WC_LOC_PROT_ERR, abi::IBV_WC_REM_OP_ERR),
            Err(Fault::Local) => {
                // The message never arrives whole: the receive stays used until the QP is flushed.
                self.complete(Message { qp, wqe }, &posted, abi::IBV_WC_RECV, abi::IBV_WC_WR_FLUSH_ERR);
                fail(self.process, self.qp, self.key);
                return Answer::Local(abi::IBV_WC_LOC_PROT_ERR);
            }
        }
        self.complete(Message { qp, wqe }, &posted, abi::IBV_WC_RECV, abi::IBV_WC_SUCCESS);
        Answer::Done
    }

    /// Appends the completion of a receive.
    fn complete(&self, message: Message, posted: &Posted, opcode: u32, status: u32) {
        let Message { qp, wqe } = message;
        let from = self.srq.map_or(From::Receive(self.key), |(key, _)| From::Shared(key));
        let mut cqe = Cqe::new(posted.wr_id, status, opcode, self.key, from);
        cqe.byte_len = wqe.reported.unwrap_or(wqe.length() as u32);
        cqe.src_qp = qp.key;
        cqe.solicited = wqe.flags & abi::IBV_SEND_SOLICITED != 0;
        if wqe.has_imm() {
            cqe.imm = wqe.imm;
            cqe.wc_flags |= abi::IBV_WC_WITH_IMM;
        }
        let cq = match self.srq {
            Some((_, srq)) if srq.xrcd.load(Relaxed) != 0 => srq.cq.load(Relaxed),
            _ => self.qp.recv_cq.load(Relaxed),
        };
        if !cq::push(self.process, cq, &cqe) {
            event::push(
                self.process,
                self.qp.events.load(Relaxed),
                (abi::IBV_EVENT_QP_FATAL, self.key),
            );
            fail(self.process, self.qp, self.key);
        }
    }
}
