//! Initialisation. `gex_Client_Init` and `gasnet_init` themselves are in the marker object, which knows the thread mode.

use std::ffi::{c_char, c_int, CStr, CString};

use super::arguments::Arguments;
use super::{complain, ERR_BAD_ARG, ERR_NOT_INIT, OK};
use crate::client::is_client_name;
use crate::runtime;
use crate::segment::configuration::Configuration;
use crate::sync::Mode;

const KNOWN_FLAGS: u32 = 1 | 2;

/// What `gex_Client_Init` of every thread mode and segment configuration does. `argc` and `argv` are left alone, unless the first argument was taken
/// for the number of ranks.
#[no_mangle]
pub unsafe extern "C" fn gasneti_client_init_mode(
    mode: c_int,
    segments: c_int,
    client: *mut *const crate::client::Client,
    endpoint: *mut *const crate::endpoint::Endpoint,
    team: *mut usize,
    name: *const c_char,
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    flags: u32,
) -> c_int {
    let (Some(mode), Some(segments)) = (Mode::from_raw(mode), Configuration::from_raw(segments)) else {
        return ERR_BAD_ARG;
    };
    if client.is_null() || endpoint.is_null() || team.is_null() || name.is_null() {
        complain("gex_Client_Init", "client_p, ep_p, tm_p and clientName must not be null");
        return ERR_BAD_ARG;
    }
    // SAFETY: not null; a C string by the specification.
    let name = unsafe { CStr::from_ptr(name) };
    if !is_client_name(name.to_bytes()) {
        complain(
            "gex_Client_Init",
            &format!("{name:?} is not a client name: a letter, then letters, digits and underscores"),
        );
        return ERR_BAD_ARG;
    }
    if flags & !KNOWN_FLAGS != 0 {
        complain("gex_Client_Init", &format!("unknown flags {:#x}", flags & !KNOWN_FLAGS));
        return ERR_BAD_ARG;
    }
    // SAFETY: the client's promise.
    let arguments = unsafe { Arguments::new(argc, argv) };
    match runtime::init(mode, segments, CString::from(name), flags, arguments.ranks()) {
        Err(error) => {
            complain("gex_Client_Init", &error.0);
            ERR_NOT_INIT
        }
        Ok(rt) => {
            if rt.job.options().counted.is_some() {
                arguments.drop_first();
            }
            // SAFETY: checked for null; the client's to write.
            unsafe { client.write(rt.client) };
            // SAFETY: as above.
            unsafe { endpoint.write(rt.endpoint0) };
            // SAFETY: as above.
            unsafe { team.write(rt.team0.handle()) };
            OK
        }
    }
}
