//! Negotiated-payload Active Messages. One macro makes the 136 commit functions.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use super::{complain, NO_OP};
use crate::am::npam::{self, CommitArgs, PrepareArgs};
use crate::am::prepared::{Prepared, SrcDesc};
use crate::am::token::Token;
use crate::am::Arg;
use crate::flags::{Flags, ERR_BAD_ARG};
use crate::rules::{self, LcOpt};
use crate::team::TeamHandle;
use crate::types::{AmCategory, Rank};
use gasnet_conduit::{Busy, Class};

const NOWHERE: *mut u8 = ptr::null_mut();

/// The result of the Prepare functions: null if IMMEDIATE and there is no room.
fn descriptor(prepared: Result<&'static SrcDesc, Busy>) -> *const SrcDesc {
    prepared.map_or(ptr::null(), ptr::from_ref)
}

/// The functions that prepare a message: the names for requests and replies, the category, and the
/// destination, which a Medium does not have.
macro_rules! prepares {
    ($($request:ident $reply:ident $category:ident ($($parameter:ident: $type:ty)?) $destination:expr;)*) => {$(
        /// Prepares a request.
        #[no_mangle]
        pub extern "C" fn $request(
            tm: TeamHandle, rank: Rank, client_buffer: *const u8, least: usize, most: usize, $($parameter: $type,)?
            lc_opt: LcOpt, flags: Flags, nargs: c_uint,
        ) -> *const SrcDesc {
            let (category, destination, nargs) = (AmCategory::$category, $destination, nargs as usize);
            let args = PrepareArgs { category, client_buffer, least, most, destination, lc_opt, flags, nargs };
            descriptor(args.request(tm, rank))
        }

        /// Prepares a reply.
        ///
        /// # Safety
        /// `token` is the running handler's. `lc_opt` stays valid until Commit.
        #[no_mangle]
        pub unsafe extern "C" fn $reply(
            token: *const Token, client_buffer: *const u8, least: usize, most: usize, $($parameter: $type,)?
            lc_opt: LcOpt, flags: Flags, nargs: c_uint,
        ) -> *const SrcDesc {
            let (category, destination, nargs) = (AmCategory::$category, $destination, nargs as usize);
            let args = PrepareArgs { category, client_buffer, least, most, destination, lc_opt, flags, nargs };
            // SAFETY: the caller's contract.
            descriptor(unsafe { args.reply(token) })
        }
    )*};
}

prepares! {
    gex_AM_PrepareRequestMedium gex_AM_PrepareReplyMedium Medium () NOWHERE;
    gex_AM_PrepareRequestLong gex_AM_PrepareReplyLong Long (destination: *mut u8) destination;
}

// One function serves all numbers of arguments and has all layers down to the ring inlined.
macro_rules! shared {
    ($($name:ident $class:ident $category:ident;)*) => {$(
        /// # Safety
        /// As [`npam::commit`].
        #[inline(never)]
        unsafe fn $name(
            desc: *const SrcDesc, handler: u8, bytes: usize, destination: *mut u8, flags: Flags, args: &[Arg]
        ) -> c_int {
            let message = CommitArgs {
                class: Class::$class, category: AmCategory::$category, handler, bytes, destination, flags, args
            };
            // SAFETY: the caller's contract.
            match unsafe { npam::commit(desc, &message) } {
                Ok(()) => 0,
                Err(Busy) => NO_OP,
            }
        }
    )*};
}

shared! {
    request_medium Request Medium;
    request_long Request Long;
    reply_medium Reply Medium;
    reply_long Reply Long;
}

macro_rules! commits {
    ($($n:literal ($($a:ident)*);)*) => {$(
        commits!(@medium "gex_AM_CommitRequestMedium", $n request_medium ($($a)*));
        commits!(@medium "gex_AM_CommitReplyMedium", $n reply_medium ($($a)*));
        commits!(@long "gex_AM_CommitRequestLong", $n request_long ($($a)*));
        commits!(@long "gex_AM_CommitReplyLong", $n reply_long ($($a)*));
    )*};
    (@medium $name:literal, $n:literal $shared:ident ($($a:ident)*)) => {const _: () = {
        /// Sends the prepared message.
        ///
        /// # Safety
        /// `desc` is what Prepare returned on this thread.
        #[export_name = concat!($name, $n)]
        pub unsafe extern "C" fn commit(desc: *const SrcDesc, handler: u8, bytes: usize $(, $a: Arg)*) {
            // SAFETY: the caller's contract.
            unsafe { $shared(desc, handler, bytes, NOWHERE, Flags::NONE, &[$($a),*]) };
        }

        /// Sends the prepared message. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        ///
        /// # Safety
        /// `desc` is what Prepare returned on this thread.
        #[export_name = concat!($name, $n, "_v2")]
        pub unsafe extern "C" fn commit_v2(
            desc: *const SrcDesc, handler: u8, bytes: usize, flags: Flags $(, $a: Arg)*
        ) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { $shared(desc, handler, bytes, NOWHERE, flags, &[$($a),*]) }
        }
    };};
    (@long $name:literal, $n:literal $shared:ident ($($a:ident)*)) => {const _: () = {
        /// Sends the prepared message.
        ///
        /// # Safety
        /// `desc` is what Prepare returned on this thread.
        #[export_name = concat!($name, $n)]
        pub unsafe extern "C" fn commit(
            desc: *const SrcDesc, handler: u8, bytes: usize, destination: *mut u8 $(, $a: Arg)*
        ) {
            // SAFETY: the caller's contract.
            unsafe { $shared(desc, handler, bytes, destination, Flags::NONE, &[$($a),*]) };
        }

        /// Sends the prepared message. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        ///
        /// # Safety
        /// `desc` is what Prepare returned on this thread.
        #[export_name = concat!($name, $n, "_v2")]
        pub unsafe extern "C" fn commit_v2(
            desc: *const SrcDesc, handler: u8, bytes: usize, destination: *mut u8, flags: Flags $(, $a: Arg)*
        ) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { $shared(desc, handler, bytes, destination, flags, &[$($a),*]) }
        }
    };};
}

for_each_arity!(commits);

macro_rules! cancels {
    ($($name:ident)*) => {$(
        /// Cancels the prepared message.
        ///
        /// # Safety
        /// `desc` is null or what Prepare returned on this thread.
        #[no_mangle]
        pub unsafe extern "C" fn $name(desc: *const SrcDesc, flags: Flags) -> c_int {
            // SAFETY: the caller's contract.
            match unsafe { desc.as_ref() } {
                Some(desc) if desc.prepared().is_some() => {
                    rules::no_flags(stringify!($name), flags);
                    desc.cancel();
                    0
                }
                _ => {
                    complain(stringify!($name), "the descriptor must be prepared and not committed");
                    ERR_BAD_ARG
                }
            }
        }
    )*};
}

cancels! { gex_AM_CancelRequestMedium gex_AM_CancelRequestLong gex_AM_CancelReplyMedium gex_AM_CancelReplyLong }

/// The message of a descriptor, while it is prepared. Fatal in the debug flavour when it is not.
///
/// # Safety
/// `desc` is null or what Prepare returned on this thread.
unsafe fn described(function: &str, desc: *const SrcDesc) -> Option<Prepared> {
    // SAFETY: the caller's contract.
    let prepared = unsafe { desc.as_ref() }.and_then(SrcDesc::prepared);
    if rules::CHECKED && prepared.is_none() {
        fatal!(
            "{function} was given {}",
            if desc.is_null() {
                "GEX_AM_SRCDESC_NO_OP"
            } else {
                "a descriptor that was committed or cancelled already"
            }
        );
    }
    prepared
}

/// The payload buffer of a prepared message.
///
/// # Safety
/// `desc` is null or what Prepare returned on this thread.
#[no_mangle]
pub unsafe extern "C" fn gex_AM_SrcDescAddr(desc: *const SrcDesc) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe { described("gex_AM_SrcDescAddr", desc) }.map_or(ptr::null_mut(), |p| p.address.cast())
}

/// The largest payload that may be committed.
///
/// # Safety
/// `desc` is null or what Prepare returned on this thread.
#[no_mangle]
pub unsafe extern "C" fn gex_AM_SrcDescSize(desc: *const SrcDesc) -> usize {
    // SAFETY: the caller's contract.
    unsafe { described("gex_AM_SrcDescSize", desc) }.map_or(0, |p| p.bytes)
}
