//! PMI-1 and PMI-2 against a manager of the test, which writes all its answers at once.

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use super::message::Version;
use super::stream::Stream;
use super::wire::Wire;
use super::{ManagerAddress, ProcessManager, WireStart};
use crate::JobError;
use gasnet_conduit::config::PmiInterface;

fn start(place: ManagerAddress, choice: PmiInterface, rank: u32, size: u32) -> WireStart {
    WireStart {
        place,
        choice,
        rank: Some(rank.to_string()),
        size: Some(size.to_string()),
        job: None,
    }
}

fn inherited(stream: &UnixStream) -> ManagerAddress {
    ManagerAddress::Inherited(stream.as_raw_fd().to_string())
}

/// Expands names of answers in `text`.
fn answers(text: &str) -> Vec<u8> {
    let init = |version| format!("cmd=response_to_init pmi_version={version} pmi_subversion=0 rc=0\n");
    let counted = |text: &str| format!("{:6}{text}", text.len());
    let names = [
        ("<one>", "<init1><maxes><name>"),
        ("<two>", "<init2><full><id>"),
        ("<init1>", &init(1)),
        ("<maxes>", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
        ("<name>", "cmd=my_kvsname kvsname=kvs_0\n"),
        ("<init2>", &init(2)),
        ("<full>", &counted("cmd=fullinit-response;rank=4;size=7;rc=0;")),
        ("<id>", &counted("cmd=job-getid-response;jobid=a;rc=0")),
        ("<put>", &counted("cmd=kvs-put-response;rc=0;  ")),
        ("<fence>", &counted("cmd=kvs-fence-response;rc=0;")),
        ("<get>", &counted("cmd=kvs-get-response;found=TRUE;value=a-1;rc=0;")),
        ("<end>", &counted("cmd=finalize-response;rc=0;")),
        ("<long>", &"x".repeat(70_000)),
    ];
    let expand = |text: String, (name, answer): &(&str, &str)| text.replace(name, answer);
    let text = names.iter().fold(text.to_owned(), expand);
    text.chars().map(|c| c as u8).collect()
}

/// Connects rank 4 of 7 to a manager that has written these answers, and nothing follows. Also
/// returns the manager's end.
fn scripted(choice: PmiInterface, text: &str) -> (Result<Wire, JobError>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (&theirs).write_all(&answers(text)).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    let start = start(inherited(&ours), choice, 4, 7);
    (Wire::connect(&start), theirs)
}

/// Everything that a rank sends which puts, fences, gets and leaves.
fn use_it(mut wire: Wire, manager: UnixStream) -> String {
    let place = wire.membership();
    assert_eq!((place.rank, place.size), (4, 7));
    wire.put("at", "a-1").unwrap();
    wire.fence(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(wire.get(2, "at").unwrap(), "a-1");
    wire.finalize(true);
    drop(wire);
    io::read_to_string(manager).unwrap()
}

const SENT_1: &str = "\
cmd=get_maxes
cmd=get_my_kvsname
cmd=put kvsname=kvs_0 key=at-4 value=a-1
cmd=barrier_in
cmd=get kvsname=kvs_0 key=at-2
cmd=finalize
";
const USED_1: &str = "cmd=put_result rc=0\ncmd=barrier_out\ncmd=get_result rc=0 value=a-1\ncmd=finalize_ack\n";

#[test]
fn requests_of_both_versions() {
    let init = |version, minor| format!("cmd=init pmi_version={version} pmi_subversion={minor}\n");
    let (wire, manager) = scripted(PmiInterface::Auto, &format!("<one>{USED_1}"));
    let wire = wire.unwrap();
    assert!(wire.membership().manager.starts_with("PMI-1 (PMI_FD=") && wire.job == "kvs_0");
    assert_eq!(use_it(wire, manager), init(1, 1) + SENT_1);

    // A process may only rely on values that it gets: in three rounds it waits for all others.
    let step = "<put><fence><get>";
    let used = format!("<put>{step}{step}{step}<get><end>");
    let (wire, manager) = scripted(PmiInterface::Auto, &format!("<init2><two>{used}"));
    let wire = wire.unwrap();
    assert!(wire.membership().manager.starts_with("PMI-2 (PMI_FD=") && wire.job == "a");
    let sent = use_it(wire, manager);
    let round = |distance, before| {
        let get = format!("jobid=a;srcid={before};key=fence-1-{distance}-{before};");
        format!("kvs-put;key=fence-1-{distance}-4;value=1;\nkvs-fence;\nkvs-get;{get}\n")
    };
    let lines = [
        "fullinit;pmirank=4;threaded=FALSE;\njob-getid;\nkvs-put;key=at-4;value=a-1;\n",
        &round(1, 3),
        &round(2, 2),
        &round(4, 0),
        "kvs-get;jobid=a;srcid=2;key=at-2;\nfinalize;",
    ];
    let counted = |line: &str| format!("{:6}cmd={line}", line.len() + 4);
    let expected: String = lines.concat().lines().map(counted).collect();
    assert_eq!(sent, init(1, 1) + &init(2, 0) + &expected);
}

#[test]
fn connecting_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, id) = (listener.local_addr().unwrap().to_string(), "4".into());
    let manager = thread::spawn(move || {
        let manager = UnixStream::from(OwnedFd::from(listener.accept().unwrap().0));
        let place = "cmd=initack\ncmd=set size=7\ncmd=set rank=4\ncmd=set debug=0\n";
        (&manager)
            .write_all(&answers(&format!("{place}<one>{USED_1}")))
            .unwrap();
        manager
    });
    let wire = Wire::connect(&start(ManagerAddress::Port { address, id }, PmiInterface::Pmi1, 5, 6)).unwrap();
    let name = wire.membership().manager.clone();
    assert!(name.starts_with("PMI-1 (PMI_PORT=127.0.0.1:"), "{name}");
    let sent = use_it(wire, manager.join().unwrap());
    let first = "cmd=initack pmiid=4\ncmd=init pmi_version=1 pmi_subversion=1\n";
    assert_eq!(sent, format!("{first}{SENT_1}"));
}

#[test]
fn managers_with_which_no_job_can_start() {
    for case in [
        "1: -> closed the connection",
        "1: <init1> -> closed the connection",
        "1: <init1><maxes> -> closed the connection",
        "2: <init2> -> closed the connection",
        "2: <init2><full> -> closed the connection",
        "0: <init2><init1> -> PMI-1 (its answer: version \"2\", code \"0\") nor PMI-2 (its answer: version \"1\"",
        "1: cmd=response_to_init pmi_version=1 rc=-1\n -> it does not support PMI-1",
        "2: <init2><full>    34cmd=job-getid-response;rc=7;msg=no -> it refuses job-getid with \"no\" (code \"7\")",
        "1: <long> -> more than 65536",
        "1: \u{ff}\u{fe}\n -> not text",
        "1: hello\n -> \"hello\" instead of response_to_init",
        "1: \x1b[2J\n -> \"?[2J\"",
        "1: <init1><name> -> instead of maxes",
        "1: <init1>cmd=maxes keylen_max=64\n -> vallen_max=\"\" is too small",
        "1: <init1>cmd=maxes keylen_max=64 vallen_max=16\n -> vallen_max=\"16\" is too small",
        "1: <init1>cmd=maxes keylen_max=8 vallen_max=1024\n -> keylen_max=\"8\" is too small",
        "1: <init1><maxes>cmd=my_kvsname rc=0\n -> no job name",
        "1: <init1><maxes>cmd=my_kvsname kvsname=\x01\n -> job name is invalid",
        "2: <init2>0x1234 -> \"0x1234\" instead of the length",
        "2: <init2>   -12cmd= -> \"   -12\" instead of the length",
        "2: <init2>999999cmd= -> 999999 characters",
        "2: <init2>     0 -> \"\" instead of fullinit-response",
        "2: <init2>    34cmd=fullinit-response;rank=1;rc=0; -> rank and size",
        "2: <init2>    41cmd=fullinit-response;rank=2;size=2;rc=0; -> rank 2 of 2",
    ] {
        let (text, part) = case.split_once(" -> ").or(case.split_once("-> ")).unwrap();
        let choice =
            [PmiInterface::Auto, PmiInterface::Pmi1, PmiInterface::Pmi2][usize::from(text.as_bytes()[0] - b'0')];
        let why = scripted(choice, text.get(3..).unwrap_or_default())
            .0
            .unwrap_err()
            .message;
        assert!(why.contains(part) && why.contains("PMI_FD="), "{why}, not {part}");
        assert!(why.len() < 600 && !why.contains('\x1b'), "{why}");
    }
}

#[test]
fn requests_that_fail() {
    use PmiInterface::{Pmi1, Pmi2};
    type Call = fn(&mut Wire) -> Result<(), JobError>;
    let calls: [Call; 3] = [|w| w.put("a", "b"), |w| w.fence(None), |w| w.get(1, "a").map(drop)];
    for (choice, text) in [(Pmi1, "<one>"), (Pmi2, "<two>")] {
        for call in calls {
            let (wire, theirs) = scripted(choice, text);
            let (mut wire, mut theirs) = (wire.unwrap(), Some(theirs));
            // Later calls find the other end closed. They neither wait nor raise a signal.
            for _ in 0..2 {
                let why = call(&mut wire).unwrap_err().message;
                assert!(why.contains("closed the connection"), "{why}");
                theirs.take();
            }
            wire.abort();
            wire.finalize(true);
        }
    }
    for (answer, call, part) in [
        (
            "cmd=put_result rc=-1 msg=full\n",
            calls[0],
            "it refuses put with \"full\"",
        ),
        (
            "cmd=get_result rc=0\n",
            calls[2],
            "of rank 1: the process manager at PMI-1",
        ),
        ("cmd=get_result rc=0\n", calls[2], "has no value"),
    ] {
        let (wire, _theirs) = scripted(Pmi1, &format!("<one>{answer}"));
        let why = call(&mut wire.unwrap()).unwrap_err().message;
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn a_job_that_cannot_start_is_aborted() {
    for (choice, text, abort) in [
        (PmiInterface::Pmi1, "<one>", "\ncmd=abort exitcode=1\n"),
        (
            PmiInterface::Pmi2,
            "<two>",
            ";    51cmd=abort;exitcode=1;isworld=TRUE;msg=cannot start;",
        ),
    ] {
        let (wire, theirs) = scripted(choice, text);
        wire.unwrap().abort();
        let requests = io::read_to_string(theirs).unwrap();
        assert!(requests.ends_with(abort), "{requests}");
    }
}

#[test]
fn a_manager_that_is_silent() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let now = Some(Instant::now());
    let mut stream = Stream::inherited(&ours.as_raw_fd().to_string()).unwrap();
    // Also in the middle of a message.
    for (version, first, second) in [(Version::One, "a", "b\n"), (Version::Two, "     2", "ab")] {
        for part in ["", first] {
            (&theirs).write_all(part.as_bytes()).unwrap();
            assert_eq!(stream.message(version, now).unwrap_err(), "it does not answer");
        }
        (&theirs).write_all(second.as_bytes()).unwrap();
        assert_eq!(stream.message(version, now).unwrap(), "ab");
    }
    // Until the connection's buffers are full.
    let message = "x".repeat(1 << 16);
    let why = std::iter::repeat_with(|| stream.send(&message, now)).find_map(Result::err);
    assert_eq!(why.as_deref(), Some("it does not answer"));
    drop(theirs);
    for (choice, text) in [(PmiInterface::Pmi1, "<one>"), (PmiInterface::Pmi2, "<two><put>")] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&theirs).write_all(&answers(text)).unwrap();
        let mut wire = Wire::connect(&start(inherited(&ours), choice, 0, 2)).unwrap();
        let why = wire.fence(Some(Duration::from_millis(20))).unwrap_err().message;
        assert!(why.contains("does not answer"), "{why}");
    }
}

#[test]
fn the_environment_is_wrong() {
    let refused = |start: &WireStart| Wire::connect(start).unwrap_err().message;
    let file = std::fs::File::open("/dev/null").unwrap();
    let closed = file.as_raw_fd().to_string();
    for bad in [
        "seven",
        "-1",
        "99999999999",
        "1000000",
        &closed,
        "nowhere",
        "127.0.0.1:99999",
    ] {
        let (address, id) = (bad.to_owned(), "0".into());
        let (name, place) = if bad.contains([':', 'w']) {
            ("PMI_PORT", ManagerAddress::Port { address, id })
        } else {
            ("PMI_FD", ManagerAddress::Inherited(address))
        };
        let why = refused(&start(place, PmiInterface::Auto, 0, 1));
        assert!(why.contains(&format!("{name}={bad}")), "{why}");
    }
    for (rank, size, part) in [
        (None, Some("1"), "PMI_RANK is not set"),
        (Some("one"), Some("2"), "PMI_RANK=\"one\""),
        (Some("0"), None, "PMI_SIZE is not set"),
        (Some("2"), Some("2"), "rank 2 of 2"),
        (Some("0"), Some("0"), "rank 0 of 0"),
    ] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&theirs).write_all(&answers("<one>")).unwrap();
        let mut from = start(inherited(&ours), PmiInterface::Pmi1, 0, 0);
        (from.rank, from.size) = (rank.map(str::to_owned), size.map(str::to_owned));
        let why = refused(&from);
        assert!(why.contains(part), "{why}");
    }
}
