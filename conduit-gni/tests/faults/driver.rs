//! Parts that the children of these tests have in common.

use crate::emulated::{self, run_again};
use gasnet_conduit::conformance::{end_after, job_number, Job};
use gasnet_conduit::{Class, Completion, Cookie, JobRank, LocalMemory, Network, PollScope, RemoteMemory, Upcalls};
use gasnet_conduit_gni::Gni;
use gasnet_sys::env;
use std::ffi::CString;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Operations of the child `operations`.
pub const OPERATIONS: usize = 10;

/// Something that takes longer hangs, on any machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Prints a line by one system call, so that no line of the emulator, which has a lock of its own,
/// stands in its midst.
pub fn print_line(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// A packet that is not counted.
pub const ANONYMOUS: &[u8] = &[0xff; 200];

/// Drives a rank: prints what it loses, counts what arrives, and answers requests.
pub struct Driver<'a> {
    pub rank: JobRank,
    pub network: &'a dyn Network,
    /// Whether any rank has lost something.
    pub lost: &'a AtomicBool,
    /// Requests that any rank has received.
    pub requests: &'a AtomicUsize,
    pub answers: bool,
    /// A segment of this rank.
    pub own: Option<LocalMemory>,
    pub done: usize,
    /// Puts whose source is free.
    pub sources: usize,
    pub replies: usize,
    pub rounds: usize,
}

impl Upcalls for Driver<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        if packet == ANONYMOUS {
            return;
        }
        if class == Class::Reply {
            assert_eq!(packet, [self.replies as u8; 300], "a reply was altered");
            self.replies += 1;
            return;
        }
        let number = self.requests.fetch_add(1, SeqCst);
        assert_eq!(packet, [number as u8; 300], "a request was altered");
        if self.answers {
            let reply = self.network.send(source, Class::Reply, &[&[number as u8; 300]]);
            assert_eq!(reply, Ok(()), "there was no room for a first reply");
        }
    }
    fn done(&mut self, _: Cookie, part: Completion) {
        self.done += usize::from(part != Completion::Source);
        self.sources += usize::from(part != Completion::Remote);
    }
    fn barrier(&mut self, _: [u64; 2]) {
        self.rounds += 1;
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        print_line(&format!("rank {} lost rank {peer}: {why}", self.rank));
        self.lost.store(true, SeqCst);
    }
    fn network_lost(&mut self, why: &str) {
        print_line(&format!("rank {} lost the network: {why}", self.rank));
        self.lost.store(true, SeqCst);
    }
}

/// Memory of rank 1 that the operations of rank 0 use.
pub struct Target {
    pub memory: RemoteMemory,
    pub counter: RemoteMemory,
}

impl<'a> Driver<'a> {
    /// One that does not answer.
    pub fn new(rank: JobRank, network: &'a dyn Network, lost: &'a AtomicBool, requests: &'a AtomicUsize) -> Self {
        Self {
            rank,
            network,
            lost,
            requests,
            answers: false,
            own: None,
            done: 0,
            sources: 0,
            replies: 0,
            rounds: 0,
        }
    }

    /// Polls until something holds. False: something was lost before.
    pub fn wait(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) -> bool {
        let begun = Instant::now();
        while !holds(self) {
            if self.lost.load(SeqCst) {
                return false;
            }
            self.network.poll(PollScope::All, self);
            assert!(begun.elapsed() < LIMIT, "rank {}: {what} hangs", self.rank);
        }
        true
    }
}

/// Memory of an operation that may be under way is never freed.
pub fn keep(memory: Vec<u8>, is_done: bool) {
    if !is_done {
        memory.leak();
    }
}

pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// Lets this process use an emulator, and ends it if it hangs.
pub fn emulate() {
    end_after(3 * LIMIT);
    emulated::emulate();
}

pub fn start_job() -> Job {
    emulate();
    Job::start(&|| Box::new(Gni::of_job(job_number())), 2)
}

/// Runs a child. Returns what it printed.
pub fn child(name: &str, options: &str, variables: &str) -> String {
    run_again(options, variables, &format!("--ignored --exact --nocapture {name}"))
}

/// Sets the variables of FAULTS_SET, which has NAME=VALUE between commas.
pub fn set_variables() {
    for word in std::env::var("FAULTS_SET").unwrap_or_default().split(',') {
        if let Some((name, value)) = word.split_once('=') {
            let [name, value] = [name, value].map(|text| CString::new(text).unwrap());
            env::set(&name, &value);
        }
    }
}
