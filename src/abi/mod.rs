//! The `extern "C"` surface, one file per API family. Each function checks its arguments, converts
//! handles, and calls one function below. Prototypes and documentation for clients are in
//! `include/`.
//!
//! The safety contract of every function is the specification. A pointer that may be null is
//! checked, others are valid by contract. Where C would have undefined behaviour and a check is
//! cheap, a fatal error says what is wrong.

// The signatures are those of the C interface, and most helpers pass them on.
#![allow(clippy::too_many_arguments)]

/// Evaluates `$call`, and `$record` if calls of `$category` are traced. `$began` is the time at
/// which the call began, `$result` what it returned.
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

/// Makes functions of Active Messages with 0 to 16 arguments: passes each number, with which their
/// names end, and the names of the arguments to `$functions`.
macro_rules! for_each_arity {
    ($functions:ident) => {
        $functions! {
            0 ();
            1 (a0);
            2 (a0 a1);
            3 (a0 a1 a2);
            4 (a0 a1 a2 a3);
            5 (a0 a1 a2 a3 a4);
            6 (a0 a1 a2 a3 a4 a5);
            7 (a0 a1 a2 a3 a4 a5 a6);
            8 (a0 a1 a2 a3 a4 a5 a6 a7);
            9 (a0 a1 a2 a3 a4 a5 a6 a7 a8);
            10 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9);
            11 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10);
            12 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11);
            13 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12);
            14 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13);
            15 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14);
            16 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15);
        }
    };
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

/// The result of a call with `GEX_FLAG_IMMEDIATE` that would have had to wait, and did nothing.
pub const NO_OP: c_int = 1;

/// Prints why a call returns an error, unless the client turned that off
/// (`gex_System_SetVerboseErrors`) or another rank prints it, which an empty `why` means.
pub fn complain(function: &str, why: &str) {
    if system::verbose_errors() && !why.is_empty() {
        gasnet_tools::process::print_line(format_args!(
            "GASNet ({}): {function}: {why}",
            gasnet_tools::process::Label
        ));
    }
}

/// The result code of a call that registers handlers. An index that is not available is
/// `GASNET_ERR_RESOURCE`, as in the reference.
pub fn registered(function: &str, result: Result<(), RegisterError>) -> c_int {
    let Err(why) = result else { return OK };
    complain(function, &why.to_string());
    match why {
        RegisterError::Index(_) | RegisterError::Taken(_) | RegisterError::Full => ERR_RESOURCE,
        RegisterError::Null(_) | RegisterError::Args(..) | RegisterError::Flags(..) => ERR_BAD_ARG,
    }
}

/// The result code of a call that creates something. Passes it to `take`, or prints why there is
/// none.
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
