//! The ranks of one host, as its node agent sees them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::control_block::ControlBlock;
use super::super::control_socket::{self, RankMessage};
use super::deadlines::Deadline;
use gasnet_sys::process::{self, Ended, Pid, Watched};
use gasnet_sys::{cpus, fd, progress};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not called exit.
    Running,
    /// It has called exit.
    InExit,
    /// It has ended.
    Gone,
}

#[derive(Debug)]
pub struct Child {
    pub rank: u32,
    pub pid: Pid,
    pub state: State,
    /// In exit: the code that it has announced.
    pub announced: i32,
    /// It was late, and this agent has killed it.
    pub is_killed: bool,
    pub deadline: Option<Deadline>,
    /// A user examines it with a debugger, or it waits for one.
    pub held: bool,
    /// If a process manager is its parent.
    process: Option<Watched>,
    /// None once the rank's end is closed.
    control_socket: Option<OwnedFd>,
    /// Its calls at the start of the current window: those that waited, and those that polled.
    calls: [u32; 2],
    /// Its activity in the last window.
    pub activity: Activity,
    /// Its time on processors, and for how many windows in a row that has not grown.
    slept: (Duration, u32),
    pub asked: Asked,
    /// The count of stalled flushes at the last check.
    pub stalled_flushes: u32,
}

/// Whether a rank that must leave was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Not,
    Quit,
    /// The same, and a message has named it as late.
    Reported,
}

/// Activity of a rank before it calls exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// It rarely or never calls GASNet.
    Working,
    /// It polls without success, or sleeps while its receive thread serves messages.
    Polling,
    /// It waits inside GASNet.
    Waiting,
}

impl Child {
    /// A process that this agent has forked, or whose `process` a process manager has started. It
    /// gets the other end of `control_socket`.
    pub fn new(rank: u32, pid: Pid, process: Option<Watched>, control_socket: OwnedFd) -> Self {
        Self {
            rank,
            pid,
            state: State::Running,
            announced: 0,
            is_killed: false,
            deadline: None,
            held: false,
            process,
            control_socket: Some(control_socket),
            calls: [0; 2],
            activity: Activity::Waiting,
            slept: (Duration::ZERO, 0),
            asked: Asked::Not,
            stalled_flushes: 0,
        }
    }

    /// Kills it when the job could not start.
    pub fn kill_and_wait(&self) {
        self.signal(libc::SIGKILL);
        if !self.is_managed() {
            process::wait(self.pid);
        }
    }

    pub fn signal(&self, number: i32) {
        match &self.process {
            None => process::kill(self.pid, number),
            Some(process) => process.signal(number),
        }
    }

    /// How it has ended, if it has. Returned once.
    pub fn ended(&self) -> Option<Ended> {
        match &self.process {
            None => process::reap(self.pid),
            Some(process) => process.has_ended().then_some(Ended::Unknown),
        }
    }

    /// Whether a process manager is its parent, and learns its status.
    pub fn is_managed(&self) -> bool {
        self.process.is_some()
    }

    pub fn poll_items(&self) -> impl Iterator<Item = libc::pollfd> + '_ {
        let process = self.process.iter().filter(|_| self.state != State::Gone);
        let process = process.filter_map(Watched::fd);
        let control_socket = self.control_socket.iter().map(AsRawFd::as_raw_fd);
        control_socket.chain(process).map(fd::readable)
    }

    /// Whether its client has closed its end of the control socket. Then only looking shows that it
    /// is in exit.
    pub fn is_silent(&self) -> bool {
        self.state == State::Running && self.control_socket.is_none()
    }

    /// Whether only looking shows that it has ended.
    pub fn is_unseen(&self) -> bool {
        self.state != State::Gone && self.process.as_ref().is_some_and(|process| process.fd().is_none())
    }

    pub fn message(&mut self, control: &ControlBlock) -> Option<RankMessage> {
        let mut message = [0; 16];
        while let Some(socket) = &self.control_socket {
            match fd::receive(socket.as_raw_fd(), &mut message) {
                Ok(n) if n > 0 => {
                    let number = message[..n].try_into().map(u64::from_ne_bytes);
                    if let Some(word) = number.ok().and_then(RankMessage::decode) {
                        return Some(word);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                _ => self.control_socket = None,
            }
        }
        control_socket::announcement(control.status(self.rank))
    }

    /// Starts a window. Returns the calls in the last one: those that waited, and those that
    /// polled.
    fn start_window(&mut self, control: &ControlBlock) -> [u32; 2] {
        let line = control.status(self.rank);
        let now = [&line.waits, &line.polls].map(|count| count.load(Ordering::Relaxed));
        let before = std::mem::replace(&mut self.calls, now);
        [0, 1].map(|i| now[i].wrapping_sub(before[i]))
    }

    fn end_window(&mut self, control: &ControlBlock) {
        const FEW: u32 = 3;
        let [waits, polls] = self.start_window(control);
        self.activity = if waits >= FEW {
            Activity::Waiting
        } else if waits.wrapping_add(polls) >= FEW || self.sleeps(control) {
            Activity::Polling
        } else {
            Activity::Working
        };
    }

    /// Whether it has a receive thread, and no thread of it has run for some windows, nor does it
    /// wait for a child. Called once a window.
    fn sleeps(&mut self, control: &ControlBlock) -> bool {
        const SOME: u32 = 6;
        if control.status(self.rank).receives.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let times = progress::run_times(self.pid);
        let has_run = times.is_runnable || times.ran != self.slept.0;
        self.slept = (times.ran, if has_run { 0 } else { self.slept.1 + 1 });
        self.slept.1 >= SOME && !progress::has_children(self.pid)
    }
}

/// Observes, window by window, what running ranks do while the job ends.
#[derive(Debug)]
pub struct Windows {
    /// Long enough for each rank to run a few times.
    length: Duration,
    start: Instant,
    /// For how many windows in a row all running ranks only waited.
    pub waiting: u32,
    /// For how many they only waited or polled.
    pub idle: u32,
}

impl Windows {
    pub fn new(ranks: usize) -> Self {
        Self {
            length: Duration::from_millis(40) + Duration::from_millis(10) * (ranks as u32 / cpus::usable()),
            start: Instant::now(),
            waiting: 0,
            idle: 0,
        }
    }

    pub fn restart(&mut self, ranks: &mut [Child], control: &ControlBlock, now: Instant) {
        (self.start, self.waiting, self.idle) = (now, 0, 0);
        for rank in ranks {
            rank.start_window(control);
        }
    }

    /// Evaluates the current window if it is over.
    pub fn check(&mut self, ranks: &mut [Child], control: &ControlBlock, now: Instant) {
        if now < self.start + self.length {
            return;
        }
        self.start = now;
        for rank in &mut *ranks {
            rank.end_window(control);
        }
        let running = ranks.iter().filter(|rank| rank.state == State::Running);
        let least = running.map(|rank| rank.activity).min();
        let more = |times, holds| if holds { times + 1 } else { 0 };
        self.waiting = more(self.waiting, least >= Some(Activity::Waiting));
        self.idle = more(self.idle, least >= Some(Activity::Polling));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_through_and_nonsense_does_not() {
        let (ours, theirs) = fd::seqpacket_pair().unwrap();
        let mut child = Child::new(3, 0, None, ours);
        let control = ControlBlock::create(4, 4, false).unwrap();
        assert!(child.message(&control).is_none());
        let exit = RankMessage::Exit { code: 7, signal: 0 };
        let bytes = exit.encode().to_ne_bytes();
        for message in [b"nonsense", &bytes[..7], &[&bytes[..], b"x"].concat(), &bytes] {
            fd::send(theirs.as_raw_fd(), message).unwrap();
        }
        assert_eq!(child.message(&control), Some(exit));
        assert!(!child.is_silent());
        drop(theirs);
        assert!(child.message(&control).is_none() && child.is_silent());
    }
}
