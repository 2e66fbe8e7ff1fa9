//! A started conduit, and its end.

use crate::connect::policy::Record;
use crate::fabric::Fabric;
use crate::progress::Progress;
use crate::rma::Operations;
use crate::send::Messages;
use crate::wake::WakeUp;
use gasnet_conduit::Wake;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// A started conduit.
pub struct Net {
    // First: its queue pairs use the memory of what follows. What is registered, here too, keeps
    // its protection domain.
    pub operations: Operations,
    pub progress: Progress,
    /// Bytes of segments that may be registered.
    pub max_bytes: usize,
    /// File of the peers that this process has communicated with.
    pub record: Option<Record>,
    /// Sleeping threads wait for all of the channels.
    pub wake: Option<WakeUp>,
}

impl Net {
    /// Messages.
    #[inline]
    pub fn messages(&self) -> &Messages {
        &self.operations.messages
    }

    /// HCAs and peers.
    #[inline]
    pub fn fabric(&self) -> &Fabric {
        &self.messages().fabric
    }

    /// Serves connection requests and events of all HCAs, for the connection thread.
    pub fn look_at_everything(&self) {
        let fabric = self.fabric();
        self.messages().connector.serve_requests(fabric);
        for rail in &fabric.rails {
            fabric.take_events(rail);
        }
    }

    /// Ends communication, and tells peers that are connected that this is no crash.
    pub fn stop(&self) {
        /// Time for the messages to leave: an HCA drops what a process leaves at its end.
        const DRAIN: Duration = Duration::from_millis(5);
        let fabric = self.fabric();
        if fabric.peers.states.stop() {
            return;
        }
        if let Some(record) = &self.record {
            let used = fabric.peers.established().filter(|(_, it)| it.is_used());
            record.write(&used.map(|(rank, _)| rank).collect::<Vec<_>>());
        }
        for (_, connection) in fabric.peers.established() {
            // If that fails, the peer is gone, or it reads of the end from its node agent.
            let _ = fabric.say_bye(connection);
        }
        let deadline = Instant::now() + DRAIN;
        let is_empty = || {
            let mut connections = fabric.peers.established();
            connections.all(|(_, connection)| connection.queue(0).is_empty())
        };
        while !is_empty() && Instant::now() < deadline {
            fabric.drop_completions();
            gasnet_sys::atomic::yield_now();
        }
    }
}

impl Wake for Net {
    fn fd(&self) -> RawFd {
        self.wake.as_ref().map_or(-1, WakeUp::fd)
    }

    fn devices(&self) -> Vec<String> {
        let rails = self.fabric().rails.iter();
        rails.map(|rail| rail.context.name.clone()).collect()
    }

    fn arm(&self) -> bool {
        self.progress.arm(&self.operations)
    }
}
