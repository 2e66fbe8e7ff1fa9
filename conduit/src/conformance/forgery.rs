//! Messages that an emulator alters below a rank, as a corrupted process would send them. The other
//! rank works on, or loses that one, by name: nothing else.

use super::{Emulator, Job, Make};
use crate::{Class, Completion, Cookie, JobRank, Network, PollScope, Stop, Upcalls, PACKET_ALIGN};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Requests of each rank.
const REQUESTS: usize = 100;
/// Bytes of the longest of them, if the conduit has such packets.
const LONGEST: usize = 60_000;
/// Without an arrival for so long nothing more comes: an altered message may be missing.
const QUIET: Duration = Duration::from_millis(300);

/// The state that both ranks share.
#[derive(Default)]
struct State {
    arrivals: AtomicUsize,
    is_over: AtomicBool,
}

/// A rank: answers requests, and prints the peers that it loses.
struct End<'a> {
    rank: JobRank,
    network: &'a dyn Network,
    state: &'a State,
    /// Bytes of the largest packet.
    largest: usize,
}

impl End<'_> {
    fn lose(&self, what: &str, why: &str) {
        eprintln!("rank {} lost {what}: {why}", self.rank);
        self.state.is_over.store(true, SeqCst);
    }

    /// Sends, and answers, until all has come, nothing more comes, or something is lost.
    fn talk(&mut self) {
        let longest = self.largest.min(LONGEST);
        let (peer, content) = (JobRank(1 - self.rank.0), vec![7; longest]);
        let lengths = [8, 100, 1000, 3000, longest];
        let (mut sent, mut polls, mut before, mut quiet) = (0, 0, 0, Instant::now());
        while !self.state.is_over.load(SeqCst) {
            let length = lengths[sent % lengths.len()];
            if sent < REQUESTS && self.network.send(peer, Class::Request, &[&content[..length]]).is_ok() {
                sent += 1;
            }
            polls += 1;
            // Requests that arrive in the others wait in the conduit.
            let scope = [PollScope::Replies, PollScope::All][usize::from(polls % 8 == 0)];
            self.network.poll(scope, self);
            let arrivals = self.state.arrivals.load(SeqCst);
            if arrivals != before {
                (before, quiet) = (arrivals, Instant::now());
            }
            if arrivals >= 2 * REQUESTS || quiet.elapsed() > QUIET {
                self.state.is_over.store(true, SeqCst);
            }
        }
    }
}

impl Upcalls for End<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        let is_valid =
            source.0 == 1 - self.rank.0 && packet.len() <= self.largest && packet.as_ptr().addr() % PACKET_ALIGN == 0;
        let length = packet.len();
        assert!(is_valid, "rank {}: {length} bytes from rank {source}", self.rank);
        // Its handler reads and writes all of it.
        for byte in packet {
            *byte ^= 1;
        }
        if class == Class::Request {
            self.state.arrivals.fetch_add(1, SeqCst);
            let _ = self.network.send(source, Class::Reply, &[&[9; 300]]);
        }
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        self.lose(&format!("rank {peer}"), why);
    }
    fn network_lost(&mut self, why: &str) {
        self.lose("the network", why);
    }
}

/// Two ranks talk, while the emulator alters a message. The child of [`Emulator::forge`].
pub fn talk_under_forgery(make: Make<'_>) {
    super::end_after(Duration::from_secs(30));
    let (job, state) = (Job::start(make, 2), State::default());
    job.run(|rank, network| {
        let mut end = End {
            rank,
            network,
            state: &state,
            largest: job.limits.max_packet_bytes,
        };
        end.talk();
        network.stop(Stop::Orderly);
    });
}

impl Emulator {
    /// Runs the child for each seed of a forgery, with options and variables in turn. All losses
    /// name the other rank. Returns how many children have lost it.
    pub fn forge(&self, child: &str, ways: &[(&str, &str)], seeds: Range<usize>) -> usize {
        let loses = |seed: &usize| {
            let (options, variables) = ways[seed % ways.len()];
            let options = format!("{options} forge=seed:{seed}");
            let arguments = format!("--ignored --exact --nocapture {child}");
            let printed = self.run_again(&options, variables, &arguments);
            let named = ["rank 0 lost rank 1: ", "rank 1 lost rank 0: "];
            let mut losses = printed.lines().filter(|line| line.contains(" lost ")).peekable();
            let has_lost = losses.peek().is_some();
            let is_right = |line: &str| named.iter().any(|begin| line.starts_with(begin));
            assert!(losses.all(is_right), "{options} {variables}: {printed}");
            has_lost
        };
        seeds.filter(loses).count()
    }
}
