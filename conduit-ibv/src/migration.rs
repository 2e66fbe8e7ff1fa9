//! Automatic path migration (InfiniBand specification, volume 1, 17.2.8): an HCA moves a queue pair
//! to its alternate path, over another port of the HCA, instead of giving the peer up. Nothing is
//! lost or repeated, as packets keep their numbers.
//!
//! HCAs arm two connected queue pairs when packets pass between them after both have loaded an
//! alternate path. So a write without bytes follows each load.
//!
//! An event reports that a queue pair has moved. The path that it left is then its next alternate
//! path. But it must not be loaded before the peer's HCA has followed, which it would not do any
//! more. So a probe precedes it: another write without bytes, whose completion proves that.

pub mod alternate;

use crate::connect::handshake::Endpoint;
use crate::fabric::Fabric;
use crate::ffi::{Address, Local, LocalPort, Remote, Work};
use crate::migration::alternate::Migration;
use crate::operations::CompletionAction;
use crate::peers::Connection;
use crate::route::Route;
use crate::send::queue::SendQueue;
use gasnet_conduit::JobRank;
use gasnet_sys::lock;

impl Fabric {
    /// Gives a queue pair that was just connected an alternate path, if both ends have one.
    pub fn add_alternate(&self, queue: &SendQueue, theirs: &Endpoint) {
        let (Some(port), Some(lid)) = (&self.paths[queue.path].alternate, theirs.alternate) else {
            return;
        };
        let to = Address {
            lid: lid.get(),
            ..Address::default()
        };
        // An HCA that refuses has one path.
        if queue.pair.load_alternate(port, &to, self.timeout).is_ok() {
            let _ = queue.migration.set(Migration::new([theirs.address, to]));
        }
    }

    /// Lets the HCAs arm the queue pairs of a connection, of which both ends have loaded paths.
    pub fn arm_migration(&self, connection: &Connection) {
        for queue in (0..self.paths.len()).map(|path| connection.route(path)) {
            if queue.migration.get().is_some() {
                self.touch(queue, CompletionAction::Nothing);
            }
        }
    }

    /// Writes no bytes to the peer, so that packets pass both ways. False if there is no room.
    fn touch(&self, queue: Route<'_>, done: CompletionAction) -> bool {
        let local = Local {
            address: 0,
            bytes: 0,
            lkey: 0,
        };
        let work = Work::write(&local, Remote { address: 0, rkey: 0 });
        let Some(mut guard) = self.lock_queue(queue) else {
            return false;
        };
        // SAFETY: it has no memory.
        unsafe { guard.post(work, done) }.is_ok()
    }

    /// An HCA has moved a queue pair to its other path.
    pub fn migrated(&self, peer: JobRank, path: usize) {
        let Some(connection) = self.peers.connection(peer) else {
            return;
        };
        let queue = connection.route(path);
        if let Some(migration) = queue.migration.get() {
            migration.note_moved();
            self.probe(queue);
        }
    }

    /// Probes the queues that had no room for it.
    pub fn probe_again(&self) {
        let queues = std::mem::take(&mut *lock(&self.unprobed));
        for (peer, path) in queues {
            if let Some(connection) = self.peers.connection(peer) {
                self.probe(connection.route(path));
            }
        }
    }

    fn probe(&self, queue: Route<'_>) {
        if !self.touch(queue, CompletionAction::Probe(queue.peer(), queue.path)) {
            lock(&self.unprobed).push((queue.peer(), queue.path));
        }
    }

    /// The peer has answered the probe on the new path: the other one may be the next.
    #[cold]
    pub fn probed(&self, peer: JobRank, path: usize) {
        let Some(connection) = self.peers.connection(peer) else {
            return;
        };
        let queue = connection.route(path);
        let Some(migration) = queue.migration.get() else { return };
        let Some((new, old)) = migration.ports(&self.paths[path]) else {
            return;
        };
        self.report(queue, new, old);
        let to = migration.unused_peer_port();
        if queue.pair.load_alternate(old, to, self.timeout).is_ok() {
            self.touch(queue, CompletionAction::Nothing);
        }
    }

    /// Warns that traffic has left a port, once.
    fn report(&self, queue: Route<'_>, new: &LocalPort, old: &LocalPort) {
        let rail = self.rail(&queue);
        let mut left = lock(&rail.left);
        if left.contains(&old.number) {
            return;
        }
        left.push(old.number);
        let (name, peer) = (&rail.context.name, queue.peer());
        let why = if lock(&rail.fallen).contains(&old.number) {
            "went down".to_owned()
        } else {
            format!("does not reach rank {peer}")
        };
        gasnet_conduit::warn(format_args!(
            "ibv: {name} port {} {why}: its traffic goes on over port {}.",
            old.number, new.number
        ));
    }

    /// The port that a queue pair uses, in messages.
    pub fn name_of_port(&self, queue: &SendQueue) -> String {
        let path = &self.paths[queue.path];
        let ports = queue.migration.get().and_then(|migration| migration.ports(path));
        let port = ports.map_or(&path.port, |(used, _)| used);
        format!("{} port {}", self.rails[path.rail].context.name, port.number)
    }
}
