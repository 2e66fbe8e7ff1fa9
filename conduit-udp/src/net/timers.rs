//! Timer work: tail-loss probes, delayed ACKs, keepalives, ICMP errors, and the Close at the end.
#![forbid(unsafe_code)]

use super::{Net, TIMER_INTERVAL};
use crate::peer::payload_of;
use crate::peers::{Connection, SendErrors};
use crate::sys::{self, DeliveryError};
use crate::wire::{Kind, HEADER_BYTES};
use gasnet_conduit::{config, Stop};
use gasnet_sys::{fd, lock};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

/// Nanoseconds by which each peer with unacknowledged data lengthens the timer interval.
const TIMER_INTERVAL_PER_PEER: u64 = 1_000;
/// ICMP port-unreachable errors, at least the gap (nanoseconds) apart, after which a peer is lost.
const REFUSALS: u8 = 3;
const REFUSAL_GAP: u64 = 10_000_000;
/// Keepalive interval of a silent peer after such an error, nanoseconds. The next error must quote
/// the last keepalive, and takes its time to arrive.
const REFUSED_KEEPALIVE: u64 = 100_000_000;
/// Nanoseconds without a timer run, after which this process counts as suspended: it could receive
/// nothing meanwhile.
const SUSPENDED: u64 = 1_000_000_000;
/// Nanoseconds of silence after which a peer gets a keepalive, so that its host can report that it
/// is gone. Each connection lengthens the interval.
pub const KEEPALIVE: u64 = 500_000_000;
const KEEPALIVE_PER_PEER: u64 = 1_000_000;

impl Net {
    /// Sends keepalives to silent peers.
    pub fn keepalive(&self, now: u64) {
        let next = self.next_keepalive.swap(now + KEEPALIVE, Relaxed);
        if now < next {
            // Another thread does it.
            return;
        }
        let (mut connections, mut any_refused) = (0, false);
        for connection in self.connections() {
            if !self.states.is_present(connection.rank) {
                continue;
            }
            connections += 1;
            let refused = connection.refusals.load(Relaxed) > 0;
            any_refused |= refused;
            if refused || now >= connection.last_received.load(Relaxed) + KEEPALIVE {
                self.send_ack(connection, &mut lock(&connection.state));
                // This host may report at once that the port is unreachable. A poll of the main
                // socket returns its own errors, but not those of a connected socket.
                if connection.connected.is_some() {
                    self.has_icmp_errors.store(true, Relaxed);
                }
            }
        }
        let next = if any_refused {
            REFUSED_KEEPALIVE
        } else {
            KEEPALIVE + KEEPALIVE_PER_PEER * connections
        };
        self.next_keepalive.store(now + next, Relaxed);
    }

    /// Runs the timers of all tracked peers.
    pub fn run_timers(&self, now: u64) {
        let Ok(mut active) = self.active.try_lock() else { return };
        let ranks = std::mem::take(&mut *active);
        let next = now + TIMER_INTERVAL + TIMER_INTERVAL_PER_PEER * ranks.len() as u64;
        self.next_timers.store(next, Relaxed);
        let was_suspended = now > self.last_timers.swap(now, Relaxed) + SUSPENDED;
        drop(active);
        let mut still_active = Vec::with_capacity(ranks.len());
        let (mut unresponsive, mut reached_addresses) = (None, None);
        for rank in ranks {
            let connection = self.connection(rank);
            let mut peer = lock(&connection.state);
            let is_alive = self.states.is_present(rank);
            if is_alive {
                if was_suspended {
                    peer.reset_unanswered(now);
                }
                if peer.on_timer(now) {
                    if connection.connected.is_some() {
                        self.has_icmp_errors.store(true, Relaxed);
                    }
                    if self.refresh_pmtu(connection) {
                        connection.pmtu_changed.store(false, Relaxed);
                        peer.set_kernel_payload(connection.payload.load(Relaxed));
                    }
                }
                let silence = peer.unanswered(now);
                let limit = self.peer_timeout(connection, silence, &mut reached_addresses);
                self.check_timeout(connection, silence, limit);
                if silence > self.settings.warn_after && !connection.has_received.load(Relaxed) {
                    unresponsive.get_or_insert((connection, silence, limit));
                }
                peer.transmit(&self.keys, now, |batch| self.send_batch(connection, batch));
                if peer.is_ack_due(now) {
                    self.send_ack(connection, &mut peer);
                }
            }
            if is_alive && !peer.is_idle() {
                still_active.push(rank);
            } else {
                peer.tracked = false;
            }
        }
        let mut active = lock(&self.active);
        active.append(&mut still_active);
        if active.is_empty() {
            self.next_timers.store(u64::MAX, Relaxed);
        } else {
            // Another thread may have found the list empty meanwhile, because this one had taken
            // it.
            self.next_timers.fetch_min(next, Relaxed);
        }
        drop(active);
        // A reader of stderr may stall; this thread must not block on it.
        let unresponsive = unresponsive.filter(|_| fd::is_writable(2) && !self.has_warned.swap(true, Relaxed));
        if let Some((connection, silence, limit)) = unresponsive {
            self.warn_unresponsive(connection, silence, limit);
        }
    }

    /// Reads the error queues of all sockets. This thread must not hold the lock of any peer.
    pub fn drain_icmp_errors(&self) {
        let connected = self
            .connections()
            .filter_map(|connection| connection.connected.as_ref());
        for socket in std::iter::once(&self.socket).chain(connected) {
            let mut quote = [0; HEADER_BYTES];
            while let Some(DeliveryError {
                error,
                address: Some(address),
                quote,
            }) = socket.next_error(&mut quote)
            {
                self.on_icmp_error(&error, address, quote);
            }
        }
    }

    /// Handles an ICMP error about a datagram to `address` that began with `quote`. Errors can be
    /// forged, but only by a host that has seen a datagram in flight: the quote must match it.
    pub fn on_icmp_error(&self, error: &io::Error, address: SocketAddr, quote: &[u8]) {
        let is_destination = |connection: &&Connection| self.peers[connection.rank.index()].address == address;
        let Some(connection) = self.connections().find(is_destination) else {
            return;
        };
        if error.raw_os_error() == Some(libc::EMSGSIZE) || !lock(&connection.state).was_sent(quote) {
            return;
        }
        if error.kind() != ErrorKind::ConnectionRefused {
            self.on_send_error(connection, error, false);
            return;
        }
        let now = self.now();
        let refusals = connection.refusals.load(Relaxed);
        if refusals > 0 && now < connection.refused_at.load(Relaxed) + REFUSAL_GAP {
            return;
        }
        connection.refused_at.store(now, Relaxed);
        connection.refusals.store(refusals.saturating_add(1), Relaxed);
        if refusals + 1 >= REFUSALS {
            let ip = self.peers[connection.rank.index()].address.ip();
            let reason = if ip.is_loopback() && self.spans_hosts {
                format!(
                    "its UDP port is reported closed. Its address {ip} is on this host: set GASNET_WORKERIP to a \
                     network that joins the hosts."
                )
            } else if connection.has_received.load(Relaxed) || connection.connected.is_some() {
                "its UDP port is reported closed".to_owned()
            } else {
                format!("its UDP port is reported closed (never connected). A firewall at {ip} may reject UDP.")
            };
            self.states.lose(connection.rank, reason);
        }
    }

    /// Asks the kernel for the path MTU again. Returns whether it has changed; the peer's state is
    /// updated later.
    pub fn refresh_pmtu(&self, connection: &Connection) -> bool {
        let address = self.peers[connection.rank.index()].address;
        let Ok(largest) = sys::path_payload(address) else {
            return false;
        };
        let payload = payload_of(largest);
        let changed = connection.payload.swap(payload, Relaxed) != payload;
        if changed {
            connection.pmtu_changed.store(true, Relaxed);
        }
        changed
    }

    /// A send error counts as a lost datagram. When errors last for `error_timeout`, the peer is
    /// reported as lost. `is_local`: this host refused to send, so that a successful send clears
    /// the errors.
    pub fn on_send_error(&self, connection: &Connection, error: &io::Error, is_local: bool) {
        let mut errors = lock(&connection.send_errors);
        let now = self.now();
        let next = SendErrors::after(*errors, now, is_local);
        let since = next.since;
        *errors = Some(next);
        connection.has_send_errors.store(true, Relaxed);
        drop(errors);
        if now - since >= self.settings.error_timeout {
            let ip = self.peers[connection.rank.index()].address.ip();
            let hint = match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => "A firewall or another policy of this host forbids it.",
                Some(libc::ENOBUFS) => "The network interface accepts no datagrams.",
                Some(libc::EHOSTUNREACH) if !is_local && !connection.has_received.load(Relaxed) => {
                    "A firewall may reject UDP. Check the route with `ip route get`, or select another network with \
                     GASNET_WORKERIP."
                }
                _ => "Check the route with `ip route get`, or select another network with GASNET_WORKERIP.",
            };
            self.states.lose(
                connection.rank,
                format!("datagrams to {ip} cannot be sent: {error}. {hint}"),
            );
        }
    }

    /// Sends Close to all connected peers, and stops. In a signal handler it only stops.
    pub fn stop(&self, how: Stop) {
        if how == Stop::Signal {
            self.stopped.store(true, Relaxed);
            return self.progress.wake();
        }
        let (rejected, duplicates) = (
            self.counters.rejected.load(Relaxed),
            self.counters.duplicates.load(Relaxed),
        );
        if config::get().get_or_default(&config::VERBOSEENV) && rejected + duplicates > 0 {
            let line = format!(
                "gasnet: rank {} dropped {rejected} datagrams that were damaged, forged or misaddressed, \
                 and {duplicates} duplicates\n",
                self.rank
            );
            // In one write: other ranks print the same line at the same time.
            let _ = io::stderr().write_all(line.as_bytes());
        }
        self.stopped.store(true, Relaxed);
        self.progress.wake();
        for _ in 0..2 {
            for connection in self.peers.iter().filter_map(|entry| entry.connection.get()) {
                // A signal may have interrupted the thread that holds the lock. The peer then
                // learns from its node agent that the job ends.
                let Ok(mut state) = connection.state.try_lock() else {
                    continue;
                };
                let header = state.control_header(&self.keys, Kind::Close, &[]);
                drop(state);
                self.send_batch(connection, &[[IoSlice::new(&header), IoSlice::new(&[])]]);
            }
        }
    }
}
