//! Completion channels, completion queues, and polling them.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use emulator_common::wait::{Misses, Using};
use gasnet_ibv_abi as abi;

use crate::config::Call;
use crate::cq::{self, Cqe};
use crate::event;
use crate::footprint::{self, Locked};
use crate::handle::{check_end, context_of, null, null_for, store, zeroed, Acknowledged, Channel, Context, Cq, Object};
use crate::reclaim::{destroy_cq, destroy_events};
use crate::single_thread::OnlyThread;

#[no_mangle]
extern "C" fn ibv_create_comp_channel(context: *mut abi::ibv_context) -> *mut abi::ibv_comp_channel {
    let owner = Context::of(context);
    if let Err(errno) = owner.process.check(owner.device) {
        return null(errno);
    }
    match event::create(owner.process) {
        Ok((events, descriptor)) => {
            let visible = abi::ibv_comp_channel {
                context,
                fd: descriptor.as_raw_fd(),
                refcnt: 0,
            };
            Channel {
                visible: UnsafeCell::new(visible),
                events,
                descriptor,
                context: Using::of(&owner.users),
                users: AtomicU32::new(0),
            }
            .handle()
        }
        Err(error) => null_for(&error),
    }
}

#[no_mangle]
extern "C" fn ibv_destroy_comp_channel(channel: *mut abi::ibv_comp_channel) -> c_int {
    let object = Channel::of(channel);
    if let Err(errno) = check_end(context_of(channel), object.users.load(Relaxed)) {
        return errno;
    }
    destroy_events(context_of(channel).process, object.events);
    Channel::free(channel);
    0
}

/// Makes a CQ for as many completions as the program asks for. Devices may have room for more.
pub fn create(
    context: *mut abi::ibv_context,
    capacity: u32,
    user: *mut c_void,
    channel: *mut abi::ibv_comp_channel,
    vector: u32,
) -> Result<*mut abi::ibv_cq, i32> {
    let owner = Context::of(context);
    // SAFETY: set by `ibv_open_device`.
    let vectors = unsafe { (*context).num_comp_vectors } as u32;
    if capacity == 0 || capacity > owner.process.config.max_cqe || vector >= vectors {
        return Err(libc::EINVAL);
    }
    owner.process.check(owner.device)?;
    owner.process.count(Call::CreateCq)?;
    if owner.process.config.sizes {
        eprintln!("emulator of verbs: CQ of {capacity} completions");
    }
    let channel_of = (!channel.is_null()).then(|| Channel::of(channel));
    let channel_events = channel_of.map_or(0, |channel| channel.events);
    let locked = Locked::new(owner.process, footprint::completions(capacity))?;
    let index = cq::create(owner.process, capacity, channel_events, owner.events).ok_or(libc::ENOMEM)?;
    let mut visible: abi::ibv_cq_ex = zeroed();
    visible.context = context;
    visible.channel = channel;
    visible.cq_context = user;
    visible.cqe = capacity as c_int;
    visible.handle = index;
    let shared = owner.process.fabric.cqs.at(index);
    let handle = Cq {
        visible: UnsafeCell::new(visible),
        process: owner.process,
        shared,
        index,
        key: owner.process.fabric.cqs.key(index),
        context: Using::of(&owner.users),
        channel: channel_of.map(|channel| Using::of(&channel.users)),
        users: AtomicU32::new(0),
        poller: OnlyThread::new(),
        misses: Misses::default(),
        completions: Acknowledged::default(),
        asynchronous: Acknowledged::default(),
        locked,
        current: UnsafeCell::new(None),
    }
    .handle();
    shared.user.store(handle as u64, Relaxed);
    Ok(handle)
}

#[no_mangle]
extern "C" fn ibv_create_cq(
    context: *mut abi::ibv_context,
    capacity: c_int,
    user: *mut c_void,
    channel: *mut abi::ibv_comp_channel,
    vector: c_int,
) -> *mut abi::ibv_cq {
    let capacity = u32::try_from(capacity).unwrap_or(0);
    create(context, capacity, user, channel, vector as u32).unwrap_or_else(null)
}

/// Waits until all events of the CQ that were read are acknowledged.
#[no_mangle]
extern "C" fn ibv_destroy_cq(cq: *mut abi::ibv_cq) -> c_int {
    let object = Cq::of(cq);
    if let Err(errno) = check_end(context_of(cq), object.users.load(Relaxed)) {
        return errno;
    }
    let (process, shared) = (object.process, object.shared);
    destroy_cq(process, object.index);
    event::forget(process, shared.channel.load(Relaxed), object.key, |_| true);
    event::forget(process, shared.events.load(Relaxed), object.key, |kind| {
        kind == abi::IBV_EVENT_CQ_ERR
    });
    object.completions.wait();
    object.asynchronous.wait();
    Cq::free(cq);
    0
}

#[no_mangle]
extern "C" fn ibv_get_cq_event(
    channel: *mut abi::ibv_comp_channel,
    cq: *mut *mut abi::ibv_cq,
    user: *mut *mut c_void,
) -> c_int {
    let object = Channel::of(channel);
    let process = context_of(channel).process;
    let find = |(_, key)| cq::find(process, key).map(|shared| shared.user.load(Relaxed) as *mut abi::ibv_cq);
    match event::wait(process, object.events, &object.descriptor, find) {
        Ok(handle) => {
            let found = Cq::of(handle);
            found.completions.deliver();
            store(cq, handle);
            // SAFETY: set when it was created.
            store(user, unsafe { (*found.visible.get()).cq_context });
            0
        }
        Err(error) => {
            null_for::<u8>(&error);
            -1
        }
    }
}

#[no_mangle]
extern "C" fn ibv_ack_cq_events(cq: *mut abi::ibv_cq, events: u32) {
    Cq::of(cq).completions.acknowledge(events);
}

/// Completions before an overrun can still be polled; then the CQ is in error.
pub extern "C" fn poll_cq(cq: *mut abi::ibv_cq, limit: c_int, place: *mut abi::ibv_wc) -> c_int {
    let object = Cq::of(cq);
    let Ok(limit) = usize::try_from(limit) else { return -1 };
    object.poller.check("poll a CQ");
    if object.process.config.resolve_polls != 0 {
        context_of(cq).polls.fetch_add(1, Relaxed);
    }
    let mut next = place;
    let polled = cq::poll(object.process, object.shared, limit, |cqe| {
        store(next, completion(cqe));
        next = next.wrapping_add(1);
    });
    let yields = object.process.config.yields;
    if polled == Ok(0) {
        object.misses.count(yields);
    } else if yields != 0 {
        object.misses.reset();
    }
    polled.map_or(-1, |count| count as c_int)
}

fn completion(cqe: &Cqe) -> abi::ibv_wc {
    let mut wc: abi::ibv_wc = zeroed();
    wc.wr_id = cqe.wr_id;
    wc.status = cqe.status;
    wc.qp_num = cqe.qp_num;
    wc.vendor_err = cqe.status;
    if cqe.status == abi::IBV_WC_SUCCESS {
        wc.vendor_err = 0;
        wc.opcode = cqe.opcode;
        wc.byte_len = cqe.byte_len;
        wc.__bindgen_anon_1.imm_data = cqe.imm;
        wc.src_qp = cqe.src_qp;
        wc.wc_flags = cqe.wc_flags;
        wc.slid = cqe.slid;
        wc.sl = cqe.service_level;
    } else {
        // Only wr_id, status, qp_num and vendor_err of a failed work request are valid.
        wc.opcode = abi::IBV_WC_DRIVER3;
        wc.byte_len = 0xdead_dead;
    }
    wc
}

pub extern "C" fn req_notify_cq(cq: *mut abi::ibv_cq, solicited_only: c_int) -> c_int {
    let shared = Cq::of(cq).shared;
    let _guard = shared.entry.lock.lock();
    let wanted = if solicited_only == 0 { 2 } else { 1 };
    // A CQ that is armed for any completion stays so.
    shared.armed.fetch_max(wanted, Relaxed);
    0
}
