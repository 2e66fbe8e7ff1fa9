//! The conduit over the strict provider (`strict/`).

mod strict;

use gasnet_conduit::conformance::{expose, get, put, Job};
use gasnet_conduit::{
    atomic_codes, Atomic, Class, Cookie, Device, Get, JobRank, LocalMemory, Network, PollScope, Put, Registration,
    RemoteMemory, SegmentMemory, SourceUse,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::Mutex;
use strict::{over_strict_provider, poll_until, start_alone, take, Report};

/// Tests of these checks with a plan in front of the provider's name.
macro_rules! plans {
    ($($name:ident: $plan:literal, $($check:ident)*;)*) => { $(
        mod $name {
            fn conduit() -> Box<dyn gasnet_conduit::Conduit> {
                crate::strict::over_strict_provider(concat!($plan, ";tcp;ofi_rxm"))
            }
            gasnet_conduit::each_check! { over_tcp conduit, $($check)* }
        }
    )* };
}

plans! {
    no_multi_recv: "no=multi_recv", every_size many_threads;
    no_rma: "no=rma", many_threads busy_recovers;
    mr_local: "demand=mr_local", every_size source_is_free many_at_once notified_from_send_buffers
        reserved_packets_arrive atomics_lose_nothing;
    mr_raw: "demand=mr_raw", every_put_and_get keys_are_checked;
    mr_virt_addr: "demand=mr_virt_addr", every_put_and_get;
    mr_raw_virt_addr: "demand=mr_raw,mr_virt_addr", many_at_once notified_after_data;
    mr_allocated: "demand=mr_allocated,mr_local", every_put_and_get;
    mr_prov_key: "demand=mr_prov_key", every_put_and_get keys_are_checked;
    mr_endpoint: "demand=mr_endpoint,mr_local", every_put_and_get source_is_free atomics_lose_nothing;
    mr_basic: "demand=mr_local,mr_virt_addr,mr_prov_key,mr_allocated", many_at_once notified_after_data;
    mr_scalable: "demand=mr_scalable", every_put_and_get keys_are_checked;
    mr_scalable_virt_addr: "demand=mr_scalable,mr_virt_addr", every_put_and_get;
    context: "demand=context", many_threads many_at_once;
    context2: "demand=context2", every_size many_at_once notified_from_send_buffers;
    thread_domain: "demand=thread_domain,mr_local,mr_endpoint", many_threads many_at_once;
    inject_nothing: "inject=0", every_size every_put_and_get stop_with_traffic;
    inject_less_than_a_header: "inject=9", every_size every_put_and_get;
    short_operations: "max_msg=70000 demand=mr_local", many_at_once notified_after_data;
    no_data: "bad_flags=remote_cq_data", notified_after_data notified_from_send_buffers notified_source_is_free
        notified_busy_recovers notified_many_at_once notified_by_threads;
    no_data_in_parts: "bad_flags=remote_cq_data max_msg=70000 eagain=50", notified_after_data
        notified_from_send_buffers notified_many_at_once;
    data_not_offered: "no=remote_cq_data tx=3", notified_after_data notified_from_send_buffers notified_many_at_once;
    no_injection: "bad_flags=inject demand=mr_local", every_size every_put_and_get notified_after_data
        stop_with_traffic;
    short_queues: "tx=3 rx=3", every_size many_threads many_at_once;
    short_keys: "key_bytes=4 enokey=30 demand=mr_local,mr_endpoint", every_put_and_get;
    eagain_30: "eagain=30", many_threads many_at_once notified_after_data atomics_lose_nothing;
    eagain_90: "eagain=90", every_size largest_both_ways many_at_once notified_from_send_buffers;
    late: "late=50", many_threads many_at_once notified_after_data atomics_lose_nothing;
    late_single: "late=90 no=multi_recv demand=context2", every_size many_at_once reserved_packets_arrive;
    unordered: "unordered=50", many_threads every_put_and_get many_at_once source_is_free before_packets
        notified_after_data notified_from_send_buffers notified_many_at_once stop_with_traffic;
    unordered_by_message: "unordered=50 no=remote_cq_data max_msg=70000", notified_after_data notified_many_at_once;
    first_call: "first_call=20", first_contact many_threads;
    registrations_wait: "reg_eagain=70 demand=mr_local,mr_endpoint", every_put_and_get source_is_free;
    everything: "no=multi_recv demand=mr_local,mr_raw,mr_virt_addr,mr_allocated,mr_prov_key,mr_endpoint,context2,\
        thread_domain inject=0 max_msg=70000 tx=5 rx=5 eagain=30 late=50",
        every_size many_threads many_at_once notified_from_send_buffers atomics_lose_nothing;
}

#[test]
fn what_lacks_is_not_offered() {
    let offered = |plan| {
        let network = start_alone(&*over_strict_provider(plan)).unwrap();
        let (rma, announces) = (
            network.abilities().rma.is_some(),
            network.abilities().put_notify.is_some(),
        );
        [
            rma,
            announces,
            network.abilities().atomics.is_some(),
            network.abilities().wake.is_some(),
        ]
    };
    assert_eq!(offered("seed=1;tcp;ofi_rxm"), [true; 4]);
    assert_eq!(offered("no=multi_recv;tcp;ofi_rxm"), [true; 4]);
    assert_eq!(offered("no=rma;tcp;ofi_rxm"), [false, false, false, true]);
    assert_eq!(offered("no=delivery_complete;tcp;ofi_rxm"), [false, false, false, true]);
    assert_eq!(offered("no=atomic;tcp;ofi_rxm"), [true, true, false, true]);
    assert_eq!(offered("no=atomic_prod;tcp;ofi_rxm"), [true; 4]);
    assert_eq!(offered("no=remote_cq_data;tcp;ofi_rxm"), [true; 4]);
    assert_eq!(offered("cq_data=4;tcp;ofi_rxm"), [true; 4]);
    for plan in ["no=wait_fd;tcp;ofi_rxm", "no=get_wait;tcp;ofi_rxm"] {
        assert_eq!(offered(plan), [true, true, true, false], "{plan}");
    }
}

/// cxi refuses data of puts, which its record offers, so the conduit does not try.
#[test]
fn longs_over_cxi_are_not_announced_by_puts() {
    let packed_limit = |plan| {
        let network = start_alone(&*over_strict_provider(plan)).unwrap();
        network.abilities().put_notify.unwrap().packed_limit()
    };
    let [tcp, cxi] = ["seed=1;tcp;ofi_rxm", "profile=cxi;cxi"].map(packed_limit);
    assert_eq!((tcp, cxi), (8 << 10, (32 << 10) + 64));
}

#[test]
fn psm_has_a_number_of_the_job() {
    for plan in ["profile=psm2;psm2", "profile=psm3;psm3"] {
        start_alone(&*over_strict_provider(plan)).unwrap();
    }
}

#[test]
fn atomics_are_offered_one_by_one() {
    let network = start_alone(&*over_strict_provider("no=atomic_prod;tcp;ofi_rxm")).unwrap();
    let atomics = network.abilities().atomics.unwrap();
    for dt in [atomic_codes::I32, atomic_codes::U64] {
        let has = |op| [atomics.supports(dt, op), atomics.supports(dt, atomic_codes::fetch(op))];
        assert_eq!(has(atomic_codes::MULT), [false; 2]);
        for op in [
            atomic_codes::ADD,
            atomic_codes::SUB,
            atomic_codes::XOR,
            atomic_codes::CAS,
        ] {
            assert_eq!(has(op), [true; 2], "{op:#x}");
        }
    }
    assert!(!atomics.supports(atomic_codes::DBL, atomic_codes::ADD));
}

/// A read of 7 by the provider's atomics, if the conduit offers them.
fn atomic_read(plan: &'static str) -> Option<u64> {
    let job = Job::start(&|| over_strict_provider(plan), 2);
    let word = AtomicU64::new(7);
    let segment = SegmentMemory::host(word.as_ptr() as usize, 8);
    let target = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]).1[0];
    let (fetched, over) = (AtomicU64::new(0), AtomicBool::new(false));
    job.run(|rank, network| {
        let mut report = Report::default();
        if rank == JobRank(0) {
            if let Some(atomics) = network.abilities().atomics {
                let read = Atomic {
                    target,
                    dt: atomic_codes::U64,
                    op: atomic_codes::GET,
                    operands: [0; 2],
                    fetched: fetched.as_ptr().cast(),
                    cookie: Cookie::new(1),
                };
                take(network, &mut report, || atomics.atomic(&read).is_ok());
                poll_until(network, &mut report, |report| report.done > 0);
            }
            over.store(true, SeqCst);
        }
        poll_until(network, &mut report, |_| over.load(SeqCst));
    });
    let offered = job.of(0).abilities().atomics.is_some();
    job.stop();
    offered.then(|| fetched.load(SeqCst))
}

/// An atomic read over shm of libfabric 1.20.0 to 1.21.0 fetches garbage, also below efa.
#[test]
fn atomics_that_read_garbage_are_not_used() {
    for plan in [
        "profile=shm version=1.20.0 minimum=late no=atomic_read;shm",
        "profile=efa version=1.21.0 minimum=late no=atomic_read;efa",
    ] {
        assert_eq!(atomic_read(plan), None, "{plan}");
    }
    for plan in [
        "profile=shm version=1.19.1 minimum=late;shm",
        "profile=efa version=1.21.1 minimum=late;efa",
    ] {
        assert_eq!(atomic_read(plan), Some(7), "{plan}");
    }
}

/// Memory that stands for a device's: nobody may touch it. Its contents lie behind it. Mapped until
/// the process ends.
struct Fake {
    memory: SegmentMemory,
    registration: Registration,
}

impl Fake {
    const BYTES: usize = 1 << 18;

    fn new(network: &dyn Network) -> Self {
        let (access, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, of which the half behind is made accessible.
        let base = unsafe {
            let base = libc::mmap(std::ptr::null_mut(), 2 * Self::BYTES, access, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(base.byte_add(Self::BYTES), Self::BYTES, access), 0);
            base as usize
        };
        let device = Some(Device::Cuda(0));
        let memory = SegmentMemory {
            base,
            bytes: Self::BYTES,
            device,
        };
        let registration = network
            .abilities()
            .segments
            .unwrap()
            .register_device(&memory, &|| None)
            .unwrap();
        Self { memory, registration }
    }

    /// Memory as the device would see it.
    fn contents(&self) -> &[u8] {
        // SAFETY: mapped, and used only when no operation is under way.
        unsafe { std::slice::from_raw_parts((self.memory.base + Self::BYTES) as *const u8, Self::BYTES) }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= Self::BYTES);
        let to = (self.memory.base + Self::BYTES + offset) as *mut u8;
        // SAFETY: as above.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn local(&self, offset: usize) -> LocalMemory {
        LocalMemory {
            address: self.memory.base + offset,
            segment: self.registration.segment,
            device: self.memory.device,
        }
    }
}

/// From device to device and back, whole and in parts, without touching either.
#[test]
fn device_memory_is_put_and_got_by_the_provider() {
    let job = Job::start(&|| over_strict_provider("demand=mr_hmem max_msg=70000;tcp;ofi_rxm"), 2);
    let [mine, theirs] = [0, 1].map(|rank| Fake::new(job.of(rank)));
    let learned = job.of(0).abilities().segments.unwrap();
    let segment = learned
        .learn(JobRank(1), &theirs.memory, &theirs.registration.key)
        .unwrap();
    let over = AtomicBool::new(false);
    job.run(|rank, network| {
        let mut report = Report::default();
        if rank == JobRank(1) {
            return poll_until(network, &mut report, |_| over.load(SeqCst));
        }
        let (peer, rma) = (JobRank(1), network.abilities().rma.unwrap());
        for (round, bytes) in [1, 8, 100, 5000, 20_000, 100_000].into_iter().enumerate() {
            let source = [SourceUse::Now, SourceUse::Later][round % 2];
            let pattern: Vec<u8> = (0..bytes).map(|index| (index * 7 + bytes) as u8).collect();
            mine.write(16, &pattern);
            let place = RemoteMemory {
                peer,
                segment,
                address: theirs.memory.base + 48,
            };
            let cookie = Cookie::new(round as u64);
            let put = Put {
                to: place,
                from: mine.local(16),
                bytes,
                source,
                cookie,
            };
            let before = report.done;
            take(network, &mut report, || rma.put(&put).is_ok());
            poll_until(network, &mut report, |report| report.done > before);
            assert!(theirs.contents()[48..][..bytes] == pattern && theirs.contents()[48 + bytes] == 0);
            mine.write(0, &vec![0; Fake::BYTES]);
            let get = Get {
                from: place,
                to: mine.local(24),
                bytes,
                cookie,
            };
            take(network, &mut report, || rma.get(&get).is_ok());
            poll_until(network, &mut report, |report| report.done > before + 1);
            assert!(mine.contents()[24..][..bytes] == pattern && mine.contents()[24 + bytes] == 0);
        }
        over.store(true, SeqCst);
    });
    job.stop();
}

/// The strict provider ends the process if memory of a segment has no descriptor.
#[test]
fn segments_come_with_their_descriptors() {
    const HALF: usize = 40_000;
    let network = start_alone(&*over_strict_provider("seed=3;tcp;ofi_rxm")).unwrap();
    let memory: Vec<u64> = (0..HALF as u64 / 4).collect();
    let base = memory.as_ptr() as usize;
    let segment = SegmentMemory::host(base, 2 * HALF);
    let segments = network.abilities().segments.unwrap();
    let own = segments.register(&segment).unwrap();
    let segment = segments.learn(JobRank(0), &segment, &own.key).unwrap();
    let (mut report, cookie) = (Report::default(), Cookie::new(1));
    let there = |address| RemoteMemory {
        peer: JobRank(0),
        segment,
        address,
    };
    let here = |address| LocalMemory {
        address,
        segment: own.segment,
        device: None,
    };
    for bytes in [8, 8000, HALF] {
        let put = Put {
            to: there(base + HALF),
            from: here(base),
            bytes,
            source: SourceUse::Later,
            cookie,
        };
        let get = Get {
            from: there(base),
            to: here(base + HALF),
            bytes,
            cookie,
        };
        let (rma, before) = (network.abilities().rma.unwrap(), report.done);
        take(&*network, &mut report, || rma.put(&put).is_ok());
        take(&*network, &mut report, || rma.get(&get).is_ok());
        poll_until(&*network, &mut report, |report| report.done == before + 2);
    }
    segments.deregister(own.segment);
}

/// Operations of rank 0 on rank 1.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Sends a packet of this length.
    Send(usize),
    /// Puts this number of bytes.
    Put(usize),
    /// Gets this number of bytes.
    Get(usize),
    /// Adds to a word.
    Atomic,
}

impl Deed {
    /// Tries to start it.
    fn start(self, network: &dyn Network, target: RemoteMemory, local: &mut [u8]) -> bool {
        let cookie = Cookie::new(1);
        match self {
            Self::Send(bytes) => network.send(target.peer, Class::Request, &[&local[..bytes]]).is_ok(),
            Self::Put(bytes) => put(network, target, &local[..bytes], SourceUse::Later, cookie).is_ok(),
            Self::Get(bytes) => get(network, target, &mut local[..bytes], cookie).is_ok(),
            Self::Atomic => {
                let atomic = Atomic {
                    target,
                    dt: atomic_codes::U64,
                    op: atomic_codes::ADD,
                    operands: [1, 0],
                    fetched: std::ptr::null_mut(),
                    cookie,
                };
                network.abilities().atomics.expect("atomics").atomic(&atomic).is_ok()
            }
        }
    }
}

/// A fault ends in one report at each rank that it concerns, with all these texts. Returns them.
fn is_reported(plan: &'static str, deed: Deed, texts: &[&str]) -> Vec<String> {
    const BYTES: usize = 100_000;
    let job = Job::start(&|| over_strict_provider(plan), 2);
    let memory = vec![0_u64; BYTES / 8];
    let segment = SegmentMemory::host(memory.as_ptr() as usize, BYTES);
    let target = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]).1[0];
    let (over, losses) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    job.run(|rank, network| {
        let mut report = Report::default();
        let mut local = vec![1; BYTES];
        if rank == JobRank(0) {
            take(network, &mut report, || deed.start(network, target, &mut local));
        }
        poll_until(network, &mut report, |report| {
            !report.lost.is_empty() || over.load(SeqCst)
        });
        over.store(true, SeqCst);
        for _ in 0..20 {
            network.poll(PollScope::All, &mut report);
        }
        assert!(report.lost.len() <= 1, "reported more than once: {:?}", report.lost);
        losses.lock().unwrap().append(&mut report.lost);
    });
    let losses = losses.into_inner().unwrap();
    let texts = [&[" on "], texts].concat();
    for (loss, text) in losses
        .iter()
        .flat_map(|loss| texts.iter().map(move |text| (loss, text)))
    {
        assert!(loss.contains(text), "{plan}, {deed:?}: '{loss}' lacks '{text}'");
    }
    losses
}

#[test]
fn faults_are_reported() {
    const ERROR: &str = "failed: Input/output error (as the plan wanted)";
    const REFUSED: &str = "failed: Input/output error";
    let large = Deed::Send(5000);
    is_reported(
        "fail=send@1;tcp;ofi_rxm",
        large,
        &["rank 1: ", "sending a request ", ERROR],
    );
    is_reported(
        "fail=send@1;tcp;ofi_rxm",
        Deed::Send(8),
        &["network: ", "an operation ", ERROR],
    );
    // verbs names no kind of operation.
    is_reported(
        "no=error_flags fail=send@1;tcp;ofi_rxm",
        large,
        &["rank 1: ", "sending a request ", ERROR],
    );
    is_reported(
        "no=error_flags fail=get@1;tcp;ofi_rxm",
        Deed::Get(100),
        &["rank 1: ", "a get ", ERROR],
    );
    is_reported("fail=put@1;tcp;ofi_rxm", Deed::Put(100), &["rank 1: ", "a put ", ERROR]);
    is_reported(
        "fail=put@1;tcp;ofi_rxm",
        Deed::Put(90_000),
        &["rank 1: ", "a put ", ERROR],
    );
    is_reported("fail=get@1;tcp;ofi_rxm", Deed::Get(100), &["rank 1: ", "a get ", ERROR]);
    is_reported(
        "fail=atomic@1;tcp;ofi_rxm",
        Deed::Atomic,
        &["rank 1: ", "an atomic ", ERROR],
    );
    is_reported(
        "refuse=send@1;tcp;ofi_rxm",
        large,
        &["rank 1: ", "sending a request ", REFUSED],
    );
    is_reported(
        "refuse=put@1;tcp;ofi_rxm",
        Deed::Put(100),
        &["rank 1: ", "a put ", REFUSED],
    );
    is_reported(
        "refuse=get@1;tcp;ofi_rxm",
        Deed::Get(100),
        &["rank 1: ", "a get ", REFUSED],
    );
    is_reported(
        "refuse=atomic@1;tcp;ofi_rxm",
        Deed::Atomic,
        &["rank 1: ", "an atomic ", REFUSED],
    );
    let reading = ["network: ", "fi_cq_read: Input/output error"];
    is_reported("refuse=cq@50;tcp;ofi_rxm", large, &reading);
    // Rank 1 posts 64 receives at the start.
    // A message of the job's own that did not fit. Later libfabrics have longer records of errors.
    let cut = [
        "network: ",
        "a message of 50",
        "bytes was cut off",
        "GASNET_OFI_RECEIVE_BUFF_SIZE=recv",
    ];
    is_reported("cut=1 record=208;tcp;ofi_rxm", large, &cut);
    let unknown = ["network: ", "a message of unknown bytes was cut off"];
    is_reported("profile=efa cut=1;efa", large, &unknown);
    // ofi_rxm does not report the error of an injected message.
    is_reported(
        "inject=0 no=inject_errors fail=send@1;tcp;ofi_rxm",
        Deed::Send(8),
        &["rank 1: ", "sending a request ", ERROR],
    );
    let posting = ["network: ", "fi_recvmsg: Input/output error"];
    is_reported("no=multi_recv refuse=receive@65;tcp;ofi_rxm", large, &posting);
}

/// Each provider's errors, with the texts of libfabric and of the provider.
#[test]
fn errors_of_every_provider_are_reported() {
    const TEXT: &str = " (as the plan wanted)";
    let deeds = [
        ("put", Deed::Put(100), "a put"),
        ("send", Deed::Send(5000), "sending a request"),
        ("get", Deed::Get(100), "a get"),
    ];
    let errors = [
        ("cxi", &["No route to host", "Transport endpoint is not connected"][..]),
        (
            "efa",
            &[
                "Software caused connection abort",
                "Transport endpoint is not connected",
            ],
        ),
        (
            "psm3",
            &["Connection timed out", "Network is unreachable", "Input/output error"],
        ),
        ("verbs-rxm", &["Input/output error", "Operation canceled"]),
        (
            "tcp",
            &["Operation canceled", "Connection reset by peer", "Broken pipe"],
        ),
        ("udp-rxd", &["Connection refused"]),
    ];
    for (profile, texts) in errors {
        let provider = profile.replace("-rxm", ";ofi_rxm").replace("udp-rxd", "udp;ofi_rxd");
        for (seed, text) in texts.iter().enumerate() {
            let (kind, deed, what) = deeds[seed % deeds.len()];
            let plan = format!("profile={profile} fail={kind}@1 seed={seed};{provider}").leak();
            // tcp and rxd have no number of their own for some errors.
            let has_text = !["Operation canceled", "Connection refused"].contains(text) || profile == "verbs-rxm";
            let failed = format!("{what} failed: {text}{}", if has_text { TEXT } else { "" });
            let losses = is_reported(plan, deed, &["rank 1: "]);
            assert!(losses.iter().all(|loss| loss.ends_with(&failed)), "{plan}: {losses:?}");
        }
    }
}

/// Whether a rank that sleeps is woken by a message. None if its network does not offer that.
fn is_woken(plan: &'static str) -> Option<bool> {
    const HANG: i32 = 20_000;
    let job = Job::start(&|| over_strict_provider(plan), 2);
    let (sleeps, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let woken = Mutex::new(None);
    job.run(|rank, network| {
        let mut report = Report::default();
        let Some(wake) = network.abilities().wake else { return };
        if rank == JobRank(0) {
            poll_until(network, &mut report, |_| sleeps.load(SeqCst));
            take(network, &mut report, || {
                network.send(JobRank(1), Class::Request, &[&[1; 8]]).is_ok()
            });
            return poll_until(network, &mut report, |_| over.load(SeqCst));
        }
        poll_until(network, &mut report, |_| wake.arm());
        sleeps.store(true, SeqCst);
        let mut ends = true;
        while report.done == 0 && ends {
            let mut item = libc::pollfd {
                fd: wake.fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one descriptor.
            ends = !wake.arm() || unsafe { libc::poll(&raw mut item, 1, HANG) } == 1;
            network.poll(PollScope::All, &mut report);
        }
        *woken.lock().unwrap() = Some(ends);
        over.store(true, SeqCst);
    });
    job.stop();
    woken.into_inner().unwrap()
}

/// psm2, psm3 and ucx signal a descriptor inside calls only.
#[test]
fn descriptors_that_never_wake_are_not_used() {
    assert_eq!(is_woken("seed=4;tcp;ofi_rxm"), Some(true));
    for plan in ["profile=psm2;psm2", "profile=psm3;psm3", "profile=ucx;ucx"] {
        assert_eq!(is_woken(plan), None, "{plan}");
    }
}

/// With any limit on registered memory a job either cannot start, or every operation ends.
#[test]
fn registrations_fail() {
    let outcome = |regs: usize| {
        let network = start_alone(&*over_strict_provider(
            format!("demand=mr_local regs={regs};tcp;ofi_rxm").leak(),
        ))?;
        let memory = vec![0_u64; 20_000];
        let segment = SegmentMemory::host(memory.as_ptr() as usize, 160_000);
        let segments = network.abilities().segments.expect("registered memory");
        let registration = segments.register(&segment).map_err(|why| why.message)?;
        let segment = segments
            .learn(JobRank(0), &segment, &registration.key)
            .map_err(|why| why.message)?;
        let target = RemoteMemory {
            peer: JobRank(0),
            segment,
            address: memory.as_ptr() as usize,
        };
        let mut local = vec![1; 100_000];
        let mut report = Report::default();
        for deed in [
            Deed::Send(50_000),
            Deed::Put(100),
            Deed::Get(100),
            Deed::Atomic,
            Deed::Put(100_000),
            Deed::Get(100_000),
        ] {
            let before = report.done;
            if let Deed::Get(_) = deed {
                local.fill(2);
            }
            take(&*network, &mut report, || deed.start(&*network, target, &mut local));
            poll_until(&*network, &mut report, |report| {
                report.done > before || !report.lost.is_empty()
            });
        }
        if let Some(why) = report.lost.pop() {
            return Err(why);
        }
        // SAFETY: any bytes, and no operation is under way.
        let there = unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<u8>(), local.len()) };
        assert!(there == local, "other bytes were got");
        Ok(())
    };
    let mut failures = Vec::new();
    let enough = (0..40).find(|regs| outcome(*regs).map_err(|why| failures.push(why)).is_ok());
    assert!(
        enough.is_some() && failures.iter().all(|why| why.contains("Cannot allocate memory")),
        "{failures:?}"
    );
    let last = failures.last().expect("a failure");
    assert!(
        last.contains("cannot register 160000 bytes"),
        "memory outside segments is copied: {last}"
    );
}
