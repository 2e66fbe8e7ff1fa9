//! Entries of ports: offered buffers and messages of ports, in shared memory. All of a port's
//! belong to its process; the sender of a message that was fetched from its memory frees that one.

use std::sync::atomic::{Ordering::Relaxed, Ordering::Release};

use emulator_common::fabric::Member;
use emulator_common::random::Random;
use emulator_common::table::set;

use crate::shm::{Fabric, List, PortEntry};

/// States: a buffer that waits, one whose message has arrived, a message that lies on the heap, one
/// that lies in the sender's memory, and one that the receiver has fetched from there.
pub const WAITING: u32 = 1;
pub const ARRIVED: u32 = 2;
pub const BUFFERED: u32 = 3;
pub const ANNOUNCED: u32 = 4;
pub const FETCHED: u32 = 5;

/// Content of a new entry.
pub struct Content {
    pub state: u32,
    pub tag: u32,
    pub vp: u32,
    pub sender: u32,
    pub bytes: u64,
    pub address: u64,
}

/// A new entry of a port: its index. The port belongs to the process of a slot.
pub fn create(member: &Member<Fabric>, slot: u32, port: u32, content: &Content) -> Option<u32> {
    let guard = member.allocation();
    let index = member.fabric.port_entries.take(slot)?;
    drop(guard);
    let entry = member.fabric.port_entries.at(index);
    set([
        (&entry.port, port),
        (&entry.next, 0),
        (&entry.tag, content.tag),
        (&entry.vp, content.vp),
        (&entry.sender, content.sender),
    ]);
    entry.bytes.store(content.bytes, Relaxed);
    entry.address.store(content.address, Relaxed);
    entry.state.store(content.state, Release);
    Some(index)
}

/// Frees an entry, and its room on the heap.
pub fn destroy(member: &Member<Fabric>, index: u32) {
    let entry = member.fabric.port_entries.at(index);
    let _guard = member.allocation();
    if entry.state.swap(0, Relaxed) == BUFFERED && entry.bytes.load(Relaxed) != 0 {
        member.give_bytes(entry.address.load(Relaxed), entry.bytes.load(Relaxed));
    }
    member.fabric.port_entries.give(index);
}

/// Frees a port and its entries.
pub fn destroy_port(member: &Member<Fabric>, index: u32) {
    let fabric = member.fabric;
    let key = fabric.ports.key(index);
    let port = fabric.ports.at(index);
    let _lock = port.entry.lock.lock();
    let used = |&i: &u32| {
        let entry = fabric.port_entries.at(i);
        entry.state.load(Relaxed) != 0 && entry.port.load(Relaxed) == key
    };
    let entries: Vec<u32> = fabric.port_entries.used().filter(used).collect();
    for index in entries {
        destroy(member, index);
    }
    let _guard = member.allocation();
    fabric.ports.give(index);
}

pub fn key(member: &Member<Fabric>, index: u32) -> u32 {
    member.fabric.port_entries.key(index)
}

impl List {
    pub fn clear(&self) {
        self.head.store(0, Relaxed);
        self.tail.store(0, Relaxed);
    }

    pub fn append(&self, fabric: &Fabric, index: u32) {
        match self.tail.swap(index, Relaxed) {
            0 => self.head.store(index, Relaxed),
            last => fabric.port_entries.at(last).next.store(index, Relaxed),
        }
    }

    /// Takes the first entry with a tag out of the list. With `random`: that of any sender.
    pub fn take(
        &self,
        fabric: &'static Fabric,
        tag: u32,
        random: Option<&Random>,
    ) -> Option<(u32, &'static PortEntry)> {
        let (mut before, mut index) = (0, self.head.load(Relaxed));
        // Each with the one before it.
        let (mut senders, mut candidates) = (Vec::new(), Vec::new());
        while index != 0 {
            let entry = fabric.port_entries.at(index);
            let sender = entry.vp.load(Relaxed);
            if entry.tag.load(Relaxed) == tag && !senders.contains(&sender) {
                senders.push(sender);
                candidates.push((before, index));
                if random.is_none() {
                    break;
                }
            }
            (before, index) = (index, entry.next.load(Relaxed));
        }
        let chosen = random.map_or(0, |random| random.below(candidates.len() as u64));
        let &(before, index) = candidates.get(chosen as usize)?;
        let entry = fabric.port_entries.at(index);
        let next = entry.next.load(Relaxed);
        match before {
            0 => self.head.store(next, Relaxed),
            _ => fabric.port_entries.at(before).next.store(next, Relaxed),
        }
        if next == 0 {
            self.tail.store(before, Relaxed);
        }
        Some((index, entry))
    }
}
