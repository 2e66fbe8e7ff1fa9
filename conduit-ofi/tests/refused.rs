//! Calls that providers refuse although their records promise them: the conduit goes another way.

mod strict;

use gasnet_conduit::conformance::{expose, put, Job};
use gasnet_conduit::SourceUse;
use gasnet_conduit::{Class, Cookie, JobRank, LocalMemory, LocalSegment, Network, Put, RemoteMemory, SegmentMemory};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use strict::{over_strict_provider, poll_until, take, Report};

const BYTES: usize = 100_000;

/// Memory that only a process with another mapping could write. Mapped until the process ends.
fn read_only() -> &'static [u8] {
    // SAFETY: new memory, which nobody writes any more when it is shared.
    unsafe {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let base = libc::mmap(std::ptr::null_mut(), BYTES, access, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED);
        for index in 0..BYTES {
            base.cast::<u8>().add(index).write((index * 7) as u8);
        }
        assert_eq!(libc::mprotect(base, BYTES, libc::PROT_READ), 0);
        std::slice::from_raw_parts(base.cast(), BYTES)
    }
}

/// Puts `source`, also as the payload of a Long.
fn put_all(network: &dyn Network, target: RemoteMemory, source: &[u8]) {
    let (mut report, cookie) = (Report::default(), Cookie::new(1));
    for bytes in [3000, 20_000, BYTES] {
        for source_use in [SourceUse::Now, SourceUse::Later] {
            let before = report.done;
            take(network, &mut report, || {
                put(network, target, &source[..bytes], source_use, cookie).is_ok()
            });
            poll_until(network, &mut report, |report| {
                report.done > before || !report.lost.is_empty()
            });
        }
    }
    let long = Put {
        to: target,
        from: LocalMemory {
            address: source.as_ptr() as usize,
            segment: LocalSegment::NONE,
            device: None,
        },
        bytes: source.len(),
        source: SourceUse::Later,
        cookie,
    };
    let (notify, before) = (network.abilities().put_notify.unwrap(), report.done);
    take(network, &mut report, || {
        notify.put_and_notify(&long, None, Class::Request, &[&[7; 16]]).is_ok()
    });
    poll_until(network, &mut report, |report| {
        report.done > before || !report.lost.is_empty()
    });
    assert!(report.lost.is_empty(), "{:?}", report.lost);
}

/// A put and a Long from memory that this provider does not register.
fn are_copied(plan: &'static str) {
    let job = Job::start(&|| over_strict_provider(plan), 2);
    let memory = vec![0_u64; BYTES / 8];
    let segment = SegmentMemory::host(memory.as_ptr() as usize, BYTES);
    let target = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]).1[0];
    let (source, over) = (read_only(), AtomicBool::new(false));
    job.run(|rank, network| {
        if rank == JobRank(0) {
            put_all(network, target, source);
        }
        let mut report = Report::default();
        if rank == JobRank(1) {
            poll_until(network, &mut report, |report| report.done > 0);
            // SAFETY: the Long was the last to write.
            let arrived = unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<u8>(), BYTES) };
            assert!(arrived == source, "{plan}: other bytes arrived");
            over.store(true, SeqCst);
        }
        poll_until(network, &mut report, |_| over.load(SeqCst));
    });
    job.stop();
}

#[test]
fn sources_that_are_not_registered_are_copied() {
    are_copied("no=read_only demand=mr_local;tcp;ofi_rxm");
    are_copied("no=read_only;tcp;ofi_rxm");
    are_copied("no=read_only max_msg=70000 eagain=30;tcp;ofi_rxm");
    are_copied("no=read_only demand=mr_local max_msg=70000;tcp;ofi_rxm");
}
