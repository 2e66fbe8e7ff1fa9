//! The `extern "C"` surface. One file per API family; each function checks its arguments, converts handles, and calls one function below. Prototypes
//! and documentation for clients are in `include/`.
//!
//! Every function here may be called only as the specification says; that is the one safety contract of the surface. Pointers that it
//! lets be null are checked, others are the client's promise. Where C would have undefined behaviour and a check is cheap, we end the
//! job with a sentence instead.

pub mod ad;
pub mod am;
mod arguments;
pub mod barrier;
pub mod client;
pub mod coll;
pub mod compat;
pub mod event;
pub mod gasnet1;
pub mod hsl;
pub mod mk;
pub mod npam;
pub mod objects;
pub mod process;
pub mod rma;
pub mod rules;
pub mod system;
pub mod team;
pub mod trace;
pub mod vis;

use crate::am::table::RegisterError;
use std::ffi::c_int;

use crate::event::Event;
use crate::flags::{self, ERR_BAD_ARG, ERR_RESOURCE, OK};
use crate::mk::Refusal;

/// The local-completion option of a call (`gex_Event_t *lc_opt`): one of the constants below, or
/// the client's event.
pub type LcOpt = *mut Event;

/// `GEX_EVENT_NOW`.
pub const LC_NOW: LcOpt = flags::EVENT_NOW as LcOpt;
/// `GEX_EVENT_DEFER`.
pub const LC_DEFER: LcOpt = flags::EVENT_DEFER as LcOpt;
/// `GEX_EVENT_GROUP`, the highest of the constants.
pub const LC_GROUP: LcOpt = flags::EVENT_GROUP as LcOpt;

const _: () = assert!(Event::INVALID.0 == flags::EVENT_INVALID && Event::NO_OP.0 == flags::EVENT_NO_OP);

/// What a call with `GEX_FLAG_IMMEDIATE` returns when it would have had to wait and did nothing.
pub const NO_OP: c_int = 1;

/// Prints why a call returns an error, unless the client turned that off (`gex_System_SetVerboseErrors`) or another rank says it.
pub fn complain(function: &str, why: &str) {
    if system::verbose_errors() && !why.is_empty() {
        gasnet_tools::process::say(format_args!("GASNet ({}): {function}: {why}", gasnet_tools::process::Label));
    }
}

/// The answer of a call that registers handlers. An index that cannot be had is a lack of resources, as in the reference.
pub fn registered(function: &str, result: Result<(), RegisterError>) -> c_int {
    let Err(why) = result else { return OK };
    complain(function, &why.to_string());
    match why {
        RegisterError::Index(_) | RegisterError::Taken(_) | RegisterError::Full => ERR_RESOURCE,
        RegisterError::Null(_) | RegisterError::Args(..) | RegisterError::Flags(..) => ERR_BAD_ARG,
    }
}

/// The answer of a call that makes something: `take` gets it, or the user the reason.
pub fn answer<T>(function: &str, made: Result<T, Refusal>, take: impl FnOnce(T)) -> c_int {
    match made {
        Ok(made) => {
            take(made);
            OK
        }
        Err(Refusal::Argument(why)) => {
            complain(function, &why);
            ERR_BAD_ARG
        }
        Err(Refusal::Resource(why)) => {
            complain(function, &why);
            ERR_RESOURCE
        }
    }
}

/// Ends the job in the debug flavour if the thread holds a handler-safe lock, or runs a reduction function, to which the same rules apply:
/// `function` may wait or run handlers.
#[inline]
pub fn no_locks_held(function: &str) {
    if !cfg!(feature = "debug-checks") {
        return;
    }
    let thread = crate::thread::current();
    if thread.locks_held.count() > 0 {
        fatal!("{function} was called while this thread holds a handler-safe lock. Release it first.");
    }
    if thread.reducing.get() {
        fatal!(
            "{function} was called inside a user-defined reduction function, which may only compute, query, and use handler-safe locks \
             (GASNet-EX 0.19, \"User-Defined Reduction Operations\")."
        );
    }
}

/// Ends the job in the debug flavour if the thread runs a handler: `function` communicates and is not allowed there.
#[inline]
pub fn not_in_handler(function: &str) {
    if cfg!(feature = "debug-checks") {
        let thread = crate::thread::current();
        if let Some((name, index)) = thread.handler() {
            let name = name.map_or("unnamed".into(), |n| n.to_string_lossy().into_owned());
            fatal!(
                "{function} was called inside AM handler {index} ({name}). Handlers may only reply, query, and use handler-safe locks \
                 (GASNet-EX 0.19, \"Calls from restricted context\")."
            );
        }
        no_locks_held(function);
        if thread.request_desc.prepared().is_some() {
            fatal!("{function} was called between gex_AM_PrepareRequest and its Commit. Commit or cancel first.");
        }
    }
}
