//! The thread that answers connection requests while the client computes. It sleeps until a
//! datagram or an asynchronous event arrives. There is none if all processes are connected at
//! start, or if the client forbids threads; then polls do its work.

use crate::net::Net;
use gasnet_conduit::config;
use gasnet_sys::eventfd::Eventfd;
use gasnet_sys::{fd, process};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of its stack: a library's code runs on it.
const STACK_BYTES: usize = 512 << 10;
/// Time between looks at handshakes under way.
const BUSY: Duration = Duration::from_millis(5);

/// The running thread, which ends when this is dropped.
pub struct ConnectionThread {
    thread: Option<JoinHandle<()>>,
    end: Arc<Eventfd>,
}

impl ConnectionThread {
    /// Starts it.
    pub fn start(net: &Arc<Net>) -> io::Result<Self> {
        let end = Arc::new(Eventfd::new()?);
        let (its_net, its_end) = (Arc::clone(net), Arc::clone(&end));
        let thread = process::spawn_own_thread("gasnet-ibv", config::stack_bytes(STACK_BYTES), move || {
            run(&its_net, &its_end);
        })?;
        Ok(Self {
            thread: Some(thread),
            end,
        })
    }
}

impl Drop for ConnectionThread {
    fn drop(&mut self) {
        self.end.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(net: &Net, end: &Eventfd) {
    let (fabric, connector) = (net.fabric(), &net.messages().connector);
    // The descriptors of an HCA that is gone are ready for ever.
    while !fabric.peers.states.is_stopped() && !fabric.peers.states.has_failed() {
        net.look_at_everything();
        let limit = if connector.arm_own() { None } else { Some(BUSY) };
        // A datagram that arrived before it was armed makes no event.
        net.look_at_everything();
        let mut items: Vec<libc::pollfd> = fabric
            .rails
            .iter()
            .map(|rail| fd::readable(rail.context.event_fd()))
            .collect();
        items.extend(connector.fds().map(fd::readable));
        items.push(fd::readable(end.fd()));
        let ready = fd::poll(&mut items, limit);
        if ready.is_err() || items.last().is_some_and(|item| item.revents != 0) {
            return;
        }
    }
}
