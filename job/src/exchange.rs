//! Exchanges between all ranks, without any network conduit. Collective; one thread per rank at a
//! time. A wait for a rank that has died ends with the job.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use super::control_block::SLOT_BYTES;
use super::control_socket::RankMessage;
use super::job::Job;
use super::leave::{exiting, Inside};
use gasnet_sys::fd;
use gasnet_tools::timer::monotonic_ns;

static IDLE: OnceLock<fn()> = OnceLock::new();

/// Registers a function, once, that a rank calls repeatedly while it waits here: the runtime polls,
/// and yields.
pub fn on_idle_hook(hook: fn()) {
    let _ = IDLE.set(hook);
}

impl Job {
    /// Waits until all ranks have called it. Earlier writes of any rank of this host are visible to
    /// all of them afterwards.
    pub fn barrier(&self) {
        let round = self.round.fetch_add(1, Ordering::Relaxed);
        self.barrier_round(round, 0);
    }

    /// The barrier of a round. `length`: bytes that each rank has written to its slot.
    fn barrier_round(&self, round: u32, length: usize) {
        let (ticket, tell) = self.control.barrier_enter();
        if let Some(socket) = self.control_socket.as_ref().filter(|_| tell) {
            let word = RankMessage::Exchange {
                round,
                length: length as u32,
            };
            // One such message is under way at a time, so the socket has room. A failure means that
            // the node agent has died, and that ends this process by signal.
            let _ = fd::send(socket.as_raw_fd(), &word.encode().to_ne_bytes());
        }
        let counters = self.counters();
        counters.exchanges.store(round + 1, Ordering::Relaxed);
        let mut tries = 0u32;
        while !self.control.barrier_done(ticket) {
            tries += 1;
            // Other ranks may need messages or answers of this rank before they get here.
            let poll = IDLE.get();
            if tries < 200 && !self.oversubscribed() && poll.is_none() {
                std::hint::spin_loop();
            } else if tries < 300 {
                poll.map_or_else(thread::yield_now, |poll| poll());
            } else {
                if tries == 300 {
                    counters.exchange_since.store(monotonic_ns(), Ordering::Relaxed);
                }
                let limit = poll.map_or(20, |_| 1);
                self.control.barrier_sleep(ticket, Duration::from_millis(limit));
                if exiting() && !self.control.barrier_done(ticket) {
                    self.while_exiting(Inside::Wait);
                }
                if let Some(poll) = poll {
                    poll();
                }
            }
        }
        counters.exchange_since.store(0, Ordering::Relaxed);
    }

    /// All-gather: returns the bytes of every rank, in rank order. All ranks pass the same length,
    /// without a limit.
    pub fn exchange(&self, own: &[u8]) -> Vec<u8> {
        let length = own.len();
        let mut all = vec![0; length * self.size() as usize];
        self.in_rounds(length, |round, part| {
            self.control.write_slot(round, self.rank, &own[part.clone()]);
            self.barrier_round(round, part.len());
            for rank in 0..self.size() {
                let start = rank as usize * length;
                self.control
                    .read_result(round, rank, &mut all[start + part.start..start + part.end]);
            }
        });
        all
    }

    /// Copies the bytes of rank `root` to all ranks. All ranks pass the same length, without a
    /// limit.
    pub fn broadcast(&self, root: u32, bytes: &mut [u8]) {
        assert!(root < self.size());
        self.in_rounds(bytes.len(), |round, part| {
            if self.rank == root {
                self.control.write_slot(round, root, &bytes[part.clone()]);
            }
            self.barrier_round(round, part.len());
            self.control.read_result(round, root, &mut bytes[part]);
        });
    }

    /// Calls `one` with the number of a round and its part of `length`, until all is done. There is
    /// at least one round, so an empty exchange is a barrier, too.
    fn in_rounds(&self, length: usize, mut one: impl FnMut(u32, std::ops::Range<usize>)) {
        let mut start = 0;
        loop {
            let end = (start + SLOT_BYTES).min(length);
            one(self.round.fetch_add(1, Ordering::Relaxed), start..end);
            start = end;
            if start == length {
                return;
            }
        }
    }
}
