//! The ranks of one host, seen from its agent.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::board::Board;
use super::super::lifeline::Word;
use super::output::Pump;
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
enum Kin {
    /// This agent's.
    Own,
    /// A process manager's.
    Adopted(PidFd),
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
    /// Its output, if that passes through here.
    pub output: Option<[Pump; 2]>,
    /// When it is killed if it is still there.
    pub deadline: Option<Instant>,
    kin: Kin,
    /// None once the rank's end is closed.
    lifeline: Option<OwnedFd>,
    /// Signs of life inside GASNet at the start of the current window.
    beats: Beats,
    /// What it did in the last window.
    pub doing: Doing,
    /// It was reported as late.
    pub is_reported: bool,
    /// Last seen sign of a slow reader.
    patience: u32,
}

/// What a rank counts of its own doing, once an exit is announced.
#[derive(Clone, Copy, Debug, Default)]
struct Beats {
    waits: u32,
    polls: u32,
}

/// What a rank does that has not called exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// It is seldom in GASNet, if at all.
    Else,
    /// It polls, and finds nothing.
    Polls,
    /// It waits.
    Waits,
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
    fn with(kin: Kin, rank: u32, pid: Pid, lifeline: OwnedFd, output: Option<[Pump; 2]>) -> Self {
        Self {
            rank,
            pid,
            state: State::Running,
            output,
            deadline: None,
            kin,
            lifeline: Some(lifeline),
            beats: Beats::default(),
            doing: Doing::Waits,
            is_reported: false,
            patience: 0,
        }
    }

    /// A process that this one has forked.
    pub fn new(rank: u32, pid: Pid, lifeline: OwnedFd, output: Option<[Pump; 2]>) -> Self {
        Self::with(Kin::Own, rank, pid, lifeline, output)
    }

    /// A process that somebody else has started, which gets the other end of `lifeline`.
    pub fn adopted(rank: u32, pid: Pid, process: PidFd, lifeline: OwnedFd, output: Option<[Pump; 2]>) -> Self {
        Self::with(Kin::Adopted(process), rank, pid, lifeline, output)
    }

    /// For a job that could not start.
    pub fn kill_and_wait(&self) {
        self.signal(libc::SIGKILL);
        if matches!(self.kin, Kin::Own) {
            process::wait(self.pid);
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, number: i32) {
        match &self.kin {
            Kin::Own => process::kill(self.pid, number),
            Kin::Adopted(process) => process.signal(number),
        }
    }

    /// How it has ended, if it has. Once.
    pub fn ended(&self) -> Option<Ended> {
        match &self.kin {
            Kin::Own => process::reap(self.pid),
            Kin::Adopted(process) => process.has_ended().then_some(Ended::Unknown),
        }
    }

    /// Whether its end is told to its parent only, and that is somebody else.
    pub fn is_adopted(&self) -> bool {
        matches!(self.kin, Kin::Adopted(_))
    }

    /// Its descriptors to wait for, those of its output `with_output`.
    pub fn poll_items(&self, with_output: bool, items: &mut Vec<libc::pollfd>) {
        let process = match &self.kin {
            Kin::Adopted(process) if self.state != State::Gone => Some(process.fd()),
            _ => None,
        };
        let outputs = self.output.iter().filter(|_| with_output).flatten().filter_map(Pump::source);
        let all = self
            .lifeline
            .as_ref()
            .map(AsRawFd::as_raw_fd)
            .into_iter()
            .chain(outputs)
            .chain(process);
        items.extend(all.map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        }));
    }

    /// The next word that it has said.
    pub fn word(&mut self) -> Option<Word> {
        let mut message = [0; 16];
        while let Some(socket) = &self.lifeline {
            match fd::receive(socket.as_raw_fd(), &mut message) {
                Ok(n) if n > 0 => {
                    if let Some(word) = Word::decode(&message[..n]) {
                        return Some(word);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                _ => self.lifeline = None,
            }
        }
        None
    }

    fn beats_now(&self, board: &Board) -> Beats {
        let line = board.line(self.rank);
        Beats {
            waits: line.waits.load(Ordering::Relaxed),
            polls: line.polls.load(Ordering::Relaxed),
        }
    }

    /// Starts a window.
    pub fn start_window(&mut self, board: &Board) {
        self.beats = self.beats_now(board);
    }

    /// Ends a window and starts the next one.
    pub fn end_window(&mut self, board: &Board) {
        const FEW: u32 = 3;
        let now = self.beats_now(board);
        let waits = now.waits.wrapping_sub(self.beats.waits);
        let polls = now.polls.wrapping_sub(self.beats.polls);
        self.doing = if waits >= FEW {
            Doing::Waits
        } else if waits.wrapping_add(polls) >= FEW {
            Doing::Polls
        } else {
            Doing::Else
        };
        self.beats = now;
    }

    /// Kills it if it has had its time, unless it may wait for a slow reader to whom its last output is on its way.
    pub fn kill_if_overdue(&mut self, board: &Board, now: Instant, may_wait: bool) -> Overdue {
        if self.state == State::Gone || self.deadline.is_none_or(|d| now < d) {
            return Overdue::Not;
        }
        let patience = board.line(self.rank).patience.load(Ordering::Relaxed);
        let writes = self.state == State::InExit && patience != self.patience;
        if may_wait && writes {
            self.patience = patience;
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
        let mut child = Child::new(3, 0, ours, None);
        assert!(child.word().is_none());
        fd::send(theirs.as_raw_fd(), b"nonsense").unwrap();
        fd::send(theirs.as_raw_fd(), &Word::Exit { code: 7, signal: 0 }.encode()).unwrap();
        assert_eq!(child.word(), Some(Word::Exit { code: 7, signal: 0 }));
        drop(theirs);
        assert!(child.word().is_none() && child.lifeline.is_none());
    }
}
