//! Peers that take no messages. A provider connects when the first message is sent. ofi_rxm reports
//! neither refused nor lost connections: it has no room.

use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::time::{Duration, Instant};

/// When that is reported.
const LIMIT: Duration = Duration::from_secs(10);

/// A peer to which messages wait.
#[derive(Debug)]
struct Waiting {
    peer: JobRank,
    since: Instant,
    is_reported: bool,
}

/// The peers to which messages wait, and since when.
#[derive(Debug, Default)]
pub struct Unreached(Mutex<Vec<Waiting>>);

impl Unreached {
    /// The provider has no room now for messages to `peers`, and room for all others. Returns the
    /// first of them of which that is to be reported, once.
    pub fn note(&self, peers: &[JobRank], now: Instant) -> Option<JobRank> {
        let mut all = lock(&self.0);
        all.retain(|waiting| peers.contains(&waiting.peer));
        for peer in peers {
            if !all.iter().any(|waiting| waiting.peer == *peer) {
                all.push(Waiting {
                    peer: *peer,
                    since: now,
                    is_reported: false,
                });
            }
        }
        let mut first = None;
        for waiting in all.iter_mut().filter(|waiting| !waiting.is_reported) {
            if now.duration_since(waiting.since) >= LIMIT {
                waiting.is_reported = true;
                first = first.or(Some(waiting.peer));
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_reported_once() {
        let (unreached, start) = (Unreached::default(), Instant::now());
        let note = |peers: &[u32], seconds| {
            let peers: Vec<_> = peers.iter().map(|rank| JobRank(*rank)).collect();
            let late = unreached.note(&peers, start + Duration::from_secs(seconds));
            late.map(|peer| peer.0)
        };
        assert_eq!(note(&[1, 2], 0), None);
        assert_eq!(note(&[2, 1, 3], 9), None);
        assert_eq!(note(&[1, 3], 10), Some(1));
        assert_eq!(note(&[1, 2, 3], 11), None);
        assert_eq!(note(&[3, 2, 1], 19), Some(3));
        assert_eq!(note(&[2], 21), Some(2));
        // It took messages, and stops again.
        assert_eq!(note(&[], 22), None);
        assert_eq!(note(&[2], 23), None);
        assert_eq!(note(&[2], 33), Some(2));
    }
}
