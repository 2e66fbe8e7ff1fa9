//! Resources of a process: objects of the library, locked memory, queues and their limits.

mod emulated;

use emulated::run_again;
use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{Conduit, JobRank};
use gasnet_conduit_ibv::Ibv;

/// A rank starts alone, and prints why not.
#[test]
#[ignore = "a child of other tests"]
fn start() {
    emulated::emulate();
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let started = Ibv::new().start(&start_info(JobRank(0), &[JobRank(0)], &exchange));
    eprintln!("{}", started.map_or_else(|why| why.message, |()| "started".to_owned()));
}

/// A rank starts beside one that cannot.
#[test]
#[ignore = "a child of other tests"]
fn start_in_vain() {
    emulated::emulate();
    let exchange = |bytes: &[u8]| [bytes.to_vec(), vec![0; bytes.len()]].concat();
    let ranks = [JobRank(0), JobRank(1)];
    let started = Ibv::new().start(&start_info(JobRank(0), &ranks, &exchange));
    eprintln!("{}", started.map_or_else(|why| why.message, |()| "started".to_owned()));
}

/// What a child printed contains this.
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
        let why = "rank 1 has no HCA that it can use";
        expect("start_in_vain", "hcas=2", variables, why);
    }
    for nth in 2..9 {
        let fault = format!("reg-fail={nth}");
        expect("start", &fault, "GASNET_CONNECT_STATIC=0", "Cannot allocate memory");
    }
    expect("start", "max-qp=0", "GASNET_USE_SRQ=1", "for datagrams failed");
}
