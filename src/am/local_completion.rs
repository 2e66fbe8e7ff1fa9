//! Local completion of a message whose payload the conduit reads from the client's memory, perhaps
//! after the return. It is then the client's event, part of its group, or waited for.

use super::{poll_scope, Message};
use crate::event::{Op, OpKind};
use crate::rules::LC_GROUP;
use crate::stall::Reason;
use crate::{thread, wait};
use gasnet_conduit::{Busy, Completion, Cookie, LocalCompletion, SourceUse};

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

/// Hands `m` to the conduit by `attempt`, and completes it locally as its client wants. Waits for
/// room unless `immediate`; once there is room, waits for a source that must be free at return.
pub fn send(
    m: &Message<'_>,
    immediate: bool,
    attempt: impl Fn(SourceUse, Cookie) -> Result<LocalCompletion, Busy>,
) -> Result<(), Busy> {
    let (op, kind) = counted(m);
    op.begin_kind(kind, m.target.rank);
    let source = match kind {
        OpKind::MessageNow => SourceUse::Now,
        _ => SourceUse::Later,
    };
    let taken = until_taken(m, immediate, || attempt(source, op.cookie(kind)));
    match taken {
        Ok(LocalCompletion::Later) if kind == OpKind::MessageNow && !op.source_is_free() => {
            wait::until_some(poll_scope(m.class), Reason::Source(m.target.rank), || {
                op.source_is_free().then_some(())
            });
        }
        Ok(LocalCompletion::Later) => {}
        Ok(LocalCompletion::AtReturn) | Err(Busy) => op.complete_part(kind, Completion::Source),
    }
    finish(m, op);
    taken.map(|_| ())
}

/// Whether the client lets `m` use its source after the return.
pub fn may_come_later(m: &Message<'_>) -> bool {
    m.lc_opt >= LC_GROUP
}

/// Completes `m`, of which [`may_come_later`], when [`complete`] is called. `start` passes that on.
pub fn later(m: &Message<'_>, start: impl FnOnce(&'static Op)) {
    let (op, kind) = counted(m);
    op.begin_kind(kind, m.target.rank);
    start(op);
    finish(m, op);
}

/// The source of a message is free.
pub fn complete(op: &Op) {
    op.complete_part(OpKind::Message, Completion::Source);
}

/// Tries until the conduit takes `m`, or once if `immediate`.
pub fn until_taken<T>(m: &Message<'_>, immediate: bool, attempt: impl Fn() -> Result<T, Busy>) -> Result<T, Busy> {
    let attempt = || thread::in_conduit(&attempt);
    match attempt() {
        Err(Busy) if !immediate => {
            let reason = Reason::Room(m.class, m.target.rank);
            Ok(wait::until_some(poll_scope(m.class), reason, || attempt().ok()))
        }
        result => result,
    }
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
