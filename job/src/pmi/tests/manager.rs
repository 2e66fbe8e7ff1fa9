//! A well-behaved process manager, in a thread for each process.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex};

use crate::pmi::message::{counted, line, PmiMessage};

/// The state that all processes share.
pub struct Job {
    /// Fences that each process has reached.
    fences: Mutex<Vec<u32>>,
    changed: Condvar,
    store: Mutex<HashMap<String, String>>,
    /// Calls of fence by the processes.
    pub came: AtomicU32,
}

/// The manager's end of one process.
pub struct Manager {
    pub job: Arc<Job>,
    pub rank: u32,
    pub size: u32,
    pub value_max: usize,
    /// Whether answers are written byte by byte.
    pub slow: bool,
    pub refuses: &'static [&'static str],
}

impl Manager {
    fn answer(&self, to: &mut impl Write, text: &str) {
        let step = if self.slow { 1 } else { text.len() };
        for piece in text.as_bytes().chunks(step) {
            to.write_all(piece).unwrap();
        }
    }

    fn put(&self, message: &PmiMessage) {
        let (key, value) = (message.field("key").unwrap(), message.field("value").unwrap());
        assert!((1..64).contains(&key.len()) && (1..=self.value_max).contains(&value.len()));
        // Slurm's limit of lines.
        assert!(message
            .field("kvsname")
            .is_none_or(|name| name.len() + key.len() + value.len() < 1000));
        let good = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
        assert!(key.bytes().chain(value.bytes()).all(good), "{key}={value}");
        let before = self.job.store.lock().unwrap().insert(key.into(), value.into());
        assert_eq!(before, None, "{key} twice");
    }

    fn come_to_fence(&self) {
        self.job.fences.lock().unwrap()[self.rank as usize] += 1;
        self.job.changed.notify_all();
    }

    /// Waits until all processes have reached this process's fence.
    fn wait_for_all(&self) {
        let late = |fences: &mut Vec<u32>| fences.iter().any(|&f| f < fences[self.rank as usize]);
        drop(
            self.job
                .changed
                .wait_while(self.job.fences.lock().unwrap(), late)
                .unwrap(),
        );
    }

    /// As in hydra: waits only for values that are missing.
    fn get(&self, message: &PmiMessage) -> Option<String> {
        let key = message.field("key").unwrap();
        let present = self.job.store.lock().unwrap().get(key).cloned();
        present.or_else(|| {
            self.wait_for_all();
            self.job.store.lock().unwrap().get(key).cloned()
        })
    }

    /// Serves until the process ends. Returns whether it has finalized.
    pub fn serve(&self, stream: impl Read + Write + CloneStream) -> bool {
        let mut to = stream.copy();
        let mut from = BufReader::new(stream);
        let mut two = false;
        loop {
            let request = if two {
                read_counted(&mut from)
            } else {
                read_line(&mut from)
            };
            let Some(request) = request else { return false };
            let (command, fields) = self.react(&request, &mut two);
            let fields: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
            let text = if two && command != "response_to_init" {
                counted(command, &fields)
            } else {
                line(command, &fields)
            };
            self.answer(&mut to, &text);
            if request.command == "initack" {
                self.answer(
                    &mut to,
                    &format!(
                        "cmd=set size={}\ncmd=set rank={}\ncmd=set debug=0\n",
                        self.size, self.rank
                    ),
                );
            }
            if request.command == "finalize" {
                return true;
            }
        }
    }

    fn react(&self, request: &PmiMessage, two: &mut bool) -> (&'static str, Vec<(&'static str, String)>) {
        let ok = ("rc", "0".to_owned());
        match request.command.as_str() {
            "init" => {
                let version = request.field("pmi_version").unwrap();
                let refused = self.refuses.contains(&version);
                *two = !refused && version == "2";
                let code = if refused { "-1" } else { "0" };
                (
                    "response_to_init",
                    vec![("pmi_version", version.into()), ("rc", code.into())],
                )
            }
            "initack" => {
                assert_eq!(request.number("pmiid"), Some(self.rank));
                ("initack", vec![])
            }
            "get_maxes" => (
                "maxes",
                vec![
                    ("keylen_max", "64".into()),
                    ("vallen_max", (self.value_max + 1).to_string()),
                ],
            ),
            "get_my_kvsname" => ("my_kvsname", vec![("kvsname", "kvs_1_of-test".into())]),
            "fullinit" => {
                assert_eq!(request.number("pmirank"), Some(self.rank));
                (
                    "fullinit-response",
                    vec![("rank", self.rank.to_string()), ("size", self.size.to_string()), ok],
                )
            }
            "job-getid" => ("job-getid-response", vec![("jobid", "kvs;1;of-test".into()), ok]),
            "put" | "kvs-put" => {
                self.put(request);
                (
                    if *two { "kvs-put-response" } else { "put_result" },
                    vec![ok, ("msg", "success".into())],
                )
            }
            "barrier_in" => {
                self.come_to_fence();
                self.wait_for_all();
                ("barrier_out", vec![ok])
            }
            "kvs-fence" => {
                self.come_to_fence();
                ("kvs-fence-response", vec![ok])
            }
            "get" => match self.get(request) {
                Some(value) => ("get_result", vec![ok, ("msg", "success".into()), ("value", value)]),
                None => (
                    "get_result",
                    vec![
                        ("rc", "-1".into()),
                        ("msg", "key not found".into()),
                        ("value", "unknown".into()),
                    ],
                ),
            },
            "kvs-get" => match self.get(request) {
                Some(value) => ("kvs-get-response", vec![("found", "TRUE".into()), ("value", value), ok]),
                None => ("kvs-get-response", vec![("found", "FALSE".into()), ok]),
            },
            "finalize" => (if *two { "finalize-response" } else { "finalize_ack" }, vec![ok]),
            other => panic!("{other} is no command"),
        }
    }
}

/// Streams that can be read and written through two values.
pub trait CloneStream: Sized {
    fn copy(&self) -> Self;
}

impl CloneStream for UnixStream {
    fn copy(&self) -> Self {
        self.try_clone().unwrap()
    }
}

impl CloneStream for TcpStream {
    fn copy(&self) -> Self {
        self.try_clone().unwrap()
    }
}

/// The next PMI-1 message. None at the end.
pub fn read_line(from: &mut impl BufRead) -> Option<PmiMessage> {
    let mut text = String::new();
    from.read_line(&mut text).ok().filter(|&length| length > 0)?;
    Some(PmiMessage::from_line(&text).expect("a line of fields"))
}

/// The next PMI-2 message. None at the end.
pub fn read_counted(from: &mut impl Read) -> Option<PmiMessage> {
    let mut length = [0; 6];
    from.read_exact(&mut length).ok()?;
    let length: usize = std::str::from_utf8(&length).unwrap().trim().parse().unwrap();
    let mut text = vec![0; length];
    from.read_exact(&mut text).ok()?;
    Some(PmiMessage::from_fields_text(std::str::from_utf8(&text).unwrap()).expect("fields"))
}

/// A job of this many processes.
pub fn job(size: u32) -> Arc<Job> {
    Arc::new(Job {
        fences: Mutex::new(vec![0; size as usize]),
        changed: Condvar::new(),
        store: Mutex::default(),
        came: AtomicU32::new(0),
    })
}
