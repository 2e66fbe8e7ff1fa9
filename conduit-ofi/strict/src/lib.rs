//! A strict provider of libfabric, for tests of conduit-ofi.
//!
//! It opens `libfabric.so.1` and passes on what that has, less what a plan withholds and with the
//! demands that the plan adds. It verifies that its user obeys them, and injects faults. A user
//! that breaks a rule is aborted with a message that names the rule. Select it with
//! `GASNET_OFI_LIBRARY=.../libgasnet_ofi_strict.so`. The plan is in `STRICT_PLAN`, or in front of
//! the provider's name, so that one process can have several:
//!
//! ```text
//! STRICT_PLAN="profile=cxi eagain=30"
//! STRICT_PLAN="no=rma,multi_recv demand=mr_local,context2 inject=0 eagain=30 seed=7"
//! GASNET_OFI_PROVIDER="demand=mr_raw late=50;tcp;ofi_rxm"
//! ```
//!
//! The objects that the user gets are this library's: each starts with libfabric's structure, whose
//! tables have only the calls that conduit-ofi makes. The provider underneath must have no demands
//! of its own; tcp;ofi_rxm has none.
//!
//! All functions that libfabric's tables name are `unsafe` with one contract, the manual's: objects
//! are live, of this library and of the right class, and memory is as the call describes it.
#![allow(unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]

/// Aborts the process because its user broke a rule.
macro_rules! violated {
    ($($text:tt)*) => {{
        eprintln!("strict provider: {}", format_args!($($text)*));
        std::process::abort()
    }};
}

/// Calls a function of a table of one of the provider's objects, with the object first.
macro_rules! real {
    ($object:expr, $table:ident.$f:ident ( $($arg:expr),* $(,)? )) => {{
        let object = $object;
        match (*(*object).$table).$f {
            Some(f) => f(object.cast(), $($arg),*),
            None => -libc::ENOSYS as _,
        }
    }};
}

/// A table of functions, of which the others are absent.
macro_rules! table {
    ($visibility:vis $name:ident: $type:ident { $($field:ident: $function:path),* }) => {
        $visibility static $name: ffi::$type = ffi::$type {
            size: size_of::<ffi::$type>(),
            $($field: Some($function),)*
            // SAFETY: zero is the absence of a function.
            ..unsafe { std::mem::zeroed() }
        };
    };
}

#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::all,
    clippy::pedantic
)]
#[path = "../../src/ffi/bindings.rs"]
mod ffi;

mod damage;
mod domain;
mod endpoint;
mod ends;
mod offer;
mod outsiders;
mod plan;
mod profiles;
mod queue;
mod region;
mod rules;
mod unordered;

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The functions of the real library.
struct Real {
    getinfo: GetInfo,
    freeinfo: unsafe extern "C" fn(*mut ffi::fi_info),
    dupinfo: unsafe extern "C" fn(*const ffi::fi_info) -> *mut ffi::fi_info,
    fabric: Open,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    tostr: unsafe extern "C" fn(*const c_void, ffi::fi_type) -> *const c_char,
    version: unsafe extern "C" fn() -> u32,
}

type Open = unsafe extern "C" fn(*mut ffi::fi_fabric_attr, *mut *mut ffi::fid_fabric, *mut c_void) -> c_int;
type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const ffi::fi_info, *mut *mut ffi::fi_info) -> c_int;

impl Real {
    fn get() -> &'static Self {
        static REAL: OnceLock<Real> = OnceLock::new();
        // SAFETY: the functions of these versions have these types.
        REAL.get_or_init(|| unsafe { Self::open() })
    }

    unsafe fn open() -> Self {
        Self {
            getinfo: find(c"fi_getinfo", c"FABRIC_1.3"),
            freeinfo: find(c"fi_freeinfo", c"FABRIC_1.3"),
            dupinfo: find(c"fi_dupinfo", c"FABRIC_1.3"),
            fabric: find(c"fi_fabric", c"FABRIC_1.1"),
            strerror: find(c"fi_strerror", c"FABRIC_1.0"),
            tostr: find(c"fi_tostr", c"FABRIC_1.0"),
            version: find(c"fi_version", c"FABRIC_1.0"),
        }
    }
}

/// A function of the real library, of pointer type `F`.
unsafe fn find<F: Copy>(name: &CStr, version: &CStr) -> F {
    let library = libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
    if library.is_null() {
        violated!("libfabric.so.1 cannot be opened");
    }
    let address = libc::dlvsym(library, name.as_ptr(), version.as_ptr());
    if address.is_null() {
        violated!("libfabric.so.1 has no {name:?} of version {version:?}");
    }
    std::mem::transmute_copy(&address)
}

/// `fi_version(3)`. The minor number in `STRICT_VERSION` lets the library pass for a newer one.
#[no_mangle]
pub extern "C" fn fi_version() -> u32 {
    let pretended = std::env::var("STRICT_VERSION")
        .ok()
        .and_then(|minor| minor.parse::<u32>().ok());
    // SAFETY: no arguments.
    pretended.map_or_else(|| unsafe { (Real::get().version)() }, |minor| 1 << 16 | minor)
}

/// `fi_errno(3)`.
#[no_mangle]
pub extern "C" fn fi_strerror(errno: c_int) -> *const c_char {
    // SAFETY: any number.
    unsafe { (Real::get().strerror)(errno) }
}

/// `fi_fabric(3)`.
#[no_mangle]
pub unsafe extern "C" fn fi_tostr(value: *const c_void, kind: ffi::fi_type) -> *const c_char {
    (Real::get().tostr)(value, kind)
}

/// Addresses of the records of zeroes that the user has.
static EMPTY: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn empty_records() -> MutexGuard<'static, BTreeSet<usize>> {
    EMPTY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `fi_getinfo(3)`.
#[no_mangle]
pub unsafe extern "C" fn fi_dupinfo(info: *const ffi::fi_info) -> *mut ffi::fi_info {
    let copy = (Real::get().dupinfo)(info);
    if info.is_null() {
        empty_records().insert(copy as usize);
    }
    copy
}

/// `fi_getinfo(3)`.
#[no_mangle]
pub unsafe extern "C" fn fi_freeinfo(info: *mut ffi::fi_info) {
    empty_records().remove(&(info as usize));
    (Real::get().freeinfo)(info);
}

/// `fi_getinfo(3)`.
#[no_mangle]
pub unsafe extern "C" fn fi_getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const ffi::fi_info,
    info: *mut *mut ffi::fi_info,
) -> c_int {
    if hints.is_null() {
        violated!("fi_getinfo without hints: conduit-ofi always has some");
    }
    if !empty_records().contains(&(hints as usize)) {
        violated!("fi_getinfo: hints that are not of fi_dupinfo(NULL) have other sizes in later versions");
    }
    offer::read_variables();
    let real = version.min((Real::get().version)());
    let ask = |hints| (Real::get().getinfo)(real, node, service, flags, hints, info);
    offer::edited(hints, version, ask, info)
}

/// `fi_fabric(3)`.
#[no_mangle]
pub unsafe extern "C" fn fi_fabric(
    attributes: *mut ffi::fi_fabric_attr,
    fabric: *mut *mut ffi::fid_fabric,
    context: *mut c_void,
) -> c_int {
    domain::open_fabric(attributes, fabric, context)
}
