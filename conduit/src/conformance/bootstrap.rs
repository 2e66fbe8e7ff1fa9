//! Checks of the system that starts the processes of a job: `bootstrap_conformance_tests!`, called
//! as `conformance_tests!`.

use super::PROGRESS_TIMEOUT;
use crate::{Bootstrap, BootstrapPlace};
use std::fs::symlink_metadata;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Barrier};

/// Creates what one process sees of the system that has started it: the name of the job, which is
/// new on this host, its rank, and the number of processes. The processes are threads.
pub type MakeBootstrap<'a> = &'a dyn Fn(&str, u32, u32) -> Box<dyn Bootstrap>;

/// A process that has joined its job.
struct Joined {
    bootstrap: &'static dyn Bootstrap,
    rank: u32,
    size: u32,
}

impl Joined {
    fn new(bootstrap: &'static dyn Bootstrap, rank: u32, size: u32) -> Self {
        assert!(bootstrap.has_started_this(), "the system has not started rank {rank}");
        let place = bootstrap.join().expect("the job");
        assert!(!place.system.is_empty(), "the system has no name");
        let (system, node) = (place.system.clone(), place.node);
        let expected = BootstrapPlace {
            system,
            rank,
            size,
            node,
        };
        assert_eq!(place, expected);
        Self { bootstrap, rank, size }
    }

    /// The contribution of a rank to an exchange.
    fn bytes(rank: u32, round: usize, bytes: usize) -> Vec<u8> {
        let seed = rank as usize * 31 + round * 7;
        (0..bytes).map(|index| (seed + index / 3) as u8).collect()
    }

    /// Exchanges `bytes` bytes of each.
    fn exchange(&self, round: usize, bytes: usize) {
        let own = Self::bytes(self.rank, round, bytes);
        let all = self.bootstrap.exchange(&own).expect("an exchange");
        let expected: Vec<u8> = (0..self.size)
            .flat_map(|rank| Self::bytes(rank, round, bytes))
            .collect();
        assert!(
            all == expected,
            "rank {}, round {round}: {bytes} bytes of each are wrong, or not in the order of ranks",
            self.rank
        );
    }
}

/// Runs `body` in every process of jobs of one, two and five.
fn in_jobs(make: MakeBootstrap<'_>, body: fn(&Joined, &AtomicUsize, &Barrier)) {
    static JOBS: AtomicUsize = AtomicUsize::new(0);
    for size in [1, 2, 5] {
        let name = format!(
            "gasnet-conformance-{}-{}",
            std::process::id(),
            JOBS.fetch_add(1, SeqCst)
        );
        let common = Arc::new((AtomicUsize::new(0), Barrier::new(size as usize)));
        let (ended, all_ended) = mpsc::channel();
        for rank in 0..size {
            let bootstrap: &'static dyn Bootstrap = Box::leak(make(&name, rank, size));
            let (common, ended) = (common.clone(), ended.clone());
            std::thread::spawn(move || {
                body(&Joined::new(bootstrap, rank, size), &common.0, &common.1);
                let _ = ended.send(rank);
            });
        }
        drop(ended);
        // Calls block, so each process has a time limit.
        for _ in 0..size {
            let ended = all_ended.recv_timeout(PROGRESS_TIMEOUT);
            assert!(ended.is_ok(), "a process of {size} has failed or makes no progress");
        }
    }
}

/// Exchanges of every length gather the bytes of all ranks, in order. None returns before all
/// processes have called it; the last one to call changes.
pub fn bootstrap_gathers(make: MakeBootstrap<'_>) {
    in_jobs(make, |process, entered, _| {
        let (rank, size) = (process.rank as usize, process.size as usize);
        let lengths = [8, 1, 7, 4096, 1, 1 << 16, 3];
        for (round, bytes) in lengths.into_iter().enumerate() {
            if round % size == rank {
                while entered.load(SeqCst) < round * size + size - 1 {
                    std::thread::yield_now();
                }
            }
            entered.fetch_add(1, SeqCst);
            process.exchange(round, bytes);
            assert!(
                entered.load(SeqCst) >= (round + 1) * size,
                "an exchange ended before the last process called it"
            );
        }
    });
}

/// A process leaves without waiting for the others, in any order, and names open descriptors
/// before.
pub fn bootstrap_leaves_alone(make: MakeBootstrap<'_>) {
    in_jobs(make, |process, _, all| {
        process.exchange(0, 16);
        for descriptor in process.bootstrap.descriptors() {
            let is_open = symlink_metadata(format!("/proc/self/fd/{descriptor}")).is_ok();
            assert!(is_open, "descriptor {descriptor} is not open");
        }
        all.wait();
        for rank in (0..process.size).rev() {
            if rank == process.rank {
                process.bootstrap.leave(rank % 2 == 0);
            }
            all.wait();
        }
    });
}
