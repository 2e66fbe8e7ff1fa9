//! The sock conduit between real processes: this program starts itself once per rank, and
//! implements the bootstrap.
//!
//! `SOCK_TEST_RANKS` sets the number of ranks.

use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{Class, Completion, Conduit, Cookie, JobRank, Network, PollScope, StartInfo, Stop, Upcalls};
use gasnet_conduit_sock::Sock;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Prefix of lines for the parent, among the output of the test harness.
const MARK: &str = "to the parent: ";
const PER_PEER: usize = 20;

/// The upcalls of a rank: replies to requests, and counts packets.
struct Rank<'a> {
    network: &'a dyn Network,
    requests: usize,
    replies: usize,
    lost: Vec<JobRank>,
}

impl Upcalls for Rank<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        assert_eq!(packet.len(), 1000 + source.index());
        match class {
            Class::Reply => self.replies += 1,
            Class::Request => {
                self.requests += 1;
                let me = std::env::var("SOCK_TEST_RANK").unwrap().parse::<usize>().unwrap();
                self.send(source, Class::Reply, PollScope::Replies, 1000 + me);
            }
        }
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, _why: &str) {
        self.lost.push(peer);
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

impl Rank<'_> {
    fn send(&mut self, peer: JobRank, class: Class, scope: PollScope, bytes: usize) {
        while self.network.send(peer, class, &[&vec![0; bytes]]).is_err() {
            self.network.poll(scope, self);
            std::thread::yield_now();
        }
    }

    fn poll_until(&mut self, done: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !done(self) {
            assert!(begin.elapsed() < Duration::from_secs(60), "no progress");
            self.network.poll(PollScope::All, self);
            std::thread::yield_now();
        }
    }
}

/// Sends a line to the parent and waits for its answer.
fn ask_parent(line: &str) -> String {
    println!("\n{MARK}{line}");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).unwrap();
    answer.trim().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A rank: communicates with all, waits for the loss of rank 1, and stops.
#[test]
fn child() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let (Some(rank), Some(size)) = (number("SOCK_TEST_RANK"), number("SOCK_TEST_SIZE")) else {
        return;
    };
    let exchange = |bytes: &[u8]| unhex(&ask_parent(&hex(bytes)));
    let all: Vec<_> = (0..size).map(JobRank).collect();
    let info = StartInfo {
        job_token: 99,
        ..start_info(JobRank(rank), &all, &exchange)
    };
    let network = Sock.start(&info).unwrap();
    let mut me = Rank {
        network: &*network,
        requests: 0,
        replies: 0,
        lost: Vec::new(),
    };
    for _ in 0..PER_PEER {
        for step in 0..size {
            me.send(
                JobRank((rank + step) % size),
                Class::Request,
                PollScope::All,
                1000 + rank as usize,
            );
        }
    }
    let all = PER_PEER * size as usize;
    me.poll_until(|me| me.requests == all && me.replies == all);
    // A rank that waits for the parent does not poll: first, every rank must have its packets.
    println!("\n{MARK}done");
    if rank == 1 {
        loop {
            std::thread::park();
        }
    }
    me.poll_until(|me| !me.lost.is_empty());
    assert_eq!(me.lost, [JobRank(1)]);
    ask_parent("alone");
    network.stop(Stop::Orderly);
}

/// A rank, for the parent. It is killed on drop.
struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Process {
    fn spawn(rank: usize, size: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command
            .env("SOCK_TEST_RANK", rank.to_string())
            .env("SOCK_TEST_SIZE", size.to_string())
            .spawn()
            .unwrap();
        let (to, from) = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        Self { child, to, from }
    }

    fn receive(&mut self) -> String {
        let mut lines = self.from.by_ref().lines().map_while(Result::ok);
        lines
            .find_map(|line| line.strip_prefix(MARK).map(str::to_owned))
            .expect("a rank ended early")
    }

    fn answer(&mut self, text: &str) {
        writeln!(self.to, "{text}").unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn all_to_all_and_a_death() {
    let size = std::env::var("SOCK_TEST_RANKS").map_or(12, |text| text.parse().unwrap());
    let mut ranks: Vec<Process> = (0..size).map(|rank| Process::spawn(rank, size)).collect();
    let table = ranks.iter_mut().map(Process::receive).collect::<String>();
    for rank in &mut ranks {
        rank.answer(&table);
    }
    assert!(ranks.iter_mut().all(|rank| rank.receive() == "done"));
    ranks.remove(1);
    assert!(ranks.iter_mut().all(|rank| rank.receive() == "alone"));
    for rank in &mut ranks {
        rank.answer("leave");
    }
    for rank in &mut ranks {
        assert!(rank.child.wait().unwrap().success());
    }
}
