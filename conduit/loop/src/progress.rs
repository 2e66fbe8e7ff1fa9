//! Progress: the NIC's thread, and polls of the client.
#![forbid(unsafe_code)]

use crate::arrivals::Arrival;
use crate::nic::Nic;
use crate::replies;
use crate::start::Net;
use gasnet_conduit::{PollScope, Upcalls};
use gasnet_sys::{fd, lock};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

/// Most packets and completions that a poll delivers.
const DELIVERED: usize = 32;
/// Time for a client that was woken to poll, before it is woken again.
const WAKE_GRACE: Duration = Duration::from_millis(1);

/// The NIC's thread.
pub fn run(net: &Net) {
    let Some(mut nic) = lock(&net.polled_nic).take() else {
        return;
    };
    while !net.stopped.load(Relaxed) {
        let has_more = nic.pass(net);
        let watcher = lock(&net.arrivals).watcher();
        if let Some(wake) = watcher {
            wake();
        }
        if !has_more {
            sleep(net, &nic, watcher.map(|_| WAKE_GRACE));
        }
    }
}

/// Sleeps until a message or work arrives, or a full link takes more.
fn sleep(net: &Net, nic: &Nic, limit: Option<Duration>) {
    let mut items = vec![fd::readable(net.doorbell.fd())];
    for (rank, link) in net.links.iter().enumerate() {
        let Some(link) = link.as_ref().filter(|_| nic.open[rank]) else {
            continue;
        };
        let mut item = fd::readable(link.as_raw_fd());
        if !nic.out[rank].is_empty() {
            item.events |= libc::POLLOUT;
        }
        items.push(item);
    }
    net.nic_sleeps.store(true, SeqCst);
    let is_watched = limit.is_none() && lock(&net.arrivals).watcher().is_some();
    if !is_watched && !net.has_work() && !net.stopped.load(SeqCst) {
        // A failure counts as an empty sleep.
        let _ = fd::poll(&mut items, limit);
    }
    net.nic_sleeps.store(false, SeqCst);
    net.doorbell.clear();
}

impl Net {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.stopped.load(Relaxed) {
            return 0;
        }
        if let Ok(mut nic) = self.polled_nic.try_lock() {
            nic.as_mut().map(|nic| nic.pass(self));
        }
        for delivered in 0..DELIVERED {
            let Some(arrival) = lock(&self.arrivals).next(scope) else {
                return delivered;
            };
            let is_event = !matches!(arrival, Arrival::Packet(..));
            match arrival {
                Arrival::Lost(peer, why) => upcalls.peer_lost(peer, &why),
                Arrival::Done { cookie, part, ends } => {
                    if ends {
                        lock(&self.queue).ended();
                    }
                    upcalls.done(cookie, part);
                }
                Arrival::Word => {}
                Arrival::Round(words) => upcalls.barrier(words),
                Arrival::Packet(source, class, mut packet) => {
                    replies::deliver(upcalls, (source, class), packet.bytes());
                    lock(&self.queue).delivered(source, class);
                    self.ring();
                }
            }
            if is_event {
                lock(&self.arrivals).delivers_event = false;
            }
        }
        DELIVERED
    }
}
