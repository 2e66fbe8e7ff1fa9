//! Peers that answer nothing: how long they may, and what is said of those that were never heard.
#![forbid(unsafe_code)]

use super::Net;
use crate::peer_table::Contact;
use crate::variables::Settings;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

impl Net {
    /// How long a peer may leave everything unanswered that is silent since `silent` nanoseconds: less than others where nobody was ever heard at its address,
    /// unless that is this host, where it is most likely stopped. The addresses are put into `spoken` when they are wanted for the first time.
    pub fn limit_of_silence(&self, contact: &Contact, silent: u64, spoken: &mut Option<HashSet<IpAddr>>) -> u64 {
        let Settings {
            timeout, introduction, ..
        } = self.settings;
        let address = self.address(contact);
        if silent <= self.settings.doubts.min(introduction)
            || contact.has_spoken.load(Relaxed)
            || address == self.socket.address.ip()
        {
            return timeout;
        }
        let spoken = spoken.get_or_insert_with(|| {
            let those = self.contacts().filter(|contact| contact.has_spoken.load(Relaxed));
            those.map(|contact| self.address(contact)).collect()
        });
        if spoken.contains(&address) {
            timeout
        } else {
            introduction
        }
    }

    fn address(&self, contact: &Contact) -> IpAddr {
        self.places[contact.rank as usize].address.ip()
    }

    /// What may keep back the word of a peer that was never heard.
    fn obstacle(&self, contact: &Contact) -> &'static str {
        if self.address(contact) == self.socket.address.ip() {
            "a firewall of this host, perhaps, may keep back UDP"
        } else {
            "something between the hosts, like a firewall, may keep back UDP"
        }
    }

    /// Loses a peer that has left everything unanswered for too long.
    pub fn judge_silence(&self, contact: &Contact, silent: u64, limit: u64) {
        if silent <= limit {
            return;
        }
        let before = if contact.has_spoken.load(Relaxed) {
            String::new()
        } else {
            format!(", nor ever before: {}", self.obstacle(contact))
        };
        let seconds = silent / 1_000_000_000;
        self.lose(
            contact.rank,
            format!("it has answered nothing for {seconds} seconds{before}; GASNET_REQUESTTIMEOUT_MAX says how long that may last"),
        );
    }

    /// Says, once, that a peer was never heard.
    pub fn doubt(&self, contact: &Contact, silent: u64, limit: u64) {
        let end = match limit {
            u64::MAX => "The job goes on waiting".to_owned(),
            limit => format!("The job ends after {} seconds", limit / 1_000_000_000),
        };
        gasnet_conduit::warn(format_args!(
            "rank {} ({}) has answered nothing for {} seconds, nor ever before. If it is not stopped or busy, {}. {end} (GASNET_REQUESTTIMEOUT_MAX).",
            contact.rank,
            self.places[contact.rank as usize].address,
            silent / 1_000_000_000,
            self.obstacle(contact)
        ));
    }
}
