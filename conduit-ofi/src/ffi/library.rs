//! `libfabric.so.1`, opened at run time.

use super::bindings as abi;
use crate::settings::LIBRARY;
use gasnet_conduit::config;
use gasnet_conduit::library::{Library, Vendor};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::OnceLock;

/// Search for libfabric.
static VENDOR: Vendor = Vendor {
    what: "libfabric library",
    names: &[c"libfabric.so.1"],
    source: "It comes with the network's software, or with libfabric (Debian: package libfabric1)",
    variable: &LIBRARY,
    probe: c"fi_version",
};

/// The oldest that has the memory registration modes.
const OLDEST: u32 = version(1, 5);
/// The first that takes the dmabuf of device memory. Requested for that only: error entries are
/// longer.
pub(super) const WITH_DMABUF: u32 = version(1, 20);
/// Requested, the newest first. Before 1.18 efa does without the device's RDMA. The bindings are of
/// 1.17. Providers that were built for an older library than the one found have only that.
const REQUESTED: [u32; 3] = [WITH_DMABUF, version(1, 19), version(1, 17)];

const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

/// Versions of `fi_getinfo` and its companions whose structures the bindings describe, newest
/// first, each with the version of `fi_fabric` that takes them. Later versions of a structure only
/// append fields to it. Of those that 1.0 lacks, the conduit reads only the NIC, which 1.2 appends.
/// The library itself allocates what it is passed.
const SYMBOLS: &[(&CStr, &CStr)] = &[
    (c"FABRIC_1.3", c"FABRIC_1.1"),
    (c"FABRIC_1.2", c"FABRIC_1.1"),
    (c"FABRIC_1.1", c"FABRIC_1.1"),
    (c"FABRIC_1.0", c"FABRIC_1.0"),
];

type Open = unsafe extern "C" fn(*mut abi::fi_fabric_attr, *mut *mut abi::fid_fabric, *mut c_void) -> c_int;
type GetInfo = unsafe extern "C" fn(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const abi::fi_info,
    info: *mut *mut abi::fi_info,
) -> c_int;

/// The functions of this process.
static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();

/// The functions that the library exports. All others are in the tables of its objects.
pub struct Functions {
    pub(super) getinfo: GetInfo,
    pub(super) freeinfo: unsafe extern "C" fn(*mut abi::fi_info),
    pub(super) dupinfo: unsafe extern "C" fn(*const abi::fi_info) -> *mut abi::fi_info,
    pub(super) fabric: Open,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    tostr: unsafe extern "C" fn(*const c_void, abi::fi_type) -> *const c_char,
    /// The version of the library.
    pub version: (u32, u32),
    /// Whether records tell the device of a domain.
    pub(super) has_nics: bool,
    /// The file.
    pub path: String,
}

impl Functions {
    /// The functions, looked up once per process, after `prepare`. The error is a message.
    pub fn load(prepare: impl FnOnce()) -> Result<&'static Self, String> {
        let open = || {
            prepare();
            Self::open()
        };
        FUNCTIONS.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// The functions, if they were looked up.
    pub fn get() -> Option<&'static Self> {
        FUNCTIONS.get()?.as_ref().ok()
    }

    fn open() -> Result<Self, String> {
        let library = Library::open(&VENDOR, config::get())?;
        // SAFETY: fi_version(3): no arguments, and a number.
        let fi_version = unsafe { library.function::<unsafe extern "C" fn() -> u32>(c"fi_version")? };
        // SAFETY: as above.
        let found = unsafe { fi_version() };
        let path = library.path();
        let shown = (found >> 16, found & 0xffff);
        if found < OLDEST {
            return Err(format!(
                "{path} has version {}.{} of libfabric's interface; version 1.5 or newer is needed. Install a newer \
                 libfabric, or select one with {}",
                shown.0, shown.1, LIBRARY.variable.name
            ));
        }
        // They share structures, so all are of one version.
        let symbols = SYMBOLS.iter().find_map(|(info, fabric)| {
            // SAFETY: these versions of the functions have these types.
            unsafe {
                let getinfo = library.versioned::<GetInfo>(c"fi_getinfo", info)?;
                let freeinfo = library.versioned(c"fi_freeinfo", info)?;
                let dupinfo = library.versioned(c"fi_dupinfo", info)?;
                Some((
                    getinfo,
                    freeinfo,
                    dupinfo,
                    library.versioned::<Open>(c"fi_fabric", fabric)?,
                    *info >= c"FABRIC_1.2",
                ))
            }
        });
        let (getinfo, freeinfo, dupinfo, fabric, has_nics) = match symbols {
            Some(symbols) => symbols,
            // A library that was linked without versions has the newest.
            // SAFETY: as above.
            None => unsafe {
                (
                    library.function(c"fi_getinfo")?,
                    library.function(c"fi_freeinfo")?,
                    library.function(c"fi_dupinfo")?,
                    library.function(c"fi_fabric")?,
                    true,
                )
            },
        };
        Ok(Self {
            getinfo,
            freeinfo,
            dupinfo,
            fabric,
            // SAFETY: fi_errno(3).
            strerror: unsafe { library.function(c"fi_strerror")? },
            // SAFETY: fi_fabric(3), fi_tostr.
            tostr: unsafe { library.function(c"fi_tostr")? },
            version: shown,
            has_nics,
            path,
        })
    }

    /// The library's names for a value or for bits: "FI_MR_LOCAL, FI_MR_ALLOCATED". Empty for no
    /// bits.
    ///
    /// # Safety
    /// The value is of the type that `kind` means. One thread at a time calls this.
    pub(super) unsafe fn names<T>(&self, value: &T, kind: abi::fi_type) -> String {
        // SAFETY: fi_tostr reads the value, and returns a buffer of the library.
        let text = unsafe { (self.tostr)(std::ptr::from_ref(value).cast(), kind) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: not null, terminated, unchanged until the next call.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        text.trim().trim_matches(['[', ']']).trim().to_owned()
    }

    /// The versions of the interface to request, the newest first.
    pub fn interfaces(&self, device_memory: bool) -> Vec<u32> {
        let newest = version(self.version.0, self.version.1);
        let requested = REQUESTED.iter().filter(|asked| device_memory || **asked < WITH_DMABUF);
        let mut versions: Vec<u32> = requested.map(|asked| newest.min(*asked)).collect();
        versions.dedup();
        versions
    }

    /// The library's text for an error.
    pub fn text(&self, errno: i32) -> String {
        // SAFETY: any number has a text, which is constant.
        let text = unsafe { (self.strerror)(errno.abs()) };
        if text.is_null() {
            return format!("error {errno}");
        }
        // SAFETY: not null, terminated.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
