//! Mediums whose payload the conduit reads from the client's memory: large ones to another
//! neighbourhood, over a conduit that offers it.
//!
//! Only those of clients: the runtime reuses its own payloads at return.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::encode::{head, packet_front};
use super::{kind, local_completion, payload_offset, AmCategory, Message, IN_PLACE};
use crate::mk::MemRef;
use crate::runtime::Runtime;
use gasnet_conduit::{Busy, Gather, GatheredPacket, LocalMemory};

use super::table::INDEX_BASE;

/// Payloads from this on are read from the client's memory; `usize::MAX` if the conduit always
/// copies.
static FROM: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Sets the limit of a conduit that gathers, at initialisation.
pub fn set_limit(bytes: usize) {
    FROM.store(bytes, Ordering::Relaxed);
}

/// The ability, if the conduit is to use it for `m`, a message to another neighbourhood.
#[inline]
pub fn wanted(rt: &Runtime, m: &Message<'_>) -> Option<&'static dyn Gather> {
    let is_large = m.category == AmCategory::Medium && m.bytes >= FROM.load(Ordering::Relaxed);
    rt.abilities.gather.filter(|_| is_large && m.handler >= INDEX_BASE)
}

/// Sends `m` now or not at all. If the client waits for local completion, so does this.
pub fn try_send(rt: &Runtime, gather: &dyn Gather, m: &Message<'_>) -> Result<(), Busy> {
    let (front, _) = packet_front(m, &head(m, kind::MEDIUM, IN_PLACE));
    let payload = LocalMemory {
        address: m.payload as usize,
        segment: rt.registered_segment(MemRef::host(m.payload), m.bytes),
        device: None,
    };
    local_completion::send(m, true, |source, cookie| {
        gather.send_gathered(&GatheredPacket {
            peer: m.target.rank,
            class: m.class,
            front: &front.0[..payload_offset(m.args.len())],
            payload,
            bytes: m.bytes,
            source,
            cookie,
        })
    })
}
