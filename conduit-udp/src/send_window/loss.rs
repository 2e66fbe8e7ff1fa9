//! Which datagrams are lost is decided as QUIC does (RFC 9002, section 6.1): by later ones that came, three of them or some time before; and by a probe when
//! nothing comes at all (section 6.2). QUIC gives a probe a number of its own. Here it is the first datagram again, and when that has come it may have been
//! the earlier one: from a peer that had no core for a while, and goes on to take in the others. So it counts for later than those only after a while.
#![forbid(unsafe_code)]

use super::{Outgoing, State};
use crate::fragment::NARROW;

/// Datagrams sent later that came, before one is taken for lost.
const REORDERED: u64 = 3;
/// How often a long datagram is sent before the path is doubted, and where it has been already.
const DOUBTED: u32 = 6;
const DOUBTED_AGAIN: u32 = 2;

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Bytes that have come, payloads only.
    pub bytes: usize,
    /// A round trip, in nanoseconds, if one could be measured.
    pub round_trip: Option<u64>,
    /// Bytes that were found to be lost.
    pub lost: usize,
    /// The earliest number that was found to be lost.
    pub lost_number: Option<u64>,
    /// Bytes of the longest that came and was never sent in pieces.
    pub whole: usize,
    /// Bytes of one that makes the path doubtful.
    pub doubted: Option<usize>,
}

impl Outgoing {
    /// Finds those that are lost: sent [`REORDERED`] sendings before one that came, or `patience` nanoseconds before it. They wait again.
    pub fn find_lost(&mut self, patience: u64, news: &mut News) {
        if self.under_way == 0 || self.last_come == 0 {
            return;
        }
        for index in 0..self.window.len() {
            let datagram = &self.window[index];
            let State::Sent(at) = datagram.state else { continue };
            if datagram.sendings == 1 && datagram.sent_as > self.last_come {
                // All behind it were sent later still.
                return;
            }
            let by_count = datagram.sent_as + REORDERED <= self.last_come;
            let by_time = datagram.sent_as < self.last_come && at + patience < self.last_come_at;
            if by_count || by_time {
                self.lose(index, news);
            }
        }
    }

    fn lose(&mut self, index: usize, news: &mut News) {
        let datagram = &mut self.window[index];
        datagram.state = State::Waiting;
        datagram.probes = false;
        self.under_way -= 1;
        self.flight -= datagram.body.len();
        self.queued += datagram.body.len();
        news.lost += datagram.body.len();
        let doubted = if self.suspect { DOUBTED_AGAIN } else { DOUBTED };
        if datagram.sendings >= doubted && !datagram.cut && datagram.body.len() > NARROW {
            news.doubted = Some(datagram.body.len());
        }
        news.lost_number.get_or_insert(self.base + index as u64);
        self.first_waiting = if self.waiting == 0 {
            index
        } else {
            self.first_waiting.min(index)
        };
        self.waiting += 1;
    }

    /// Nothing comes: what was sent first waits again, or everything.
    pub fn probe(&mut self, everything: bool) -> News {
        let mut news = News::default();
        for index in 0..self.window.len() {
            if matches!(self.window[index].state, State::Sent(_)) {
                self.lose(index, &mut news);
                if !everything {
                    self.window[index].probes = true;
                    break;
                }
            }
        }
        news
    }
}
