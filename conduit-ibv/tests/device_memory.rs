//! Memory of a device, over emulators that take it as a dmabuf, by its address, or not at all.

mod emulated;

use gasnet_conduit::conformance::{Completed, Job};
use gasnet_conduit::{
    Busy, Cookie, Device, Dmabuf, Get, JobRank, LocalMemory, Network, PollScope, Put, Registration, RemoteMemory,
    SegmentMemory, SourceUse,
};
use gasnet_conduit_ibv::Ibv;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Offset of a segment in its memory, so that nothing of it is aligned.
const FIRST: usize = 5001;
/// More than one region where an HCA registers 2 MiB at a time.
const BYTES: usize = (5 << 20) + 3;

/// Memory that nobody may touch at its address. Mapped until the process ends.
struct Fake {
    segment: SegmentMemory,
    file: File,
}

impl Fake {
    fn new() -> Self {
        // SAFETY: plain calls; the descriptor is a new one.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"device".as_ptr(), libc::MFD_CLOEXEC)) };
        let bytes = (FIRST + BYTES).next_multiple_of(4096);
        file.set_len(bytes as u64).unwrap();
        let (access, flags) = (libc::PROT_NONE, libc::MAP_SHARED);
        // SAFETY: a new mapping.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, file.as_raw_fd(), 0) };
        assert_ne!(base, libc::MAP_FAILED);
        let segment = SegmentMemory {
            base: base as usize + FIRST,
            bytes: BYTES,
            device: Some(Device::Cuda(0)),
        };
        Self { segment, file }
    }

    fn register(&self, network: &dyn Network) -> Option<Registration> {
        let dmabuf = || {
            let fd = self.file.try_clone().unwrap().into();
            Some(Dmabuf { fd, offset: FIRST })
        };
        network
            .abilities()
            .segments
            .unwrap()
            .register_device(&self.segment, &dmabuf)
    }

    fn write(&self, offset: usize, data: &[u8]) {
        self.file.write_all_at(data, (FIRST + offset) as u64).unwrap();
    }

    fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.file.read_exact_at(&mut data, (FIRST + offset) as u64).unwrap();
        data
    }
}

/// Starts an operation and waits until it is complete.
fn complete(network: &dyn Network, mut start: impl FnMut() -> Result<(), Busy>) {
    let (mut done, begun) = (Completed::default(), Instant::now());
    while start() == Err(Busy) {
        network.poll(PollScope::All, &mut done);
        assert!(begun.elapsed() < Duration::from_secs(60), "no room");
    }
    while !done.0 {
        network.poll(PollScope::All, &mut done);
        assert!(begun.elapsed() < Duration::from_secs(60), "no completion");
    }
}

/// From device to device and back, whole and in parts.
#[test]
#[ignore = "a child of other tests"]
fn put_and_got() {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 2);
    let (mine, theirs) = (Fake::new(), Fake::new());
    let own = mine.register(job.of(0)).expect("registered");
    let other = theirs.register(job.of(1)).expect("registered");
    let (network, peer) = (job.of(0), JobRank(1));
    let segments = network.abilities().segments.unwrap();
    let segment = segments.learn(peer, &theirs.segment, &other.key).unwrap();
    let rma = network.abilities().rma.unwrap();
    let cookie = Cookie::new(1);
    let local = |offset| LocalMemory {
        address: mine.segment.base + offset,
        segment: own.segment,
        device: mine.segment.device,
    };
    let remote = |offset| RemoteMemory {
        peer,
        segment,
        address: theirs.segment.base + offset,
    };
    // The last is over the end of a region at both sides.
    for (from, to, bytes) in [
        (0, 7, 1),
        (16, 48, 8),
        (1, 2, 5000),
        (24, 300_000, 100_000),
        (0, 1, BYTES - 1),
    ] {
        let data: Vec<u8> = (0..bytes)
            .map(|index| (index * 7 + index / 251 + bytes) as u8)
            .collect();
        mine.write(from, &data);
        let put = Put {
            to: remote(to),
            from: local(from),
            bytes,
            source: SourceUse::Later,
            cookie,
        };
        complete(network, || rma.put(&put).map(drop));
        assert!(theirs.read(to, bytes) == data, "put of {bytes}");
        mine.write(from, &vec![0; bytes]);
        let get = Get {
            from: remote(to),
            to: local(from),
            bytes,
            cookie,
        };
        complete(network, || rma.get(&get));
        assert!(mine.read(from, bytes) == data, "get of {bytes}");
    }
    segments.forget(peer, segment);
    segments.deregister(own.segment);
    job.of(1).abilities().segments.unwrap().deregister(other.segment);
    job.stop();
}

/// The runtime sends its data by messages.
#[test]
#[ignore = "a child of other tests"]
fn refused() {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 2);
    assert!(Fake::new().register(job.of(0)).is_none());
    job.stop();
}

mod plans {
    use super::emulated::run_again;

    #[test]
    fn by_dmabuf() {
        run_again("", "", "put_and_got --ignored");
    }

    #[test]
    fn by_dmabuf_in_several_regions_of_two_hcas() {
        run_again(
            "hcas=2 max-mr=2097152 no-odp late delay=20",
            "GASNET_IBV_MAX_HCAS=2",
            "put_and_got --ignored",
        );
    }

    #[test]
    fn by_address() {
        run_again("no-dmabuf peer-memory", "", "put_and_got --ignored");
    }

    #[test]
    fn by_no_way() {
        let output = run_again("no-dmabuf", "GASNET_VERBOSEENV=1", "refused --ignored --nocapture");
        let why = "By dmabuf: Operation not supported (os error 95). By address: Bad address (os error 14).";
        assert!(output.contains(why), "{output}");
    }
}
