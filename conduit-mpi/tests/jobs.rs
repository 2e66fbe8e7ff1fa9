//! Jobs of processes, started by the launcher of each MPI of this machine: Debian's MPICH and Open
//! MPI, and those whose prefixes `GASNET_TEST_MPI` lists (as after `pip install --prefix`),
//! separated by colons. An MPI that is missing is skipped with a message.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::{start_info, Log};
use gasnet_conduit::{
    Busy, Class, Completion, Conduit, Cookie, Get, JobRank, LocalCompletion, LocalMemory, LocalSegment, Network,
    PollScope, Put, RemoteMemory, SegmentMemory, SourceUse, Stop, Upcalls,
};
use gasnet_conduit_mpi::Mpi;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Tells a process of a job what to do.
const TASK: &str = "GASNET_TEST_MPI_TASK";
/// A folder for the processes of a job.
const FOLDER: &str = "GASNET_TEST_MPI_FOLDER";
const RANKS: u32 = 3;

/// An MPI: its launcher, and its library.
struct Installed {
    mpiexec: PathBuf,
    library: PathBuf,
}

/// The MPIs of this machine.
fn installed() -> Vec<Installed> {
    let libraries = ["libmpi.so.12", "libmpi.so.40", "libmpi_abi.so.1"];
    let prefixes = std::env::var("GASNET_TEST_MPI").unwrap_or_default();
    let of_prefix = |prefix: &str| {
        libraries.map(|library| Installed {
            mpiexec: Path::new(prefix).join("bin/mpiexec"),
            library: Path::new(prefix).join("lib").join(library),
        })
    };
    let of_debian = [("mpiexec.mpich", "libmpich.so.12"), ("mpiexec.openmpi", "libmpi.so.40")];
    let of_debian = of_debian.map(|(mpiexec, library)| Installed {
        mpiexec: Path::new("/usr/bin").join(mpiexec),
        library: Path::new("/usr/lib/x86_64-linux-gnu").join(library),
    });
    let prefixes = prefixes.split(':').filter(|prefix| !prefix.is_empty());
    let all = of_debian.into_iter().chain(prefixes.flat_map(of_prefix));
    all.filter(|mpi| mpi.mpiexec.exists() && mpi.library.exists()).collect()
}

/// Runs a task in processes that an MPI starts.
fn run(mpi: &Installed, task: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(&mpi.mpiexec);
    command
        .args(["-n", &RANKS.to_string()])
        .arg(std::env::current_exe().unwrap());
    command.args(["--exact", "a_process", "--nocapture", "--test-threads=1"]);
    // Open MPI refuses root, and more processes than cores.
    let allowed = [
        "OMPI_ALLOW_RUN_AS_ROOT",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
        "OMPI_MCA_rmaps_base_oversubscribe",
    ];
    command
        .envs(allowed.map(|name| (name, "1")))
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    // Of Intel MPI, whose fabrics need devices.
    command
        .env("I_MPI_FABRICS", "shm")
        .env("GASNET_MPI_LIBRARY", &mpi.library)
        .env(TASK, task);
    command.envs(variables.iter().copied()).output().unwrap()
}

/// Runs a task with each MPI, and checks how its launcher ends. Returns libraries and outputs.
fn run_each(task: &str, variables: &[(&str, &str)], status: i32) -> Vec<(PathBuf, String)> {
    let all = installed();
    if all.is_empty() {
        eprintln!("skipped: this machine has neither MPICH nor Open MPI");
    }
    let run_one = |mpi: Installed| {
        let output = run(&mpi, task, variables);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let library = mpi.library.display();
        assert_eq!(output.status.code(), Some(status), "{library}: {text}");
        assert_eq!(text.matches("talked").count(), RANKS as usize, "{library}: {text}");
        eprintln!("{library}: passed");
        (mpi.library, text.into_owned())
    };
    all.into_iter().map(run_one).collect()
}

#[test]
fn packets_of_every_size_arrive() {
    run_each("talk", &[("GASNET_MPI_RMA", "0")], 0);
}

#[test]
fn a_failure_is_the_status_of_the_launcher() {
    run_each("fail", &[], 7);
}

#[test]
fn puts_arrive_before_later_packets() {
    run_each("put", &[("GASNET_MPI_RMA", "1")], 0);
}

/// MPICH and Intel MPI need the target, and their trial fails. That of Open MPI 4 passes, if the
/// machine is not too busy.
#[test]
fn a_trial_chooses_one_sided_calls() {
    for (library, text) in run_each("talk", &[("GASNET_MPI_RMA", "auto")], 0) {
        let may_pass = library.ends_with("libmpi.so.40");
        assert!(may_pass || !text.contains("one-sided"), "{}: {text}", library.display());
    }
}

/// The fallback of `Operations::next` to requests that are not the oldest.
#[test]
fn a_slow_sender_hides_no_others() {
    let folder = std::env::temp_dir().join(format!("gasnet-mpi-slow-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // Open MPI 4 otherwise reads a long message from the memory of its sender.
    let by_pieces = ("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    run_each("pass", &[(FOLDER, folder.to_str().unwrap()), by_pieces], 0);
    std::fs::remove_dir(&folder).unwrap();
}

/// Upcalls that reply to requests with their bytes.
struct Echo<'a>(&'a dyn Network, Log);

impl Upcalls for Echo<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        while class == Class::Request && self.0.send(source, Class::Reply, &[packet]) == Err(Busy) {
            self.0.poll(PollScope::Replies, &mut self.1);
        }
        self.1.packet(source, class, packet);
    }
    fn done(&mut self, _: gasnet_conduit::Cookie, _: gasnet_conduit::Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("{peer}: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("{why}");
    }
}

/// A process of a job; nothing else in a run of all tests.
#[test]
fn a_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let conduit: &'static Mpi = Box::leak(Box::new(Mpi::new()));
    config::install(Config::load(&[conduit.variables()]).unwrap());
    let bootstrap = conduit.bootstrap().unwrap();
    let place = bootstrap.join().unwrap();
    assert_eq!(place.size, RANKS, "{}", place.system);
    let all: Vec<_> = (0..place.size).map(JobRank).collect();
    let exchange = |bytes: &[u8]| bootstrap.exchange(bytes).unwrap();
    let network = conduit
        .start(&start_info(JobRank(place.rank), &all, &exchange))
        .unwrap();
    talk(&*network, JobRank(place.rank), conduit.limits().max_packet_bytes);
    // Nobody's requests meet the poll of another one's replies.
    exchange(&[0]);
    requests_wait(&*network, JobRank(place.rank), &|| drop(exchange(&[0])));
    if task == "pass" {
        messages_pass(&*network, JobRank(place.rank), &|| drop(exchange(&[0])));
    }
    let is_one_sided = network.abilities().rma.is_some();
    assert!(is_one_sided || task != "put", "no one-sided calls");
    if is_one_sided {
        println!("one-sided");
        put_and_get(&*network, JobRank(place.rank), &exchange);
    }
    // Nobody leaves while others wait for replies.
    exchange(&[0]);
    println!("talked");
    network.stop(Stop::Orderly);
    bootstrap.leave(true);
    std::process::exit(if task == "fail" { 7 } else { 0 });
}

/// Requests that arrive while only replies are polled are delivered by the next poll of all.
fn requests_wait(network: &dyn Network, rank: JobRank, barrier: &dyn Fn()) {
    const COUNT: usize = 3;
    let next = JobRank((rank.0 + 1) % RANKS);
    for number in 0..COUNT as u8 {
        assert_eq!(network.send(next, Class::Request, &[&[number; 100]]), Ok(()));
    }
    barrier();
    let (mut log, start) = (Log::default(), Instant::now());
    while start.elapsed() < Duration::from_millis(20) {
        network.poll(PollScope::Replies, &mut log);
    }
    assert!(log.packets.is_empty());
    while log.packets.len() < COUNT {
        network.poll(PollScope::All, &mut log);
        assert!(start.elapsed() < Duration::from_secs(60), "no progress");
    }
    let is_whole = |(number, (_, _, packet)): (usize, &(_, _, Vec<u8>))| packet[..] == [number as u8; 100];
    assert!(log.packets.iter().enumerate().all(is_whole));
}

/// Rank 1 stays outside of MPI after the start of a long message to rank 0, which many MPIs do not
/// deliver then, until a message of rank 2 has arrived.
fn messages_pass(network: &dyn Network, rank: JobRank, barrier: &dyn Fn()) {
    const LONG: usize = 64 << 10;
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let (is_started, has_passed) = (folder.join("started"), folder.join("passed"));
    let wait = |is_done: &mut dyn FnMut() -> bool| {
        let start = Instant::now();
        while !is_done() {
            assert!(start.elapsed() < Duration::from_secs(60), "no progress");
        }
    };
    let wait_for = |file: &Path| {
        wait(&mut || {
            std::thread::sleep(Duration::from_millis(1));
            file.exists()
        });
    };
    let send = |bytes: usize| assert_eq!(network.send(JobRank(0), Class::Request, &[&vec![0; bytes]]), Ok(()));
    // Nobody is in an earlier test.
    barrier();
    match rank.0 {
        0 => {
            let mut log = Log::default();
            let mut wait_until = |packets| {
                wait(&mut || {
                    network.poll(PollScope::All, &mut log);
                    log.packets.len() >= packets
                });
            };
            wait_until(1);
            std::fs::write(&has_passed, "").unwrap();
            wait_until(2);
        }
        1 => {
            send(LONG);
            std::fs::write(&is_started, "").unwrap();
            wait_for(&has_passed);
        }
        _ => {
            wait_for(&is_started);
            send(1);
        }
    }
    barrier();
    if rank.0 == 0 {
        for file in [is_started, has_passed] {
            std::fs::remove_file(file).unwrap();
        }
    }
}

/// Bytes of a segment, beyond what an `int` of MPI's counts. Little of it is touched.
const SEGMENT: usize = 5 << 29;
/// Bytes at its end that each rank writes.
const SHARE: usize = 2 << 20;

/// Upcalls that count completions, and check puts whose packets arrive.
struct Putter<'a> {
    /// The end of this rank's segment.
    memory: &'a [AtomicU8],
    done: [usize; 2],
    checked: usize,
}

impl Upcalls for Putter<'_> {
    fn packet(&mut self, source: JobRank, _: Class, packet: &mut [u8]) {
        let (byte, bytes) = (packet[0], u32::from_le_bytes(packet[1..5].try_into().unwrap()));
        let share = &self.memory[source.index() * SHARE..][..bytes as usize];
        let first = share.iter().position(|place| place.load(Relaxed) != byte);
        assert_eq!(first, None, "of {bytes} bytes, after their packet");
        self.checked += 1;
    }
    fn done(&mut self, _: Cookie, part: Completion) {
        self.done[0] += usize::from(part != Completion::Remote);
        self.done[1] += usize::from(part != Completion::Source);
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("{peer}: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("{why}");
    }
}

/// Puts bytes of many sizes to all other ranks, tells them, and gets the bytes back.
fn put_and_get(network: &dyn Network, rank: JobRank, exchange: &dyn Fn(&[u8]) -> Vec<u8>) {
    let base = gasnet_sys::mem::map_private(SEGMENT).unwrap();
    let (segments, rma) = (network.abilities().segments.unwrap(), network.abilities().rma.unwrap());
    let memory = SegmentMemory::host(base, SEGMENT);
    let own = segments.register(&memory).unwrap().segment;
    // MPI attaches no byte twice.
    let inner = SegmentMemory::host(base + SEGMENT / 2, SEGMENT / 4);
    segments.deregister(segments.register(&inner).unwrap().segment);
    let bases = exchange(&base.to_le_bytes());
    let bases: Vec<_> = bases
        .chunks(8)
        .map(|base| usize::from_le_bytes(base.try_into().unwrap()))
        .collect();
    let end = SEGMENT - RANKS as usize * SHARE;
    // SAFETY: inside the segment; other threads and processes write it atomically, or by MPI.
    let shared = unsafe { std::slice::from_raw_parts((base + end) as *const AtomicU8, RANKS as usize * SHARE) };
    let mut putter = Putter {
        memory: shared,
        done: [0; 2],
        checked: 0,
    };
    let sizes = [1, 8, 100, 4096, 4097, 70_000, SHARE];
    let peers: Vec<_> = (0..RANKS).map(JobRank).filter(|peer| *peer != rank).collect();
    for (number, &bytes) in sizes.iter().enumerate() {
        let source = vec![number as u8 + 1; bytes];
        let mut back = vec![0_u8; bytes];
        let remote = |peer: JobRank| RemoteMemory {
            peer,
            segment: segments.learn(peer, &memory, &[]).unwrap(),
            address: bases[peer.index()] + end + rank.index() * SHARE,
        };
        let local = |address| LocalMemory {
            address,
            segment: LocalSegment::NONE,
            device: None,
        };
        let cookie = Cookie::new(number as u64);
        let wait = |putter: &mut Putter<'_>, until: &dyn Fn(&Putter<'_>) -> bool| {
            let start = Instant::now();
            while !until(putter) {
                network.poll(PollScope::All, putter);
                assert!(start.elapsed() < Duration::from_secs(60), "no progress");
            }
        };
        putter.done = [0; 2];
        for &peer in &peers {
            let from = local(source.as_ptr() as usize);
            let put = Put {
                to: remote(peer),
                from,
                bytes,
                source: SourceUse::Later,
                cookie,
            };
            assert_eq!(rma.put(&put), Ok(LocalCompletion::Later));
        }
        wait(&mut putter, &|putter| putter.done == [peers.len(); 2]);
        for &peer in &peers {
            let packet = [&[source[0]][..], &(bytes as u32).to_le_bytes()].concat();
            assert_eq!(network.send(peer, Class::Request, &[&packet]), Ok(()));
        }
        wait(&mut putter, &|putter| putter.checked == (number + 1) * peers.len());
        for &peer in &peers {
            back.fill(0);
            putter.done = [0; 2];
            let to = local(back.as_mut_ptr() as usize);
            assert_eq!(
                rma.get(&Get {
                    from: remote(peer),
                    to,
                    bytes,
                    cookie
                }),
                Ok(())
            );
            wait(&mut putter, &|putter| putter.done == [1; 2]);
            assert_eq!(back, source);
        }
        // A rank that waits here answers MPI, too.
        exchange(&[0]);
    }
    // The last byte of the segment is of the share that the last rank writes.
    let last = &shared[shared.len() - 1];
    let to = RemoteMemory {
        peer: JobRank(0),
        segment: segments.learn(JobRank(0), &memory, &[]).unwrap(),
        address: bases[0] + SEGMENT - 1,
    };
    reported_puts_are_there(network, (rank, to, last), exchange);
    segments.deregister(own);
}

/// While rank 0 is outside of MPI, the last rank puts a byte, `last` there. If that is reported
/// meanwhile, the byte is there.
fn reported_puts_are_there(
    network: &dyn Network,
    (rank, to, last): (JobRank, RemoteMemory, &AtomicU8),
    exchange: &dyn Fn(&[u8]) -> Vec<u8>,
) {
    const VALUE: u8 = 99;
    const SLEEP: Duration = Duration::from_millis(400);
    let (mut is_early, mut is_there) = (false, true);
    exchange(&[0]);
    if rank.0 == RANKS - 1 {
        let mut putter = Putter {
            memory: &[],
            done: [0; 2],
            checked: 0,
        };
        let (source, start) = ([VALUE], Instant::now());
        let from = LocalMemory {
            address: source.as_ptr() as usize,
            segment: LocalSegment::NONE,
            device: None,
        };
        let put = Put {
            to,
            from,
            bytes: 1,
            source: SourceUse::Later,
            cookie: Cookie::new(0),
        };
        network.abilities().rma.unwrap().put(&put).unwrap();
        while putter.done != [1; 2] {
            network.poll(PollScope::All, &mut putter);
        }
        is_early = start.elapsed() < SLEEP / 2;
    } else if rank.0 == 0 {
        std::thread::sleep(SLEEP);
        is_there = last.load(Relaxed) == VALUE;
    }
    let all = exchange(&[u8::from(is_early), u8::from(is_there)]);
    let (is_early, is_there) = (all[all.len() - 2] == 1, all[1] == 1);
    assert!(!is_early || is_there, "a put was reported before it was there");
}

/// Sends requests of many sizes to all, and waits for theirs and for all replies.
fn talk(network: &dyn Network, rank: JobRank, max: usize) {
    let sizes = [1, 100, 2000, 5000, 40_000, max];
    let (rounds, start) = (20, Instant::now());
    let mut echo = Echo(network, Log::default());
    let expected = rounds * sizes.len() * RANKS as usize;
    for (round, &bytes) in (0..rounds).flat_map(|round| sizes.iter().map(move |bytes| (round, bytes))) {
        let packet = vec![(round as u8) ^ rank.0 as u8; bytes];
        for peer in (0..RANKS).map(JobRank) {
            while network.send(peer, Class::Request, &[&packet]) == Err(Busy) {
                network.poll(PollScope::All, &mut echo);
            }
        }
    }
    let of_class = |echo: &Echo<'_>, wanted| echo.1.packets.iter().filter(|(_, class, _)| *class == wanted).count();
    while of_class(&echo, Class::Request) < expected || of_class(&echo, Class::Reply) < expected {
        network.poll(PollScope::All, &mut echo);
        assert!(start.elapsed() < Duration::from_secs(60), "no progress");
    }
    let is_whole = |packet: &[u8]| sizes.contains(&packet.len()) && packet.iter().all(|byte| *byte == packet[0]);
    assert!(echo.1.packets.iter().all(|(_, _, packet)| is_whole(packet)));
}
