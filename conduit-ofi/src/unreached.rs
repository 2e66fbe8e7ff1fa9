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
    /// After which time something is to be done about it.
    next: Option<Duration>,
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
    /// The provider had room for messages to `reached`, then none for messages to `peers`. Of
    /// others nothing is known: another thread may be trying. Returns what is to be done about one
    /// that is late or lost, once.
    pub fn note(&self, reached: &[JobRank], peers: &[JobRank], now: Instant) -> Option<Lateness> {
        let mut all = lock(&self.0);
        all.retain(|waiting| !reached.contains(&waiting.peer));
        for peer in peers {
            if !all.iter().any(|waiting| waiting.peer == *peer) {
                all.push(Waiting {
                    peer: *peer,
                    since: now,
                    next: Some(LATE),
                });
            }
        }
        let is_due = |waiting: &&mut Waiting| waiting.next.is_some_and(|next| now - waiting.since >= next);
        let waiting = all.iter_mut().find(is_due)?;
        let is_late = waiting.next == Some(LATE);
        waiting.next = is_late.then_some(LOST);
        Some(if is_late {
            Lateness::Late(waiting.peer)
        } else {
            Lateness::Lost(waiting.peer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_late_once_and_lost_after_minutes() {
        let (unreached, start) = (Unreached::default(), Instant::now());
        let ranks = |ranks: &[u32]| ranks.iter().copied().map(JobRank).collect::<Vec<_>>();
        let note = |reached: &[u32], peers: &[u32], seconds| {
            unreached.note(&ranks(reached), &ranks(peers), start + Duration::from_secs(seconds))
        };
        let late = |rank| Some(Lateness::Late(JobRank(rank)));
        let lost = |rank| Some(Lateness::Lost(JobRank(rank)));
        assert_eq!(note(&[], &[1, 2], 0), None);
        assert_eq!(note(&[], &[2, 1, 3], 9), None);
        assert_eq!(note(&[2], &[1, 3], 10), late(1));
        assert_eq!(note(&[2], &[1, 2, 3], 11), None);
        assert_eq!(note(&[], &[3, 2, 1], 19), late(3));
        assert_eq!(note(&[1, 3], &[2], 21), late(2));
        // Another thread tries.
        assert_eq!(note(&[], &[], 22), None);
        assert_eq!(note(&[], &[3], 310), None);
        // Another one that is lost, or stopped, does not hide it.
        assert_eq!(note(&[], &[2, 3], 311), lost(2));
        assert_eq!(note(&[], &[2, 3], 320), late(3));
        assert_eq!(note(&[], &[2, 3], 609), None);
        assert_eq!(note(&[], &[2, 3], 610), lost(3));
    }
}
