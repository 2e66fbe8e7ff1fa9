//! Negotiated-payload Active Messages (GASNet-EX 0.19, "Negotiated-payload AM APIs").
//!
//! A thread owns one descriptor for requests and one for replies (Prepare/Commit pairs do not nest,
//! but a reply handler may run while a request is being committed). A library buffer is one of the
//! sender's payload blocks when the peer is a neighbour, so that Commit sends it by reference, and
//! a send buffer of the conduit's when it is not ([`reserved`]). Where none is left, it is memory
//! of the descriptor. Small payloads are copied into the ring at Commit; a block that turns out to
//! hold one is free again at once.
//!
//! A message between Prepare and Commit may wait for other threads of its process, so nothing may
//! wait for it. Prepare therefore waits for no block or buffer, and Commit needs none but its own:
//! it waits for room in the ring or the network or, with memory of the descriptor, for what
//! [`inject`] waits for. The target alone frees either.

use std::ptr;

use super::prepared::{Prepared, SrcDesc};
use super::table::INDEX_BASE;
use super::token::Token;
use super::{canary, client, inject, poll_scope, reserved, Arg, Message, MAX_ARGS, MAX_PREPARED, OVERHEAD};
use crate::flags::Flags;
use crate::mk::MemRef;
use crate::rules::{self, not_in_handler, Lc, LcOpt, AM_FLAGS};
use crate::segment::disposition::{narrow, own, peer_base, reaching};
use crate::shm::comm::MAX_INLINE;
use crate::shm::layout::{MAX_MEDIUM, MIN_RING};
use crate::team::{self, TeamHandle};
use crate::thread::{self, Thread};
use crate::trace::recorder;
use crate::types::{AmCategory, EpIndex, Location, Rank};
use crate::{progress, runtime, trace};
use gasnet_conduit::{Busy, Class};

/// Payloads up to this are copied into the record at Commit rather than sent by reference: with any
/// number of arguments, the record is not longer than [`MAX_INLINE`]. By reference, the two calls
/// take longer than the receiver, which then polls the line that the sender writes.
const COPIED: usize = MAX_INLINE - OVERHEAD;
/// The copy never needs a block.
const _: () = assert!(MAX_INLINE <= MIN_RING / 4);

/// Arguments of Prepare.
#[derive(Clone, Copy, Debug)]
pub struct PrepareArgs {
    /// Medium or Long.
    pub category: AmCategory,
    /// The client's buffer, or null.
    pub client_buffer: *const u8,
    /// Least payload.
    pub least: usize,
    /// Most payload.
    pub most: usize,
    /// Destination of a Long, if known.
    pub destination: *mut u8,
    /// Local completion option.
    pub lc_opt: LcOpt,
    /// `GEX_FLAG_*`.
    pub flags: Flags,
    /// Arguments to come.
    pub nargs: usize,
}

impl PrepareArgs {
    /// Prepares a request in the descriptor of this thread.
    #[inline(always)]
    pub fn request(&self, tm: TeamHandle, rank: Rank) -> Result<&'static SrcDesc, Busy> {
        not_in_handler("gex_AM_PrepareRequest");
        let (source_ep, target) = team::resolve(tm, rank);
        let wanted = self.resolve(Class::Request, target, source_ep, ptr::null());
        // Polls only when it has to wait for a buffer. Commit polls.
        prepare(&thread::current().request_desc, &wanted)
    }

    /// Prepares the reply to a request.
    ///
    /// # Safety
    /// `token` is the running handler's.
    pub unsafe fn reply(&self, token: *const Token) -> Result<&'static SrcDesc, Busy> {
        // SAFETY: the caller's contract. The message only carries target and source; `reply` checks
        // that one is allowed.
        let message = unsafe { client::reply(token, self.category, INDEX_BASE, &[]) };
        let wanted = self.resolve(Class::Reply, message.target, message.source_ep, token);
        prepare(&thread::current().reply_desc, &wanted)
    }

    #[inline(always)]
    fn resolve(&self, class: Class, target: Location, source_ep: EpIndex, token: *const Token) -> Preparation<'_> {
        Preparation {
            args: self,
            class,
            target: if self.category == AmCategory::Long {
                reaching(target, self.flags)
            } else {
                target
            },
            source_ep,
            local_ep: own(source_ep, self.flags),
            destination_base: peer_base(target, self.flags),
            token,
        }
    }
}

/// A message to prepare.
#[derive(Clone, Copy, Debug)]
struct Preparation<'a> {
    args: &'a PrepareArgs,
    class: Class,
    target: Location,
    source_ep: EpIndex,
    /// Endpoint whose segment may hold the client's buffer ([`crate::segment::disposition::own`]).
    local_ep: EpIndex,
    /// Base of destinations.
    destination_base: usize,
    /// The request that a reply answers, or null.
    token: *const Token,
}

/// Prepares a message in `desc`. Fails if IMMEDIATE and there is no room.
#[inline(always)]
fn prepare(desc: &'static SrcDesc, wanted: &Preparation<'_>) -> Result<&'static SrcDesc, Busy> {
    let args = wanted.args;
    let most_allowed = limit(args.category, wanted.target, !args.client_buffer.is_null());
    if args.flags.has(Flags::SELF_SEG_OFFSET)
        || desc.prepared().is_some()
        || args.least > args.most
        || args.least > most_allowed
        || args.nargs > MAX_ARGS
    {
        refuse_prepare(desc, *wanted);
    }
    if rules::CHECKED {
        check(wanted);
    }
    desc.prepare(wanted, most_allowed)?;
    Ok(desc)
}

#[cold]
fn refuse_prepare(desc: &SrcDesc, wanted: Preparation<'_>) -> ! {
    let (rank, args) = (runtime::get().rank, wanted.args);
    if args.flags.has(Flags::SELF_SEG_OFFSET) {
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
        args.least,
        args.most,
        args.nargs,
        limit(args.category, wanted.target, !args.client_buffer.is_null()),
        wanted.class,
        args.category
    )
}

/// The checks of the debug flavour.
fn check(wanted: &Preparation<'_>) {
    let (rank, args) = (runtime::get().rank, wanted.args);
    let (name, lc) = match wanted.class {
        Class::Request => ("gex_AM_PrepareRequest", Lc::Request),
        Class::Reply => ("gex_AM_PrepareReply", Lc::Reply),
    };
    rules::only_flags(name, args.flags, AM_FLAGS | Flags::AM_PREPARE_LEAST);
    if args.client_buffer.is_null() && args.flags.has(Flags::SELF_SEG) {
        fatal!("rank {rank}: {name}: GEX_FLAG_SELF_SEG_* need a client_buf, which is NULL");
    }
    if !args.client_buffer.is_null() {
        rules::local_completion(name, args.lc_opt, lc);
    } else if !args.lc_opt.is_null() {
        fatal!("rank {rank}: {name}: lc_opt must be NULL when client_buf is");
    }
}

/// Arguments of Commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitArgs<'a> {
    /// Request or reply.
    pub class: Class,
    /// Medium or Long.
    pub category: AmCategory,
    /// Handler index at the target.
    pub handler: u8,
    /// Length of the payload.
    pub bytes: usize,
    /// Destination of a Long, as the client names it.
    pub destination: *mut u8,
    /// `GEX_FLAG_*`.
    pub flags: Flags,
    /// Arguments.
    pub args: &'a [Arg],
}

impl CommitArgs<'_> {
    /// Whether this is what was prepared, for a destination that Prepare named or left open.
    #[inline(always)]
    fn fits(&self, p: &Prepared) -> bool {
        self.shape_fits(p) && (p.destination.is_null() || p.destination == self.destination)
    }

    #[inline(always)]
    fn shape_fits(&self, p: &Prepared) -> bool {
        p.class == self.class
            && p.category == self.category
            && p.nargs == self.args.len()
            && self.bytes <= p.bytes
            && self.handler >= INDEX_BASE
    }
}

/// Sends a prepared message. Fails if IMMEDIATE and nothing was sent; the message stays prepared
/// then.
///
/// # Safety
/// `desc` is null or what Prepare returned on this thread, and its `lc_opt` and token are still
/// valid.
#[inline(always)]
pub unsafe fn commit(desc: *const SrcDesc, call: &CommitArgs<'_>) -> Result<(), Busy> {
    // SAFETY: null or what Prepare returned on this thread (contract).
    let prepared = unsafe { desc.as_ref() }.and_then(|desc| Some((desc, desc.prepared()?)));
    let Some((desc, p)) = prepared else {
        refuse_descriptor(desc.is_null())
    };
    if !call.fits(&p) {
        refuse_commit(*call, desc);
    }
    if cfg!(feature = "debug-checks") && p.library_buffer && canary::is_untouched(&p, call.bytes) {
        untouched(*call);
    }
    let destination = call.destination.wrapping_add(p.destination_base);
    let message = Message::new(call.class, call.category, p.target, call.handler, call.args)
        .from_endpoint(p.source_ep)
        .with_payload(p.address, call.bytes)
        .with_destination(destination)
        .with_local_completion(p.lc_opt);
    // SAFETY: the local-completion option of Prepare, still valid by contract.
    unsafe { client::complete_locally(p.lc_opt) };
    let began = trace::clock(trace::TraceCategory::Message);
    let immediate = call.flags.has(Flags::IMMEDIATE);
    let sent = if began == 0 {
        desc.commit(&p, message, immediate)
    } else {
        commit_recorded(desc, p, message, immediate)
    };
    sent.inspect_err(|_| thread::current().recorder.get().refused())?;
    client::count(&message);
    if trace::is_timed(began) {
        client::record(began, message);
    }
    if call.class == Class::Reply {
        // SAFETY: the token of the running handler, which Prepare checked.
        unsafe { (*p.token).replied.set(true) };
    }
    if call.class == Class::Request && !call.flags.has(Flags::IMMEDIATE) {
        progress::poll_along();
    }
    Ok(())
}

#[cold]
fn refuse_descriptor(null: bool) -> ! {
    let rank = runtime::get().rank;
    if null {
        fatal!("rank {rank}: gex_AM_Commit was given GEX_AM_SRCDESC_NO_OP");
    }
    fatal!("rank {rank}: gex_AM_Commit: this descriptor was committed or cancelled already")
}

/// Reads again what is prepared: as an argument it would lie in memory in every Commit.
#[cold]
fn refuse_commit(call: CommitArgs<'_>, desc: &SrcDesc) -> ! {
    let rank = runtime::get().rank;
    let Some(p) = desc.prepared() else {
        refuse_descriptor(false)
    };
    if call.handler < INDEX_BASE {
        fatal!(
            "rank {rank}: gex_AM_Commit{:?}{:?}{}: {} is not a client handler index ({INDEX_BASE}..255)",
            call.class,
            call.category,
            call.args.len(),
            call.handler
        );
    }
    if !call.shape_fits(&p) {
        fatal!(
            "rank {rank}: gex_AM_Commit{:?}{:?}{} of {} bytes for handler {} does not fit what was prepared: \
             {:?}{:?} with {} arguments and at most {} bytes",
            call.class,
            call.category,
            call.args.len(),
            call.bytes,
            call.handler,
            p.class,
            p.category,
            p.nargs,
            p.bytes
        );
    }
    fatal!(
        "rank {rank}: gex_AM_Commit: dest_addr {:?} differs from that at Prepare, {:?}",
        call.destination,
        p.destination
    )
}

#[cold]
fn untouched(call: CommitArgs<'_>) -> ! {
    fatal!(
        "rank {}: gex_AM_Commit{:?}{:?}{} of {} bytes: the payload was not written, the buffer of \
         gex_AM_SrcDescAddr still holds the pattern of GASNET_SD_INITVAL. Write it before the Commit; if it looks \
         like this by chance, raise GASNET_SD_INITLEN, or set GASNET_SD_INIT=0.",
        runtime::get().rank,
        call.class,
        call.category,
        call.args.len(),
        call.bytes
    )
}

/// Largest payload of `category` to `target` that Prepare promises, from a client's buffer or in
/// the library's.
#[inline(always)]
fn limit(category: AmCategory, target: Location, client_buffer: bool) -> usize {
    let most = match category {
        AmCategory::Long => super::MAX_LONG,
        _ => super::max_medium(Some(target.rank)),
    };
    if client_buffer {
        most
    } else {
        most.min(MAX_PREPARED)
    }
}

/// The end of a thread cancels what it has prepared.
pub fn abandon(thread: &Thread) {
    thread.request_desc.cancel();
    thread.reply_desc.cancel();
}

impl SrcDesc {
    /// Prepares at most `limit` bytes. Fails, with no effect, if it would wait and the call is
    /// IMMEDIATE.
    #[inline(always)]
    fn prepare(&self, wanted: &Preparation<'_>, limit: usize) -> Result<(), Busy> {
        let args = wanted.args;
        let bytes = args.most.min(limit);
        let buffer = if args.client_buffer.is_null() {
            let buffer = self.library_buffer(wanted, bytes)?;
            if cfg!(feature = "debug-checks") {
                canary::write(buffer.address, buffer.bytes);
            }
            buffer
        } else {
            PayloadBuffer::plain(args.client_buffer.cast_mut(), bytes)
        };
        self.set(&Prepared {
            target: wanted.target,
            source_ep: wanted.source_ep,
            class: wanted.class,
            category: args.category,
            nargs: args.nargs,
            token: wanted.token,
            address: buffer.address,
            bytes: buffer.bytes,
            lc_opt: if args.client_buffer.is_null() {
                ptr::null_mut()
            } else {
                args.lc_opt
            },
            library_buffer: args.client_buffer.is_null(),
            block: buffer.block,
            in_send_buffer: buffer.in_send_buffer,
            device_ep: (!args.client_buffer.is_null() && runtime::get().may_be_on_device(wanted.local_ep))
                .then_some(wanted.local_ep),
            destination: args.destination,
            destination_base: wanted.destination_base,
        });
        Ok(())
    }

    #[inline(always)]
    fn library_buffer(&self, wanted: &Preparation<'_>, bytes: usize) -> Result<PayloadBuffer, Busy> {
        let (rt, args) = (runtime::get(), wanted.args);
        if !rt.is_neighbour(wanted.target.rank) {
            if let Some(buffer) = send_buffer(wanted, bytes) {
                return Ok(buffer);
            }
        } else if bytes > COPIED && args.category == AmCategory::Medium {
            let (pool, target) = (rt.comm.pool(wanted.class), rt.nbrhd_index(wanted.target.rank));
            let mut block = pool.take(target, bytes);
            if block.is_none() && pool.in_transit(target) {
                // The target frees blocks when it polls.
                if args.flags.has(Flags::IMMEDIATE) {
                    return Err(Busy);
                }
                progress::poll(poll_scope(wanted.class));
                block = pool.take(target, bytes);
            }
            // Without a block, Commit copies.
            if let Some(block) = block {
                pool.set_prepared(block, true);
                let address = pool.blocks().payload(block);
                return Ok(PayloadBuffer {
                    block: Some(block),
                    ..PayloadBuffer::plain(address, bytes.min(MAX_MEDIUM))
                });
            }
        }
        let mut buffer = self.buffer.borrow_mut();
        if buffer.len() * size_of::<u128>() < bytes.max(1) {
            grow(&mut buffer, bytes);
        }
        Ok(PayloadBuffer::plain(buffer.as_mut_ptr().cast(), bytes))
    }

    /// Sends `message`, which was prepared as `p`. With `immediate` it may refuse, and everything
    /// stays prepared.
    #[inline(always)]
    fn commit(&self, p: &Prepared, message: Message<'_>, immediate: bool) -> Result<(), Busy> {
        let mut message = Message {
            target: narrow(p.target, message.destination, message.bytes),
            ..message
        };
        client::check_destination(&message);
        if p.in_send_buffer {
            commit_reserved(message, immediate)?;
            self.clear();
            return Ok(());
        }
        if let Some(block) = p.block {
            // From here on it waits for the target alone.
            runtime::get().comm.pool(p.class).set_prepared(block, false);
            message.block = (message.bytes > COPIED).then_some(block);
        }
        if p.device_ep.is_some() || immediate {
            commit_rarer(message, p.block, p.device_ep, immediate)?;
        } else {
            // Sending may run handlers that prepare replies, never requests on this thread: the
            // state stays ours.
            inject::send_inline(&message);
        }
        self.clear();
        if let (Some(block), None) = (p.block, message.block) {
            runtime::get().comm.pool(p.class).blocks().free(block);
        }
        Ok(())
    }

    /// Forgets what was prepared and frees its buffer.
    pub fn cancel(&self) {
        if let Some(p) = self.prepared() {
            let rt = runtime::get();
            if let Some(block) = p.block {
                rt.comm.pool(p.class).blocks().free(block);
            }
            if let (true, Some(buffers)) = (p.in_send_buffer, rt.abilities.send_buffers) {
                reserved::release(buffers, p.address, p.nargs);
            }
        }
        self.clear();
    }
}

/// Sends `message`, which was prepared as `p`, and records it. A send buffer is gone afterwards.
#[cold]
#[inline(never)]
fn commit_recorded(desc: &SrcDesc, p: Prepared, message: Message<'_>, immediate: bool) -> Result<(), Busy> {
    let from = match p.device_ep {
        Some(ep) if message.bytes > 0 => runtime::get().local_mem(ep, message.payload, message.bytes),
        _ => MemRef::host(message.payload),
    };
    if !immediate {
        client::replayable(message, from, 0).write();
        return desc.commit(&p, message, false);
    }
    let replayable = client::replayable(message, from, recorder::IMMEDIATE);
    desc.commit(&p, message, true).inspect(|()| replayable.write())
}

/// The buffer in which a payload is prepared.
#[derive(Clone, Copy, Debug)]
struct PayloadBuffer {
    address: *mut u8,
    bytes: usize,
    block: Option<u16>,
    in_send_buffer: bool,
}

impl PayloadBuffer {
    /// Memory of the client's or the descriptor's.
    fn plain(address: *mut u8, bytes: usize) -> Self {
        Self {
            address,
            bytes,
            block: None,
            in_send_buffer: false,
        }
    }
}

/// A send buffer of the conduit's, if it has one. Polls once for it, unless IMMEDIATE.
#[inline(never)]
fn send_buffer(wanted: &Preparation<'_>, bytes: usize) -> Option<PayloadBuffer> {
    let (buffers, args) = (runtime::get().abilities.send_buffers?, wanted.args);
    let message = reserved::Wanted {
        peer: wanted.target.rank,
        class: wanted.class,
        nargs: args.nargs,
        bytes,
        least: args.least,
    };
    let reserve = || reserved::reserve(buffers, message);
    let mut found = reserve();
    if found.is_none() && !args.flags.has(Flags::IMMEDIATE) {
        progress::poll(poll_scope(wanted.class));
        found = reserve();
    }
    let (address, bytes) = found?;
    Some(PayloadBuffer {
        in_send_buffer: true,
        ..PayloadBuffer::plain(address, bytes)
    })
}

/// Sends what lies in a send buffer.
#[inline(never)]
fn commit_reserved(message: Message<'_>, immediate: bool) -> Result<(), Busy> {
    let rt = runtime::get();
    match rt.abilities.send_buffers {
        Some(buffers) => reserved::send(rt, buffers, &message, immediate),
        None => unreachable!("a buffer of a conduit that has none"),
    }
}

/// Sends when the payload lies on a device, or nothing may be waited for. `block` is the prepared
/// one.
#[inline(never)]
fn commit_rarer(
    mut message: Message<'_>,
    block: Option<u16>,
    device_ep: Option<EpIndex>,
    immediate: bool,
) -> Result<(), Busy> {
    let mut bounce = Vec::new();
    if let Some(ep) = device_ep.filter(|_| message.bytes > 0) {
        let mem = runtime::get().local_mem(ep, message.payload, message.bytes);
        // SAFETY: memory of the client's, which `local_mem` knows.
        message.payload = unsafe { mem.readable(message.bytes, &mut bounce) };
        // The copy does not outlive the call.
        message.lc_opt = ptr::null_mut();
    }
    if !immediate {
        inject::send(&message);
    } else if let Err(Busy) = inject::try_send(&message) {
        if let Some(block) = block {
            runtime::get().comm.pool(message.class).set_prepared(block, true);
        }
        return Err(Busy);
    }
    Ok(())
}

#[cold]
fn grow(buffer: &mut Vec<u128>, bytes: usize) {
    buffer.resize(bytes.div_ceil(size_of::<u128>()).max(1), 0);
}
