//! Messages of ports in transit. The sender copies into a buffer that the receiver has offered.
//! Without one, a short message waits on the heap; the receiver gets it in a buffer of the library.
//! A long message waits in the sender's memory until the receiver fetches it into the next buffer.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use emulator_common::copy::{self, Fault};
use emulator_common::fabric::now_ns;
use emulator_common::lock::locked;

use crate::attachment::Attachment;
use crate::event::Event;
use crate::port_entry::{self, Content, ANNOUNCED, ARRIVED, BUFFERED};
use crate::shm::PortEntry;

/// Longer messages wait in the sender's memory.
const SHORT: u64 = 8192;

/// A message in transit.
#[derive(Clone, Copy)]
pub struct Message {
    pub attachment: &'static Attachment,
    /// The number of the port.
    pub port: usize,
    pub event: Event,
    pub vp: u32,
    pub tag: u32,
    pub from: u64,
    pub bytes: u64,
    /// Fault `forge`: the length with which it arrives in an offered buffer.
    pub reported: Option<u64>,
}

impl Message {
    /// Delivers, now or when it must wait for a buffer.
    pub fn deliver(&self) {
        let attachment = self.attachment;
        let (process, fabric) = (attachment.process, attachment.process.fabric);
        let Some(peer) = attachment.peer("port_send", self.vp) else {
            return self.lose();
        };
        let key = peer.endpoint.ports[self.port].load(Acquire);
        let Some(port) = fabric.ports.find(key) else {
            return self.lose();
        };
        let _guard = port.entry.lock.lock();
        if fabric.ports.find(key).is_none() {
            return self.lose();
        }
        if let Some((_, offer)) = port.offers.take(fabric, self.tag, None) {
            attachment.check_room(self.bytes, offer.bytes.load(Relaxed));
            match copy::write(process, peer.slot, self.from, offer.address.load(Relaxed), self.bytes) {
                Ok(()) => offer.arrive(attachment.vp, self.reported.unwrap_or(self.bytes)),
                Err(Fault::Unmapped) if process.alive(peer.slot) => {
                    attachment.die("port_send", "trap: the message or the offered buffer is not mapped");
                }
                Err(_) => return self.lose(),
            }
            return attachment.events.finish(self.event);
        }
        if !process.alive(peer.slot) {
            return self.lose();
        }
        let is_short = self.bytes <= SHORT;
        let address = if is_short { self.store() } else { self.from };
        let content = Content {
            state: if is_short { BUFFERED } else { ANNOUNCED },
            tag: self.tag,
            vp: attachment.vp,
            sender: attachment.key,
            bytes: self.bytes,
            address,
        };
        let Some(index) = port_entry::create(process, peer.slot, key, &content) else {
            attachment.die("port_send", "too many messages that nobody receives");
        };
        if is_short {
            attachment.events.finish(self.event);
        } else if let Some(slot) = attachment.events.slot_of(self.event) {
            slot.data.store(port_entry::key(process, index).into(), Release);
        }
        port.messages.append(fabric, index);
    }

    /// Copies a short message to the heap.
    fn store(&self) -> u64 {
        let attachment = self.attachment;
        if self.bytes == 0 {
            return 0;
        }
        let Some(offset) = attachment.process.take_bytes(self.bytes) else {
            attachment.die("port_send", "no memory for a message that nobody receives");
        };
        let to = std::ptr::from_ref(&attachment.process.words[offset as usize / 8]) as *mut u8;
        // SAFETY: the block has room; nobody else has it; the message is of `alloc`.
        unsafe { std::ptr::copy_nonoverlapping(self.from as *const u8, to, self.bytes as usize) };
        offset
    }

    fn lose(&self) {
        let (bytes, vp) = (self.bytes, self.vp);
        let attachment = self.attachment;
        attachment.trace(&format!(
            "a message of {bytes} bytes to a port of process {vp}, which is gone"
        ));
    }

    /// When it arrives: after earlier messages of this process to the same port and process.
    pub fn due_ns(&self) -> u64 {
        let attachment = self.attachment;
        let due = now_ns() + attachment.process.delay_ns();
        if attachment.process.config.overtake {
            return due;
        }
        let mut arrivals = locked(&attachment.arrivals);
        let last = arrivals.entry((self.port as u32, self.vp)).or_default();
        *last = due.max(*last);
        *last
    }
}

impl PortEntry {
    /// A message has arrived in an offered buffer.
    fn arrive(&self, vp: u32, bytes: u64) {
        self.vp.store(vp, Relaxed);
        self.bytes.store(bytes, Relaxed);
        self.state.store(ARRIVED, Release);
    }
}
