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

/// Prepares a Medium request.
#[no_mangle]
pub extern "C" fn gex_AM_PrepareRequestMedium(
    tm: TeamHandle,
    rank: Rank,
    client_buffer: *const u8,
    least: usize,
    most: usize,
    lc_opt: LcOpt,
    flags: Flags,
    nargs: c_uint,
) -> *const SrcDesc {
    let args = PrepareArgs {
        category: AmCategory::Medium,
        client_buffer,
        least,
        most,
        destination: NOWHERE,
        lc_opt,
        flags,
        nargs: nargs as usize,
    };
    descriptor(args.request(tm, rank))
}

/// Prepares a Long request.
#[no_mangle]
pub extern "C" fn gex_AM_PrepareRequestLong(
    tm: TeamHandle,
    rank: Rank,
    client_buffer: *const u8,
    least: usize,
    most: usize,
    destination: *mut u8,
    lc_opt: LcOpt,
    flags: Flags,
    nargs: c_uint,
) -> *const SrcDesc {
    let args = PrepareArgs {
        category: AmCategory::Long,
        client_buffer,
        least,
        most,
        destination,
        lc_opt,
        flags,
        nargs: nargs as usize,
    };
    descriptor(args.request(tm, rank))
}

/// Prepares a Medium reply.
///
/// # Safety
/// `token` is the running handler's. `lc_opt` stays valid until Commit.
#[no_mangle]
pub unsafe extern "C" fn gex_AM_PrepareReplyMedium(
    token: *const Token,
    client_buffer: *const u8,
    least: usize,
    most: usize,
    lc_opt: LcOpt,
    flags: Flags,
    nargs: c_uint,
) -> *const SrcDesc {
    let args = PrepareArgs {
        category: AmCategory::Medium,
        client_buffer,
        least,
        most,
        destination: NOWHERE,
        lc_opt,
        flags,
        nargs: nargs as usize,
    };
    // SAFETY: the caller's contract.
    descriptor(unsafe { args.reply(token) })
}

/// Prepares a Long reply.
///
/// # Safety
/// `token` is the running handler's. `lc_opt` stays valid until Commit.
#[no_mangle]
pub unsafe extern "C" fn gex_AM_PrepareReplyLong(
    token: *const Token,
    client_buffer: *const u8,
    least: usize,
    most: usize,
    destination: *mut u8,
    lc_opt: LcOpt,
    flags: Flags,
    nargs: c_uint,
) -> *const SrcDesc {
    let args = PrepareArgs {
        category: AmCategory::Long,
        client_buffer,
        least,
        most,
        destination,
        lc_opt,
        flags,
        nargs: nargs as usize,
    };
    // SAFETY: the caller's contract.
    descriptor(unsafe { args.reply(token) })
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
    ($($rm:ident $rl:ident $pm:ident $pl:ident $rm2:ident $rl2:ident $pm2:ident $pl2:ident ($($a:ident)*);)*) => {$(
        commits!(@medium $rm $rm2 request_medium ($($a)*));
        commits!(@medium $pm $pm2 reply_medium ($($a)*));
        commits!(@long $rl $rl2 request_long ($($a)*));
        commits!(@long $pl $pl2 reply_long ($($a)*));
    )*};
    (@medium $v1:ident $v2:ident $shared:ident ($($a:ident)*)) => {
        /// Sends the prepared message.
        ///
        /// # Safety
        /// `desc` is what Prepare returned on this thread.
        #[no_mangle]
        pub unsafe extern "C" fn $v1(desc: *const SrcDesc, handler: u8, bytes: usize $(, $a: Arg)*) {
            // SAFETY: the caller's contract.
            unsafe { $shared(desc, handler, bytes, NOWHERE, Flags::NONE, &[$($a),*]) };
        }

        /// Sends the prepared message. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        ///
        /// # Safety
        /// `desc` is what Prepare returned on this thread.
        #[no_mangle]
        pub unsafe extern "C" fn $v2(
            desc: *const SrcDesc, handler: u8, bytes: usize, flags: Flags $(, $a: Arg)*
        ) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { $shared(desc, handler, bytes, NOWHERE, flags, &[$($a),*]) }
        }
    };
    (@long $v1:ident $v2:ident $shared:ident ($($a:ident)*)) => {
        /// Sends the prepared message.
        ///
        /// # Safety
        /// `desc` is what Prepare returned on this thread.
        #[no_mangle]
        pub unsafe extern "C" fn $v1(
            desc: *const SrcDesc, handler: u8, bytes: usize, destination: *mut u8 $(, $a: Arg)*
        ) {
            // SAFETY: the caller's contract.
            unsafe { $shared(desc, handler, bytes, destination, Flags::NONE, &[$($a),*]) };
        }

        /// Sends the prepared message. Returns 0, or 1 if IMMEDIATE and nothing was sent.
        ///
        /// # Safety
        /// `desc` is what Prepare returned on this thread.
        #[no_mangle]
        pub unsafe extern "C" fn $v2(
            desc: *const SrcDesc, handler: u8, bytes: usize, destination: *mut u8, flags: Flags $(, $a: Arg)*
        ) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { $shared(desc, handler, bytes, destination, flags, &[$($a),*]) }
        }
    };
}

commits! {
    gex_AM_CommitRequestMedium0 gex_AM_CommitRequestLong0 gex_AM_CommitReplyMedium0 gex_AM_CommitReplyLong0
        gex_AM_CommitRequestMedium0_v2 gex_AM_CommitRequestLong0_v2 gex_AM_CommitReplyMedium0_v2
        gex_AM_CommitReplyLong0_v2 ();
    gex_AM_CommitRequestMedium1 gex_AM_CommitRequestLong1 gex_AM_CommitReplyMedium1 gex_AM_CommitReplyLong1
        gex_AM_CommitRequestMedium1_v2 gex_AM_CommitRequestLong1_v2 gex_AM_CommitReplyMedium1_v2
        gex_AM_CommitReplyLong1_v2 (a0);
    gex_AM_CommitRequestMedium2 gex_AM_CommitRequestLong2 gex_AM_CommitReplyMedium2 gex_AM_CommitReplyLong2
        gex_AM_CommitRequestMedium2_v2 gex_AM_CommitRequestLong2_v2 gex_AM_CommitReplyMedium2_v2
        gex_AM_CommitReplyLong2_v2 (a0 a1);
    gex_AM_CommitRequestMedium3 gex_AM_CommitRequestLong3 gex_AM_CommitReplyMedium3 gex_AM_CommitReplyLong3
        gex_AM_CommitRequestMedium3_v2 gex_AM_CommitRequestLong3_v2 gex_AM_CommitReplyMedium3_v2
        gex_AM_CommitReplyLong3_v2 (a0 a1 a2);
    gex_AM_CommitRequestMedium4 gex_AM_CommitRequestLong4 gex_AM_CommitReplyMedium4 gex_AM_CommitReplyLong4
        gex_AM_CommitRequestMedium4_v2 gex_AM_CommitRequestLong4_v2 gex_AM_CommitReplyMedium4_v2
        gex_AM_CommitReplyLong4_v2 (a0 a1 a2 a3);
    gex_AM_CommitRequestMedium5 gex_AM_CommitRequestLong5 gex_AM_CommitReplyMedium5 gex_AM_CommitReplyLong5
        gex_AM_CommitRequestMedium5_v2 gex_AM_CommitRequestLong5_v2 gex_AM_CommitReplyMedium5_v2
        gex_AM_CommitReplyLong5_v2 (a0 a1 a2 a3 a4);
    gex_AM_CommitRequestMedium6 gex_AM_CommitRequestLong6 gex_AM_CommitReplyMedium6 gex_AM_CommitReplyLong6
        gex_AM_CommitRequestMedium6_v2 gex_AM_CommitRequestLong6_v2 gex_AM_CommitReplyMedium6_v2
        gex_AM_CommitReplyLong6_v2 (a0 a1 a2 a3 a4 a5);
    gex_AM_CommitRequestMedium7 gex_AM_CommitRequestLong7 gex_AM_CommitReplyMedium7 gex_AM_CommitReplyLong7
        gex_AM_CommitRequestMedium7_v2 gex_AM_CommitRequestLong7_v2 gex_AM_CommitReplyMedium7_v2
        gex_AM_CommitReplyLong7_v2 (a0 a1 a2 a3 a4 a5 a6);
    gex_AM_CommitRequestMedium8 gex_AM_CommitRequestLong8 gex_AM_CommitReplyMedium8 gex_AM_CommitReplyLong8
        gex_AM_CommitRequestMedium8_v2 gex_AM_CommitRequestLong8_v2 gex_AM_CommitReplyMedium8_v2
        gex_AM_CommitReplyLong8_v2 (a0 a1 a2 a3 a4 a5 a6 a7);
    gex_AM_CommitRequestMedium9 gex_AM_CommitRequestLong9 gex_AM_CommitReplyMedium9 gex_AM_CommitReplyLong9
        gex_AM_CommitRequestMedium9_v2 gex_AM_CommitRequestLong9_v2 gex_AM_CommitReplyMedium9_v2
        gex_AM_CommitReplyLong9_v2 (a0 a1 a2 a3 a4 a5 a6 a7 a8);
    gex_AM_CommitRequestMedium10 gex_AM_CommitRequestLong10 gex_AM_CommitReplyMedium10 gex_AM_CommitReplyLong10
        gex_AM_CommitRequestMedium10_v2 gex_AM_CommitRequestLong10_v2 gex_AM_CommitReplyMedium10_v2
        gex_AM_CommitReplyLong10_v2 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9);
    gex_AM_CommitRequestMedium11 gex_AM_CommitRequestLong11 gex_AM_CommitReplyMedium11 gex_AM_CommitReplyLong11
        gex_AM_CommitRequestMedium11_v2 gex_AM_CommitRequestLong11_v2 gex_AM_CommitReplyMedium11_v2
        gex_AM_CommitReplyLong11_v2 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10);
    gex_AM_CommitRequestMedium12 gex_AM_CommitRequestLong12 gex_AM_CommitReplyMedium12 gex_AM_CommitReplyLong12
        gex_AM_CommitRequestMedium12_v2 gex_AM_CommitRequestLong12_v2 gex_AM_CommitReplyMedium12_v2
        gex_AM_CommitReplyLong12_v2 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11);
    gex_AM_CommitRequestMedium13 gex_AM_CommitRequestLong13 gex_AM_CommitReplyMedium13 gex_AM_CommitReplyLong13
        gex_AM_CommitRequestMedium13_v2 gex_AM_CommitRequestLong13_v2 gex_AM_CommitReplyMedium13_v2
        gex_AM_CommitReplyLong13_v2 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12);
    gex_AM_CommitRequestMedium14 gex_AM_CommitRequestLong14 gex_AM_CommitReplyMedium14 gex_AM_CommitReplyLong14
        gex_AM_CommitRequestMedium14_v2 gex_AM_CommitRequestLong14_v2 gex_AM_CommitReplyMedium14_v2
        gex_AM_CommitReplyLong14_v2 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13);
    gex_AM_CommitRequestMedium15 gex_AM_CommitRequestLong15 gex_AM_CommitReplyMedium15 gex_AM_CommitReplyLong15
        gex_AM_CommitRequestMedium15_v2 gex_AM_CommitRequestLong15_v2 gex_AM_CommitReplyMedium15_v2
        gex_AM_CommitReplyLong15_v2 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14);
    gex_AM_CommitRequestMedium16 gex_AM_CommitRequestLong16 gex_AM_CommitReplyMedium16 gex_AM_CommitReplyLong16
        gex_AM_CommitRequestMedium16_v2 gex_AM_CommitRequestLong16_v2 gex_AM_CommitReplyMedium16_v2
        gex_AM_CommitReplyLong16_v2 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15);
}

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
