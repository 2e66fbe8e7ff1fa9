//! Starts that fail.

use crate::driver::{child, emulate, set_variables, variable, OPERATIONS};
use crate::foreign;
use crate::processes::{self, Place};
use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::{self, expose, put, start_info, Job};
use gasnet_conduit::{Conduit, Cookie, JobRank, PollScope, SegmentMemory, SourceUse, StartInfo, Stop};
use gasnet_conduit_gni::Gni;

/// A rank starts alone, and says why not. The emulator is not used if GASNET_GNI_LIBRARY is set.
#[test]
#[ignore = "a child of other tests"]
fn start() {
    if std::env::var_os("GASNET_GNI_LIBRARY").is_some() {
        config::install(Config::load(&[Gni::new().variables()]).unwrap());
    } else {
        emulate();
    }
    set_variables();
    let (exchange, all) = (|bytes: &[u8]| bytes.to_vec(), [JobRank(0)]);
    let info = StartInfo {
        single_threaded: false,
        ..start_info(JobRank(0), &all, &exchange)
    };
    let conduit = Gni::new();
    let probed = conduit.probe(1).map_or_else(|why| why.message, |()| "can start".into());
    eprintln!("{probed}");
    let started = conduit
        .start(&info)
        .map_or_else(|why| why.message, |_| "started".into());
    eprintln!("{started}");
}

/// The child `start` prints this line.
fn expect_start(options: &str, variables: &str, line: &str) {
    let printed = child("starts::start", options, variables);
    assert!(
        printed.lines().any(|printed| printed == line),
        "{options} {variables}: {printed}"
    );
}

#[test]
fn fma_descriptors_run_out() {
    let none =
        "The gni conduit cannot start: GNI_CdmAttach to NIC 0 failed: GNI_RC_ERROR_RESOURCE. The NIC has no FMA \
                descriptor left for this process alone; GASNET_GNI_FMA_SHARING=1 shares them.";
    expect_start("fma=0", "", none);
    expect_start("fma=1", "GASNET_DOMAIN_COUNT=2", none);
    expect_start("fma=1", "", "started");
    expect_start("fma=0", "GASNET_DOMAIN_COUNT=2 GASNET_GNI_FMA_SHARING=1", "started");
}

/// An attachment that a signal interrupts is begun again.
#[test]
fn attachments_are_interrupted() {
    expect_start("attach-signals=3", "GASNET_DOMAIN_COUNT=2", "started");
    let for_ever = "The gni conduit cannot start: GNI_CdmAttach to NIC 0 failed: GNI_RC_NOT_DONE. Signals \
                    interrupted every attempt; block them until gasnet has started.";
    expect_start("attach-signals=1000000", "", for_ever);
}

/// Ranks start in a process beside another library, like MPI, that uses the NIC with the same
/// credentials and has its ranks as instances: before, or after.
#[test]
#[ignore = "a child of other tests"]
fn start_beside_another() {
    emulate();
    let is_first = variable("FAULTS_FIRST") == "other";
    if is_first {
        foreign::attach(&[0, 1]);
    }
    let job = Job::start(&|| Box::new(Gni::new()), 2);
    if !is_first {
        foreign::attach(&[0, 1]);
    }
    let mut memory = vec![0_u8; 64];
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, memory.len());
    let (_, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let mut done = conformance::Completed::default();
    put(job.of(0), targets[0], &[7; 64], SourceUse::Now, Cookie::new(1)).unwrap();
    while !done.0 {
        job.of(0).poll(PollScope::All, &mut done);
    }
    assert_eq!(memory, [7; 64]);
    eprintln!("a put beside another library");
    job.run(|_, network| network.stop(Stop::Orderly));
}

#[test]
fn other_libraries_of_the_process() {
    for first in ["other", "gasnet"] {
        for options in ["", "flavour=gemini"] {
            let printed = child(
                "starts::start_beside_another",
                options,
                &format!("FAULTS_FIRST={first}"),
            );
            assert!(printed.contains("\na put beside another library\n"), "{printed}");
        }
    }
}

/// Something has the name of the domain.
#[test]
#[ignore = "a child of other tests"]
fn start_again() {
    emulate();
    foreign::attach(&[1 << 23]);
    let (exchange, all) = (|bytes: &[u8]| bytes.to_vec(), [JobRank(0)]);
    let started = Gni::new().start(&start_info(JobRank(0), &all, &exchange));
    eprintln!("{}", started.map_or_else(|why| why.message, |_| "started".into()));
}

#[test]
fn domains_of_the_same_name() {
    let printed = child("starts::start_again", "", "");
    let why = "The gni conduit cannot start: GNI_CdmAttach to NIC 0 failed: GNI_RC_INVALID_STATE. Another library of \
               this process uses the NIC with the same tag, cookie and instance; increase PMI_GNI_COOKIE by one in \
               all processes before the second of them starts.";
    assert!(printed.lines().any(|line| line == why), "{printed}");
}

/// Libraries for Gemini lack what is Aries's, and old ones an accessor.
#[test]
fn libraries_of_gemini() {
    let lacking = "GNI_EpSetCeAttr,GNI_CeCreate,GNI_CeGetId,GNI_CeConfigure,GNI_CeCheckResult,GNI_CeDestroy,\
                   GNI_CompChanCreate,GNI_CompChanDestroy,GNI_CompChanFd,GNI_CompChanGetEvent,GNI_CqAttachCompChan,\
                   GNI_CqArmCompChan,GNI_GetPtag";
    for names in [lacking.to_owned(), format!("{lacking},gni_cq_get_rem_inst_id")] {
        let variables = format!("FAULTS_KINDS=put:8,put:65537,get:4097,add,barrier,ask GNI_TEST_LACKS={names}");
        let printed = child("posts::operations", "flavour=gemini", &variables);
        let count = printed.matches(&format!("rank 0: ask: {OPERATIONS} completed")).count();
        assert!(count == 1 && !printed.contains(" lost "), "without {names}: {printed}");
    }
    let printed = child("starts::start", "", "GNI_TEST_LACKS=GNI_CqGetEvent");
    assert!(printed.contains("GNI_CqGetEvent"), "{printed}");
}

#[test]
fn completion_queues_run_out() {
    let none = "The gni conduit cannot start: GNI_CqCreate failed: GNI_RC_ERROR_RESOURCE. The NIC has no completion \
                queue left; run fewer processes on a node, or lower GASNET_DOMAIN_COUNT.";
    for (options, variables) in [
        ("cq=0", ""),
        ("cq=1", ""),
        ("cq=2", "GASNET_DOMAIN_COUNT=2"),
        ("cq=2 flavour=gemini", ""),
    ] {
        expect_start(options, variables, none);
    }
    for (options, variables) in [
        ("cq=2", ""),
        ("cq=3", "GASNET_DOMAIN_COUNT=2"),
        ("cq=3 flavour=gemini", ""),
    ] {
        expect_start(options, variables, "started");
    }
}

#[test]
fn memory_descriptors_run_out() {
    let none = "failed: GNI_RC_ERROR_RESOURCE. The NIC has no memory descriptor (MDD) left, or no more memory can be \
                pinned; run fewer processes on a node, or lower GASNET_DOMAIN_COUNT, GASNET_NETWORKDEPTH_TOTAL or \
                GASNET_GNI_AM_EAGER_PEERS.";
    for (limit, what) in ["post descriptors", "messages", "copies"].into_iter().enumerate() {
        let printed = child("starts::start", &format!("mdd={limit}"), "");
        let is_it = |line: &str| {
            let begin = "The gni conduit cannot start: GNI_MemRegister of ";
            line.starts_with(begin) && line.ends_with(&format!(" bytes for {what} {none}"))
        };
        assert!(printed.lines().any(is_it), "mdd={limit}: {printed}");
    }
    expect_start("mdd=3", "", "started");
    let printed = child("starts::start", "flavour=gemini mrt=1", "");
    assert!(printed.contains(none), "{printed}");
    expect_start("mrt=100 flavour=gemini", "", "started");
    expect_start("reg-bytes=100000", "", "can start");
    let printed = child("starts::start", "reg-bytes=100000", "");
    assert!(printed.contains(none), "{printed}");
}

/// Memory that the conduit cannot do without is registered again after a while, if that may help.
#[test]
fn registrations_that_fail_at_start() {
    for (nth, what) in ["post descriptors", "messages", "copies"].into_iter().enumerate() {
        expect_start(&format!("reg-fail={}", nth + 1), "", "started");
        let printed = child("starts::start", &format!("reg-invalid={}", nth + 1), "");
        let why = format!(" bytes for {what} failed: GNI_RC_INVALID_PARAM.\n");
        assert!(printed.contains(&why), "{printed}");
    }
    // With the second domain, after the first has registered them.
    let printed = child("starts::start", "reg-invalid=5", "GASNET_DOMAIN_COUNT=2");
    assert!(
        printed.contains(" bytes for copies failed: GNI_RC_INVALID_PARAM.\n"),
        "{printed}"
    );
}

#[test]
fn processes_that_cannot_start() {
    let set = |text: &str| format!("FAULTS_SET={text}");
    for (variables, why) in [
        (
            set("PMI_GNI_PTAG=,PMI_GNI_COOKIE="),
            "this process has no credentials for the network: neither PMI_GNI_PTAG and PMI_GNI_COOKIE nor \
             CRAY_COOKIES are set. Start it with aprun or srun.",
        ),
        (
            set("PMI_GNI_COOKIE="),
            "this process has no credentials for the network: neither PMI_GNI_PTAG and PMI_GNI_COOKIE nor \
             CRAY_COOKIES are set. Start it with aprun or srun.",
        ),
        (
            set("PMI_GNI_PTAG=seven"),
            "PMI_GNI_PTAG=seven has no number at place 0.",
        ),
        (set("PMI_GNI_PTAG=256"), "PMI_GNI_PTAG=256 is more than 255."),
        (
            set("PMI_GNI_COOKIE=0x17"),
            "PMI_GNI_COOKIE=0x17 has no number at place 0.",
        ),
        (set("PMI_GNI_DEV_ID=-1"), "PMI_GNI_DEV_ID=-1 has no number at place 0."),
    ] {
        expect_start("", &variables, &format!("The gni conduit cannot start: {why}"));
        expect_start("", &variables, &format!("The gni conduit cannot be used: {why}"));
    }
    let why = "The gni conduit cannot start: GNI_CdmGetNicAddress failed for NIC 3: GNI_RC_NO_MATCH.";
    expect_start("", &set("PMI_GNI_DEV_ID=3"), why);
    let why = "The gni conduit cannot start: GNI_CdmAttach to NIC 1 failed: GNI_RC_NO_MATCH.";
    expect_start("", &set("PMI_GNI_DEV_ID=1,PMI_GNI_LOC_ADDR=256:257"), why);
}

#[test]
fn there_is_no_library() {
    let printed = child("starts::start", "", "GASNET_GNI_LIBRARY=/nowhere/libugni.so");
    let why = "cannot open the uGNI library (/nowhere/libugni.so): /nowhere/libugni.so: cannot open shared object \
               file: No such file or directory. It comes with Cray's Linux Environment on the compute nodes of XC \
               and XE systems. GASNET_GNI_LIBRARY selects another file.";
    for what in ["start", "be used"] {
        let message = format!("The gni conduit cannot {what}: {why}");
        assert!(printed.lines().any(|line| line == message), "{printed}");
    }
}

/// A rank that is a process starts, and says why not.
#[test]
#[ignore = "a child of other tests"]
fn start_of_job() {
    emulate();
    set_variables();
    let place = Place::find();
    let exchange = |bytes: &[u8]| place.exchange(bytes);
    let started = Gni::new().start(&start_info(place.rank, &place.all, &exchange));
    eprintln!("{}", started.map_or_else(|why| why.message, |_| "started".into()));
}

/// Two ranks start with these options of the emulator and variables, and print these lines.
fn expect_starts(ranks: [(&str, &str); 2], lines: [&str; 2]) {
    for (ended, line) in processes::run("starts::start_of_job", &ranks).iter().zip(lines) {
        let printed = &ended.output;
        assert!(printed.lines().any(|printed| printed == line), "{ranks:?}: {printed}");
    }
}

#[test]
fn settings_that_differ() {
    let differ = |one: u32| {
        format!(
            "The gni conduit cannot start: ranks {one} and {} have different networks or settings: \
             GASNET_NETWORKDEPTH, GASNET_NETWORKDEPTH_TOTAL, GASNET_NETWORKDEPTH_SPACE, GASNET_GNI_MAX_MEDIUM, \
             GASNET_GNI_CE_RADIX and GASNET_BARRIER must be the same in all processes.",
            1 - one
        )
    };
    let lines = [differ(0), differ(1)];
    for ranks in [
        [("", "GASNET_NETWORKDEPTH=8"), ("", "")],
        [("", ""), ("", "GASNET_NETWORKDEPTH_TOTAL=65")],
        [("", ""), ("", "GASNET_NETWORKDEPTH_SPACE=1M")],
        [("", "GASNET_GNI_MAX_MEDIUM=1024"), ("", "GASNET_GNI_MAX_MEDIUM=2048")],
        [("", ""), ("flavour=gemini", "")],
        [("", ""), ("", "GASNET_GNI_CE_RADIX=5")],
        [("", "GASNET_BARRIER=AMDISSEM"), ("", "")],
    ] {
        expect_starts(ranks, lines.each_ref().map(String::as_str));
    }
    expect_starts([("", ""), ("", "GASNET_GNI_PUT_FMA_RDMA_CUTOVER=0")], ["started"; 2]);
}

#[test]
fn one_rank_that_cannot_start() {
    let other = "The gni conduit cannot start: rank 0 failed to start; its message precedes.";
    let own = "The gni conduit cannot start: PMI_GNI_PTAG=x has no number at place 0.";
    expect_starts([("", "FAULTS_SET=PMI_GNI_PTAG=x"), ("", "")], [own, other]);
}
