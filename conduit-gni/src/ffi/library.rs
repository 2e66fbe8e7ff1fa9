//! The vendor's library, opened at run time.

use crate::settings::LIBRARY;
use gasnet_conduit::config;
use gasnet_conduit::library::{Library, Vendor};
use gasnet_gni_abi as abi;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::OnceLock;

/// Cray's library.
static VENDOR: Vendor = Vendor {
    what: "uGNI library",
    names: &[
        c"libugni.so.0",
        c"libugni.so",
        c"/opt/cray/ugni/default/lib64/libugni.so.0",
        c"/opt/cray/ugni/default/lib64/libugni.so",
    ],
    source: "It comes with Cray's Linux Environment on the compute nodes of XC and XE systems",
    variable: &LIBRARY,
    probe: c"GNI_CdmCreate",
};

/// Result of a call, other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub abi::gni_return_t);

impl Code {
    /// Poll, and try again.
    pub const RESOURCE: Self = Self(abi::GNI_RC_ERROR_RESOURCE);
    /// Not yet.
    pub const NOT_DONE: Self = Self(abi::GNI_RC_NOT_DONE);
    /// An operation has failed.
    pub const TRANSACTION: Self = Self(abi::GNI_RC_TRANSACTION_ERROR);
    /// Something exists already.
    pub const STATE: Self = Self(abi::GNI_RC_INVALID_STATE);
    /// An argument is refused.
    pub const INVALID: Self = Self(abi::GNI_RC_INVALID_PARAM);

    /// The result of a call.
    #[inline]
    pub fn check(code: abi::gni_return_t) -> Result<(), Self> {
        if code == abi::GNI_RC_SUCCESS {
            Ok(())
        } else {
            Err(Self(code))
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match abi::RETURN_CODES.get(self.0 as usize) {
            Some(name) => write!(f, "GNI_RC_{name}"),
            None => write!(f, "return code {}", self.0),
        }
    }
}

/// Declares the table of functions, and how it is filled: those that every library has, maybe by
/// another name if it is old, and those that Gemini's lacks.
macro_rules! functions {
    ($($name:ident: $symbol:literal $(or $old:literal)? ($($arg:ty),*) $(-> $result:ty)?;)*
     ; $($option:ident: $option_symbol:literal ($($option_arg:ty),*);)*) => {
        /// The functions that the conduit uses.
        #[derive(Debug)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
            $(pub $option: Option<unsafe extern "C" fn($($option_arg),*) -> abi::gni_return_t>,)*
        }

        impl Functions {
            fn load(library: &Library) -> Result<Self, String> {
                Ok(Self {
                    // SAFETY: the vendor documents functions of these names with these signatures.
                    $($name: unsafe {
                        library.function($symbol)$(.or_else(|why| library.function($old).map_err(|_| why)))?
                    }?,)*
                    // SAFETY: as above.
                    $($option: unsafe { library.function($option_symbol) }.ok(),)*
                })
            }
        }
    };
}

functions! {
    device_type: c"GNI_GetDeviceType" (*mut abi::gni_nic_device_t) -> abi::gni_return_t;
    nic_address: c"GNI_CdmGetNicAddress" (u32, *mut u32, *mut u32) -> abi::gni_return_t;
    cdm_create: c"GNI_CdmCreate" (u32, u8, u32, u32, *mut abi::gni_cdm_handle_t) -> abi::gni_return_t;
    cdm_attach: c"GNI_CdmAttach"
        (abi::gni_cdm_handle_t, u32, *mut u32, *mut abi::gni_nic_handle_t) -> abi::gni_return_t;
    cdm_destroy: c"GNI_CdmDestroy" (abi::gni_cdm_handle_t) -> abi::gni_return_t;
    cq_create: c"GNI_CqCreate" (
        abi::gni_nic_handle_t, u32, u32, abi::gni_cq_mode_t, abi::gni_cq_handler, *mut c_void,
        *mut abi::gni_cq_handle_t
    ) -> abi::gni_return_t;
    cq_destroy: c"GNI_CqDestroy" (abi::gni_cq_handle_t) -> abi::gni_return_t;
    cq_test: c"GNI_CqTestEvent" (abi::gni_cq_handle_t) -> abi::gni_return_t;
    cq_get: c"GNI_CqGetEvent" (abi::gni_cq_handle_t, *mut abi::gni_cq_entry_t) -> abi::gni_return_t;
    completed: c"GNI_GetCompleted"
        (abi::gni_cq_handle_t, abi::gni_cq_entry_t, *mut *mut abi::gni_post_descriptor_t) -> abi::gni_return_t;
    error_text: c"GNI_CqErrorStr" (abi::gni_cq_entry_t, *mut c_void, u32) -> abi::gni_return_t;
    // Before March 2013 one function read the ids of both kinds of events, of 32 bits on Gemini.
    remote_event: c"gni_cq_get_rem_inst_id" or c"gni_cq_get_inst_id" (abi::gni_cq_entry_t) -> u64;
    ep_create: c"GNI_EpCreate"
        (abi::gni_nic_handle_t, abi::gni_cq_handle_t, *mut abi::gni_ep_handle_t) -> abi::gni_return_t;
    ep_bind: c"GNI_EpBind" (abi::gni_ep_handle_t, u32, u32) -> abi::gni_return_t;
    ep_set_event: c"GNI_EpSetEventData" (abi::gni_ep_handle_t, u32, u32) -> abi::gni_return_t;
    ep_unbind: c"GNI_EpUnbind" (abi::gni_ep_handle_t) -> abi::gni_return_t;
    ep_destroy: c"GNI_EpDestroy" (abi::gni_ep_handle_t) -> abi::gni_return_t;
    register: c"GNI_MemRegister" (
        abi::gni_nic_handle_t, u64, u64, abi::gni_cq_handle_t, u32, u32, *mut abi::gni_mem_handle_t
    ) -> abi::gni_return_t;
    deregister: c"GNI_MemDeregister" (abi::gni_nic_handle_t, *mut abi::gni_mem_handle_t) -> abi::gni_return_t;
    post_fma: c"GNI_PostFma" (abi::gni_ep_handle_t, *mut abi::gni_post_descriptor_t) -> abi::gni_return_t;
    post_rdma: c"GNI_PostRdma" (abi::gni_ep_handle_t, *mut abi::gni_post_descriptor_t) -> abi::gni_return_t;
    post_cq_write: c"GNI_PostCqWrite" (abi::gni_ep_handle_t, *mut abi::gni_post_descriptor_t) -> abi::gni_return_t;
    ;
    error_recoverable: c"GNI_CqErrorRecoverable" (abi::gni_cq_entry_t, *mut u32);
    ptag: c"GNI_GetPtag" (u32, u32, *mut u8);
    version: c"GNI_GetVersionInformation" (*mut abi::gni_version_info_t);
    ep_set_ce: c"GNI_EpSetCeAttr" (abi::gni_ep_handle_t, u32, u32, abi::gni_ce_child_t);
    ce_create: c"GNI_CeCreate" (abi::gni_nic_handle_t, *mut abi::gni_ce_handle_t);
    ce_id: c"GNI_CeGetId" (abi::gni_ce_handle_t, *mut u32);
    ce_configure: c"GNI_CeConfigure"
        (abi::gni_ce_handle_t, *mut abi::gni_ep_handle_t, u32, abi::gni_ep_handle_t, abi::gni_cq_handle_t, u32);
    ce_result: c"GNI_CeCheckResult" (*mut abi::gni_ce_result_t, u32);
    ce_destroy: c"GNI_CeDestroy" (abi::gni_ce_handle_t);
    channel_create: c"GNI_CompChanCreate" (abi::gni_nic_handle_t, *mut abi::gni_comp_chan_handle_t);
    channel_destroy: c"GNI_CompChanDestroy" (abi::gni_comp_chan_handle_t);
    channel_fd: c"GNI_CompChanFd" (abi::gni_comp_chan_handle_t, *mut c_int);
    channel_event: c"GNI_CompChanGetEvent" (abi::gni_comp_chan_handle_t, *mut abi::gni_cq_handle_t);
    channel_attach: c"GNI_CqAttachCompChan" (abi::gni_cq_handle_t, abi::gni_comp_chan_handle_t);
    channel_arm: c"GNI_CqArmCompChan" (*mut abi::gni_cq_handle_t, u32);
}

impl Functions {
    /// The functions, looked up once per process. The error is a message without a full stop.
    pub fn get() -> Result<&'static Self, String> {
        static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
        let open = || Library::open(&VENDOR, config::get()).and_then(|library| Self::load(&library));
        FUNCTIONS.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// The kind of NIC that the node has.
    pub fn device(&self) -> Result<abi::gni_nic_device_t, Code> {
        let mut device = 0;
        // SAFETY: a live variable.
        Code::check(unsafe { (self.device_type)(&raw mut device) }).map(|()| device)
    }

    /// The address of a NIC of this node.
    pub fn nic_address(&self, device: u32) -> Result<u32, Code> {
        let (mut address, mut cpu) = (0, 0);
        // SAFETY: live variables.
        Code::check(unsafe { (self.nic_address)(device, &raw mut address, &raw mut cpu) }).map(|()| address)
    }

    /// The protection tag for a cookie, in jobs of native Slurm.
    pub fn ptag(&self, device: u32, cookie: u32) -> Option<u8> {
        let mut ptag = 0;
        // SAFETY: a live variable.
        Code::check(unsafe { self.ptag?(device, cookie, &raw mut ptag) }).ok()?;
        Some(ptag)
    }

    /// The version of the library, in words.
    pub fn version_text(&self) -> String {
        // SAFETY: all zero is valid.
        let mut info: abi::gni_version_info_t = unsafe { std::mem::zeroed() };
        let Some(query) = self.version else {
            return "unknown".to_owned();
        };
        // SAFETY: a live variable.
        if Code::check(unsafe { query(&raw mut info) }).is_err() {
            return "unknown".to_owned();
        }
        let version = info.ugni_version;
        format!(
            "{:#x}.{:#x}.{:#x}",
            version >> 24,
            version >> 16 & 0xff,
            version & 0xffff
        )
    }

    /// Whether the operation whose failure an event reports may succeed if it is posted again.
    pub fn is_transient(&self, entry: abi::gni_cq_entry_t) -> bool {
        let Some(query) = self.error_recoverable else {
            return false;
        };
        let mut answer = 0;
        // SAFETY: a live variable.
        Code::check(unsafe { query(entry, &raw mut answer) }).is_ok() && answer != 0
    }

    /// The library's text for the failure that an event reports.
    pub fn describe(&self, entry: abi::gni_cq_entry_t) -> String {
        let mut text = [0_u8; 256];
        // SAFETY: the text is written within these bytes, terminated.
        let code = unsafe { (self.error_text)(entry, text.as_mut_ptr().cast(), text.len() as u32) };
        match Code::check(code) {
            Ok(()) => String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned(),
            Err(_) => "a transaction failed".to_owned(),
        }
    }
}
