//! Another library of the process that uses the NIC, like an MPI.

use crate::driver::variable;
use gasnet_gni_abi as abi;
use std::ffi::{CStr, CString};
use std::mem::transmute;
use std::ptr::null_mut;

type Create = unsafe extern "C" fn(u32, u8, u32, u32, *mut abi::gni_cdm_handle_t) -> abi::gni_return_t;
type Attach =
    unsafe extern "C" fn(abi::gni_cdm_handle_t, u32, *mut u32, *mut abi::gni_nic_handle_t) -> abi::gni_return_t;

/// Attaches domains with the credentials of the process, and these instances.
pub fn attach(instances: &[u32]) {
    let library = CString::new(variable("GASNET_GNI_LIBRARY")).unwrap();
    let symbol = |name: &CStr| {
        // SAFETY: the emulator, which stays open, and functions that it has.
        let symbol = unsafe { libc::dlsym(libc::dlopen(library.as_ptr(), libc::RTLD_NOW), name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?}");
        symbol
    };
    // SAFETY: functions of these signatures.
    let create = unsafe { transmute::<*mut libc::c_void, Create>(symbol(c"GNI_CdmCreate")) };
    // SAFETY: as above.
    let attach = unsafe { transmute::<*mut libc::c_void, Attach>(symbol(c"GNI_CdmAttach")) };
    let number = |name: &str| variable(name).parse::<u32>().unwrap();
    let (ptag, cookie) = (number("PMI_GNI_PTAG") as u8, number("PMI_GNI_COOKIE"));
    for instance in instances {
        let (mut cdm, mut nic, mut address) = (null_mut(), null_mut(), 0);
        let modes = abi::GNI_CDM_MODE_FMA_SHARED;
        // SAFETY: live variables.
        let codes = unsafe {
            let created = create(*instance, ptag, cookie, modes, &raw mut cdm);
            (created, attach(cdm, 0, &raw mut address, &raw mut nic))
        };
        assert_eq!(codes, (0, 0), "instance {instance}");
    }
}
