//! The return of credits in messages of their own.

use super::MOST_CREDITS;
use crate::ffi::Errno;
use crate::link::Link;
use crate::send::Messages;
use crate::wire::{Kind, HEADER};
use gasnet_conduit::{Busy, JobRank};
use gasnet_conduit_util::peer_states::PeerState;

impl Messages {
    /// Returns credits to a peer in a message of their own.
    pub fn return_credits(&self, link: &Link, peer: JobRank) {
        if link.peers.states.state(peer) != PeerState::Present {
            return;
        }
        let credits = link.peers.credits(peer).take_owed(MOST_CREDITS) as u16;
        let mut message = [0; HEADER];
        link.header(Kind::Credits, credits).encode(0, &mut message);
        if let Err(why) = self.send_header(link, &message, peer) {
            link.peers.credits(peer).owe(u32::from(credits));
            if link.refused(peer, "returning credits", why) == Busy && why == Errno::AGAIN {
                link.peers.note_owed(peer);
            }
        }
    }
}
