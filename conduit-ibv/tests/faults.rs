//! Faults of the network: each ends in a message that names the HCA, the port, the operation and
//! the status, after a bounded time.

mod emulated;
mod traffic;

use emulated::run_again;
use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{Conduit, JobRank};
use gasnet_conduit_ibv::Ibv;
use gasnet_sys::process;
use std::fs;
use std::time::Duration;
use traffic::{expect, get_alone, is_lost, of_child, put_alone};

/// Two ranks send, put, get and add until one loses the other, which must be.
#[test]
#[ignore = "a child of other tests"]
fn traffic() {
    assert!(is_lost(Duration::from_secs(30)), "nothing was lost");
}

/// The same for as long as a port is down and up again: nothing may be lost.
#[test]
#[ignore = "a child of other tests"]
fn endurance() {
    assert!(!is_lost(Duration::from_secs(2)), "something was lost");
}

/// A rank starts alone, and says why not.
#[test]
#[ignore = "a child of other tests"]
fn start() {
    emulated::emulate();
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let started = Ibv.start(&start_info(JobRank(0), &[JobRank(0)], &exchange));
    eprintln!("{}", started.map_or_else(|why| why.message, |_| "started".to_owned()));
}

/// A rank starts alone, and prints how much its segments may take.
#[test]
#[ignore = "a child of other tests"]
fn most_bytes() {
    emulated::emulate();
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let network = Ibv.start(&start_info(JobRank(0), &[JobRank(0)], &exchange)).unwrap();
    eprintln!("{} MB", network.abilities().segments.unwrap().max_bytes() >> 20);
}

/// A rank whose limit on locked memory is below the hard limit starts, and prints whether the
/// limit is raised.
#[test]
#[ignore = "a child of other tests"]
fn raised_limit() {
    const LOW: u64 = 1 << 20;
    let limit = || process::raise_limit(libc::RLIMIT_MEMLOCK as i32, 0).unwrap();
    let low = libc::rlimit {
        rlim_cur: LOW.min(limit().rlim_max / 2),
        rlim_max: limit().rlim_max,
    };
    // SAFETY: a live structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const low) }, 0);
    emulated::emulate();
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let started = Ibv.start(&start_info(JobRank(0), &[JobRank(0)], &exchange));
    let _network = started.unwrap();
    eprintln!("raised: {}", limit().rlim_cur == limit().rlim_max);
}

/// A rank puts memory of the kernel, which CPUs read, but of which there are no pages that a
/// device may use; it prints whether that arrives.
#[test]
#[ignore = "a child of other tests"]
fn put_without_pages() {
    const BYTES: usize = 4096;
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapping = maps.lines().find(|line| line.ends_with("[vvar]")).expect("[vvar]");
    let address = usize::from_str_radix(mapping.split('-').next().unwrap(), 16).unwrap();
    // SAFETY: mapped for the life of the process, and never empty.
    let source = unsafe { std::slice::from_raw_parts(address as *const u8, BYTES) };
    let mut target = vec![0xa5; BYTES];
    put_alone(&mut target, source);
    let has_arrived = target.iter().any(|byte| *byte != 0xa5);
    eprintln!("arrived: {has_arrived}");
}

/// A rank gets into memory of a file whose name the emulator's options may refuse; it prints
/// whether that arrives.
#[test]
#[ignore = "a child of other tests"]
fn get_into_a_file() {
    const BYTES: usize = 300_000;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new file and a new mapping of it, which stays to the end of the process.
    let destination = unsafe {
        let fd = libc::memfd_create(c"unregistrable".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::ftruncate(fd, BYTES as i64), 0);
        let base = libc::mmap(std::ptr::null_mut(), BYTES, access, flags, fd, 0);
        assert_ne!(base, libc::MAP_FAILED);
        std::slice::from_raw_parts_mut(base.cast::<u8>(), BYTES)
    };
    get_alone(destination, &mut vec![0x5a; BYTES]);
    eprintln!("arrived: {}", destination.iter().all(|byte| *byte == 0x5a));
}

#[test]
fn a_dropped_connection() {
    let why = |what| format!("emu0 port 1: {what} failed: transport retry counter exceeded");
    let any = ["sending a message", "a put", "a get", "an atomic"].map(why);
    expect(
        "traffic",
        "drop-connection=50",
        "GASNET_QP_TIMEOUT=8",
        &any.each_ref().map(String::as_str),
    );
}

#[test]
fn completions_in_error() {
    for (fault, why) in [
        (
            "send:9:rem_op",
            "port 1: sending a message failed: remote operation error (vendor error 0xb)",
        ),
        (
            "write:3:rem_access",
            "port 1: a put failed: remote access error (vendor error 0xa)",
        ),
        (
            "read:3:rem_access",
            "port 1: a get failed: remote access error (vendor error 0xa)",
        ),
        (
            "atomic:2:rem_inv_req",
            "port 1: an atomic failed: remote invalid request error (vendor error 0x9)",
        ),
    ] {
        expect("traffic", &format!("cqe-error={fault}"), "", &[why]);
    }
}

#[test]
fn a_port_goes_down() {
    let why = "emu0 port 1: port error";
    expect("traffic", "port-down=0:1:100", "GASNET_QP_TIMEOUT=8", &[why]);
    expect(
        "traffic",
        "port-down=0:1:100",
        "GASNET_QP_TIMEOUT=8",
        &["failed: transport retry counter exceeded"],
    );
}

#[test]
fn a_port_that_comes_back_loses_nothing() {
    let warns = "emu0 port 1: port error";
    expect("endurance", "port-down=0:1:100:400", "", &[warns]);
}

#[test]
fn an_hca_fails() {
    expect(
        "traffic",
        "device-fatal=0:2000",
        "GASNET_QP_TIMEOUT=8",
        &[
            "emu0: local catastrophic error",
            "failed: transport retry",
            "failed: Input/output error",
            "cannot be posted: Input/output error",
        ],
    );
}

#[test]
fn the_limit_on_locked_memory_is_raised() {
    expect("raised_limit", "", "", &["raised: true"]);
    expect("raised_limit", "", "GASNET_MAXIMIZE_MEMLOCK=0", &["raised: false"]);
}

#[test]
fn queue_pairs_run_out() {
    for variables in ["", "GASNET_CONNECT_STATIC=0"] {
        let (has_passed, printed) = emulated::run("max-qp=3", variables, &of_child("traffic"));
        let why = "It has 3 queue pairs for all processes of its host";
        assert!(printed.contains(why), "{has_passed} {variables}: {printed}");
    }
}

#[test]
fn a_port_that_is_given_up_early() {
    let few = "GASNET_QP_RETRY_COUNT=1 GASNET_QP_TIMEOUT=14";
    let why = "failed: transport retry counter exceeded";
    expect("traffic", "port-down=0:1:100:2000", few, &[why]);
}

#[test]
fn a_probe_finds_the_limit() {
    let few = "GASNET_PHYSMEM_MAX=1G GASNET_RBUF_COUNT=64";
    let probe = format!("{few} GASNET_PHYSMEM_PROBE=1");
    expect("most_bytes", "pin-limit=268435456", few, &["\n1020 MB"]);
    // Less than 256 MB, as there are buffers.
    expect("most_bytes", "pin-limit=268435456", &probe, &["can register 24"]);
    expect("most_bytes", "pin-limit=268435456", &probe, &["\n24"]);
    expect("most_bytes", "", &probe, &["register 1024 MB"]);
    let printed = run_again("", &format!("{probe} GASNET_PHYSMEM_WARN=0"), &of_child("most_bytes"));
    assert!(!printed.contains("can register"), "{printed}");
}

#[test]
fn hcas_that_do_not_page_on_demand() {
    let warning = "do not page on demand";
    expect("start", "no-odp", "", &[warning]);
    expect(
        "start",
        "no-odp",
        "GASNET_ODP_VERBOSE=2",
        &["rank 0: no paging on demand"],
    );
    // Some HCAs page for some operations, or only in regions of part of the memory.
    for bits in [
        "send,write,read",
        "implicit,write,read",
        "implicit,send,read",
        "implicit,send,write",
    ] {
        expect("start", &format!("odp={bits}"), "", &[warning]);
    }
    for (options, variables) in [
        ("", ""),
        ("odp=implicit,send,write,read", ""),
        ("no-odp", "GASNET_ODP_VERBOSE=0"),
        ("no-odp", "GASNET_USE_ODP=0"),
    ] {
        let printed = run_again(options, variables, &of_child("start"));
        assert!(!printed.contains(warning), "{options} {variables}: {printed}");
    }
}

#[test]
fn memory_without_pages() {
    let arrived = "arrived: true";
    expect("put_without_pages", "no-odp", "", &[arrived]);
    expect("put_without_pages", "", "GASNET_USE_ODP=0", &[arrived]);
    let printed = run_again("", "", &of_child("put_without_pages"));
    let whys = [
        "a put failed: local protection error",
        "GASNET_USE_ODP=0 lets the conduit copy it",
    ];
    assert!(whys.iter().all(|why| printed.contains(why)), "{printed}");
}

#[test]
fn gets_into_memory_that_cannot_be_registered() {
    for (errno, text) in [
        ("EFAULT", "Bad address"),
        ("EINVAL", "Invalid argument"),
        ("ENOMEM", "Cannot allocate"),
    ] {
        let options = format!("no-odp reg-invalid=unregistrable:{errno}");
        let printed = run_again(&options, "GASNET_VERBOSEENV=1", &of_child("get_into_a_file"));
        let why = format!("which cannot be registered: {text}");
        let is_copied = printed.contains("a get copies 300000 bytes") && printed.contains(&why);
        assert!(is_copied && printed.contains("arrived: true"), "{printed}");
    }
    let printed = run_again("no-odp", "GASNET_VERBOSEENV=1", &of_child("get_into_a_file"));
    assert!(
        printed.contains("arrived: true") && !printed.contains("a get copies"),
        "{printed}"
    );
}

#[test]
fn requests_that_nobody_answers() {
    let variables = "GASNET_CONNECT_STATIC=0 GASNET_CONNECT_RETRANS_MIN=1000 GASNET_CONNECT_RETRANS_MAX=1500000";
    let why = "it has not answered connection requests for 1 seconds";
    expect("traffic", "ud-loss=100", variables, &[why]);
}

#[test]
fn memory_that_cannot_be_registered() {
    for fault in ["no-odp reg-fail=1", "reg-fail=3", "pin-limit=100000"] {
        expect("start", fault, "", &["Cannot allocate memory"]);
    }
    // Paging on demand, which has a region for each direction, is done without.
    for fault in ["reg-fail=1", "reg-fail=2"] {
        expect("start", fault, "", &["started"]);
    }
}
