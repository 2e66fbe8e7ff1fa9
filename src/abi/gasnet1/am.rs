//! GASNet-1 Active Messages.

use std::ffi::c_int;

use super::team;
use crate::abi::am::{
    reply_long, reply_medium, reply_short, request_long, request_medium, request_short, Long, Medium,
};
use crate::am::token::Token;
use crate::am::{lub_medium, Arg, MAX_ARGS, MAX_LONG};
use crate::flags::{Flags, OK};
use crate::rules::LC_NOW;
use crate::types::Rank;
use gasnet_conduit::JobRank;

macro_rules! functions {
    ($($rs:ident $rm:ident $rl:ident $ra:ident $ps:ident $pm:ident $pl:ident ($($a:ident)*);)*) => {$(
        /// Short request.
        #[no_mangle]
        pub extern "C" fn $rs(node: Rank, handler: u8 $(, $a: Arg)*) -> c_int {
            request_short(team(stringify!($rs)), node, handler, Flags::NONE, &[$($a),*])
        }

        /// Medium request.
        #[no_mangle]
        pub extern "C" fn $rm(node: Rank, handler: u8, source: *const u8, bytes: usize $(, $a: Arg)*) -> c_int {
            let payload = Medium { source, bytes };
            request_medium(team(stringify!($rm)), node, handler, payload, LC_NOW, Flags::NONE, &[$($a),*])
        }

        /// Long request.
        #[no_mangle]
        pub extern "C" fn $rl(
            node: Rank, handler: u8, source: *const u8, bytes: usize, dest: *mut u8 $(, $a: Arg)*
        ) -> c_int {
            let payload = Long { source, bytes, destination: dest };
            request_long(team(stringify!($rl)), node, handler, payload, LC_NOW, Flags::NONE, &[$($a),*])
        }

        /// Long request whose source must stay until the reply. Here it may be reused at return.
        #[no_mangle]
        pub extern "C" fn $ra(
            node: Rank, handler: u8, source: *const u8, bytes: usize, dest: *mut u8 $(, $a: Arg)*
        ) -> c_int {
            $rl(node, handler, source, bytes, dest $(, $a)*)
        }

        /// Short reply.
        ///
        /// # Safety
        /// `token` is the running handler's.
        #[no_mangle]
        pub unsafe extern "C" fn $ps(token: *const Token, handler: u8 $(, $a: Arg)*) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { reply_short(token, handler, Flags::NONE, &[$($a),*]) }
        }

        /// Medium reply.
        ///
        /// # Safety
        /// `token` is the running handler's; `source` has `bytes` bytes.
        #[no_mangle]
        pub unsafe extern "C" fn $pm(
            token: *const Token, handler: u8, source: *const u8, bytes: usize $(, $a: Arg)*
        ) -> c_int {
            let payload = Medium { source, bytes };
            // SAFETY: the caller's contract.
            unsafe { reply_medium(token, handler, payload, LC_NOW, Flags::NONE, &[$($a),*]) }
        }

        /// Long reply.
        ///
        /// # Safety
        /// `token` is the running handler's; `source` has `bytes` bytes.
        #[no_mangle]
        pub unsafe extern "C" fn $pl(
            token: *const Token, handler: u8, source: *const u8, bytes: usize, dest: *mut u8 $(, $a: Arg)*
        ) -> c_int {
            let payload = Long { source, bytes, destination: dest };
            // SAFETY: the caller's contract.
            unsafe { reply_long(token, handler, payload, LC_NOW, Flags::NONE, &[$($a),*]) }
        }
    )*};
}

functions! {
    gasnet_AMRequestShort0 gasnet_AMRequestMedium0 gasnet_AMRequestLong0 gasnet_AMRequestLongAsync0 gasnet_AMReplyShort0
        gasnet_AMReplyMedium0 gasnet_AMReplyLong0 ();
    gasnet_AMRequestShort1 gasnet_AMRequestMedium1 gasnet_AMRequestLong1 gasnet_AMRequestLongAsync1 gasnet_AMReplyShort1
        gasnet_AMReplyMedium1 gasnet_AMReplyLong1 (a0);
    gasnet_AMRequestShort2 gasnet_AMRequestMedium2 gasnet_AMRequestLong2 gasnet_AMRequestLongAsync2 gasnet_AMReplyShort2
        gasnet_AMReplyMedium2 gasnet_AMReplyLong2 (a0 a1);
    gasnet_AMRequestShort3 gasnet_AMRequestMedium3 gasnet_AMRequestLong3 gasnet_AMRequestLongAsync3 gasnet_AMReplyShort3
        gasnet_AMReplyMedium3 gasnet_AMReplyLong3 (a0 a1 a2);
    gasnet_AMRequestShort4 gasnet_AMRequestMedium4 gasnet_AMRequestLong4 gasnet_AMRequestLongAsync4 gasnet_AMReplyShort4
        gasnet_AMReplyMedium4 gasnet_AMReplyLong4 (a0 a1 a2 a3);
    gasnet_AMRequestShort5 gasnet_AMRequestMedium5 gasnet_AMRequestLong5 gasnet_AMRequestLongAsync5 gasnet_AMReplyShort5
        gasnet_AMReplyMedium5 gasnet_AMReplyLong5 (a0 a1 a2 a3 a4);
    gasnet_AMRequestShort6 gasnet_AMRequestMedium6 gasnet_AMRequestLong6 gasnet_AMRequestLongAsync6 gasnet_AMReplyShort6
        gasnet_AMReplyMedium6 gasnet_AMReplyLong6 (a0 a1 a2 a3 a4 a5);
    gasnet_AMRequestShort7 gasnet_AMRequestMedium7 gasnet_AMRequestLong7 gasnet_AMRequestLongAsync7 gasnet_AMReplyShort7
        gasnet_AMReplyMedium7 gasnet_AMReplyLong7 (a0 a1 a2 a3 a4 a5 a6);
    gasnet_AMRequestShort8 gasnet_AMRequestMedium8 gasnet_AMRequestLong8 gasnet_AMRequestLongAsync8 gasnet_AMReplyShort8
        gasnet_AMReplyMedium8 gasnet_AMReplyLong8 (a0 a1 a2 a3 a4 a5 a6 a7);
    gasnet_AMRequestShort9 gasnet_AMRequestMedium9 gasnet_AMRequestLong9 gasnet_AMRequestLongAsync9 gasnet_AMReplyShort9
        gasnet_AMReplyMedium9 gasnet_AMReplyLong9 (a0 a1 a2 a3 a4 a5 a6 a7 a8);
    gasnet_AMRequestShort10 gasnet_AMRequestMedium10 gasnet_AMRequestLong10 gasnet_AMRequestLongAsync10
        gasnet_AMReplyShort10 gasnet_AMReplyMedium10 gasnet_AMReplyLong10 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9);
    gasnet_AMRequestShort11 gasnet_AMRequestMedium11 gasnet_AMRequestLong11 gasnet_AMRequestLongAsync11
        gasnet_AMReplyShort11 gasnet_AMReplyMedium11 gasnet_AMReplyLong11 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10);
    gasnet_AMRequestShort12 gasnet_AMRequestMedium12 gasnet_AMRequestLong12 gasnet_AMRequestLongAsync12
        gasnet_AMReplyShort12 gasnet_AMReplyMedium12 gasnet_AMReplyLong12 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11);
    gasnet_AMRequestShort13 gasnet_AMRequestMedium13 gasnet_AMRequestLong13 gasnet_AMRequestLongAsync13
        gasnet_AMReplyShort13 gasnet_AMReplyMedium13 gasnet_AMReplyLong13 (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12);
    gasnet_AMRequestShort14 gasnet_AMRequestMedium14 gasnet_AMRequestLong14 gasnet_AMRequestLongAsync14
        gasnet_AMReplyShort14 gasnet_AMReplyMedium14 gasnet_AMReplyLong14
        (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13);
    gasnet_AMRequestShort15 gasnet_AMRequestMedium15 gasnet_AMRequestLong15 gasnet_AMRequestLongAsync15
        gasnet_AMReplyShort15 gasnet_AMReplyMedium15 gasnet_AMReplyLong15
        (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14);
    gasnet_AMRequestShort16 gasnet_AMRequestMedium16 gasnet_AMRequestLong16 gasnet_AMRequestLongAsync16
        gasnet_AMReplyShort16 gasnet_AMReplyMedium16 gasnet_AMReplyLong16
        (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15);
}

/// The largest number of arguments.
#[no_mangle]
pub extern "C" fn gasnet_AMMaxArgs() -> usize {
    MAX_ARGS
}

/// The largest Medium to any rank.
#[no_mangle]
pub extern "C" fn gasnet_AMMaxMedium() -> usize {
    lub_medium()
}

/// The largest Long request to any rank.
#[no_mangle]
pub extern "C" fn gasnet_AMMaxLongRequest() -> usize {
    MAX_LONG
}

/// The largest Long reply to any rank.
#[no_mangle]
pub extern "C" fn gasnet_AMMaxLongReply() -> usize {
    MAX_LONG
}

/// The rank that sent the running handler's message.
///
/// # Safety
/// `token` is the running handler's; `source` is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gasnet_AMGetMsgSource(token: *const Token, source: *mut JobRank) -> c_int {
    // SAFETY: the caller's contract.
    let rank = unsafe { &*token }.source.rank;
    // SAFETY: the caller's contract.
    unsafe { crate::abi::system::store(source, rank) };
    OK
}
