//! Initialisation. `gex_Client_Init` and `gasnet_init` themselves are in the marker object, which knows the thread mode.

use std::ffi::{c_char, c_int, CStr, CString};

use super::{arguments, complain};
use crate::client::is_recommended_name;
use crate::flags::{Flags, ERR_BAD_ARG, ERR_NOT_INIT, OK};
use crate::init::{self, InitError};
use crate::rules;
use crate::runtime::Runtime;
use crate::segment::configuration::Configuration;
use crate::sync::Mode;
use crate::team::TeamHandle;
use gasnet_job as job;

const KNOWN_FLAGS: Flags = Flags::USES_GASNET1.with(Flags::DEFER_THREADS);

/// What a marker object passes: the thread mode and the segment configuration.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    /// 0 SEQ, 1 PARSYNC, 2 PAR.
    pub mode: c_int,
    /// 0 FAST, 1 LARGE, 2 EVERYTHING.
    pub segments: c_int,
}

/// Starts the runtime for `function`. A job that does not come about ends the process here, with one message and a failure: clients that ignore
/// results would otherwise go on, each rank as a program of its own. Errors of the call itself are returned.
///
/// # Safety
/// As for [`arguments::count`].
pub unsafe fn begin(
    function: &str,
    marked: Marked,
    name: &CStr,
    flags: Flags,
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
) -> Result<&'static Runtime, c_int> {
    let (Some(mode), Some(segments)) = (Mode::from_raw(marked.mode), Configuration::from_raw(marked.segments)) else {
        return Err(ERR_BAD_ARG);
    };
    // SAFETY: by contract.
    let count = unsafe { arguments::count(argc, argv) };
    match init::init(mode, segments, CString::from(name), flags, count) {
        Ok(rt) => Ok(rt),
        Err(InitError::Again(why)) => {
            complain(function, &why);
            Err(ERR_NOT_INIT)
        }
        Err(InitError::Job(why)) => {
            if !why.is_empty() {
                gasnet_tools::process::say(format_args!("GASNet ({}): {function}: {why}", gasnet_tools::process::Label));
            }
            job::exit(1)
        }
    }
}

/// What `gex_Client_Init` of every thread mode and segment configuration does. `*argc` and `*argv` are left alone. Any name is taken, and so are
/// unknown flags; the debug flavour warns.
///
/// # Safety
/// The specification's contract of `gex_Client_Init`.
#[no_mangle]
pub unsafe extern "C" fn gasneti_client_init_mode(
    mode: c_int,
    segments: c_int,
    client: *mut *const crate::client::Client,
    endpoint: *mut *const crate::endpoint::Endpoint,
    team: *mut TeamHandle,
    name: *const c_char,
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    flags: Flags,
) -> c_int {
    let function = "gex_Client_Init";
    if client.is_null() || endpoint.is_null() || team.is_null() {
        complain(function, "client_p, ep_p and tm_p must not be null");
        return ERR_BAD_ARG;
    }
    let name = if name.is_null() {
        c""
    } else {
        // SAFETY: not null; a C string by the specification.
        unsafe { CStr::from_ptr(name) }
    };
    // SAFETY: the client's promise.
    match unsafe { begin(function, Marked { mode, segments }, name, flags, argc, argv) } {
        Err(code) => code,
        Ok(rt) => {
            if rules::CHECKED && rt.rank() == 0 {
                warn_about(name, flags);
            }
            // SAFETY: checked for null; the client's to write.
            unsafe { client.write(rt.client()) };
            // SAFETY: as above.
            unsafe { endpoint.write(rt.endpoint0()) };
            // SAFETY: as above.
            unsafe { team.write(rt.team0().handle()) };
            OK
        }
    }
}

/// What the specification advises against, and other libraries need not take.
fn warn_about(name: &CStr, flags: Flags) {
    if !is_recommended_name(name.to_bytes()) {
        gasnet_tools::process::warn(format_args!(
            "gex_Client_Init: the specification recommends client names of a letter, then letters, digits and underscores; this one is {name:?}"
        ));
    }
    if !KNOWN_FLAGS.has_all(flags) {
        gasnet_tools::process::warn(format_args!(
            "gex_Client_Init: unknown flags {:#x} have no effect",
            flags.without(KNOWN_FLAGS)
        ));
    }
}
