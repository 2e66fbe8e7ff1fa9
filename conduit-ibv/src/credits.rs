//! Credits of peers. A peer that computes does not return receive buffers, so [`credits`] bound the
//! requests under way to it. One whose credits or requests are impossible is lost.
//!
//! [`credits`]: gasnet_conduit_util::credits
#![forbid(unsafe_code)]

pub mod returns;

use crate::peers::{Connection, Peers};
use crate::wire;
use gasnet_conduit::{Busy, Class, JobRank};

/// A peer that may be sent to, and what the message costs and returns, until it is sent or not.
pub struct SendReservation<'a> {
    pub connection: &'a Connection,
    pub class: Class,
    /// Credits that the message returns.
    pub credits: u32,
}

impl<'a> SendReservation<'a> {
    /// Pays for a packet to a peer that is connected.
    #[inline]
    pub fn take(peers: &Peers, connection: &'a Connection, class: Class) -> Result<Self, Busy> {
        if class == Class::Request && !peers.credits.take(&connection.credits, 1) {
            return Err(Busy);
        }
        let credits = connection.credits.take_owed(wire::MOST_CREDITS);
        Ok(Self {
            connection,
            class,
            credits,
        })
    }

    /// The packet was not sent.
    #[cold]
    pub fn cancel(&self, peers: &Peers) {
        let _ = peers.give_back(self.connection, u32::from(self.class == Class::Request));
        self.connection.credits.owe(self.credits);
        peers
            .credits
            .note_owed(self.connection.peer(), &self.connection.credits);
    }
}

impl Peers {
    /// Adds credits that a peer returned, or that of a request that was not sent. False: there were
    /// fewer requests, and the peer is lost.
    #[inline]
    pub fn give_back(&self, connection: &Connection, credits: u32) -> bool {
        let given = self.credits.give_back(&connection.credits, credits);
        given.map_err(|why| self.states.lose(connection.peer(), why)).is_ok()
    }

    /// A request of the peer is to wait in the memory of this process until
    /// [`PeerCredits::release`]. False: no credit can have paid for it, and the peer is lost.
    ///
    /// [`PeerCredits::release`]: gasnet_conduit_util::credits::PeerCredits::release
    #[cold]
    pub fn hold(&self, connection: &Connection) -> bool {
        let is_paid = self.credits.hold(&connection.credits, 1);
        if !is_paid {
            let why = format!("it sent a request beyond its {} credits", self.credits.window());
            self.states.lose(connection.peer(), why);
        }
        is_paid
    }

    /// Whether a poll should call [`Peers::take_owing`] and [`PeerStates::report`].
    ///
    /// [`PeerStates::report`]: gasnet_conduit_util::peer_states::PeerStates::report
    #[inline]
    pub fn has_work(&self) -> bool {
        self.states.has_losses() || self.credits.has_owing()
    }

    /// The peers that wait for a return. One that cannot be served now is to be noted again.
    pub fn take_owing(&self) -> Vec<JobRank> {
        self.credits
            .take_owing(|rank| self.connection(rank).map(|connection| &connection.credits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::connected;
    use gasnet_conduit_util::credits::Credits;

    fn take(peers: &Peers, connection: &Connection) -> bool {
        SendReservation::take(peers, connection, Class::Request).is_ok()
    }

    #[test]
    fn credits_come_back() {
        let peers = connected(Credits::new(2, 1));
        let connection = peers.connection(JobRank(2)).unwrap();
        assert!(take(&peers, connection) && take(&peers, connection) && !take(&peers, connection));
        assert!(peers.give_back(connection, 1));
        assert!(take(&peers, connection) && !take(&peers, connection));
        assert!(peers.connection(JobRank(0)).is_none());
    }

    #[test]
    fn more_credits_than_were_paid_lose_their_peer() {
        let peers = connected(Credits::new(2, 1).limited_to(3));
        let [one, two] = [1, 2].map(|rank| peers.connection(JobRank(rank)).unwrap());
        assert!(take(&peers, one) && take(&peers, two));
        assert!(peers.give_back(one, 1) && !peers.states.has_losses());
        assert!(!peers.give_back(one, 1) && !peers.give_back(two, u32::from(u16::MAX)));
        let lost: Vec<JobRank> = peers.states.take_losses().into_iter().map(|(peer, _)| peer).collect();
        assert_eq!(lost, [JobRank(1), JobRank(2)]);
        // Credits that were not paid change nothing.
        assert!(take(&peers, two) && !take(&peers, two) && take(&peers, one) && !take(&peers, one));
    }

    #[test]
    fn requests_beyond_the_credits_lose_their_peer() {
        let peers = connected(Credits::new(2, 1));
        let connection = peers.connection(JobRank(2)).unwrap();
        assert!(peers.hold(connection) && peers.hold(connection));
        connection.credits.release(1);
        assert!(peers.hold(connection) && !peers.states.has_losses());
        assert!(!peers.hold(connection) && !peers.hold(connection));
        let why = "it sent a request beyond its 2 credits".to_owned();
        assert_eq!(peers.states.take_losses(), [(JobRank(2), why)]);
    }

    #[test]
    fn credits_for_all_peers() {
        let peers = connected(Credits::new(2, 1).limited_to(3));
        let [one, two] = [1, 2].map(|rank| peers.connection(JobRank(rank)).unwrap());
        assert!(take(&peers, one) && take(&peers, one) && !take(&peers, one));
        assert!(take(&peers, two) && !take(&peers, two));
        assert!(peers.give_back(one, 2));
        assert!(take(&peers, two) && !take(&peers, two) && take(&peers, one) && !take(&peers, one));
    }

    #[test]
    fn more_credits_than_are_kept_are_returned_at_once() {
        let peers = connected(Credits::new(200, 100));
        let connection = peers.connection(JobRank(2)).unwrap();
        connection.credits.owe(100);
        peers.credits.note_owed(JobRank(2), &connection.credits);
        assert!(!peers.has_work());
        connection.credits.owe(1);
        peers.credits.note_owed(JobRank(2), &connection.credits);
        peers.credits.note_owed(JobRank(2), &connection.credits);
        assert!(peers.has_work() && !peers.has_work());
        assert_eq!(peers.take_owing(), [JobRank(2)]);
        assert_eq!([63, 63, 63].map(|most| connection.credits.take_owed(most)), [63, 38, 0]);
    }
}
