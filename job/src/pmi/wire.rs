//! PMI-1 and PMI-2 over a connection. They are one protocol in two encodings: the same requests and
//! answers, framed and named differently.
//!
//! | | PMI-1 | PMI-2 |
//! |---|---|---|
//! | messages | lines | counted |
//! | start | `init`, `get_maxes`, `get_my_kvsname` | `init`, `fullinit`, `job-getid` |
//! | put, get | `put`, `get` | `kvs-put`, `kvs-get` |
//! | fence | `barrier_in` | `kvs-fence` |
//! | end | `finalize`, `abort` | `finalize`, `abort` |
//!
//! The answer to `barrier_in` comes when all processes have requested it. The answer to `kvs-fence`
//! may not: hydra (4.0, 5.0) answers at once, and a `kvs-get` waits for missing values. So a fence
//! of PMI-2 is a dissemination barrier that relies only on what PMI-2 promises: after a fence, a
//! process can get what another has put before. When [`ProcessManager::fence`] returns, all
//! processes have called it.

mod start;

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::message::{counted, line, PmiMessage};
use super::stream::Stream;
use super::text::{self, piece_key};
use super::{check_key, check_put, quoted, ManagerAddress, ProcessManager, WireStart};
use crate::JobError;

/// The manager answers most requests on this host or with one message to another. Beyond this limit
/// it counts as not answering.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// Limit for the manager when a process ends.
const END_LIMIT: Duration = Duration::from_secs(5);

/// When a request made now counts as not answered.
fn answer_limit() -> Instant {
    Instant::now() + ANSWER_LIMIT
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn name(self) -> &'static str {
        match self {
            Self::One => "PMI-1",
            Self::Two => "PMI-2",
        }
    }
}

/// A connection to a process manager, after start-up.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    /// The variable that it came from, with its value.
    place: String,
    version: Version,
    rank: u32,
    size: u32,
    job: String,
    value_max: usize,
    fences: u32,
    /// Whether no more requests are possible, because an answer is missing or was malformed.
    broken: bool,
}

impl Wire {
    /// Connects and starts the protocol: PMI-1 if the manager speaks it, else PMI-2, unless one is
    /// chosen.
    pub fn connect(start: &WireStart) -> Result<Self, JobError> {
        let (place, stream) = match &start.place {
            ManagerAddress::Inherited(text) => {
                let place = format!("PMI_FD={}", text.trim());
                let number = text.trim().parse().ok().filter(|&number: &RawFd| number >= 0);
                let stream = number
                    .ok_or_else(|| "not a descriptor".to_owned())
                    .and_then(Stream::inherited);
                (place, stream)
            }
            ManagerAddress::Port { address, .. } => (format!("PMI_PORT={address}"), Stream::connected(address.trim())),
        };
        let stream =
            stream.map_err(|why| JobError::new(format!("the process manager at {}: {why}", quoted(&place))))?;
        let mut wire = Self {
            stream,
            place,
            version: Version::One,
            rank: 0,
            size: 0,
            job: String::new(),
            value_max: 0,
            fences: 0,
            broken: false,
        };
        wire.start(start)?;
        Ok(wire)
    }

    fn error(&self, why: &str) -> JobError {
        JobError::new(format!("the process manager at {}: {why}", self.describe()))
    }

    /// Records that the connection is unusable.
    fn broken(&mut self, command: &str, why: &str) -> JobError {
        self.broken = true;
        self.error(&format!("{command} failed: {why}"))
    }

    /// Sends a request and waits for its answer.
    fn exchange(
        &mut self,
        command: &str,
        fields: &[(&str, &str)],
        answer: &str,
        limit: Option<Instant>,
    ) -> Result<PmiMessage, JobError> {
        if self.version == Version::One {
            return self.exchange_lines(command, fields, answer, limit);
        }
        let sent = self.stream.send(&counted(command, fields), limit);
        let received = sent.and_then(|()| self.stream.counted(limit));
        let text = received.map_err(|why| self.broken(command, &why))?;
        let message = PmiMessage::from_fields_text(&text);
        self.expected(command, answer, &text, message)
    }

    fn exchange_lines(
        &mut self,
        command: &str,
        fields: &[(&str, &str)],
        answer: &str,
        limit: Option<Instant>,
    ) -> Result<PmiMessage, JobError> {
        let sent = self.stream.send(&line(command, fields), limit);
        sent.map_err(|why| self.broken(command, &why))?;
        self.receive_line(command, answer, limit)
    }

    fn receive_line(&mut self, command: &str, answer: &str, limit: Option<Instant>) -> Result<PmiMessage, JobError> {
        let text = self.stream.line(limit).map_err(|why| self.broken(command, &why))?;
        let message = PmiMessage::from_line(&text);
        self.expected(command, answer, &text, message)
    }

    fn expected(
        &mut self,
        command: &str,
        answer: &str,
        text: &str,
        message: Option<PmiMessage>,
    ) -> Result<PmiMessage, JobError> {
        match message {
            Some(message) if message.command == answer => Ok(message),
            _ => Err(self.broken(command, &format!("its answer is {} instead of {answer}", quoted(text)))),
        }
    }

    /// Sends a request that the manager may refuse.
    fn ask(
        &mut self,
        command: &str,
        fields: &[(&str, &str)],
        answer: &str,
        limit: Option<Instant>,
    ) -> Result<PmiMessage, JobError> {
        let message = self.exchange(command, fields, answer, limit)?;
        self.granted(command, message)
    }

    fn ask_by_line(
        &mut self,
        command: &str,
        fields: &[(&str, &str)],
        answer: &str,
        limit: Option<Instant>,
    ) -> Result<PmiMessage, JobError> {
        let message = self.exchange_lines(command, fields, answer, limit)?;
        self.granted(command, message)
    }

    fn granted(&self, command: &str, message: PmiMessage) -> Result<PmiMessage, JobError> {
        if message
            .field("found")
            .is_some_and(|found| found.eq_ignore_ascii_case("false"))
        {
            return Err(self.error(&format!("{command} finds nothing")));
        }
        match message.field("rc") {
            None | Some("0") => Ok(message),
            Some(rc) => {
                let reason = message.field("msg").or(message.field("errmsg"));
                let reason = reason.map_or(String::new(), |why| format!(" with {}", quoted(why)));
                Err(self.error(&format!("it refuses {command}{reason} (code {})", quoted(rc))))
            }
        }
    }

    fn put_piece(&mut self, key: &str, value: &str) -> Result<(), JobError> {
        let limit = Some(answer_limit());
        match self.version {
            Version::One => {
                let space = self.job.clone();
                let fields = [("kvsname", space.as_str()), ("key", key), ("value", value)];
                self.ask("put", &fields, "put_result", limit)
            }
            Version::Two => self.ask("kvs-put", &[("key", key), ("value", value)], "kvs-put-response", limit),
        }
        .map(drop)
    }

    fn get_piece(&mut self, owner: u32, key: &str, limit: Option<Instant>) -> Result<String, JobError> {
        let job = self.job.clone();
        let (command, answer) = match self.version {
            Version::One => {
                let fields = [("kvsname", job.as_str()), ("key", key)];
                ("get", self.ask("get", &fields, "get_result", limit)?)
            }
            Version::Two => {
                let owner = owner.to_string();
                let fields = [("jobid", job.as_str()), ("srcid", &owner), ("key", key)];
                ("kvs-get", self.ask("kvs-get", &fields, "kvs-get-response", limit)?)
            }
        };
        match answer.field("value") {
            Some(value) => Ok(value.into()),
            None => Err(self.error(&format!("its answer to {command} for key \"{key}\" has no value"))),
        }
    }
}

impl ProcessManager for Wire {
    fn describe(&self) -> String {
        format!("{} ({})", self.version.name(), self.place)
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job_id(&self) -> &str {
        &self.job
    }

    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), JobError> {
        check_put(key, bytes)?;
        let mut rest = text::encode(bytes);
        let mut piece = 0;
        while !rest.is_empty() {
            let later = rest.split_off(rest.len().min(self.value_max));
            self.put_piece(&piece_key(key, self.rank, piece), &rest)?;
            rest = later;
            piece += 1;
        }
        Ok(())
    }

    fn fence(&mut self, limit: Option<Duration>) -> Result<(), JobError> {
        let limit = limit.map(|limit| Instant::now() + limit);
        if self.version == Version::One {
            return self.ask("barrier_in", &[], "barrier_out", limit).map(drop);
        }
        self.fences += 1;
        let (fences, mut distance) = (self.fences, 1u64);
        let (rank, size) = (u64::from(self.rank), u64::from(self.size));
        loop {
            // No key of a value starts like this one.
            let key = |rank: u64| format!("_fence_{fences}_{distance}_{rank}");
            self.put_piece(&key(rank), "1")?;
            self.ask("kvs-fence", &[], "kvs-fence-response", limit)?;
            let before = (rank + size - distance % size) % size;
            self.get_piece(before as u32, &key(before), limit)?;
            distance *= 2;
            if distance >= size {
                return Ok(());
            }
        }
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<Vec<u8>, JobError> {
        check_key(key)?;
        let nothing = |why: JobError| JobError::new(format!("cannot get key \"{key}\" of rank {owner}: {why}"));
        let mut whole = self
            .get_piece(owner, &piece_key(key, owner, 0), Some(answer_limit()))
            .map_err(nothing)?;
        let length = text::whole_length(&whole).unwrap_or_default();
        let mut piece = 1;
        while whole.len() < length {
            let next = self
                .get_piece(owner, &piece_key(key, owner, piece), Some(answer_limit()))
                .map_err(nothing)?;
            if next.is_empty() {
                break;
            }
            whole.push_str(&next);
            piece += 1;
        }
        text::decode(&whole)
            .ok_or_else(|| self.error(&format!("the value of rank {owner} for key \"{key}\" is damaged")))
    }

    fn finalize(&mut self, _whole: bool) {
        if self.broken {
            return;
        }
        let answer = match self.version {
            Version::One => "finalize_ack",
            Version::Two => "finalize-response",
        };
        // The manager may have ended before. No answer may follow this one.
        let _ = self.exchange("finalize", &[], answer, Some(Instant::now() + END_LIMIT));
        self.broken = true;
    }

    fn abort(&mut self, code: i32, why: &str) {
        let message = match self.version {
            Version::One => line("abort", &[("exitcode", &code.to_string())]),
            Version::Two => {
                // Slurm does not parse a doubled `;`.
                let clean = |c: char| if c.is_control() || c == ';' { ' ' } else { c };
                let why: String = why.chars().map(clean).take(500).collect();
                counted(
                    "abort",
                    &[("isworld", "TRUE"), ("exitcode", &code.to_string()), ("msg", &why)],
                )
            }
        };
        // There is no answer, and an error has no remedy.
        let _ = self.stream.send(&message, Some(Instant::now() + END_LIMIT));
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.stream.descriptors()
    }
}
