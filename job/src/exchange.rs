//! Exchanges between all ranks before (and beside) any network. Collective; one thread per rank at a time. A wait whose peer is gone
//! ends with the job.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use super::control_block::ControlBlock;
use super::control_socket::RankMessage;
use super::{exiting, Inside, Job};
use gasnet_sys::fd;

static IDLE: OnceLock<fn()> = OnceLock::new();

/// Registers, once, what a rank does again and again that waits for others here: the runtime polls, and yields.
pub fn on_idle_hook(hook: fn()) {
    let _ = IDLE.set(hook);
}

impl Job {
    /// Waits until all ranks have called it. What any of them wrote before is visible to all on its host after.
    pub fn barrier(&self) {
        let round = self.round.fetch_add(1, Ordering::Relaxed);
        self.meet(round, 0);
    }

    /// The barrier of a round. `length`: what each rank has written into its slot.
    fn meet(&self, round: u32, length: usize) {
        let (ticket, tell) = self.control.barrier_enter();
        if let Some(socket) = self.control_socket.as_ref().filter(|_| tell) {
            let word = RankMessage::Exchange {
                round,
                length: length as u32,
            };
            // One of these is under way at a time, so that the socket has room. A failure means that the supervisor is gone, and then
            // this process ends by signal.
            let _ = fd::send(socket.as_raw_fd(), &word.encode());
        }
        let mut tries = 0u32;
        while !self.control.barrier_done(ticket) {
            tries += 1;
            // Others may need what this rank has for them, or an answer of it, before they come here.
            let poll = IDLE.get();
            if tries < 200 && !self.oversubscribed() && poll.is_none() {
                std::hint::spin_loop();
            } else if tries < 300 {
                poll.map_or_else(thread::yield_now, |poll| poll());
            } else {
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
    }

    /// All-gather: the bytes of every rank, in rank order. All ranks pass the same length, which may be anything.
    pub fn exchange(&self, own: &[u8]) -> Vec<u8> {
        let length = own.len();
        let mut all = vec![0; length * self.size() as usize];
        self.in_rounds(length, |round, part| {
            self.control.write_slot(round, self.rank, &own[part.clone()]);
            self.meet(round, part.len());
            for rank in 0..self.size() {
                let start = rank as usize * length;
                self.control
                    .read_result(round, rank, &mut all[start + part.start..start + part.end]);
            }
        });
        all
    }

    /// Copies the bytes of rank `root` to all ranks. All pass the same length, which may be anything.
    pub fn broadcast(&self, root: u32, bytes: &mut [u8]) {
        assert!(root < self.size());
        self.in_rounds(bytes.len(), |round, part| {
            if self.rank == root {
                self.control.write_slot(round, root, &bytes[part.clone()]);
            }
            self.meet(round, part.len());
            self.control.read_result(round, root, &mut bytes[part]);
        });
    }

    /// Calls `one` with a round's number and its part of `length`, as often as it takes. At least one round, so that even an empty
    /// exchange is a barrier.
    fn in_rounds(&self, length: usize, mut one: impl FnMut(u32, std::ops::Range<usize>)) {
        let mut start = 0;
        loop {
            let end = (start + ControlBlock::slot_bytes()).min(length);
            one(self.round.fetch_add(1, Ordering::Relaxed), start..end);
            start = end;
            if start == length {
                return;
            }
        }
    }
}
