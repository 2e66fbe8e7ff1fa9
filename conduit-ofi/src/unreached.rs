//! Peers that take no messages. A provider connects when the first message is sent. ofi_rxm reports
//! neither refused nor lost connections: it has no room.

use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::time::{Duration, Instant};

/// When the user is warned.
const LATE: Duration = Duration::from_secs(10);
/// When the peer is lost.
const LOST: Duration = Duration::from_secs(300);

/// A peer to which messages wait.
#[derive(Debug)]
struct Waiting {
    peer: JobRank,
    since: Instant,
    is_reported: bool,
}

/// How long a peer has taken no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// Ten seconds: the user is warned, once.
    Late(JobRank),
    /// Five minutes: it is lost.
    Lost(JobRank),
}

/// The peers to which messages wait, and since when.
#[derive(Debug, Default)]
pub struct Unreached(Mutex<Vec<Waiting>>);

impl Unreached {
    /// The provider has no room now for messages to `peers`, and room for all others. Returns what
    /// is to be done about the first of them that is late or lost. Calls `reached` with those that
    /// have taken what waited.
    pub fn note(&self, peers: &[JobRank], now: Instant, mut reached: impl FnMut(JobRank)) -> Option<Lateness> {
        let mut all = lock(&self.0);
        all.retain(|waiting| {
            let still_waits = peers.contains(&waiting.peer);
            if !still_waits {
                reached(waiting.peer);
            }
            still_waits
        });
        for peer in peers {
            if !all.iter().any(|waiting| waiting.peer == *peer) {
                all.push(Waiting {
                    peer: *peer,
                    since: now,
                    is_reported: false,
                });
            }
        }
        let lost = all.iter().find(|waiting| now.duration_since(waiting.since) >= LOST);
        if let Some(waiting) = lost {
            return Some(Lateness::Lost(waiting.peer));
        }
        let mut first = None;
        for waiting in all.iter_mut().filter(|waiting| !waiting.is_reported) {
            if now.duration_since(waiting.since) >= LATE {
                waiting.is_reported = true;
                first = first.or(Some(Lateness::Late(waiting.peer)));
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_late_once_and_lost_after_minutes() {
        let (unreached, start) = (Unreached::default(), Instant::now());
        let reached = std::cell::RefCell::new(Vec::new());
        let late = |rank| Some(Lateness::Late(JobRank(rank)));
        let note = |peers: &[u32], seconds| {
            let peers: Vec<_> = peers.iter().map(|rank| JobRank(*rank)).collect();
            let now = start + Duration::from_secs(seconds);
            unreached.note(&peers, now, |peer| reached.borrow_mut().push(peer.0))
        };
        assert_eq!(note(&[1, 2], 0), None);
        assert_eq!(note(&[2, 1, 3], 9), None);
        assert_eq!(note(&[1, 3], 10), late(1));
        assert_eq!(note(&[1, 2, 3], 11), None);
        assert_eq!(note(&[3, 2, 1], 19), late(3));
        assert_eq!(note(&[2], 21), late(2));
        // It took messages, and stops again.
        assert_eq!(note(&[], 22), None);
        assert_eq!(note(&[2], 23), None);
        assert_eq!(note(&[2], 33), late(2));
        assert_eq!(note(&[2], 322), None);
        assert_eq!(note(&[2, 3], 323), Some(Lateness::Lost(JobRank(2))));
        assert_eq!(reached.into_inner(), [2, 1, 3, 2]);
    }
}
