//! Exchanges between hosts: the bytes of all ranks travel up the tree; the root assembles them and
//! sends the result down.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::{Agent, BROKEN};
use crate::control_block::SLOT_BYTES;
use crate::layout::JobLayout;
use crate::tree::message::AgentMessage;

/// The bytes of the ranks of some hosts: host by host, each in the order of ranks.
pub type RankParts = Vec<(u32, Vec<u8>)>;

/// The exchange under way in this part of the job.
#[derive(Debug, Default)]
pub struct Gather {
    /// Its number, and the bytes of each rank.
    round: Option<(u32, u32)>,
    parts: RankParts,
}

impl Gather {
    /// Adds contributions to exchange `round` of `length` bytes per rank. Returns all once they
    /// are of `expected` hosts. An error if they are of different exchanges, or longer than a slot.
    pub fn add(
        &mut self,
        round: u32,
        length: u32,
        parts: RankParts,
        expected: usize,
    ) -> Result<Option<RankParts>, String> {
        if length as usize > SLOT_BYTES {
            let hosts: Vec<u32> = parts.iter().map(|(host, _)| *host).take(8).collect();
            return Err(format!(
                "hosts {hosts:?} sent {length} bytes per rank in exchange {round}, more than {SLOT_BYTES}"
            ));
        }
        let (known_round, known_length) = *self.round.get_or_insert((round, length));
        if (known_round, known_length) != (round, length) {
            return Err(format!(
                "hosts disagree: exchange {round} of {length} bytes met exchange {known_round} of {known_length}"
            ));
        }
        self.parts.extend(parts);
        Ok((self.parts.len() >= expected).then(|| std::mem::take(self).parts))
    }
}

/// The result: all bytes in the order of ranks. None unless each host is there once, with the bytes
/// of all its ranks.
pub fn assemble(layout: &JobLayout, length: usize, parts: &RankParts) -> Option<Vec<u8>> {
    let mut rest: BTreeMap<u32, &[u8]> = parts.iter().map(|(host, bytes)| (*host, &bytes[..])).collect();
    if rest.len() != parts.len() {
        return None;
    }
    let total = parts.iter().map(|(_, bytes)| bytes.len()).sum();
    if (layout.size as usize).checked_mul(length) != Some(total) {
        return None;
    }
    let mut all = Vec::with_capacity(total);
    for range in &layout.ranges {
        let of_host = rest.get_mut(&range.host)?;
        let (front, behind) = of_host.split_at_checked(range.count as usize * length)?;
        all.extend(front);
        *of_host = behind;
    }
    rest.values().all(|bytes| bytes.is_empty()).then_some(all)
}

impl Agent<'_> {
    /// Number of hosts with ranks in this part of the job.
    pub(super) fn hosts_here(&self) -> usize {
        let below: usize = self.setup.tree.branches.iter().map(|b| b.hosts).sum();
        below + usize::from(self.setup.host.is_some())
    }

    /// All ranks of this host have entered an exchange.
    pub(super) fn exchange_here(&mut self, round: u32, length: u32) {
        let Some(host) = self.setup.host else { return };
        let length = length.min(SLOT_BYTES as u32);
        let mut bytes = vec![0; self.setup.children.len() * length as usize];
        if length > 0 {
            for (child, part) in self.setup.children.iter().zip(bytes.chunks_exact_mut(length as usize)) {
                self.setup.control.read_slot(round, child.rank, part);
            }
        }
        self.exchange(round, length, vec![(host, bytes)]);
    }

    pub(super) fn exchange(&mut self, round: u32, length: u32, parts: RankParts) {
        match self.gather.add(round, length, parts, self.hosts_here()) {
            Ok(None) => {}
            Ok(Some(parts)) if !self.setup.tree.is_root() => {
                self.setup.tree.send_up(&AgentMessage::Gather { round, length, parts });
            }
            Ok(Some(parts)) => match assemble(self.setup.layout, length as usize, &parts) {
                Some(bytes) => self.deliver(round, bytes),
                None => self.broken("the number of bytes does not match the number of ranks"),
            },
            Err(why) => self.broken(&why),
        }
    }

    fn broken(&mut self, why: &str) {
        self.end_job(
            BROKEN,
            &format!("an exchange between hosts failed: {why}. This is a defect of the library"),
        );
    }

    /// Sends the result of an exchange to agents below, and to the ranks of this host.
    pub(super) fn deliver(&mut self, round: u32, bytes: Vec<u8>) {
        let message = AgentMessage::Result { round, bytes };
        self.setup.tree.send_down(&message);
        let AgentMessage::Result { bytes, .. } = message else {
            return;
        };
        if self.setup.host.is_none() {
            return;
        }
        if bytes.len() > self.setup.layout.size as usize * SLOT_BYTES {
            return self.broken("the result is too large");
        }
        self.setup.control.write_results(round, &bytes);
        if self.setup.control.address().is_none() {
            // All hosts have connected by now.
            if let Some(address) = self.setup.tree.own_address() {
                self.setup.control.set_address(address);
            }
        }
        self.setup.control.release_barrier();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_any_order() {
        let layout = JobLayout::from_hosts(&[0, 0, 1, 0, 2], 0).unwrap();
        let mut gather = Gather::default();
        assert_eq!(gather.add(5, 2, vec![(2, vec![4, 4])], 3), Ok(None));
        assert_eq!(gather.add(5, 2, vec![(0, vec![0, 0, 1, 1, 3, 3])], 3), Ok(None));
        let parts = gather.add(5, 2, vec![(1, vec![2, 2])], 3).unwrap().unwrap();
        assert_eq!(assemble(&layout, 2, &parts).unwrap(), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        // The next exchange may begin.
        assert!(gather.add(6, 0, vec![(0, vec![])], 3).unwrap().is_none());
        let refused = gather.add(7, 0, vec![(1, vec![])], 3).unwrap_err();
        assert!(refused.contains("exchange 7"));
        for length in [SLOT_BYTES as u32 + 1, u32::MAX] {
            let refused = Gather::default().add(8, length, vec![(5, vec![])], 3).unwrap_err();
            assert!(
                refused.contains("hosts [5]") && refused.contains("exchange 8"),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let layout = JobLayout::from_hosts(&[0, 1], 0).unwrap();
        for bad in [
            vec![(0, vec![1])],
            vec![(0, vec![1]), (0, vec![1])],
            vec![(0, vec![1]), (0, vec![1]), (1, vec![1])],
            vec![(0, vec![1]), (2, vec![1])],
            vec![(0, vec![1]), (1, vec![1, 1])],
            vec![(0, vec![1]), (1, vec![])],
        ] {
            assert_eq!(assemble(&layout, 1, &bad), None, "{bad:?}");
        }
        // No memory is taken for bytes that are not there.
        for length in [usize::MAX, usize::MAX / 2, isize::MAX as usize / 2] {
            assert_eq!(assemble(&layout, length, &vec![(0, vec![1]), (1, vec![1])]), None);
        }
    }
}
