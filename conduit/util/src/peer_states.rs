//! States of peers (present, stopped, lost) and of this process (started, failed, stopped), and
//! losses and a failure until they are reported.

use gasnet_conduit::{JobRank, Upcalls};
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::sync::atomic::{AtomicBool, AtomicU8};

const PRESENT: u8 = 0;
const STOPPED: u8 = 1;
const LOST: u8 = 2;

/// State of a peer for a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It takes messages.
    Present,
    /// Messages to the peer are dropped.
    Stopped,
    /// The peer is lost, or this process has stopped.
    Lost,
}

/// The states of all processes of a job.
#[derive(Debug)]
pub struct PeerStates {
    all: Box<[AtomicU8]>,
    /// Peers whose loss is not reported yet, with the reasons.
    losses: Mutex<Vec<(JobRank, String)>>,
    /// Whether there are any, or a failure.
    has_losses: AtomicBool,
    /// Why the network failed, until that is reported.
    failure: Mutex<Option<String>>,
    has_failed: AtomicBool,
    /// Whether this process has stopped.
    is_stopped: AtomicBool,
}

impl PeerStates {
    /// States of this number of processes, all present.
    pub fn new(ranks: usize) -> Self {
        Self {
            all: std::iter::repeat_with(|| AtomicU8::new(PRESENT)).take(ranks).collect(),
            losses: Mutex::default(),
            has_losses: AtomicBool::new(false),
            failure: Mutex::default(),
            has_failed: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// State of a peer, for a message to it.
    #[inline]
    pub fn state(&self, rank: JobRank) -> PeerState {
        match self.of(rank).load(Ordering::Relaxed) {
            _ if self.is_stopped() => PeerState::Lost,
            PRESENT => PeerState::Present,
            STOPPED => PeerState::Stopped,
            _ => PeerState::Lost,
        }
    }

    /// Whether this process has stopped.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Stops this process. Returns whether it had stopped before. Async-signal-safe.
    pub fn stop(&self) -> bool {
        self.is_stopped.swap(true, Ordering::SeqCst)
    }

    #[inline]
    fn of(&self, rank: JobRank) -> &AtomicU8 {
        &self.all[rank.index()]
    }

    /// Whether the peer has neither stopped nor been lost.
    #[inline]
    pub fn is_present(&self, rank: JobRank) -> bool {
        self.of(rank).load(Ordering::Relaxed) == PRESENT
    }

    /// Whether the peer has stopped, so that messages to it may be dropped.
    pub fn has_stopped(&self, rank: JobRank) -> bool {
        self.of(rank).load(Ordering::Relaxed) == STOPPED
    }

    /// Whether any peer has.
    pub fn any_stopped(&self) -> bool {
        self.all.iter().any(|state| state.load(Ordering::Relaxed) == STOPPED)
    }

    /// The peer has stopped, unless it is lost.
    pub fn note_stop(&self, rank: JobRank) {
        self.change(rank, STOPPED);
    }

    /// An operation with the peer failed. Nothing if it has stopped or is lost already.
    #[cold]
    pub fn lose(&self, rank: JobRank, why: String) {
        if self.change(rank, LOST) {
            lock(&self.losses).push((rank, why));
            self.has_losses.store(true, Ordering::Release);
        }
    }

    /// The network of this process failed, and no single peer is the reason. The first reason
    /// counts.
    #[cold]
    pub fn fail(&self, why: &str) {
        let mut failure = lock(&self.failure);
        if !self.has_failed.swap(true, Ordering::AcqRel) {
            *failure = Some(why.to_owned());
            self.has_losses.store(true, Ordering::Release);
        }
    }

    /// Whether the network of this process failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn change(&self, rank: JobRank, state: u8) -> bool {
        let changed = self
            .of(rank)
            .compare_exchange(PRESENT, state, Ordering::Relaxed, Ordering::Relaxed);
        changed.is_ok()
    }

    /// Whether there are losses to report, or a failure.
    #[inline]
    pub fn has_losses(&self) -> bool {
        self.has_losses.load(Ordering::Relaxed)
    }

    /// Losses to report, each once. For conduits that never call [`PeerStates::fail`]: it clears
    /// [`PeerStates::has_losses`], so that a failure would stay unreported. Others call
    /// [`PeerStates::report`].
    pub fn take_losses(&self) -> Vec<(JobRank, String)> {
        self.has_losses.store(false, Ordering::Relaxed);
        std::mem::take(&mut *lock(&self.losses))
    }

    /// Reports losses and a failure, each once.
    #[cold]
    pub fn report(&self, upcalls: &mut dyn Upcalls) {
        for (peer, why) in self.take_losses() {
            upcalls.peer_lost(peer, &why);
        }
        let failure = lock(&self.failure).take();
        if let Some(why) = failure {
            upcalls.network_lost(&why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::{Class, Completion, Cookie};

    /// Texts of the reports.
    #[derive(Default)]
    struct Reports(Vec<String>);

    impl Upcalls for Reports {
        fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {
            unreachable!();
        }

        fn done(&mut self, _: Cookie, _: Completion) {
            unreachable!();
        }

        fn peer_lost(&mut self, peer: JobRank, why: &str) {
            self.0.push(format!("{}: {why}", peer.0));
        }

        fn network_lost(&mut self, why: &str) {
            self.0.push(why.to_owned());
        }
    }

    #[test]
    fn the_first_failure_is_reported_once() {
        let (states, mut reports) = (PeerStates::new(2), Reports::default());
        states.report(&mut reports);
        assert!(reports.0.is_empty() && !states.has_failed() && !states.has_losses());
        states.fail("a port is down");
        states.fail("so is another");
        states.lose(JobRank(1), "gone".into());
        assert!(states.has_failed() && states.has_losses());
        states.report(&mut reports);
        assert_eq!(reports.0, ["1: gone", "a port is down"]);
        states.fail("again");
        assert!(states.has_failed() && !states.has_losses());
        states.report(&mut reports);
        assert_eq!(reports.0.len(), 2);
    }

    #[test]
    fn a_loss_is_reported_once() {
        let states = PeerStates::new(3);
        assert!(!states.any_stopped() && !states.has_losses());
        states.note_stop(JobRank(1));
        for rank in [1, 2, 2].map(JobRank) {
            states.lose(rank, "gone".into());
        }
        assert!(states.has_losses());
        assert_eq!(states.take_losses(), [(JobRank(2), "gone".into())]);
        assert!(!states.has_losses() && states.take_losses().is_empty());
        assert!(states.has_stopped(JobRank(1)) && states.any_stopped());
        assert_eq!(
            [0, 1, 2].map(|rank| states.is_present(JobRank(rank))),
            [true, false, false]
        );
    }
}
