//! Queues of short messages.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use emulator_common::fabric::now_ns;
use emulator_common::wait::Backoff;
use gasnet_elan_abi as abi;

use crate::attachment::{Attachment, Inside};
use crate::collective::Call;
use crate::forge;
use crate::object::{object, Living, Object};
use crate::ring::{self, Ring, SLOT_WORDS};
use crate::shm::{self, QUEUES};
use crate::traffic::count;

#[repr(C)]
pub struct Queue {
    kind: AtomicU32,
    attachment: &'static Attachment,
    /// Number among the queues of the attachment; all attachments have the same order.
    number: usize,
    shared: &'static shm::Queue,
    /// 1: a thread is in `queue_receive`.
    is_receiving: AtomicU32,
}
object!(Queue, abi::gasnet_elan_queue_t, 0xe1a4_0002, "a queue");

/// How an attempt to send ended.
enum Sent {
    Yes,
    /// The queue is full.
    Full,
    /// The receiver is gone.
    Gone,
}

impl Queue {
    /// Enters a call of a queue, whose attachment has not stopped.
    fn enter(queue: *mut abi::gasnet_elan_queue_t, call: &str) -> (&'static Queue, Inside) {
        let queue = Queue::of(queue, call);
        let (_, inside) = Attachment::enter(queue.attachment.handle(), call);
        (queue, inside)
    }

    fn try_send(&self, vp: u32, message: &[u8]) -> Sent {
        let attachment = self.attachment;
        let process = attachment.process;
        let Some(peer) = attachment.peer("queue_send", vp) else {
            return Sent::Gone;
        };
        let key = peer.endpoint.queues[self.number].load(Acquire);
        let Some(queue) = process.fabric.queues.find(key) else {
            return Sent::Gone;
        };
        let _guard = queue.entry.lock.lock();
        if process.fabric.queues.find(key).is_none() {
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

    /// The position of a message that may be received. Messages of a sender keep their order,
    /// unless `overtake`.
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
            if process.config.overtake || !senders.contains(&sender) {
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
    let (attachment, _inside) = Attachment::enter(elan, "queue");
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
    // Equal calls in equal pools, as for `symmetric`.
    let room = attachment.symmetric.take(64, slots * bytes);
    let fails = attachment.counts.queue.is(config.fail_queue) || room.is_none();
    let index = (!fails)
        .then(|| ring::create(attachment.process, attachment.key, slots as u32, bytes as u32))
        .flatten();
    let queues = &attachment.process.fabric.queues;
    if let Some(index) = index {
        attachment.endpoint.queues[number].store(queues.key(index), Release);
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
            if let Some(offset) = room {
                attachment.symmetric.give(attachment.symmetric.base + offset);
            }
            if let Some(index) = index {
                ring::destroy(attachment.process, index);
            }
            std::ptr::null_mut()
        }
    }
}

pub extern "C" fn queue_send(queue: *mut abi::gasnet_elan_queue_t, vp: u32, message: *const c_void, bytes: usize) {
    let (queue, _inside) = Queue::enter(queue, "queue_send");
    let attachment = queue.attachment;
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
    // SAFETY: the program passes `bytes` bytes.
    let mut message = unsafe { std::slice::from_raw_parts(message, bytes) };
    count(&attachment.traffic.by_queue);
    let spoilt;
    if attachment.counts.message.is(attachment.process.config.spoil_message) {
        spoilt = vec![0xa5; bytes];
        message = &spoilt;
    }
    let bits = forge::head(&attachment.process.forge);
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
    let (queue, _inside) = Queue::enter(queue, "queue_has");
    let has = queue.has();
    if !has {
        queue.attachment.miss();
    }
    has.into()
}

pub extern "C" fn queue_receive(queue: *mut abi::gasnet_elan_queue_t, message: *mut c_void) {
    let (queue, _inside) = Queue::enter(queue, "queue_receive");
    let is_checked = queue.attachment.process.config.check;
    if is_checked && queue.is_receiving.swap(1, Acquire) != 0 {
        queue
            .attachment
            .die("queue_receive", "two threads receive from one queue");
    }
    queue.receive(message.cast());
    queue.is_receiving.store(0, Release);
}
