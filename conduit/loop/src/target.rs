//! The NIC at the target of operations: checks keys and bounds, places, reads, and performs
//! atomics. The client of the target need not poll.
#![forbid(unsafe_code)]

use crate::arrivals::{Arrival, Packet};
use crate::nic::Nic;
use crate::start::{Net, PRESENT, STOPPED};
use crate::wire::{At, Message};
use gasnet_conduit::{atomic_codes as codes, Class, JobRank};
use gasnet_sys::lock;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// A put with notification that is arriving.
#[derive(Debug, Default)]
pub struct Placement {
    /// Fragments at their destination.
    placed: u32,
    /// The packet, and the number of its fragments.
    packet: Option<(Class, Packet, u32)>,
}

impl Nic {
    /// Processes a message of a peer or of this process. None if it is malformed.
    pub fn process(&mut self, net: &Net, peer: JobRank, message: &Message<'_>) -> Option<()> {
        match *message {
            Message::Packet(class, packet) => net.arrive(Arrival::Packet(peer, class, Packet::new(packet))),
            Message::Credit(class, count) => lock(&net.queue).credit(peer, class, count),
            Message::Put(At { id, key, address }, notified, data) => {
                let keys = lock(&net.keys);
                let memory = keys.exposed(key, address, data.len());
                let placed = memory.map(|memory| memory.write(data)).is_some();
                drop(keys);
                if placed && notified {
                    self.placements.entry((peer, id)).or_default().placed += 1;
                    self.deliver(net, (peer, id));
                }
                self.answer(peer, id, placed.then_some(Message::Placed(id)));
            }
            Message::Notice(id, class, fragments, packet) => {
                let packet = (class, Packet::new(packet), fragments);
                self.placements.entry((peer, id)).or_default().packet = Some(packet);
                self.deliver(net, (peer, id));
            }
            Message::Get(At { id, key, address }, offset, bytes) => {
                let keys = lock(&net.keys);
                let copy = keys.exposed(key, address, bytes).map(|memory| memory.read());
                drop(keys);
                let data = copy.as_deref().map(|data| Message::Data(id, offset, data));
                self.answer(peer, id, data);
            }
            Message::Atomic(At { id, key, address }, dt, op, operands) => {
                let keys = lock(&net.keys);
                let memory = keys.exposed(key, address, codes::bytes(dt));
                let old = memory.and_then(|memory| memory.update(dt, op, operands));
                drop(keys);
                self.answer(peer, id, old.map(|value| Message::Old(id, value)));
            }
            Message::Placed(id) | Message::Data(id, ..) | Message::Old(id, _) | Message::Denied(id) => {
                return self.answered(net, peer, id, message);
            }
            Message::Enter(words) => return self.enter_round(net, peer, words),
            Message::RoundEnd(words) => self.arrive_late(Arrival::Round(words)),
            Message::Word(index, word) => {
                net.words.get(index)?.store(word, Release);
                self.arrive_late(Arrival::Word);
            }
            Message::Bye => {
                let state = &net.states[peer.index()];
                let _ = state.compare_exchange(PRESENT, STOPPED, Relaxed, Relaxed);
            }
        }
        Some(())
    }

    fn answer(&mut self, peer: JobRank, id: u64, answer: Option<Message<'_>>) {
        self.send(peer, &answer.unwrap_or(Message::Denied(id)));
    }

    /// Hands the packet of a put to the client, if all fragments are placed.
    fn deliver(&mut self, net: &Net, put: (JobRank, u64)) {
        let placement = self.placements.get(&put);
        if placement.is_some_and(|it| it.packet.as_ref().is_some_and(|packet| packet.2 == it.placed)) {
            let packet = self.placements.remove(&put).and_then(|placement| placement.packet);
            if let Some((class, packet, _)) = packet {
                net.arrive(Arrival::Packet(put.0, class, packet));
            }
        }
    }
}
