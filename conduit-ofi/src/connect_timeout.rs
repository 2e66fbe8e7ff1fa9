//! Peers that take no messages. A provider connects when the first message is sent, and has no room
//! until the peer polls. ofi_rxm reports neither refused nor lost connections: it has no room,
//! either. So the user is warned, and the job goes on: a rank may compute for hours, and the node
//! agents end the job if one dies.

use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::time::{Duration, Instant};

/// Time until the first warning.
const FIRST: Duration = Duration::from_secs(10);
/// Time until the second; each later one is twice as long.
const SECOND: Duration = Duration::from_secs(300);

/// A peer to which messages wait.
#[derive(Debug)]
struct Waiting {
    peer: JobRank,
    since: Instant,
    /// Time after which the user is warned.
    next: Duration,
}

/// The peers to which messages wait, and since when.
#[derive(Debug, Default)]
pub struct ConnectTimeouts(Mutex<Vec<Waiting>>);

impl ConnectTimeouts {
    /// The provider had room for messages to `reached`, then none for messages to `peers`. Of
    /// others nothing is known: another thread may be trying. Returns one that the user is to be
    /// warned about, and after which time.
    pub fn note(&self, reached: &[JobRank], peers: &[JobRank], now: Instant) -> Option<(JobRank, Duration)> {
        let mut all = lock(&self.0);
        all.retain(|waiting| !reached.contains(&waiting.peer));
        for peer in peers {
            if !all.iter().any(|waiting| waiting.peer == *peer) {
                all.push(Waiting {
                    peer: *peer,
                    since: now,
                    next: FIRST,
                });
            }
        }
        let waiting = all.iter_mut().find(|waiting| now - waiting.since >= waiting.next)?;
        let late = waiting.next;
        waiting.next = if late == FIRST { SECOND } else { 2 * late };
        Some((waiting.peer, late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_about_a_late_peer_become_rare() {
        let (connect_timeouts, start) = (ConnectTimeouts::default(), Instant::now());
        let ranks = |ranks: &[u32]| ranks.iter().copied().map(JobRank).collect::<Vec<_>>();
        let note = |reached: &[u32], peers: &[u32], seconds| {
            connect_timeouts.note(&ranks(reached), &ranks(peers), start + Duration::from_secs(seconds))
        };
        let late = |rank, seconds| Some((JobRank(rank), Duration::from_secs(seconds)));
        assert_eq!(note(&[], &[1, 2], 0), None);
        assert_eq!(note(&[], &[2, 1, 3], 9), None);
        assert_eq!(note(&[2], &[1, 3], 10), late(1, 10));
        assert_eq!(note(&[2], &[1, 2, 3], 11), None);
        assert_eq!(note(&[], &[3, 2, 1], 19), late(3, 10));
        assert_eq!(note(&[1, 3], &[2], 21), late(2, 10));
        // Another thread tries.
        assert_eq!(note(&[], &[], 22), None);
        assert_eq!(note(&[], &[3], 310), None);
        // Another one that has stopped does not hide it.
        assert_eq!(note(&[], &[2, 3], 311), late(2, 300));
        assert_eq!(note(&[], &[2, 3], 320), late(3, 10));
        assert_eq!(note(&[], &[2, 3], 610), late(3, 300));
        assert_eq!(note(&[], &[2, 3], 611), late(2, 600));
        assert_eq!(note(&[], &[2, 3], 909), None);
        assert_eq!(note(&[], &[2, 3], 1211), late(2, 1200));
    }
}
