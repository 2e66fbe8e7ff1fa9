//! The small functions of the library: names and sysfs.

use std::ffi::{c_char, c_int, CStr};
use std::fs;
use std::sync::atomic::Ordering::Relaxed;

use gasnet_ibv_abi as abi;

use crate::handle::{context_of, store, Object, Qp};
use crate::text;

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

/// Answers as mlx5 does: for pairs in RTS only.
#[no_mangle]
extern "C" fn ibv_query_qp_data_in_order(qp: *mut abi::ibv_qp, opcode: u32, _flags: u32) -> c_int {
    let state = Qp::of(qp).qp.shared.state.load(Relaxed);
    let is_asked = [abi::IBV_WR_RDMA_WRITE, abi::IBV_WR_RDMA_READ, abi::IBV_WR_SEND].contains(&opcode);
    let config = &context_of(qp).process.config;
    c_int::from(is_asked && state == abi::IBV_QPS_RTS && config.order && config.relaxed.is_none())
}
