//! Timeouts of unresponsive peers, and the warning about peers that never connected.
#![forbid(unsafe_code)]

use super::Net;
use crate::peers::Connection;
use crate::settings::Settings;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

impl Net {
    /// Nanoseconds for which a peer, silent for `silence` nanoseconds so far, may leave everything
    /// unacknowledged. The connect timeout applies to a peer from which nothing was ever received,
    /// unless another rank at its address has sent something, or it is on this host: there it is
    /// most likely stopped. `reached_addresses` caches the addresses from which any rank has sent.
    pub fn peer_timeout(
        &self,
        connection: &Connection,
        silence: u64,
        reached_addresses: &mut Option<HashSet<IpAddr>>,
    ) -> u64 {
        let Settings {
            timeout,
            connect_timeout,
            ..
        } = self.settings;
        let address = self.address(connection);
        if silence <= self.settings.warn_after.min(connect_timeout)
            || connection.has_received.load(Relaxed)
            || address == self.socket.address.ip()
        {
            return timeout;
        }
        let reached_addresses = reached_addresses.get_or_insert_with(|| {
            let received = self
                .connections()
                .filter(|connection| connection.has_received.load(Relaxed));
            received.map(|connection| self.address(connection)).collect()
        });
        if reached_addresses.contains(&address) {
            timeout
        } else {
            connect_timeout
        }
    }

    fn address(&self, connection: &Connection) -> IpAddr {
        self.peers[connection.rank.index()].address.ip()
    }

    /// The most likely reason why nothing was received from a peer.
    fn likely_obstacle(&self, connection: &Connection) -> &'static str {
        if self.address(connection) == self.socket.address.ip() {
            "a firewall of this host may drop UDP"
        } else {
            "a firewall between the hosts may drop UDP"
        }
    }

    /// Reports a peer as lost when its timeout has expired.
    pub fn check_timeout(&self, connection: &Connection, silence: u64, limit: u64) {
        if silence <= limit {
            return;
        }
        let history = if connection.has_received.load(Relaxed) {
            String::new()
        } else {
            format!(" (never connected): {}", self.likely_obstacle(connection))
        };
        let seconds = silence / 1_000_000_000;
        self.states.lose(
            connection.rank,
            format!("it has not answered for {seconds} seconds{history}. GASNET_REQUESTTIMEOUT_MAX sets this limit."),
        );
    }

    /// Warns that a peer has never connected. Called once per process.
    pub fn warn_unresponsive(&self, connection: &Connection, silence: u64, limit: u64) {
        let end = match limit {
            u64::MAX => "The job waits without a limit".to_owned(),
            limit => format!("The job ends after {} seconds", limit / 1_000_000_000),
        };
        gasnet_conduit::warn(format_args!(
            "rank {} ({}) has not answered for {} seconds (never connected). If it is not stopped or busy, {}. {end} \
             (GASNET_REQUESTTIMEOUT_MAX).",
            connection.rank,
            self.peers[connection.rank.index()].address,
            silence / 1_000_000_000,
            self.likely_obstacle(connection)
        ));
    }
}
