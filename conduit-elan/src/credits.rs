//! Credits for messages. A limit holds for the messages of each class that a peer has not received:
//! its queue has as many slots, so nothing that is sent waits for room.
//!
//! A receiver counts what it has received from each process, in symmetric memory. Senders that run
//! short of credits read their count there with a get. So no message returns credits, and a process
//! that computes is no obstacle.

use gasnet_conduit::{Class, JobRank};
use gasnet_sys::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Bytes of the counts of a sender: a word of 32 bits for each class.
pub const COUNTS: usize = 8;

/// Messages that this process has sent to a peer.
#[derive(Debug, Default)]
struct Peer {
    sent: [AtomicU32; 2],
    /// Messages that the peer had received when its counts were read, by class.
    received: [AtomicU32; 2],
    /// Whether its counts are being read.
    is_asking: AtomicBool,
}

/// The credits of a process.
#[derive(Debug)]
pub struct Credits {
    peers: Box<[Peer]>,
    limit: u32,
    /// Symmetric memory: what this process has received.
    counts: *const AtomicU32,
    counts_address: u64,
    /// Memory of the network, into which counts of peers are read.
    answers: *const AtomicU64,
}

// SAFETY: the memory is atomic, and lives as long as this.
unsafe impl Send for Credits {}
// SAFETY: as above.
unsafe impl Sync for Credits {}

/// Answer to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Whether the counts of the peer are to be read now: [`Credits::ask`].
    pub asks: bool,
    /// Whether there was one, which is taken now.
    pub is_there: bool,
}

impl Credits {
    /// For `peers` processes, with the symmetric memory for `peers` counts and its network address,
    /// and memory of the network for as many.
    ///
    /// # Safety
    /// The memory is zero, and lives as long as this.
    pub unsafe fn new(peers: usize, limit: u32, counts: (*mut u8, u64), answers: *mut u8) -> Self {
        Self {
            peers: std::iter::repeat_with(Peer::default).take(peers).collect(),
            limit,
            counts: counts.0.cast(),
            counts_address: counts.1,
            answers: answers.cast(),
        }
    }

    /// Takes a credit for a message.
    #[inline]
    pub fn take(&self, peer: JobRank, class: Class) -> Credit {
        let (peer, class) = (&self.peers[peer.index()], class as usize);
        let outstanding = |sent: u32| sent.wrapping_sub(peer.received[class].load(Ordering::Acquire));
        let more = |sent: u32| (outstanding(sent) < self.limit).then(|| sent.wrapping_add(1));
        let taken = peer.sent[class].fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let (Ok(sent) | Err(sent)) = taken;
        // The counts are read early, so that few senders run out.
        let asks = outstanding(sent) >= self.limit / 2 && !peer.is_asking.swap(true, Ordering::Relaxed);
        Credit {
            asks,
            is_there: taken.is_ok(),
        }
    }

    /// Gives back a credit that was not used.
    #[inline]
    pub fn give_back(&self, peer: JobRank, class: Class) {
        self.peers[peer.index()].sent[class as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// Source and destination of a get that reads the counts of a peer. `own`: this process.
    #[inline]
    pub fn ask(&self, peer: JobRank, own: JobRank) -> (u64, usize) {
        // SAFETY: one for each peer.
        let answers = unsafe { self.answers.add(peer.index()) };
        (self.counts_address + (own.index() * COUNTS) as u64, answers as usize)
    }

    /// The counts of a peer were read. Returns whether it has received more than it had. None: more
    /// than it was sent, or less than before.
    pub fn answered(&self, peer: JobRank) -> Option<bool> {
        // SAFETY: one for each peer.
        let counts = unsafe { (*self.answers.add(peer.index())).load(Ordering::Acquire) }.to_ne_bytes();
        let peer = &self.peers[peer.index()];
        let mut is_more = false;
        for (class, received) in peer.received.iter().enumerate() {
            let word = u32::from_ne_bytes([0, 1, 2, 3].map(|byte| counts[4 * class + byte]));
            let before = received.load(Ordering::Relaxed);
            let most = peer.sent[class].load(Ordering::Relaxed).wrapping_sub(before);
            if word.wrapping_sub(before) > most {
                return None;
            }
            received.store(word, Ordering::Release);
            is_more |= word != before;
        }
        peer.is_asking.store(false, Ordering::Release);
        Some(is_more)
    }

    /// A message from a process was taken out of the queue.
    #[inline]
    pub fn received(&self, from: JobRank, class: Class) {
        // SAFETY: two for each process.
        let count = unsafe { &*self.counts.add(2 * from.index() + class as usize) };
        count.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_more_than_was_sent_are_impossible() {
        let (counts, answers) = ([0, 0].map(AtomicU64::new), [0, 0].map(AtomicU64::new));
        let memory = |words: &[AtomicU64; 2]| words.as_ptr().cast_mut().cast();
        // SAFETY: as much memory, which lives longer.
        let credits = unsafe { Credits::new(2, 9, (memory(&counts), 0x1000), memory(&answers)) };
        let peer = JobRank(1);
        let answer = |requests: u32, replies: u32| {
            let word = u64::from_le(u64::from(requests) | u64::from(replies) << 32);
            answers[1].store(word.to_le(), Ordering::Relaxed);
            credits.answered(peer)
        };
        assert!((0..3).all(|_| credits.take(peer, Class::Reply).is_there));
        assert_eq!(answer(0, 2), Some(true));
        for (requests, replies) in [(1, 2), (0, 4), (0, 1), (u32::MAX, 2), (0, 1 << 31)] {
            assert_eq!(answer(requests, replies), None, "{requests} {replies}");
        }
        assert_eq!(answer(0, 3), Some(true));
    }

    #[test]
    fn credits_come_back_by_reading() {
        const LIMIT: u32 = 4;
        let (counts, answers) = ([0, 0].map(AtomicU64::new), [0, 0].map(AtomicU64::new));
        let memory = |words: &[AtomicU64; 2]| words.as_ptr().cast_mut().cast();
        // SAFETY: as much memory, which lives longer.
        let credits = unsafe { Credits::new(2, LIMIT, (memory(&counts), 0x1000), memory(&answers)) };
        let peer = JobRank(1);
        let take = || credits.take(peer, Class::Reply);
        let outcome = |asks, is_there| Credit { asks, is_there };
        assert_eq!([(); 2].map(|()| take()), [outcome(false, true); 2]);
        assert_eq!(take(), outcome(true, true), "half of them are used");
        credits.give_back(peer, Class::Reply);
        assert_eq!(
            [(); 3].map(|()| take()),
            [true, true, false].map(|there| outcome(false, there))
        );
        assert_eq!(
            credits.take(peer, Class::Request),
            outcome(false, true),
            "classes are apart"
        );
        assert_eq!(credits.ask(peer, JobRank(1)), (0x1008, answers.as_ptr() as usize + 8));
        // The peer has received three, and says so in its own memory, which is this one here.
        (0..3).for_each(|_| credits.received(JobRank(1), Class::Reply));
        answers[1].store(counts[1].load(Ordering::Relaxed), Ordering::Relaxed);
        assert_eq!([(); 2].map(|()| credits.answered(peer)), [Some(true), Some(false)]);
        assert_eq!([(); 4].map(|()| take().is_there), [true, true, true, false]);
    }
}
