//! The return of credits in messages of their own.
#![forbid(unsafe_code)]

use crate::eager_rdma::Report;
use crate::send::message::ROOM;
use crate::send::Messages;
use crate::wire::{self, Kind};
use gasnet_conduit::{Class, JobRank};
use gasnet_conduit_util::record::Record;

impl Messages {
    /// Returns credits to a peer, and reports on rings, in a message of their own.
    pub fn return_credits(&self, peer: JobRank) {
        let Ok(Some(connection)) = self.reach(peer) else {
            return;
        };
        let credits = connection.credits.take_owed(wire::MOST_CREDITS);
        let report = connection.rings.report();
        let encoded: [u8; Report::BYTES] = report.encode();
        let mut room = ROOM;
        let message = self.message(Class::Reply, &[&encoded], &mut room);
        let word = wire::encode(Kind::Note, self.fabric.rank, credits);
        let sent = message.and_then(|message| self.fabric.transmit(connection, message, word));
        if sent.is_err() {
            connection.credits.owe(credits);
            self.fabric.peers.credits.note(peer, &connection.credits);
        } else {
            connection.rings.note_reported(report.taken);
            self.fabric.peers.credits.note_owed(peer, &connection.credits);
        }
    }
}
