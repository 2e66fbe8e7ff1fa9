//! Longs whose payload the conduit puts, with their packet as the notification.
//!
//! The payload goes from the client's memory, or from a send buffer in which the client prepared
//! it, to its destination without a copy, and the handler runs when the packet arrives, which is
//! after the payload.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::encode::{head, packet_front};
use super::{kind, local_completion, AmCategory, Message, IN_PLACE};
use crate::mk::MemRef;
use crate::runtime::Runtime;
use gasnet_conduit::{
    Busy, Cookie, LocalCompletion, LocalMemory, LocalSegment, Put, PutNotify, RemoteMemory, RemoteSegment, SendBuffer,
    SourceUse,
};

/// Payloads above this are put; `usize::MAX` if the conduit does not notify.
static ABOVE: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Sets the limit of a conduit that notifies, at initialisation.
pub fn set_limit(bytes: usize) {
    ABOVE.store(bytes, Ordering::Relaxed);
}

/// The ability, and the target's segment.
pub type Target = (&'static dyn PutNotify, RemoteSegment);

/// The target to which the conduit puts the payload of `m`, if it is to do that.
#[inline]
pub fn target(rt: &Runtime, m: &Message<'_>) -> Option<Target> {
    if m.category != AmCategory::Long || m.bytes <= ABOVE.load(Ordering::Relaxed) {
        return None;
    }
    look_up(rt, m)
}

#[cold]
fn look_up(rt: &Runtime, m: &Message<'_>) -> Option<Target> {
    let notify = rt.abilities.put_notify.filter(|_| !rt.is_neighbour(m.target.rank))?;
    Some((notify, rt.network_segment(m.target)?))
}

/// Sends `m`, whose payload is the client's. Waits for room unless `immediate`.
pub fn send(rt: &Runtime, (notify, remote): Target, m: &Message<'_>, immediate: bool) -> Result<(), Busy> {
    let own = rt.registered_segment(MemRef::host(m.payload), m.bytes);
    let (front, length) = packet_front(m, &head(m, kind::LONG, IN_PLACE));
    local_completion::send(m, immediate, |source, cookie| {
        let put = Put {
            source,
            cookie,
            ..payload_put(m, remote, own)
        };
        notify.put_and_notify(&put, None, m.class, &[&front.0[..length]])
    })
}

/// Sends `m`, whose payload lies in a send buffer, which stays reserved if that is refused. Waits
/// for room unless `immediate`.
pub fn send_reserved(
    (notify, remote): Target,
    buffer: SendBuffer,
    m: &Message<'_>,
    immediate: bool,
) -> Result<(), Busy> {
    let put = payload_put(m, remote, LocalSegment::NONE);
    let (front, length) = packet_front(m, &head(m, kind::LONG, IN_PLACE));
    local_completion::until_taken(m, immediate, || {
        notify.put_and_notify(&put, Some(buffer), m.class, &[&front.0[..length]])
    })
    .map(|local| debug_assert_eq!(local, LocalCompletion::AtReturn))
}

/// The put of a payload, of which nothing is reported.
fn payload_put(m: &Message<'_>, remote: RemoteSegment, own: LocalSegment) -> Put {
    Put {
        to: RemoteMemory {
            peer: m.target.rank,
            segment: remote,
            address: m.destination,
        },
        from: LocalMemory {
            address: m.payload as usize,
            segment: own,
            device: None,
        },
        bytes: m.bytes,
        source: SourceUse::Later,
        cookie: Cookie::new(0),
    }
}
