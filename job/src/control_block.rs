//! The job control block: memory that the node agent and all ranks of a host share. It holds the
//! phase of the job, a barrier, counters and states of ranks, and slots for exchanges.
//!
//! It has a status line and slots for every rank of the job; memory that is never written costs
//! nothing. With several hosts the agent first reads the slots of its ranks, then writes the result
//! of all ranks over them, without gaps. So a round touches no more memory than its result needs.
//!
//! All fields are atomics or accessed through raw pointers, because a process may die between any
//! two instructions. Waits end nevertheless: the agent advances the phase when a rank dies.

mod barrier;

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::counters::{RankCounters, VERSION};
use barrier::Barrier;
use gasnet_sys::padded::Padded;
use gasnet_sys::{fd, futex, mem};

/// Progress of the job's end. It only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Phase {
    /// No rank has called exit.
    Running = 0,
    /// A rank has called exit; others may be about to.
    Announced = 1,
    /// Ranks inside GASNet must call exit now.
    Leave = 2,
    /// All existing ranks are in exit and may end.
    Go = 3,
}

impl Phase {
    pub fn from_raw(raw: u32) -> Self {
        match raw {
            0 => Self::Running,
            1 => Self::Announced,
            2 => Self::Leave,
            _ => Self::Go,
        }
    }
}

/// Reports of one rank to the node agent, and to the ranks of its host, without a system call.
#[repr(C, align(64))]
pub struct RankStatus {
    /// Incremented while a thread waits in GASNet, once an exit is announced.
    pub waits: AtomicU32,
    /// Incremented while a thread polls without success, once an exit is announced.
    pub polls: AtomicU32,
    /// Incremented while the rank's last output waits for a slow reader.
    pub stalled_flushes: AtomicU32,
    /// Process id, for ranks that access its memory; 0 until it is published.
    pub pid: AtomicU32,
    /// Address of the word by which they verify that they reach this process.
    pub witness: AtomicUsize,
    /// Process id, set at the start of the rank.
    pub process: AtomicU32,
    /// 1 once the rank has called exit.
    pub in_exit: AtomicU32,
    /// 1 while the rank is frozen for a debugger.
    pub frozen: AtomicU32,
    /// The exit of a rank whose client has closed the control socket; 0 before.
    pub announcement: AtomicU64,
    /// Phases of the named barrier that the rank has entered.
    pub barrier: AtomicU32,
    /// 1 once a thread of the library serves messages while the client's threads sleep.
    pub receives: AtomicU32,
    /// The rank's index on its host, and so that of its counters.
    pub place: AtomicU32,
}

/// Tells tools whether they can read the memory.
#[repr(C, align(64))]
struct Identity {
    magic: AtomicU64,
    version: AtomicU32,
    ranks: AtomicU32,
    here: AtomicU32,
    /// The number in the name of the socket at which the root answers for all hosts; 0: none.
    answers: AtomicU64,
}

const MAGIC: u64 = u64::from_ne_bytes(*b"GEXcntrl");

#[repr(C, align(64))]
struct Header {
    identity: Identity,
    /// Nanoseconds of the monotonic clock, set by the node agent.
    clock: Padded<AtomicU64>,
    phase: AtomicU32,
    /// Exit code of the job; valid from `Announced` on.
    code: AtomicU32,
    barrier: Barrier,
    /// Incremented by the node agent while the job ends.
    beats: AtomicU32,
    /// One above the rank that reports what all ranks of the host wait for; 0: none does.
    reporter: AtomicU32,
    host_words: Padded<[AtomicU64; 2]>,
    /// The IPv6 form of this host's address, its high half first; 0: unknown.
    address: [AtomicU64; 2],
}

/// Bytes of one rank in one round of an exchange.
pub const SLOT_BYTES: usize = 4096;

/// A view of the shared memory, which is never unmapped.
#[derive(Clone, Copy, Debug)]
pub struct ControlBlock {
    base: usize,
    /// In the job.
    ranks: u32,
    /// On this host.
    here: u32,
    /// Whether the node agent releases barriers, because there are other hosts.
    relayed: bool,
}

/// Why a tool cannot read a memory object as a control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is something else, or cannot be mapped.
    Other,
    /// Its job has this version of the structures.
    Version(u32),
}

// Layout: header, a status line per rank, counters per rank of the host, then two sets of slots per
// rank, for even and odd rounds.
impl ControlBlock {
    /// Allocates the memory, before any fork, for a job of `ranks` of which `here` are on this
    /// host. If `relayed`, there are other hosts and the node agent releases barriers. Tools cannot
    /// find this memory.
    pub fn create(ranks: u32, here: u32, relayed: bool) -> io::Result<Self> {
        mem::map_for_children(Self::bytes(ranks, here)).map(|base| Self::at(base, ranks, here, relayed))
    }

    /// The same in memory that other processes can map: ranks that are not forked, and tools. A
    /// descriptor of it stays open, by which tools find it.
    pub fn on(memory: RawFd, ranks: u32, here: u32, relayed: bool) -> io::Result<Self> {
        let base = mem::map_shared(memory, Self::bytes(ranks, here), None)?;
        let _ = fd::duplicate(memory)?.into_raw_fd();
        Ok(Self::at(base, ranks, here, relayed))
    }

    fn at(base: usize, ranks: u32, here: u32, relayed: bool) -> Self {
        let block = Self {
            base,
            ranks,
            here,
            relayed,
        };
        let identity = &block.header().identity;
        identity.ranks.store(ranks, Ordering::Relaxed);
        identity.here.store(here, Ordering::Relaxed);
        identity.version.store(VERSION, Ordering::Relaxed);
        identity.magic.store(MAGIC, Ordering::Release);
        block
    }

    /// The control block of another job, in a memory object of `length` bytes, for reading only.
    pub fn of_another(memory: RawFd, length: usize) -> Result<Self, Unreadable> {
        if length < size_of::<Header>() {
            return Err(Unreadable::Other);
        }
        let base = mem::map_readable(memory, length).map_err(|_| Unreadable::Other)?;
        let block = Self {
            base,
            ranks: 0,
            here: 0,
            relayed: false,
        };
        let identity = &block.header().identity;
        if identity.magic.load(Ordering::Acquire) != MAGIC {
            return Err(Unreadable::Other);
        }
        let [ranks, here] = [&identity.ranks, &identity.here].map(|count| count.load(Ordering::Relaxed));
        match identity.version.load(Ordering::Relaxed) {
            VERSION if length >= Self::slots_offset(ranks, here) => Ok(Self { ranks, here, ..block }),
            VERSION => Err(Unreadable::Other),
            version => Err(Unreadable::Version(version)),
        }
    }

    pub fn bytes(ranks: u32, here: u32) -> usize {
        Self::slots_offset(ranks, here) + 2 * ranks as usize * SLOT_BYTES
    }

    fn counters_offset(ranks: u32) -> usize {
        (size_of::<Header>() + ranks as usize * size_of::<RankStatus>()).next_multiple_of(align_of::<RankCounters>())
    }

    fn slots_offset(ranks: u32, here: u32) -> usize {
        Self::counters_offset(ranks) + here as usize * size_of::<RankCounters>()
    }

    /// The number of ranks in the job.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    fn header(&self) -> &'static Header {
        // SAFETY: the mapping starts with a header, is zeroed (a valid value), consists of atomics,
        // and is never unmapped.
        unsafe { &*(self.base as *const Header) }
    }

    pub fn status(&self, rank: u32) -> &'static RankStatus {
        assert!(rank < self.ranks);
        let lines = (self.base + size_of::<Header>()) as *const RankStatus;
        // SAFETY: `rank` was checked; status lines consist of atomics and are never unmapped.
        unsafe { &*lines.add(rank as usize) }
    }

    /// The counters and states of a rank of this host.
    pub fn counters(&self, rank: u32) -> &'static RankCounters {
        let place = self.status(rank).place.load(Ordering::Relaxed);
        assert!(place < self.here);
        let all = (self.base + Self::counters_offset(self.ranks)) as *const RankCounters;
        // SAFETY: `place` was checked; counters consist of atomics and are never unmapped.
        unsafe { &*all.add(place as usize) }
    }

    /// The time to a second, for states that are too frequent to read a clock: nanoseconds of the
    /// monotonic clock; 0 while no node agent sets it.
    pub fn coarse_clock(&self) -> &'static AtomicU64 {
        &self.header().clock
    }

    /// The number in the name of the socket at which the root of the tree answers for all hosts; 0
    /// where there is none.
    pub fn answers(&self) -> &'static AtomicU64 {
        &self.header().identity.answers
    }

    /// The rank of this host that reports a stall of all.
    pub fn reporter(&self) -> &'static AtomicU32 {
        &self.header().reporter
    }

    /// The word behind [`ControlBlock::phase`], for a check that costs one load.
    pub fn phase_word(&self) -> &'static AtomicU32 {
        &self.header().phase
    }

    pub fn phase(&self) -> Phase {
        Phase::from_raw(self.header().phase.load(Ordering::Acquire))
    }

    /// Advances the phase and wakes all waiters.
    pub fn advance(&self, phase: Phase) {
        self.header().phase.fetch_max(phase as u32, Ordering::AcqRel);
        futex::wake_all(&self.header().phase);
        self.header().barrier.wake();
    }

    /// Shows ranks in exit that the node agent runs. Node agent only.
    pub fn beat(&self) {
        self.header().beats.fetch_add(1, Ordering::Relaxed);
    }

    pub fn beats(&self) -> u32 {
        self.header().beats.load(Ordering::Relaxed)
    }

    /// Sleeps until the phase is no longer `seen`, at most for `limit`.
    pub fn wait_phase(&self, seen: Phase, limit: Duration) {
        futex::wait(&self.header().phase, seen as u32, limit);
    }

    pub fn code(&self) -> i32 {
        self.header().code.load(Ordering::Relaxed) as i32
    }

    /// Sets the exit code of the job. Node agent only, before it advances the phase.
    pub fn set_code(&self, code: i32) {
        self.header().code.store(code as u32, Ordering::Relaxed);
    }

    /// Sets the address of this host. Node agent only, before it releases the first barrier.
    pub fn set_address(&self, address: IpAddr) {
        let bits = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        for (word, bits) in self.header().address.iter().zip([bits >> 64, bits]) {
            word.store(bits as u64, Ordering::Relaxed);
        }
    }

    pub fn address(&self) -> Option<IpAddr> {
        let [high, low] = &self.header().address;
        let [high, low] = [high, low].map(|word| u128::from(word.load(Ordering::Relaxed)));
        let address = Ipv6Addr::from_bits(high << 64 | low);
        (!address.is_unspecified()).then(|| address.to_canonical())
    }

    /// Two words, initially zero, on which the runtimes of the host's ranks agree.
    pub fn host_words(&self) -> &'static [AtomicU64; 2] {
        &self.header().host_words
    }

    /// Enters the barrier. Returns a ticket for [`ControlBlock::barrier_done`], and whether the
    /// caller must notify the node agent that all ranks of this host have entered.
    pub fn barrier_enter(&self) -> (u32, bool) {
        let (ticket, last) = self.header().barrier.enter(self.here);
        if last && !self.relayed {
            self.release_barrier();
        }
        (ticket, last && self.relayed)
    }

    /// Releases the barrier that all ranks of this host have entered.
    pub fn release_barrier(&self) {
        self.header().barrier.release();
    }

    /// Whether all ranks have entered the barrier of `ticket`.
    pub fn barrier_done(&self, ticket: u32) -> bool {
        self.header().barrier.is_done(ticket)
    }

    /// Sleeps until the barrier may be done, at most for `limit`.
    pub fn barrier_sleep(&self, ticket: u32, limit: Duration) {
        self.header().barrier.sleep(ticket, limit);
    }

    fn slot(&self, round: u32, rank: u32) -> *mut u8 {
        assert!(rank < self.ranks);
        let set = (round & 1) as usize * self.ranks as usize;
        (self.base + Self::slots_offset(self.ranks, self.here) + (set + rank as usize) * SLOT_BYTES) as *mut u8
    }

    /// Writes `bytes` (at most [`SLOT_BYTES`]) to the slot of `rank`, the caller.
    pub fn write_slot(&self, round: u32, rank: u32, bytes: &[u8]) {
        assert!(bytes.len() <= SLOT_BYTES);
        // SAFETY: the slot has room. Nobody reads it before the barrier of this round: readers of
        // the round before last, which used the same slot, entered the last round's barrier after
        // reading.
        unsafe {
            self.slot(round, rank)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        };
    }

    /// Copies what `rank` of this host wrote in this round, after all ranks of the host have
    /// entered the round's barrier. Node agent only.
    pub fn read_slot(&self, round: u32, rank: u32, into: &mut [u8]) {
        assert!(into.len() <= SLOT_BYTES);
        // SAFETY: as above; the owner writes again two rounds later, after a barrier that the node
        // agent has yet to release.
        unsafe {
            into.as_mut_ptr()
                .copy_from_nonoverlapping(self.slot(round, rank), into.len());
        };
    }

    /// Writes the result of this round: equally many bytes of each rank of the job. Node agent
    /// only, before it releases the round's barrier.
    pub fn write_results(&self, round: u32, bytes: &[u8]) {
        assert!(self.relayed && bytes.len() <= self.ranks as usize * SLOT_BYTES);
        // SAFETY: there is room. All ranks of the host wait in the barrier, and their slots of this
        // round were read.
        unsafe {
            self.slot(round, 0)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        };
    }

    /// Copies what `rank` gave in this round, after the round's barrier. `into` has the length that
    /// each rank gave.
    pub fn read_result(&self, round: u32, rank: u32, into: &mut [u8]) {
        assert!(rank < self.ranks && into.len() <= SLOT_BYTES);
        let each = if self.relayed { into.len() } else { SLOT_BYTES };
        // SAFETY: within the slots of this round, which are written again two rounds later, after a
        // barrier that the caller has not entered yet.
        unsafe {
            let from = self.slot(round, 0).add(rank as usize * each);
            into.as_mut_ptr().copy_from_nonoverlapping(from, into.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_only_grow() {
        let control = ControlBlock::create(3, 3, false).unwrap();
        assert_eq!(control.phase(), Phase::Running);
        control.advance(Phase::Leave);
        control.advance(Phase::Announced);
        assert_eq!(control.phase(), Phase::Leave);
        assert!(Phase::Go > Phase::Leave);
    }

    #[test]
    fn addresses_are_kept() {
        let control = ControlBlock::create(1, 1, true).unwrap();
        assert_eq!(control.address(), None);
        for text in ["10.77.0.1", "fd77::1:2:3"] {
            control.set_address(text.parse().unwrap());
            assert_eq!(control.address(), text.parse().ok());
        }
    }

    #[test]
    fn tools_read_only_control_blocks_of_their_version() {
        use std::path::Path;
        let bytes = ControlBlock::bytes(2, 2);
        let memory = mem::anon_memory("gasnet-control-test", Path::new("/tmp"), &mut |_| ()).unwrap();
        memory.resize(bytes).unwrap();
        let read = |length| ControlBlock::of_another(memory.fd(), length).map(|control| control.ranks());
        assert_eq!(read(bytes), Err(Unreadable::Other));
        // Not `on`, whose descriptor would stay.
        let control = ControlBlock::at(mem::map_shared(memory.fd(), bytes, None).unwrap(), 2, 2, false);
        assert_eq!(read(bytes), Ok(2));
        // Shorter than its number of ranks, and than its header.
        assert_eq!((read(4096), read(8)), (Err(Unreadable::Other), Err(Unreadable::Other)));
        control.header().identity.version.store(VERSION + 1, Ordering::Relaxed);
        assert_eq!(read(bytes), Err(Unreadable::Version(VERSION + 1)));
        // Or else the test of views could find it.
        control.header().identity.magic.store(0, Ordering::Relaxed);
    }

    #[test]
    fn slots_do_not_overlap() {
        let control = ControlBlock::create(3, 3, false).unwrap();
        let slots = [0, 1].map(|round| [0, 1, 2].map(|rank| (round, rank))).concat();
        let bytes = |&(round, rank): &(u32, u32)| [(round * 3 + rank) as u8; SLOT_BYTES];
        for slot in &slots {
            control.write_slot(slot.0, slot.1, &bytes(slot));
        }
        for slot in &slots {
            let mut found = [9; SLOT_BYTES];
            control.read_slot(slot.0, slot.1, &mut found);
            assert_eq!(found, bytes(slot));
        }
    }

    #[test]
    fn results_are_those_of_all_ranks() {
        for relayed in [false, true] {
            let control = ControlBlock::create(5, 2, relayed).unwrap();
            for round in 0..4u32 {
                let length = [1, 100, SLOT_BYTES, 0][round as usize];
                let of = |rank: u32| vec![(round * 5 + rank + 1) as u8; length];
                let here = if relayed { 1..3 } else { 0..5 };
                here.clone().for_each(|rank| control.write_slot(round, rank, &of(rank)));
                if relayed {
                    for rank in here {
                        let mut own = vec![0; length];
                        control.read_slot(round, rank, &mut own);
                        assert_eq!(own, of(rank));
                    }
                    control.write_results(round, &(0..5).flat_map(of).collect::<Vec<_>>());
                }
                for rank in 0..5 {
                    let mut bytes = vec![0; length];
                    control.read_result(round, rank, &mut bytes);
                    assert_eq!(bytes, of(rank));
                }
            }
        }
    }

    #[test]
    fn barriers_of_threads() {
        let control = ControlBlock::create(4, 4, false).unwrap();
        let count = AtomicU32::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for round in 1..=500 {
                        count.fetch_add(1, Ordering::Relaxed);
                        let (ticket, _) = control.barrier_enter();
                        while !control.barrier_done(ticket) {
                            control.barrier_sleep(ticket, Duration::from_secs(1));
                        }
                        assert!(count.load(Ordering::Relaxed) >= 4 * round);
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 2000);
    }
}
