//! The extended interfaces: polling a CQ field by field, and posting by calls. Proof, also of what
//! is not needed: `ibv_rc_pingpong -N -t` (scripts/check/64-emulators.sh), and perftest
//! (emulators/README.md).

use std::ffi::{c_int, c_void};

use emulator_common::wait::Using;
use gasnet_ibv_abi as abi;

use crate::address::Destination;
use crate::copy::{gather_inline, Sge};
use crate::cq::{self, Cqe};
use crate::handle::{load, null, Ah, Cq, Object, Qp};
use crate::poll;
use crate::send;
use crate::wqe::Wqe;

pub extern "C" fn create_cq_ex(
    context: *mut abi::ibv_context,
    attr: *mut abi::ibv_cq_init_attr_ex,
) -> *mut abi::ibv_cq_ex {
    let attr = load(attr);
    let offered = abi::IBV_WC_EX_WITH_BYTE_LEN | abi::IBV_WC_EX_WITH_QP_NUM | abi::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    if attr.comp_mask & !abi::IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 || attr.wc_flags & !u64::from(offered) != 0 {
        return null(libc::EOPNOTSUPP);
    }
    match poll::create(context, attr.cqe, attr.cq_context, attr.channel, attr.comp_vector) {
        Ok(cq) => {
            let visible = Cq::of(cq).visible.get();
            // SAFETY: nobody else has the new handle.
            let visible = unsafe { &mut *visible };
            visible.start_poll = Some(start_poll);
            visible.next_poll = Some(next_poll);
            visible.end_poll = Some(end_poll);
            visible.read_opcode = Some(read_opcode);
            visible.read_vendor_err = Some(read_vendor_err);
            visible.read_byte_len = Some(read_byte_len);
            visible.read_qp_num = Some(read_qp_num);
            visible.read_wc_flags = Some(read_wc_flags);
            visible.read_completion_ts = Some(read_completion_ts);
            cq.cast()
        }
        Err(error) => null(error),
    }
}

extern "C" fn next_poll(cq: *mut abi::ibv_cq_ex) -> c_int {
    let object = Cq::of(cq.cast());
    object.poller.check("poll a CQ");
    let mut next = None;
    if cq::poll(object.process, object.shared, 1, |cqe| next = Some(*cqe)).is_err() {
        return libc::EIO;
    }
    let Some(cqe) = next else { return libc::ENOENT };
    // SAFETY: one thread polls at a time, between start_poll and end_poll.
    unsafe {
        (*object.visible.get()).status = cqe.status;
        (*object.visible.get()).wr_id = cqe.wr_id;
        *object.current.get() = next;
    }
    0
}

extern "C" fn start_poll(cq: *mut abi::ibv_cq_ex, attr: *mut abi::ibv_poll_cq_attr) -> c_int {
    if load(attr).comp_mask != 0 {
        return libc::EINVAL;
    }
    next_poll(cq)
}

extern "C" fn end_poll(_cq: *mut abi::ibv_cq_ex) {}

/// A field of the completion that was polled last.
fn field<T: Default>(cq: *mut abi::ibv_cq_ex, read: impl Fn(&Cqe) -> T) -> T {
    // SAFETY: as in `next_poll`.
    unsafe { &*Cq::of(cq.cast()).current.get() }
        .as_ref()
        .map(read)
        .unwrap_or_default()
}

extern "C" fn read_opcode(cq: *mut abi::ibv_cq_ex) -> u32 {
    field(cq, |cqe| cqe.opcode)
}
extern "C" fn read_vendor_err(cq: *mut abi::ibv_cq_ex) -> u32 {
    field(cq, |cqe| cqe.status)
}
extern "C" fn read_byte_len(cq: *mut abi::ibv_cq_ex) -> u32 {
    field(cq, |cqe| cqe.byte_len)
}
extern "C" fn read_qp_num(cq: *mut abi::ibv_cq_ex) -> u32 {
    field(cq, |cqe| cqe.qp_num)
}
extern "C" fn read_wc_flags(cq: *mut abi::ibv_cq_ex) -> u32 {
    field(cq, |cqe| cqe.wc_flags)
}
extern "C" fn read_completion_ts(cq: *mut abi::ibv_cq_ex) -> u64 {
    field(cq, |cqe| cqe.time_ns)
}

/// Operations that have such calls.
pub const OPERATIONS: u32 = abi::IBV_QP_EX_WITH_SEND
    | abi::IBV_QP_EX_WITH_RDMA_WRITE
    | abi::IBV_QP_EX_WITH_RDMA_READ
    | abi::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | abi::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// Sets the calls by which work requests are built.
pub fn set_calls(qp: &mut abi::ibv_qp_ex) {
    qp.wr_start = Some(wr_start);
    qp.wr_complete = Some(wr_complete);
    qp.wr_abort = Some(wr_start);
    qp.wr_send = Some(wr_send);
    qp.wr_rdma_write = Some(wr_rdma_write);
    qp.wr_rdma_read = Some(wr_rdma_read);
    qp.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
    qp.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
    qp.wr_set_ud_addr = Some(wr_set_ud_addr);
    qp.wr_set_xrc_srqn = Some(wr_set_xrc_srqn);
    qp.wr_set_sge = Some(wr_set_sge);
    qp.wr_set_inline_data = Some(wr_set_inline_data);
}

/// The work requests of the batch that a thread builds.
fn batch(qp: *mut abi::ibv_qp_ex) -> &'static mut Vec<Wqe> {
    // SAFETY: one thread at a time is between wr_start and wr_complete.
    unsafe { &mut *Qp::of(qp.cast()).batch.get() }
}

extern "C" fn wr_start(qp: *mut abi::ibv_qp_ex) {
    batch(qp).clear();
}

extern "C" fn wr_complete(qp: *mut abi::ibv_qp_ex) -> c_int {
    let object = Qp::of(qp.cast());
    object.sender.check("post to a send queue");
    send::post(&object.qp, batch(qp).drain(..)).map_or_else(|(errno, _)| errno, |()| 0)
}

/// Begins a work request; what `fill` does not set follows by other calls.
fn begin(qp: *mut abi::ibv_qp_ex, opcode: u32, fill: impl FnOnce(&mut Wqe)) {
    let (wr_id, flags) = {
        let visible = Qp::of(qp.cast()).visible.get();
        // SAFETY: the program sets both before the call.
        unsafe { ((*visible).wr_id, (*visible).wr_flags) }
    };
    let mut wqe = Wqe {
        wr_id,
        opcode,
        flags,
        ..Wqe::default()
    };
    fill(&mut wqe);
    batch(qp).push(wqe);
}

/// Changes the work request that was begun last.
fn amend(qp: *mut abi::ibv_qp_ex, change: impl FnOnce(&mut Wqe)) {
    if let Some(wqe) = batch(qp).last_mut() {
        change(wqe);
    }
}

extern "C" fn wr_send(qp: *mut abi::ibv_qp_ex) {
    begin(qp, abi::IBV_WR_SEND, |_| ());
}
extern "C" fn wr_rdma_write(qp: *mut abi::ibv_qp_ex, rkey: u32, addr: u64) {
    begin(qp, abi::IBV_WR_RDMA_WRITE, |wqe| {
        (wqe.rkey, wqe.remote_addr) = (rkey, addr);
    });
}
extern "C" fn wr_rdma_read(qp: *mut abi::ibv_qp_ex, rkey: u32, addr: u64) {
    begin(qp, abi::IBV_WR_RDMA_READ, |wqe| {
        (wqe.rkey, wqe.remote_addr) = (rkey, addr);
    });
}
extern "C" fn wr_atomic_cmp_swp(qp: *mut abi::ibv_qp_ex, rkey: u32, addr: u64, compare: u64, swap: u64) {
    begin(qp, abi::IBV_WR_ATOMIC_CMP_AND_SWP, |wqe| {
        (wqe.rkey, wqe.remote_addr, wqe.compare_add, wqe.swap) = (rkey, addr, compare, swap);
    });
}
extern "C" fn wr_atomic_fetch_add(qp: *mut abi::ibv_qp_ex, rkey: u32, addr: u64, add: u64) {
    begin(qp, abi::IBV_WR_ATOMIC_FETCH_AND_ADD, |wqe| {
        (wqe.rkey, wqe.remote_addr, wqe.compare_add) = (rkey, addr, add);
    });
}
extern "C" fn wr_set_ud_addr(qp: *mut abi::ibv_qp_ex, ah: *mut abi::ibv_ah, qpn: u32, qkey: u32) {
    let Ah { vector, queued, .. } = Ah::of(ah);
    let vector = *vector;
    amend(qp, |wqe| {
        wqe.ud = Some(Destination { vector, qpn, qkey });
        wqe.handle = Some(Using::of(queued));
    });
}
extern "C" fn wr_set_xrc_srqn(qp: *mut abi::ibv_qp_ex, srqn: u32) {
    amend(qp, |wqe| wqe.srqn = srqn);
}
extern "C" fn wr_set_sge(qp: *mut abi::ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    amend(qp, |wqe| wqe.sges = vec![Sge { addr, length, lkey }]);
}
/// The data are read now. Flag and length are checked when the batch is posted.
extern "C" fn wr_set_inline_data(qp: *mut abi::ibv_qp_ex, addr: *mut c_void, bytes: usize) {
    let sge = Sge {
        addr: addr as u64,
        length: bytes as u32,
        lkey: 0,
    };
    amend(qp, |wqe| {
        wqe.data = Some(gather_inline(&[sge], bytes));
        wqe.flags |= abi::IBV_SEND_INLINE;
    });
}

/// Only of QPs that were created with operations for it (`IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`).
#[no_mangle]
extern "C" fn ibv_qp_to_qp_ex(qp: *mut abi::ibv_qp) -> *mut abi::ibv_qp_ex {
    let visible = Qp::of(qp).visible.get();
    // SAFETY: set when it was created.
    match unsafe { (*visible).wr_start } {
        Some(_) => qp.cast(),
        None => null(libc::EOPNOTSUPP),
    }
}
