//! Negotiated-payload Active Messages. One macro makes the 136 commit functions.

use std::ffi::{c_int, c_uint, c_void};

use super::am::complete_locally;
use super::complain;
use crate::am::canary;
use crate::am::client;
use crate::am::npam::{limit, PrepareArgs};
use crate::am::prepared::{Prepared, SrcDesc};
use crate::am::table::INDEX_BASE;
use crate::am::token::Token;
use crate::am::{Arg, Message, MAX_ARGS};
use crate::flags::{Flags, ERR_BAD_ARG};
use crate::rules::{self, not_in_handler, Lc, LcOpt, AM_FLAGS};
use crate::segment::disposition::{own, peer_base, reaching};
use crate::team::TeamHandle;
use crate::types::Location;
use crate::types::{AmCategory, Rank};
use crate::{progress, runtime, team, thread, trace};
use gasnet_conduit::Class;

/// Prepares a message in `desc` and returns it, or null if IMMEDIATE and there is no room.
#[inline(always)]
fn prepare(desc: &'static SrcDesc, wanted: &PrepareArgs, flags: Flags) -> *const SrcDesc {
    let most_allowed = limit(wanted.category, wanted.target, !wanted.client_buffer.is_null());
    if flags.has(Flags::SELF_SEG_OFFSET)
        || desc.prepared().is_some()
        || wanted.least > wanted.most
        || wanted.least > most_allowed
        || wanted.nargs > MAX_ARGS
    {
        refuse_prepare(desc, *wanted, flags);
    }
    if rules::CHECKED {
        check(wanted, flags);
    }
    match desc.prepare(wanted, most_allowed) {
        Ok(()) => desc,
        Err(_) => std::ptr::null(),
    }
}

#[cold]
fn refuse_prepare(desc: &SrcDesc, wanted: PrepareArgs, flags: Flags) -> ! {
    let rank = runtime::get().rank();
    if flags.has(Flags::SELF_SEG_OFFSET) {
        fatal!("rank {rank}: gex_AM_Prepare: GEX_FLAG_SELF_SEG_OFFSET is not allowed here; pass an address");
    }
    if desc.prepared().is_some() {
        fatal!(
            "rank {rank}: gex_AM_Prepare: the last message that this thread prepared was neither committed nor \
             cancelled"
        );
    }
    fatal!(
        "rank {rank}: gex_AM_Prepare: least_payload {}, most_payload {} and {} arguments: least may not \
         exceed most nor \
         {} (gex_AM_Max{:?}{:?}), and {MAX_ARGS} arguments are the most",
        wanted.least,
        wanted.most,
        wanted.nargs,
        limit(wanted.category, wanted.target, !wanted.client_buffer.is_null()),
        wanted.class,
        wanted.category
    )
}

/// The checks of the debug flavour.
fn check(wanted: &PrepareArgs, flags: Flags) {
    let rank = runtime::get().rank();
    let (name, lc) = match wanted.class {
        Class::Request => ("gex_AM_PrepareRequest", Lc::Request),
        Class::Reply => ("gex_AM_PrepareReply", Lc::Reply),
    };
    rules::only_flags(name, flags, AM_FLAGS | Flags::AM_PREPARE_LEAST);
    if wanted.client_buffer.is_null() && flags.has(Flags::SELF_SEG) {
        fatal!("rank {rank}: {name}: GEX_FLAG_SELF_SEG_* need a client_buf, which is NULL");
    }
    if !wanted.client_buffer.is_null() {
        rules::local_completion(name, wanted.lc_opt, lc);
    } else if !wanted.lc_opt.is_null() {
        fatal!("rank {rank}: {name}: lc_opt must be NULL when client_buf is");
    }
}

/// The arguments that the four Prepare functions share.
struct Terms {
    category: AmCategory,
    client_buffer: *const u8,
    least: usize,
    most: usize,
    destination: *mut u8,
    lc_opt: LcOpt,
    flags: Flags,
    nargs: c_uint,
}

impl Terms {
    #[inline(always)]
    fn wanted(&self, class: Class, target: Location, source_ep: u16, token: *const Token) -> PrepareArgs {
        PrepareArgs {
            target: if self.category == AmCategory::Long {
                reaching(target, self.flags)
            } else {
                target
            },
            source_ep,
            local_ep: own(source_ep, self.flags),
            class,
            category: self.category,
            client_buffer: self.client_buffer,
            least: self.least,
            most: self.most,
            destination: self.destination,
            destination_base: peer_base(target, self.flags),
            lc_opt: self.lc_opt,
            nargs: self.nargs as usize,
            token,
            immediate: self.flags.has(Flags::IMMEDIATE),
        }
    }

    #[inline(always)]
    fn request(&self, tm: TeamHandle, rank: Rank) -> *const SrcDesc {
        not_in_handler("gex_AM_PrepareRequest");
        let (source_ep, target) = team::resolve(tm, rank);
        let wanted = self.wanted(Class::Request, target, source_ep, std::ptr::null());
        // Polls only when it has to wait for a buffer. Commit polls.
        prepare(&thread::current().request_desc, &wanted, self.flags)
    }

    /// # Safety
    /// `token` is the running handler's.
    unsafe fn reply(&self, token: *const Token) -> *const SrcDesc {
        // SAFETY: the caller's contract. The message only carries target and source; `reply` checks
        // that one is allowed.
        let message = unsafe { client::reply(token, self.category, INDEX_BASE, &[]) };
        prepare(
            &thread::current().reply_desc,
            &self.wanted(Class::Reply, message.target, message.source_ep, token),
            self.flags,
        )
    }
}

const NOWHERE: *mut u8 = std::ptr::null_mut();

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
    let category = AmCategory::Medium;
    Terms {
        category,
        client_buffer,
        least,
        most,
        destination: NOWHERE,
        lc_opt,
        flags,
        nargs,
    }
    .request(tm, rank)
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
    Terms {
        category: AmCategory::Long,
        client_buffer,
        least,
        most,
        destination,
        lc_opt,
        flags,
        nargs,
    }
    .request(tm, rank)
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
    let terms = Terms {
        category: AmCategory::Medium,
        client_buffer,
        least,
        most,
        destination: NOWHERE,
        lc_opt,
        flags,
        nargs,
    };
    // SAFETY: the caller's contract.
    unsafe { terms.reply(token) }
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
    let terms = Terms {
        category: AmCategory::Long,
        client_buffer,
        least,
        most,
        destination,
        lc_opt,
        flags,
        nargs,
    };
    // SAFETY: the caller's contract.
    unsafe { terms.reply(token) }
}

/// Commits. Returns 1 if IMMEDIATE and nothing was sent; the message stays prepared then.
///
/// # Safety
/// `desc` is null or what Prepare returned on this thread, and its `lc_opt` and token are still
/// valid.
#[inline(always)]
unsafe fn commit(
    desc: *const SrcDesc,
    class: Class,
    category: AmCategory,
    handler: u8,
    bytes: usize,
    named: *mut u8,
    flags: Flags,
    args: &[Arg],
) -> c_int {
    // SAFETY: null or what Prepare returned on this thread (contract).
    let prepared = unsafe { desc.as_ref() }.and_then(|desc| Some((desc, desc.prepared()?)));
    let Some((desc, p)) = prepared else {
        refuse_descriptor(desc.is_null())
    };
    if p.class != class
        || p.category != category
        || p.nargs != args.len()
        || bytes > p.bytes
        || handler < INDEX_BASE
        || (!p.destination.is_null() && p.destination != named)
    {
        refuse_commit((class, category, args.len()), handler, bytes, named, p);
    }
    if cfg!(feature = "debug-checks") && p.library_buffer && canary::is_untouched(&p, bytes) {
        untouched((class, category, args.len()), bytes);
    }
    let destination = named.wrapping_add(p.destination_base);
    // SAFETY: the local-completion option of Prepare, still valid by contract.
    unsafe { complete_locally(p.lc_opt) };
    let began = trace::clock(trace::TraceCategory::Message);
    let refused = desc.commit(&p, handler, bytes, destination, args, flags.has(Flags::IMMEDIATE));
    if refused.is_err() {
        return 1;
    }
    if began != 0 {
        let message = Message::new(class, category, p.source_ep, p.target, handler, args);
        client::record(
            began,
            message
                .with_payload(p.address, bytes)
                .with_destination(destination, p.lc_opt),
        );
    }
    if class == Class::Reply {
        // SAFETY: the token of the running handler, which Prepare checked.
        unsafe { (*p.token).replied.set(true) };
    }
    if class == Class::Request && !flags.has(Flags::IMMEDIATE) {
        progress::poll_after_request();
    }
    0
}

#[cold]
fn refuse_descriptor(null: bool) -> ! {
    let rank = runtime::get().rank();
    if null {
        fatal!("rank {rank}: gex_AM_Commit was given GEX_AM_SRCDESC_NO_OP");
    }
    fatal!("rank {rank}: gex_AM_Commit: this descriptor was committed or cancelled already")
}

#[cold]
fn refuse_commit(
    (class, category, nargs): (Class, AmCategory, usize),
    handler: u8,
    bytes: usize,
    destination: *mut u8,
    p: Prepared,
) -> ! {
    let rank = runtime::get().rank();
    if p.class != class || p.category != category || p.nargs != nargs || bytes > p.bytes || handler < INDEX_BASE {
        fatal!(
            "rank {rank}: gex_AM_Commit{class:?}{category:?}{nargs} of {bytes} bytes for handler {handler} \
             does not fit what was prepared: \
             {:?}{:?} with {} arguments and at most {} bytes",
            p.class,
            p.category,
            p.nargs,
            p.bytes
        );
    }
    fatal!(
        "rank {rank}: gex_AM_Commit: dest_addr {destination:?} differs from that at Prepare, {:?}",
        p.destination
    )
}

#[cold]
fn untouched((class, category, nargs): (Class, AmCategory, usize), bytes: usize) -> ! {
    fatal!(
        "rank {}: gex_AM_Commit{class:?}{category:?}{nargs} of {bytes} bytes: the payload was not written, \
         the buffer of gex_AM_SrcDescAddr still \
         holds the pattern of GASNET_SD_INITVAL. Write it before the Commit; if it looks like this by chance, \
         raise GASNET_SD_INITLEN, or set \
         GASNET_SD_INIT=0.",
        runtime::get().rank()
    )
}

// One function serves all numbers of arguments and has all layers down to the ring inlined.
macro_rules! shared {
    ($($name:ident $class:ident $category:ident;)*) => {$(
        /// # Safety
        /// As [`commit`].
        #[inline(never)]
        unsafe fn $name(
            desc: *const SrcDesc, handler: u8, bytes: usize, destination: *mut u8, flags: Flags, args: &[Arg]
        ) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { commit(desc, Class::$class, AmCategory::$category, handler, bytes, destination, flags, args) }
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

/// The payload buffer of a prepared message.
///
/// # Safety
/// `desc` is null or what Prepare returned on this thread.
#[no_mangle]
pub unsafe extern "C" fn gex_AM_SrcDescAddr(desc: *const SrcDesc) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe { desc.as_ref() }
        .and_then(SrcDesc::prepared)
        .map_or(std::ptr::null_mut(), |p| p.address.cast())
}

/// The largest payload that may be committed.
///
/// # Safety
/// `desc` is null or what Prepare returned on this thread.
#[no_mangle]
pub unsafe extern "C" fn gex_AM_SrcDescSize(desc: *const SrcDesc) -> usize {
    // SAFETY: the caller's contract.
    unsafe { desc.as_ref() }
        .and_then(SrcDesc::prepared)
        .map_or(0, |p| p.bytes)
}
