//! A request has at most one reply message, which other networks need: its buffer is set aside when
//! the request is sent. A second one is a defect.
#![forbid(unsafe_code)]

use gasnet_conduit::{Class, JobRank, Upcalls};
use std::cell::Cell;

thread_local! {
    /// The source of the request that this thread delivers, and whether it has its reply.
    static REQUEST: Cell<Option<(JobRank, bool)>> = const { Cell::new(None) };
}

/// Delivers a packet.
pub fn deliver(upcalls: &mut dyn Upcalls, (source, class): (JobRank, Class), packet: &mut [u8]) {
    // Inside a request only replies are delivered, which change nothing here.
    if class == Class::Reply {
        return upcalls.packet(source, class, packet);
    }
    REQUEST.set(Some((source, false)));
    upcalls.packet(source, class, packet);
    REQUEST.set(None);
}

/// Notes a message that was taken.
pub fn note(peer: JobRank, class: Class) {
    let request = REQUEST
        .get()
        .filter(|(source, _)| class == Class::Reply && *source == peer);
    let Some((source, has_reply)) = request else { return };
    assert!(!has_reply, "defect: a second reply to one request of rank {peer}");
    REQUEST.set(Some((source, true)));
}
