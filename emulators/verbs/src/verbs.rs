//! Shared receive queues and queue pairs, as C calls.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use emulator_common::wait::Using;
use gasnet_ibv_abi as abi;

use crate::address::Destination;
use crate::config::{Ability, Call};
use crate::copy::{Sge, PIECES};
use crate::event;
use crate::extended;
use crate::footprint::{self, Locked};
use crate::handle::{
    check_end, context_of, load, null, sges, store, zeroed, Acknowledged, Ah, Context, Cq, Object, Pd, Qp, Srq, Xrcd,
};
use crate::qp::{self, Attributes, NO_QUEUES};
use crate::receive;
use crate::reclaim::destroy_srq;
use crate::send;
use crate::single_thread::OnlyThread;
use crate::srq;
use crate::wqe::Wqe;

fn new_srq(context: *mut abi::ibv_context, init: &abi::ibv_srq_init_attr_ex) -> Result<*mut abi::ibv_srq, i32> {
    let owner = Context::of(context);
    let config = &owner.process.config;
    let attr = init.attr;
    if !config.has(owner.device, Ability::Srq) {
        return Err(libc::EOPNOTSUPP);
    }
    owner.process.check(owner.device)?;
    owner.process.count(Call::CreateSrq)?;
    if attr.max_wr == 0 || attr.max_wr > config.most_shared() || attr.max_sge > config.max_sge {
        return Err(libc::EINVAL);
    }
    let xrc = (init.srq_type == abi::IBV_SRQT_XRC).then(|| (Xrcd::of(init.xrcd), Cq::of(init.cq)));
    if config.sizes {
        let kind = if xrc.is_some() { "XRC SRQ" } else { "SRQ" };
        eprintln!("emulator of verbs: {kind} of {} receives", attr.max_wr);
    }
    let pd = Pd::of(init.pd);
    let max_sge = attr.max_sge.max(1);
    let attributes = srq::Attributes {
        device: owner.device,
        pd: pd.number,
        max_wr: attr.max_wr,
        max_sge,
        xrcd: xrc.map_or(0, |(xrcd, _)| xrcd.number),
        cq: xrc.map_or(0, |(_, cq)| cq.key),
        events: owner.events,
    };
    let locked = Locked::new(owner.process, footprint::receives(attr.max_wr, max_sge, 16))?;
    let index = srq::create(owner.process, &attributes).ok_or(libc::ENOMEM)?;
    let mut uses = vec![Using::of(&pd.users)];
    if let Some((xrcd, cq)) = xrc {
        uses.extend([Using::of(&xrcd.users), Using::of(&cq.users)]);
    }
    let mut visible: abi::ibv_srq = zeroed();
    visible.context = context;
    visible.srq_context = init.srq_context;
    visible.pd = init.pd;
    visible.handle = index;
    let shared = owner.process.fabric.srqs.at(index);
    let handle = Srq {
        visible: UnsafeCell::new(visible),
        process: owner.process,
        shared,
        index,
        key: owner.process.fabric.srqs.key(index),
        max_wr: attr.max_wr,
        is_xrc: xrc.is_some(),
        uses,
        users: AtomicU32::new(0),
        poster: OnlyThread::new(),
        asynchronous: Acknowledged::default(),
        locked,
    }
    .handle();
    shared.user.store(handle as u64, Relaxed);
    Ok(handle)
}

#[no_mangle]
extern "C" fn ibv_create_srq(pd: *mut abi::ibv_pd, init: *mut abi::ibv_srq_init_attr) -> *mut abi::ibv_srq {
    let given = load(init);
    // All zero: a basic SRQ.
    let mut attr: abi::ibv_srq_init_attr_ex = zeroed();
    attr.srq_context = given.srq_context;
    attr.attr = given.attr;
    attr.pd = pd;
    new_srq(context_of(pd).pointer(), &attr).unwrap_or_else(null)
}

pub extern "C" fn create_srq_ex(
    context: *mut abi::ibv_context,
    init: *mut abi::ibv_srq_init_attr_ex,
) -> *mut abi::ibv_srq {
    let mut init = load(init);
    let has = |bit: u32| init.comp_mask & bit != 0;
    if !has(abi::IBV_SRQ_INIT_ATTR_TYPE) {
        init.srq_type = abi::IBV_SRQT_BASIC;
    }
    let xrc = abi::IBV_SRQ_INIT_ATTR_XRCD | abi::IBV_SRQ_INIT_ATTR_CQ;
    let complete = init.comp_mask & abi::IBV_SRQ_INIT_ATTR_PD != 0
        && match init.srq_type {
            abi::IBV_SRQT_BASIC => true,
            abi::IBV_SRQT_XRC => init.comp_mask & xrc == xrc,
            _ => return null(libc::EOPNOTSUPP),
        };
    if !complete {
        return null(libc::EINVAL);
    }
    new_srq(context, &init).unwrap_or_else(null)
}

pub extern "C" fn get_srq_num(srq: *mut abi::ibv_srq, number: *mut u32) -> c_int {
    if !Srq::of(srq).is_xrc {
        return libc::EOPNOTSUPP;
    }
    store(number, Srq::of(srq).key);
    0
}

#[no_mangle]
extern "C" fn ibv_destroy_srq(srq: *mut abi::ibv_srq) -> c_int {
    let object = Srq::of(srq);
    if let Err(errno) = check_end(context_of(srq), object.users.load(Relaxed)) {
        return errno;
    }
    receive::clear(object.process, &object.shared.receives);
    destroy_srq(object.process, object.index);
    let of_srq = |kind| matches!(kind, abi::IBV_EVENT_SRQ_ERR | abi::IBV_EVENT_SRQ_LIMIT_REACHED);
    event::forget(object.process, object.shared.events.load(Relaxed), object.key, of_srq);
    object.asynchronous.wait();
    Srq::free(srq);
    0
}

/// Walks a list of receives. Err: the errno of the first that is refused, in `bad`.
fn post_receives(
    first: *mut abi::ibv_recv_wr,
    bad: *mut *mut abi::ibv_recv_wr,
    post: impl Fn(u64, &[Sge]) -> Result<(), i32>,
) -> c_int {
    let mut next = first;
    while !next.is_null() {
        let wr = load(next);
        let posted = match usize::try_from(wr.num_sge) {
            Ok(count) if count <= PIECES => post(wr.wr_id, &sges(wr.sg_list, count)),
            _ => Err(libc::EINVAL),
        };
        if let Err(errno) = posted {
            store(bad, next);
            return errno;
        }
        next = wr.next;
    }
    0
}

pub extern "C" fn post_srq_recv(
    srq: *mut abi::ibv_srq,
    wr: *mut abi::ibv_recv_wr,
    bad: *mut *mut abi::ibv_recv_wr,
) -> c_int {
    let object = Srq::of(srq);
    object.poster.check("post to an SRQ");
    let device = object.shared.device.load(Relaxed);
    post_receives(wr, bad, |wr_id, sges| {
        object.process.check(device)?;
        receive::post(object.process, &object.shared.receives, object.max_wr, wr_id, sges)
    })
}

pub extern "C" fn post_recv(qp: *mut abi::ibv_qp, wr: *mut abi::ibv_recv_wr, bad: *mut *mut abi::ibv_recv_wr) -> c_int {
    let object = Qp::of(qp);
    object.receiver.check("post to a receive queue");
    post_receives(wr, bad, |wr_id, sges| object.qp.post_receive(wr_id, sges))
}

/// Checks the type of a QP, and that it has the objects that it needs. Err: errno.
fn check_init(owner: &Context, init: &abi::ibv_qp_init_attr_ex) -> Result<(), i32> {
    let has = |bit: u32| init.comp_mask & bit != 0;
    let has_xrc = owner.process.config.has(owner.device, Ability::Xrc);
    let has_sender = has(abi::IBV_QP_INIT_ATTR_PD) && !init.send_cq.is_null();
    let is_complete = match init.qp_type {
        // As libmana, and hns of HIP08 (rdma-core@166c46bc: providers/mana/qp.c).
        abi::IBV_QPT_UD if !owner.process.config.has_ud(owner.device) => return Err(libc::EINVAL),
        // As libefa (rdma-core@691953d8d: providers/efa/verbs.c).
        abi::IBV_QPT_RC | abi::IBV_QPT_UC if owner.process.config.srd => return Err(libc::EOPNOTSUPP),
        abi::IBV_QPT_RC | abi::IBV_QPT_UC | abi::IBV_QPT_UD => has_sender && !init.recv_cq.is_null(),
        abi::IBV_QPT_XRC_SEND if has_xrc => has_sender,
        abi::IBV_QPT_XRC_RECV if has_xrc => has(abi::IBV_QP_INIT_ATTR_XRCD),
        _ => return Err(libc::EOPNOTSUPP),
    };
    let srq_is_basic = !has_srq(init) || !Srq::of(init.srq).is_xrc && init.qp_type != abi::IBV_QPT_UC;
    // As libmlx5, which checks the limit of receives also where an SRQ has them (rdma-core#1624).
    let receives_fit =
        init.qp_type == abi::IBV_QPT_XRC_RECV || init.cap.max_recv_wr <= owner.process.config.most_received();
    if !is_complete
        || !srq_is_basic
        || !receives_fit
        || init.create_flags != 0 && has(abi::IBV_QP_INIT_ATTR_CREATE_FLAGS)
    {
        return Err(libc::EINVAL);
    }
    Ok(())
}

/// Whether a QP of these attributes takes its receives from an SRQ.
fn has_srq(init: &abi::ibv_qp_init_attr_ex) -> bool {
    !init.srq.is_null() && matches!(init.qp_type, abi::IBV_QPT_RC | abi::IBV_QPT_UD | abi::IBV_QPT_UC)
}

/// The capabilities that a QP of these attributes uses.
fn used_cap(init: &abi::ibv_qp_init_attr_ex) -> abi::ibv_qp_cap {
    match init.qp_type {
        abi::IBV_QPT_XRC_RECV => NO_QUEUES,
        kind if kind == abi::IBV_QPT_XRC_SEND || has_srq(init) => abi::ibv_qp_cap {
            max_recv_wr: 0,
            max_recv_sge: 0,
            ..init.cap
        },
        _ => init.cap,
    }
}

fn new_qp(context: *mut abi::ibv_context, init: &abi::ibv_qp_init_attr_ex) -> Result<*mut abi::ibv_qp, i32> {
    let owner = Context::of(context);
    check_init(owner, init)?;
    let (kind, cap) = (init.qp_type, used_cap(init));
    let is_target = kind == abi::IBV_QPT_XRC_RECV;
    let mut visible: abi::ibv_qp_ex = zeroed();
    let base = &mut visible.qp_base;
    base.context = context;
    base.qp_context = init.qp_context;
    // Unused members stay null.
    if !is_target {
        (base.pd, base.send_cq) = (init.pd, init.send_cq);
    }
    if !matches!(kind, abi::IBV_QPT_XRC_SEND | abi::IBV_QPT_XRC_RECV) {
        base.recv_cq = init.recv_cq;
    }
    if has_srq(init) {
        base.srq = init.srq;
    }
    base.qp_type = kind;
    let pd = (!is_target).then(|| Pd::of(init.pd));
    let xrcd = is_target.then(|| Xrcd::of(init.xrcd));
    let [send_cq, recv_cq] = [base.send_cq, base.recv_cq].map(|cq| (!cq.is_null()).then(|| Cq::of(cq)));
    let srq = has_srq(init).then(|| Srq::of(init.srq));
    let attributes = Attributes {
        kind,
        device: owner.device,
        pd: pd.map_or(0, |pd| pd.number),
        xrcd: xrcd.map_or(0, |xrcd| xrcd.number),
        send_cq: send_cq.map_or(0, |cq| cq.key),
        recv_cq: recv_cq.map_or(0, |cq| cq.key),
        srq: srq.map_or(0, |srq| srq.key),
        cap,
        sig_all: init.sq_sig_all != 0,
        events: owner.events,
    };
    if owner.process.config.sizes {
        let name = match kind {
            abi::IBV_QPT_RC => "RC",
            abi::IBV_QPT_UC => "UC",
            abi::IBV_QPT_UD => "UD",
            abi::IBV_QPT_XRC_SEND => "XRC_SEND",
            _ => "XRC_RECV",
        };
        let (sends, receives) = (cap.max_send_wr, cap.max_recv_wr);
        eprintln!("emulator of verbs: QP {name} of {sends} sends, {receives} receives");
    }
    let receives = footprint::receives(cap.max_recv_wr, cap.max_recv_sge, 0);
    let sends = footprint::send_queue(kind, &cap).unwrap_or(0);
    let locked = Some(Locked::new(owner.process, sends.saturating_add(receives))?);
    let qp = qp::create(owner.process, &attributes)?;
    base.handle = qp.index;
    base.qp_num = qp.key;
    if init.comp_mask & abi::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0 {
        extended::set_calls(&mut visible);
    }
    let users = [
        pd.map(|pd| &pd.users),
        xrcd.map(|xrcd| &xrcd.users),
        send_cq.map(|cq| &cq.users),
        recv_cq.map(|cq| &cq.users),
        srq.map(|srq| &srq.users),
    ];
    let shared = qp.shared;
    let handle = Qp {
        visible: UnsafeCell::new(visible),
        qp,
        uses: users.into_iter().flatten().map(Using::of).collect(),
        sender: OnlyThread::new(),
        receiver: OnlyThread::new(),
        asynchronous: Acknowledged::default(),
        locked,
        batch: UnsafeCell::default(),
    }
    .handle();
    shared.user.store(handle as u64, Relaxed);
    Ok(handle)
}

/// Writes the capabilities back, as real devices do after they round up.
#[no_mangle]
extern "C" fn ibv_create_qp(pd: *mut abi::ibv_pd, init: *mut abi::ibv_qp_init_attr) -> *mut abi::ibv_qp {
    let given = load(init);
    let mut attr: abi::ibv_qp_init_attr_ex = zeroed();
    attr.qp_context = given.qp_context;
    (attr.send_cq, attr.recv_cq, attr.srq) = (given.send_cq, given.recv_cq, given.srq);
    (attr.cap, attr.qp_type, attr.sq_sig_all) = (given.cap, given.qp_type, given.sq_sig_all);
    attr.comp_mask = abi::IBV_QP_INIT_ATTR_PD;
    attr.pd = pd;
    match new_qp(context_of(pd).pointer(), &attr) {
        Ok(qp) => {
            store(
                init,
                abi::ibv_qp_init_attr {
                    cap: Qp::of(qp).qp.cap,
                    ..given
                },
            );
            qp
        }
        Err(errno) => null(errno),
    }
}

pub extern "C" fn create_qp_ex(
    context: *mut abi::ibv_context,
    init: *mut abi::ibv_qp_init_attr_ex,
) -> *mut abi::ibv_qp {
    let known = abi::IBV_QP_INIT_ATTR_PD
        | abi::IBV_QP_INIT_ATTR_XRCD
        | abi::IBV_QP_INIT_ATTR_CREATE_FLAGS
        | abi::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    let mut given = load(init);
    let calls = given.comp_mask & abi::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
    if given.comp_mask & !known != 0 || calls && given.send_ops_flags & !u64::from(extended::OPERATIONS) != 0 {
        return null(libc::EOPNOTSUPP);
    }
    match new_qp(context, &given) {
        Ok(qp) => {
            given.cap = Qp::of(qp).qp.cap;
            store(init, given);
            qp
        }
        Err(errno) => null(errno),
    }
}

/// Another handle of an XRC receive QP of the same domain.
pub extern "C" fn open_qp(context: *mut abi::ibv_context, attr: *mut abi::ibv_qp_open_attr) -> *mut abi::ibv_qp {
    let attr = load(attr);
    let owner = Context::of(context);
    let must = abi::IBV_QP_OPEN_ATTR_NUM | abi::IBV_QP_OPEN_ATTR_XRCD | abi::IBV_QP_OPEN_ATTR_TYPE;
    if attr.comp_mask & must != must || attr.qp_type != abi::IBV_QPT_XRC_RECV {
        return null(libc::EINVAL);
    }
    if let Err(errno) = owner.process.check(owner.device) {
        return null(errno);
    }
    let domain = Xrcd::of(attr.xrcd);
    let found = qp::open(owner.process, attr.qp_num, owner.device, domain.number);
    let Some(opened) = found else { return null(libc::EINVAL) };
    let mut visible: abi::ibv_qp_ex = zeroed();
    let base = &mut visible.qp_base;
    base.context = context;
    base.qp_context = attr.qp_context;
    base.qp_num = opened.key;
    base.qp_type = attr.qp_type;
    base.state = opened.state();
    Qp {
        visible: UnsafeCell::new(visible),
        qp: opened,
        uses: vec![Using::of(&domain.users)],
        sender: OnlyThread::new(),
        receiver: OnlyThread::new(),
        asynchronous: Acknowledged::default(),
        locked: None,
        batch: UnsafeCell::default(),
    }
    .handle()
}

#[no_mangle]
extern "C" fn ibv_destroy_qp(qp: *mut abi::ibv_qp) -> c_int {
    let object = Qp::of(qp);
    // Nothing is made of a QP.
    if let Err(errno) = check_end(context_of(qp), 0) {
        return errno;
    }
    object.qp.destroy();
    object.asynchronous.wait();
    Qp::free(qp);
    0
}

/// The emulator's form of a work request.
fn wqe(wr: &abi::ibv_send_wr, ud: bool) -> Wqe {
    let mut wqe = Wqe {
        wr_id: wr.wr_id,
        opcode: wr.opcode,
        flags: wr.send_flags,
        sges: sges(wr.sg_list, usize::try_from(wr.num_sge).unwrap_or(0)),
        ..Wqe::default()
    };
    // SAFETY: which variant is valid follows from the type of the QP and the operation; all are plain.
    unsafe {
        wqe.imm = wr.__bindgen_anon_1.imm_data;
        wqe.srqn = wr.qp_type.xrc.remote_srqn;
        match wr.opcode {
            _ if ud => {
                let to = &wr.wr.ud;
                let ah = (!to.ah.is_null()).then(|| Ah::of(to.ah));
                wqe.ud = ah.map(|ah| Destination {
                    vector: ah.vector,
                    qpn: to.remote_qpn,
                    qkey: to.remote_qkey,
                });
                wqe.handle = ah.map(|ah| Using::of(&ah.queued));
            }
            abi::IBV_WR_ATOMIC_CMP_AND_SWP | abi::IBV_WR_ATOMIC_FETCH_AND_ADD => {
                let atomic = &wr.wr.atomic;
                (wqe.remote_addr, wqe.rkey) = (atomic.remote_addr, atomic.rkey);
                (wqe.compare_add, wqe.swap) = (atomic.compare_add, atomic.swap);
            }
            _ => (wqe.remote_addr, wqe.rkey) = (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey),
        }
    }
    wqe
}

/// The work requests of a list in C.
struct Requests(*mut abi::ibv_send_wr);

impl Iterator for Requests {
    type Item = abi::ibv_send_wr;

    fn next(&mut self) -> Option<abi::ibv_send_wr> {
        if self.0.is_null() {
            return None;
        }
        let wr = load(self.0);
        self.0 = wr.next;
        Some(wr)
    }
}

pub extern "C" fn post_send(
    qp: *mut abi::ibv_qp,
    first: *mut abi::ibv_send_wr,
    bad: *mut *mut abi::ibv_send_wr,
) -> c_int {
    let object = Qp::of(qp);
    object.sender.check("post to a send queue");
    let ud = object.qp.kind == abi::IBV_QPT_UD;
    match send::post(&object.qp, Requests(first).map(|wr| wqe(&wr, ud))) {
        Ok(()) => 0,
        Err((errno, posted)) => {
            let mut refused = first;
            for _ in 0..posted {
                refused = load(refused).next;
            }
            store(bad, refused);
            errno
        }
    }
}
