//! Registration of segments, and keys of those of peers.

use crate::ffi::MemoryType;
use crate::memory::Learned;
use crate::rma::OneSided;
use gasnet_conduit::{
    config, ConduitError, Dmabuf, JobRank, LocalSegment, Registration, RemoteSegment, SegmentMemory, Segments,
};
use gasnet_conduit_util::record::bad_key;
use std::sync::OnceLock;

/// Most bytes of a key, whose length is in front. It has some for each device that UCX uses: up to
/// 17 for an HCA.
const MAX_KEY: usize = 510;
/// Bytes of its length.
const LENGTH: usize = 2;
/// Bytes of the shortest key: which devices it is for, and the kind of memory.
const MIN_KEY: usize = 9;

impl OneSided {
    /// Registers a segment, and packs its key. The error is a message.
    fn try_register(&self, memory: &SegmentMemory) -> Result<Registration, String> {
        let turn = self.link.worker.turn();
        // SAFETY: the runtime keeps segments mapped, or allocated, until `deregister`.
        let region = unsafe { turn.register(memory) };
        drop(turn);
        let remedy = "Raise the locked-memory limit (ulimit -l), or lower GASNET_MAX_SEGSIZE";
        let region = region.map_err(|why| format!("ucp_mem_map: {}. {remedy}", why.text()))?;
        let packed = region.pack().map_err(|why| format!("ucp_rkey_pack: {}", why.text()))?;
        if packed.len() > MAX_KEY {
            return Err(format!(
                "its key has {} bytes, and the limit is {MAX_KEY}. Select fewer devices: UCX_NET_DEVICES, UCX_TLS",
                packed.len()
            ));
        }
        let key = [&(packed.len() as u16).to_le_bytes()[..], &packed].concat();
        let segment = LocalSegment(self.segments.own.add(region));
        Ok(Registration { segment, key })
    }
}

impl Segments for OneSided {
    fn max_key_bytes(&self) -> usize {
        LENGTH + MAX_KEY
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        self.try_register(memory).map_err(|why| ConduitError {
            message: format!(
                "The ucx conduit cannot register {} bytes at {:#x}: {why}.",
                memory.bytes, memory.base
            ),
        })
    }

    /// UCX exports dmabufs itself.
    fn register_device(&self, memory: &SegmentMemory, _: &dyn Fn() -> Option<Dmabuf>) -> Option<Registration> {
        let device = memory.device?;
        // Without one it registers the memory nevertheless, and fails when it is to be copied.
        let has_module = self.link.worker.turn().has_module_for(MemoryType::of(Some(device)));
        let registered = if has_module {
            self.try_register(memory)
        } else {
            Err("it has no module for such memory".into())
        };
        if let Err(why) = &registered {
            if config::get().get_or_default(&config::VERBOSEENV) {
                gasnet_conduit::print_line(format_args!(
                    "GASNet: ucx: rank {}: UCX does not register {} bytes of {device}: {why}. Active Messages move \
                     its data.",
                    self.link.rank, memory.bytes
                ));
            }
        }
        registered.ok()
    }

    fn deregister(&self, segment: LocalSegment) {
        // SAFETY: the runtime uses the segment no more.
        drop(unsafe { self.segments.own.remove(segment.0) });
    }

    /// The key is unpacked at the first use, which connects to its owner.
    fn learn(&self, peer: JobRank, _: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        let packed = key.split_first_chunk::<LENGTH>().and_then(|(length, rest)| {
            let length = usize::from(u16::from_le_bytes(*length));
            rest.get(..length).filter(|packed| packed.len() >= MIN_KEY)
        });
        let packed = packed.ok_or_else(|| ConduitError {
            message: bad_key("ucx", peer),
        })?;
        let learned = Learned {
            packed: packed.into(),
            key: OnceLock::new(),
        };
        Ok(RemoteSegment(self.segments.learned.add(learned)))
    }

    fn forget(&self, _: JobRank, segment: RemoteSegment) {
        // SAFETY: no operation on the segment is under way.
        drop(unsafe { self.segments.learned.remove(segment.0) });
    }
}
