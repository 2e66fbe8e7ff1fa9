//! Vendor libraries, located by `dlopen` as in the conduits.

use super::machine::{fact, Fact};
use gasnet_conduit::config::Config;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::ManuallyDrop;

/// A library that loads, with `detail`, or "not found". It stays open: closing is unsafe for vendor
/// libraries, which have threads and exit handlers.
fn loaded(name: &str, file: &str, detail: impl FnOnce(&Library) -> String) -> Fact {
    // SAFETY: loading runs the library's constructors, which is what a conduit does as well.
    let Ok(library) = (unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }) else {
        return fact(name, format!("not found ({file})"));
    };
    let library = ManuallyDrop::new(library);
    let detail = detail(&library);
    let separator = if detail.is_empty() { "" } else { ": " };
    fact(name, format!("{file}{separator}{detail}"))
}

fn nothing(_: &Library) -> String {
    String::new()
}

/// Libraries of networks and process managers.
pub fn networks() -> Vec<Fact> {
    vec![
        loaded("libfabric", "libfabric.so.1", fabric_version),
        loaded("libibverbs", "libibverbs.so.1", verbs_devices),
        loaded("uGNI", "libugni.so.0", nothing),
        loaded("UCX", "libucp.so.0", nothing),
        loaded("PMIx", "libpmix.so.2", nothing),
        loaded("PMI-2", "libpmi2.so.0", nothing),
    ]
}

/// Accelerators: the libraries that a program with memory kinds would use in the current
/// environment.
pub fn accelerators() -> Vec<Fact> {
    let config = Config::load(&[]).unwrap_or_else(|_| Config::defaults(&[]));
    let found = gasnet_conduit::library::found(&config);
    found.into_iter().map(|(what, text)| fact(what, text)).collect()
}

fn fabric_version(library: &Library) -> String {
    // SAFETY: the function's type, in every version of this library.
    let Ok(version) = (unsafe { library.get::<unsafe extern "C" fn() -> u32>(b"fi_version\0") }) else {
        return "no fi_version".into();
    };
    // SAFETY: no preconditions.
    let version = unsafe { version() };
    format!("version {}.{}", version >> 16, version & 0xffff)
}

type IbvList = unsafe extern "C" fn(*mut c_int) -> *mut *mut c_void;
type IbvFree = unsafe extern "C" fn(*mut *mut c_void);
type IbvName = unsafe extern "C" fn(*mut c_void) -> *const c_char;

fn verbs_devices(library: &Library) -> String {
    // SAFETY: the types of the functions.
    let functions = unsafe {
        (
            library.get::<IbvList>(b"ibv_get_device_list\0"),
            library.get::<IbvFree>(b"ibv_free_device_list\0"),
            library.get::<IbvName>(b"ibv_get_device_name\0"),
        )
    };
    let (Ok(list), Ok(free), Ok(name)) = functions else {
        return "no ibv_get_device_list".into();
    };
    let mut count = 0;
    // SAFETY: the count is writable.
    let devices = unsafe { list(&raw mut count) };
    if devices.is_null() {
        return "no devices".into();
    }
    let name = |i: usize| {
        // SAFETY: the list has `count` devices, and each a name that is a C string.
        let name = unsafe { CStr::from_ptr(name(*devices.add(i))) };
        name.to_string_lossy().into_owned()
    };
    let names: Vec<String> = (0..count.max(0) as usize).map(name).collect();
    // SAFETY: the list of the other function.
    unsafe { free(devices) };
    if names.is_empty() {
        "no devices".into()
    } else {
        format!("devices {}", names.join(", "))
    }
}
