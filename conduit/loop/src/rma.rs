//! Starting puts, gets and atomics. Numbers that name no memory are defects of the caller.

use crate::device::Mapping;
use crate::memory::{Memory, KEY_BYTES};
use crate::queue::{Kind, Operation, Source};
use crate::replies;
use crate::send::check_packet;
use crate::start::Net;
use gasnet_conduit::{
    atomic_codes as codes, Atomic, Atomics, Busy, Class, ConduitError, Dmabuf, Get, JobRank, LocalCompletion,
    LocalSegment, Put, PutNotify, Registration, RemoteMemory, RemoteSegment, Rma, SegmentMemory, Segments, SendBuffer,
    SourceUse,
};
use gasnet_sys::lock;
use std::sync::atomic::Ordering::Relaxed;

/// Most bytes of a source that is copied when the initiating thread waits for it.
pub const COPY_LIMIT: usize = 2 << 10;
/// Most bytes of a Long whose payload travels in its packet.
const PACKED_LIMIT: usize = 512;

impl Segments for Net {
    fn max_key_bytes(&self) -> usize {
        KEY_BYTES
    }

    fn max_bytes(&self) -> usize {
        self.pinned.share()
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        self.pinned.take(memory.bytes)?;
        Ok(lock(&self.keys).register(memory, None))
    }

    fn register_device(&self, memory: &SegmentMemory, dmabuf: &dyn Fn() -> Option<Dmabuf>) -> Option<Registration> {
        let mapping = Mapping::new(dmabuf()?, memory.bytes)?;
        Some(lock(&self.keys).register(memory, Some(mapping)))
    }

    fn deregister(&self, segment: LocalSegment) {
        let bytes = lock(&self.keys).deregister(segment);
        self.pinned.give_back(bytes);
    }

    fn learn(&self, peer: JobRank, memory: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        Ok(lock(&self.keys).learn(peer, memory, key))
    }

    fn forget(&self, peer: JobRank, segment: RemoteSegment) {
        lock(&self.keys).forget(peer, segment);
    }
}

impl Net {
    /// The key for the remote side of an operation. Busy if its owner has stopped or is lost, which
    /// ends the job.
    fn remote_key(&self, remote: &RemoteMemory) -> Result<u64, Busy> {
        let key = lock(&self.keys).key(remote);
        if self.stopped.load(Relaxed) || !self.is_present(remote.peer) {
            return Err(Busy);
        }
        Ok(key)
    }

    fn start_put(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        notice: Option<(Class, &[&[u8]])>,
    ) -> Result<LocalCompletion, Busy> {
        assert!(put.bytes > 0, "defect: a put of no bytes");
        let local = lock(&self.keys).local(&put.from, put.bytes);
        let key = self.remote_key(&put.to)?;
        let copies = reserved.is_none() && put.source == SourceUse::Now && put.bytes <= COPY_LIMIT;
        let class = notice.map(|(class, _)| class);
        let buffer = reserved.map(|buffer| buffer.0 as usize).zip(class);
        if let Some((address, class)) = buffer {
            lock(&self.buffers).send(address, put.to.peer, class);
        }
        let operation = || Operation {
            kind: Kind::Put,
            peer: put.to.peer,
            key,
            remote: put.to.address,
            local,
            bytes: put.bytes,
            cookie: put.cookie,
            source: if copies {
                // SAFETY: the caller keeps the source until local completion.
                Source::Copied(unsafe { Memory::new(local, put.bytes) }.read())
            } else if let Some((address, _)) = buffer {
                Source::Reserved(address)
            } else {
                Source::InUse
            },
            notice: notice.map(|(class, parts)| (class, parts.concat())),
        };
        let posted = lock(&self.queue).start(put.to.peer, class, operation);
        if let (Err(Busy), Some((address, class))) = (posted, buffer) {
            lock(&self.buffers).keep(address, put.to.peer, class);
        }
        posted?;
        if let Some(class) = class {
            replies::note(put.to.peer, class);
        }
        self.ring();
        Ok(if copies || buffer.is_some() {
            LocalCompletion::AtReturn
        } else {
            LocalCompletion::Later
        })
    }
}

impl Rma for Net {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        self.start_put(put, None, None)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        assert!(get.bytes > 0, "defect: a get of no bytes");
        let local = lock(&self.keys).local(&get.to, get.bytes);
        let key = self.remote_key(&get.from)?;
        let operation = || Operation {
            kind: Kind::Get,
            peer: get.from.peer,
            key,
            remote: get.from.address,
            local,
            bytes: get.bytes,
            cookie: get.cookie,
            source: Source::InUse,
            notice: None,
        };
        lock(&self.queue).start(get.from.peer, None, operation)?;
        self.ring();
        Ok(())
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        PACKED_LIMIT
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        check_packet(parts.iter().map(|part| part.len()).sum());
        self.start_put(put, reserved, Some((class, parts)))
    }
}

impl Atomics for Net {
    fn supports(&self, dt: u32, op: u32) -> bool {
        codes::operations(dt) & op != 0
    }

    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        let Atomic { dt, op, operands, .. } = *atomic;
        let key = self.remote_key(&atomic.target)?;
        let operation = || Operation {
            kind: Kind::Atomic { dt, op, operands },
            peer: atomic.target.peer,
            key,
            remote: atomic.target.address,
            local: atomic.fetched as usize,
            bytes: codes::bytes(dt),
            cookie: atomic.cookie,
            source: Source::InUse,
            notice: None,
        };
        lock(&self.queue).start(atomic.target.peer, None, operation)?;
        self.ring();
        Ok(())
    }
}
