//! Registration of segments, and keys of those of peers.

use super::advice::advised;
use super::Keys;
use crate::ffi::{Domain, Errno};
use crate::net::Net;
use gasnet_conduit::{
    config, ConduitError, Dmabuf, JobRank, LocalSegment, Registration, RemoteSegment, SegmentMemory, Segments,
};
use gasnet_conduit_util::record::bad_key;

impl Segments for Net {
    fn max_key_bytes(&self) -> usize {
        self.fabric().segments.max_key_bytes()
    }

    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let domains: Vec<&Domain> = self.fabric().domains().collect();
        let registered = self.fabric().segments.register(&domains, memory);
        registered.map_err(|why| ConduitError {
            message: format!(
                "The ibv conduit cannot register {} bytes at {:#x}: {}. GASNET_MAX_SEGSIZE limits segments.",
                memory.bytes,
                memory.base,
                advised(why)
            ),
        })
    }

    fn register_device(&self, memory: &SegmentMemory, dmabuf: &dyn Fn() -> Option<Dmabuf>) -> Option<Registration> {
        let fabric = self.fabric();
        let domains: Vec<&Domain> = fabric.domains().collect();
        let register = |dmabuf: Option<&Dmabuf>| fabric.segments.register_device(&domains, memory, dmabuf);
        let by_dmabuf = match dmabuf() {
            Some(dmabuf) => register(Some(&dmabuf)).map_err(|why| why.to_string()),
            None => Err("the device exports none".to_owned()),
        };
        // A module of the kernel may know the addresses of the device (peer memory).
        let registered = by_dmabuf.or_else(|why| register(None).map_err(|other| (why, other)));
        let report = |(why, other): &(String, Errno)| {
            if config::get().get_or_default(&config::VERBOSEENV) {
                gasnet_conduit::print_line(format_args!(
                    "GASNet: ibv: rank {}: {} bytes of a device cannot be registered. By dmabuf: {why}. By address: \
                     {other}. Active Messages move the data.",
                    fabric.rank, memory.bytes
                ));
            }
        };
        registered.inspect_err(report).ok()
    }

    fn deregister(&self, segment: LocalSegment) {
        // SAFETY: the runtime uses the segment no more.
        drop(unsafe { self.fabric().segments.own.remove(segment.0) });
    }

    fn learn(&self, peer: JobRank, memory: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        let segments = &self.fabric().segments;
        let keys = Keys::read(memory, key, segments.rails).ok_or_else(|| ConduitError {
            message: bad_key("ibv", peer),
        })?;
        Ok(RemoteSegment(segments.learned.add(keys)))
    }

    fn forget(&self, _: JobRank, segment: RemoteSegment) {
        // SAFETY: no operation on the segment is under way.
        drop(unsafe { self.fabric().segments.learned.remove(segment.0) });
    }
}
