//! Vendor libraries, located by `dlopen` as in the conduits.

use super::machine::{fact, Fact};
use gasnet_conduit::config::Config;
use std::ffi::{c_char, c_int, c_void, CStr};

/// An open library. It stays open: closing is unsafe for vendor libraries, which have threads and
/// exit handlers.
struct Library(*mut c_void);

impl Library {
    fn open(name: &CStr) -> Option<Self> {
        // SAFETY: loading runs the library's constructors, which is what a conduit does as well.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// The address of a function.
    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: an open handle and a C string.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

/// A library that loads, with `detail`, or "not found".
fn loaded(name: &str, file: &CStr, detail: impl FnOnce(&Library) -> String) -> Fact {
    let shown = file.to_string_lossy();
    match Library::open(file) {
        None => fact(name, format!("not found ({shown})")),
        Some(library) => {
            let detail = detail(&library);
            fact(
                name,
                if detail.is_empty() {
                    shown.into_owned()
                } else {
                    format!("{shown}: {detail}")
                },
            )
        }
    }
}

fn nothing(_: &Library) -> String {
    String::new()
}

/// Libraries of networks and process managers.
pub fn networks() -> Vec<Fact> {
    vec![
        loaded("libfabric", c"libfabric.so.1", fabric_version),
        loaded("libibverbs", c"libibverbs.so.1", verbs_devices),
        loaded("uGNI", c"libugni.so.0", nothing),
        loaded("UCX", c"libucp.so.0", nothing),
        loaded("PMIx", c"libpmix.so.2", nothing),
        loaded("PMI-2", c"libpmi2.so.0", nothing),
    ]
}

/// Accelerators: the libraries that a program with memory kinds would use in the current
/// environment.
pub fn accelerators() -> Vec<Fact> {
    let config = Config::load(&[]).unwrap_or_else(|_| Config::defaults(&[]));
    let found = gasnet_conduit::library::found(&config);
    found.into_iter().map(|(what, text)| fact(what, text)).collect()
}

/// Version of libfabric.
fn fabric_version(library: &Library) -> String {
    let Some(version) = library.symbol(c"fi_version") else {
        return "no fi_version".into();
    };
    // SAFETY: the function's type, in every version of this library.
    let version = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(version)() };
    format!("version {}.{}", version >> 16, version & 0xffff)
}

type IbvList = unsafe extern "C" fn(*mut c_int) -> *mut *mut c_void;
type IbvFree = unsafe extern "C" fn(*mut *mut c_void);
type IbvName = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// Devices of the verbs library.
fn verbs_devices(library: &Library) -> String {
    let (Some(list), Some(free), Some(name)) = (
        library.symbol(c"ibv_get_device_list"),
        library.symbol(c"ibv_free_device_list"),
        library.symbol(c"ibv_get_device_name"),
    ) else {
        return "no ibv_get_device_list".into();
    };
    let mut count = 0;
    // SAFETY: the function's type; the count is writable.
    let devices = unsafe { std::mem::transmute::<*mut c_void, IbvList>(list)(&raw mut count) };
    if devices.is_null() {
        return "no devices".into();
    }
    let names: Vec<String> = (0..count.max(0) as usize)
        .map(|i| {
            // SAFETY: the list has `count` devices, and each a name that is a C string.
            let name = unsafe { CStr::from_ptr(std::mem::transmute::<*mut c_void, IbvName>(name)(*devices.add(i))) };
            name.to_string_lossy().into_owned()
        })
        .collect();
    // SAFETY: the function's type, and its list.
    unsafe { std::mem::transmute::<*mut c_void, IbvFree>(free)(devices) };
    if names.is_empty() {
        "no devices".into()
    } else {
        format!("devices {}", names.join(", "))
    }
}
