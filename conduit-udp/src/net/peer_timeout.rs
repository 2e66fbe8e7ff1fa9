//! Peers that answer nothing: how long they may, and what is said of those that were never heard.
#![forbid(unsafe_code)]

use super::Net;
use crate::peer_table::Connection;
use crate::variables::Settings;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

impl Net {
    /// How long a peer may leave everything unanswered that is silent since `silence` nanoseconds: less than others where nobody was ever heard at its address,
    /// unless that is this host, where it is most likely stopped. The addresses are put into `heard_addresses` when they are wanted for the first time.
    pub fn peer_timeout(&self, connection: &Connection, silence: u64, heard_addresses: &mut Option<HashSet<IpAddr>>) -> u64 {
        let Settings {
            timeout,
            connect_timeout,
            ..
        } = self.settings;
        let address = self.address(connection);
        if silence <= self.settings.warn_after.min(connect_timeout)
            || connection.was_heard.load(Relaxed)
            || address == self.socket.address.ip()
        {
            return timeout;
        }
        let heard_addresses = heard_addresses.get_or_insert_with(|| {
            let heard = self.connections().filter(|connection| connection.was_heard.load(Relaxed));
            heard.map(|connection| self.address(connection)).collect()
        });
        if heard_addresses.contains(&address) {
            timeout
        } else {
            connect_timeout
        }
    }

    fn address(&self, connection: &Connection) -> IpAddr {
        self.peers[connection.rank as usize].address.ip()
    }

    /// What may keep back the word of a peer that was never heard.
    fn likely_obstacle(&self, connection: &Connection) -> &'static str {
        if self.address(connection) == self.socket.address.ip() {
            "a firewall of this host, perhaps, may keep back UDP"
        } else {
            "something between the hosts, like a firewall, may keep back UDP"
        }
    }

    /// Loses a peer that has left everything unanswered for too long.
    pub fn check_timeout(&self, connection: &Connection, silence: u64, limit: u64) {
        if silence <= limit {
            return;
        }
        let history = if connection.was_heard.load(Relaxed) {
            String::new()
        } else {
            format!(", nor ever before: {}", self.likely_obstacle(connection))
        };
        let seconds = silence / 1_000_000_000;
        self.report_lost(
            connection.rank,
            format!(
                "it has answered nothing for {seconds} seconds{history}; GASNET_REQUESTTIMEOUT_MAX says how long that may last"
            ),
        );
    }

    /// Says, once, that a peer was never heard.
    pub fn warn_unresponsive(&self, connection: &Connection, silence: u64, limit: u64) {
        let end = match limit {
            u64::MAX => "The job goes on waiting".to_owned(),
            limit => format!("The job ends after {} seconds", limit / 1_000_000_000),
        };
        gasnet_conduit::warn(format_args!(
            "rank {} ({}) has answered nothing for {} seconds, nor ever before. If it is not stopped or busy, {}. {end} (GASNET_REQUESTTIMEOUT_MAX).",
            connection.rank,
            self.peers[connection.rank as usize].address,
            silence / 1_000_000_000,
            self.likely_obstacle(connection)
        ));
    }
}
