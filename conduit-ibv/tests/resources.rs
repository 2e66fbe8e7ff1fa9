//! Resources of a process: objects of the library, locked memory, queues and their limits.

mod emulated;

use emulated::run_again;
use gasnet_conduit::conformance::{self, expose, put, start_info, Job};
use gasnet_conduit::{Class, Completion, Conduit, Cookie, JobRank, PollScope, SegmentMemory, SourceUse, Stop, Upcalls};
use gasnet_conduit_ibv::Ibv;
use gasnet_conduit_util::mapped::Mapped;
use gasnet_ibv_abi as abi;
use gasnet_sys::env;
use std::ffi::CStr;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

/// A rank starts alone, and prints why not.
#[test]
#[ignore = "a child of other tests"]
fn start() {
    emulated::emulate();
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let started = Ibv.start(&start_info(JobRank(0), &[JobRank(0)], &exchange));
    eprintln!("{}", started.map_or_else(|why| why.message, |_| "started".to_owned()));
}

/// A rank starts beside one that cannot.
#[test]
#[ignore = "a child of other tests"]
fn start_in_vain() {
    emulated::emulate();
    let exchange = |bytes: &[u8]| [bytes.to_vec(), vec![0; bytes.len()]].concat();
    let ranks = [JobRank(0), JobRank(1)];
    let started = Ibv.start(&start_info(JobRank(0), &ranks, &exchange));
    eprintln!("{}", started.map_or_else(|why| why.message, |_| "started".to_owned()));
}

/// Two ranks start, and print what becomes of them.
#[test]
#[ignore = "a child of other tests"]
fn start_together() {
    conformance::end_after(Duration::from_secs(120));
    emulated::emulate();
    let ranks = [JobRank(0), JobRank(1)];
    let (table, barrier) = (Mutex::new(vec![Vec::new(); 2]), Barrier::new(2));
    let start = |rank: JobRank| {
        let exchange = |bytes: &[u8]| {
            table.lock().unwrap()[rank.index()] = bytes.to_vec();
            barrier.wait();
            let all = table.lock().unwrap().concat();
            barrier.wait();
            all
        };
        let started = Ibv.start(&start_info(rank, &ranks, &exchange));
        eprintln!("{}", started.map_or_else(|why| why.message, |_| "started".to_owned()));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| start(ranks[0]));
        start(ranks[1]);
    });
}

/// A rank starts for one thread. Another library of this process has opened a device before, makes
/// queues now, and uses them by two threads.
#[test]
#[ignore = "a child of other tests"]
fn start_beside_another_library() {
    emulated::emulate();
    let other = OtherLibrary::open();
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let info = start_info(JobRank(0), &[JobRank(0)], &exchange);
    assert!(info.single_threaded);
    let _network = Ibv.start(&info).unwrap();
    assert_eq!(env::get(c"MLX5_SINGLE_THREADED"), None);
    let queue = other.create_queue();
    let (pair, queue) = (other.create_pair(queue) as usize, queue as usize);
    let act = || {
        other.poll(queue);
        other.post(pair);
    };
    act();
    std::thread::scope(|scope| scope.spawn(act).join().unwrap());
    eprintln!("polled and posted");
}

/// A library that has opened a device of its own.
struct OtherLibrary {
    handle: usize,
    context: usize,
}

impl OtherLibrary {
    fn open() -> Self {
        let path = env::get(c"GASNET_IBV_LIBRARY").unwrap();
        // SAFETY: a terminated path.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) } as usize;
        let other = Self { handle, context: 0 };
        type List = unsafe extern "C" fn(*mut i32) -> *mut *mut abi::ibv_device;
        type Open = unsafe extern "C" fn(*mut abi::ibv_device) -> *mut abi::ibv_context;
        // SAFETY: these functions have these types; the list has a device, which stays.
        let context = unsafe {
            let list: List = std::mem::transmute(other.symbol(c"ibv_get_device_list"));
            let open: Open = std::mem::transmute(other.symbol(c"ibv_open_device"));
            open(*list(std::ptr::null_mut()))
        };
        Self {
            context: context as usize,
            ..other
        }
    }

    fn symbol(&self, name: &CStr) -> usize {
        // SAFETY: an open library.
        let symbol = unsafe { libc::dlsym(self.handle as *mut _, name.as_ptr()) } as usize;
        assert_ne!(symbol, 0, "{name:?}");
        symbol
    }

    fn create_queue(&self) -> *mut abi::ibv_cq {
        type Create = unsafe extern "C" fn(usize, i32, usize, usize, i32) -> *mut abi::ibv_cq;
        // SAFETY: the function has this type; an open device.
        unsafe {
            let create: Create = std::mem::transmute(self.symbol(c"ibv_create_cq"));
            create(self.context, 4, 0, 0, 0)
        }
    }

    fn create_pair(&self, queue: *mut abi::ibv_cq) -> *mut abi::ibv_qp {
        type Allocate = unsafe extern "C" fn(usize) -> *mut abi::ibv_pd;
        type Create = unsafe extern "C" fn(*mut abi::ibv_pd, *mut abi::ibv_qp_init_attr) -> *mut abi::ibv_qp;
        // SAFETY: zero bytes are valid: numbers and null pointers.
        let mut attributes: abi::ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        (attributes.send_cq, attributes.recv_cq) = (queue, queue);
        attributes.qp_type = abi::IBV_QPT_RC;
        (attributes.cap.max_send_wr, attributes.cap.max_recv_wr) = (1, 1);
        // SAFETY: the functions have these types; an open device and its queue.
        unsafe {
            let allocate: Allocate = std::mem::transmute(self.symbol(c"ibv_alloc_pd"));
            let create: Create = std::mem::transmute(self.symbol(c"ibv_create_qp"));
            create(allocate(self.context), &raw mut attributes)
        }
    }

    /// Posts no work requests.
    fn post(&self, pair: usize) {
        let (mut bad_send, mut bad_receive) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: an open device and its pair, and empty lists.
        let results = unsafe {
            let ops = &(*(self.context as *mut abi::ibv_context)).ops;
            let (send, receive) = (ops.post_send.unwrap(), ops.post_recv.unwrap());
            [
                send(pair as *mut _, std::ptr::null_mut(), &raw mut bad_send),
                receive(pair as *mut _, std::ptr::null_mut(), &raw mut bad_receive),
            ]
        };
        assert_eq!(results, [0; 2]);
    }

    fn poll(&self, queue: usize) {
        // SAFETY: an open device; its queue has no completions.
        let found = unsafe {
            let poll = (*(self.context as *mut abi::ibv_context)).ops.poll_cq.unwrap();
            poll(queue as *mut _, 0, std::ptr::null_mut())
        };
        assert_eq!(found, 0);
    }
}

/// Ranks send each other messages of every size.
#[test]
#[ignore = "a child of other tests"]
fn traffic() {
    emulated::emulate();
    conformance::every_size(&|| Box::new(Ibv));
    eprintln!("arrived");
}

/// A rank sends small requests as long as it can, and looks only when its queue pair has failed.
#[test]
#[ignore = "a child of other tests"]
fn flood() {
    struct Losses(bool);
    impl Upcalls for Losses {
        fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}
        fn done(&mut self, _: Cookie, _: Completion) {}
        fn peer_lost(&mut self, peer: JobRank, why: &str) {
            eprintln!("lost rank {peer}: {why}");
            self.0 = true;
        }
        fn network_lost(&mut self, why: &str) {
            panic!("lost the network: {why}");
        }
    }
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 2);
    let (network, mut losses) = (job.of(0), Losses(false));
    while network.send(JobRank(1), Class::Request, &[&[1; 8]]).is_ok() {}
    std::thread::sleep(Duration::from_millis(300));
    while !losses.0 {
        network.poll(PollScope::All, &mut losses);
    }
}

/// A rank without CAP_IPC_LOCK starts, registers the largest segment, and sends itself messages of
/// every size. `LOCKED` is the limit on locked memory in KiB.
#[test]
#[ignore = "a child of other tests"]
fn limited() {
    let limit: u64 = std::env::var("LOCKED").unwrap().parse().unwrap();
    limit_locked_memory(limit);
    emulated::emulate();
    let (rank, exchange) = (JobRank(0), |bytes: &[u8]| bytes.to_vec());
    let network = match Ibv.start(&start_info(rank, &[rank], &exchange)) {
        Ok(network) => network,
        Err(why) => return eprintln!("{}", why.message),
    };
    let bytes = network.abilities().segments.unwrap().max_bytes();
    let memory = Mapped::new(bytes).unwrap();
    let segment = SegmentMemory::host(memory.address(), bytes);
    if let Err(why) = network.abilities().segments.unwrap().register(&segment) {
        eprintln!("{}", why.message);
        return;
    }
    eprintln!("{} KiB", bytes >> 10);
    let most = Ibv.limits().max_packet_bytes;
    let (data, mut arrived) = (vec![7; most], Arrivals(0));
    for sent in 1..=1000 {
        while network
            .send(rank, Class::Request, &[&data[..most * sent / 1000]])
            .is_err()
        {
            network.poll(PollScope::All, &mut arrived);
        }
    }
    while arrived.0 < 1000 {
        network.poll(PollScope::All, &mut arrived);
    }
    network.stop(Stop::Orderly);
    eprintln!("all arrived");
}

/// Two ranks without CAP_IPC_LOCK put memory outside segments to each other, more than both
/// together may lock.
#[test]
#[ignore = "a child of other tests"]
fn puts_both_ways() {
    const BYTES: usize = 2 << 20;
    const PUTS: u32 = 4;
    conformance::end_after(Duration::from_secs(120));
    limit_locked_memory(std::env::var("LOCKED").unwrap().parse().unwrap());
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 2);
    let mut memory = [vec![0_u8; BYTES], vec![0_u8; BYTES]];
    let segments = memory
        .each_mut()
        .map(|memory| SegmentMemory::host(memory.as_mut_ptr() as usize, BYTES));
    let exposed = [0, 1].map(|rank| {
        let owner = (JobRank(rank as u32), job.of(rank));
        expose(owner, &segments[rank], &[job.of(1 - rank)])
    });
    let begun = Barrier::new(2);
    job.run(|rank, network| {
        let target = exposed[1 - rank.index()].1[0];
        let sources: Vec<Vec<u8>> = (0..PUTS).map(|_| vec![rank.0 as u8 + 1; BYTES]).collect();
        let mut ended = Ended(0);
        begun.wait();
        for source in &sources {
            while put(network, target, source, SourceUse::Later, Cookie::new(1)).is_err() {
                network.poll(PollScope::All, &mut ended);
            }
        }
        while ended.0 < PUTS {
            network.poll(PollScope::All, &mut ended);
        }
        begun.wait();
    });
    job.stop();
    for (rank, memory) in memory.iter().enumerate() {
        assert!(memory.iter().all(|byte| *byte == 2 - rank as u8));
    }
    eprintln!("all arrived");
}

/// Counts puts that have ended. No peer may be lost.
struct Ended(u32);

impl Upcalls for Ended {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}
    fn done(&mut self, _: Cookie, part: Completion) {
        self.0 += u32::from(part != Completion::Source);
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("lost rank {peer}: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("lost the network: {why}");
    }
}

/// Counts packets. No peer may be lost.
struct Arrivals(u32);

impl Upcalls for Arrivals {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {
        self.0 += 1;
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("lost rank {peer}: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("lost the network: {why}");
    }
}

/// Limits the locked memory of this process to a number of KiB, also if it is root's.
fn limit_locked_memory(kib: u64) {
    const CAP_IPC_LOCK: u32 = 14;
    const VERSION_3: u32 = 0x2008_0522;
    let limit = libc::rlimit {
        rlim_cur: kib << 10,
        rlim_max: kib << 10,
    };
    let (head, mut capabilities) = ([VERSION_3, 0], [0_u32; 6]);
    // SAFETY: live structures of the sizes that the calls want; the first word is the effective set.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit), 0);
        assert_eq!(
            libc::syscall(libc::SYS_capget, &raw const head, &raw mut capabilities),
            0
        );
        capabilities[0] &= !(1 << CAP_IPC_LOCK);
        assert_eq!(
            libc::syscall(libc::SYS_capset, &raw const head, &raw const capabilities),
            0
        );
    }
}

/// Checks that a child has printed this.
fn expect(child: &str, options: &str, variables: &str, text: &str) {
    let arguments = format!("--ignored --exact --nocapture {child}");
    let printed = run_again(options, variables, &arguments);
    assert!(printed.contains(text), "{options} {variables}: {printed}");
}

/// The emulator aborts when an object outlives its device.
#[test]
fn objects_of_a_failed_start_end_before_their_device() {
    for variables in [
        "",
        "GASNET_CONNECT_STATIC=0",
        "GASNET_USE_SRQ=1 GASNET_USE_XRC=1",
        "GASNET_IBV_MAX_HCAS=2",
    ] {
        let why = "rank 1 failed to start; its message precedes";
        expect("start_in_vain", "hcas=2", variables, why);
    }
    for nth in 1..8 {
        let fault = format!("no-odp reg-fail={nth}");
        expect("start", &fault, "GASNET_CONNECT_STATIC=0", "Cannot allocate memory");
    }
    expect("start", "max-qp=0", "GASNET_USE_SRQ=1", "ibv_create_qp failed");
}

/// The other rank does not wait for one that has no memory for its buffers.
#[test]
fn a_rank_that_cannot_register_memory_keeps_no_other() {
    let why = "failed to start; its message precedes";
    // The pools of each rank have seven regions, after one of its datagrams.
    for nth in [1, 4, 9, 16] {
        expect("start_together", &format!("no-odp reg-fail={nth}"), "", why);
    }
    expect("start_together", "no-odp reg-fail=17", "GASNET_USE_SRQ=1", why);
    expect("start_together", "no-odp", "", "started");
}

#[test]
fn registrations_that_fail_for_too_long() {
    let why = "send buffers cannot be registered: Resource temporarily unavailable";
    expect("start_together", "no-odp fail=reg_mr:3:9999:EAGAIN", "", why);
}

/// The emulator aborts when two threads use a queue that was made without locks.
#[test]
fn queues_of_other_libraries_have_locks() {
    expect("start_beside_another_library", "", "", "polled and posted");
}

/// Transfers whose memory cannot be registered for want of locked memory do not wait for each
/// other.
#[test]
fn puts_both_ways_at_the_limit_on_locked_memory() {
    let few = "GASNET_IBV_MAX_MEDIUM=4096 GASNET_BBUF_COUNT=8 GASNET_RBUF_COUNT=48 GASNET_NETWORKDEPTH_TOTAL=64";
    for sharing in ["", "GASNET_USE_SRQ=1"] {
        let variables = format!("{few} {sharing} LOCKED=8192 GASNET_VERBOSEENV=1");
        let why = "which cannot be registered: Cannot allocate memory";
        expect("puts_both_ways", "memlock no-odp", &variables, "all arrived");
        expect("puts_both_ways", "memlock no-odp late delay=50", &variables, why);
    }
}

/// mlx5 counts units of 64 bytes: a work request with 72 bytes of inline data takes five.
#[test]
fn send_queues_that_the_hca_refuses_are_shorter() {
    let deep = "GASNET_NETWORKDEPTH_PP=16384 GASNET_VERBOSEENV=1";
    let why = "emu0 refuses send queues of 16384 operations: they take 2048";
    expect("traffic", "wqe-units", deep, why);
    expect("traffic", "wqe-units", deep, "arrived");
    let short = "wqe-units max-qp-wr=8";
    expect("start", short, "", "emu0: ibv_create_qp failed: Invalid argument");
}

/// A queue pair that fails reports all work requests, also those that were to have no completion.
#[test]
fn a_queue_has_room_for_all_work_requests_of_a_failed_pair() {
    let few = "GASNET_USE_SRQ=1 GASNET_USE_XRC=0 GASNET_RBUF_COUNT=4 GASNET_NETWORKDEPTH_TOTAL=8";
    let variables = format!("{few} GASNET_QP_TIMEOUT=8 GASNET_AM_CREDITS_PP=60");
    let why = "lost rank 1: emu0 port 1: sending a message failed: transport retry counter exceeded";
    expect("flood", "drop-connection=1", &variables, why);
}

/// Root of a container lacks CAP_IPC_LOCK, and queues count, too.
#[test]
fn segments_leave_locked_memory_to_buffers_and_queues() {
    let few = "GASNET_IBV_MAX_MEDIUM=4096 GASNET_BBUF_COUNT=8 GASNET_RBUF_COUNT=48 GASNET_NETWORKDEPTH_TOTAL=64";
    let run = |options: &str, variables: &str, limit: u32| {
        let variables = format!("{few} LOCKED={limit} {variables}");
        run_again(options, &variables, "--ignored --exact --nocapture limited")
    };
    for (options, variables, least, most) in [
        ("memlock", "", 4096, 6144),
        ("memlock hcas=2", "GASNET_IBV_MAX_HCAS=2", 2048, 3072),
    ] {
        let printed = run(options, variables, 8192);
        let size = printed.lines().find_map(|line| line.strip_suffix(" KiB"));
        let size: u32 = size.map_or(0, |size| size.parse().unwrap());
        let fits = (least..=most).contains(&size) && printed.contains("all arrived");
        assert!(fits, "{options}: {printed}");
    }
    // Each start either works or says why not, also with receive buffers of each peer.
    let mut starts = 0;
    for limit in (256..8192).step_by(256) {
        let options = ["memlock", "memlock no-srq"][limit as usize / 256 % 2];
        let printed = run(options, "", limit);
        let has_started = printed.contains("all arrived");
        let advice = format!("Raise the limit on locked memory (ulimit -l), which is {limit} KiB");
        assert!(has_started || printed.contains(&advice), "{printed}");
        starts += usize::from(has_started);
    }
    assert!((10..30).contains(&starts), "{starts} starts");
    // A completion queue of all that the HCA takes would be 64 MiB.
    let printed = run("memlock", "GASNET_NETWORKDEPTH_TOTAL=0", 8192);
    assert!(printed.contains("all arrived"), "{printed}");
    let printed = run("memlock", "", 1);
    let why = "emu0: ibv_create_cq failed: Cannot allocate memory (os error 12). Raise the limit";
    assert!(printed.contains(why), "{printed}");
    let printed = run("memlock", "", 0);
    let why = "Operation not permitted (os error 1). Raise the limit on locked memory (ulimit -l), which is 0 KiB";
    assert!(printed.contains(why), "{printed}");
}
