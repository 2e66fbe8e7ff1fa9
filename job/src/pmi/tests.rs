//! PMI-1 and PMI-2 against well-behaved and misbehaving managers of the test.

use std::collections::HashMap;
use std::io::Write;
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::message::{PmiMessage, Version};
use super::stream::Stream;
use super::wire::Wire;
use super::{connect, DetectedManager, ManagerAddress, PmiInterface, ProcessManager, WireStart, VALUE_MAX};
use crate::JobError;

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

/// The manager's end of a connection.
fn manager_end(stream: &UnixStream) -> Stream {
    Stream::inherited(&stream.as_raw_fd().to_string()).unwrap()
}

/// What the processes of a job share.
#[derive(Default)]
struct Shared {
    store: HashMap<String, String>,
    /// Fences that each process has reached.
    fences: Vec<u32>,
    /// Calls of fence by all processes.
    calls: u32,
}

/// A well-behaved manager of one process.
#[derive(Clone)]
struct Manager {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    rank: u32,
    /// Whether answers are written byte by byte.
    slow: bool,
    /// A version that it does not speak.
    refuses: &'static str,
}

impl Manager {
    /// The managers of a job.
    fn of_job(size: u32, slow: bool, refuses: &'static str) -> Vec<Self> {
        let shared = Arc::new((Mutex::<Shared>::default(), Condvar::new()));
        shared.0.lock().unwrap().fences = vec![0; size as usize];
        let manager = |rank| Self {
            shared: shared.clone(),
            rank,
            slow,
            refuses,
        };
        (0..size).map(manager).collect()
    }

    /// Serves until the process ends. Returns whether it has finalized.
    fn serve(&self, stream: &UnixStream) -> bool {
        let mut stream = manager_end(stream);
        let mut version = Version::One;
        while let Ok(text) = stream.message(version, None) {
            let request = version.parse(&text).unwrap();
            let answer = self.answer(version, &request);
            let step = if self.slow { 1 } else { answer.len() };
            for part in answer.as_bytes().chunks(step) {
                stream.send(std::str::from_utf8(part).unwrap(), None).unwrap();
            }
            if request.field("pmi_version") == Some("2") && self.refuses != "2" {
                version = Version::Two;
            }
            if request.command == "finalize" {
                return true;
            }
        }
        false
    }

    fn answer(&self, version: Version, request: &PmiMessage) -> String {
        let size = self.shared.0.lock().unwrap().fences.len();
        let (rank, field) = (self.rank, |name| request.field(name).unwrap());
        let answer = match request.command.as_str() {
            "init" => {
                let asked = field("pmi_version");
                let code = -i32::from(asked == self.refuses);
                format!("response_to_init pmi_version={asked} rc={code}")
            }
            "initack" => {
                assert_eq!(request.number("pmiid"), Some(rank));
                format!("initack\ncmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0")
            }
            "get_maxes" => "maxes keylen_max=64 vallen_max=1024".into(),
            "get_my_kvsname" => "my_kvsname kvsname=kvs_1_of-test".into(),
            "fullinit" => {
                assert_eq!(request.number("pmirank"), Some(rank));
                format!("fullinit-response rank={rank} size={size} rc=0")
            }
            "job-getid" => "job-getid-response jobid=2.0 rc=0".into(),
            "put" | "kvs-put" => {
                let mut shared = self.shared.0.lock().unwrap();
                let before = shared.store.insert(field("key").into(), field("value").into());
                assert_eq!(before, None, "{} twice", field("key"));
                ["put_result rc=0 msg=success", "kvs-put-response rc=0"][version as usize].into()
            }
            "barrier_in" => {
                self.enter_fence();
                self.wait_for_all();
                "barrier_out rc=0".into()
            }
            "kvs-fence" => {
                self.enter_fence();
                "kvs-fence-response rc=0".into()
            }
            "get" => match self.value(field("key")) {
                Some(value) => format!("get_result rc=0 msg=success value={value}"),
                None => "get_result rc=-1 msg=key not found value=unknown".into(),
            },
            "kvs-get" => match self.value(field("key")) {
                Some(value) => format!("kvs-get-response found=TRUE value={value} rc=0"),
                None => "kvs-get-response found=FALSE rc=0".into(),
            },
            "finalize" => ["finalize_ack rc=0", "finalize-response rc=0"][version as usize].into(),
            other => panic!("{other} is no command"),
        };
        match version {
            Version::One => format!("cmd={answer}\n"),
            Version::Two => format!("{:6}cmd={};", answer.len() + 5, answer.replace(' ', ";")),
        }
    }

    fn enter_fence(&self) {
        self.shared.0.lock().unwrap().fences[self.rank as usize] += 1;
        self.shared.1.notify_all();
    }

    /// Waits until all processes have reached this process's fence.
    fn wait_for_all(&self) {
        let is_late = |shared: &mut Shared| shared.fences.iter().any(|&f| f < shared.fences[self.rank as usize]);
        drop(
            self.shared
                .1
                .wait_while(self.shared.0.lock().unwrap(), is_late)
                .unwrap(),
        );
    }

    /// As in hydra: waits only for values that are missing.
    fn value(&self, key: &str) -> Option<String> {
        let find = || self.shared.0.lock().unwrap().store.get(key).cloned();
        find().or_else(|| {
            self.wait_for_all();
            find()
        })
    }
}

fn use_it(mut manager: Box<dyn ProcessManager>, shared: &Mutex<Shared>, rank: u32, size: u32) {
    let place = manager.membership();
    assert_eq!((place.rank, place.size), (rank, size));
    let value = |rank: u32| rank.to_string().repeat(VALUE_MAX);
    manager.put("large", &value(rank)).unwrap();
    manager.fence(None).unwrap();
    for owner in 0..size {
        assert_eq!(manager.get(owner, "large"), Ok(value(owner)));
    }
    let why = manager.get(1, "nothing").unwrap_err().message;
    assert!(why.contains("rank 1") && why.contains("\"nothing\""), "{why}");
    assert!(
        why.contains("with \"key not found\"") || why.contains("finds nothing"),
        "{why}"
    );
    // Rank 0 comes last, and the others wait for it.
    let calls = || shared.lock().unwrap().calls;
    for fence in 1..20 {
        while rank == 0 && calls() + 1 < fence * size {
            thread::yield_now();
        }
        shared.lock().unwrap().calls += 1;
        manager.fence(None).unwrap();
        assert!(calls() >= fence * size, "the fence is no barrier");
    }
    manager.finalize(true);
}

#[test]
fn jobs() {
    for (size, choice, slow, refuses, expected) in [
        (3, PmiInterface::Auto, false, "", "PMI-1 kvs_1_of-test"),
        (2, PmiInterface::Pmi1, true, "", "PMI-1 kvs_1_of-test"),
        (3, PmiInterface::Pmi2, false, "", "PMI-2 2.0"),
        (2, PmiInterface::Pmi2, true, "", "PMI-2 2.0"),
        (6, PmiInterface::Auto, false, "1", "PMI-2 2.0"),
    ] {
        thread::scope(|scope| {
            for manager in Manager::of_job(size, slow, refuses) {
                let (ours, theirs) = UnixStream::pair().unwrap();
                let (shared, rank) = (manager.shared.clone(), manager.rank);
                let server = scope.spawn(move || manager.serve(&theirs));
                scope.spawn(move || {
                    let manager = connect(DetectedManager::Wire(start(inherited(&ours), choice, rank, size))).unwrap();
                    let fd = ours.as_raw_fd();
                    assert!(manager.descriptors().len() == 2 && manager.descriptors().contains(&fd));
                    let name = format!("{} {}", manager.membership().manager, manager.membership().job);
                    assert_eq!(name.replace(&format!(" (PMI_FD={fd})"), ""), expected);
                    use_it(manager, &shared.0, rank, size);
                    assert!(server.join().unwrap(), "it was not finalized");
                });
            }
        });
    }
}

#[test]
fn connecting_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, id) = (listener.local_addr().unwrap().to_string(), "0".into());
    let manager = Manager::of_job(1, false, "").remove(0);
    let server = thread::spawn(move || manager.serve(&OwnedFd::from(listener.accept().unwrap().0).into()));
    let from_there = start(ManagerAddress::Port { address, id }, PmiInterface::Auto, 5, 6);
    let mut manager = connect(DetectedManager::Wire(from_there)).unwrap();
    let place = manager.membership();
    assert!(place.manager.starts_with("PMI-1 (PMI_PORT=127.0.0.1:"), "{place:?}");
    assert_eq!((place.rank, place.size), (0, 1));
    manager.fence(None).unwrap();
    manager.finalize(true);
    assert!(server.join().unwrap());
}

/// Expands names of answers in `text`.
fn answers(text: &str) -> Vec<u8> {
    let init = |version| format!("cmd=response_to_init pmi_version={version} pmi_subversion=0 rc=0\n");
    let names = [
        ("<one>", "<init1><maxes><name>"),
        ("<two>", "<init2><full>    35cmd=job-getid-response;jobid=a;rc=0"),
        ("<init1>", &init(1)),
        ("<maxes>", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
        ("<name>", "cmd=my_kvsname kvsname=kvs_0\n"),
        ("<init2>", &init(2)),
        ("<full>", "    41cmd=fullinit-response;rank=0;size=2;rc=0;"),
        ("<long>", &"x".repeat(70_000)),
    ];
    let expand = |text: String, (name, answer): &(&str, &str)| text.replace(name, answer);
    let text = names.iter().fold(text.to_owned(), expand);
    text.chars().map(|c| c as u8).collect()
}

/// Connects to a manager that has written these answers, and nothing follows. Also returns its end.
fn scripted(choice: PmiInterface, text: &str) -> (Result<Wire, JobError>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (&theirs).write_all(&answers(text)).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    let start = start(inherited(&ours), choice, 0, 2);
    (Wire::connect(&start), theirs)
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
        let requests = std::io::read_to_string(theirs).unwrap();
        assert!(requests.ends_with(abort), "{requests}");
    }
}

#[test]
fn a_manager_that_is_silent() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (now, mut stream) = (Some(Instant::now()), manager_end(&ours));
    let why = [Version::One, Version::Two].map(|version| stream.message(version, now).unwrap_err());
    assert_eq!(why, ["it does not answer"; 2]);
    // Until the connection's buffers are full.
    let message = "x".repeat(1 << 16);
    let why = std::iter::repeat_with(|| stream.send(&message, now)).find_map(Result::err);
    assert_eq!(why.as_deref(), Some("it does not answer"));
    drop(theirs);
    for (choice, text) in [
        (PmiInterface::Pmi1, "<one>"),
        (PmiInterface::Pmi2, "<two>    28cmd=kvs-put-response;rc=0;  "),
    ] {
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
        let (name, place) = match bad.contains([':', 'w']) {
            true => ("PMI_PORT", ManagerAddress::Port { address, id }),
            false => ("PMI_FD", ManagerAddress::Inherited(address)),
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
