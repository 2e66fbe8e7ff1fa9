//! Exchanges of all ranks: their bytes travel up, and the outcome down.
#![forbid(unsafe_code)]

use super::{relay, Agent, BROKEN};
use crate::board::Board;
use crate::tree::message::Message;

impl Agent<'_> {
    /// Hosts with ranks in this part of the job.
    fn hosts_here(&self) -> usize {
        if self.post.tree.is_root() {
            return self.post.map.hosts() as usize;
        }
        let below: usize = self.post.tree.branches().iter().map(|b| b.hosts).sum();
        below + usize::from(self.post.host.is_some())
    }

    /// All ranks of this host are in an exchange.
    pub(super) fn exchange_here(&mut self, round: u32, length: u32) {
        let Some(host) = self.post.host else { return };
        let length = length.min(Board::slot_bytes() as u32);
        let mut bytes = vec![0; self.post.children.len() * length as usize];
        if length > 0 {
            for (child, part) in self.post.children.iter().zip(bytes.chunks_exact_mut(length as usize)) {
                self.post.board.read_slot(round, child.rank, part);
            }
        }
        self.exchange(round, length, vec![(host, bytes)]);
    }

    pub(super) fn exchange(&mut self, round: u32, length: u32, parts: relay::Parts) {
        match self.relay.add(round, length, parts, self.hosts_here()) {
            Ok(None) => {}
            Ok(Some(all)) if !self.post.tree.is_root() => self.post.tree.send_up(&Message::Gather {
                round: all.round,
                length: all.length,
                parts: all.parts,
            }),
            Ok(Some(all)) => match relay::assemble(self.post.map, all.length as usize, &all.parts) {
                Some(bytes) => self.deliver(all.round, &bytes),
                None => self.broken("hosts gave another number of bytes than they have ranks"),
            },
            Err(why) => self.broken(&why),
        }
    }

    fn broken(&mut self, why: &str) {
        self.say(format_args!(
            "an exchange between hosts failed: {why}. This is a defect of the library; ending the job"
        ));
        self.begin(BROKEN, true);
    }

    /// Passes the outcome of an exchange on, and to the ranks of this host.
    pub(super) fn deliver(&mut self, round: u32, bytes: &[u8]) {
        self.post.tree.send_down(&Message::Result {
            round,
            bytes: bytes.to_vec(),
        });
        if self.post.host.is_none() {
            return;
        }
        if bytes.len() > self.post.map.size() as usize * Board::slot_bytes() {
            return self.broken("more bytes came than there is room for");
        }
        self.post.board.write_results(round, bytes);
        if self.post.board.address().is_none() {
            // All hosts have called by now.
            if let Some(address) = self.post.tree.own_address() {
                self.post.board.set_address(address);
            }
        }
        self.post.board.release_barrier();
    }
}
