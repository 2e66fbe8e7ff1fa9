//! The HCAs of a process and their ports, the memory that is registered with them, and the queue
//! pairs that lead to peers.

use crate::ffi::{Domain, Remote};
use crate::memory::Segments;
use crate::peers::Peers;
use crate::ports::Path;
use crate::rail::Rail;
use crate::route::Route;
use crate::send::queue::{QueueGuard, SendQueue};
use gasnet_conduit::{JobRank, LocalMemory, RemoteMemory};
use gasnet_sys::atomic::Mutex;

/// All that a work request needs, and what becomes of its queue pair.
pub struct Fabric {
    /// This process.
    pub rank: JobRank,
    pub peers: Peers,
    pub segments: Segments,
    pub paths: Box<[Path]>,
    pub rails: Box<[Rail]>,
    /// Bytes of inline data that all HCAs take.
    pub inline: usize,
    /// Exponent of the transport's timeout.
    pub timeout: u8,
    /// Queue pairs that have migrated (peer, path), and had no room for a probe.
    pub unprobed: Mutex<Vec<(JobRank, usize)>>,
}

impl Fabric {
    /// The HCAs' protection domains, by rail.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.rails.iter().map(|rail| &rail.domain)
    }

    /// A path in messages: "mlx5_0 port 1".
    pub fn name(&self, path: usize) -> String {
        let Path { rail, port, .. } = &self.paths[path];
        format!("{} port {}", self.rails[*rail].context.name, port.number)
    }

    /// The HCA of a queue.
    #[inline]
    pub fn rail(&self, queue: &SendQueue) -> &Rail {
        &self.rails[queue.rail]
    }

    /// The right to post a work request on a route, which may find no room for its completion. None
    /// if there is no room for it.
    #[inline(always)]
    pub fn lock_queue<'a>(&'a self, route: Route<'a>) -> Option<QueueGuard<'a>> {
        route.queue.lock(route.xrc_peer, &self.rail(&route).room, 1)
    }

    /// The right to post two work requests. None if there is no room for both and their
    /// completions.
    #[inline]
    pub fn lock_for_two<'a>(&'a self, route: Route<'a>) -> Option<QueueGuard<'a>> {
        let mut guard = route.queue.lock(route.xrc_peer, &self.rail(&route).room, 2)?;
        guard.take_room_for(2).then_some(guard)
    }

    /// The key of local memory, and the bytes from its address to where another one counts: that of
    /// its segment, or that of all memory.
    pub fn local(&self, memory: &LocalMemory, rail: usize, is_written: bool) -> Option<(u32, usize)> {
        let own = self.segments.local(memory, rail);
        own.or_else(|| self.on_demand(memory, rail, is_written))
    }

    /// Key of all memory, if the HCA pages on demand.
    #[inline]
    pub fn on_demand(&self, memory: &LocalMemory, rail: usize, is_written: bool) -> Option<(u32, usize)> {
        let all = self.rails[rail].on_demand.as_ref()?;
        memory.device.is_none().then_some((all.lkey(is_written), usize::MAX))
    }

    /// The key of a peer's memory, if one work request of this queue reaches all of it.
    #[inline(always)]
    pub fn remote(&self, memory: &RemoteMemory, bytes: usize, queue: &SendQueue) -> Option<Remote> {
        let (rkey, room) = self.segments.remote(memory, queue.rail);
        (bytes <= room.min(queue.longest)).then_some(Remote {
            address: memory.address,
            rkey,
        })
    }
}
