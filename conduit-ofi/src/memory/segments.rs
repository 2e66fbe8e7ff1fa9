//! Registration of segments, and keys of those of peers.

use crate::ffi::{bits, mr_mode, Errno, Region};
use crate::memory::Learned;
use crate::rma::OneSided;
use gasnet_conduit::{
    config, ConduitError, Device, Dmabuf, JobRank, LocalSegment, Registration, RemoteSegment, SegmentMemory, Segments,
};
use gasnet_conduit_util::record::bad_key;

/// Most bytes of a long key, and of those that follow its base address.
const RAW_KEY_BYTES: usize = 256;

/// Access to segments.
const ACCESS: u64 = bits::READ | bits::WRITE | bits::REMOTE_READ | bits::REMOTE_WRITE | bits::SEND | bits::RECV;

impl OneSided {
    fn demands(&self, mode: u32) -> bool {
        self.link.endpoint.info().mr_mode() & mode != 0
    }

    /// See [`Segments::register_device`]. The error is the provider's.
    pub fn try_register_device(
        &self,
        memory: &SegmentMemory,
        device: Device,
        dmabuf: &dyn Fn() -> Option<Dmabuf>,
    ) -> Result<Registration, Errno> {
        let endpoint = &self.link.endpoint;
        let dmabuf = endpoint.info().takes_dmabufs().then(dmabuf).flatten();
        // SAFETY: the runtime keeps segments allocated until `deregister`.
        let region = unsafe { endpoint.register_device(memory, device, dmabuf.as_ref(), ACCESS) }?;
        self.publish(region)
    }

    fn publish(&self, region: Region) -> Result<Registration, Errno> {
        let key = if self.demands(mr_mode::RAW) {
            let (base, key) = region.raw_key()?;
            [&base.to_ne_bytes()[..], &key].concat()
        } else {
            region.key().to_ne_bytes().to_vec()
        };
        let segment = LocalSegment(self.segments.own.add(region));
        Ok(Registration { segment, key })
    }
}

impl Segments for OneSided {
    fn max_key_bytes(&self) -> usize {
        if self.demands(mr_mode::RAW) {
            8 + RAW_KEY_BYTES
        } else {
            8
        }
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let endpoint = &self.link.endpoint;
        // SAFETY: the runtime keeps segments mapped until `deregister`.
        let region = unsafe { endpoint.register_lasting(memory.base, memory.bytes, ACCESS) };
        region
            .and_then(|region| self.publish(region))
            .map_err(|why| ConduitError {
                message: format!(
                    "The ofi conduit cannot register {} bytes at {:#x} with {:?}: {}. {}",
                    memory.bytes,
                    memory.base,
                    endpoint.info(),
                    why.text(),
                    remedy(memory.bytes, why)
                ),
            })
    }

    fn register_device(&self, memory: &SegmentMemory, dmabuf: &dyn Fn() -> Option<Dmabuf>) -> Option<Registration> {
        let info = self.link.endpoint.info();
        let device = memory.device.filter(|_| info.takes_device_memory())?;
        let registered = self.try_register_device(memory, device, dmabuf);
        if let Err(why) = registered {
            if config::get().get_or_default(&config::VERBOSEENV) {
                gasnet_conduit::print_line(format_args!(
                    "GASNet: ofi: rank {}: {info:?} does not register {} bytes of {device}: {}. Active Messages move \
                     its data.",
                    self.link.rank,
                    memory.bytes,
                    why.text()
                ));
            }
        }
        registered.ok()
    }

    fn deregister(&self, segment: LocalSegment) {
        // SAFETY: the runtime uses the segment no more.
        drop(unsafe { self.segments.own.remove(segment.0) });
    }

    fn learn(&self, peer: JobRank, memory: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        let (first, raw) = key.split_first_chunk().ok_or_else(|| ConduitError {
            message: bad_key("ofi", peer),
        })?;
        let mut key = u64::from_ne_bytes(*first);
        if self.demands(mr_mode::RAW) {
            let mapped = self.link.endpoint.map_key(key, &mut raw.to_vec());
            key = mapped.map_err(|why| ConduitError {
                message: format!(
                    "ofi: the key of a segment of rank {peer} is refused (fi_mr_map_raw: {}).",
                    why.text()
                ),
            })?;
        }
        let base = if self.demands(mr_mode::VIRT_ADDR) {
            0
        } else {
            memory.base as u64
        };
        Ok(RemoteSegment(self.segments.learned.add(Learned { key, base })))
    }

    fn forget(&self, _: JobRank, segment: RemoteSegment) {
        // SAFETY: no operation on the segment is under way.
        let learned = unsafe { self.segments.learned.remove(segment.0) };
        if let Some(learned) = learned.filter(|_| self.demands(mr_mode::RAW)) {
            self.link.endpoint.unmap_key(learned.key);
        }
    }
}

/// Advice on a segment that a provider does not register.
fn remedy(bytes: usize, why: Errno) -> &'static str {
    // opx over HFISVC (libfabric@v2.6.0:prov/opx/src/fi_opx_mr.c).
    if why == Errno(libc::EOPNOTSUPP) && bytes > u32::MAX as usize {
        return "It takes regions below 4 GiB only: set GASNET_MAX_SEGSIZE=4095M/P.";
    }
    "Raise the locked-memory limit (ulimit -l), or lower GASNET_MAX_SEGSIZE."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::wants_registration;
    use crate::net::Net;
    use crate::settings::Choice;
    use gasnet_conduit::conformance::start_info;
    use gasnet_conduit::LocalMemory;

    const CUDA: Device = Device::Cuda(0);

    /// One rank over a provider: shm takes device memory, but Debian builds it for no vendor, and
    /// sockets takes none.
    fn with_net(provider: &str, test: impl FnOnce(&Net)) {
        let choice = Choice {
            provider: Some(provider.into()),
            device_memory: Some(true),
            ..Choice::default()
        };
        let all = [JobRank(0)];
        let net = crate::start::open(&start_info(JobRank(0), &all, &<[u8]>::to_vec), &choice).unwrap();
        assert_eq!(net.link().endpoint.info().takes_device_memory(), provider == "shm");
        test(&net);
    }

    #[test]
    fn refused_device_memory_is_left_to_messages() {
        let memory = SegmentMemory {
            base: 4096,
            bytes: 4096,
            device: Some(CUDA),
        };
        // It would take the memory for the host's.
        with_net("sockets", |net| {
            assert_eq!(net.rma.register_device(&memory, &|| None), None);
        });
        with_net("shm", |net| {
            let refused = net.rma.try_register_device(&memory, CUDA, &|| None);
            assert_eq!(refused, Err(Errno(libc::ENOSYS)));
            assert_eq!(net.rma.register_device(&memory, &|| None), None);
        });
    }

    #[test]
    fn large_segments_have_their_own_advice() {
        let unsupported = Errno(libc::EOPNOTSUPP);
        assert!(remedy(1 << 32, unsupported).contains("GASNET_MAX_SEGSIZE=4095M/P"));
        for (bytes, why) in [(1 << 20, unsupported), (1 << 32, Errno(libc::ENOMEM))] {
            assert!(remedy(bytes, why).contains("ulimit -l"));
        }
    }

    #[test]
    fn memory_of_segments_has_a_descriptor() {
        with_net("shm", |net| {
            assert!(!wants_registration(net.link().endpoint.info()));
            // It stands for memory of a device, which this host lacks.
            let room = vec![0_u8; 4096];
            let memory = SegmentMemory::host(room.as_ptr() as usize, room.len());
            let segment = net.rma.register(&memory).unwrap().segment;
            let descriptor = |device| {
                let address = memory.base + 8;
                let memory = LocalMemory {
                    address,
                    segment,
                    device,
                };
                let local = net.rma.segments.local(&net.link().endpoint, &memory, 16);
                local.unwrap().descriptor
            };
            assert!(!descriptor(None).is_null() && !descriptor(Some(CUDA)).is_null());
            net.rma.deregister(segment);
        });
    }
}
