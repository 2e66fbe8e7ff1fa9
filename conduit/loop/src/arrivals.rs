//! The completion queue, shared by all threads: packets and completions from the NIC, and the
//! wake-up of the client.
#![forbid(unsafe_code)]

use crate::start::Net;
use gasnet_conduit::{Class, Completion, Cookie, JobRank, PollScope, Wake, WakePromise};
use gasnet_sys::lock;
use std::collections::VecDeque;

/// Something for the client.
#[derive(Debug)]
pub enum Arrival {
    /// A peer is lost, and why.
    Lost(JobRank, String),
    /// A part of an operation is complete; the last one if `ends`.
    Done {
        cookie: Cookie,
        part: Completion,
        ends: bool,
    },
    /// A round of the barrier has ended.
    Round([u64; 2]),
    /// A word, which whoever waits for it reads.
    Word,
    /// A packet.
    Packet(JobRank, Class, Packet),
}

/// Offset of packets from a multiple of [`LINE`]: aligned as the trait promises, and no better.
const OFFSET: usize = gasnet_conduit::PACKET_ALIGN;
const LINE: usize = 64;

/// A packet in a buffer of its own.
#[derive(Debug)]
pub struct Packet {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Packet {
    /// A copy.
    pub fn new(packet: &[u8]) -> Self {
        let mut memory = vec![0; packet.len() + LINE + OFFSET];
        let start = memory.as_ptr().align_offset(LINE) + OFFSET;
        memory[start..start + packet.len()].copy_from_slice(packet);
        let bytes = packet.len();
        Self { memory, start, bytes }
    }

    /// Its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.bytes]
    }
}

/// The completion queue.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Completions and losses.
    events: VecDeque<Arrival>,
    /// Whether a thread delivers one of them. Others then wait with the next, so that remote
    /// completion follows that of the source.
    pub delivers_event: bool,
    /// By class.
    packets: [VecDeque<Arrival>; 2],
    /// Whether the next arrival makes the wake-up descriptor readable.
    armed: bool,
    /// Wakes a client that sleeps elsewhere, until the next poll.
    watcher: Option<fn()>,
}

impl Arrivals {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.packets.iter().all(VecDeque::is_empty)
    }

    fn push(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Packet(_, class, _) => self.packets[class as usize].push_back(arrival),
            _ => self.events.push_back(arrival),
        }
    }

    /// The next that a poll of this scope delivers. Replies first: they return credits.
    pub fn next(&mut self, scope: PollScope) -> Option<Arrival> {
        self.watcher = None;
        let [requests, replies] = &mut self.packets;
        let event = if self.delivers_event {
            None
        } else {
            self.events.pop_front()
        };
        self.delivers_event |= event.is_some();
        let next = event.or_else(|| replies.pop_front());
        match scope {
            PollScope::Replies => next,
            PollScope::All => next.or_else(|| requests.pop_front()),
        }
    }

    /// The function that wakes the client, if it sleeps elsewhere and there is something for it.
    pub fn watcher(&self) -> Option<fn()> {
        self.watcher.filter(|_| !self.is_empty())
    }
}

impl Net {
    /// NIC: hands something to the client.
    pub fn arrive(&self, arrival: Arrival) {
        let mut arrivals = lock(&self.arrivals);
        arrivals.push(arrival);
        if std::mem::take(&mut arrivals.armed) {
            self.wake.wake();
        }
    }
}

impl Wake for Net {
    fn fd(&self) -> i32 {
        self.wake.fd()
    }

    fn devices(&self) -> Vec<String> {
        vec!["loop".into()]
    }

    fn arm(&self) -> bool {
        let mut arrivals = lock(&self.arrivals);
        if !arrivals.is_empty() {
            return false;
        }
        self.wake.clear();
        arrivals.armed = true;
        true
    }

    fn watch(&self, wake: fn()) -> WakePromise {
        lock(&self.arrivals).watcher = Some(wake);
        // The NIC may have to wake the client at once.
        self.ring();
        WakePromise::Wakes
    }
}
