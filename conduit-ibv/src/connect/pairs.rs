//! The queue pairs of connections: made, and connected to those of peers.
#![forbid(unsafe_code)]

use crate::connect::handshake::Endpoint;
use crate::connect::resolve::Failure;
use crate::connect::transport::Transports;
use crate::events;
use crate::fabric::Fabric;
use crate::ffi::{Access, Errno, RESPONDER};
use crate::peers::{pair_name, Connection, QueuePairs};
use crate::ports::{Path, MOST_PATHS};
use crate::send::queue::SendQueue;
use crate::xrc::peer::XrcPeer;
use crate::xrc::Xrc;
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Ordering;
use std::sync::Arc;

/// Makes connections.
pub struct PairMaker {
    /// If one queue pair leads to all processes of a host.
    pub xrc: Option<Xrc>,
    /// Queue pairs allow it to peers.
    pub access: Access,
    pub transports: Transports,
    /// Receive buffers that a peer needs, if they are shared.
    pub receives: usize,
}

impl PairMaker {
    /// Makes queue pairs for a peer, which take receive buffers.
    pub fn create<'a>(&self, fabric: &'a Fabric, peer: JobRank) -> Result<&'a Connection, Errno> {
        let (queues, xrc_peer) = match &self.xrc {
            Some(xrc) => xrc.create(fabric, peer, self.access)?,
            None => (self.queues(fabric, peer)?, XrcPeer::new(peer)),
        };
        let mut receive_pairs = [0; MOST_PATHS];
        for ((name, path), queue) in receive_pairs.iter_mut().zip(&fabric.paths).zip(queues.iter()) {
            *name = pair_name(path.rail, xrc_peer.receiver(queue.path, &queue.pair));
        }
        // Both sides choose the same.
        let home = (fabric.rank.index() + peer.index()) % fabric.paths.len();
        let pairs = QueuePairs {
            queues,
            xrc_peer,
            home,
            receive_pairs,
        };
        let connection = fabric.peers.connect(peer, pairs);
        for queue in connection.pairs.queues.iter() {
            let rail = fabric.rail(queue);
            match &rail.shared {
                Some(shared) => rail.receives.add_shared(&rail.domain, shared, self.receives)?,
                None => rail.receives.add_owned(&rail.domain, queue)?,
            }
        }
        Ok(connection)
    }

    /// Send queues to a peer alone, by path.
    fn queues(&self, fabric: &Fabric, peer: JobRank) -> Result<Arc<[SendQueue]>, Errno> {
        let queue = |(index, path): (usize, &Path)| {
            let rail = &fabric.rails[path.rail];
            let made = rail.new_pair(events::name(peer, index))?;
            made.0.initialise(&path.port, self.access)?;
            Ok(SendQueue::new(peer, (index, path), made, false, rail.sharing))
        };
        fabric.paths.iter().enumerate().map(queue).collect()
    }

    /// The queue pairs of a connection, as a peer needs them.
    pub fn endpoints(&self, fabric: &Fabric, connection: &Connection) -> Vec<Endpoint> {
        let endpoint = |queue: &SendQueue| Endpoint {
            sender: if self.xrc.is_some() { queue.pair.number } else { 0 },
            ..Endpoint::new(&fabric.paths[queue.path], target(connection, queue.path))
        };
        connection.pairs.queues.iter().map(endpoint).collect()
    }

    /// Connects queue pairs to those of the peer, if they are not.
    pub fn ready(&self, fabric: &Fabric, connection: &Connection, theirs: &[Endpoint]) -> Result<(), Failure> {
        if connection.is_ready.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(xrc) = &self.xrc {
            xrc.ready(fabric, &self.transports, connection, theirs)?;
        } else {
            let (own, peer) = (fabric.rank, connection.peer());
            let ends = [own.min(peer).0, own.max(peer).0];
            for (queue, endpoint) in connection.pairs.queues.iter().zip(theirs) {
                let path = &fabric.paths[queue.path];
                let transport = self.transports.of(queue.path, path, endpoint, ends);
                let to = endpoint.pair();
                let connected = queue.pair.connect(&path.port, to, transport, RESPONDER);
                connected.map_err(|why| Failure::of(queue.path, endpoint.address, why))?;
                fabric.add_alternate(queue, endpoint);
            }
        }
        connection.is_ready.store(true, Ordering::Release);
        Ok(())
    }
}

/// The number of the pair that the peer sends to.
pub fn target(connection: &Connection, path: usize) -> u32 {
    let QueuePairs { queues, xrc_peer, .. } = &connection.pairs;
    xrc_peer.receiver(path, &queues[path].pair)
}

/// The access that queue pairs allow peers.
pub const fn access(atomics: bool) -> Access {
    if atomics {
        Access::REMOTE_ATOMIC
    } else {
        Access::REMOTE
    }
}
