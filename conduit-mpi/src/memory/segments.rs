//! Registration of segments.

use super::{Attached, Memory};
use crate::ffi::{Failure, Handle};
use crate::link::Link;
use gasnet_conduit::{ConduitError, JobRank, LocalSegment, Registration, RemoteSegment, SegmentMemory, Segments};
use gasnet_sys::lock;

impl<H: Handle> Link<H> {
    fn memory(&self) -> &Memory<H> {
        self.memory.as_ref().expect("defect: segments without a window")
    }

    /// Attaches a segment, unless it lies inside another. Returns the number of the memory.
    fn attach(&self, memory: &SegmentMemory) -> Result<u32, Failure> {
        let own = self.memory();
        let mut attached = lock(&own.attached);
        if let Some(around) = attached.iter_mut().find(|around| around.covers(memory)) {
            around.segments += 1;
            return Ok(around.number);
        }
        let turn = self.turn();
        // SAFETY: the runtime keeps segments mapped until `deregister`, and this thread has MPI.
        unsafe { own.window.attach(memory.base, memory.bytes) }?;
        drop(turn);
        let number = attached.last().map_or(0, |last| last.number + 1);
        attached.push(Attached {
            number,
            memory: *memory,
            segments: 1,
        });
        Ok(number)
    }
}

impl<H: Handle> Segments for Link<H> {
    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let number = self.attach(memory).map_err(|Failure(why)| ConduitError {
            message: format!(
                "The mpi conduit cannot register {} bytes at {:#x}: {why}. GASNET_MPI_RMA=0 needs no registration.",
                memory.bytes, memory.base
            ),
        })?;
        let segment = LocalSegment(number);
        Ok(Registration {
            segment,
            key: Vec::new(),
        })
    }

    fn deregister(&self, segment: LocalSegment) {
        let own = self.memory();
        let mut attached = lock(&own.attached);
        let Some(index) = attached.iter().position(|memory| memory.number == segment.0) else {
            return;
        };
        attached[index].segments -= 1;
        if attached[index].segments > 0 {
            return;
        }
        let memory = attached.remove(index).memory;
        if let Some(_turn) = self.turn() {
            // SAFETY: attached, and this thread has MPI.
            unsafe { own.window.detach(memory.base) };
        }
    }

    fn learn(&self, _: JobRank, _: &SegmentMemory, _: &[u8]) -> Result<RemoteSegment, ConduitError> {
        Ok(RemoteSegment(0))
    }
}
