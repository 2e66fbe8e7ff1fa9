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
    ($($n:literal ($($a:ident)*);)*) => {$(const _: () = {
        /// Short request.
        #[export_name = concat!("gasnet_AMRequestShort", $n)]
        pub extern "C" fn short_request(node: Rank, handler: u8 $(, $a: Arg)*) -> c_int {
            let team = team(concat!("gasnet_AMRequestShort", $n));
            request_short(team, node, handler, Flags::NONE, &[$($a),*])
        }

        /// Medium request.
        #[export_name = concat!("gasnet_AMRequestMedium", $n)]
        pub extern "C" fn medium_request(
            node: Rank, handler: u8, source: *const u8, bytes: usize $(, $a: Arg)*
        ) -> c_int {
            let team = team(concat!("gasnet_AMRequestMedium", $n));
            let payload = Medium { source, bytes };
            request_medium(team, node, handler, payload, LC_NOW, Flags::NONE, &[$($a),*])
        }

        /// Long request.
        #[export_name = concat!("gasnet_AMRequestLong", $n)]
        pub extern "C" fn long_request(
            node: Rank, handler: u8, source: *const u8, bytes: usize, dest: *mut u8 $(, $a: Arg)*
        ) -> c_int {
            let team = team(concat!("gasnet_AMRequestLong", $n));
            let payload = Long { source, bytes, destination: dest };
            request_long(team, node, handler, payload, LC_NOW, Flags::NONE, &[$($a),*])
        }

        /// Long request whose source must stay until the reply. Here it may be reused at return.
        #[export_name = concat!("gasnet_AMRequestLongAsync", $n)]
        pub extern "C" fn long_request_async(
            node: Rank, handler: u8, source: *const u8, bytes: usize, dest: *mut u8 $(, $a: Arg)*
        ) -> c_int {
            long_request(node, handler, source, bytes, dest $(, $a)*)
        }

        /// Short reply.
        ///
        /// # Safety
        /// `token` is the running handler's.
        #[export_name = concat!("gasnet_AMReplyShort", $n)]
        pub unsafe extern "C" fn short_reply(token: *const Token, handler: u8 $(, $a: Arg)*) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { reply_short(token, handler, Flags::NONE, &[$($a),*]) }
        }

        /// Medium reply.
        ///
        /// # Safety
        /// `token` is the running handler's; `source` has `bytes` bytes.
        #[export_name = concat!("gasnet_AMReplyMedium", $n)]
        pub unsafe extern "C" fn medium_reply(
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
        #[export_name = concat!("gasnet_AMReplyLong", $n)]
        pub unsafe extern "C" fn long_reply(
            token: *const Token, handler: u8, source: *const u8, bytes: usize, dest: *mut u8 $(, $a: Arg)*
        ) -> c_int {
            let payload = Long { source, bytes, destination: dest };
            // SAFETY: the caller's contract.
            unsafe { reply_long(token, handler, payload, LC_NOW, Flags::NONE, &[$($a),*]) }
        }
    };)*};
}

for_each_arity!(functions);

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
