//! Asynchronous events of HCAs. The library acknowledges each when it is read
//! ([`crate::ffi::Context::next_event`]). The other events (communication established, send queue
//! drained, changes of the subnet manager) need nothing.

use crate::fabric::Fabric;
use crate::ffi::Event;
use crate::rail::Rail;
use gasnet_conduit::JobRank;
use gasnet_ibv_abi as abi;
use gasnet_sys::lock;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// The name of a queue pair in events. 0 names those that lead to no peer.
pub const fn name(peer: JobRank, path: usize) -> usize {
    ((peer.0 as usize + 1) << 8) | path
}

/// The peer and the path of a queue pair.
const fn named(name: usize) -> Option<(JobRank, usize)> {
    match (name >> 8).checked_sub(1) {
        Some(peer) => Some((JobRank(peer as u32), name & 0xff)),
        None => None,
    }
}

impl Fabric {
    /// Handles what an HCA reports.
    #[cold]
    pub fn take_events(&self, rail: &Rail) {
        loop {
            match rail.context.next_event() {
                Ok(Some(event)) => self.handle_event(rail, &event),
                Ok(None) => break,
                Err(why) => {
                    let name = &rail.context.name;
                    self.peers.states.fail(&format!(
                        "{name}: it reports no events any more: {why}. Was it unplugged or reset?"
                    ));
                    break;
                }
            }
        }
        self.probe_again();
    }

    /// Loses a peer, and over XRC all others that its queue pairs lead to.
    fn lose_all_behind(&self, peer: JobRank, why: &str) {
        let queues = |peer| self.peers.connection(peer).map(|connection| &connection.pairs.queues);
        let lost = queues(peer);
        for other in self.peers.ranks() {
            let is_behind = lost
                .zip(queues(other))
                .is_some_and(|(lost, other)| Arc::ptr_eq(lost, other));
            if other == peer || is_behind {
                self.peers.states.lose(other, why.to_owned());
            }
        }
    }

    fn handle_event(&self, rail: &Rail, event: &Event) {
        let text = || rail.context.library.event(event.kind);
        let name = &rail.context.name;
        match event.kind {
            abi::IBV_EVENT_DEVICE_FATAL | abi::IBV_EVENT_CQ_ERR | abi::IBV_EVENT_SRQ_ERR => {
                self.peers.states.fail(&format!("{name}: {}", text()));
            }
            abi::IBV_EVENT_QP_FATAL | abi::IBV_EVENT_QP_REQ_ERR | abi::IBV_EVENT_QP_ACCESS_ERR => {
                // Some HCAs report the death of a pair by this alone, without completions.
                match event.pair.and_then(named) {
                    Some((peer, path)) => {
                        let why = format!("{}: its queue pair failed: {}", self.name(path), text());
                        self.lose_all_behind(peer, &why);
                    }
                    None => self
                        .peers
                        .states
                        .fail(&format!("{name}: a queue pair failed: {}", text())),
                }
            }
            abi::IBV_EVENT_PATH_MIG => {
                if let Some((peer, path)) = event.pair.and_then(named) {
                    self.migrated(peer, path);
                }
            }
            abi::IBV_EVENT_PORT_ERR => {
                let port = event.port.filter(|port| self.uses(rail, *port));
                if let Some(port) = port.filter(|port| note(&mut lock(&rail.fallen), *port)) {
                    gasnet_conduit::warn(format_args!("ibv: {name} port {port}: {}.", text()));
                }
            }
            abi::IBV_EVENT_GID_CHANGE | abi::IBV_EVENT_LID_CHANGE | abi::IBV_EVENT_PKEY_CHANGE => {
                self.check_addresses(rail, event.port);
            }
            _ => {}
        }
    }

    /// Whether traffic uses a port of an HCA, or would use it if another one went down.
    fn uses(&self, rail: &Rail, port: u8) -> bool {
        self.paths.iter().any(|path| {
            let is_alternate = path.alternate.is_some_and(|alternate| alternate.number == port);
            path.rail == rail.place && (path.port.number == port || is_alternate)
        })
    }

    /// Warns, once for each port, of addresses and partitions that are not this process's any more.
    /// Peers have them from the start, so new connections need them as well as those that exist.
    fn check_addresses(&self, rail: &Rail, port: Option<u8>) {
        let is_of_port = |number: u8| port.is_none_or(|port| port == number);
        for path in self.paths.iter().filter(|path| is_of_port(path.port.number)) {
            let (own, name) = (&path.port, &rail.context.name);
            if path.rail != rail.place || lock(&rail.moved).contains(&own.number) {
                continue;
            }
            let lost_key = || {
                // A driver without a table has no keys.
                let now = rail.context.pkeys(own.number, own.pkey_index + 1).pop();
                let changed = own.pkey != 0 && now != Some(own.pkey);
                changed.then(|| format!("partition key {:#06x} (index {})", own.pkey, own.pkey_index))
            };
            let what = if own.is_global {
                let index = u32::from(own.gid_index);
                let now = rail.context.gid(own.number, index).map(|entry| entry.gid);
                let changed = now != Some(own.address.gid);
                changed.then(|| format!("GID {} (index {index})", Ipv6Addr::from(own.address.gid)))
            } else {
                let now = rail.context.port(own.number).map(|attributes| attributes.lid);
                let changed = now.is_ok_and(|lid| lid != own.address.lid);
                changed.then(|| format!("LID {}", own.address.lid))
            };
            if let Some(what) = what.or_else(lost_key) {
                note(&mut lock(&rail.moved), own.number);
                gasnet_conduit::warn(format_args!(
                    "ibv: {name} port {}: its {what} was changed or removed: connections over it fail, and new ones, \
                     too. Restart the job.",
                    own.number
                ));
            }
        }
    }
}

/// Adds a port to a list. False if it was there.
fn note(ports: &mut Vec<u8>, port: u8) -> bool {
    let is_new = !ports.contains(&port);
    if is_new {
        ports.push(port);
    }
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (peer, path) in [(0, 0), (0, 7), (70_000, 3)] {
            assert_eq!(named(name(JobRank(peer), path)), Some((JobRank(peer), path)));
        }
        assert_eq!(named(0), None);
    }

    #[test]
    fn a_port_is_noted_once() {
        let mut ports = Vec::new();
        assert_eq!(
            [1, 2, 1, 2].map(|port| note(&mut ports, port)),
            [true, true, false, false]
        );
    }
}
