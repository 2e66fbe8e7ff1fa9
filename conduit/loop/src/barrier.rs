//! The barrier: leaders send their words to the first leader, whose NIC ANDs them and sends the
//! result to all.
#![forbid(unsafe_code)]

use crate::nic::Nic;
use crate::queue::Work;
use crate::start::Net;
use crate::wire::Message;
use gasnet_conduit::{Barrier, Busy, JobRank};
use gasnet_sys::lock;
use std::sync::atomic::Ordering::Relaxed;

/// The round under way, at the first leader.
#[derive(Debug)]
pub struct Round {
    /// Whether each leader has entered.
    entered: Vec<bool>,
    words: [u64; 2],
}

impl Round {
    /// Nobody has entered it.
    pub fn new(leaders: usize) -> Self {
        Self {
            entered: vec![false; leaders],
            words: [u64::MAX; 2],
        }
    }
}

impl Barrier for Net {
    fn enter(&self, words: [u64; 2]) -> Result<(), Busy> {
        assert!(
            self.leaders.contains(&self.rank),
            "defect: a barrier of a process that does not lead"
        );
        if self.stopped.load(Relaxed) {
            return Err(Busy);
        }
        lock(&self.queue).post(Work::Barrier(words));
        self.ring();
        Ok(())
    }
}

impl Nic {
    /// A leader enters a round. None if it does not lead, or is in the round.
    pub fn enter_round(&mut self, net: &Net, peer: JobRank, words: [u64; 2]) -> Option<()> {
        let index = net.leaders.iter().position(|leader| *leader == peer)?;
        let round = &mut self.round;
        if std::mem::replace(&mut round.entered[index], true) {
            return None;
        }
        round.words = [round.words[0] & words[0], round.words[1] & words[1]];
        if round.entered.iter().all(|entered| *entered) {
            let words = round.words;
            self.round = Round::new(net.leaders.len());
            for leader in &net.leaders {
                self.send(*leader, &Message::RoundEnd(words));
            }
        }
        Some(())
    }
}
