//! `libucp.so.0`, opened at run time.

use super::bindings as abi;
use super::suffixed;
use crate::settings::LIBRARY;
use gasnet_conduit::config;
use gasnet_conduit::library::{Library, Vendor};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::OnceLock;

/// Search for UCP.
static VENDOR: Vendor = Vendor {
    what: "UCX library",
    names: &[c"libucp.so.0"],
    source: "It comes with UCX (Debian: package libucx0)",
    variable: &LIBRARY,
    probe: c"ucp_get_version",
};

/// The oldest with the receive handlers of Active Messages that this conduit has.
pub const OLDEST: (u32, u32) = (1, 11);

/// The functions of this process.
static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();

/// The copy of UCX that this process has already: MPI or another library has brought it.
fn loaded() -> Option<Library> {
    let with_suffix = || suffixed::loaded().find_map(|name| Library::in_file(&VENDOR, &name, true));
    Library::loaded(&VENDOR).or_else(with_suffix)
}

/// Whether this process has a copy of UCX already.
pub fn is_loaded() -> bool {
    loaded().is_some()
}

/// The copy that the user has named, or an installed one. The error is a message.
fn installed() -> Result<Library, String> {
    let config = config::get();
    Library::open(&VENDOR, config).or_else(|why| {
        let mut names = suffixed::installed().filter(|_| !config.is_set(&LIBRARY));
        names
            .find_map(|name| Library::in_file(&VENDOR, &name, false))
            .ok_or(why)
    })
}

/// Declares the table of the library's functions.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        pub struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
            /// Version of the library.
            pub version: (u32, u32),
            /// The file.
            pub path: String,
        }

        impl Functions {
            fn look_up(library: &Library, version: (u32, u32)) -> Result<Self, String> {
                Ok(Self {
                    // SAFETY: ucp.h and ucs/type/status.h declare functions of these names with
                    // these signatures, which no version has changed.
                    $($name: unsafe {
                        library.function::<unsafe extern "C" fn($($arg),*) $(-> $result)?>($symbol)?
                    },)*
                    version,
                    path: library.path(),
                })
            }
        }
    };
}

functions! {
    init = c"ucp_init_version" (
        c_uint, c_uint, *const abi::ucp_params_t, *const abi::ucp_config_t, *mut abi::ucp_context_h,
    ) -> abi::ucs_status_t;
    cleanup = c"ucp_cleanup" (abi::ucp_context_h);
    context_query = c"ucp_context_query" (abi::ucp_context_h, *mut abi::ucp_context_attr_t) -> abi::ucs_status_t;
    context_print_info = c"ucp_context_print_info" (abi::ucp_context_h, *mut libc::FILE);
    config_read = c"ucp_config_read" (*const c_char, *const c_char, *mut *mut abi::ucp_config_t) -> abi::ucs_status_t;
    config_modify = c"ucp_config_modify" (*mut abi::ucp_config_t, *const c_char, *const c_char) -> abi::ucs_status_t;
    config_release = c"ucp_config_release" (*mut abi::ucp_config_t);
    worker_create = c"ucp_worker_create" (
        abi::ucp_context_h, *const abi::ucp_worker_params_t, *mut abi::ucp_worker_h,
    ) -> abi::ucs_status_t;
    worker_destroy = c"ucp_worker_destroy" (abi::ucp_worker_h);
    worker_query = c"ucp_worker_query" (abi::ucp_worker_h, *mut abi::ucp_worker_attr_t) -> abi::ucs_status_t;
    worker_release_address = c"ucp_worker_release_address" (abi::ucp_worker_h, *mut abi::ucp_address_t);
    worker_progress = c"ucp_worker_progress" (abi::ucp_worker_h) -> c_uint;
    worker_get_efd = c"ucp_worker_get_efd" (abi::ucp_worker_h, *mut c_int) -> abi::ucs_status_t;
    worker_arm = c"ucp_worker_arm" (abi::ucp_worker_h) -> abi::ucs_status_t;
    set_am_recv_handler = c"ucp_worker_set_am_recv_handler" (
        abi::ucp_worker_h, *const abi::ucp_am_handler_param_t,
    ) -> abi::ucs_status_t;
    am_data_release = c"ucp_am_data_release" (abi::ucp_worker_h, *mut c_void);
    am_send = c"ucp_am_send_nbx" (
        abi::ucp_ep_h, c_uint, *const c_void, usize, *const c_void, usize, *const abi::ucp_request_param_t,
    ) -> abi::ucs_status_ptr_t;
    ep_create = c"ucp_ep_create" (
        abi::ucp_worker_h, *const abi::ucp_ep_params_t, *mut abi::ucp_ep_h,
    ) -> abi::ucs_status_t;
    ep_flush = c"ucp_ep_flush_nbx" (abi::ucp_ep_h, *const abi::ucp_request_param_t) -> abi::ucs_status_ptr_t;
    request_free = c"ucp_request_free" (*mut c_void);
    mem_map = c"ucp_mem_map" (
        abi::ucp_context_h, *const abi::ucp_mem_map_params_t, *mut abi::ucp_mem_h,
    ) -> abi::ucs_status_t;
    mem_unmap = c"ucp_mem_unmap" (abi::ucp_context_h, abi::ucp_mem_h) -> abi::ucs_status_t;
    rkey_pack = c"ucp_rkey_pack" (
        abi::ucp_context_h, abi::ucp_mem_h, *mut *mut c_void, *mut usize,
    ) -> abi::ucs_status_t;
    rkey_buffer_release = c"ucp_rkey_buffer_release" (*mut c_void);
    rkey_unpack = c"ucp_ep_rkey_unpack" (abi::ucp_ep_h, *const c_void, *mut abi::ucp_rkey_h) -> abi::ucs_status_t;
    rkey_destroy = c"ucp_rkey_destroy" (abi::ucp_rkey_h);
    put = c"ucp_put_nbx" (
        abi::ucp_ep_h, *const c_void, usize, u64, abi::ucp_rkey_h, *const abi::ucp_request_param_t,
    ) -> abi::ucs_status_ptr_t;
    get = c"ucp_get_nbx" (
        abi::ucp_ep_h, *mut c_void, usize, u64, abi::ucp_rkey_h, *const abi::ucp_request_param_t,
    ) -> abi::ucs_status_ptr_t;
    atomic = c"ucp_atomic_op_nbx" (
        abi::ucp_ep_h, abi::ucp_atomic_op_t, *const c_void, usize, u64, abi::ucp_rkey_h,
        *const abi::ucp_request_param_t,
    ) -> abi::ucs_status_ptr_t;
    status_string = c"ucs_status_string" (abi::ucs_status_t) -> *const c_char;
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

    /// A copy that the process has is taken, because a second one fails to load: its libucp would
    /// be linked to the libucs of the first.
    fn open() -> Result<Self, String> {
        let library = loaded().map_or_else(installed, Ok)?;
        // SAFETY: ucp.h: three numbers to write.
        let get_version =
            unsafe { library.function::<unsafe extern "C" fn(*mut u32, *mut u32, *mut u32)>(c"ucp_get_version")? };
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: as above.
        unsafe { get_version(&raw mut major, &raw mut minor, &raw mut release) };
        if (major, minor) < OLDEST || major != OLDEST.0 {
            return Err(format!(
                "{} is UCX {major}.{minor}.{release}; a version from 1.11 on, below 2.0, is needed. Install one, or \
                 select it with {}",
                library.path(),
                LIBRARY.variable.name
            ));
        }
        Self::look_up(&library, (major, minor))
    }

    /// The library's text for a status.
    pub fn text(&self, status: i8) -> String {
        // SAFETY: any number has a text, which is constant.
        let text = unsafe { (self.status_string)(status) };
        if text.is_null() {
            return format!("error {status}");
        }
        // SAFETY: not null, terminated.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
