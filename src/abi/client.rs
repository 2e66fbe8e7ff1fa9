//! `gex_Client_*`. `gex_Client_Init` and `gasnet_init` themselves are in the marker object, which
//! knows the thread mode.

use std::ffi::{c_char, c_int, CStr, CString};

use super::handles::{self, cdata, query};
use super::{arguments, complain};
use crate::client::{is_recommended_name, Client};
use crate::endpoint::Endpoint;
use crate::flags::{Flags, ERR_BAD_ARG, ERR_NOT_INIT, OK};
use crate::init::{self, InitError};
use crate::rules;
use crate::runtime::Runtime;
use crate::segment::configuration::Configuration;
use crate::sync::Mode;
use crate::team::TeamHandle;
use gasnet_conduit::JobRank;
use gasnet_job as job;
use gasnet_sys::{cancel, float};

cdata! { gex_Client_SetCData gex_Client_QueryCData Client, handles::client, "client" }

query! {
    /// The flags of `gex_Client_Init`.
    gex_Client_QueryFlags(Client, handles::client) -> Flags = |client| client.flags;
    /// The name of `gex_Client_Init`.
    gex_Client_QueryName(Client, handles::client) -> *const c_char = |client| client.name.as_ptr();
}

/// Flags of `gex_Client_Init`.
const KNOWN_FLAGS: Flags = Flags::USES_GASNET1.with(Flags::DEFER_THREADS);

/// The thread mode and the segment configuration, which a marker object passes.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    /// 0 SEQ, 1 PARSYNC, 2 PAR.
    pub mode: c_int,
    /// 0 FAST, 1 LARGE, 2 EVERYTHING.
    pub segments: c_int,
}

/// Starts the runtime for `function`. An error of the call itself is returned. When the job cannot
/// start, the process prints one message and exits with a failure: a client that ignores results
/// would otherwise continue, each rank as a program of its own.
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
    let _whole = cancel::disable();
    let _held = float::hold();
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
                gasnet_tools::process::print_line(format_args!(
                    "GASNet ({}): {function}: {why}",
                    gasnet_tools::process::Label
                ));
            }
            job::exit(1)
        }
    }
}

/// `gex_Client_Init` of every thread mode and segment configuration. Does not change `*argc` and
/// `*argv`. Accepts any name and unknown flags, with a warning in the debug flavour.
///
/// # Safety
/// The three outputs are null or valid for a write. `name` is null or a C string. `argc` and `argv`
/// are null or as `main` gets them.
#[no_mangle]
pub unsafe extern "C" fn gasneti_client_init_mode(
    mode: c_int,
    segments: c_int,
    client: *mut *const Client,
    endpoint: *mut *const Endpoint,
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
        // SAFETY: not null, so a C string.
        unsafe { CStr::from_ptr(name) }
    };
    // SAFETY: the caller's contract.
    match unsafe { begin(function, Marked { mode, segments }, name, flags, argc, argv) } {
        Err(code) => code,
        Ok(rt) => {
            if rules::CHECKED && rt.rank == JobRank(0) {
                warn_about(name, flags);
            }
            // SAFETY: not null, so valid for a write.
            unsafe { client.write(rt.client) };
            // SAFETY: as above.
            unsafe { endpoint.write(rt.endpoint0) };
            // SAFETY: as above.
            unsafe { team.write(rt.team0.handle()) };
            OK
        }
    }
}

/// Warns about names and flags that other libraries may refuse.
fn warn_about(name: &CStr, flags: Flags) {
    if !is_recommended_name(name.to_bytes()) {
        gasnet_tools::process::warn(format_args!(
            "gex_Client_Init: the client name {name:?} is not of the form that the specification recommends: \
             a letter, then letters, digits \
             and underscores"
        ));
    }
    if !KNOWN_FLAGS.has_all(flags) {
        gasnet_tools::process::warn(format_args!(
            "gex_Client_Init: unknown flags {:#x} have no effect",
            flags.without(KNOWN_FLAGS)
        ));
    }
}
