//! PMI-1 and PMI-2 over a connection. They are one protocol in two encodings: the same requests and
//! answers, framed and named differently.
//!
//! The answer to `barrier_in` comes when all processes have requested it. The answer to `kvs-fence`
//! may not: hydra (4.0, 5.0) answers at once, and a `kvs-get` waits for missing values. So a fence
//! of PMI-2 is a dissemination barrier that relies only on what PMI-2 promises: after a fence, a
//! process can get what another has put before. When [`ProcessManager::fence`] returns, all
//! processes have called it.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::message::{PmiMessage, Version};
use super::stream::Stream;
use super::{check_job_name, quoted, ManagerAddress, Membership, ProcessManager, WireStart, KEY_MAX, VALUE_MAX};
use crate::mpi::{self, Mpi};
use crate::JobError;
use gasnet_conduit::config::PmiInterface;

/// The manager answers most requests on this host or with one message to another. Beyond this limit
/// it counts as not answering.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// Limit for the manager when a process ends.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A request and its answer, in PMI-1 and in PMI-2.
type Request = [(&'static str, &'static str); 2];
const IDENTIFY: Request = [("initack", "initack"); 2];
const INIT: Request = [("init", "response_to_init"); 2];
const MAXES: Request = [("get_maxes", "maxes"); 2];
const FULL_INIT: Request = [("fullinit", "fullinit-response"); 2];
const JOB_NAME: Request = [("get_my_kvsname", "my_kvsname"), ("job-getid", "job-getid-response")];
const PUT: Request = [("put", "put_result"), ("kvs-put", "kvs-put-response")];
const GET: Request = [("get", "get_result"), ("kvs-get", "kvs-get-response")];
const FENCE: Request = [("barrier_in", "barrier_out"), ("kvs-fence", "kvs-fence-response")];
const FINALIZE: Request = [("finalize", "finalize_ack"), ("finalize", "finalize-response")];

/// A connection to a process manager, after start-up.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    /// The agreed version. Until then lines, as in PMI-1.
    version: Version,
    membership: Membership,
    /// The manager's name for the job, a value in messages.
    pub job: String,
    fences: u32,
    /// Whether no more requests are possible, because an answer is missing or was malformed.
    broken: bool,
}

impl Wire {
    /// Connects and starts the protocol: PMI-1 if the manager speaks it, else PMI-2, unless one is
    /// chosen.
    pub fn connect(start: &WireStart) -> Result<Self, JobError> {
        let (place, stream) = match &start.place {
            ManagerAddress::Inherited(number) => (format!("PMI_FD={number}"), Stream::inherited(number)),
            ManagerAddress::Port { address, .. } => (format!("PMI_PORT={address}"), Stream::connected(address)),
        };
        let stream =
            stream.map_err(|why| JobError::new(format!("the process manager at {}: {why}", quoted(&place))))?;
        let mut wire = Self {
            stream,
            version: Version::One,
            membership: Membership {
                manager: format!("PMI ({place})"),
                ..Membership::default()
            },
            job: String::new(),
            fences: 0,
            broken: false,
        };
        wire.start(start)?;
        Ok(wire)
    }

    /// Agrees on a version, and requests rank, size and the job's name.
    fn start(&mut self, start: &WireStart) -> Result<(), JobError> {
        let (rank, size) = match &start.place {
            ManagerAddress::Inherited(_) => (start.rank.clone(), start.size.clone()),
            ManagerAddress::Port { id, .. } => self.identify(id)?,
        };
        self.agree(start.choice)?;
        self.membership.rank = self.number("PMI_RANK", rank)?;
        let rank = self.membership.rank.to_string();
        let name = match self.version {
            Version::One => {
                self.membership.size = self.number("PMI_SIZE", size)?;
                let maxes = self.ask(&MAXES, &[])?;
                for (name, least) in [("vallen_max", VALUE_MAX), ("keylen_max", KEY_MAX)] {
                    let most = maxes.field(name).unwrap_or_default();
                    // The manager may count a terminating zero.
                    if maxes.number(name).is_none_or(|most| most as usize <= least) {
                        let why = format!("{name}={} is too small: more than {least} is needed", quoted(most));
                        return Err(self.membership.error(&why));
                    }
                }
                "kvsname"
            }
            Version::Two => {
                let job = start.job.as_deref().map(|job| ("pmijobid", job));
                let others = [("pmirank", rank.as_str()), ("threaded", "FALSE")];
                let answer = self.ask(&FULL_INIT, &job.into_iter().chain(others).collect::<Vec<_>>())?;
                let (Some(rank), Some(size)) = (answer.number("rank"), answer.number("size")) else {
                    return Err(self.membership.error("its answer to fullinit lacks rank and size"));
                };
                (self.membership.rank, self.membership.size) = (rank, size);
                "jobid"
            }
        };
        self.membership.check()?;
        let answer = self.ask(&JOB_NAME, &[])?;
        self.job = check_job_name(answer.field(name)).map_err(|why| self.membership.error(&why))?;
        Ok(())
    }

    /// Sends this process's identity after connecting. Returns rank and size.
    fn identify(&mut self, id: &str) -> Result<(Option<String>, Option<String>), JobError> {
        if id.is_empty() || !id.bytes().all(|c| c.is_ascii_digit()) {
            return Err(self.membership.error(&format!("PMI_ID={} is not a number", quoted(id))));
        }
        self.ask(&IDENTIFY, &[("pmiid", id)])?;
        let limit = Some(Instant::now() + ANSWER_LIMIT);
        let mut found = [("rank", None), ("size", None), ("debug", None)];
        while found.iter().any(|(_, value)| value.is_none()) {
            let message = self.receive("initack", "set", limit)?;
            for (name, value) in &mut found {
                *value = message.field(name).map(str::to_owned).or(value.take());
            }
        }
        let [(_, rank), (_, size), _] = found;
        Ok((rank, size))
    }

    /// Finds a version that the manager accepts.
    fn agree(&mut self, choice: PmiInterface) -> Result<(), JobError> {
        const ONE: (Version, &str, [&str; 2]) = (Version::One, "PMI-1", ["1", "1"]);
        const TWO: (Version, &str, [&str; 2]) = (Version::Two, "PMI-2", ["2", "0"]);
        let versions: &[_] = match choice {
            PmiInterface::Pmi1 => &[ONE],
            PmiInterface::Pmi2 => &[TWO],
            PmiInterface::Auto | PmiInterface::Pmix => &[ONE, TWO],
        };
        // An MPI of this process has already agreed on version 1 over this connection. Slurm
        // answers no second `init`.
        let is_agreed = versions[0].0 == Version::One && !self.stream.is_own() && mpi::state() == Mpi::Running;
        let mut refused = Vec::new();
        for &(version, name, [major, minor]) in versions {
            if !is_agreed {
                let limit = Some(Instant::now() + ANSWER_LIMIT);
                let fields = [("pmi_version", major), ("pmi_subversion", minor)];
                let answer = self.exchange(&INIT, &fields, limit)?;
                let (theirs, code) = (answer.field("pmi_version").unwrap_or_default(), answer.field("rc"));
                if theirs != major || code.is_some_and(|code| code != "0") {
                    let (theirs, code) = (quoted(theirs), quoted(code.unwrap_or_default()));
                    refused.push(format!("{name} (its answer: version {theirs}, code {code})"));
                    continue;
                }
            }
            self.version = version;
            self.membership.manager = self.membership.manager.replacen("PMI", name, 1);
            return Ok(());
        }
        Err(self
            .membership
            .error(&format!("it does not support {}", refused.join(" nor "))))
    }

    /// The number in a variable.
    fn number(&self, name: &str, text: Option<String>) -> Result<u32, JobError> {
        let text = text.ok_or_else(|| self.membership.error(&format!("{name} is not set")))?;
        let number = text.trim().parse();
        number.map_err(|_| {
            self.membership
                .error(&format!("{name}={} is not a number", quoted(&text)))
        })
    }

    /// Records that the connection is unusable.
    fn broken(&mut self, command: &str, why: &str) -> JobError {
        self.broken = true;
        self.membership.error(&format!("{command} failed: {why}"))
    }

    /// Sends a request and waits for its answer.
    fn exchange(
        &mut self,
        request: &Request,
        fields: &[(&str, &str)],
        limit: Option<Instant>,
    ) -> Result<PmiMessage, JobError> {
        let (command, answer) = request[self.version as usize];
        let sent = self.stream.send(&self.version.encode(command, fields), limit);
        sent.map_err(|why| self.broken(command, &why))?;
        self.receive(command, answer, limit)
    }

    fn receive(&mut self, command: &str, answer: &str, limit: Option<Instant>) -> Result<PmiMessage, JobError> {
        let text = self.stream.message(self.version, limit);
        let text = text.map_err(|why| self.broken(command, &why))?;
        match self.version.parse(&text) {
            Some(message) if message.command == answer => Ok(message),
            _ => Err(self.broken(command, &format!("its answer is {} instead of {answer}", quoted(&text)))),
        }
    }

    /// Sends a request that the manager may refuse.
    fn ask(&mut self, request: &Request, fields: &[(&str, &str)]) -> Result<PmiMessage, JobError> {
        self.ask_within(Some(Instant::now() + ANSWER_LIMIT), request, fields)
    }

    fn ask_within(
        &mut self,
        limit: Option<Instant>,
        request: &Request,
        fields: &[(&str, &str)],
    ) -> Result<PmiMessage, JobError> {
        let message = self.exchange(request, fields, limit)?;
        let (command, _) = request[self.version as usize];
        let found = message.field("found").unwrap_or_default();
        if found.eq_ignore_ascii_case("false") {
            return Err(self.membership.error(&format!("{command} finds nothing")));
        }
        match message.field("rc") {
            None | Some("0") => Ok(message),
            Some(rc) => {
                let reason = message.field("msg").or(message.field("errmsg"));
                let reason = reason.map_or(String::new(), |why| format!(" with {}", quoted(why)));
                Err(self
                    .membership
                    .error(&format!("it refuses {command}{reason} (code {})", quoted(rc))))
            }
        }
    }

    fn value(&mut self, owner: u32, key: &str, limit: Option<Instant>) -> Result<String, JobError> {
        let (job, key, owner) = (self.job.clone(), global_key(key, owner), owner.to_string());
        let fields = [
            ("kvsname", job.as_str()),
            ("jobid", &job),
            ("srcid", &owner),
            ("key", &key),
        ];
        let fields = match self.version {
            Version::One => vec![fields[0], fields[3]],
            Version::Two => fields[1..].to_vec(),
        };
        let answer = self.ask_within(limit, &GET, &fields)?;
        match answer.field("value") {
            Some(value) => Ok(value.into()),
            None => Err(self
                .membership
                .error(&format!("its answer for key \"{key}\" has no value"))),
        }
    }
}

/// The manager's key for a key of a process. Keys of PMI-1 are global to the job.
fn global_key(key: &str, owner: u32) -> String {
    format!("{key}-{owner}")
}

impl ProcessManager for Wire {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), JobError> {
        let (job, key) = (self.job.clone(), global_key(key, self.membership.rank));
        let fields = [("kvsname", job.as_str()), ("key", &key), ("value", value)];
        let skip = usize::from(self.version == Version::Two);
        self.ask(&PUT, &fields[skip..]).map(drop)
    }

    fn fence(&mut self, limit: Option<Duration>) -> Result<(), JobError> {
        let limit = limit.map(|limit| Instant::now() + limit);
        if self.version == Version::One {
            return self.ask_within(limit, &FENCE, &[]).map(drop);
        }
        self.fences += 1;
        let (rank, size) = (u64::from(self.membership.rank), u64::from(self.membership.size));
        let mut distance = 1;
        loop {
            let key = format!("fence-{}-{distance}", self.fences);
            self.put(&key, "1")?;
            self.ask_within(limit, &FENCE, &[])?;
            let before = (rank + size - distance % size) % size;
            self.value(before as u32, &key, limit)?;
            distance *= 2;
            if distance >= size {
                return Ok(());
            }
        }
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<String, JobError> {
        let value = self.value(owner, key, Some(Instant::now() + ANSWER_LIMIT));
        value.map_err(|why| JobError::new(format!("cannot get key \"{key}\" of rank {owner}: {why}")))
    }

    fn finalize(&mut self, _whole: bool) {
        if !self.broken {
            // The manager may have ended before. No answer may follow this one.
            let _ = self.exchange(&FINALIZE, &[], Some(Instant::now() + END_LIMIT));
            self.broken = true;
        }
    }

    fn abort(&mut self) {
        let fields = [("exitcode", "1"), ("isworld", "TRUE"), ("msg", "cannot start")];
        let fields = match self.version {
            Version::One => &fields[..1],
            Version::Two => &fields,
        };
        // There is no answer, and an error has no remedy.
        let message = self.version.encode("abort", fields);
        let _ = self.stream.send(&message, Some(Instant::now() + END_LIMIT));
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.stream.descriptors()
    }
}
