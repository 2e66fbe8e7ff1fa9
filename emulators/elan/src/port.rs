//! Ports: messages with tags, and buffers that are offered to them.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use emulator_common::copy::{self, Fault};
use emulator_common::lock::locked;
use emulator_common::table::index_of;
use gasnet_elan_abi as abi;

use crate::attachment::{Attachment, Inside};
use crate::collective::Call;
use crate::event::Kind;
use crate::forge;
use crate::message::Message;
use crate::object::{object, Living, Object};
use crate::port_entry::{self, Content, ARRIVED, BUFFERED, FETCHED, WAITING};
use crate::shm::{self, PortEntry, PORTS};
use crate::traffic::count;

#[repr(C)]
pub struct Port {
    kind: AtomicU32,
    attachment: &'static Attachment,
    /// Number among the ports of the attachment; all attachments have the same order.
    number: usize,
    key: u32,
    shared: &'static shm::Port,
}
object!(Port, abi::gasnet_elan_port_t, 0xe1a4_0003, "a port");

impl Attachment {
    pub fn check_room(&self, bytes: u64, room: u64) {
        if bytes > room {
            self.die("port", &format!("a message of {bytes} bytes in a buffer of {room}"));
        }
    }

    /// Checks that memory is of `alloc`.
    fn check_alloc(&self, call: &str, memory: *const c_void, bytes: usize) {
        if bytes != 0 && self.pool.find(memory as usize, bytes).is_none() {
            self.die(call, "the memory is not of `alloc`");
        }
    }

    /// A short message that had come before its buffer was offered, in a new buffer.
    fn unpack(&self, message: &PortEntry) -> u64 {
        let bytes = message.bytes.load(Relaxed) as usize;
        let words = self
            .process
            .block(message.address.load(Relaxed), bytes.next_multiple_of(8) as u64);
        let content = words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes());
        // Its alignment is the library's: no program may rely on more than this.
        const OFFSET: usize = 4;
        let mut buffer = vec![0_u64; 1 + bytes.div_ceil(8)].into_boxed_slice();
        let at = buffer.as_mut_ptr() as usize + OFFSET;
        for (place, byte) in content.take(bytes).enumerate() {
            // SAFETY: the buffer has a word more than the message.
            unsafe { ((at + place) as *mut u8).write(byte) };
        }
        locked(&self.buffers).insert(at, buffer);
        at as u64
    }
}

impl Port {
    /// Enters a call of a port, whose attachment has not stopped.
    fn enter(port: *mut abi::gasnet_elan_port_t, call: &str) -> (&'static Port, Inside) {
        let port = Port::of(port, call);
        let (_, inside) = Attachment::enter(port.attachment.handle(), call);
        (port, inside)
    }

    /// Fetches a long message into an offered buffer. False: its sender is gone.
    fn fetch(&self, message: &PortEntry, buffer: u64, room: u64) -> bool {
        let attachment = self.attachment;
        let bytes = message.bytes.load(Relaxed);
        attachment.check_room(bytes, room);
        let Some(sender) = attachment.peer_of(message.sender.load(Relaxed)) else {
            return false;
        };
        let from = message.address.load(Relaxed);
        let result = copy::read(attachment.process, sender.slot, buffer, from, bytes);
        if result == Err(Fault::Unmapped) && attachment.process.alive(sender.slot) {
            attachment.die("port_offer", "trap: the message or the buffer is not mapped");
        }
        result.is_ok()
    }

    /// Offers a buffer. Its entry, in which a message may have arrived at once.
    fn offer(&self, tag: u32, buffer: u64, room: u64) -> u32 {
        let attachment = self.attachment;
        let (process, fabric) = (attachment.process, attachment.process.fabric);
        let _guard = self.shared.entry.lock.lock();
        let content = |state, vp, bytes, address| Content {
            state,
            tag,
            vp,
            sender: 0,
            bytes,
            address,
        };
        let mut found = content(WAITING, 0, room, buffer);
        let random = process.config.reorder.then_some(&process.random);
        while let Some((index, message)) = self.shared.messages.take(fabric, tag, random) {
            let (vp, bytes) = (message.vp.load(Relaxed), message.bytes.load(Relaxed));
            if message.state.load(Relaxed) == BUFFERED {
                found = content(ARRIVED, vp, bytes, attachment.unpack(message));
                port_entry::destroy(process, index);
                break;
            }
            let is_fetched = self.fetch(message, buffer, room);
            if is_fetched {
                found = content(ARRIVED, vp, bytes, buffer);
                message.state.store(FETCHED, Release);
                break;
            }
            port_entry::destroy(process, index);
        }
        let Some(index) = port_entry::create(process, process.slot, self.key, &found) else {
            attachment.die("port_offer", "too many buffers are offered");
        };
        if found.state == WAITING {
            self.shared.offers.append(fabric, index);
        }
        port_entry::key(process, index)
    }

    /// The entry of an offered buffer.
    fn entry(&self, call: &str, key: u64) -> &'static PortEntry {
        match self.attachment.process.fabric.port_entries.find(key as u32) {
            Some(entry) => entry,
            None => self.attachment.die(call, "the emulator has lost a buffer"),
        }
    }
}

pub extern "C" fn port(elan: *mut abi::gasnet_elan_t) -> *mut abi::gasnet_elan_port_t {
    let (attachment, _inside) = Attachment::enter(elan, "port");
    let process = attachment.process;
    let number = attachment.ports.fetch_add(1, Relaxed) as usize;
    let index = process.take(&process.fabric.ports);
    let Some(index) = index.filter(|_| number < PORTS) else {
        attachment.die("port", "too many ports");
    };
    let shared = process.fabric.ports.at(index);
    shared.endpoint.store(attachment.key, Relaxed);
    shared.offers.clear();
    shared.messages.clear();
    let key = process.fabric.ports.key(index);
    attachment.endpoint.ports[number].store(key, Release);
    attachment.meet(Call::Port, 0, false);
    let port = Port {
        kind: AtomicU32::new(0),
        attachment,
        number,
        key,
        shared,
    };
    port.publish().handle()
}

pub extern "C" fn port_send(
    port: *mut abi::gasnet_elan_port_t,
    vp: u32,
    tag: u32,
    message: *const c_void,
    bytes: usize,
) -> *mut abi::gasnet_elan_event_t {
    let (port, _inside) = Port::enter(port, "port_send");
    let attachment = port.attachment;
    attachment.check_alloc("port_send", message, bytes);
    attachment.check_vp("port_send", vp);
    count(&attachment.traffic.by_port);
    let message = Message {
        attachment,
        port: port.number,
        event: attachment.new_event("port_send", Kind::Send, 0),
        vp,
        tag,
        from: message as u64,
        bytes: bytes as u64,
        reported: forge::length(&attachment.process.forge),
    };
    if attachment.process.delays {
        attachment.process.schedule(message.due_ns(), move || {
            // Its memory stays while this is held.
            let own = attachment.peer_of(attachment.key);
            if own.is_some() {
                message.deliver();
            }
        });
    } else {
        message.deliver();
    }
    message.event.handle()
}

pub extern "C" fn port_sent(port: *mut abi::gasnet_elan_port_t, event: *mut abi::gasnet_elan_event_t) -> libc::c_int {
    let (port, _inside) = Port::enter(port, "port_sent");
    let attachment = port.attachment;
    let (event, slot, mut is_sent) = attachment.event("port_sent", event, Kind::Send);
    let key = slot.data.load(Acquire) as u32;
    let entry = attachment.process.fabric.port_entries.find(key);
    // A message that waits here has been fetched, or its receiver is gone.
    if entry.is_some_and(|entry| entry.state.load(Acquire) == FETCHED) {
        port_entry::destroy(attachment.process, index_of(key));
        is_sent = true;
    }
    if is_sent {
        attachment.events.release(event);
    } else {
        attachment.miss();
    }
    is_sent.into()
}

pub extern "C" fn port_offer(
    port: *mut abi::gasnet_elan_port_t,
    tag: u32,
    buffer: *mut c_void,
    bytes: usize,
) -> *mut abi::gasnet_elan_event_t {
    let (port, _inside) = Port::enter(port, "port_offer");
    let attachment = port.attachment;
    attachment.check_alloc("port_offer", buffer, bytes);
    let key = port.offer(tag, buffer as u64, bytes as u64);
    attachment.new_event("port_offer", Kind::Offer, key.into()).handle()
}

pub extern "C" fn port_arrived(
    port: *mut abi::gasnet_elan_port_t,
    event: *mut abi::gasnet_elan_event_t,
) -> libc::c_int {
    let (port, _inside) = Port::enter(port, "port_arrived");
    let (_, slot, _) = port.attachment.event("port_arrived", event, Kind::Offer);
    let entry = port.entry("port_arrived", slot.data.load(Relaxed));
    let has_arrived = entry.state.load(Acquire) == ARRIVED;
    if !has_arrived {
        port.attachment.miss();
    }
    has_arrived.into()
}

pub extern "C" fn port_receive(
    port: *mut abi::gasnet_elan_port_t,
    event: *mut abi::gasnet_elan_event_t,
    vp: *mut u32,
    bytes: *mut usize,
) -> *mut c_void {
    let (port, _inside) = Port::enter(port, "port_receive");
    let attachment = port.attachment;
    let (event, slot, _) = attachment.event("port_receive", event, Kind::Offer);
    let key = slot.data.load(Relaxed);
    let entry = port.entry("port_receive", key);
    if entry.state.load(Acquire) != ARRIVED {
        attachment.die("port_receive", "no message has arrived");
    }
    let buffer = entry.address.load(Relaxed) as *mut c_void;
    // SAFETY: the caller passes places for both.
    unsafe {
        vp.write(entry.vp.load(Relaxed));
        bytes.write(entry.bytes.load(Relaxed) as usize);
    }
    port_entry::destroy(attachment.process, index_of(key as u32));
    attachment.events.release(event);
    buffer
}

pub extern "C" fn port_free(port: *mut abi::gasnet_elan_port_t, buffer: *mut c_void) {
    let (port, _inside) = Port::enter(port, "port_free");
    if locked(&port.attachment.buffers).remove(&(buffer as usize)).is_none() {
        port.attachment
            .die("port_free", "the buffer is not the library's, or is free");
    }
}
