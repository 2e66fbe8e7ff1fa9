//! Places for replies that are not the first to their request, until their receivers have fetched
//! them.
#![forbid(unsafe_code)]

use crate::region::REPLY_BUFFERS;
use gasnet_conduit::JobRank;

/// The receiver of the reply in each buffer.
#[derive(Debug, Default)]
pub struct ReplyBuffers([Option<JobRank>; REPLY_BUFFERS]);

impl ReplyBuffers {
    /// A place for a reply to a peer.
    pub fn take(&mut self, peer: JobRank) -> Option<usize> {
        let place = self.0.iter().position(Option::is_none)?;
        self.0[place] = Some(peer);
        Some(place)
    }

    /// A peer has fetched its reply, or does not hear of it. False: none for it is in this place.
    pub fn give(&mut self, peer: JobRank, place: usize) -> bool {
        let is_its = self.0.get(place) == Some(&Some(peer));
        if is_its {
            self.0[place] = None;
        }
        is_its
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_peer_of_a_reply_frees_its_place() {
        let mut buffers = ReplyBuffers::default();
        let places: Vec<_> = (0..REPLY_BUFFERS as u32)
            .map(|rank| buffers.take(JobRank(rank)))
            .collect();
        assert_eq!(places, (0..REPLY_BUFFERS).map(Some).collect::<Vec<_>>());
        assert_eq!(buffers.take(JobRank(9)), None);
        for (peer, place, is_its) in [
            (0, 1, false),
            (1, REPLY_BUFFERS, false),
            (1, 63, false),
            (1, 1, true),
            (1, 1, false),
        ] {
            assert_eq!(buffers.give(JobRank(peer), place), is_its, "{peer} {place}");
        }
        assert_eq!(buffers.take(JobRank(9)), Some(1));
    }
}
