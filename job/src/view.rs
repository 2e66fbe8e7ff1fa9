//! Views of ranks, for tools: read from the job control block, without asking the processes.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::control_block::ControlBlock;
use super::counters::{words, HandlerWord, Lane, Traffic, Wait, WaitWord, GROUPS};
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

/// Counts of traffic, by [`words`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficView(pub [u64; words::COUNT]);

impl TrafficView {
    fn add(&mut self, traffic: &Traffic) {
        for (sum, word) in self.0.iter_mut().zip(&traffic.0) {
            *sum += word.load(Ordering::Relaxed);
        }
    }

    /// The sum of some of the words.
    pub fn sum(&self, of: Range<usize>) -> u64 {
        self.0[of].iter().sum()
    }
}

/// Traffic of a rank with a group of peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// The number of the group.
    pub group: u32,
    /// Its traffic.
    pub traffic: TrafficView,
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
    /// Traffic with all peers.
    pub traffic: TrafficView,
    /// Messages refused to a client that does not wait.
    pub refused: u64,
    /// Waits, by the number of their reason.
    pub waits: [u64; Wait::ALL.len() + 1],
    /// Collectives begun.
    pub collectives: u64,
    /// Seconds seen in a handler, in a wait, and in neither.
    pub samples: [u64; 3],
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
    /// Connections of its conduit that are up.
    pub connections: u32,
    /// Datagrams that its conduit has sent again.
    pub retransmissions: u64,
    /// The peer to which it has been making a connection for longest, and since when.
    pub connecting: Option<(u32, u64)>,
    /// Bytes that its memory objects take, by use. Others share some.
    pub memory: Vec<(String, u64)>,
    /// Threads that have called GASNet.
    pub threads: Vec<ThreadView>,
    /// Groups of peers with which there was traffic.
    pub peers: Vec<PeerView>,
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
        self.connecting.iter_mut().for_each(|(_, since)| shift(since));
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
    let connections = &counters.connections;
    let since = connections.since.load(Ordering::Acquire);
    let mut peers = [TrafficView::default(); GROUPS];
    let mut threads = Vec::new();
    // Traffic of unused lanes is memory that nothing has touched yet, and reading would allocate.
    for (lane, traffic) in counters.lanes.iter().zip(&counters.traffic) {
        let mut thread = thread(lane);
        if thread.thread != 0 || thread.polls > 0 {
            for (sum, group) in peers.iter_mut().zip(traffic) {
                sum.add(group);
                thread.traffic.add(group);
            }
            threads.push(thread);
        }
    }
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
        connections: connections.up.load(Ordering::Relaxed),
        retransmissions: connections.retransmissions.load(Ordering::Relaxed),
        connecting: (since != 0).then(|| (connections.peer.load(Ordering::Relaxed), since)),
        memory: memory(pid),
        threads,
        peers: (0..)
            .zip(peers)
            .filter(|(_, traffic)| *traffic != TrafficView::default())
            .map(|(group, traffic)| PeerView { group, traffic })
            .collect(),
    })
}

/// The job's memory objects that a process has open, without the pages that nothing has touched.
fn memory(pid: Pid) -> Vec<(String, u64)> {
    let object = |path: PathBuf| {
        let name = fs::read_link(&path).ok()?;
        let name = name.to_str()?.strip_suffix(" (deleted)")?.rsplit_once("gasnet-")?.1;
        let end = name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(name.len());
        Some((name[..end].to_owned(), fs::metadata(path).ok()?.blocks() * 512))
    };
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let objects: BTreeMap<_, _> = open.filter_map(|entry| object(entry.path())).collect();
    objects.into_iter().collect()
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
        traffic: TrafficView::default(),
        refused: read(&lane.refused),
        waits: lane.waits.each_ref().map(read),
        collectives: read(&lane.collectives),
        samples: lane.samples.each_ref().map(read),
    }
}
