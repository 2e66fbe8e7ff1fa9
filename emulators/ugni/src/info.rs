//! Information about the library and its devices.
#![allow(non_snake_case, non_upper_case_globals)]

use std::ffi::{c_char, CStr};
use std::sync::atomic::Ordering::Relaxed;

use gasnet_gni_abi as abi;

use crate::config::Config;
use crate::process::{self, current};
use crate::refuse::{call, code, complain, invalid, quiet, store, Outcome};

/// A table of C strings.
#[repr(transparent)]
pub struct Strings([*const c_char; NAMES.len()]);
// SAFETY: the strings are constants.
unsafe impl Sync for Strings {}

const NAMES: [&CStr; 14] = [
    c"GNI_RC_SUCCESS",
    c"GNI_RC_NOT_DONE",
    c"GNI_RC_INVALID_PARAM",
    c"GNI_RC_ERROR_RESOURCE",
    c"GNI_RC_TIMEOUT",
    c"GNI_RC_PERMISSION_ERROR",
    c"GNI_RC_DESCRIPTOR_ERROR",
    c"GNI_RC_ALIGNMENT_ERROR",
    c"GNI_RC_INVALID_STATE",
    c"GNI_RC_NO_MATCH",
    c"GNI_RC_SIZE_ERROR",
    c"GNI_RC_TRANSACTION_ERROR",
    c"GNI_RC_ILLEGAL_OP",
    c"GNI_RC_ERROR_NOMEM",
];

const fn strings() -> Strings {
    let mut table = [std::ptr::null(); NAMES.len()];
    let mut n = 0;
    while n < NAMES.len() {
        table[n] = NAMES[n].as_ptr();
        n += 1;
    }
    Strings(table)
}

/// Names of return codes.
#[no_mangle]
pub static gni_err_str: Strings = strings();

/// Versions of the libraries that the emulator stands in for.
const GEMINI_VERSION: u32 = 0x0055_00ad;
const ARIES_VERSION: u32 = 0x005d_0102;

/// EMU_UGNI; without it there is no device.
fn config(function: &str) -> Outcome<Config> {
    Config::of_process().map_err(|why| {
        complain(function, abi::GNI_RC_ERROR_RESOURCE, &why);
        quiet(abi::GNI_RC_ERROR_RESOURCE)
    })
}

#[no_mangle]
extern "C" fn GNI_GetDeviceType(out: *mut abi::gni_nic_device_t) -> abi::gni_return_t {
    call("GNI_GetDeviceType", || {
        let kind = if config("GNI_GetDeviceType")?.is_gemini() {
            abi::GNI_DEVICE_GEMINI
        } else {
            abi::GNI_DEVICE_ARIES
        };
        store(out, kind, "the pointer for the type is null")
    })
}

#[no_mangle]
extern "C" fn GNI_GetNumLocalDevices(out: *mut i32) -> abi::gni_return_t {
    call("GNI_GetNumLocalDevices", || {
        let count = config("GNI_GetNumLocalDevices")?.nics;
        store(out, count as i32, "the pointer for the number is null")
    })
}

fn version() -> u32 {
    match Config::of_process() {
        Ok(config) if config.is_gemini() => GEMINI_VERSION,
        _ => ARIES_VERSION,
    }
}

#[no_mangle]
extern "C" fn GNI_GetVersionInformation(out: *mut abi::gni_version_info_t) -> abi::gni_return_t {
    let mut text = [0; 80];
    let name = b"emulator of uGNI";
    text[..name.len()].copy_from_slice(name);
    let information = abi::gni_version_info_t {
        ugni_version: version(),
        ugni_svn_revision: 0,
        ugni_build_string: text,
        kgni_version: version(),
        kgni_svn_revision: 0,
        kgni_build_string: text,
    };
    code(
        "GNI_GetVersionInformation",
        store(out, information, "the pointer for the version is null"),
    )
}

/// The tag that belongs to a cookie: any will do that all processes derive alike.
#[no_mangle]
extern "C" fn GNI_GetPtag(device: u32, cookie: u32, out: *mut u8) -> abi::gni_return_t {
    call("GNI_GetPtag", || {
        process::address(&config("GNI_GetPtag")?, device).ok_or(quiet(abi::GNI_RC_NO_MATCH))?;
        let tag = 3 + (cookie ^ cookie >> 16) % 125;
        store(out, tag as u8, "the pointer for the tag is null")
    })
}

/// (used, limit) of a resource of a device, by the numbers of `gni_dev_res_t`.
fn resource(device: u32, kind: abi::gni_dev_res_t) -> Outcome<(u64, u64)> {
    let process = current().map_err(|_| quiet(abi::GNI_RC_ERROR_RESOURCE))?;
    let nic = process
        .address(device)
        .and_then(|address| process.nic(address))
        .ok_or(invalid("there is no such device"))?;
    let config = &process.config;
    let (used, limit) = match kind {
        abi::GNI_DEV_RES_MDD => (&nic.mdd, config.mdd),
        abi::GNI_DEV_RES_CQ => (&nic.cq, config.cqs()),
        abi::GNI_DEV_RES_FMA => (&nic.fma, config.fma),
        abi::GNI_DEV_RES_CE if !process.is_gemini => (&nic.ce, config.ce),
        _ => return Err(quiet(abi::GNI_RC_ERROR_RESOURCE)),
    };
    Ok((u64::from(used.load(Relaxed)), u64::from(limit)))
}

#[no_mangle]
extern "C" fn GNI_GetJobResInfo(
    device: u32,
    _ptag: u8,
    kind: abi::gni_job_res_t,
    out: *mut abi::gni_job_res_desc_t,
) -> abi::gni_return_t {
    call("GNI_GetJobResInfo", || {
        let kind = match kind {
            abi::GNI_JOB_RES_MDD => abi::GNI_DEV_RES_MDD,
            abi::GNI_JOB_RES_CQ => abi::GNI_DEV_RES_CQ,
            abi::GNI_JOB_RES_FMA => abi::GNI_DEV_RES_FMA,
            abi::GNI_JOB_RES_CE => abi::GNI_DEV_RES_CE,
            _ => return Err(quiet(abi::GNI_RC_ERROR_RESOURCE)),
        };
        let (used, limit) = resource(device, kind)?;
        store(
            out,
            abi::gni_job_res_desc_t { used, limit },
            "the pointer for the answer is null",
        )
    })
}

#[no_mangle]
extern "C" fn GNI_GetDevResInfo(
    device: u32,
    kind: abi::gni_dev_res_t,
    out: *mut abi::gni_dev_res_desc_t,
) -> abi::gni_return_t {
    call("GNI_GetDevResInfo", || {
        let (held, total) = resource(device, kind)?;
        let answer = abi::gni_dev_res_desc_t {
            available: total.saturating_sub(held),
            reserved: 0,
            held,
            total,
        };
        store(out, answer, "the pointer for the answer is null")
    })
}

/// Names of resources of jobs and devices, by number.
const JOB_RESOURCES: [&CStr; 14] = [
    c"",
    c"MDD",
    c"MRT",
    c"IOMMU",
    c"GART",
    c"CQ",
    c"FMA",
    c"RDMA",
    c"CE",
    c"DLA",
    c"SFMA",
    c"DIRECT",
    c"PCI_IOMMU",
    c"NONVMDH",
];
const DEVICE_RESOURCES: [&CStr; 9] = [c"", c"MDD", c"MRT", c"CQ", c"FMA", c"CE", c"DLA", c"TCR", c"DVA"];

fn name_of(names: &[&'static CStr], kind: u32) -> Option<&'static CStr> {
    names.get(kind as usize).copied().filter(|name| !name.is_empty())
}

#[no_mangle]
extern "C" fn gni_job_res_to_str(kind: abi::gni_job_res_t) -> *const c_char {
    name_of(&JOB_RESOURCES, kind).unwrap_or(c"?").as_ptr()
}

#[no_mangle]
extern "C" fn gni_dev_res_to_str(kind: abi::gni_dev_res_t) -> *const c_char {
    name_of(&DEVICE_RESOURCES, kind).unwrap_or(c"?").as_ptr()
}
