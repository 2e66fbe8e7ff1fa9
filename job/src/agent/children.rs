//! The ranks of one host, seen from its agent.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::control_block::ControlBlock;
use super::super::control_socket::RankMessage;
use super::readable;
use gasnet_sys::fd;
use gasnet_sys::process::{self, Ended, Pid, PidFd};

/// How far a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not called exit.
    Running,
    /// It has.
    InExit,
    /// It has ended.
    Gone,
}

/// Whose child a rank is.
#[derive(Debug)]
enum Parent {
    /// This agent's.
    Agent,
    /// A process manager's.
    Manager(PidFd),
}

/// A rank.
#[derive(Debug)]
pub struct Child {
    /// Its number.
    pub rank: u32,
    /// Its process.
    pub pid: Pid,
    /// How far it is.
    pub state: State,
    /// When it is killed if it is still there.
    pub deadline: Option<Instant>,
    parent: Parent,
    /// None once the rank's end is closed.
    control_socket: Option<OwnedFd>,
    /// Signs of life inside GASNet at the start of the current window.
    window_start: ActivityCounts,
    /// What it did in the last window.
    pub activity: Activity,
    /// It was reported as late.
    pub is_reported: bool,
    /// Last seen sign of a slow reader.
    stalled_flushes: u32,
}

/// What a rank counts of its own doing, once an exit is announced.
#[derive(Clone, Copy, Debug, Default)]
struct ActivityCounts {
    waits: u32,
    polls: u32,
}

/// What a rank does that has not called exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// It is seldom in GASNet, if at all.
    Working,
    /// It polls, and finds nothing.
    Polling,
    /// It waits.
    Waiting,
}

/// What became of a rank's time to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// It has time left, or has ended.
    Not,
    /// It was killed.
    Killed,
    /// It was killed while its last output was on its way.
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

    /// A process that this one has forked.
    pub fn new(rank: u32, pid: Pid, control_socket: OwnedFd) -> Self {
        Self::with(Parent::Agent, rank, pid, control_socket)
    }

    /// A process that somebody else has started, which gets the other end of `control_socket`.
    pub fn managed(rank: u32, pid: Pid, process: PidFd, control_socket: OwnedFd) -> Self {
        Self::with(Parent::Manager(process), rank, pid, control_socket)
    }

    /// For a job that could not start.
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

    /// How it has ended, if it has. Once.
    pub fn ended(&self) -> Option<Ended> {
        match &self.parent {
            Parent::Agent => process::reap(self.pid),
            Parent::Manager(process) => process.has_ended().then_some(Ended::Unknown),
        }
    }

    /// Whether its end is told to its parent only, and that is somebody else.
    pub fn is_managed(&self) -> bool {
        matches!(self.parent, Parent::Manager(_))
    }

    /// Its descriptors to wait for.
    pub fn poll_items(&self, items: &mut Vec<libc::pollfd>) {
        let process = match &self.parent {
            Parent::Manager(process) if self.state != State::Gone => Some(process.fd()),
            _ => None,
        };
        let control_socket = self.control_socket.as_ref().map(AsRawFd::as_raw_fd);
        items.extend(control_socket.into_iter().chain(process).map(readable));
    }

    /// The next word that it has said.
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

    /// Kills it if it has had its time, unless it may wait for a slow reader to whom its last output is on its way.
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
