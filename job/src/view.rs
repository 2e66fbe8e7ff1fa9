//! Views of ranks, for tools: read from the job control block, without asking the processes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::control_block::ControlBlock;
use super::counters::{HandlerWord, Lane, WaitWord, KINDS, ONE_SIDED};
use gasnet_sys::net;
use gasnet_sys::process::{self, Pid};

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// It does, or sleeps.
    Runs,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// It waits for a debugger (`GASNET_FREEZE`).
    Frozen,
    /// It has ended.
    Ended,
}

impl Process {
    /// The state of this number.
    pub fn from_raw(raw: u32) -> Self {
        match raw {
            0 => Self::Runs,
            1 => Self::Stopped,
            2 => Self::Frozen,
            _ => Self::Ended,
        }
    }
}

/// A thread of a rank. Times are nanoseconds of its host's monotonic clock, 0 if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadView {
    /// The kernel's number; 0 for a thread that has ended, whose counts remain.
    pub thread: u64,
    /// The present wait, and since when.
    pub wait: Option<(WaitWord, u64)>,
    /// The running handlers of a request and of a reply, and since when.
    pub handlers: [Option<(HandlerWord, u64)>; 2],
    /// Polls.
    pub polls: u64,
    /// The last poll.
    pub polled: u64,
    /// The last poll that found something.
    pub found: u64,
    /// Messages sent, by kind.
    pub sent: [u64; KINDS],
    /// Messages received, by kind.
    pub received: [u64; KINDS],
    /// Bytes of payload, sent and received.
    pub bytes: [u64; 2],
    /// One-sided operations over a network, by kind.
    pub one_sided: [u64; ONE_SIDED],
    /// Their bytes.
    pub one_sided_bytes: [u64; ONE_SIDED],
    /// Messages refused to a client that does not wait.
    pub refused: u64,
    /// Waits, by the number of their reason.
    pub waits: Vec<u64>,
    /// Collectives begun.
    pub collectives: u64,
}

/// A rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankView {
    /// Its number.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
    /// Its process.
    pub pid: Pid,
    /// The state of that.
    pub process: Process,
    /// Whether it counts (`GASNET_COUNTERS`).
    pub counts: bool,
    /// Whether it has called exit.
    pub in_exit: bool,
    /// Phases of the named barrier that it has entered.
    pub barrier: u32,
    /// Exchanges that it has entered.
    pub exchanges: u32,
    /// Since when it waits in an exchange; 0 if it does not.
    pub exchange_since: u64,
    /// Bytes of its attached segment.
    pub segment_bytes: u64,
    /// Threads that have called GASNet.
    pub threads: Vec<ThreadView>,
}

impl RankView {
    /// Moves its times by `ns`, to another host's clock.
    pub fn shift(&mut self, ns: u64) {
        let shift = |time: &mut u64| {
            if *time != 0 {
                *time = time.wrapping_add(ns);
            }
        };
        shift(&mut self.exchange_since);
        for thread in &mut self.threads {
            shift(&mut thread.polled);
            shift(&mut thread.found);
            thread.wait.iter_mut().for_each(|(_, since)| shift(since));
            thread.handlers.iter_mut().flatten().for_each(|(_, since)| shift(since));
        }
    }
}

/// The ranks of this host that have started.
pub fn ranks_here(control: &ControlBlock) -> Vec<RankView> {
    let host = net::host_name();
    (0..control.ranks())
        .filter_map(|rank| {
            Some(RankView {
                host: host.clone(),
                ..view(control, rank)?
            })
        })
        .collect()
}

fn view(control: &ControlBlock, rank: u32) -> Option<RankView> {
    let (status, counters) = (control.status(rank), control.counters(rank));
    let pid = status.process.load(Ordering::Relaxed) as Pid;
    if pid == 0 {
        return None;
    }
    let process = if process::is_gone(pid) {
        Process::Ended
    } else if process::is_stopped(pid) {
        Process::Stopped
    } else if status.frozen.load(Ordering::Relaxed) != 0 {
        Process::Frozen
    } else {
        Process::Runs
    };
    Some(RankView {
        rank,
        host: String::new(),
        pid,
        process,
        counts: counters.is_on.load(Ordering::Relaxed) != 0,
        in_exit: status.in_exit.load(Ordering::Relaxed) != 0,
        barrier: status.barrier.load(Ordering::Relaxed),
        exchanges: counters.exchanges.load(Ordering::Relaxed),
        exchange_since: counters.exchange_since.load(Ordering::Relaxed),
        segment_bytes: counters.segment_bytes.load(Ordering::Relaxed),
        threads: counters
            .lanes
            .iter()
            .map(thread)
            .filter(|t| t.thread != 0 || t.polls > 0)
            .collect(),
    })
}

fn thread(lane: &Lane) -> ThreadView {
    let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
    ThreadView {
        thread: read(&lane.thread),
        wait: WaitWord::decode(read(&lane.wait)).map(|word| (word, read(&lane.wait_since))),
        handlers: [0, 1].map(|class| {
            let word = HandlerWord::decode(read(&lane.handlers[class]))?;
            Some((word, read(&lane.handlers_since[class])))
        }),
        polls: read(&lane.polls),
        polled: read(&lane.polled),
        found: read(&lane.found),
        sent: lane.sent.each_ref().map(read),
        received: lane.received.each_ref().map(read),
        bytes: [read(&lane.sent_bytes), read(&lane.received_bytes)],
        one_sided: lane.one_sided.each_ref().map(read),
        one_sided_bytes: lane.one_sided_bytes.each_ref().map(read),
        refused: read(&lane.refused),
        waits: lane.waits.iter().map(read).collect(),
        collectives: read(&lane.collectives),
    }
}
