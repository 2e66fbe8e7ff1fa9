//! Queue pairs: their attributes, states and ends. `send` and `respond` execute.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use emulator_common::lock::locked;
use emulator_common::table::{index_of, set};
use gasnet_ibv_abi as abi;

use crate::config::Call;
use crate::copy::Sge;
use crate::cq::{self, Cqe, From};
use crate::event;
use crate::footprint;
use crate::migration;
use crate::path::vector_is_valid;
use crate::process::Process;
use crate::receive::{self, Memory};
use crate::reclaim::release_qp;
use crate::shm::{Port, Qp as Shared};
use crate::state;
use crate::wqe::Wqe;

/// Capabilities of a QP that is neither sent from nor received at: an XRC receive QP.
pub const NO_QUEUES: abi::ibv_qp_cap = abi::ibv_qp_cap {
    max_send_wr: 0,
    max_recv_wr: 0,
    max_send_sge: 0,
    max_recv_sge: 0,
    max_inline_data: 0,
};

/// Attributes of a new QP; keys are of `Fabric`, 0: none.
pub struct Attributes {
    pub kind: u32,
    pub device: u32,
    pub pd: u32,
    pub xrcd: u32,
    pub send_cq: u32,
    pub recv_cq: u32,
    pub srq: u32,
    pub cap: abi::ibv_qp_cap,
    pub sig_all: bool,
    pub events: u32,
}

/// The part of a QP that only its process has.
pub struct Qp {
    pub process: &'static Process,
    pub shared: &'static Shared,
    pub key: u32,
    pub index: u32,
    pub kind: u32,
    pub cap: abi::ibv_qp_cap,
    pub sig_all: bool,
    /// Handle of `ibv_open_qp`. Events go to the process that has made the QP.
    pub is_opened: bool,
    pub queue: Mutex<SendQueue>,
}

/// Work requests that have not completed.
#[derive(Default)]
pub struct SendQueue {
    pub entries: VecDeque<Wqe>,
    /// Work requests ever posted.
    pub posted: u32,
    /// When the last delayed one executes.
    pub last_due_ns: u64,
    /// When the NIC's thread looks at this queue; 0: never.
    pub timer_ns: u64,
}

fn too_large(process: &Process, kind: u32, cap: &abi::ibv_qp_cap) -> bool {
    let config = &process.config;
    let units = || footprint::send_queue(kind, cap).map(|bytes| bytes / footprint::UNIT);
    config.wqe_units && units().is_none_or(|units| units > u64::from(config.max_qp_wr))
        || cap.max_send_wr > config.max_qp_wr
        || cap.max_recv_wr > config.most_received()
        || cap.max_send_sge > config.max_sge
        || cap.max_recv_sge > config.max_sge
        || cap.max_inline_data > config.max_inline
}

/// Makes a QP in state RESET. Err: errno.
pub fn create(process: &'static Process, attributes: &Attributes) -> Result<Arc<Qp>, i32> {
    process.check(attributes.device)?;
    process.count(Call::CreateQp)?;
    if too_large(process, attributes.kind, &attributes.cap) {
        return Err(libc::EINVAL);
    }
    let index = {
        let _guard = process.allocation();
        let qps = &process.fabric.qps;
        let has_room = process.config.max_qp.is_none_or(|most| qps.count() < most as usize);
        has_room.then(|| qps.take(process.slot)).flatten().ok_or(libc::ENOMEM)?
    };
    let shared = process.fabric.qps.at(index);
    set([
        (&shared.kind, attributes.kind),
        (&shared.state, abi::IBV_QPS_RESET),
        (&shared.handles, 1),
        (&shared.device, attributes.device),
        (&shared.path.port, 0),
        (&shared.pd, attributes.pd),
        (&shared.xrcd, attributes.xrcd),
        (&shared.access, 0),
        (&shared.send_cq, attributes.send_cq),
        (&shared.recv_cq, attributes.recv_cq),
        (&shared.srq, attributes.srq),
        (&shared.sends_polled, 0),
        (&shared.dest_qpn, 0),
        (&shared.events, attributes.events),
    ]);
    shared.user.store(0, Relaxed);
    shared.cut.store(0, Relaxed);
    migration::reset(shared);
    let mut cap = attributes.cap;
    if process.config.wqe_units && cap.max_send_wr > 0 {
        cap.max_inline_data = footprint::inline(attributes.kind, &cap);
    }
    cap.max_inline_data = cap.max_inline_data.min(process.config.clamp_inline);
    let (max_recv_wr, max_recv_sge) = if attributes.srq == 0 {
        (cap.max_recv_wr, cap.max_recv_sge)
    } else {
        (0, 0)
    };
    if receive::create(process, &shared.receives, max_recv_wr, max_recv_sge).is_none() {
        release_qp(process, index);
        return Err(libc::ENOMEM);
    }
    let key = process.fabric.qps.key(index);
    Ok(Arc::new(Qp {
        process,
        shared,
        key,
        index,
        kind: attributes.kind,
        cap,
        sig_all: attributes.sig_all,
        is_opened: false,
        queue: Mutex::default(),
    }))
}

/// Another handle of the XRC receive QP of a number, if it is of this domain of this device. The QP
/// lives as long as any handle.
pub fn open(process: &'static Process, key: u32, device: u32, xrcd: u32) -> Option<Arc<Qp>> {
    let shared = process.fabric.qps.find(key)?;
    let _lock = shared.entry.lock.lock();
    let kind = shared.kind.load(Relaxed);
    let is_of_domain = shared.device.load(Relaxed) == device && shared.xrcd.load(Relaxed) == xrcd;
    let lives = process.fabric.qps.find(key).is_some();
    (lives && kind == abi::IBV_QPT_XRC_RECV && is_of_domain).then(|| {
        shared.handles.fetch_add(1, Relaxed);
        let index = index_of(key);
        Arc::new(Qp {
            process,
            shared,
            key,
            index,
            kind,
            cap: NO_QUEUES,
            sig_all: false,
            is_opened: true,
            queue: Mutex::default(),
        })
    })
}

/// Takes all receives out with status "flushed". The caller holds the QP's lock.
fn flush_receives(process: &Process, qp: &Shared, key: u32) {
    while let Some(posted) = receive::take(process, &qp.receives) {
        let cqe = Cqe::new(
            posted.wr_id,
            abi::IBV_WC_WR_FLUSH_ERR,
            abi::IBV_WC_RECV,
            key,
            From::Receive(key),
        );
        cq::push(process, qp.recv_cq.load(Relaxed), &cqe);
    }
}

/// Moves any QP to the error state; its receives are flushed. The caller holds the QP's lock. Its
/// own process flushes its send queue.
pub fn fail(process: &Process, qp: &Shared, key: u32) {
    fail_with(process, qp, key, || ());
}

/// The same with the completion of what failed. Whoever polls it finds the QP in the error state.
pub fn fail_with(process: &Process, qp: &Shared, key: u32, complete: impl FnOnce()) {
    let has_failed = qp.state.swap(abi::IBV_QPS_ERR, Relaxed) == abi::IBV_QPS_ERR;
    complete();
    if has_failed {
        return;
    }
    if qp.srq.load(Relaxed) == 0 {
        flush_receives(process, qp, key);
    } else {
        event::push(
            process,
            qp.events.load(Relaxed),
            (abi::IBV_EVENT_QP_LAST_WQE_REACHED, key),
        );
    }
}

impl Qp {
    pub fn state(&self) -> u32 {
        self.shared.state.load(Relaxed)
    }

    pub fn port(&self) -> Port {
        self.shared.path.port(self.shared.device.load(Relaxed))
    }

    /// The local memory of a work request; None: a protection error.
    pub fn local(&self, wqe: &Wqe, access: u32) -> Option<Memory<'static>> {
        let (device, pd) = (self.shared.device.load(Relaxed), self.shared.pd.load(Relaxed));
        let memory = receive::memory(self.process, &wqe.sges, device, pd, access);
        let can_page = self.process.config.odp_bits.has(wqe.operation());
        memory.filter(|memory| can_page || !memory.is_on_demand())
    }

    /// Posts a receive. Err: errno.
    pub fn post_receive(&self, wr_id: u64, sges: &[Sge]) -> Result<(), i32> {
        self.process.check(self.shared.device.load(Relaxed))?;
        if self.state() == abi::IBV_QPS_RESET || self.shared.srq.load(Relaxed) != 0 {
            return Err(libc::EINVAL);
        }
        receive::post(self.process, &self.shared.receives, self.cap.max_recv_wr, wr_id, sges)?;
        if self.state() == abi::IBV_QPS_ERR {
            let _guard = self.shared.entry.lock.lock();
            flush_receives(self.process, self.shared, self.key);
        }
        Ok(())
    }

    /// `ibv_modify_qp`. The send queue can make progress then. Err: errno.
    pub fn modify(&self, queue: &mut SendQueue, attr: &abi::ibv_qp_attr, mask: u32) -> Result<u32, i32> {
        self.process.check(self.shared.device.load(Relaxed))?;
        let mask = state::relevant(self.kind, mask);
        let _guard = self.shared.entry.lock.lock();
        let from = self.state();
        if mask & abi::IBV_QP_CUR_STATE != 0 && attr.cur_qp_state != from {
            return Err(libc::EINVAL);
        }
        // Q_Keys with the highest bit set are for privileged processes.
        if mask & abi::IBV_QP_QKEY != 0 && attr.qkey >> 31 != 0 && self.process.config.no_net_raw {
            return Err(libc::EPERM);
        }
        // Drivers do not follow an HCA into this state.
        let leaves_sqe = from == abi::IBV_QPS_SQE && mask & abi::IBV_QP_STATE != 0;
        if leaves_sqe && attr.qp_state == abi::IBV_QPS_RTS && mask & abi::IBV_QP_CUR_STATE == 0 {
            return Err(libc::EINVAL);
        }
        let to = state::check(self.kind, from, attr.qp_state, mask)?;
        match to {
            abi::IBV_QPS_ERR => fail(self.process, self.shared, self.key),
            abi::IBV_QPS_RESET => self.reset(queue),
            _ => {
                self.set(attr, mask)?;
                self.shared.state.store(to, Relaxed);
            }
        }
        Ok(to)
    }

    fn reset(&self, queue: &mut SendQueue) {
        self.shared.state.store(abi::IBV_QPS_RESET, Relaxed);
        queue.entries.iter().for_each(|wqe| wqe.note_queued(self.process, -1));
        *queue = SendQueue::default();
        // Completions first: those that go count as polled.
        cq::forget(self.process, self.shared.send_cq.load(Relaxed), self.key);
        cq::forget(self.process, self.shared.recv_cq.load(Relaxed), self.key);
        receive::clear(self.process, &self.shared.receives);
        self.shared.sends_polled.store(0, Relaxed);
        self.shared.cut.store(0, Relaxed);
        migration::reset(self.shared);
    }

    /// Stores attributes; nothing is stored if one is not valid.
    fn set(&self, attr: &abi::ibv_qp_attr, mask: u32) -> Result<(), i32> {
        let has = |bit: u32| mask & bit != 0;
        let config = &self.process.config;
        let words = &config.of_ports;
        let [answered, started] = config.rd_atom;
        let port = u32::from(attr.port_num).wrapping_sub(1);
        let of_table = if has(abi::IBV_QP_PORT) {
            let device = self.shared.device.load(Relaxed);
            Port { device, port }
        } else {
            self.port()
        };
        let valid = (!has(abi::IBV_QP_PORT) || port < config.ports)
            && (!has(abi::IBV_QP_PKEY_INDEX) || words.has_partition(of_table, attr.pkey_index))
            && (!has(abi::IBV_QP_MAX_QP_RD_ATOMIC) || attr.max_rd_atomic <= started)
            && (!has(abi::IBV_QP_MAX_DEST_RD_ATOMIC) || attr.max_dest_rd_atomic <= answered)
            && (!has(abi::IBV_QP_PATH_MTU)
                || attr.path_mtu >= abi::IBV_MTU_256 && attr.path_mtu <= words.mtu(self.port()).ilog2() - 7)
            && (!has(abi::IBV_QP_TIMEOUT) || attr.timeout < 32)
            && (!has(abi::IBV_QP_RETRY_CNT) || attr.retry_cnt < 8)
            && (!has(abi::IBV_QP_RNR_RETRY) || attr.rnr_retry < 8)
            && (!has(abi::IBV_QP_MIN_RNR_TIMER) || attr.min_rnr_timer < 32)
            && (!has(abi::IBV_QP_AV) || vector_is_valid(config, self.port(), &attr.ah_attr))
            && migration::attributes_are_valid(config, self.shared, attr, mask);
        if !valid {
            return Err(libc::EINVAL);
        }
        let shared = self.shared;
        for (bit, field, value) in [
            (abi::IBV_QP_PORT, &shared.path.port, port),
            (
                abi::IBV_QP_PKEY_INDEX,
                &shared.path.pkey_index,
                u32::from(attr.pkey_index),
            ),
            (abi::IBV_QP_ACCESS_FLAGS, &shared.access, attr.qp_access_flags),
            (abi::IBV_QP_QKEY, &shared.qkey, attr.qkey),
            (abi::IBV_QP_PATH_MTU, &shared.path_mtu, attr.path_mtu),
            (abi::IBV_QP_DEST_QPN, &shared.dest_qpn, attr.dest_qp_num & 0x00ff_ffff),
            (abi::IBV_QP_RQ_PSN, &shared.rq_psn, attr.rq_psn & 0x00ff_ffff),
            (abi::IBV_QP_SQ_PSN, &shared.sq_psn, attr.sq_psn & 0x00ff_ffff),
            (
                abi::IBV_QP_MIN_RNR_TIMER,
                &shared.min_rnr_timer,
                u32::from(attr.min_rnr_timer),
            ),
            (
                abi::IBV_QP_MAX_DEST_RD_ATOMIC,
                &shared.max_dest_rd_atomic,
                u32::from(attr.max_dest_rd_atomic),
            ),
            (
                abi::IBV_QP_MAX_QP_RD_ATOMIC,
                &shared.max_rd_atomic,
                u32::from(attr.max_rd_atomic),
            ),
            (abi::IBV_QP_TIMEOUT, &shared.path.timeout, u32::from(attr.timeout)),
            (abi::IBV_QP_RETRY_CNT, &shared.retry_cnt, u32::from(attr.retry_cnt)),
            (abi::IBV_QP_RNR_RETRY, &shared.rnr_retry, u32::from(attr.rnr_retry)),
        ] {
            if has(bit) {
                field.store(value, Relaxed);
            }
        }
        if has(abi::IBV_QP_AV) {
            shared.path.set_vector(&attr.ah_attr);
        }
        migration::set(self.process, self.key, shared, attr, mask);
        Ok(())
    }

    /// Ends a handle, and with the last one the QP: when this returns nothing of it executes, and
    /// no completion of it is left.
    pub fn destroy(&self) {
        let mut queue = locked(&self.queue);
        let _lock = self.shared.entry.lock.lock();
        if !self.is_opened {
            event::forget(self.process, self.shared.events.swap(0, Relaxed), self.key, is_of_qp);
        }
        if self.shared.handles.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        self.reset(&mut queue);
        release_qp(self.process, self.index);
    }
}

/// Whether events of a type name a QP.
pub fn is_of_qp(event: u32) -> bool {
    (abi::IBV_EVENT_QP_FATAL..=abi::IBV_EVENT_PATH_MIG_ERR).contains(&event)
        || event == abi::IBV_EVENT_QP_LAST_WQE_REACHED
}
