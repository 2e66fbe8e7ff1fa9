//! The `extern "C"` surface. One file per API family; each function checks its arguments, converts handles, and calls one function below. Prototypes
//! and documentation for clients are in `include/`.
//!
//! Every function here may be called only as the specification says; that is the one safety contract of the surface. Pointers that it
//! lets be null are checked, others are the client's promise. Where C would have undefined behaviour and a check is cheap, we end the
//! job with a sentence instead.

/// Evaluates `$call`, and `$record` if calls of `$category` are traced. `$began` is the time at which
/// the call began, `$result` what it returned.
macro_rules! traced {
    ($category:expr, $call:expr, |$began:ident, $result:pat_param| $record:expr) => {{
        let $began = crate::trace::clock($category);
        let result = $call;
        if $began != 0 {
            let $result = result;
            $record;
        }
        result
    }};
}

pub mod ad;
pub mod am;
mod arguments;
pub mod barrier;
pub mod client;
pub mod coll;
pub mod compat;
pub mod ep;
pub mod event;
pub mod gasnet1;
mod handles;
pub mod hsl;
pub mod mk;
pub mod npam;
pub mod process;
pub mod rma;
pub mod segment;
pub mod system;
pub mod team;
pub mod trace;
pub mod vis;

use crate::am::table::RegisterError;
use std::ffi::c_int;

use crate::flags::{ERR_BAD_ARG, ERR_RESOURCE, OK};
use crate::mk::Refusal;

/// What a call with `GEX_FLAG_IMMEDIATE` returns when it would have had to wait and did nothing.
pub const NO_OP: c_int = 1;

/// Prints why a call returns an error, unless the client turned that off (`gex_System_SetVerboseErrors`) or another rank says it.
pub fn complain(function: &str, why: &str) {
    if system::verbose_errors() && !why.is_empty() {
        gasnet_tools::process::print_line(format_args!("GASNet ({}): {function}: {why}", gasnet_tools::process::Label));
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
