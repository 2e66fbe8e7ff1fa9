//! The functions that libibverbs exports. Those of the fast path are in the table of operations of
//! each context.

use super::Errno;
use crate::settings::LIBRARY;
use gasnet_conduit::config;
use gasnet_conduit::library::{Library, Vendor};
use gasnet_ibv_abi as abi;
use gasnet_sys::env;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::OnceLock;

/// Name and source of libibverbs.
static VENDOR: Vendor = Vendor {
    what: "verbs library",
    names: &[c"libibverbs.so.1"],
    source: "It comes with rdma-core (Debian: packages libibverbs1 and ibverbs-providers)",
    variable: &LIBRARY,
    probe: c"ibv_get_device_list",
};

/// Declares the table: each function with the version of its symbol, and after a semicolon those
/// that old libraries lack.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $symbol:literal $version:literal ($($arg:ty),*) $(-> $result:ty)?;)*;
     $($(#[$odoc:meta])* $oname:ident: $osymbol:literal $oversion:literal ($($oarg:ty),*) $(-> $oresult:ty)?;)*
    ) => {
        /// The functions of the library.
        #[derive(Debug)]
        pub struct Functions {
            $($(#[$doc])* pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
            $($(#[$odoc])* pub(super) $oname: Option<unsafe extern "C" fn($($oarg),*) $(-> $oresult)?>,)*
        }

        impl Functions {
            fn load(library: &Library) -> Result<Self, String> {
                // SAFETY: this version of each function has this type in <infiniband/verbs.h>. A
                // library that was linked without versions has the newest.
                Ok(unsafe { Self {
                    $($name: match library.versioned($symbol, $version) {
                        Some(function) => function,
                        None => library.function($symbol)?,
                    },)*
                    $($oname: library.versioned($osymbol, $oversion).or_else(|| library.function($osymbol).ok()),)*
                } })
            }
        }
    };
}

functions! {
    get_device_list: c"ibv_get_device_list" c"IBVERBS_1.1" (*mut c_int) -> *mut *mut abi::ibv_device;
    free_device_list: c"ibv_free_device_list" c"IBVERBS_1.1" (*mut *mut abi::ibv_device);
    get_device_name: c"ibv_get_device_name" c"IBVERBS_1.1" (*mut abi::ibv_device) -> *const c_char;
    open_device: c"ibv_open_device" c"IBVERBS_1.1" (*mut abi::ibv_device) -> *mut abi::ibv_context;
    close_device: c"ibv_close_device" c"IBVERBS_1.1" (*mut abi::ibv_context) -> c_int;
    query_device: c"ibv_query_device" c"IBVERBS_1.1" (*mut abi::ibv_context, *mut abi::ibv_device_attr) -> c_int;
    /// Fills the part of the attributes that the first version of the structure has, which is all
    /// that the conduit reads.
    query_port: c"ibv_query_port" c"IBVERBS_1.1" (*mut abi::ibv_context, u8, *mut abi::ibv_port_attr) -> c_int;
    query_gid: c"ibv_query_gid" c"IBVERBS_1.1" (*mut abi::ibv_context, u8, c_int, *mut abi::ibv_gid) -> c_int;
    query_pkey: c"ibv_query_pkey" c"IBVERBS_1.1" (*mut abi::ibv_context, u8, c_int, *mut u16) -> c_int;
    get_async_event: c"ibv_get_async_event" c"IBVERBS_1.1"
        (*mut abi::ibv_context, *mut abi::ibv_async_event) -> c_int;
    ack_async_event: c"ibv_ack_async_event" c"IBVERBS_1.1" (*mut abi::ibv_async_event);
    alloc_pd: c"ibv_alloc_pd" c"IBVERBS_1.1" (*mut abi::ibv_context) -> *mut abi::ibv_pd;
    dealloc_pd: c"ibv_dealloc_pd" c"IBVERBS_1.1" (*mut abi::ibv_pd) -> c_int;
    reg_mr: c"ibv_reg_mr" c"IBVERBS_1.1" (*mut abi::ibv_pd, *mut c_void, usize, c_int) -> *mut abi::ibv_mr;
    dereg_mr: c"ibv_dereg_mr" c"IBVERBS_1.1" (*mut abi::ibv_mr) -> c_int;
    create_comp_channel: c"ibv_create_comp_channel" c"IBVERBS_1.0"
        (*mut abi::ibv_context) -> *mut abi::ibv_comp_channel;
    destroy_comp_channel: c"ibv_destroy_comp_channel" c"IBVERBS_1.0" (*mut abi::ibv_comp_channel) -> c_int;
    get_cq_event: c"ibv_get_cq_event" c"IBVERBS_1.1"
        (*mut abi::ibv_comp_channel, *mut *mut abi::ibv_cq, *mut *mut c_void) -> c_int;
    ack_cq_events: c"ibv_ack_cq_events" c"IBVERBS_1.1" (*mut abi::ibv_cq, c_uint);
    create_cq: c"ibv_create_cq" c"IBVERBS_1.1"
        (*mut abi::ibv_context, c_int, *mut c_void, *mut abi::ibv_comp_channel, c_int) -> *mut abi::ibv_cq;
    destroy_cq: c"ibv_destroy_cq" c"IBVERBS_1.1" (*mut abi::ibv_cq) -> c_int;
    create_srq: c"ibv_create_srq" c"IBVERBS_1.1"
        (*mut abi::ibv_pd, *mut abi::ibv_srq_init_attr) -> *mut abi::ibv_srq;
    destroy_srq: c"ibv_destroy_srq" c"IBVERBS_1.1" (*mut abi::ibv_srq) -> c_int;
    create_qp: c"ibv_create_qp" c"IBVERBS_1.1" (*mut abi::ibv_pd, *mut abi::ibv_qp_init_attr) -> *mut abi::ibv_qp;
    modify_qp: c"ibv_modify_qp" c"IBVERBS_1.1" (*mut abi::ibv_qp, *mut abi::ibv_qp_attr, c_int) -> c_int;
    destroy_qp: c"ibv_destroy_qp" c"IBVERBS_1.1" (*mut abi::ibv_qp) -> c_int;
    create_ah: c"ibv_create_ah" c"IBVERBS_1.1" (*mut abi::ibv_pd, *mut abi::ibv_ah_attr) -> *mut abi::ibv_ah;
    destroy_ah: c"ibv_destroy_ah" c"IBVERBS_1.1" (*mut abi::ibv_ah) -> c_int;
    wc_status_str: c"ibv_wc_status_str" c"IBVERBS_1.1" (abi::ibv_wc_status) -> *const c_char;
    event_type_str: c"ibv_event_type_str" c"IBVERBS_1.1" (abi::ibv_event_type) -> *const c_char;
    fork_init: c"ibv_fork_init" c"IBVERBS_1.1" () -> c_int;
    ;
    query_gid_ex: c"_ibv_query_gid_ex" c"IBVERBS_1.11"
        (*mut abi::ibv_context, u32, u32, *mut abi::ibv_gid_entry, u32, usize) -> c_int;
    reg_dmabuf_mr: c"ibv_reg_dmabuf_mr" c"IBVERBS_1.12"
        (*mut abi::ibv_pd, u64, usize, u64, c_int, c_int) -> *mut abi::ibv_mr;
    query_qp_data_in_order: c"ibv_query_qp_data_in_order" c"IBVERBS_1.14"
        (*mut abi::ibv_qp, abi::ibv_wr_opcode, u32) -> c_int;
    is_fork_initialized: c"ibv_is_fork_initialized" c"IBVERBS_1.13" () -> abi::ibv_fork_status;
}

/// Lets `ibv_fork_init` know that memory may be in huge pages.
const HUGE_PAGES: &CStr = c"RDMAV_HUGEPAGES_SAFE";

/// Whether the client's memory is in pages of hugetlbfs (libhugetlbfs, Cray's modules). Segments of
/// GASNET_USE_HUGEPAGES are not: the kernel divides transparent huge pages.
fn has_huge_pages() -> bool {
    let is_set = |name: &CStr| env::get(name).is_some_and(|value| !value.is_empty());
    is_set(c"HUGETLB_DEFAULT_PAGE_SIZE") || is_set(c"HUGETLB_MORECORE")
}

impl Functions {
    /// The functions, looked up once per process. The error is a message without a full stop.
    pub fn get() -> Result<&'static Self, String> {
        static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
        let open = || Library::open(&VENDOR, config::get()).and_then(|library| Self::load(&library));
        FUNCTIONS.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// Prepares for forks, before the first registration. Kernels since 5.12 copy pinned pages for
    /// the child at a fork, so nothing is needed. On older ones `ibv_fork_init` keeps registered
    /// pages out of children, because otherwise the parent would lose them to the child at its
    /// next write.
    ///
    /// The error: children take pages from the parent. Either the kernel cannot prevent it, or
    /// another library has registered memory before.
    pub fn prepare_fork(&self) -> Result<(), Errno> {
        /// Ranks may be threads, in tests.
        static RESULT: OnceLock<Result<(), Errno>> = OnceLock::new();
        *RESULT.get_or_init(|| self.keep_from_children())
    }

    fn keep_from_children(&self) -> Result<(), Errno> {
        // SAFETY: no arguments; nothing is registered.
        let state = self.is_fork_initialized.map(|query| unsafe { query() });
        if state == Some(abi::IBV_FORK_UNNEEDED) {
            return Ok(());
        }
        // The call reads the variable, and nothing does later. With it each registration reads all
        // of /proc/PID/smaps; without it memory of hugetlbfs cannot be registered.
        let presets_huge_pages = has_huge_pages() && env::get(HUGE_PAGES).is_none();
        if presets_huge_pages {
            env::set(HUGE_PAGES, c"1");
        }
        // SAFETY: as above.
        let result = Errno::check(unsafe { (self.fork_init)() });
        if presets_huge_pages {
            env::unset(HUGE_PAGES);
        }
        result
    }

    /// Whether registrations may be refused (EINVAL) because of huge pages.
    pub fn refuses_huge_pages(&self) -> bool {
        // SAFETY: no arguments.
        let state = self.is_fork_initialized.map(|query| unsafe { query() });
        state.is_none_or(|state| state == abi::IBV_FORK_ENABLED)
    }

    /// The library's text for the status of a completion.
    pub fn status(&self, status: abi::ibv_wc_status) -> String {
        // SAFETY: any number has a text, which is constant.
        text(unsafe { (self.wc_status_str)(status) })
    }

    /// The library's text for an asynchronous event.
    pub fn event(&self, event: abi::ibv_event_type) -> String {
        // SAFETY: as above.
        text(unsafe { (self.event_type_str)(event) })
    }
}

/// A constant text of the library.
pub(super) fn text(text: *const c_char) -> String {
    if text.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: not null, terminated, constant.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
