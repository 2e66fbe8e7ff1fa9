//! Connect files: what a job writes limits the connections of the next.

mod emulated;

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Class, Completion, Cookie, JobRank, PollScope, Upcalls};
use gasnet_conduit_ibv::Ibv;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Counts packets, and fails on losses.
struct Count<'a>(&'a AtomicUsize);

impl Upcalls for Count<'_> {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {
        self.0.fetch_add(1, SeqCst);
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("lost rank {peer}: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("lost the network: {why}");
    }
}

/// Four ranks, each of which sends a message to the one that differs from it in these bits.
fn exchange(bits: u32) {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 4);
    let (arrived, begun) = (AtomicUsize::new(0), Instant::now());
    job.run(|rank, network| {
        let mut count = Count(&arrived);
        while network
            .send(JobRank(rank.0 ^ bits), Class::Request, &[b"12345678"])
            .is_err()
        {
            network.poll(PollScope::All, &mut count);
        }
        while arrived.load(SeqCst) < 4 {
            network.poll(PollScope::All, &mut count);
            assert!(begun.elapsed() < Duration::from_secs(30), "a message did not arrive");
        }
    });
    job.stop();
}

#[test]
#[ignore = "a child of other tests"]
fn neighbours() {
    exchange(1);
}

#[test]
#[ignore = "a child of other tests"]
fn others() {
    exchange(2);
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gasnet-{name}.{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A file in it, as a variable.
    fn variable(&self, name: &str, file: &str) -> String {
        format!("{name}={}", self.0.join(file).display())
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a child with these variables, and returns whether it passed, and what it printed.
fn run(child: &str, variables: &[&str]) -> (bool, String) {
    let arguments = format!("--ignored --exact --nocapture {child}");
    emulated::run("", &variables.join(" "), &arguments)
}

#[test]
fn files_by_rank_limit_the_next_job() {
    files_by_rank("connect-files", "GASNET_USE_SRQ=0");
}

/// A peer is not in the file because another one uses the same queue pair.
#[test]
fn files_by_rank_limit_the_next_job_over_xrc() {
    files_by_rank("connect-files-xrc", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1");
}

fn files_by_rank(name: &str, shares: &str) {
    let folder = Folder::new(name);
    let run = |child: &str, variables: &[&str]| run(child, &[variables, &[shares]].concat());
    let out = folder.variable("GASNET_CONNECTFILE_OUT", "out.%");
    let (has_passed, output) = run("neighbours", &[&out]);
    assert!(has_passed, "{output}");
    for rank in 0..4 {
        let peer = rank ^ 1;
        let text = folder.read(&format!("out.{rank}"));
        assert_eq!(text, format!("size: 4\nbase: 36\n{rank}:{peer}\n"));
    }
    let (input, alone) = (
        folder.variable("GASNET_CONNECTFILE_IN", "out.%"),
        "GASNET_CONNECT_DYNAMIC=0",
    );
    let (has_passed, output) = run("neighbours", &[&input, alone]);
    assert!(has_passed, "{output}");
    let (has_passed, output) = run("others", &[&input]);
    assert!(has_passed, "{output}");
    let (has_passed, output) = run("others", &[&input, alone]);
    assert!(
        !has_passed && output.contains("GASNET_CONNECTFILE_IN does not name it"),
        "{output}"
    );
    // Only at start do files count.
    let (has_passed, output) = run("others", &[&input, "GASNET_CONNECT_STATIC=0"]);
    assert!(has_passed, "{output}");
}

#[test]
fn one_file_for_all_ranks() {
    let folder = Folder::new("connect-file");
    let (out, base) = (
        folder.variable("GASNET_CONNECTFILE_OUT", "out"),
        "GASNET_CONNECTFILE_BASE=2",
    );
    fs::write(folder.0.join("out"), "of an earlier job").unwrap();
    let (has_passed, output) = run("others", &[&out, base]);
    assert!(has_passed, "{output}");
    let text = folder.read("out");
    assert!(
        text.contains("size: 4\nbase: 2\n10:0\n") && !text.contains("earlier"),
        "{text}"
    );
    let input = folder.variable("GASNET_CONNECTFILE_IN", "out");
    let (has_passed, output) = run("others", &[&input, "GASNET_CONNECT_DYNAMIC=0"]);
    assert!(has_passed, "{output}");
    // One line names both ranks of a connection.
    fs::write(folder.0.join("out"), "0:2\n3:1\n").unwrap();
    let (has_passed, output) = run("others", &[&input, "GASNET_CONNECT_DYNAMIC=0"]);
    assert!(has_passed, "{output}");
}

/// Without datagrams, no peer is connected later.
#[test]
fn files_of_hcas_without_datagrams() {
    let folder = Folder::new("connect-files-no-ud");
    fs::write(folder.0.join("in"), "0:1\n2:3\n").unwrap();
    let input = folder.variable("GASNET_CONNECTFILE_IN", "in");
    let run = |child: &str, variables: &str| {
        let arguments = format!("--ignored --exact --nocapture {child}");
        emulated::run("no-ud", &format!("{input} {variables}"), &arguments)
    };
    let (has_passed, output) = run("neighbours", "");
    let why = "GASNET_CONNECTFILE_IN leaves out. Unset it, or set GASNET_CONNECT_DYNAMIC=0";
    assert!(!has_passed && output.contains(why), "{output}");
    let (has_passed, output) = run("neighbours", "GASNET_CONNECT_DYNAMIC=0");
    assert!(has_passed, "{output}");
    let (has_passed, output) = run("others", "GASNET_CONNECT_DYNAMIC=0");
    let why = "GASNET_CONNECTFILE_IN does not name it";
    assert!(!has_passed && output.contains(why), "{output}");
}

#[test]
fn a_bad_file_ends_the_start() {
    let folder = Folder::new("bad-connect-file");
    let input = folder.variable("GASNET_CONNECTFILE_IN", "in");
    let (has_passed, output) = run("others", &[&input]);
    assert!(!has_passed && output.contains("No such file"), "{output}");
    fs::write(folder.0.join("in"), "size: 8\n").unwrap();
    let (has_passed, output) = run("others", &[&input]);
    assert!(
        !has_passed && output.contains("in: line 1: the file is for 8 processes, but the job has 4"),
        "{output}"
    );
    let out = folder.variable("GASNET_CONNECTFILE_OUT", "no-folder/out");
    let (has_passed, output) = run("others", &[&out]);
    assert!(has_passed && output.contains("GASNET_CONNECTFILE_OUT"), "{output}");
}
