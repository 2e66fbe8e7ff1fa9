//! Puts and gets. The process that calls does them, unless options delay them. A transfer
//! with a process that is gone never completes.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use emulator_common::copy::{self, Fault, Pieces};
use emulator_common::damage::{corrupt, hits};
use emulator_common::wait::Backoff;
use gasnet_elan_abi as abi;

use crate::attachment::{Attachment, Peer};
use crate::event::{Event, Kind};
use crate::object::{object, Living, Object};
use crate::traffic::count;

#[repr(C)]
pub struct Channel {
    kind: AtomicU32,
    attachment: &'static Attachment,
    /// Puts that have not landed.
    under_way: AtomicU32,
    /// Puts whose events are not gone, which is what a program can count.
    unpolled: AtomicU32,
}
object!(Channel, abi::gasnet_elan_channel_t, 0xe1a4_0001, "a channel");

/// A put or a get.
#[derive(Clone, Copy)]
struct Transfer {
    attachment: &'static Attachment,
    channel: Option<&'static Channel>,
    event: Event,
    /// A virtual address here.
    local: u64,
    /// A network address there.
    remote: u64,
    bytes: u64,
    vp: u32,
}

impl Transfer {
    fn call(&self) -> &'static str {
        if self.channel.is_some() {
            "put"
        } else {
            "get"
        }
    }

    /// The remote process and the address there. None: the process is gone.
    fn target(&self) -> Option<(Peer, u64)> {
        let Some(peer) = self.attachment.peer(self.call(), self.vp) else {
            self.lose();
            return None;
        };
        match self.attachment.translate(peer.endpoint, self.remote, self.bytes) {
            Some(address) => Some((peer, address)),
            None => self.trap(),
        }
    }

    fn lose(&self) {
        let (call, bytes, vp) = (self.call(), self.bytes, self.vp);
        self.attachment
            .trace(&format!("a {call} of {bytes} bytes with process {vp}, which is gone"));
    }

    #[cold]
    fn trap(&self) -> ! {
        let (remote, bytes, vp) = (self.remote, self.bytes, self.vp);
        let why = format!("trap: {bytes} bytes at {remote:#x} are not mapped in process {vp}");
        self.attachment.die(self.call(), &why)
    }

    /// The end of a copy.
    fn conclude(&self, peer: &Peer, result: Result<(), Fault>) {
        match result {
            Ok(()) => {
                if let Some(channel) = self.channel {
                    channel.under_way.fetch_sub(1, SeqCst);
                }
                self.attachment.events.finish(self.event);
            }
            Err(Fault::Unmapped) if self.attachment.process.alive(peer.slot) => self.trap(),
            Err(_) => self.lose(),
        }
    }

    /// Writes to the destination, from memory of this process.
    fn land(&self, from: u64) {
        let is_damaged = hits(&self.attachment.process.config.damage, true, self.bytes);
        let mut altered = is_damaged
            .then(|| copy::gather(&Pieces::<1>::of(from, self.bytes)))
            .flatten();
        let from = altered.as_mut().map_or(from, |data| {
            corrupt(data);
            data.as_ptr() as u64
        });
        if let Some((peer, to)) = self.target() {
            let result = copy::write(self.attachment.process, peer.slot, from, to, self.bytes);
            self.conclude(&peer, result);
        }
    }

    fn fetch(&self) {
        if let Some((peer, from)) = self.target() {
            let result = copy::read(self.attachment.process, peer.slot, self.local, from, self.bytes);
            if result.is_ok() && hits(&self.attachment.process.config.damage, false, self.bytes) {
                // SAFETY: the program's memory, where the copy has written.
                let last = unsafe { &mut *((self.local + self.bytes - 1) as *mut u8) };
                corrupt(std::slice::from_mut(last));
            }
            self.conclude(&peer, result);
        }
    }

    /// Reads the source of a put, which lands later.
    fn read(self) {
        let Some(data) = copy::gather(&Pieces::<1>::of(self.local, self.bytes)) else {
            self.attachment.die("put", "trap: the source is not mapped");
        };
        self.attachment.process.schedule_soon(move || {
            self.do_if_attached(|transfer| transfer.land(data.as_ptr() as u64));
        });
    }

    /// Does nothing once the attachment has stopped.
    fn do_if_attached(self, act: impl FnOnce(Transfer)) {
        // Its memory stays while this is held.
        let own = self.attachment.peer_of(self.attachment.key);
        if own.is_some() {
            act(self);
        }
    }
}

impl Channel {
    /// Waits until the channel has room.
    fn take_place(&self) {
        let throttle = self.attachment.process.config.throttle;
        if self.attachment.process.config.must_not_wait && self.unpolled.load(Relaxed) >= throttle {
            let why = format!("must not wait: {throttle} puts of the channel have not been polled");
            self.attachment.die("put", &why);
        }
        self.unpolled.fetch_add(1, Relaxed);
        self.attachment.traffic.put();
        let mut backoff = Backoff::default();
        let more = |n: u32| (n < throttle).then_some(n + 1);
        while self.under_way.fetch_update(SeqCst, Relaxed, more).is_err() {
            backoff.pause();
        }
    }
}

fn check(attachment: &Attachment, call: &str, bytes: usize, vp: u32) {
    if bytes == 0 {
        attachment.die(call, "no bytes");
    }
    attachment.check_vp(call, vp);
}

pub extern "C" fn channel(elan: *mut abi::gasnet_elan_t) -> *mut abi::gasnet_elan_channel_t {
    let (attachment, _inside) = Attachment::enter(elan, "channel");
    let channel = Channel {
        kind: AtomicU32::new(0),
        attachment,
        under_way: AtomicU32::new(0),
        unpolled: AtomicU32::new(0),
    };
    let (opened, most) = (count(&attachment.traffic.channels), attachment.process.config.channels);
    if most != 0 && opened > most {
        let why = format!("the adapter has memory for {most} channels");
        attachment.die("channel", &why);
    }
    channel.publish().handle()
}

pub extern "C" fn put(
    channel: *mut abi::gasnet_elan_channel_t,
    from: *const c_void,
    to: u64,
    bytes: usize,
    vp: u32,
) -> *mut abi::gasnet_elan_event_t {
    let channel = Channel::of(channel, "put");
    let (attachment, _inside) = Attachment::enter(channel.attachment.handle(), "put");
    check(attachment, "put", bytes, vp);
    let config = &attachment.process.config;
    let is_small = bytes as u64 <= u64::from(config.small);
    if !is_small && !attachment.is_addressable(from as u64, bytes as u64) {
        attachment.die("put", "the source is neither small nor addressable");
    }
    channel.take_place();
    let transfer = Transfer {
        attachment,
        channel: Some(channel),
        event: attachment.new_event("put", Kind::Transfer, std::ptr::from_ref(channel) as u64),
        local: from as u64,
        remote: to,
        bytes: bytes as u64,
        vp,
    };
    if !attachment.process.delays {
        transfer.land(from as u64);
    } else if config.late && !is_small {
        let process = attachment.process;
        process.schedule_soon(move || transfer.do_if_attached(Transfer::read));
    } else {
        transfer.read();
    }
    transfer.event.handle()
}

pub extern "C" fn get(
    elan: *mut abi::gasnet_elan_t,
    from: u64,
    to: *mut c_void,
    bytes: usize,
    vp: u32,
) -> *mut abi::gasnet_elan_event_t {
    let (attachment, _inside) = Attachment::enter(elan, "get");
    check(attachment, "get", bytes, vp);
    if !attachment.is_addressable(to as u64, bytes as u64) {
        attachment.die("get", "the destination is not addressable");
    }
    count(&attachment.traffic.gets);
    let transfer = Transfer {
        attachment,
        channel: None,
        event: attachment.new_event("get", Kind::Transfer, 0),
        local: to as u64,
        remote: from,
        bytes: bytes as u64,
        vp,
    };
    if attachment.process.delays {
        attachment.process.schedule_soon(move || {
            transfer.do_if_attached(|transfer| transfer.fetch());
        });
    } else {
        transfer.fetch();
    }
    transfer.event.handle()
}

/// Whether an event of a put or get has occurred; then it is gone.
fn is_complete(attachment: &Attachment, call: &str, event: *mut abi::gasnet_elan_event_t) -> bool {
    let (event, slot, is_done) = attachment.event(call, event, Kind::Transfer);
    if is_done {
        let channel = slot.data.load(Acquire) as *const Channel;
        if !channel.is_null() {
            // SAFETY: `put` stored it, and channels are never freed.
            unsafe { &*channel }.unpolled.fetch_sub(1, Relaxed);
            attachment.traffic.end_put();
        }
        attachment.events.release(event);
    }
    is_done
}

pub extern "C" fn poll(elan: *mut abi::gasnet_elan_t, event: *mut abi::gasnet_elan_event_t) -> libc::c_int {
    let (attachment, _inside) = Attachment::enter(elan, "poll");
    let is_complete = is_complete(attachment, "poll", event);
    if !is_complete {
        attachment.miss();
    }
    is_complete.into()
}

pub extern "C" fn wait(elan: *mut abi::gasnet_elan_t, event: *mut abi::gasnet_elan_event_t) {
    let (attachment, _inside) = Attachment::enter(elan, "wait");
    let mut backoff = Backoff::default();
    while !is_complete(attachment, "wait", event) {
        backoff.pause();
    }
}
