//! Subscriptions to errors of the NIC. The emulated NIC has none of that kind. Proof: the tests of
//! the gni provider of libfabric 1.18.2 subscribe (emulators/README.md); messages.c.
#![allow(non_snake_case)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use gasnet_gni_abi as abi;

use crate::object::{Errors, Living, Nic, Object};
use crate::refuse::{code, quiet, store};

#[no_mangle]
extern "C" fn GNI_SubscribeErrors(
    nic: abi::gni_nic_handle_t,
    _device: u32,
    mask: u8,
    _entries: u32,
    out: *mut abi::gni_err_handle_t,
) -> abi::gni_return_t {
    let subscribe = || {
        let errors = Errors {
            kind: AtomicU32::new(0),
            nic: Nic::of(nic)?,
            mask: AtomicU32::new(u32::from(mask)),
        };
        store(out, errors.publish().handle(), "no place for the handle")
    };
    code("GNI_SubscribeErrors", subscribe())
}

#[no_mangle]
extern "C" fn GNI_ReleaseErrors(errors: abi::gni_err_handle_t) -> abi::gni_return_t {
    code("GNI_ReleaseErrors", Errors::of(errors).map(Object::retire))
}

#[no_mangle]
extern "C" fn GNI_GetErrorMask(errors: abi::gni_err_handle_t, out: *mut u8) -> abi::gni_return_t {
    let get = || {
        store(
            out,
            Errors::of(errors)?.mask.load(Relaxed) as u8,
            "no place for the mask",
        )
    };
    code("GNI_GetErrorMask", get())
}

#[no_mangle]
extern "C" fn GNI_SetErrorMask(errors: abi::gni_err_handle_t, mask: u8, before: *mut u8) -> abi::gni_return_t {
    let set = || {
        let old = Errors::of(errors)?.mask.swap(u32::from(mask), Relaxed);
        store(before, old as u8, "no place for the mask")
    };
    code("GNI_SetErrorMask", set())
}

#[no_mangle]
extern "C" fn GNI_SetErrorPtag(errors: abi::gni_err_handle_t, _ptag: u8) -> abi::gni_return_t {
    code("GNI_SetErrorPtag", Errors::of(errors).map(drop))
}

#[no_mangle]
extern "C" fn GNI_GetErrorEvent(errors: abi::gni_err_handle_t, _event: *mut c_void) -> abi::gni_return_t {
    let none = Errors::of(errors).and(Err(quiet(abi::GNI_RC_NOT_DONE)));
    code("GNI_GetErrorEvent", none)
}

#[no_mangle]
extern "C" fn GNI_WaitErrorEvents(
    errors: abi::gni_err_handle_t,
    _events: *mut c_void,
    _room: u32,
    timeout: u32,
    count: *mut u32,
) -> abi::gni_return_t {
    let wait = || {
        Errors::of(errors)?;
        store(count, 0, "no place for the number")?;
        std::thread::sleep(Duration::from_millis(u64::from(timeout)));
        Err(quiet(abi::GNI_RC_TIMEOUT))
    };
    code("GNI_WaitErrorEvents", wait())
}
