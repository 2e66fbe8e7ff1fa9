//! Devices, contexts, and their attributes.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use gasnet_ibv_abi as abi;

use crate::address;
use crate::config::{Ability, Call, Config, Link};
use crate::event;
use crate::extended;
use crate::handle::{load, misuse, null, null_for, store, zeroed, Context, Cq, Device, Object, Qp, Srq};
use crate::memory;
use crate::poll;
use crate::process::{current, now_ns, Process};
use crate::qp::is_of_qp;
use crate::raise::{self, Opened};
use crate::reclaim::destroy_events;
use crate::shm::Port;
use crate::single_thread;
use crate::verbs;

/// Writes a string into an array of C, with its zero.
fn set_text<const N: usize>(array: &mut [c_char; N], text: &str) {
    for (to, from) in array.iter_mut().zip(text.bytes().take(N - 1).chain([0])) {
        *to = from as c_char;
    }
}

fn new_device(index: u32, config: &Config) -> *mut abi::ibv_device {
    let mut visible: abi::ibv_device = zeroed();
    (visible.node_type, visible.transport_type) = if config.srd {
        (abi::IBV_NODE_UNSPECIFIED, abi::IBV_TRANSPORT_UNSPECIFIED)
    } else if config.iwarp {
        (abi::IBV_NODE_RNIC, abi::IBV_TRANSPORT_IWARP)
    } else {
        (abi::IBV_NODE_CA, abi::IBV_TRANSPORT_IB)
    };
    set_text(&mut visible.name, &format!("{}{index}", config.name));
    set_text(&mut visible.dev_name, &format!("uverbs{index}"));
    set_text(
        &mut visible.dev_path,
        &format!("{}/sys/infiniband_verbs/uverbs{index}", config.dir),
    );
    set_text(
        &mut visible.ibdev_path,
        &format!("{}/sys/infiniband/{}{index}", config.dir, config.name),
    );
    Device {
        visible: UnsafeCell::new(visible),
        index,
    }
    .handle()
}

/// The list ends with null and is freed by `ibv_free_device_list`; devices themselves stay.
#[no_mangle]
extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut abi::ibv_device {
    static DEVICES: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    let process = match current() {
        Ok(process) => process,
        Err(why) => {
            eprintln!("emulator of verbs: {why}");
            return null(libc::ENOSYS);
        }
    };
    let config = &process.config;
    let devices = DEVICES.get_or_init(|| (0..config.hcas).map(|i| new_device(i, config) as usize).collect());
    if !count.is_null() {
        store(count, devices.len() as c_int);
    }
    let list: Box<[*mut abi::ibv_device]> = devices
        .iter()
        .map(|&d| d as *mut _)
        .chain([std::ptr::null_mut()])
        .collect();
    Box::into_raw(list).cast()
}

#[no_mangle]
extern "C" fn ibv_free_device_list(list: *mut *mut abi::ibv_device) {
    let mut length = 1;
    // SAFETY: the list is from `ibv_get_device_list`, and ends with null.
    unsafe {
        while !(*list.add(length - 1)).is_null() {
            length += 1;
        }
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, length)));
    }
}

#[no_mangle]
extern "C" fn ibv_get_device_name(device: *mut abi::ibv_device) -> *const c_char {
    Device::of(device)
        .visible
        .get()
        .cast::<u8>()
        .wrapping_add(std::mem::offset_of!(abi::ibv_device, name))
        .cast()
}

/// GUID in network byte order; 0: the device has none.
fn node_guid(config: &Config, device: u32) -> u64 {
    if config.of_ports.no_guid {
        return 0;
    }
    address::guid(device, None).to_be()
}

#[no_mangle]
extern "C" fn ibv_get_device_guid(device: *mut abi::ibv_device) -> u64 {
    current().map_or(0, |process| node_guid(&process.config, Device::of(device).index))
}

#[no_mangle]
extern "C" fn ibv_get_device_index(device: *mut abi::ibv_device) -> c_int {
    Device::of(device).index as c_int
}

/// The part of a context that programs see: the operations that its device offers; others are null.
fn new_context(config: &Config, index: u32, device: *mut abi::ibv_device, async_fd: c_int) -> abi::verbs_context {
    let mut visible: abi::verbs_context = zeroed();
    visible.sz = size_of::<abi::verbs_context>();
    visible.query_port = Some(query_port);
    visible.query_device_ex = Some(query_device_ex);
    visible.query_rt_values = Some(query_rt_values);
    visible.create_cq_ex = Some(extended::create_cq_ex);
    visible.create_qp_ex = Some(verbs::create_qp_ex);
    visible.advise_mr = Some(memory::advise_mr);
    if config.has(index, Ability::Xrc) {
        visible.open_qp = Some(verbs::open_qp);
        visible.open_xrcd = Some(memory::open_xrcd);
        visible.close_xrcd = Some(memory::close_xrcd);
    }
    if config.has(index, Ability::Srq) {
        visible.create_srq_ex = Some(verbs::create_srq_ex);
        visible.get_srq_num = Some(verbs::get_srq_num);
    }
    let context = &mut visible.context;
    context.device = device;
    context.abi_compat = usize::MAX as *mut _;
    context.cmd_fd = -1;
    context.async_fd = async_fd;
    context.num_comp_vectors = 4;
    context.ops.poll_cq = Some(poll::poll_cq);
    context.ops.req_notify_cq = Some(poll::req_notify_cq);
    context.ops.post_send = Some(verbs::post_send);
    context.ops.post_recv = Some(verbs::post_recv);
    context.ops.post_srq_recv = Some(verbs::post_srq_recv);
    if let Some(bytes) = config.table {
        shorten(&mut visible, bytes);
    }
    visible
}

/// Calls before the table of an older library, which a program must not read.
extern "C" fn absent() {
    misuse("a call of the extended context before the beginning of its table");
}

/// Makes the table of extended calls as long as that of an older library.
fn shorten(visible: &mut abi::verbs_context, bytes: usize) {
    visible.sz = bytes;
    let missing = size_of::<abi::verbs_context>().saturating_sub(bytes);
    let calls = missing.min(std::mem::offset_of!(abi::verbs_context, _ABI_placeholder3));
    let first = (&raw mut *visible).cast::<*const ()>();
    for call in 0..calls / size_of::<usize>() {
        // SAFETY: the struct begins with as many pointers.
        unsafe { first.add(call).write(absent as *const ()) };
    }
}

#[no_mangle]
extern "C" fn ibv_open_device(device: *mut abi::ibv_device) -> *mut abi::ibv_context {
    let Ok(process) = current() else {
        return null(libc::ENODEV);
    };
    let index = Device::of(device).index;
    if process.config.of_ports.is_unopened(index) {
        return null(libc::EACCES);
    }
    let checked = process.check(index);
    if let Err(errno) = checked.and_then(|()| process.count(Call::OpenDevice)) {
        return null(errno);
    }
    single_thread::read_variable();
    let (events, descriptor) = match event::create(process) {
        Ok(made) => made,
        Err(error) => return null_for(&error),
    };
    let visible = new_context(&process.config, index, device, descriptor.as_raw_fd());
    let open = Arc::new(AtomicBool::new(true));
    let opened = Opened {
        device: index,
        is_open: Arc::clone(&open),
        events,
        descriptor: descriptor.as_raw_fd(),
    };
    raise::schedule(process, &opened);
    Context {
        visible: UnsafeCell::new(visible),
        process,
        device: index,
        events,
        descriptor,
        open,
        users: AtomicU32::new(0),
        polls: AtomicU64::new(0),
    }
    .handle()
}

#[no_mangle]
extern "C" fn ibv_close_device(context: *mut abi::ibv_context) -> c_int {
    let object = Context::of(context);
    let users = object.users.load(Relaxed);
    // The program has tried to destroy them.
    let has_failed = object.process.config.destroy_fails && object.process.check(object.device).is_err();
    if users != 0 && !object.process.config.leaks && !has_failed {
        misuse(&format!(
            "ibv_close_device while {users} objects of the device live, which would use freed memory"
        ));
    }
    object.open.store(false, Relaxed);
    if object.process.config.report {
        let naks = object.process.rnr_naks.load(Relaxed);
        eprintln!("emulator of verbs: process {}: {naks} RNR NAKs", object.process.pid);
        let overlong = object.process.overlong.load(Relaxed);
        if overlong > 0 {
            eprintln!("emulator of verbs: {overlong} datagrams longer than their receives");
        }
    }
    if users == 0 {
        destroy_events(object.process, object.events);
        Context::free(context);
    }
    0
}

/// Attributes of a device (`ibv_query_device`).
fn attributes(process: &Process, device: u32) -> abi::ibv_device_attr {
    let config = &process.config;
    let has_srq = config.has(device, Ability::Srq);
    let mut attr: abi::ibv_device_attr = zeroed();
    set_text(&mut attr.fw_ver, "1.0.0");
    attr.node_guid = node_guid(config, device);
    attr.sys_image_guid = attr.node_guid;
    attr.max_mr_size = config.max_mr;
    attr.page_size_cap = 0xffff_f000;
    attr.vendor_id = 0x5e00;
    attr.vendor_part_id = 1;
    attr.max_qp = config.max_qp.unwrap_or(60_000) as c_int;
    attr.max_qp_wr = config.max_qp_wr as c_int;
    attr.device_cap_flags = abi::IBV_DEVICE_RC_RNR_NAK_GEN
        | abi::IBV_DEVICE_PORT_ACTIVE_EVENT
        | abi::IBV_DEVICE_SYS_IMAGE_GUID
        | abi::IBV_DEVICE_CURR_QP_STATE_MOD
        | if config.has(device, Ability::Xrc) {
            abi::IBV_DEVICE_XRC
        } else {
            0
        }
        | if config.has_migration(device) {
            abi::IBV_DEVICE_AUTO_PATH_MIG
        } else {
            0
        };
    attr.max_sge = config.max_sge as c_int;
    attr.max_sge_rd = config.most_read() as c_int;
    attr.max_cq = 30_000;
    attr.max_cqe = config.max_cqe as c_int;
    attr.max_mr = 65_000;
    attr.max_pd = 1 << 20;
    [attr.max_qp_rd_atom, attr.max_qp_init_rd_atom] = config.rd_atom.map(c_int::from);
    attr.max_res_rd_atom = attr.max_qp_rd_atom * attr.max_qp;
    attr.atomic_cap = if config.has(device, Ability::Atomics) {
        config.atomics
    } else {
        abi::IBV_ATOMIC_NONE
    };
    attr.max_ah = 1 << 20;
    attr.max_srq = if has_srq { 16_000 } else { 0 };
    attr.max_srq_wr = if has_srq { config.most_shared() as c_int } else { 0 };
    attr.max_srq_sge = if has_srq { config.max_sge as c_int } else { 0 };
    let tables = (0..config.ports).map(|port| config.of_ports.partitions(Port { device, port }).len());
    attr.max_pkeys = tables.max().unwrap_or(1) as u16;
    attr.local_ca_ack_delay = 15;
    attr.phys_port_cnt = config.ports as u8;
    attr
}

#[no_mangle]
extern "C" fn ibv_query_device(context: *mut abi::ibv_context, attr: *mut abi::ibv_device_attr) -> c_int {
    let object = Context::of(context);
    if let Err(errno) = object.process.check(object.device) {
        return errno;
    }
    store(attr, attributes(object.process, object.device));
    0
}

/// Copies as much of a struct as the caller's version of it has.
pub fn store_prefix<T>(place: *mut T, value: &T, bytes: usize) {
    // SAFETY: the caller's struct has `bytes` bytes, and ours at least as many as are copied.
    unsafe {
        std::ptr::write_bytes(place.cast::<u8>(), 0, bytes);
        std::ptr::copy_nonoverlapping(
            (&raw const *value).cast::<u8>(),
            place.cast(),
            bytes.min(size_of::<T>()),
        );
    }
}

extern "C" fn query_device_ex(
    context: *mut abi::ibv_context,
    _input: *const abi::ibv_query_device_ex_input,
    place: *mut abi::ibv_device_attr_ex,
    bytes: usize,
) -> c_int {
    let object = Context::of(context);
    let config = &object.process.config;
    if let Err(errno) = object.process.check(object.device) {
        return errno;
    }
    let mut attr: abi::ibv_device_attr_ex = zeroed();
    attr.orig_attr = attributes(object.process, object.device);
    if config.has(object.device, Ability::Odp) {
        let odp = config.odp_bits;
        let implicit = if odp.implicit { abi::IBV_ODP_SUPPORT_IMPLICIT } else { 0 };
        attr.odp_caps.general_caps = u64::from(abi::IBV_ODP_SUPPORT | implicit);
        attr.odp_caps.per_transport_caps.rc_odp_caps = odp.operations;
        attr.odp_caps.per_transport_caps.ud_odp_caps = odp.operations & abi::IBV_ODP_SUPPORT_SEND;
        if config.has(object.device, Ability::Xrc) {
            attr.xrc_odp_caps = odp.operations & !abi::IBV_ODP_SUPPORT_RECV;
        }
    }
    attr.completion_timestamp_mask = u64::MAX;
    // Unit: kHz. The clock counts nanoseconds.
    attr.hca_core_clock = 1_000_000;
    attr.phys_port_cnt_ex = config.ports;
    store_prefix(place, &attr, bytes);
    0
}

extern "C" fn query_rt_values(_context: *mut abi::ibv_context, values: *mut abi::ibv_values_ex) -> c_int {
    let mut answer = load(values);
    answer.comp_mask &= abi::IBV_VALUES_MASK_RAW_CLOCK;
    let now = now_ns();
    answer.raw_clock.tv_sec = (now / 1_000_000_000) as _;
    answer.raw_clock.tv_nsec = (now % 1_000_000_000) as _;
    store(values, answer);
    0
}

pub fn find_port(context: &Context, port_num: u32) -> Option<Port> {
    address::port_numbered(&context.process.config, context.device, port_num)
}

extern "C" fn query_port(
    context: *mut abi::ibv_context,
    port_num: u8,
    place: *mut abi::ibv_port_attr,
    bytes: usize,
) -> c_int {
    let object = Context::of(context);
    let Some(port) = find_port(object, u32::from(port_num)) else {
        return libc::EINVAL;
    };
    if let Err(errno) = object.process.check(object.device) {
        return errno;
    }
    let config = &object.process.config;
    let words = &config.of_ports;
    if words.is_unreadable(port) {
        return libc::EIO;
    }
    let up = object.process.port_is_up(port);
    let roce = config.link(port.device) == Link::Roce;
    let mut attr: abi::ibv_port_attr = zeroed();
    attr.state = if up { abi::IBV_PORT_ACTIVE } else { abi::IBV_PORT_DOWN };
    attr.max_mtu = abi::IBV_MTU_4096;
    attr.active_mtu = words.mtu(port).ilog2() - 7;
    attr.gid_tbl_len = address::gid_table_len(config, port.device) as c_int;
    attr.port_cap_flags = abi::IBV_PORT_CM_SUP | if roce { abi::IBV_PORT_IP_BASED_GIDS } else { 0 };
    attr.max_msg_sz = config.max_message as u32;
    attr.pkey_tbl_len = words.partitions(port).len() as u16;
    attr.lmc = words.lmc;
    attr.lid = address::lid(config, port);
    attr.sm_lid = u16::from(!roce);
    attr.max_vl_num = 1;
    attr.subnet_timeout = 18;
    attr.active_width = 2;
    attr.active_speed = 32;
    attr.phys_state = if up { 5 } else { 3 };
    attr.link_layer = if config.srd {
        abi::IBV_LINK_LAYER_UNSPECIFIED
    } else if roce {
        abi::IBV_LINK_LAYER_ETHERNET
    } else {
        abi::IBV_LINK_LAYER_INFINIBAND
    } as u8;
    // IBV_QPF_GRH_REQUIRED
    attr.flags = u8::from(roce || words.needs_global(port));
    store_prefix(place, &attr, bytes);
    0
}

/// The exported function fills what the struct had before `port_cap_flags2`.
#[no_mangle]
extern "C" fn ibv_query_port(context: *mut abi::ibv_context, port_num: u8, attr: *mut abi::ibv_port_attr) -> c_int {
    query_port(
        context,
        port_num,
        attr,
        std::mem::offset_of!(abi::ibv_port_attr, port_cap_flags2),
    )
}

/// The object that an asynchronous event names, if it still exists.
fn element(process: &Process, kind: u32, key: u32) -> Option<abi::ibv_async_event__bindgen_ty_1> {
    let fabric = process.fabric;
    Some(match kind {
        abi::IBV_EVENT_CQ_ERR => {
            let cq = fabric.cqs.find(key)?.user.load(Relaxed) as *mut abi::ibv_cq;
            Cq::of(cq).asynchronous.deliver();
            abi::ibv_async_event__bindgen_ty_1 { cq }
        }
        abi::IBV_EVENT_SRQ_LIMIT_REACHED | abi::IBV_EVENT_SRQ_ERR => {
            let srq = fabric.srqs.find(key)?.user.load(Relaxed) as *mut abi::ibv_srq;
            Srq::of(srq).asynchronous.deliver();
            abi::ibv_async_event__bindgen_ty_1 { srq }
        }
        kind if is_of_qp(kind) => {
            let qp = fabric.qps.find(key)?.user.load(Relaxed) as *mut abi::ibv_qp;
            Qp::of(qp).asynchronous.deliver();
            abi::ibv_async_event__bindgen_ty_1 { qp }
        }
        _ => abi::ibv_async_event__bindgen_ty_1 { port_num: key as c_int },
    })
}

#[no_mangle]
extern "C" fn ibv_get_async_event(context: *mut abi::ibv_context, place: *mut abi::ibv_async_event) -> c_int {
    let object = Context::of(context);
    let find = |(event_type, key)| {
        let element = element(object.process, event_type, key)?;
        Some(abi::ibv_async_event { element, event_type })
    };
    match event::wait(object.process, object.events, &object.descriptor, find) {
        Ok(event) => {
            store(place, event);
            0
        }
        Err(error) => {
            null_for::<u8>(&error);
            -1
        }
    }
}

#[no_mangle]
extern "C" fn ibv_ack_async_event(event: *mut abi::ibv_async_event) {
    let event = load(event);
    // SAFETY: which field is valid follows from the type, as in `element`.
    unsafe {
        match event.event_type {
            abi::IBV_EVENT_CQ_ERR => Cq::of(event.element.cq).asynchronous.acknowledge(1),
            abi::IBV_EVENT_SRQ_LIMIT_REACHED | abi::IBV_EVENT_SRQ_ERR => {
                Srq::of(event.element.srq).asynchronous.acknowledge(1);
            }
            kind if is_of_qp(kind) => Qp::of(event.element.qp).asynchronous.acknowledge(1),
            _ => {}
        }
    }
}
