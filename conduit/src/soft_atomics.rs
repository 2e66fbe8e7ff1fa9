//! Software NIC atomics: remote atomics for a network that has none. They test how the runtime uses
//! the atomics of a conduit, between real processes and without a NIC. The runtime uses them only
//! with `GASNET_FAULTS=atomics=1`, in the debug flavour.
//!
//! As on many networks, they are atomic only with respect to each other: the owner of the target
//! performs them while it polls, under a lock, as a load, a pause and a store. So an atomic domain
//! that mixes them with CPU atomics loses updates. Of the wrapped network only packets are used;
//! the runtime does all other work over packets.

use std::collections::HashMap;

use gasnet_sys::atomic::{Mutex, MutexGuard};

use crate::{
    atomic_codes as codes, atomic_values, Abilities, Atomic, Atomics, Busy, Class, Completion, ConduitError, Cookie,
    JobRank, LocalSegment, Network, PollScope, Registration, RemoteSegment, SegmentMemory, Segments, Stop, Upcalls,
};

/// First byte of a request packet. No packet of the runtime begins with it.
const REQUEST: u8 = 0xad;
/// First byte of a reply packet.
const REPLY: u8 = 0xae;

/// Request: first byte, number, type and operation, target, two operands.
type Request = [u64; 6];
/// Reply: first byte, number, old value.
type Reply = [u64; 3];

fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn from_bytes<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    (bytes.len() == 8 * N).then_some(())?;
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// The state of this process.
#[derive(Debug, Default)]
struct State {
    /// Own segments, by number; None for those that were deregistered.
    segments: Vec<Option<SegmentMemory>>,
    /// Segments of peers, by number.
    learned: Vec<(JobRank, SegmentMemory)>,
    /// Atomics so far.
    count: u64,
    /// Atomics under way, by number.
    pending: HashMap<u64, Pending>,
    /// Replies to be sent when the network was busy.
    replies: Vec<(JobRank, Vec<u8>)>,
}

/// An atomic under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    cookie: Cookie,
    /// Address of the result; 0 for none.
    fetched: usize,
    /// Its length.
    bytes: usize,
}

/// The decorator.
pub struct SoftAtomics {
    inner: Box<dyn Network>,
    state: Mutex<State>,
    /// Locked from the load to the store.
    memory: Mutex<()>,
}

impl SoftAtomics {
    /// Wraps a network.
    pub fn new(inner: Box<dyn Network>) -> Self {
        Self {
            inner,
            state: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        gasnet_sys::lock(&self.state)
    }

    /// Owner: performs a request and replies. False if the request is invalid.
    fn perform(&self, source: JobRank, packet: &[u8]) -> bool {
        let Some([_, id, what, target, a, b]) = from_bytes::<6>(packet) else {
            return false;
        };
        let (dt, op, target) = (what as u32, (what >> 32) as u32, target as usize);
        let bytes = codes::bytes(dt);
        let inside = |s: &SegmentMemory| contains(s, target, bytes);
        let is_ours = self.state().segments.iter().flatten().any(inside);
        if codes::operations(dt) & op == 0 || target % bytes != 0 || !is_ours {
            return false;
        }
        let guard = gasnet_sys::lock(&self.memory);
        // SAFETY: the target is in our segment, and aligned.
        let old = unsafe { load(target, bytes) };
        let Some(new) = atomic_values::after(dt, op, old, [a, b]) else {
            return false;
        };
        std::thread::yield_now();
        if op != codes::GET {
            // SAFETY: as for the load.
            unsafe { store(target, bytes, new) };
        }
        drop(guard);
        let reply: Reply = [u64::from(REPLY), id, old];
        self.state().replies.push((source, to_bytes(&reply)));
        self.send_replies();
        true
    }

    fn send_replies(&self) {
        let unsent = std::mem::take(&mut self.state().replies);
        for (peer, reply) in unsent {
            if self.inner.send(peer, Class::Reply, &[&reply]).is_err() {
                self.state().replies.push((peer, reply));
            }
        }
    }

    /// Initiator: stores the old value. None if the reply is invalid.
    fn finish(&self, packet: &[u8]) -> Option<Cookie> {
        let [_, number, old] = from_bytes::<3>(packet)?;
        let Pending { cookie, fetched, bytes } = self.state().pending.remove(&number)?;
        if fetched != 0 && bytes == 4 {
            // SAFETY: the caller of `atomic` keeps the result valid until the atomic is complete.
            unsafe { (fetched as *mut u32).write(old as u32) };
        } else if fetched != 0 {
            // SAFETY: as above.
            unsafe { (fetched as *mut u64).write(old) };
        }
        Some(cookie)
    }
}

/// A value of 4 or 8 bytes, in the low bytes.
///
/// # Safety
/// The address is readable and aligned.
unsafe fn load(address: usize, bytes: usize) -> u64 {
    // SAFETY: by contract.
    unsafe {
        match bytes {
            4 => u64::from((address as *const u32).read_volatile()),
            _ => (address as *const u64).read_volatile(),
        }
    }
}

/// The reverse of [`load`].
///
/// # Safety
/// The address is writable and aligned.
unsafe fn store(address: usize, bytes: usize, value: u64) {
    // SAFETY: by contract.
    unsafe {
        match bytes {
            4 => (address as *mut u32).write_volatile(value as u32),
            _ => (address as *mut u64).write_volatile(value),
        }
    }
}

/// Whether a segment holds `[address, address + bytes)`.
fn contains(segment: &SegmentMemory, address: usize, bytes: usize) -> bool {
    let offset = address.wrapping_sub(segment.base);
    offset <= segment.bytes && bytes <= segment.bytes - offset
}

/// The upcalls of the wrapped network: handles packets of atomics, and forwards all others.
struct Filter<'a> {
    atomics: &'a SoftAtomics,
    upcalls: &'a mut dyn Upcalls,
}

impl Upcalls for Filter<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        let is_valid = match (packet.first(), class) {
            (Some(&REQUEST), Class::Request) => self.atomics.perform(source, packet),
            (Some(&REPLY), Class::Reply) => match self.atomics.finish(packet) {
                Some(cookie) => {
                    self.upcalls.done(cookie, Completion::Both);
                    true
                }
                None => false,
            },
            _ => return self.upcalls.packet(source, class, packet),
        };
        if !is_valid {
            self.upcalls.peer_lost(source, "it sent a malformed atomic");
        }
    }
    fn done(&mut self, cookie: Cookie, part: Completion) {
        self.upcalls.done(cookie, part);
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        self.upcalls.peer_lost(peer, why);
    }
    fn network_lost(&mut self, why: &str) {
        self.upcalls.network_lost(why);
    }
}

impl Network for SoftAtomics {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.inner.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.send_replies();
        self.inner.poll(scope, &mut Filter { atomics: self, upcalls })
    }

    fn stop(&self, how: Stop) {
        self.inner.stop(how);
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            segments: Some(self),
            atomics: Some(self),
            ..Abilities::default()
        }
    }
}

impl Segments for SoftAtomics {
    fn max_key_bytes(&self) -> usize {
        size_of::<u32>()
    }
    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let segments = &mut self.state().segments;
        let number = segments.len() as u32;
        segments.push(Some(*memory));
        Ok(Registration {
            segment: LocalSegment(number),
            key: number.to_le_bytes().to_vec(),
        })
    }
    fn deregister(&self, segment: LocalSegment) {
        self.state().segments[segment.0 as usize] = None;
    }
    fn learn(&self, peer: JobRank, memory: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        assert_eq!(key.len(), size_of::<u32>(), "defect: a key that no rank has made");
        let learned = &mut self.state().learned;
        learned.push((peer, *memory));
        Ok(RemoteSegment(learned.len() as u32 - 1))
    }
}

impl Atomics for SoftAtomics {
    fn supports(&self, dt: u32, op: u32) -> bool {
        codes::operations(dt) & op != 0
    }
    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        let Atomic { target, dt, op, .. } = *atomic;
        let bytes = codes::bytes(dt);
        let number = {
            let mut state = self.state();
            let known = state.learned.get(target.segment.0 as usize);
            assert!(
                known.is_some_and(|(peer, memory)| *peer == target.peer && contains(memory, target.address, bytes)),
                "defect: an atomic on a segment that was not learned"
            );
            state.count += 1;
            let number = state.count;
            let pending = Pending {
                cookie: atomic.cookie,
                fetched: atomic.fetched as usize,
                bytes,
            };
            state.pending.insert(number, pending);
            number
        };
        let request: Request = [
            u64::from(REQUEST),
            number,
            u64::from(op) << 32 | u64::from(dt),
            target.address as u64,
            atomic.operands[0],
            atomic.operands[1],
        ];
        self.inner
            .send(target.peer, Class::Request, &[&to_bytes(&request)])
            .inspect_err(|_| {
                self.state().pending.remove(&number);
            })
    }
}
