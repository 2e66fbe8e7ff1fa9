//! A request has at most one reply message, which other networks need: its buffer is set aside when
//! the request is sent. A second one is a defect, unless no memory is registered: then a large
//! payload of a Long reply can only travel in several packets.
#![forbid(unsafe_code)]

use crate::init::Net;
use gasnet_conduit::{Class, JobRank, Upcalls};
use gasnet_sys::lock;
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

impl Net {
    /// Notes a message that was taken.
    pub fn note_reply(&self, peer: JobRank, class: Class) {
        let request = REQUEST
            .get()
            .filter(|(source, _)| class == Class::Reply && *source == peer);
        let Some((source, has_reply)) = request else { return };
        let may_repeat = lock(&self.keys).is_empty();
        assert!(
            !has_reply || may_repeat,
            "defect: a second reply to one request of rank {peer}"
        );
        REQUEST.set(Some((source, true)));
    }
}
