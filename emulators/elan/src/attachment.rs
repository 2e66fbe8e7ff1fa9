//! An attachment of this process to the network, and the attachments of others as it sees them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::Mutex;

use emulator_common::forge::Count;
use emulator_common::lock::locked;
use emulator_common::wait::{Misses, Using};
use gasnet_elan_abi as abi;

use crate::event::{Event, Events, Kind, Slot};
use crate::misuse::die_as;
use crate::object::{object, Living};
use crate::pool::Pool;
use crate::process::Process;
use crate::reclaim::members;
use crate::shm::{Endpoint, Job};
use crate::traffic::Traffic;

#[repr(C)]
pub struct Attachment {
    pub kind: AtomicU32,
    pub process: &'static Process,
    pub vp: u32,
    pub size: u32,
    pub job: &'static Job,
    pub endpoint: &'static Endpoint,
    /// Index and key of the endpoint.
    pub index: u32,
    pub key: u32,
    /// Keys of all endpoints of the job, by vp.
    pub members: &'static [AtomicU64],
    pub pool: Pool,
    pub symmetric: Pool,
    /// Memory that `map` has mapped, in the order of pages of the window.
    pub mappings: Mutex<Vec<Mapping>>,
    pub events: Events,
    /// Collective calls so far, and whether a thread is in one.
    pub calls: AtomicU64,
    pub is_collecting: AtomicU32,
    /// Queues and ports so far.
    pub queues: AtomicU32,
    pub ports: AtomicU32,
    pub counts: Counts,
    pub traffic: Traffic,
    /// Buffers of received messages that are the library's, by address.
    pub buffers: Mutex<HashMap<usize, Box<[u64]>>>,
    /// When the last message to a port and a vp arrives, in ns.
    pub arrivals: Mutex<HashMap<(u32, u32), u64>>,
    /// The thread that is in a call; 0: none. Only with option `serial`.
    inside: AtomicUsize,
    misses: Misses,
}
object!(Attachment, abi::gasnet_elan_t, 0xe1a4_0000, "an attachment");

/// Calls so far that an option lets fail, or spoils.
#[derive(Default)]
pub struct Counts {
    pub alloc: Count,
    pub symmetric: Count,
    pub map: Count,
    pub queue: Count,
    pub message: Count,
}

/// Memory that `map` has mapped, and its first page in the window.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub memory: u64,
    pub bytes: u64,
    pub page: u64,
}

/// Attachments that have not stopped, also those of a process from which this one was forked.
static ATTACHED: Mutex<Vec<&'static Attachment>> = Mutex::new(Vec::new());

/// The attachments of a process that have not stopped.
pub fn attached(process: &Process) -> Vec<&'static Attachment> {
    let all = locked(&ATTACHED);
    let own = all.iter().filter(|one| std::ptr::eq(one.process, process));
    own.copied().collect()
}

impl Attachment {
    pub fn new(process: &'static Process, vp: u32, index: u32, (pool, symmetric): (Pool, Pool)) -> Attachment {
        let fabric = process.fabric;
        let endpoint = fabric.endpoints.at(index);
        let job = fabric.jobs.at(endpoint.job.load(Relaxed));
        Attachment {
            kind: AtomicU32::new(0),
            process,
            vp,
            size: job.size.load(Relaxed),
            job,
            endpoint,
            index,
            key: fabric.endpoints.key(index),
            members: members(process, job),
            pool,
            symmetric,
            mappings: Mutex::default(),
            events: Events::default(),
            calls: AtomicU64::new(0),
            is_collecting: AtomicU32::new(0),
            queues: AtomicU32::new(0),
            ports: AtomicU32::new(0),
            counts: Counts::default(),
            traffic: Traffic::default(),
            buffers: Mutex::default(),
            arrivals: Mutex::default(),
            inside: AtomicUsize::new(0),
            misses: Misses::default(),
        }
    }

    /// Adds the attachment to those that have not stopped.
    pub fn enlist(&'static self) {
        locked(&ATTACHED).push(self);
    }

    /// Removes it from them.
    pub fn delist(&self) {
        locked(&ATTACHED).retain(|other| !std::ptr::eq(*other, self));
    }

    pub fn new_event(&self, call: &str, kind: Kind, data: u64) -> Event {
        let event = self.events.make(kind, data);
        event.unwrap_or_else(|| self.die(call, "too many events: is none of them polled?"))
    }

    /// The event of a pointer, which must be of this kind and not be gone, and whether it is done.
    #[inline(always)]
    pub fn event(&self, call: &str, handle: *mut abi::gasnet_elan_event_t, kind: Kind) -> (Event, &Slot, bool) {
        self.events.of(handle, kind).unwrap_or_else(|why| self.die(call, why))
    }

    #[cold]
    pub fn die(&self, call: &str, why: &str) -> ! {
        die_as(self.vp, call, why)
    }

    /// Option `trace`.
    pub fn trace(&self, what: &str) {
        if self.process.config.trace {
            eprintln!("emulator of Elan: process {}: {what}", self.vp);
        }
    }

    /// Enters a call. Option `serial`: no other thread may be in one.
    #[inline(always)]
    pub fn enter(handle: *mut abi::gasnet_elan_t, call: &str) -> (&'static Attachment, Inside) {
        let attachment = Attachment::of(handle, call);
        let config = &attachment.process.config;
        if !config.serial || !config.check {
            return (attachment, Inside(None));
        }
        // SAFETY: a plain call.
        let me = unsafe { libc::pthread_self() } as usize;
        let inside = match attachment.inside.compare_exchange(0, me, Acquire, Relaxed) {
            Ok(_) => Some(&attachment.inside),
            // A signal's handler may call while its thread is in a call.
            Err(other) if other == me => None,
            Err(_) => attachment.die(call, "two threads are in calls of a serial library"),
        };
        (attachment, Inside(inside))
    }

    /// A poll found nothing: with option `yield` some of them yield the core.
    #[inline(always)]
    pub fn miss(&self) {
        self.misses.count(self.process.config.yields);
    }

    /// Checks that there is a process.
    #[inline(always)]
    pub fn check_vp(&self, call: &str, vp: u32) {
        if vp >= self.size {
            self.die(call, &format!("there is no process {vp} among {}", self.size));
        }
    }

    /// The attachment of process `vp`, whose memory stays while this is held. None: it has stopped,
    /// or was reclaimed.
    #[inline(always)]
    pub fn peer(&self, call: &str, vp: u32) -> Option<Peer> {
        self.check_vp(call, vp);
        self.peer_of(self.members[vp as usize].load(Acquire) as u32)
    }

    /// The attachment of a key of an endpoint, as `peer`.
    #[inline(always)]
    pub fn peer_of(&self, key: u32) -> Option<Peer> {
        let endpoints = &self.process.fabric.endpoints;
        let endpoint = endpoints.find(key)?;
        let peer = Peer {
            endpoint,
            _using: Using::of(&endpoint.users),
            slot: endpoint.entry.slot(),
        };
        let is_live = endpoints.find(key).is_some() && endpoint.live.load(SeqCst) != 0;
        is_live.then_some(peer)
    }

    /// Option `report`.
    pub fn report(&self, what: &str) {
        eprintln!(
            "emulator of Elan: process {} {what}: {} blocks, {} symmetric, {} mappings, {} events, {} buffers",
            self.vp,
            self.pool.count(),
            // Queues last as long as the attachment.
            self.symmetric.count() - self.queues.load(Relaxed) as usize,
            locked(&self.mappings).len(),
            self.events.count(),
            locked(&self.buffers).len()
        );
        eprintln!("emulator of Elan: process {} had {}", self.vp, self.traffic);
    }
}

/// A thread is in a call.
pub struct Inside(Option<&'static AtomicUsize>);

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(inside) = self.0 {
            inside.store(0, SeqCst);
        }
    }
}

/// Another attachment, or the own.
pub struct Peer {
    pub endpoint: &'static Endpoint,
    pub slot: u32,
    _using: Using<'static>,
}
