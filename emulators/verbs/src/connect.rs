//! Address handles, and queue pairs' attributes, as C calls.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use emulator_common::lock::locked;
use emulator_common::wait::Using;
use gasnet_ibv_abi as abi;

use crate::address::{port_numbered, Address, Vector};
use crate::config::{Config, Link};
use crate::handle::{check_end, context_of, load, misuse, null, store, zeroed, Ah, Context, Object, Pd, Qp};
use crate::path::vector_is_valid;
use crate::send;

/// The vector of attributes, if the port can send to it.
fn vector(config: &Config, device: u32, attr: &abi::ibv_ah_attr) -> Option<Vector> {
    let port = port_numbered(config, device, attr.port_num).filter(|&port| vector_is_valid(config, port, attr))?;
    // SAFETY: both variants are plain bytes.
    let raw = unsafe { attr.grh.dgid.raw };
    let dgid = (attr.is_global != 0).then_some(raw);
    let to = match dgid {
        Some(gid) if config.link(device) == Link::Roce || attr.dlid == 0 => Address::Gid(gid),
        _ => Address::Lid(attr.dlid),
    };
    Some(Vector {
        port,
        to,
        dgid,
        sgid_index: u32::from(attr.grh.sgid_index),
        service_level: attr.sl,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
    })
}

/// A call that does not resolve an address may block for as long as polls go on.
fn wait_for_polls(context: &Context) {
    const LIMIT: Duration = Duration::from_secs(2);
    let end = context.polls.load(Relaxed) + context.process.config.resolve_polls;
    let begun = Instant::now();
    while context.polls.load(Relaxed) < end && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[no_mangle]
extern "C" fn ibv_create_ah(pd: *mut abi::ibv_pd, attr: *mut abi::ibv_ah_attr) -> *mut abi::ibv_ah {
    let owner = context_of(pd);
    let Some(vector) = vector(&owner.process.config, owner.device, &load(attr)) else {
        return null(libc::EINVAL);
    };
    if let Err(errno) = owner.process.check(owner.device) {
        return null(errno);
    }
    if vector.dgid.is_some() {
        if let Err(errno) = owner.process.resolve_handle() {
            wait_for_polls(owner);
            return null(errno);
        }
    }
    let context = owner.pointer();
    Ah {
        visible: UnsafeCell::new(abi::ibv_ah { context, pd, handle: 0 }),
        pd: Using::of(&Pd::of(pd).users),
        vector,
        queued: AtomicU32::new(0),
    }
    .handle()
}

#[no_mangle]
extern "C" fn ibv_destroy_ah(ah: *mut abi::ibv_ah) -> c_int {
    let queued = Ah::of(ah).queued.load(Relaxed);
    match check_end(context_of(ah), queued) {
        Ok(()) => {}
        Err(libc::EBUSY) => misuse("ibv_destroy_ah while datagrams that name the handle are queued"),
        Err(errno) => return errno,
    }
    Ah::free(ah);
    0
}

#[no_mangle]
extern "C" fn ibv_modify_qp(qp: *mut abi::ibv_qp, attr: *mut abi::ibv_qp_attr, mask: c_int) -> c_int {
    let (object, given) = (Qp::of(qp), load(attr));
    if mask as u32 & abi::IBV_QP_AV != 0 && given.ah_attr.is_global != 0 {
        if let Err(errno) = object.qp.process.resolve() {
            wait_for_polls(context_of(qp));
            return errno;
        }
    }
    let mut queue = locked(&object.qp.queue);
    match object.qp.modify(&mut queue, &given, mask as u32) {
        Ok(state) => {
            send::progress(&object.qp, &mut queue);
            // SAFETY: a field of the handle, which the program only reads.
            unsafe { (*object.visible.get()).qp_base.state = state };
            0
        }
        Err(errno) => errno,
    }
}

/// All attributes, whatever the mask asks for.
#[no_mangle]
extern "C" fn ibv_query_qp(
    qp: *mut abi::ibv_qp,
    attr: *mut abi::ibv_qp_attr,
    _mask: c_int,
    init: *mut abi::ibv_qp_init_attr,
) -> c_int {
    let object = Qp::of(qp);
    let (own, shared) = (&object.qp, object.qp.shared);
    let (mut answer, mut made) = (zeroed::<abi::ibv_qp_attr>(), zeroed::<abi::ibv_qp_init_attr>());
    // SAFETY: the handle's fields are only written by `ibv_modify_qp`.
    let visible = unsafe { &(*object.visible.get()).qp_base };
    answer.qp_state = own.state();
    answer.cur_qp_state = own.state();
    answer.path_mtu = shared.path_mtu.load(Relaxed);
    answer.path_mig_state = shared.migration.load(Relaxed);
    answer.qkey = shared.qkey.load(Relaxed);
    answer.rq_psn = shared.rq_psn.load(Relaxed);
    answer.sq_psn = shared.sq_psn.load(Relaxed);
    answer.dest_qp_num = shared.dest_qpn.load(Relaxed);
    answer.qp_access_flags = shared.access.load(Relaxed);
    answer.cap = own.cap;
    answer.max_rd_atomic = shared.max_rd_atomic.load(Relaxed) as u8;
    answer.max_dest_rd_atomic = shared.max_dest_rd_atomic.load(Relaxed) as u8;
    answer.min_rnr_timer = shared.min_rnr_timer.load(Relaxed) as u8;
    answer.retry_cnt = shared.retry_cnt.load(Relaxed) as u8;
    answer.rnr_retry = shared.rnr_retry.load(Relaxed) as u8;
    answer.ah_attr = shared.path.vector();
    answer.port_num = answer.ah_attr.port_num;
    answer.timeout = shared.path.timeout.load(Relaxed) as u8;
    if shared.has_alternate.load(Relaxed) != 0 {
        answer.alt_ah_attr = shared.alternate.vector();
        answer.alt_port_num = answer.alt_ah_attr.port_num;
        answer.alt_timeout = shared.alternate.timeout.load(Relaxed) as u8;
    }
    made.qp_context = visible.qp_context;
    made.send_cq = visible.send_cq;
    made.recv_cq = visible.recv_cq;
    made.srq = visible.srq;
    made.cap = own.cap;
    made.qp_type = own.kind;
    made.sq_sig_all = c_int::from(own.sig_all);
    store(attr, answer);
    store(init, made);
    0
}
