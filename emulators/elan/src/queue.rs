//! Queues of short messages. The ring lies in shared memory. It begins with the slot number of each
//! position, so that messages can change places; the slots follow. A slot has a word with sender
//! and length, one with the time from which the message is visible, then the message.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use emulator_common::fabric::{now_ns, Member};
use gasnet_elan_abi as abi;

use crate::attachment::Attachment;
use crate::backoff::Backoff;
use crate::collective::Call;
use crate::object::{object, Object};
use crate::shm::{self, Fabric, INDEX_BITS, QUEUES};
use crate::traffic::count;

const SLOT_WORDS: usize = 2;

#[repr(C)]
pub struct Queue {
    kind: AtomicU32,
    attachment: &'static Attachment,
    /// Which of the attachment's, and so of all others'.
    number: usize,
    shared: &'static shm::Queue,
    /// 1: a thread is in `queue_receive`.
    is_receiving: AtomicU32,
}
object!(Queue, abi::gasnet_elan_queue_t, 0xe1a4_0002, "a queue");

/// The words of a ring.
struct Ring {
    order: &'static [AtomicU64],
    slots: &'static [AtomicU64],
    slot_words: usize,
}

fn slot_words(bytes: u64) -> usize {
    SLOT_WORDS + bytes.div_ceil(8) as usize
}

/// Bytes of a ring on the heap.
fn ring_bytes(slots: u64, bytes: u64) -> u64 {
    slots * (1 + slot_words(bytes) as u64) * 8
}

impl Ring {
    fn of(member: &Member<Fabric>, queue: &shm::Queue) -> Ring {
        let slots = queue.slots.load(Relaxed) as usize;
        let slot_words = slot_words(queue.bytes.load(Relaxed).into());
        let start = queue.ring.load(Relaxed) as usize / 8;
        let (order, rest) = member.words[start..].split_at(slots);
        Ring {
            order,
            slots: &rest[..slots * slot_words],
            slot_words,
        }
    }

    /// The slot at a position.
    fn slot(&self, position: u32) -> &'static [AtomicU64] {
        let slot = self.place(position).load(Relaxed) as usize;
        &self.slots[slot * self.slot_words..(slot + 1) * self.slot_words]
    }

    fn place(&self, position: u32) -> &'static AtomicU64 {
        &self.order[position as usize % self.order.len()]
    }

    fn sender(&self, position: u32) -> u32 {
        (self.slot(position)[0].load(Relaxed) >> 32) as u32
    }

    fn is_visible(&self, position: u32) -> bool {
        self.slot(position)[1].load(Relaxed) <= now_ns()
    }
}

/// The queue's index in the fabric. None: there is no room.
fn create(attachment: &Attachment, slots: u32, bytes: u32) -> Option<u32> {
    let process = attachment.process;
    let room = ring_bytes(slots.into(), bytes.into());
    let ring = process.take_bytes(room)?;
    let guard = process.allocation();
    let Some(index) = process.fabric.queues.take(process.slot) else {
        process.give_bytes(ring, room);
        return None;
    };
    drop(guard);
    let queue = process.fabric.queues.at(index);
    for (field, value) in [
        (&queue.endpoint, attachment.key),
        (&queue.slots, slots),
        (&queue.bytes, bytes),
        (&queue.written, 0),
        (&queue.taken, 0),
    ] {
        field.store(value, Relaxed);
    }
    queue.ring.store(ring, Release);
    let order = Ring::of(process, queue).order;
    order
        .iter()
        .zip(0..)
        .for_each(|(place, slot)| place.store(slot, Relaxed));
    Some(index)
}

/// Frees a queue.
pub fn destroy(member: &Member<Fabric>, index: u32) {
    let queue = member.fabric.queues.at(index);
    let _lock = queue.entry.lock.lock();
    let _guard = member.allocation();
    let bytes = ring_bytes(queue.slots.load(Relaxed).into(), queue.bytes.load(Relaxed).into());
    member.give_bytes(queue.ring.load(Relaxed), bytes);
    member.fabric.queues.give(index);
}

/// How an attempt to send ended.
enum Sent {
    Yes,
    /// The queue is full.
    Full,
    /// The receiver is gone.
    Gone,
}

impl Queue {
    fn try_send(&self, vp: u32, message: &[u8]) -> Sent {
        let attachment = self.attachment;
        let process = attachment.process;
        let Some(peer) = attachment.peer("queue_send", vp) else {
            return Sent::Gone;
        };
        let key = peer.endpoint.queues[self.number].load(Acquire);
        let Some(queue) = process.fabric.queues.find(key, INDEX_BITS) else {
            return Sent::Gone;
        };
        let _guard = queue.entry.lock.lock();
        if process.fabric.queues.find(key, INDEX_BITS).is_none() {
            return Sent::Gone;
        }
        let written = queue.written.load(Relaxed);
        if written.wrapping_sub(queue.taken.load(Acquire)) >= queue.slots.load(Relaxed) {
            return if process.alive(peer.slot) {
                Sent::Full
            } else {
                Sent::Gone
            };
        }
        let slot = Ring::of(process, queue).slot(written);
        let delay = if process.delays {
            now_ns() + process.delay_ns()
        } else {
            0
        };
        slot[0].store(u64::from(attachment.vp) << 32 | message.len() as u64, Relaxed);
        slot[1].store(delay, Relaxed);
        // SAFETY: the slot has room for the message, and the lock makes it this thread's.
        unsafe {
            let to = slot[SLOT_WORDS..].as_ptr().cast::<u8>().cast_mut();
            std::ptr::copy_nonoverlapping(message.as_ptr(), to, message.len());
        }
        queue.written.store(written.wrapping_add(1), Release);
        Sent::Yes
    }

    /// The position of a message that may be received. Messages of a sender keep their order.
    fn pick(&self, ring: &Ring) -> Option<u32> {
        let process = self.attachment.process;
        let (taken, written) = (self.shared.taken.load(Relaxed), self.shared.written.load(Acquire));
        let waiting = written.wrapping_sub(taken);
        if waiting == 0 || !process.delays {
            return (waiting != 0).then_some(taken);
        }
        let (mut senders, mut candidates) = (Vec::new(), Vec::new());
        for position in (0..waiting).map(|i| taken.wrapping_add(i)) {
            let sender = ring.sender(position);
            if !senders.contains(&sender) {
                senders.push(sender);
                if ring.is_visible(position) {
                    candidates.push(position);
                }
            }
        }
        if !process.config.reorder {
            return candidates.first().copied().filter(|&first| first == taken);
        }
        let chosen = process.random.below(candidates.len() as u64) as usize;
        candidates.get(chosen).copied()
    }

    fn has(&self) -> bool {
        if self.shared.taken.load(Relaxed) == self.shared.written.load(Acquire) {
            return false;
        }
        if !self.attachment.process.delays {
            return true;
        }
        let _guard = self.shared.entry.lock.lock();
        self.pick(&Ring::of(self.attachment.process, self.shared)).is_some()
    }

    fn receive(&self, message: *mut u8) {
        let _guard = self.shared.entry.lock.lock();
        let ring = Ring::of(self.attachment.process, self.shared);
        let Some(chosen) = self.pick(&ring) else {
            self.attachment.die("queue_receive", "there is no message");
        };
        let taken = self.shared.taken.load(Relaxed);
        let slot = ring.place(chosen).load(Relaxed);
        // The messages in front of it move up by one place.
        for distance in (0..chosen.wrapping_sub(taken)).rev() {
            let position = taken.wrapping_add(distance);
            let moved = ring.place(position).load(Relaxed);
            ring.place(position.wrapping_add(1)).store(moved, Relaxed);
        }
        ring.place(taken).store(slot, Relaxed);
        let words = ring.slot(taken);
        let length = words[0].load(Relaxed) as u32 as usize;
        let whole = self.shared.bytes.load(Relaxed) as usize;
        // SAFETY: the program's buffer has room for the longest message, and so has the slot. The
        // bytes behind the message are arbitrary.
        unsafe {
            let from = words[SLOT_WORDS..].as_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(from, message, length);
            std::ptr::write_bytes(message.add(length), 0xa5, whole - length);
        }
        self.shared.taken.store(taken.wrapping_add(1), Release);
    }
}

pub extern "C" fn queue(elan: *mut abi::gasnet_elan_t, slots: usize, bytes: usize) -> *mut abi::gasnet_elan_queue_t {
    let attachment = Attachment::of(elan, "queue");
    let _inside = attachment.enter("queue");
    let config = &attachment.process.config;
    let longest = config.queue_bytes() as usize;
    if slots == 0 || slots > 1 << 24 || bytes == 0 || bytes > longest {
        let why = format!("{slots} messages of {bytes} bytes: they have 1 to {longest}");
        attachment.die("queue", &why);
    }
    let number = attachment.queues.load(Relaxed) as usize;
    if number == QUEUES {
        attachment.die("queue", "too many queues");
    }
    let fails = Attachment::fails(&attachment.counts.queue, config.fail_queue);
    let index = (!fails)
        .then(|| create(attachment, slots as u32, bytes as u32))
        .flatten();
    let queues = &attachment.process.fabric.queues;
    if let Some(index) = index {
        attachment.endpoint.queues[number].store(queues.key(index, INDEX_BITS), Release);
    }
    let is_good = attachment.meet(Call::Queue, bytes as u64, index.is_none());
    match index {
        Some(index) if is_good => {
            attachment.queues.fetch_add(1, Relaxed);
            let queue = Queue {
                kind: AtomicU32::new(0),
                attachment,
                number,
                shared: queues.at(index),
                is_receiving: AtomicU32::new(0),
            };
            queue.publish().handle()
        }
        index => {
            attachment.endpoint.queues[number].store(0, Relaxed);
            if let Some(index) = index {
                destroy(attachment.process, index);
            }
            std::ptr::null_mut()
        }
    }
}

/// The queue, whose attachment has not stopped.
fn living(queue: *mut abi::gasnet_elan_queue_t, call: &str) -> &'static Queue {
    let queue = Queue::of(queue, call);
    Attachment::of(queue.attachment.handle(), call);
    queue
}

pub extern "C" fn queue_send(queue: *mut abi::gasnet_elan_queue_t, vp: u32, message: *const c_void, bytes: usize) {
    let queue = living(queue, "queue_send");
    let attachment = queue.attachment;
    let _inside = attachment.enter("queue_send");
    let longest = queue.shared.bytes.load(Relaxed) as usize;
    if bytes > longest {
        attachment.die(
            "queue_send",
            &format!("{bytes} bytes: the queue's messages have {longest} at most"),
        );
    }
    let message = if bytes == 0 {
        std::ptr::dangling()
    } else {
        message.cast::<u8>()
    };
    // SAFETY: the program passes so many bytes.
    let mut message = unsafe { std::slice::from_raw_parts(message, bytes) };
    count(&attachment.traffic.by_queue);
    let spoilt;
    if Attachment::fails(&attachment.counts.message, attachment.process.config.spoil_message) {
        spoilt = vec![0xa5; bytes];
        message = &spoilt;
    }
    let bits = attachment.process.forge.head();
    let forged: Vec<u8>;
    if bits != 0 {
        let bits = bits.to_ne_bytes().into_iter().chain(std::iter::repeat(0));
        forged = message.iter().zip(bits).map(|(byte, bits)| byte ^ bits).collect();
        message = &forged;
    }
    let mut backoff = Backoff::default();
    loop {
        match queue.try_send(vp, message) {
            Sent::Yes => return,
            Sent::Gone => return attachment.trace(&format!("a message to process {vp}, which is gone")),
            Sent::Full if attachment.process.config.must_not_wait => {
                attachment.die(
                    "queue_send",
                    &format!("must not wait: the queue of process {vp} is full"),
                );
            }
            Sent::Full => backoff.pause(),
        }
    }
}

pub extern "C" fn queue_has(queue: *mut abi::gasnet_elan_queue_t) -> libc::c_int {
    let queue = living(queue, "queue_has");
    let _inside = queue.attachment.enter("queue_has");
    let has = queue.has();
    if !has {
        queue.attachment.miss();
    }
    has.into()
}

pub extern "C" fn queue_receive(queue: *mut abi::gasnet_elan_queue_t, message: *mut c_void) {
    let queue = living(queue, "queue_receive");
    let _inside = queue.attachment.enter("queue_receive");
    let is_checked = queue.attachment.process.config.check;
    if is_checked && queue.is_receiving.swap(1, Acquire) != 0 {
        queue
            .attachment
            .die("queue_receive", "two threads receive from one queue");
    }
    queue.receive(message.cast());
    queue.is_receiving.store(0, Release);
}
