//! Descriptors are close-on-exec, and all are closed when a conduit is dropped. A test program of
//! its own, because it counts the descriptors of its process.

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Class, Completion, Cookie, JobRank, Network, PollScope, Upcalls};
use gasnet_conduit_sock::Sock;
use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

struct Count(usize);

impl Upcalls for Count {
    fn packet(&mut self, _source: JobRank, _class: Class, _packet: &mut [u8]) {
        self.0 += 1;
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, _peer: JobRank, _why: &str) {}
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

fn open() -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let mut all: BTreeSet<u32> = entries
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    // The list includes the descriptor of the directory.
    all.retain(|fd| fs::metadata(format!("/proc/self/fd/{fd}")).is_ok());
    all
}

fn closes_on_exec(fd: u32) -> bool {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    u32::from_str_radix(flags.trim(), 8).unwrap() & 0o2_000_000 != 0
}

#[test]
fn all_are_closed() {
    let before = open();
    let job = Job::start(&|| Box::new(Sock), 3);
    job.run(|_, network: &dyn Network| {
        let mut count = Count(0);
        for peer in 0..3 {
            while network.send(JobRank(peer), Class::Request, &[b"hello"]).is_err() {}
        }
        let begin = Instant::now();
        while count.0 < 3 {
            assert!(begin.elapsed().as_secs() < 60, "no progress");
            network.poll(PollScope::All, &mut count);
        }
    });
    let during = open();
    assert!(during.len() > before.len() + 9);
    assert!(during.difference(&before).all(|&fd| closes_on_exec(fd)));
    job.stop();
    drop(job);
    assert_eq!(open(), before);
}
