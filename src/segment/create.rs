//! Segments beyond the attached one (GASNet-EX Memory Kinds 2025.8, "gex_Segment_Create",
//! "gex_EP_BindSegment").

use std::ptr;

use super::{register, register_device, segment_memory, Memory, Segment};
use crate::endpoint;
use crate::graveyard::Graveyard;
use crate::mk::{MemoryKind, Refusal};
use crate::runtime::Runtime;
use crate::sync::Mode;
use crate::thread;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::{mem, process};

/// Destroyed segments.
pub static DESTROYED: Graveyard = Graveyard::new();

/// Destroyed segments that are still allocated. An operation of another thread may have loaded the
/// pointer from the endpoint before it was unbound ([`endpoint::Endpoint::bound`]), so they are
/// freed only when no other thread can be inside GASNet.
struct Retired(Mutex<Vec<Unbound>>);

/// A segment that no endpoint has any more.
struct Unbound(&'static Segment);

static RETIRED: Retired = Retired(Mutex::new(Vec::new()));

/// Threads that may have loaded a pointer to a segment; 0 if that is unknown. Without PAR there is
/// one, and the client orders its calls. In PAR, add those of the library that run handlers
/// (`GASNET_RCV_THREAD`), which count as none of the client's.
///
/// The caller has cleared the pointers. Among the client's threads, which the kernel counts, one
/// that is counted no more, or not yet, has none: it has ended, or the caller will start it.
fn readers() -> u32 {
    if Mode::get() != Mode::Par {
        return 1;
    }
    let own = thread::readers_of_library() as u32;
    match process::client_threads() {
        0 => 0,
        clients => clients + own,
    }
}

impl Retired {
    /// Takes a segment, and frees all if the calling thread is the only one of `threads`. Returns
    /// how many stay.
    ///
    /// # Safety
    /// The segment was made by [`Segment::leak`] and is bound to no endpoint. `threads` counts the
    /// calling thread and those that may have loaded a pointer to it or to an earlier one.
    unsafe fn retire(&self, segment: &'static Segment, threads: u32) -> usize {
        let mut retired = gasnet_sys::lock(&self.0);
        retired.push(Unbound(segment));
        if threads == 1 {
            for Unbound(segment) in retired.drain(..) {
                // SAFETY: leaked from a Box, and nobody has a pointer to it any more (contract).
                drop(unsafe { Box::from_raw(ptr::from_ref(segment).cast_mut()) });
            }
        }
        retired.len()
    }
}

/// Makes a segment of host memory: the client's `bytes` at `address`, or, when that is null, memory
/// of the library's. The error is a message.
pub fn create(rt: &Runtime, address: usize, bytes: usize) -> Result<&'static Segment, String> {
    let _whole = gasnet_sys::cancel::disable();
    let (base, bytes, memory) = if address == 0 {
        let page = mem::segment_page();
        let bytes = bytes.next_multiple_of(page);
        let base = mem::map_private_aligned(bytes, page)
            .map_err(|why| format!("cannot map {bytes} bytes for a segment: {why}"))?;
        (base, bytes, Memory::Mapped)
    } else {
        (address, bytes, Memory::Client)
    };
    let registered = register(&rt.abilities, &segment_memory(base, bytes, None)).map_err(|why| {
        if memory == Memory::Mapped {
            // SAFETY: mapped above, for this segment alone.
            unsafe { mem::unmap(base, bytes) };
        }
        why.message
    })?;
    Ok(Segment::leak(base, bytes, memory, registered, None))
}

/// Makes a segment of device memory: the client's `bytes` at `address`, or, when that is null,
/// memory that the device allocates. `kind` is held for it already, and released if this fails.
pub fn create_on_device(
    rt: &Runtime,
    address: usize,
    bytes: usize,
    kind: &'static MemoryKind,
) -> Result<&'static Segment, Refusal> {
    let _whole = gasnet_sys::cancel::disable();
    let made = on_device(rt, address, bytes, kind);
    made.inspect_err(|_| kind.release())
}

fn on_device(
    rt: &Runtime,
    address: usize,
    bytes: usize,
    kind: &'static MemoryKind,
) -> Result<&'static Segment, Refusal> {
    let (base, memory) = if address == 0 {
        let base = kind.driver().allocate(bytes).map_err(|why| {
            Refusal::Resource(format!(
                "cannot allocate {bytes} bytes of {kind}: {why}. Other processes may use the device, too"
            ))
        })?;
        (base, Memory::Device)
    } else {
        kind.driver().check(address, bytes).map_err(|why| {
            Refusal::Argument(format!(
                "the {bytes} bytes at {address:#x} are not memory of {kind}: {why}. The address of a device segment is \
                 one that the device allocated"
            ))
        })?;
        (address, Memory::Client)
    };
    let registered = register_device(&rt.abilities, &segment_memory(base, bytes, Some(kind)), kind);
    Ok(Segment::leak(base, bytes, memory, registered, Some(kind)))
}

fn give_back(kind: &MemoryKind, base: usize, memory: Memory) {
    if memory == Memory::Device {
        if let Err(why) = kind.driver().free(base) {
            gasnet_tools::process::warn(format_args!("cannot free memory of {kind}: {why}"));
        }
    }
}

/// Ends a segment and returns its memory to its source.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn destroy(rt: &Runtime, segment: &'static Segment) {
    let _whole = gasnet_sys::cancel::disable();
    endpoint::unbind(rt.endpoint0, segment);
    if let (Some(segments), Some(registration)) = (rt.abilities.segments, &segment.registration) {
        if let Some(learned) = segment.learned.get() {
            thread::in_conduit(|| segments.forget(rt.rank, learned));
        }
        thread::in_conduit(|| segments.deregister(registration.segment));
    }
    let (base, bytes, memory, kind) = (segment.base, segment.bytes, segment.memory, segment.kind);
    if cfg!(feature = "debug-checks") {
        // Stays, so that its later use is noticed.
        DESTROYED.bury(segment);
    } else {
        // SAFETY: `create` leaked it from a Box, it is unbound, and the client does not use it any
        // more (contract).
        unsafe { RETIRED.retire(segment, readers()) };
    }
    if memory == Memory::Mapped {
        // SAFETY: `create` mapped it for this segment alone.
        unsafe { mem::unmap(base, bytes) };
    }
    if let Some(kind) = kind {
        give_back(kind, base, memory);
        kind.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destroyed_segment_outlives_the_threads_that_may_read_it() {
        let retired = Retired(Mutex::new(Vec::new()));
        let endpoint = endpoint::Endpoint::leak(1, crate::flags::Flags::NONE);
        let bytes = |n| &*Segment::leak(0x1000, n, Memory::Client, None, None);
        assert!(endpoint.bind(bytes(1)));
        let seen = endpoint.bound();
        endpoint
            .segment
            .store(ptr::null_mut(), std::sync::atomic::Ordering::Release);
        for (n, threads) in [(2, 2), (3, 0)] {
            // SAFETY: bound to no endpoint, and not used any more.
            assert_eq!(unsafe { retired.retire(bytes(n), threads) }, n - 1);
        }
        // SAFETY: as above; the other thread that has a pointer is counted.
        assert_eq!(unsafe { retired.retire(seen.unwrap(), 2) }, 3);
        assert_eq!(seen.map(|segment| segment.bytes), Some(1));
        // SAFETY: bound to no endpoint, and nobody uses one any more.
        assert_eq!(unsafe { retired.retire(bytes(4), 1) }, 0);
    }
}
