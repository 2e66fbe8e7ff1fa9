//! The ranks of one host, as its node agent sees them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::control_block::ControlBlock;
use super::super::control_socket::RankMessage;
use gasnet_sys::fd;
use gasnet_sys::process::{self, Ended, Pid, PidFd};

/// The state of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not called exit.
    Running,
    /// It has called exit.
    InExit,
    /// It has ended.
    Gone,
}

/// The parent process of a rank.
#[derive(Debug)]
enum Parent {
    /// This node agent.
    Agent,
    /// A process manager.
    Manager(PidFd),
}

/// A rank.
#[derive(Debug)]
pub struct Child {
    /// Its number.
    pub rank: u32,
    /// Its process id.
    pub pid: Pid,
    /// Its state.
    pub state: State,
    /// When it is killed.
    pub deadline: Option<Instant>,
    parent: Parent,
    /// None once the rank's end is closed.
    control_socket: Option<OwnedFd>,
    /// Its activity counts at the start of the current window.
    window_start: ActivityCounts,
    /// What it did in the last window.
    pub activity: Activity,
    /// It was reported as late.
    pub is_reported: bool,
    /// The count of stalled flushes at the last check.
    stalled_flushes: u32,
}

/// Calls that a rank counts once an exit is announced.
#[derive(Clone, Copy, Debug, Default)]
struct ActivityCounts {
    waits: u32,
    polls: u32,
}

/// What a rank does before it calls exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// It rarely or never calls GASNet.
    Working,
    /// It polls without success.
    Polling,
    /// It waits inside GASNet.
    Waiting,
}

/// The result of a check of a rank's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// It has time left, or has ended.
    Not,
    /// It was killed.
    Killed,
    /// It was killed while it was writing its last output.
    KilledWriting,
}

impl Child {
    fn with(parent: Parent, rank: u32, pid: Pid, control_socket: OwnedFd) -> Self {
        Self {
            rank,
            pid,
            state: State::Running,
            deadline: None,
            parent,
            control_socket: Some(control_socket),
            window_start: ActivityCounts::default(),
            activity: Activity::Waiting,
            is_reported: false,
            stalled_flushes: 0,
        }
    }

    /// A process that this agent has forked.
    pub fn new(rank: u32, pid: Pid, control_socket: OwnedFd) -> Self {
        Self::with(Parent::Agent, rank, pid, control_socket)
    }

    /// A process that a process manager has started. It gets the other end of `control_socket`.
    pub fn managed(rank: u32, pid: Pid, process: PidFd, control_socket: OwnedFd) -> Self {
        Self::with(Parent::Manager(process), rank, pid, control_socket)
    }

    /// Kills it when the job could not start.
    pub fn kill_and_wait(&self) {
        self.signal(libc::SIGKILL);
        if matches!(self.parent, Parent::Agent) {
            process::wait(self.pid);
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, number: i32) {
        match &self.parent {
            Parent::Agent => process::kill(self.pid, number),
            Parent::Manager(process) => process.signal(number),
        }
    }

    /// How it has ended, if it has. Returned once.
    pub fn ended(&self) -> Option<Ended> {
        match &self.parent {
            Parent::Agent => process::reap(self.pid),
            Parent::Manager(process) => process.has_ended().then_some(Ended::Unknown),
        }
    }

    /// Whether a process manager is its parent, and learns its status.
    pub fn is_managed(&self) -> bool {
        matches!(self.parent, Parent::Manager(_))
    }

    /// Adds the descriptors to wait for.
    pub fn poll_items(&self, items: &mut Vec<libc::pollfd>) {
        let process = match &self.parent {
            Parent::Manager(process) if self.state != State::Gone => Some(process.fd()),
            _ => None,
        };
        let control_socket = self.control_socket.as_ref().map(AsRawFd::as_raw_fd);
        items.extend(control_socket.into_iter().chain(process).map(fd::readable));
    }

    /// The next message that it has sent.
    pub fn message(&mut self) -> Option<RankMessage> {
        let mut message = [0; 16];
        while let Some(socket) = &self.control_socket {
            match fd::receive(socket.as_raw_fd(), &mut message) {
                Ok(n) if n > 0 => {
                    if let Some(word) = RankMessage::decode(&message[..n]) {
                        return Some(word);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                _ => self.control_socket = None,
            }
        }
        None
    }

    fn counts_now(&self, control: &ControlBlock) -> ActivityCounts {
        let line = control.status(self.rank);
        ActivityCounts {
            waits: line.waits.load(Ordering::Relaxed),
            polls: line.polls.load(Ordering::Relaxed),
        }
    }

    /// Starts a window.
    pub fn start_window(&mut self, control: &ControlBlock) {
        self.window_start = self.counts_now(control);
    }

    /// Ends a window and starts the next one.
    pub fn end_window(&mut self, control: &ControlBlock) {
        const FEW: u32 = 3;
        let now = self.counts_now(control);
        let waits = now.waits.wrapping_sub(self.window_start.waits);
        let polls = now.polls.wrapping_sub(self.window_start.polls);
        self.activity = if waits >= FEW {
            Activity::Waiting
        } else if waits.wrapping_add(polls) >= FEW {
            Activity::Polling
        } else {
            Activity::Working
        };
        self.window_start = now;
    }

    /// Kills it after its deadline, unless it `may_wait` for the slow reader of its last output and
    /// does.
    pub fn kill_if_overdue(&mut self, control: &ControlBlock, now: Instant, may_wait: bool) -> Overdue {
        if self.state == State::Gone || self.deadline.is_none_or(|d| now < d) {
            return Overdue::Not;
        }
        let stalled_flushes = control.status(self.rank).stalled_flushes.load(Ordering::Relaxed);
        let writes = self.state == State::InExit && stalled_flushes != self.stalled_flushes;
        if may_wait && writes {
            self.stalled_flushes = stalled_flushes;
            self.deadline = Some(now + Duration::from_secs(1));
            return Overdue::Not;
        }
        self.signal(libc::SIGKILL);
        self.deadline = None;
        if writes {
            Overdue::KilledWriting
        } else {
            Overdue::Killed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_through_and_nonsense_does_not() {
        let (ours, theirs) = fd::seqpacket_pair().unwrap();
        let mut child = Child::new(3, 0, ours);
        assert!(child.message().is_none());
        fd::send(theirs.as_raw_fd(), b"nonsense").unwrap();
        fd::send(theirs.as_raw_fd(), &RankMessage::Exit { code: 7, signal: 0 }.encode()).unwrap();
        assert_eq!(child.message(), Some(RankMessage::Exit { code: 7, signal: 0 }));
        drop(theirs);
        assert!(child.message().is_none() && child.control_socket.is_none());
    }
}
