//! Receiving: short messages from the queues, long ones from the buffers that were offered to the
//! port.

use crate::buffers::{Buffer, BUFFER};
use crate::credits::Credits;
use crate::ffi::{Event, Local, Port, Shim};
use crate::link::Link;
use crate::send::Messages;
use crate::wire::Slot;
use gasnet_conduit::{Class, JobRank, Upcalls, PACKET_ALIGN};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::collections::VecDeque;

/// Messages of a class that a poll receives.
const BURST: usize = 10;

/// The buffers that a process offers to long messages of a class, in the order in which messages
/// arrive in them.
#[derive(Debug)]
pub struct PostedReceives(Mutex<VecDeque<(Event, Buffer)>>);

impl PostedReceives {
    /// Offers these buffers.
    pub fn new(shim: &Shim, port: &Port, class: Class, buffers: Vec<Buffer>) -> Self {
        let offers = Self(Mutex::default());
        for buffer in buffers {
            offers.offer(shim, port, class, buffer);
        }
        offers
    }

    fn offer(&self, shim: &Shim, port: &Port, class: Class, buffer: Buffer) {
        let mut offers = lock(&self.0);
        let memory = Local {
            address: buffer.address(),
            bytes: BUFFER,
        };
        // SAFETY: memory of the network, which is kept until a message was received.
        let event = unsafe { shim.port_offer(port, class as u32, memory) };
        offers.push_back((event, buffer));
    }

    /// Takes the first one, if a message has arrived for it, and no other thread looks.
    #[inline]
    fn take(&self, shim: &Shim, port: &Port) -> Option<(Event, Buffer)> {
        let mut offers = self.0.try_lock().ok()?;
        let has_arrived = |(event, _): &(Event, Buffer)| shim.port_arrived(port, event);
        offers.front().is_some_and(has_arrived).then(|| offers.pop_front())?
    }
}

/// Arrivals of messages, by class.
#[derive(Debug)]
pub struct Receiver {
    /// Held while a message is taken out of the queue.
    receiving: [Mutex<()>; 2],
    offers: [PostedReceives; 2],
}

impl Receiver {
    /// With these buffers.
    pub fn new(offers: [PostedReceives; 2]) -> Self {
        let receiving = [Mutex::default(), Mutex::default()];
        Self { receiving, offers }
    }

    /// Delivers messages of a class.
    pub fn receive(&self, messages: &Messages, link: &Link, class: Class, upcalls: &mut dyn Upcalls) -> usize {
        let mut delivered = 0;
        while delivered < BURST
            && (self.receive_short(messages, link, class, upcalls) || self.receive_long(messages, link, class, upcalls))
        {
            delivered += 1;
        }
        delivered
    }

    fn receive_short(&self, messages: &Messages, link: &Link, class: Class, upcalls: &mut dyn Upcalls) -> bool {
        let mut slot = Slot::new();
        {
            let Ok(_receiving) = self.receiving[class as usize].try_lock() else {
                return false;
            };
            // SAFETY: as many bytes as the longest slots have, and the lock.
            if !unsafe {
                link.shim
                    .queue_receive(&messages.queues[class as usize], slot.0.as_mut_ptr().cast())
            } {
                return false;
            }
        }
        // SAFETY: it was received.
        match unsafe { slot.message(link.shim.info.queue_bytes as usize) } {
            (source, _) if !link.peers.contains(source) => {
                upcalls.network_lost("a message with a head that no process has written has arrived in the queue");
            }
            (source, None) => upcalls.peer_lost(source, "it sent a message that is longer than a slot of the queue"),
            (source, Some(message)) => {
                messages.credits.received(source, class);
                upcalls.packet(source, class, message);
            }
        }
        true
    }

    fn receive_long(&self, messages: &Messages, link: &Link, class: Class, upcalls: &mut dyn Upcalls) -> bool {
        let Link { shim, port, peers, .. } = link;
        let offers = &self.offers[class as usize];
        let Some((event, buffer)) = offers.take(shim, port) else {
            return false;
        };
        let (address, vp, bytes) = shim.port_receive(port, event);
        match peers.rank_of(vp) {
            Some(source) if bytes > BUFFER => {
                upcalls.peer_lost(source, &format!("it sent {bytes} bytes to a buffer of {BUFFER}"));
            }
            Some(source) => {
                // SAFETY: the message, which nobody else has until its buffer is given back.
                let message = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
                deliver_long(&messages.credits, source, class, message, upcalls);
            }
            None => upcalls.network_lost("a message that no process has sent has arrived in the port"),
        }
        if address != buffer.address() {
            // SAFETY: the library's, and the message was delivered.
            unsafe { shim.port_free(port, address) };
        }
        offers.offer(shim, port, class, buffer);
        true
    }
}

fn deliver_long(credits: &Credits, source: JobRank, class: Class, message: &mut [u8], upcalls: &mut dyn Upcalls) {
    credits.received(source, class);
    if message.as_ptr().addr() % PACKET_ALIGN == 0 {
        upcalls.packet(source, class, message);
    } else {
        // The library aligns its buffers as it likes.
        upcalls.packet(source, class, AlignedCopy::new(message).bytes());
    }
}
