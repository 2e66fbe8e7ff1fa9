//! The hardware barrier, in a thread of its own because libelan's collective calls wait.
//!
//! ELANFAST, the default: all processes expect the words of the last round to come again if the two
//! rounds before ended alike. Whoever has others writes so into the memory of all before it enters
//! the hardware barrier, behind which all know whether they were right: then the round is over. If
//! not, or if the last rounds ended differently, as named barriers do, process 0 broadcasts its
//! words. Whoever lacks a bit of these reports its own to process 0, and that it has to all, and
//! enters the hardware barrier. Only if somebody has reported, process 0 broadcasts the AND of all
//! reports. ELANSLOW always broadcasts. (The broadcast of a name and the reports of those that
//! differ are those of the old elan-conduit.)
//!
//! Rounds use two sets of memory in turn: a process writes that of round r only when all have
//! entered the barrier of round r - 1, so have left round r - 2.
//!
//! It exists if each process is a neighbourhood of its own: the hardware's group is the whole job.

use crate::ffi::{Channel, Event, Local, Shim};
use gasnet_conduit::{config, Barrier, Busy};
use gasnet_sys::atomic::{AtomicBool, AtomicU64, Mutex, Ordering};
use gasnet_sys::{lock, process};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::{self, JoinHandle, Thread};

/// Two words that rounds AND.
type Words = [u64; 2];

/// Bytes of the thread's stack: a vendor's library runs on it.
const STACK_BYTES: usize = 512 << 10;
/// The process that broadcasts.
const ROOT: u32 = 0;

/// Symmetric memory of a round; behind both sets, words of each process for each set.
#[repr(C, align(64))]
#[derive(Default)]
struct Set {
    /// Whether somebody has not entered with the expected words.
    is_unexpected: AtomicU64,
    /// Whether somebody lacks a bit of process 0's words.
    is_reported: AtomicU64,
    /// Broadcasts of process 0: its words, and the result.
    words: [AtomicU64; 2],
    result: [AtomicU64; 2],
}

/// Sources of puts into the memory of others, behind all that. Only small puts may have any
/// source, and a site decides which are small (LIBELAN_PUTGET_SMALLPUTSIZE).
#[repr(C)]
struct Sources {
    flag: AtomicU64,
    words: [AtomicU64; 2],
}

/// Offset of the sources.
fn sources_offset(size: u32) -> usize {
    2 * (size_of::<Set>() + size as usize * size_of::<Words>())
}

/// Bytes of the symmetric memory for `size` processes.
pub fn memory_bytes(size: u32) -> usize {
    sources_offset(size) + size_of::<Sources>()
}

/// State that the thread and the others share.
#[derive(Debug, Default)]
struct Mail {
    state: Mutex<State>,
    /// Whether a round has ended, so that a poll that finds none takes no lock.
    has_ended: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    entered: Option<Words>,
    ended: Option<Words>,
    /// Whether a round was entered whose end was not reported.
    is_under_way: bool,
    is_over: bool,
}

/// The rounds of this process.
#[derive(Debug)]
pub struct Rounds {
    mail: Arc<Mail>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The thread, which parks between rounds.
    sleeper: Thread,
}

impl Rounds {
    /// Starts the thread. The error is a message without a full stop.
    ///
    /// # Safety
    /// The symmetric memory, with its network address, has [`memory_bytes`] bytes, is zero, and
    /// lives as long as the shim.
    pub unsafe fn start(shim: &Arc<Shim>, memory: (NonNull<u8>, u64), is_slow: bool) -> Result<Self, String> {
        let mail = Arc::new(Mail::default());
        let engine = Engine {
            channel: shim.channel(0),
            shim: Arc::clone(shim),
            memory,
            is_slow,
            round: 0,
            expected: None,
            last: [0; 2],
        };
        let its_mail = Arc::clone(&mail);
        let thread = process::spawn_own_thread("gasnet-elan", config::stack_bytes(STACK_BYTES), move || {
            its_mail.serve(engine);
        });
        let thread = thread.map_err(|why| format!("the thread of the barrier cannot start: {why}"))?;
        Ok(Self {
            mail,
            sleeper: thread.thread().clone(),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The words of a round that has ended, once.
    #[inline]
    pub fn take_result(&self) -> Option<Words> {
        if !self.mail.has_ended.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.mail.state.try_lock().ok()?;
        let ended = state.ended.take()?;
        state.is_under_way = false;
        self.mail.has_ended.store(false, Ordering::Relaxed);
        Some(ended)
    }

    /// Ends the thread, unless a round is under way: then it waits for others, maybe in vain.
    pub fn stop(&self) {
        let mut state = lock(&self.mail.state);
        state.is_over = true;
        self.sleeper.unpark();
        let waits = state.is_under_way && state.ended.is_none();
        drop(state);
        if let Some(thread) = lock(&self.thread).take().filter(|_| !waits) {
            let _ = thread.join();
        }
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Barrier for Rounds {
    fn enter(&self, words: Words) -> Result<(), Busy> {
        let mut state = self.mail.state.try_lock().map_err(|_| Busy)?;
        assert!(!state.is_under_way, "defect: a second round");
        state.is_under_way = true;
        state.entered = Some(words);
        self.sleeper.unpark();
        Ok(())
    }
}

impl Mail {
    /// Does the rounds that are entered.
    fn serve(&self, mut engine: Engine) {
        loop {
            let mut state = lock(&self.state);
            if state.is_over {
                return;
            }
            let entered = state.entered.take();
            drop(state);
            let Some(words) = entered else {
                thread::park();
                continue;
            };
            let result = engine.round(words);
            lock(&self.state).ended = Some(result);
            self.has_ended.store(true, Ordering::Release);
        }
    }
}

/// The rounds, as the thread does them.
struct Engine {
    shim: Arc<Shim>,
    channel: Channel,
    memory: (NonNull<u8>, u64),
    is_slow: bool,
    round: u64,
    /// The words that all processes expect.
    expected: Option<Words>,
    /// The result of the last round.
    last: Words,
}

// SAFETY: the memory is reached by atomics only.
unsafe impl Send for Engine {}

/// AND of two pairs.
fn and([a, b]: Words, [c, d]: Words) -> Words {
    [a & c, b & d]
}

fn load(words: &[AtomicU64; 2]) -> Words {
    [words[0].load(Ordering::Acquire), words[1].load(Ordering::Acquire)]
}

fn store(words: &[AtomicU64; 2], [a, b]: Words) {
    words[0].store(a, Ordering::Release);
    words[1].store(b, Ordering::Release);
}

impl Engine {
    /// Offset of the set of this round.
    fn offset(&self) -> usize {
        (self.round % 2) as usize * size_of::<Set>()
    }

    /// Offset of the words that a process reports in this round.
    fn report_offset(&self, vp: u32) -> usize {
        let index = (self.round % 2) as usize * self.shim.info.size as usize + vp as usize;
        2 * size_of::<Set>() + index * size_of::<Words>()
    }

    fn set(&self) -> &Set {
        // SAFETY: two of these, of which all bytes are valid.
        unsafe { self.memory.0.add(self.offset()).cast().as_ref() }
    }

    fn report(&self, vp: u32) -> &[AtomicU64; 2] {
        // SAFETY: one for each process and set.
        unsafe { self.memory.0.add(self.report_offset(vp)).cast().as_ref() }
    }

    fn sources(&self) -> &Sources {
        // SAFETY: one of these, of which all bytes are valid.
        unsafe { self.memory.0.add(sources_offset(self.shim.info.size)).cast().as_ref() }
    }

    fn is_root(&self) -> bool {
        self.shim.info.vp == ROOT
    }

    /// Does a round with these words of this process. Returns the AND of all.
    fn round(&mut self, own: Words) -> Words {
        self.round += 1;
        let result = match self.expected.filter(|_| !self.is_slow) {
            Some(expected) if self.is_as_expected(own == expected) => expected,
            _ => self.exact(own),
        };
        self.expected = (result == self.last).then_some(result);
        self.last = result;
        result
    }

    /// Whether all processes have entered with the expected words.
    fn is_as_expected(&self, is_own: bool) -> bool {
        if !is_own {
            self.tell_all(std::mem::offset_of!(Set, is_unexpected));
        }
        self.shim.barrier();
        self.set().is_unexpected.swap(0, Ordering::Acquire) == 0
    }

    fn exact(&self, own: Words) -> Words {
        let set = self.set();
        if self.is_root() {
            store(&set.words, own);
        }
        self.broadcast(&set.words);
        let roots = load(&set.words);
        if and(own, roots) != roots {
            self.report_words(own);
            self.tell_all(std::mem::offset_of!(Set, is_reported));
        }
        self.shim.barrier();
        if set.is_reported.swap(0, Ordering::Acquire) == 0 {
            return roots;
        }
        if self.is_root() {
            // Nobody reports zero, which is what nobody has reported: a report is inverted.
            let all = (0..self.shim.info.size).fold(roots, |all, vp| {
                let inverted = load(self.report(vp));
                store(self.report(vp), [0; 2]);
                and(all, inverted.map(|word| !word))
            });
            store(&set.result, all);
        }
        self.broadcast(&set.result);
        load(&set.result)
    }

    fn broadcast(&self, words: &[AtomicU64; 2]) {
        let memory = words.as_ptr().cast_mut().cast();
        // SAFETY: part of the symmetric memory, which nobody else uses in this round.
        unsafe { self.shim.broadcast(memory, size_of::<Words>(), ROOT) };
    }

    /// Puts the inverse of the own words into the memory of process 0.
    fn report_words(&self, own: Words) {
        let inverted = &self.sources().words;
        store(inverted, own.map(|word| !word));
        let mut puts = Puts::new(self);
        let from = Local {
            address: inverted.as_ptr().addr(),
            bytes: size_of::<Words>(),
        };
        puts.put(from, self.report_offset(self.shim.info.vp), ROOT);
    }

    /// Sets a flag in the memory of all processes, this one too.
    fn tell_all(&self, flag: usize) {
        let set = &self.sources().flag;
        set.store(1, Ordering::Release);
        let mut puts = Puts::new(self);
        let from = Local {
            address: set.as_ptr().addr(),
            bytes: size_of::<u64>(),
        };
        for vp in 0..self.shim.info.size {
            puts.put(from, self.offset() + flag, vp);
        }
    }
}

/// Puts under way, which are complete when this is dropped.
struct Puts<'a> {
    engine: &'a Engine,
    events: VecDeque<Event>,
}

impl<'a> Puts<'a> {
    fn new(engine: &'a Engine) -> Self {
        Self {
            engine,
            events: VecDeque::new(),
        }
    }

    /// Puts a few bytes of the symmetric memory into that of a process.
    fn put(&mut self, from: Local, offset: usize, vp: u32) {
        let Local { address, bytes } = from;
        let Engine {
            shim, channel, memory, ..
        } = self.engine;
        let place = loop {
            match channel.take() {
                Some(place) => break place,
                None => self.wait(),
            }
        };
        // SAFETY: symmetric memory, whose source is not written before the put is complete.
        let event = unsafe { shim.put(&place, address, memory.1 + offset as u64, bytes, vp) };
        place.keep();
        self.events.push_back(event);
    }

    /// Waits for the oldest.
    fn wait(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.engine.shim.wait(event);
            self.engine.channel.give_back();
        }
    }
}

impl Drop for Puts<'_> {
    fn drop(&mut self) {
        while !self.events.is_empty() {
            self.wait();
        }
    }
}
