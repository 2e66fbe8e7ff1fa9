//! Registered memory and keys.

use crate::ffi::{bits, mr_mode, Endpoint, Errno, Info, Region, Remote, Source};
use gasnet_conduit::{
    ConduitError, Device, Dmabuf, JobRank, LocalMemory, LocalSegment, Registration, RemoteMemory, RemoteSegment,
    SegmentMemory,
};
use gasnet_conduit_util::slot_table::SlotTable;

/// Most bytes of a long key, and of those that follow its base address.
const RAW_KEY_BYTES: usize = 256;

/// Access to segments.
const ACCESS: u64 = bits::READ | bits::WRITE | bits::REMOTE_READ | bits::REMOTE_WRITE | bits::SEND | bits::RECV;

/// Whether local host memory of operations must be registered.
pub fn wants_registration(info: &Info) -> bool {
    info.mr_mode() & mr_mode::LOCAL != 0
}

/// Segments of this process, and those of peers that it has learned.
#[derive(Default)]
pub struct Segments {
    own: SlotTable<Region>,
    learned: SlotTable<Learned>,
}

/// A segment of a peer.
struct Learned {
    key: u64,
    /// Subtracted from addresses: providers without `FI_MR_VIRT_ADDR` take offsets.
    base: u64,
}

impl Segments {
    /// Most bytes of a key.
    pub fn max_key_bytes(info: &Info) -> usize {
        match info.mr_mode() & mr_mode::RAW {
            0 => 8,
            _ => 8 + RAW_KEY_BYTES,
        }
    }

    /// See [`gasnet_conduit::Segments::register`].
    pub fn register(&self, endpoint: &Endpoint, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let refused = |why: Errno| ConduitError {
            message: format!(
                "The ofi conduit cannot register {} bytes at {:#x} with {:?}: {}. {}",
                memory.bytes,
                memory.base,
                endpoint.info(),
                why.text(),
                remedy(memory.bytes, why)
            ),
        };
        // SAFETY: the runtime keeps segments mapped until `deregister`.
        let region = unsafe { endpoint.register(memory.base, memory.bytes, ACCESS) };
        region
            .and_then(|region| self.publish(endpoint, region))
            .map_err(refused)
    }

    /// See [`gasnet_conduit::Segments::register_device`]. The error is the provider's.
    pub fn register_device(
        &self,
        endpoint: &Endpoint,
        memory: &SegmentMemory,
        device: Device,
        dmabuf: &dyn Fn() -> Option<Dmabuf>,
    ) -> Result<Registration, Errno> {
        let dmabuf = endpoint.info().takes_dmabufs().then(dmabuf).flatten();
        // SAFETY: the runtime keeps segments allocated until `deregister`.
        let region = unsafe { endpoint.register_device(memory, device, dmabuf.as_ref(), ACCESS) }?;
        self.publish(endpoint, region)
    }

    fn publish(&self, endpoint: &Endpoint, region: Region) -> Result<Registration, Errno> {
        let key = if endpoint.info().mr_mode() & mr_mode::RAW == 0 {
            region.key().to_ne_bytes().to_vec()
        } else {
            let (base, key) = region.raw_key()?;
            [&base.to_ne_bytes()[..], &key].concat()
        };
        let segment = LocalSegment(self.own.add(region));
        Ok(Registration { segment, key })
    }

    /// See [`gasnet_conduit::Segments::deregister`].
    pub fn deregister(&self, segment: LocalSegment) {
        // SAFETY: the runtime uses the segment no more.
        drop(unsafe { self.own.remove(segment.0) });
    }

    /// See [`gasnet_conduit::Segments::learn`].
    pub fn learn(
        &self,
        endpoint: &Endpoint,
        peer: JobRank,
        memory: &SegmentMemory,
        key: &[u8],
    ) -> Result<RemoteSegment, ConduitError> {
        let wrong = |why: &str| ConduitError {
            message: format!("The ofi conduit cannot use the key of a segment of rank {peer}: {why}."),
        };
        let (first, raw) = key.split_first_chunk().ok_or_else(|| wrong("it is too short"))?;
        let first = u64::from_ne_bytes(*first);
        let mode = endpoint.info().mr_mode();
        let key = if mode & mr_mode::RAW == 0 {
            first
        } else {
            let mapped = endpoint.map_key(first, &mut raw.to_vec());
            mapped.map_err(|why| wrong(&format!("fi_mr_map_raw: {}", why.text())))?
        };
        let base = if mode & mr_mode::VIRT_ADDR == 0 {
            memory.base as u64
        } else {
            0
        };
        Ok(RemoteSegment(self.learned.add(Learned { key, base })))
    }

    /// See [`gasnet_conduit::Segments::forget`].
    pub fn forget(&self, endpoint: &Endpoint, segment: RemoteSegment) {
        // SAFETY: no operation on the segment is under way.
        let learned = unsafe { self.learned.remove(segment.0) };
        if let Some(learned) = learned.filter(|_| endpoint.info().mr_mode() & mr_mode::RAW != 0) {
            endpoint.unmap_key(learned.key);
        }
    }

    /// The remote side of an operation, with the peer's number in the address vector.
    #[inline]
    pub fn remote(&self, memory: &RemoteMemory, peer: u64) -> Remote {
        // SAFETY: the runtime forgets a segment only when no operation uses it.
        let learned = unsafe { self.learned.get(memory.segment.0) };
        let learned = learned.unwrap_or_else(|| panic!("defect: {memory:?} was not learned"));
        Remote {
            peer,
            address: memory.address as u64 - learned.base,
            key: learned.key,
        }
    }

    /// The local side of an operation. None if it must be registered first.
    #[inline]
    pub fn local(&self, endpoint: &Endpoint, memory: &LocalMemory, bytes: usize) -> Option<Source> {
        // SAFETY: the runtime deregisters a segment only when no operation uses it.
        let region = unsafe { self.own.get(memory.segment.0) };
        let needs_none = memory.device.is_none() && !wants_registration(endpoint.info());
        // efa looks memory up that it gets no descriptor of, although it demands none.
        let descriptor = match region {
            Some(region) => region.descriptor(),
            None if needs_none => std::ptr::null_mut(),
            None => return None,
        };
        Some(Source {
            address: memory.address,
            bytes,
            descriptor,
        })
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
    use crate::net::Net;
    use crate::settings::Choice;
    use gasnet_conduit::conformance::start_info;

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
            assert_eq!(gasnet_conduit::Segments::register_device(net, &memory, &|| None), None);
        });
        with_net("shm", |net| {
            let refused = net
                .rma()
                .segments()
                .register_device(&net.link().endpoint, &memory, CUDA, &|| None);
            assert_eq!(refused, Err(Errno(libc::ENOSYS)));
            assert_eq!(gasnet_conduit::Segments::register_device(net, &memory, &|| None), None);
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
            let segment = net
                .rma()
                .segments()
                .register(&net.link().endpoint, &memory)
                .unwrap()
                .segment;
            let descriptor = |device| {
                let address = memory.base + 8;
                let memory = LocalMemory {
                    address,
                    segment,
                    device,
                };
                net.rma()
                    .segments()
                    .local(&net.link().endpoint, &memory, 16)
                    .unwrap()
                    .descriptor
            };
            assert!(!descriptor(None).is_null() && !descriptor(Some(CUDA)).is_null());
            net.rma().segments().deregister(segment);
        });
    }
}
