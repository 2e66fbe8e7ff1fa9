//! The small functions of the library: names, rates, sysfs, and functions that it refuses.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::fs;
use std::sync::atomic::Ordering::Relaxed;

use gasnet_ibv_abi as abi;

use crate::address;
use crate::handle::{context_of, load, null, store, Context, Object, Qp};
use crate::shm::Port;
use crate::text::{self, RATES};

#[no_mangle]
extern "C" fn ibv_wc_status_str(status: u32) -> *const c_char {
    text::status(status).as_ptr()
}

#[no_mangle]
extern "C" fn ibv_event_type_str(event: u32) -> *const c_char {
    text::event(event).as_ptr()
}

#[no_mangle]
extern "C" fn ibv_node_type_str(node: c_int) -> *const c_char {
    text::node_type(node).as_ptr()
}

#[no_mangle]
extern "C" fn ibv_port_state_str(state: u32) -> *const c_char {
    text::port_state(state).as_ptr()
}

fn rate(found: impl Fn(&(u32, i32, i32)) -> bool) -> Option<(u32, i32, i32)> {
    RATES.iter().copied().find(found)
}

#[no_mangle]
extern "C" fn ibv_rate_to_mult(wanted: u32) -> c_int {
    rate(|r| r.0 == wanted).map_or(-1, |r| r.1)
}

#[no_mangle]
extern "C" fn mult_to_ibv_rate(wanted: c_int) -> u32 {
    rate(|r| r.1 == wanted).map_or(abi::IBV_RATE_MAX, |r| r.0)
}

#[no_mangle]
extern "C" fn ibv_rate_to_mbps(wanted: u32) -> c_int {
    rate(|r| r.0 == wanted).map_or(-1, |r| r.2)
}

#[no_mangle]
extern "C" fn mbps_to_ibv_rate(wanted: c_int) -> u32 {
    rate(|r| r.2 == wanted).map_or(abi::IBV_RATE_MAX, |r| r.0)
}

#[no_mangle]
extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads a file of sysfs without its last newline. Returns its length, or -1.
#[no_mangle]
extern "C" fn ibv_read_sysfs_file(dir: *const c_char, file: *const c_char, place: *mut c_char, size: usize) -> c_int {
    // SAFETY: verbs' callers pass strings.
    let (dir, file) = unsafe { (CStr::from_ptr(dir), CStr::from_ptr(file)) };
    let Ok(bytes) = fs::read(format!("{}/{}", dir.to_string_lossy(), file.to_string_lossy())) else {
        return -1;
    };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let length = bytes.len().min(size.saturating_sub(1));
    for (n, byte) in bytes[..length].iter().chain(&[0]).enumerate() {
        store(place.wrapping_add(n), *byte as c_char);
    }
    length as c_int
}

/// The MAC in the GID; there are no VLANs.
#[no_mangle]
extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: *mut abi::ibv_context,
    attr: *mut abi::ibv_ah_attr,
    mac: *mut [u8; 6],
    vid: *mut u16,
) -> c_int {
    let (owner, attr) = (Context::of(context), load(attr));
    // SAFETY: both variants are plain bytes.
    let gid = unsafe { attr.grh.dgid.raw };
    let from = Port {
        device: owner.device,
        port: u32::from(attr.port_num).wrapping_sub(1),
    };
    let found = address::find(&owner.process.config, from, address::Address::Gid(gid));
    let Some(Port { device, port }) = found else {
        return -1;
    };
    store(mac, [2, 0, 0x5e, 0, device as u8, port as u8 + 1]);
    store(vid, 0xffff);
    0
}

macro_rules! not_offered {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty),* $(,)?) => { $(
        #[no_mangle]
        extern "C" fn $name($($argument: $type),*) -> $result {
            $(let _ = $argument;)*
            null::<u8>(libc::EOPNOTSUPP);
            Refused::REFUSED
        }
    )* };
}

/// The result of a function that fails with EOPNOTSUPP.
trait Refused {
    const REFUSED: Self;
}
impl Refused for c_int {
    const REFUSED: c_int = libc::EOPNOTSUPP;
}
impl Refused for () {
    const REFUSED: () = ();
}
impl<T> Refused for *mut T {
    const REFUSED: *mut T = std::ptr::null_mut();
}

not_offered! {
    ibv_import_device(fd: c_int) -> *mut abi::ibv_context,
    ibv_import_pd(context: *mut abi::ibv_context, handle: u32) -> *mut abi::ibv_pd,
    ibv_unimport_pd(pd: *mut abi::ibv_pd) -> (),
    ibv_import_mr(pd: *mut abi::ibv_pd, handle: u32) -> *mut abi::ibv_mr,
    ibv_unimport_mr(mr: *mut abi::ibv_mr) -> (),
    ibv_import_dm(context: *mut abi::ibv_context, handle: u32) -> *mut c_void,
    ibv_unimport_dm(dm: *mut c_void) -> (),
    ibv_set_ece(qp: *mut abi::ibv_qp, ece: *mut abi::ibv_ece) -> c_int,
    ibv_query_ece(qp: *mut abi::ibv_qp, ece: *mut abi::ibv_ece) -> c_int,
    ibv_copy_path_rec_from_kern(to: *mut c_void, from: *mut c_void) -> (),
    ibv_copy_path_rec_to_kern(to: *mut c_void, from: *mut c_void) -> (),
    ibv_copy_qp_attr_from_kern(to: *mut c_void, from: *mut c_void) -> (),
    ibv_copy_ah_attr_from_kern(to: *mut c_void, from: *mut c_void) -> (),
}

/// Answers as mlx5 does: for pairs in RTS only.
#[no_mangle]
extern "C" fn ibv_query_qp_data_in_order(qp: *mut abi::ibv_qp, opcode: u32, _flags: u32) -> c_int {
    let state = Qp::of(qp).qp.shared.state.load(Relaxed);
    let is_asked = [abi::IBV_WR_RDMA_WRITE, abi::IBV_WR_RDMA_READ, abi::IBV_WR_SEND].contains(&opcode);
    c_int::from(is_asked && state == abi::IBV_QPS_RTS && !context_of(qp).process.config.relaxed)
}
