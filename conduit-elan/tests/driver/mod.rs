//! Parts that the children of these tests have in common.

use crate::emulated;
use gasnet_conduit::conformance::{end_after, expose, job_number, Job};
use gasnet_conduit::{Class, Completion, Cookie, JobRank, Network, PollScope, RemoteMemory, SegmentMemory, Upcalls};
use gasnet_conduit_elan::Elan;
use std::time::{Duration, Instant};

/// Something that takes longer hangs, on any machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Messages that a rank has received, in order.
#[derive(Debug, Default)]
pub struct Inbox {
    pub packets: Vec<(Class, Vec<u8>)>,
    /// Puts and gets that are complete at both ends.
    pub done: usize,
    pub rounds: Vec<[u64; 2]>,
    pub losses: Vec<String>,
}

impl Upcalls for Inbox {
    fn packet(&mut self, _: JobRank, class: Class, packet: &mut [u8]) {
        self.packets.push((class, packet.to_vec()));
    }
    fn done(&mut self, _: Cookie, part: Completion) {
        self.done += usize::from(part != Completion::Source);
    }
    fn barrier(&mut self, words: [u64; 2]) {
        self.rounds.push(words);
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        self.losses.push(format!("rank {peer}: {why}"));
    }
    fn network_lost(&mut self, why: &str) {
        self.losses.push(why.to_owned());
    }
}

impl Inbox {
    /// Polls until something holds.
    pub fn wait(&mut self, network: &dyn Network, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            network.poll(PollScope::All, self);
            assert!(begun.elapsed() < LIMIT, "{what} hangs");
        }
    }
}

/// Lets this process use an emulator, and ends it if it hangs.
pub fn emulate() {
    end_after(3 * LIMIT);
    emulated::emulate();
}

/// Two ranks, which one thread drives.
pub fn pair() -> Job {
    emulate();
    Job::start_for(&|| Box::new(Elan::of_job(job_number())), 2, true)
}

/// Memory of rank 1, which rank 0 reaches.
pub fn memory_of_1(job: &Job, memory: &mut [u8]) -> RemoteMemory {
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, memory.len());
    expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]).1[0]
}

/// Runs a child. Returns what it printed.
pub fn child(name: &str, options: &str, variables: &str) -> String {
    let arguments = format!("--ignored --exact --nocapture {name}");
    emulated::EMULATOR.run_again(options, variables, &arguments)
}
