//! PMI-1 and PMI-2 against well-behaved and misbehaving managers of the test.

mod manager;

use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use super::stream::Stream;
use super::wire::Wire;
use super::{connect, DetectedManager, ManagerAddress, PmiInterface, ProcessManager, WireStart, KEY_MAX, VALUE_MAX};
use crate::JobError;
use manager::{job, read_counted, read_line, CloneStream, Manager};

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

/// A value that differs between ranks.
fn value(rank: u32, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u32 * 7 + rank) as u8).collect()
}

fn use_it(mut manager: Box<dyn ProcessManager>, rank: u32, size: u32, came: &AtomicU32) {
    assert_eq!((manager.rank(), manager.size()), (rank, size));
    manager.put("small", &value(rank, rank as usize)).unwrap();
    manager.put("large-0", &value(rank, VALUE_MAX)).unwrap();
    manager.fence(None).unwrap();
    for owner in 0..size {
        assert_eq!(manager.get(owner, "small"), Ok(value(owner, owner as usize)));
        assert_eq!(manager.get(owner, "large-0"), Ok(value(owner, VALUE_MAX)));
    }
    let why = manager.get(1, "nothing").unwrap_err().message;
    assert!(why.contains("rank 1") && why.contains("\"nothing\""), "{why}");
    assert!(
        why.contains("with \"key not found\"") || why.contains("finds nothing"),
        "{why}"
    );
    manager.put("later", &[9]).unwrap();
    // Rank 0 comes last, and the others wait for it.
    for fence in 1..20 {
        while rank == 0 && came.load(SeqCst) + 1 < fence * size {
            thread::yield_now();
        }
        came.fetch_add(1, SeqCst);
        manager.fence(None).unwrap();
        assert!(came.load(SeqCst) >= fence * size, "the fence is no barrier");
    }
    assert_eq!(manager.get(size - 1, "later"), Ok(vec![9]));
    manager.finalize(true);
}

/// A job of `size` threads, each with a well-behaved manager at its other end. Returns the
/// managers' names.
fn run(size: u32, choice: PmiInterface, value_max: usize, slow: bool, refuses: &'static [&'static str]) -> String {
    let job = job(size);
    let mut threads = Vec::new();
    for rank in 0..size {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let manager = Manager {
            job: job.clone(),
            rank,
            size,
            value_max,
            slow,
            refuses,
        };
        let server = thread::spawn(move || manager.serve(theirs));
        let job = job.clone();
        threads.push(thread::spawn(move || {
            let manager = connect(DetectedManager::Wire(start(inherited(&ours), choice, rank, size))).unwrap();
            assert!(manager.descriptors().len() == 2 && manager.descriptors().contains(&ours.as_raw_fd()));
            let name = manager.describe();
            assert!(name.ends_with(&format!("(PMI_FD={})", ours.as_raw_fd())), "{name}");
            let id = manager.job_id().to_owned();
            use_it(manager, rank, size, &job.came);
            assert!(server.join().unwrap(), "finalize was not heard");
            format!("{} {id}", name.split(' ').next().unwrap())
        }));
    }
    let mut names: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    names.dedup();
    assert_eq!(names.len(), 1, "{names:?}");
    names.remove(0)
}

#[test]
fn jobs() {
    for (choice, name) in [
        (PmiInterface::Auto, "PMI-1 kvs_1_of-test"),
        (PmiInterface::Pmi1, "PMI-1 kvs_1_of-test"),
        (PmiInterface::Pmi2, "PMI-2 kvs;1;of-test"),
    ] {
        assert_eq!(run(3, choice, 1023, false, &[]), name);
        assert_eq!(run(2, choice, 1023, true, &[]), name);
    }
    // A value in many pieces.
    assert_eq!(run(3, PmiInterface::Pmi1, 16, false, &[]), "PMI-1 kvs_1_of-test");
    assert_eq!(run(2, PmiInterface::Auto, 1023, false, &["1"]), "PMI-2 kvs;1;of-test");
}

#[test]
fn connecting_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let manager = Manager {
        job: job(1),
        rank: 0,
        size: 1,
        value_max: 100,
        slow: false,
        refuses: &[],
    };
    let server = thread::spawn(move || manager.serve(listener.accept().unwrap().0));
    let place = ManagerAddress::Port {
        address,
        id: "0".into(),
    };
    let mut from_there = start(place, PmiInterface::Auto, 5, 6);
    (from_there.rank, from_there.size) = (None, None);
    let mut manager = connect(DetectedManager::Wire(from_there)).unwrap();
    assert!(
        manager.describe().starts_with("PMI-1 (PMI_PORT=127.0.0.1:"),
        "{}",
        manager.describe()
    );
    assert_eq!((manager.rank(), manager.size()), (0, 1));
    manager.fence(None).unwrap();
    manager.finalize(true);
    assert!(server.join().unwrap());
}

/// A manager that answers each request with the next text, and then closes the connection. Returns
/// the result of `work`.
fn scripted<T>(choice: PmiInterface, answers: &[&[u8]], work: impl FnOnce(Result<Wire, JobError>) -> T) -> T {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let answers: Vec<Vec<u8>> = answers.iter().map(|a| a.to_vec()).collect();
    let server = thread::spawn(move || {
        let mut to = theirs.copy();
        let mut from = BufReader::new(theirs);
        let mut two = false;
        for answer in answers {
            let request = if two {
                read_counted(&mut from)
            } else {
                read_line(&mut from)
            };
            let Some(request) = request else { return };
            two = two || request.field("pmi_version") == Some("2");
            // The other end may have given up.
            let _ = to.write_all(&answer);
        }
        let _ = if two {
            read_counted(&mut from)
        } else {
            read_line(&mut from)
        };
    });
    let result = work(Wire::connect(&start(inherited(&ours), choice, 0, 2)));
    drop(ours);
    server.join().unwrap();
    result
}

const INIT_1: &[u8] = b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
const MAXES: &[u8] = b"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
const SPACE: &[u8] = b"cmd=my_kvsname kvsname=kvs_0\n";
const INIT_2: &[u8] = b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
const FULL: &[u8] = b"    41cmd=fullinit-response;rank=0;size=2;rc=0;";
const ID: &[u8] = b"    35cmd=job-getid-response;jobid=a;rc=0";

fn refusal(choice: PmiInterface, answers: &[&[u8]]) -> String {
    scripted(choice, answers, |wire| wire.unwrap_err().message)
}

#[test]
fn a_manager_that_closes_the_connection() {
    let one = [INIT_1, MAXES, SPACE];
    let two = [INIT_2, FULL, ID];
    for (choice, answers) in [(PmiInterface::Pmi1, one), (PmiInterface::Pmi2, two)] {
        for length in 0..answers.len() {
            let why = refusal(choice, &answers[..length]);
            assert!(
                why.contains("closed the connection") && why.contains("PMI_FD="),
                "{why}"
            );
        }
        type Call = fn(&mut Wire) -> Result<(), JobError>;
        let calls: [Call; 3] = [|w| w.put("a", b"b"), |w| w.fence(None), |w| w.get(0, "a").map(drop)];
        for call in calls {
            scripted(choice, &answers, |wire| {
                let mut wire = wire.unwrap();
                let why = call(&mut wire).unwrap_err().message;
                assert!(why.contains("closed the connection"), "{why}");
                // Later calls find the other end closed. They neither wait nor raise a signal.
                assert!(call(&mut wire).is_err());
                wire.abort(1, "test");
                wire.finalize(true);
            });
        }
        scripted(choice, &answers, |wire| wire.unwrap().finalize(true));
    }
}

#[test]
fn a_fence_that_does_not_end() {
    for (choice, answers) in [
        (PmiInterface::Pmi1, [INIT_1, MAXES, SPACE]),
        (PmiInterface::Pmi2, [INIT_2, FULL, ID]),
    ] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&answers.concat()).unwrap();
        if choice == PmiInterface::Pmi2 {
            theirs.write_all(b"    28cmd=kvs-put-response;rc=0;  ").unwrap();
        }
        let mut wire = Wire::connect(&start(inherited(&ours), choice, 0, 2)).unwrap();
        let why = wire.fence(Some(Duration::from_millis(20))).unwrap_err().message;
        assert!(why.contains("does not answer"), "{why}");
    }
}

#[test]
fn a_manager_that_refuses() {
    let no_1 = b"cmd=response_to_init pmi_version=1 rc=-1\n";
    let other = b"cmd=response_to_init pmi_version=3 rc=0\n";
    let why = refusal(PmiInterface::Auto, &[no_1, other]);
    assert!(
        why.contains("PMI-1 (") && why.contains("nor PMI-2 (") && why.contains("\"3\""),
        "{why}"
    );
    let why = refusal(PmiInterface::Pmi1, &[no_1]);
    assert!(why.contains("PMI-1") && !why.contains("PMI-2"), "{why}");
    let no_id = b"    34cmd=job-getid-response;rc=7;msg=no";
    let why = refusal(PmiInterface::Pmi2, &[INIT_2, FULL, no_id]);
    assert!(
        why.contains("job-getid") && why.contains("\"7\"") && why.contains("\"no\""),
        "{why}"
    );
    scripted(
        PmiInterface::Pmi1,
        &[INIT_1, MAXES, SPACE, b"cmd=put_result rc=-1 msg=full\n"],
        |wire| {
            let why = wire.unwrap().put("a", b"b").unwrap_err().message;
            assert!(why.contains("it refuses put with \"full\""), "{why}");
        },
    );
}

#[test]
fn a_manager_that_talks_nonsense() {
    let long = vec![b'x'; 70_000];
    let cases: &[(PmiInterface, &[&[u8]], &str)] = &[
        (PmiInterface::Pmi1, &[&long], "more than 65536"),
        (PmiInterface::Pmi1, &[b"\xff\xfe\n"], "not text"),
        (
            PmiInterface::Pmi1,
            &[b"hello\n"],
            "\"hello\" instead of response_to_init",
        ),
        (PmiInterface::Pmi1, &[b"\x1b[2J\n"], "\"?[2J\""),
        (PmiInterface::Pmi1, &[INIT_1, SPACE], "instead of maxes"),
        (
            PmiInterface::Pmi1,
            &[INIT_1, b"cmd=maxes keylen_max=64\n"],
            "vallen_max",
        ),
        (
            PmiInterface::Pmi1,
            &[INIT_1, b"cmd=maxes keylen_max=64 vallen_max=16\n"],
            "vallen_max=16 is too small",
        ),
        (
            PmiInterface::Pmi1,
            &[INIT_1, b"cmd=maxes keylen_max=8 vallen_max=1024\n"],
            "keylen_max=8 is too small",
        ),
        (
            PmiInterface::Pmi1,
            &[INIT_1, MAXES, b"cmd=my_kvsname rc=0\n"],
            "no job name",
        ),
        (
            PmiInterface::Pmi1,
            &[INIT_1, MAXES, b"cmd=my_kvsname kvsname=\x01\n"],
            "job name is invalid",
        ),
        (
            PmiInterface::Pmi2,
            &[INIT_2, b"0x1234"],
            "\"0x1234\" instead of the length",
        ),
        (
            PmiInterface::Pmi2,
            &[INIT_2, b"   -12cmd="],
            "\"   -12\" instead of the length",
        ),
        (PmiInterface::Pmi2, &[INIT_2, b"999999cmd="], "999999 characters"),
        (
            PmiInterface::Pmi2,
            &[INIT_2, b"     0"],
            "\"\" instead of fullinit-response",
        ),
        (
            PmiInterface::Pmi2,
            &[INIT_2, b"    34cmd=fullinit-response;rank=1;rc=0;"],
            "rank and size",
        ),
        (
            PmiInterface::Pmi2,
            &[INIT_2, b"    41cmd=fullinit-response;rank=2;size=2;rc=0;", ID],
            "rank 2 of 2",
        ),
    ];
    for (choice, answers, part) in cases {
        let why = refusal(*choice, answers);
        assert!(why.contains(part), "{why}, not {part}");
        assert!(why.len() < 600 && !why.contains('\x1b'), "{why}");
    }
}

#[test]
fn values_that_come_back_damaged() {
    // Cray's empty value; texts that are too short, too long, endless, or of other alphabets.
    for value in ["(null)", "0003Zm9", "0001ZgAA", "0400Zg", "0003Zm9/", "zzzz", "0"] {
        let answer = format!("cmd=get_result rc=0 value={value}\n");
        let end: &[u8] = b"cmd=get_result rc=0 value=\n";
        scripted(
            PmiInterface::Pmi1,
            &[INIT_1, MAXES, SPACE, answer.as_bytes(), end],
            |wire| {
                let why = wire.unwrap().get(1, "a").unwrap_err().message;
                assert!(why.contains("rank 1") && why.contains("damaged"), "{why}");
            },
        );
    }
    scripted(
        PmiInterface::Pmi1,
        &[INIT_1, MAXES, SPACE, b"cmd=get_result rc=0\n"],
        |wire| {
            let why = wire.unwrap().get(1, "a").unwrap_err().message;
            assert!(why.contains("no value"), "{why}");
        },
    );
}

#[test]
fn a_manager_that_is_silent() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let mut stream = Stream::inherited(ours.as_raw_fd()).unwrap();
    let now = Some(Instant::now());
    let why = [stream.line(now).unwrap_err(), stream.counted(now).unwrap_err()];
    assert_eq!(why, ["it does not answer"; 2]);
    // Until the connection's buffers are full.
    let message = "x".repeat(1 << 16);
    let why = std::iter::repeat_with(|| stream.send(&message, now)).find_map(Result::err);
    assert_eq!(why.as_deref(), Some("it does not answer"));
}

#[test]
fn what_is_asked_for_wrongly() {
    let keys = ["", "A", "a_b", "a b", "a=b", "ä", &"k".repeat(KEY_MAX + 1)];
    scripted(PmiInterface::Pmi1, &[INIT_1, MAXES, SPACE], |wire| {
        let mut wire = wire.unwrap();
        for key in keys {
            assert!(
                wire.put(key, b"").unwrap_err().message.contains("is not a valid key"),
                "{key}"
            );
            assert!(
                wire.get(0, key).unwrap_err().message.contains("is not a valid key"),
                "{key}"
            );
        }
        let why = wire.put("a", &[0; VALUE_MAX + 1]).unwrap_err().message;
        assert!(why.contains("1025 bytes"), "{why}");
    });
}

#[test]
fn the_environment_is_wrong() {
    let file = std::fs::File::open("/dev/null").unwrap();
    for bad in ["seven", "-1", "99999999999", "1000000", &file.as_raw_fd().to_string()] {
        let why = Wire::connect(&start(ManagerAddress::Inherited(bad.into()), PmiInterface::Auto, 0, 1))
            .unwrap_err()
            .message;
        assert!(why.contains(&format!("PMI_FD={bad}")), "{why}");
    }
    let place = |address: &str| ManagerAddress::Port {
        address: address.into(),
        id: "0".into(),
    };
    for bad in ["nowhere", "127.0.0.1:99999"] {
        let why = Wire::connect(&start(place(bad), PmiInterface::Auto, 0, 1))
            .unwrap_err()
            .message;
        assert!(why.contains(&format!("PMI_PORT={bad}")), "{why}");
    }
    for (rank, size, part) in [
        (None, Some("1"), "PMI_RANK is not set"),
        (Some("one"), Some("2"), "PMI_RANK=\"one\""),
        (Some("0"), None, "PMI_SIZE is not set"),
        (Some("2"), Some("2"), "rank 2 of 2"),
        (Some("0"), Some("0"), "rank 0 of 0"),
    ] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut from = start(inherited(&ours), PmiInterface::Pmi1, 0, 0);
        (from.rank, from.size) = (rank.map(str::to_owned), size.map(str::to_owned));
        let manager = Manager {
            job: job(1),
            rank: 0,
            size: 1,
            value_max: 100,
            slow: false,
            refuses: &[],
        };
        let server = thread::spawn(move || manager.serve(theirs));
        let why = Wire::connect(&from).unwrap_err().message;
        assert!(why.contains(part), "{why}");
        drop(ours);
        assert!(!server.join().unwrap());
    }
}

#[test]
fn ending_the_job() {
    for (choice, answers) in [
        (PmiInterface::Pmi1, [INIT_1, MAXES, SPACE]),
        (PmiInterface::Pmi2, [INIT_2, FULL, ID]),
    ] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || {
            let mut to = theirs.copy();
            let mut from = BufReader::new(theirs);
            let two = choice == PmiInterface::Pmi2;
            for (i, answer) in answers.into_iter().enumerate() {
                if two && i > 0 {
                    read_counted(&mut from)
                } else {
                    read_line(&mut from)
                }
                .unwrap();
                to.write_all(answer).unwrap();
            }
            if two {
                read_counted(&mut from)
            } else {
                read_line(&mut from)
            }
            .unwrap()
        });
        let mut wire = Wire::connect(&start(inherited(&ours), choice, 0, 2)).unwrap();
        wire.abort(7, "lost;\nrank 1");
        let message = server.join().unwrap();
        assert_eq!(
            (message.command.as_str(), message.field("exitcode")),
            ("abort", Some("7"))
        );
        let why = (choice == PmiInterface::Pmi2).then_some("lost  rank 1");
        assert_eq!(message.field("msg"), why);
    }
}
