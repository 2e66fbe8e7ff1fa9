//! Active Messages of the client, as opposed to those of the runtime ([`super::internal`]): limits,
//! flags, and records of traced messages.

use super::table::INDEX_BASE;
use super::token::Token;
use super::{inject, max_medium, Arg, Message, MAX_LONG};
use crate::event::Event;
use crate::flags::Flags;
use crate::mk::MemRef;
use crate::progress;
use crate::rules::{self, no_locks_held, LcOpt, AM_FLAGS, CHECKED, LC_GROUP};
use crate::runtime;
use crate::segment::disposition::{self, has_offsets, own_base, peer_base, remote_location};
use crate::thread;
use crate::trace::{
    self,
    recorder::{self, Call},
    EventKind,
};
use crate::types::AmCategory;
use gasnet_conduit::{Busy, Class};

/// Refuses a message beyond the limits, in every flavour: its copy would overrun a buffer.
#[inline(always)]
fn check(m: &Message<'_>) {
    let limit = match m.category {
        AmCategory::Short => 0,
        AmCategory::Medium => max_medium(Some(m.target.rank)),
        AmCategory::Long => MAX_LONG,
    };
    if m.handler < INDEX_BASE || m.bytes > limit {
        refuse(*m, limit);
    }
    if CHECKED && m.bytes > 0 && m.payload.is_null() {
        refuse(*m, limit);
    }
    check_destination(m);
}

/// Refuses a Long to memory that is not in the bound segment of the target, in every flavour.
#[inline(always)]
pub fn check_destination(m: &Message<'_>) {
    if m.category != AmCategory::Long || m.bytes == 0 {
        return;
    }
    rules::no_overlap("AM injection", m.target, m.destination, m.payload, m.bytes);
    let rt = runtime::get();
    let inside = || {
        rt.segment_of(m.target)
            .is_some_and(|s| s.contains(m.destination, m.bytes))
    };
    if !rt.is_own_memory(m.target) && !inside() {
        rt.outside_segment(m.target, m.destination, m.bytes);
    }
}

#[cold]
fn refuse(m: Message<'_>, limit: usize) -> ! {
    let rank = runtime::get().rank;
    if m.handler < INDEX_BASE {
        fatal!(
            "rank {rank}: AM injection: {} is not a client handler index ({INDEX_BASE}..255)",
            m.handler
        );
    }
    if m.bytes > limit {
        fatal!(
            "rank {rank}: AM injection: a {:?} of {} bytes to rank {} exceeds the limit of {limit} \
             (gex_AM_Max{:?}{:?})",
            m.category,
            m.bytes,
            m.target.rank,
            m.class,
            m.category
        );
    }
    fatal!(
        "rank {rank}: AM injection: the address of a payload of {} bytes is null",
        m.bytes
    )
}

/// The message with addresses instead of offsets. A Short has no address, a Medium no remote one.
#[cold]
fn absolute<'a>(message: &Message<'a>, flags: Flags) -> Message<'a> {
    let mut absolute = *message;
    if message.category != AmCategory::Short {
        absolute.payload = message.payload.wrapping_add(own_base(message.source_ep, flags));
    }
    if message.category == AmCategory::Long {
        absolute.destination = message.destination.wrapping_add(peer_base(message.target, flags));
    }
    absolute
}

/// Sends `message`. Waits for room unless `flags` have IMMEDIATE.
#[inline(always)]
pub fn send(message: &Message<'_>, flags: Flags) -> Result<(), Busy> {
    if !Flags::IMMEDIATE.has_all(flags) || message.source_ep != 0 {
        return send_with_flags(*message, flags);
    }
    check(message);
    send_from_host(message, flags)
}

/// Sends a message with a segment disposition, or from an endpoint other than the primordial one.
#[inline(never)]
fn send_with_flags(mut message: Message<'_>, mut flags: Flags) -> Result<(), Busy> {
    if has_offsets(flags) {
        message = absolute(&message, flags);
        // The address must still lie where the flag promised for the offset.
        let promised = if flags.has(Flags::SELF_SEG_OFFSET) {
            Flags::SELF_SEG_BOUND
        } else {
            Flags::NONE
        };
        flags = flags.without(Flags::SEG_OFFSET) | promised;
    }
    rules::only_flags("AM injection", flags, AM_FLAGS);
    if flags.has(Flags::PEER_SEG_OUTSIDE) && message.category == AmCategory::Long {
        message.target = remote_location(message.target, message.destination, message.bytes, flags);
        flags = flags.without(Flags::PEER_SEG_OUTSIDE);
    }
    check(&message);
    if CHECKED {
        disposition::check(
            flags,
            message.source_ep,
            message.payload as usize,
            message.bytes,
            "AM injection",
        );
    }
    let local_ep = disposition::own(message.source_ep, flags);
    let mut bounce = Vec::new();
    if local_ep != 0 && message.bytes > 0 {
        let mem = runtime::get().local_mem(local_ep, message.payload, message.bytes);
        if mem.kind.is_some() {
            // SAFETY: `local_mem` checked that the payload is in the local endpoint's segment.
            message.payload = unsafe { mem.readable(message.bytes, &mut bounce) };
            // The copy does not outlive the call.
            message.lc_opt = std::ptr::null_mut();
        }
    }
    send_from_host(&message, flags)
}

/// Sends a message with absolute addresses, whose payload is in host memory.
#[inline(always)]
fn send_from_host(message: &Message<'_>, flags: Flags) -> Result<(), Busy> {
    let began = trace::clock(trace::TraceCategory::Message);
    if flags.has(Flags::IMMEDIATE) {
        inject::try_send(message).inspect_err(|_| thread::current().recorder.get().refused())?;
        count(message);
        if began != 0 {
            replayable(*message, MemRef::host(message.payload), recorder::IMMEDIATE).write();
        }
        if trace::is_timed(began) {
            record(began, *message);
        }
        return Ok(());
    }
    // Before, so that nothing of the message is kept for this.
    count(message);
    if began != 0 {
        replayable(*message, MemRef::host(message.payload), 0).write();
    }
    inject::send_inline(message);
    if trace::is_timed(began) {
        record(began, *message);
    }
    if message.class == Class::Request {
        if message.target.rank == runtime::get().rank {
            progress::poll_after_loopback();
        } else {
            progress::poll_along();
        }
    }
    Ok(())
}

/// Counts a message that is sent.
#[inline(always)]
pub fn count(m: &Message<'_>) {
    thread::current()
        .recorder
        .get()
        .sends(m.class, m.category, m.target.rank, m.bytes);
}

/// The kind of a message.
fn kind(m: &Message<'_>) -> EventKind {
    match (m.class, m.category) {
        (Class::Request, AmCategory::Short) => EventKind::RequestShort,
        (Class::Request, AmCategory::Medium) => EventKind::RequestMedium,
        (Class::Request, AmCategory::Long) => EventKind::RequestLong,
        (Class::Reply, AmCategory::Short) => EventKind::ReplyShort,
        (Class::Reply, AmCategory::Medium) => EventKind::ReplyMedium,
        (Class::Reply, AmCategory::Long) => EventKind::ReplyLong,
    }
}

/// A message for the recording.
#[derive(Debug)]
pub struct Replayable {
    call: Call,
    contents: Option<Vec<u8>>,
}

impl Replayable {
    /// Adds it to the recording: before it is sent, unless it is IMMEDIATE.
    pub fn write(&self) {
        recorder::write_with(&self.call, self.contents.as_deref());
    }
}

/// Reads a message whose payload is at `from`, for the recording.
#[cold]
pub fn replayable(m: Message<'_>, from: MemRef, flags: u8) -> Replayable {
    let call = Call {
        code: m.handler,
        flags: m.args.len() as u8 | flags,
        ..Call::new(kind(&m)).to(m.target.rank, m.bytes)
    };
    let call = if m.category == AmCategory::Long {
        call.at(runtime::get().offset_of(m.target, m.destination, m.bytes))
    } else {
        call
    };
    // SAFETY: the client's payload, valid until the message was sent.
    let contents = unsafe { from.recorded(m.args, m.bytes) };
    Replayable { call, contents }
}

/// Records a message whose sending began at `began`.
#[cold]
pub fn record(began: u64, m: Message<'_>) {
    trace::record(
        &trace::TraceEvent::new(kind(&m), began)
            .to(m.target.rank, m.bytes)
            .until_now()
            .with_fields(format_args!(" handler={} nargs={}", m.handler, m.args.len()))
            .with_details(format_args!(
                " ep={} dest={:#x} args={}",
                m.target.ep,
                m.destination,
                trace::NumberList(m.args)
            )),
    );
}

/// Writes `GEX_EVENT_INVALID` to the client's local-completion event, before the AM is sent: only a
/// message over the network may be locally complete after the return, and then writes its event
/// (`local_completion`).
///
/// # Safety
/// `lc_opt` is null, a `GEX_EVENT_*` constant, or valid for a write.
pub unsafe fn complete_locally(lc_opt: LcOpt) {
    if lc_opt > LC_GROUP {
        // SAFETY: neither null nor a constant, so valid for a write.
        unsafe { lc_opt.write(Event::INVALID) };
    }
}

/// The token behind a handle. The debug flavour checks that it is that of the running handler.
///
/// # Safety
/// `token` is the running handler's.
#[inline]
pub unsafe fn running<'a>(function: &str, token: *const Token) -> &'a Token {
    if CHECKED && !std::ptr::eq(token, thread::current().token.get()) {
        fatal!(
            "{function}: {token:p} is not the token of the handler that this thread runs; tokens end with their \
            handler"
        );
    }
    // SAFETY: the caller's contract.
    unsafe { &*token }
}

/// The reply to `token`, without payload. Fatal when none is allowed.
///
/// # Safety
/// `token` is the running handler's.
#[inline(always)]
pub unsafe fn reply(token: *const Token, category: AmCategory, handler: u8, args: &[Arg]) -> Message<'_> {
    no_locks_held("gex_AM_Reply");
    // SAFETY: the caller's contract.
    let token = unsafe { running("gex_AM_Reply", token) };
    if token.class == Class::Reply {
        fatal!(
            "rank {}: gex_AM_Reply: a reply handler may not send",
            runtime::get().rank
        );
    }
    if CHECKED && token.replied.get() {
        fatal!(
            "rank {}: gex_AM_Reply: this request was answered already",
            runtime::get().rank
        );
    }
    Message::new(Class::Reply, category, token.source, handler, args).from_endpoint(token.target_ep)
}
