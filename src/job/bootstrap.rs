//! Exchanges between all ranks before (and beside) any network. Collective; one thread per rank at a time. A wait whose peer is gone
//! ends with the job.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::board::Board;
use super::{exiting, Inside, Job};

impl Job {
    /// Waits until all ranks have called it. What any of them wrote before is visible to all after.
    pub fn barrier(&self) {
        let ticket = self.board.barrier_enter();
        let mut tries = 0u32;
        while !self.board.barrier_done(ticket) {
            tries += 1;
            if tries < 200 && !self.oversubscribed() {
                std::hint::spin_loop();
            } else if tries < 300 {
                thread::yield_now();
            } else {
                self.board.barrier_sleep(ticket, Duration::from_millis(20));
                if exiting() && !self.board.barrier_done(ticket) {
                    self.while_exiting(Inside::Wait);
                }
            }
        }
    }

    /// All-gather: the bytes of every rank, in rank order. All ranks pass the same length, which may be anything.
    pub fn exchange(&self, own: &[u8]) -> Vec<u8> {
        let length = own.len();
        let mut all = vec![0; length * self.size as usize];
        self.in_rounds(length, |round, part| {
            self.board.write_slot(round, self.rank, &own[part.clone()]);
            self.barrier();
            for rank in 0..self.size {
                let start = rank as usize * length;
                self.board
                    .read_slot(round, rank, &mut all[start + part.start..start + part.end]);
            }
        });
        all
    }

    /// Copies the bytes of rank `root` to all ranks. All pass the same length, which may be anything.
    pub fn broadcast(&self, root: u32, bytes: &mut [u8]) {
        assert!(root < self.size);
        self.in_rounds(bytes.len(), |round, part| {
            if self.rank == root {
                self.board.write_slot(round, root, &bytes[part.clone()]);
            }
            self.barrier();
            self.board.read_slot(round, root, &mut bytes[part]);
        });
    }

    /// Calls `one` with a round's number and its part of `length`, as often as it takes. At least one round, so that even an empty
    /// exchange is a barrier.
    fn in_rounds(&self, length: usize, mut one: impl FnMut(u32, std::ops::Range<usize>)) {
        let mut start = 0;
        loop {
            let end = (start + Board::slot_bytes()).min(length);
            one(self.round.fetch_add(1, Ordering::Relaxed), start..end);
            start = end;
            if start == length {
                return;
            }
        }
    }
}
