//! Memory outside segments that cannot be registered.

use crate::driver::{child, start_job, Driver};
use gasnet_conduit::conformance::{expose, get, put};
use gasnet_conduit::{Busy, Cookie, JobRank, Network, SegmentMemory, SourceUse};
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Memory for local buffers, in a mapping that has a name by which the emulator refuses it.
struct Named(usize, usize);

impl Named {
    fn new(bytes: usize) -> Self {
        // SAFETY: a new file of this size, and a new mapping of it.
        unsafe {
            let file = libc::memfd_create(c"unregistrable".as_ptr(), 0);
            assert_eq!(libc::ftruncate(file, bytes as i64), 0);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let base = libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file, 0);
            assert_ne!(base, libc::MAP_FAILED);
            libc::close(file);
            Self(base as usize, bytes)
        }
    }

    /// Bytes in it. It is never unmapped.
    fn slice(&mut self, offset: usize, bytes: usize) -> &'static mut [u8] {
        assert!(offset + bytes <= self.1);
        // SAFETY: mapped for ever, and the test uses no part twice at a time.
        unsafe { std::slice::from_raw_parts_mut((self.0 + offset) as *mut u8, bytes) }
    }
}

/// Sizes of transfers, and where they begin at both ends.
const SIZES: [usize; 7] = [1, 3, 7, 4095, 4097, 65535, (1 << 20) + 5];

const OFFSETS: [(usize, usize); 4] = [(0, 0), (1, 3), (4093, 2), (7, 4096)];

/// Bytes for a transfer.
const AREA: usize = (1 << 20) + 8192;

/// Registers memory with a conduit until nothing more can be registered.
fn exhaust(network: &dyn Network) {
    let segments = network.abilities().segments.unwrap();
    let mut bytes = 64 << 20;
    while bytes >= 4096 {
        let ballast = Named::new(bytes);
        if segments.register(&SegmentMemory::host(ballast.0, bytes)).is_err() {
            bytes /= 2;
        }
    }
}

/// Rank 0 puts from and gets into memory outside segments. Prints how it cannot be registered.
#[test]
#[ignore = "a child of other tests"]
fn copies() {
    let job = start_job();
    let bytes = OFFSETS.len() * AREA;
    let (mut memory, mut local) = (vec![0_u8; bytes], Named::new(2 * bytes));
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, bytes);
    let (_, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let (lost, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let network = job.of(0);
    if std::env::var_os("FAULTS_EXHAUST").is_some() {
        exhaust(network);
    }
    let registered = network
        .abilities()
        .segments
        .unwrap()
        .register(&SegmentMemory::host(local.0, AREA));
    eprintln!("{}", registered.map_or_else(|why| why.message, |_| "registered".into()));
    let mut rank = Driver::new(JobRank(0), network, &lost, &requests);
    let pattern: Vec<u8> = (0..AREA).map(|place| (place * 7 + place / 251) as u8).collect();
    for (round, size) in SIZES.into_iter().enumerate() {
        for source_use in [SourceUse::Now, SourceUse::Later] {
            memory.fill(0xee);
            local.slice(0, 2 * bytes).fill(0xdd);
            let before = rank.done;
            for (index, (here, there)) in OFFSETS.into_iter().enumerate() {
                let source = local.slice(index * AREA + here, size);
                source.copy_from_slice(&pattern[7 * round + index..][..size]);
                let to = targets[0].plus(index * AREA + there);
                let start = |rank: &mut Driver| put(rank.network, to, source, source_use, Cookie::new(1)) != Err(Busy);
                assert!(rank.wait("a put", start));
            }
            assert!(rank.wait("puts", |rank| rank.done == before + OFFSETS.len()));
            for (index, (here, there)) in OFFSETS.into_iter().enumerate() {
                let destination = local.slice(bytes + index * AREA + here, size);
                let from = targets[0].plus(index * AREA + there);
                let start = |rank: &mut Driver| get(rank.network, from, destination, Cookie::new(1)) != Err(Busy);
                assert!(rank.wait("a get", start));
            }
            assert!(rank.wait("gets", |rank| rank.done == before + 2 * OFFSETS.len()));
            for (index, (here, there)) in OFFSETS.into_iter().enumerate() {
                let source = local.slice(index * AREA + here, size);
                let mut expected = vec![0xee; AREA];
                expected[there..there + size].copy_from_slice(source);
                assert!(
                    memory[index * AREA..][..AREA] == expected,
                    "a put of {size} bytes from {here} to {there}"
                );
                let mut expected = vec![0xdd; AREA];
                expected[here..here + size].copy_from_slice(source);
                let got = local.slice(bytes + index * AREA, AREA);
                assert!(got == expected, "a get of {size} bytes from {there} to {here}");
            }
        }
    }
    eprintln!("all is copied");
    job.stop();
}

/// Transfers of memory that cannot be registered, for this reason.
fn expect_copies(options: &str, variables: &str, reason: &str) {
    for more in ["", "late reorder", "flavour=gemini late"] {
        let options = format!("{options} {more}");
        let printed = child("registrations::copies", &options, variables);
        let refusal = |line: &&str| line.starts_with("The gni conduit cannot register ");
        let refusal = printed.lines().find(refusal).unwrap_or_default();
        let cannot = format!("cannot register {AREA} bytes at 0x");
        assert!(
            reason.is_empty() || refusal.contains(&cannot) && refusal.contains(reason),
            "{options}: {printed}"
        );
        assert!(printed.contains("all is copied"), "{options}: {printed}");
    }
}

#[test]
fn memory_that_cannot_be_registered_is_copied() {
    expect_copies(
        "reg-invalid=unregistrable",
        "",
        ": GNI_RC_INVALID_PARAM. GASNET_MAX_SEGSIZE",
    );
    expect_copies(
        "reg-invalid=unregistrable",
        "GASNET_GNI_BOUNCE_SIZE=1",
        ": GNI_RC_INVALID_PARAM. ",
    );
}

#[test]
fn transfers_without_memory_to_register_are_copied() {
    let exhaust = "FAULTS_EXHAUST=1";
    expect_copies(
        "reg-bytes=100000000",
        exhaust,
        ": GNI_RC_ERROR_RESOURCE. GASNET_MAX_SEGSIZE",
    );
    expect_copies("mdd=12", exhaust, ": GNI_RC_ERROR_RESOURCE. ");
}

/// Puts from pages of rank 0 that others replace between two puts, and reports the sum of the bytes
/// that arrived.
#[test]
#[ignore = "a child of other tests"]
fn replaced_pages() {
    const BYTES: usize = 256 << 10;
    let (job, mut memory) = (start_job(), vec![0_u8; BYTES]);
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, BYTES);
    let target = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]).1[0];
    let (lost, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut rank = Driver::new(JobRank(0), job.of(0), &lost, &requests);
    let map = |at: *mut libc::c_void, more| {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new memory, or in place of memory of this test.
        let pages = unsafe { libc::mmap(at, BYTES, access, flags | more, -1, 0) };
        assert_ne!(pages, libc::MAP_FAILED);
        pages
    };
    let pages = map(std::ptr::null_mut(), 0);
    for round in 1..=2 {
        // SAFETY: mapped above, and no operation uses it now.
        let source = unsafe { std::slice::from_raw_parts_mut(pages.cast::<u8>(), BYTES) };
        source.fill(round);
        let begun =
            |rank: &mut Driver| put(rank.network, target, source, SourceUse::Later, Cookie::new(1)) != Err(Busy);
        assert!(rank.wait("a put", begun));
        assert!(rank.wait("its end", |rank| rank.done == usize::from(round)));
        assert!(
            memory.iter().all(|byte| *byte == round),
            "round {round}: other bytes arrived"
        );
        // The old pages stay in use elsewhere, so that new ones have other frames.
        let kept = map(std::ptr::null_mut(), 0);
        // SAFETY: moves memory of this test.
        let moved = unsafe {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            libc::mremap(pages, BYTES, BYTES, flags, kept)
        };
        assert_eq!(moved, kept);
        map(pages, libc::MAP_FIXED);
    }
    eprintln!("new pages are put");
    job.stop();
}

/// The NIC uses the pages that memory had when it was registered.
#[test]
fn registrations_do_not_outlive_their_operations() {
    let printed = child("registrations::replaced_pages", "stale-pages", "");
    assert!(printed.contains("new pages are put"), "{printed}");
}

/// Rank 0 gets into memory that its put is reading: the bytes are the same.
#[test]
#[ignore = "a child of other tests"]
fn gets_beside_puts() {
    const BYTES: usize = 256 << 10;
    let (job, mut memory) = (start_job(), vec![7_u8; BYTES]);
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, BYTES);
    let target = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]).1[0];
    let (lost, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut rank = Driver::new(JobRank(0), job.of(0), &lost, &requests);
    let mut local = vec![7_u8; BYTES];
    for round in 1..=20 {
        let begun =
            |rank: &mut Driver| put(rank.network, target, &local, SourceUse::Later, Cookie::new(1)) != Err(Busy);
        assert!(rank.wait("a put", begun));
        let begun = |rank: &mut Driver| get(rank.network, target, &mut local, Cookie::new(1)) != Err(Busy);
        assert!(rank.wait("a get", begun));
        assert!(rank.wait("their end", |rank| rank.done == 2 * round));
    }
    assert!(memory == local && memory.iter().all(|byte| *byte == 7));
    eprintln!("all is got");
    job.stop();
}

/// A registration for reading is not shared with a get.
#[test]
fn puts_and_gets_share_no_registration() {
    let printed = child("registrations::gets_beside_puts", "late delay=3000", "");
    assert!(
        printed.contains("all is got") && !printed.contains("registered for reading"),
        "{printed}"
    );
}

#[test]
fn registrations_that_fail_now_and_then() {
    expect_copies("reg-busy=50", "", "");
    for nth in 1..=9 {
        let printed = child("registrations::copies", &format!("reg-fail={nth}"), "");
        assert!(printed.contains("all is copied"), "{nth}: {printed}");
    }
}
