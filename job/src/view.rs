//! A tool's view of the ranks of this host in a job of other processes, for reading only.
//!
//! Every process of a job keeps a descriptor of the job control block open. The kernel lets the
//! same user open it again, through `/proc`, and stops nobody.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::control_block::{ControlBlock, Unreadable};
use super::counters::{HandlerWord, Lane, WaitWord, KINDS, VERSION};
use gasnet_sys::process::{self, Pid};

/// Name of the memory of the job control block in the system's list of descriptors.
pub const CONTROL_NAME: &str = "gasnet-control";

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

/// A thread of a rank. Times are nanoseconds of the monotonic clock, 0 if unknown.
#[derive(Clone, Debug, Default)]
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
    /// Messages refused to a client that does not wait.
    pub refused: u64,
    /// Waits, by the number of their reason.
    pub waits: Vec<u64>,
    /// Collectives begun.
    pub collectives: u64,
}

/// A rank.
#[derive(Clone, Debug)]
pub struct RankView {
    /// Its number.
    pub rank: u32,
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

/// A job.
#[derive(Debug)]
pub struct JobView {
    control: ControlBlock,
}

impl JobView {
    /// The job of a process: a rank, a node agent, or a launcher process above those. The error is
    /// a message.
    pub fn of(pid: Pid) -> Result<Self, String> {
        if process::is_gone(pid) {
            return Err(format!("there is no process {pid}"));
        }
        if let Some(job) = of_process(pid)? {
            return Ok(job);
        }
        // A child that has just ended, or belongs to another user, is no job's.
        for below in descendants(pid) {
            if let Ok(Some(job)) = of_process(below) {
                return Ok(job);
            }
        }
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Err(format!(
            "neither process {pid} ({}) nor a child of it belongs to a GASNet job that has started",
            name.trim_end()
        ))
    }

    /// The number of ranks in the job.
    pub fn size(&self) -> u32 {
        self.control.ranks()
    }

    /// The ranks of this host that have started.
    pub fn ranks(&self) -> Vec<RankView> {
        (0..self.size()).filter_map(|rank| self.rank(rank)).collect()
    }

    fn rank(&self, rank: u32) -> Option<RankView> {
        let (status, counters) = (self.control.status(rank), self.control.counters(rank));
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
        refused: read(&lane.refused),
        waits: lane.waits.iter().map(read).collect(),
        collectives: read(&lane.collectives),
    }
}

/// The control block that a process has open. The error is a message.
fn of_process(pid: Pid) -> Result<Option<JobView>, String> {
    let folder = format!("/proc/{pid}/fd");
    let refused = |why: &io::Error| {
        let user = fs::metadata(format!("/proc/{pid}")).map_or("unknown".into(), |process| process.uid().to_string());
        format!("cannot read the descriptors of process {pid}, of user {user}: {why}. Run gasnet_info as that user")
    };
    for entry in fs::read_dir(&folder).map_err(|e| refused(&e))?.flatten() {
        let Ok(object) = fs::read_link(entry.path()) else {
            continue;
        };
        // Objects without a name are shown as deleted; a file in GASNET_TMPDIR may have lost its
        // name.
        if !object.to_string_lossy().ends_with(" (deleted)") {
            continue;
        }
        let memory = match File::open(entry.path()) {
            Ok(memory) => memory,
            Err(why) if object.to_string_lossy().contains(CONTROL_NAME) => return Err(refused(&why)),
            Err(_) => continue,
        };
        let length = memory.metadata().map_or(0, |memory| memory.len() as usize);
        match ControlBlock::of_another(memory.as_raw_fd(), length) {
            Ok(control) => return Ok(Some(JobView { control })),
            Err(Unreadable::Other) => {}
            Err(Unreadable::Version(version)) => {
                return Err(format!(
                    "the job of process {pid} has counters of version {version}, and this gasnet_info reads version \
                     {VERSION}. Run the gasnet_info that was installed with the job's library"
                ))
            }
        }
    }
    Ok(None)
}

/// The processes below `pid`, nearest first.
fn descendants(pid: Pid) -> Vec<Pid> {
    let processes: Vec<Pid> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    let parents: Vec<(Pid, Pid)> = processes
        .into_iter()
        .filter_map(|child| Some((child, process::parent_of(child)?)))
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == above)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::super::counters::Wait;
    use super::*;
    use gasnet_sys::mem;
    use std::path::Path;

    #[test]
    fn a_job_is_found_by_its_descriptor() {
        let memory = mem::anon_memory("gasnet-control-test", Path::new("/tmp"), &mut |_| ()).unwrap();
        memory.resize(ControlBlock::bytes(3)).unwrap();
        let control = ControlBlock::on(memory.fd(), 3, 2, true).unwrap();
        drop(memory);
        let pid = process::pid();
        for rank in [0, 2] {
            control.status(rank).process.store(pid as u32, Ordering::Relaxed);
        }
        let word = WaitWord {
            reason: Wait::RequestRoom,
            in_handler: true,
            peer: Some(0),
        };
        let lane = &control.counters(2).lanes[1];
        lane.thread.store(77, Ordering::Relaxed);
        lane.wait.store(word.encode(), Ordering::Relaxed);
        lane.wait_since.store(5, Ordering::Relaxed);
        let job = JobView::of(pid).unwrap();
        assert_eq!(job.size(), 3);
        let ranks = job.ranks();
        assert_eq!(ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((ranks[0].process, ranks[0].threads.len()), (Process::Runs, 0));
        let thread = &ranks[1].threads[0];
        assert_eq!((thread.thread, thread.wait), (77, Some((word, 5))));
    }
}
