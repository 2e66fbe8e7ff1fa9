//! Starts that fail: each rank says why, and none hangs.

use crate::driver::emulate;
use crate::emulated::EMULATOR;
use crate::processes::{self, Place};
use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{Conduit, JobRank, Stop};
use gasnet_conduit_elan::Elan;

/// A rank starts, and says why not. The emulator is not used if GASNET_ELAN_SHIM is set.
#[test]
#[ignore = "a child of other tests"]
fn start() {
    if std::env::var_os("GASNET_ELAN_SHIM").is_some() {
        config::install(Config::load(&[Elan::new().variables()]).unwrap());
    } else {
        emulate();
    }
    let (place, conduit) = (Place::find(), Elan::new());
    let exchange = |bytes: &[u8]| place.exchange(bytes);
    let started = conduit.start(&start_info(place.rank, &place.all, &exchange));
    match started {
        Ok(network) => {
            eprintln!("started");
            // Ranks that have started may leave one after the other.
            network.stop(Stop::Orderly);
        }
        Err(why) => eprintln!("{}", why.message),
    }
}

/// Two ranks start with these options of the emulator and variables, and print that.
fn starts(ranks: [(&str, &str); 2]) -> [String; 2] {
    let ended = processes::run("starts::start", &ranks);
    let line = |rank: usize| {
        let printed = &ended[rank].output;
        assert!(ended[rank].status.success(), "{ranks:?}: {printed}");
        let mut lines = printed.lines();
        let is_it = |line: &&str| line.contains("elan conduit") || *line == "started";
        let line = lines.find(is_it).unwrap_or_else(|| panic!("{ranks:?}: {printed}"));
        line.strip_prefix("The elan conduit cannot start: ")
            .unwrap_or(line)
            .to_owned()
    };
    [line(0), line(1)]
}

/// Both fail for the same reason.
fn both_fail(options: &str, variables: &str, why: &str) {
    assert_eq!(starts([(options, variables); 2]), [why; 2], "{options} {variables}");
}

/// Rank 1 fails for this reason, with options and variables that rank 0 lacks.
fn one_fails(options: &str, variables: &str, why: &str) {
    let lines = starts([("", ""), (options, variables)]);
    assert_eq!(
        lines,
        ["rank 1 failed to start; its message precedes.", why],
        "{options} {variables}"
    );
}

#[test]
fn there_is_no_shim() {
    let path = "/nowhere/libgasnet_elan_shim.so";
    let why = format!(
        "cannot open the shim of Quadrics' libelan ({path}): {path}: cannot open shared object file: No such file or \
         directory. A site compiles it, to the interface conduit-elan/shim.h, against the headers of libelan. \
         GASNET_ELAN_SHIM selects another file."
    );
    let variables = format!("GASNET_ELAN_SHIM={path}");
    both_fail("", &variables, &why);
    one_fails("", &variables, &why);
}

#[test]
fn the_shim_has_another_version() {
    let path = EMULATOR.library();
    let why = format!(
        "{} has version 2 of the interface, and this library uses 1. Compile it for this release.",
        path.display()
    );
    both_fail("other-version", "", &why);
    one_fails("other-version", "", &why);
}

/// Queues take memory of the pools, as everything that all processes have in common.
#[test]
fn queues_do_not_fit() {
    let queue = "libelan's memory (LIBELAN_GALLOC_SIZE) has no room for a queue of 128 messages: \
                 GASNET_ELAN_AM_CREDITS can be lower than 64.";
    both_fail("symmetric=200000", "", queue);
}

#[test]
fn rails_of_elan3_are_refused() {
    both_fail(
        "flavour=elan3 rails=2",
        "",
        "the job has 2 rails of Elan3: run it with one.",
    );
}

/// A rank that RMS has started exchanges bytes often, and then opens the network.
#[test]
#[ignore = "a child of other tests"]
fn start_by_rms() {
    emulate();
    let (place, conduit) = (Place::find(), Elan::new());
    let rms = conduit.bootstrap().unwrap();
    let own = rms.join().unwrap().rank;
    for round in 0..50 {
        let all = rms.exchange(&[own as u8, round]).unwrap();
        assert_eq!(all, [0, round, 1, round]);
    }
    let exchange = |bytes: &[u8]| rms.exchange(bytes).unwrap();
    let network = conduit.start(&start_info(JobRank(own), &place.all, &exchange)).unwrap();
    network.stop(Stop::Orderly);
    eprintln!("started");
}

/// A process attaches once, and its exchanges take no memory of the adapter: 17 channels are those
/// of puts and of the barrier.
#[test]
fn the_process_attaches_once() {
    let rms = |rank: u32| format!("RMS_RESOURCEID=8 RMS_NPROCS=2 RMS_RANK={rank}");
    let ranks = [0, 1].map(rms);
    let options = "one-attachment channels=18";
    let ended = processes::run(
        "starts::start_by_rms",
        &ranks.each_ref().map(|variables| (options, variables.as_str())),
    );
    for rank in ended {
        assert!(
            rank.status.success() && rank.output.contains("\nstarted\n"),
            "{}",
            rank.output
        );
    }
}

/// libelan's start waits for all processes: the emulator's gives up.
#[test]
fn libelan_does_not_start() {
    let lines = starts([("start-timeout=1", ""), ("fail-start", "")]);
    let absent = "after 1 s these processes have not started: 0.";
    assert_eq!(lines, [absent, "the network is down (fail-start)."]);
}

#[test]
fn processes_are_not_those_of_libelan() {
    let lone = |resource: u32| format!("RMS_RESOURCEID={resource} RMS_NPROCS=1 RMS_RANK=0");
    let lines = starts([("", &lone(5)), ("", &lone(6))]);
    assert_eq!(lines, ["libelan has 1 processes, and the job 2."; 2]);
    let same = "RMS_RESOURCEID=7 RMS_NPROCS=2 RMS_RANK=0";
    let mut lines = starts([("start-timeout=1", same); 2]);
    lines.sort();
    let absent = "after 1 s these processes have not started: 0.";
    assert_eq!(lines, [absent, "rank 0 of the job has started before."]);
}

#[test]
fn symmetric_memory_is_exhausted() {
    let none = |what| format!("libelan's memory (LIBELAN_GALLOC_SIZE) has no room for {what}.");
    for (option, what) in [
        (
            "fail-queue=1",
            "a queue of 128 messages: GASNET_ELAN_AM_CREDITS can be lower than 64",
        ),
        (
            "fail-queue=2",
            "a queue of 128 messages: GASNET_ELAN_AM_CREDITS can be lower than 64",
        ),
        ("fail-symmetric=1", "credits"),
        ("fail-symmetric=2", "the barrier"),
    ] {
        assert_eq!(starts([("", ""), (option, "")]), [none(what), none(what)], "{option}");
    }
    let variables = "GASNET_ELAN_AM_CREDITS=5";
    let what = "a queue of 10 messages: GASNET_ELAN_AM_CREDITS can be lower than 5";
    both_fail("fail-queue=1", variables, &none(what));
}

#[test]
fn own_memory_is_exhausted() {
    let none = |what: &str| format!("libelan's memory (LIBELAN_ALLOC_SIZE) has no room for {what}.");
    let few = |found| {
        let why = format!("libelan's memory (LIBELAN_ALLOC_SIZE) has room for {found} buffers of 66560 bytes");
        format!("{why}, and at least 8 are needed.")
    };
    for (option, why) in [
        ("fail-alloc=1", none("credits")),
        ("fail-alloc=2", few(0)),
        ("alloc=532480", few(7)),
    ] {
        both_fail(option, "", &why);
        one_fails(option, "", &why);
    }
    assert_eq!(starts([("alloc=536576", ""), ("fail-alloc=10", "")]), ["started"; 2]);
}

#[test]
fn settings_differ() {
    let differ = |one: u32, other: u32| {
        format!(
            "ranks {one} and {other} have different settings: GASNET_ELAN_AM_CREDITS, GASNET_ELAN_PUTGET and \
             GASNET_BARRIER must be the same in all processes."
        )
    };
    for ranks in [
        [("", "GASNET_ELAN_AM_CREDITS=3"), ("", "")],
        [("", ""), ("", "GASNET_ELAN_PUTGET=0")],
        [("", ""), ("", "GASNET_BARRIER=ELANSLOW")],
        [("", "GASNET_BARRIER=AMDISSEM"), ("", "GASNET_BARRIER=ELANFAST")],
    ] {
        assert_eq!(starts(ranks), [differ(0, 1), differ(1, 0)], "{ranks:?}");
    }
    for variables in [
        "GASNET_NETWORKDEPTH=1 GASNET_NBI_THROTTLE=2 GASNET_ELAN_BUFFERS=9",
        "GASNET_BARRIER=ElanFast",
    ] {
        assert_eq!(starts([("", ""), ("", variables)]), ["started"; 2], "{variables}");
    }
}
