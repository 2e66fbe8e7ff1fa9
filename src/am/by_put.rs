//! Longs whose payload the conduit puts, with their packet as the notification.
//!
//! The payload goes from the client's memory to its destination without a copy, and the handler
//! runs when the packet arrives, which is after the payload. Local completion is that of the put:
//! it may be later than the return, and then it is the client's event, part of its group, or waited
//! for.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::inject::{head, packet_front};
use super::{kind, AmCategory, Message, IN_PLACE};
use crate::event::{Op, OpKind};
use crate::mk::MemRef;
use crate::rules::LC_GROUP;
use crate::runtime::Runtime;
use crate::stall::Reason;
use crate::{thread, wait};
use gasnet_conduit::{
    Busy, Class, Completion, LocalCompletion, LocalMemory, PollScope, Put, PutNotify, RemoteMemory, RemoteSegment,
    SourceUse,
};

/// Payloads above this are put; `usize::MAX` if the conduit does not notify.
static ABOVE: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Sets the limit of a conduit that notifies, at initialisation.
pub fn set_limit(bytes: usize) {
    ABOVE.store(bytes, Ordering::Relaxed);
}

/// What the conduit puts the payload of `m` to, if it is to do that.
#[inline]
pub fn target(rt: &Runtime, m: &Message<'_>) -> Option<(&'static dyn PutNotify, RemoteSegment)> {
    if m.category != AmCategory::Long || m.bytes <= ABOVE.load(Ordering::Relaxed) {
        return None;
    }
    look_up(rt, m)
}

#[cold]
fn look_up(rt: &Runtime, m: &Message<'_>) -> Option<(&'static dyn PutNotify, RemoteSegment)> {
    let notify = rt.network().put_notify.filter(|_| !rt.is_neighbour(m.target.rank))?;
    Some((notify, rt.network_segment(m.target)?))
}

/// The operation that counts local completion, and how. A client's event gets an operation of its
/// own. So does a wait, because the thread may be inside another one: a handler that replies runs
/// while a request waits for room, and would wait for the payload of that request, too.
fn counted(m: &Message<'_>) -> (&'static Op, OpKind) {
    let thread = thread::current();
    match m.lc_opt {
        LC_GROUP => (thread.implicit(), OpKind::Message),
        lc_opt if lc_opt > LC_GROUP => (thread.free.borrow_mut().take(), OpKind::Message),
        // Null, NOW, and DEFER, which AMs do not have.
        _ => (thread.free.borrow_mut().take(), OpKind::MessageNow),
    }
}

/// Sends `m`, whose payload goes to `segment`. Waits for room unless `immediate`.
pub fn send(
    rt: &Runtime,
    (notify, segment): (&dyn PutNotify, RemoteSegment),
    m: &Message<'_>,
    immediate: bool,
) -> Result<(), Busy> {
    let (op, kind) = counted(m);
    op.begin_kind(kind);
    let put = Put {
        to: RemoteMemory {
            peer: m.target.rank,
            segment,
            address: m.destination,
        },
        from: LocalMemory {
            address: m.payload as usize,
            segment: rt.registered_segment(MemRef::host(m.payload), m.bytes),
            device: None,
        },
        bytes: m.bytes,
        source: match kind {
            OpKind::MessageNow => SourceUse::Now,
            _ => SourceUse::Later,
        },
        cookie: op.cookie(kind),
    };
    let (front, length) = packet_front(m, &head(m, kind::LONG, IN_PLACE));
    let packet = [&front.0[..length]];
    let scope = match m.class {
        Class::Request => PollScope::All,
        Class::Reply => PollScope::Replies,
    };
    let attempt = || notify.put_and_notify(&put, m.class, &packet);
    let local = match attempt() {
        Ok(local) => local,
        Err(Busy) if immediate => {
            op.complete_part(kind, Completion::Source);
            finish(m, op);
            return Err(Busy);
        }
        Err(Busy) => wait::until_some(scope, Reason::Room(m.class, m.target.rank), || attempt().ok()),
    };
    if local == LocalCompletion::AtReturn {
        op.complete_part(kind, Completion::Source);
    } else if kind == OpKind::MessageNow && !op.source_is_free() {
        wait::until_some(scope, Reason::Source(m.target.rank), || {
            op.source_is_free().then_some(())
        });
    }
    finish(m, op);
    Ok(())
}

/// Hands the operation of a client's event to the client, unless it is complete: the event is
/// invalid already. That of a wait is complete.
fn finish(m: &Message<'_>, op: &'static Op) {
    if m.lc_opt == LC_GROUP {
        return;
    }
    let event = op.event();
    if event.is_done() {
        event.consume(&mut thread::current().free.borrow_mut());
    } else {
        // SAFETY: neither null nor a constant, so the client's, valid for a write.
        unsafe { m.lc_opt.write(event) };
    }
}
