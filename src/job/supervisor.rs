//! The process that waits: it was started, it has forked the ranks, and it ends with the job's exit code. It never runs the client's code
//! again, nor its exit handlers.
//!
//! How a job ends. The first rank in exit is *announced*. Ranks that are on their way to a collective exit then have time to arrive, more if
//! they are busy, less if all of them only wait inside GASNet for something that cannot come. When the time is over, or at once when a
//! rank was lost, those inside GASNet are told to *leave*, the others get SIGQUIT, and after the exit timeout SIGKILL. When all are in
//! exit or gone they may *go*.

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use super::board::{Board, Phase};
use super::output::Labeller;
use super::{lifeline, signals, StartOptions};
use crate::os::process::{self, Ended, Pid};
use crate::os::{cpus, fd, signal};

/// How often an ending job is looked at.
const TICK: Duration = Duration::from_millis(10);
/// From "leave" to SIGQUIT.
const BEFORE_QUIT: Duration = Duration::from_millis(30);
/// How long busy ranks may take to arrive when the exit code says failure.
const BUSY_FAILURE: Duration = Duration::from_secs(1);
/// Signals that are passed on to all ranks when a process (not a terminal, which reaches the ranks itself) sent them.
const FORWARDED: [i32; 6] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    InExit,
    Gone,
}

/// A rank, seen from the supervisor.
pub struct Child {
    rank: u32,
    pid: Pid,
    state: State,
    /// None once the rank's end is closed.
    lifeline: Option<OwnedFd>,
    output: Option<[Labeller; 2]>,
    /// Signs of waiting at the start of the current window.
    beats: u32,
    /// Last seen sign of a slow reader.
    patience: u32,
    /// When it is killed if it is still there.
    deadline: Option<Instant>,
}

impl Child {
    pub fn new(rank: u32, pid: Pid, lifeline: OwnedFd, output: Option<[Labeller; 2]>) -> Self {
        Self {
            rank,
            pid,
            state: State::Running,
            lifeline: Some(lifeline),
            output,
            beats: 0,
            patience: 0,
            deadline: None,
        }
    }

    /// For a job that could not start.
    pub fn kill_and_wait(&self) {
        process::kill(self.pid, libc::SIGKILL);
        process::wait(self.pid);
    }

    fn beats_now(&self, board: &Board, with_polls: bool) -> u32 {
        let line = board.line(self.rank);
        let polls = if with_polls { line.polls.load(Ordering::Relaxed) } else { 0 };
        line.waits.load(Ordering::Relaxed).wrapping_add(polls)
    }
}

/// Waits for the ranks and ends the process.
pub(super) fn supervise(options: &StartOptions, board: Board, children: Vec<Child>) -> ! {
    let signals = match Signals::install() {
        Ok(signals) => signals,
        Err(e) => {
            say(format_args!("the supervisor cannot start: {e}"));
            children.iter().for_each(Child::kill_and_wait);
            process::end(1);
        }
    };
    // Rank 0 is the only reader: were the supervisor to hold it as well, a writer would never learn that rank 0 has closed it.
    fd::empty_stdin();
    let mut supervisor = Supervisor {
        options,
        board,
        children,
        signals,
        ending: None,
        window: window(options.ranks),
    };
    process::end(supervisor.run())
}

fn say(what: fmt::Arguments<'_>) {
    let _ = fd::write_all(2, format!("gasnet: {what}\n").as_bytes());
}

/// Over what time ranks are judged to wait: long enough for each to run a few times.
fn window(ranks: u32) -> Duration {
    Duration::from_millis(40) + Duration::from_millis(10) * (ranks / cpus::usable())
}

/// An end that has begun.
struct Ending {
    /// Exit code of the job, 0 to 255.
    code: i32,
    since: Instant,
    /// A rank was lost: nobody waits for the others to arrive.
    lost: bool,
    /// Start of the current window, and windows in a row in which all others only waited.
    window_start: Instant,
    quiet_windows: u32,
    leave_at: Option<Instant>,
    quit_sent: bool,
    went: bool,
}

struct Supervisor<'a> {
    options: &'a StartOptions,
    board: Board,
    children: Vec<Child>,
    signals: Signals,
    ending: Option<Ending>,
    window: Duration,
}

impl Supervisor<'_> {
    fn run(&mut self) -> i32 {
        while self.children.iter().any(|c| c.state != State::Gone) {
            self.wait();
            self.forward_signals();
            for i in 0..self.children.len() {
                self.read_lifeline(i);
                self.reap(i);
            }
            self.pass_output();
            self.advance(Instant::now());
        }
        self.pass_output();
        self.children
            .iter_mut()
            .flat_map(|c| &mut c.output)
            .flatten()
            .for_each(Labeller::finish);
        self.ending.as_ref().map_or(0, |e| e.code)
    }

    /// Sleeps until something happens, or for a tick while the job ends.
    fn wait(&mut self) {
        let lifelines = self
            .children
            .iter()
            .filter_map(|c| c.lifeline.as_ref())
            .map(AsRawFd::as_raw_fd);
        let outputs = self
            .children
            .iter()
            .flat_map(|c| &c.output)
            .flatten()
            .filter_map(Labeller::source);
        let fds = std::iter::once(self.signals.fd()).chain(lifelines).chain(outputs);
        let mut items: Vec<_> = fds
            .map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        if fd::poll(&mut items, self.ending.as_ref().map(|_| TICK)).is_err() {
            std::thread::sleep(TICK);
        }
    }

    fn forward_signals(&mut self) {
        while let Some((number, by_process)) = self.signals.next() {
            if number != libc::SIGCHLD && by_process {
                let alive = self.children.iter().filter(|c| c.state != State::Gone);
                alive.for_each(|c| process::kill(c.pid, number));
            }
        }
    }

    fn read_lifeline(&mut self, i: usize) {
        let mut message = [0; 16];
        while let Some(socket) = &self.children[i].lifeline {
            match fd::receive(socket.as_raw_fd(), &mut message) {
                Ok(0) => self.children[i].lifeline = None,
                Ok(n) => {
                    if let Some(code) = lifeline::decode_exit(&message[..n]) {
                        self.children[i].state = State::InExit;
                        self.begin(code, false);
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => self.children[i].lifeline = None,
            }
        }
    }

    /// Looks whether a rank has ended. What it said before is read first.
    fn reap(&mut self, i: usize) {
        if self.children[i].state == State::Gone {
            return;
        }
        let Some(ended) = process::reap(self.children[i].pid) else {
            return;
        };
        self.read_lifeline(i);
        let was_in_exit = self.children[i].state == State::InExit;
        self.children[i].state = State::Gone;
        // Whoever was told to end may do so in any way.
        if self.ending.as_ref().is_some_and(|e| e.leave_at.is_some()) {
            return;
        }
        let child = &self.children[i];
        let who = format!("rank {} of {} (pid {})", child.rank, self.children.len(), child.pid);
        match ended {
            Ended::Exited(_) | Ended::Unknown if was_in_exit => {}
            Ended::Exited(0) if !self.options.catch_exit => {}
            Ended::Exited(status) if !self.options.catch_exit => self.begin(status, false),
            Ended::Exited(status) => {
                say(format_args!(
                    "{who} ended with status {status} without gasnet_exit; ending the job"
                ));
                self.begin(status, true);
            }
            Ended::Killed(number) => {
                match signals::signal_name(number) {
                    "signal" => say(format_args!("{who} was killed by signal {number}; ending the job")),
                    name => say(format_args!("{who} was killed by {name}; ending the job")),
                }
                self.begin(128 + number, true);
            }
            Ended::Unknown => {
                say(format_args!(
                    "{who} is gone, and another thread of the started process took its status; ending the job"
                ));
                self.begin(1, true);
            }
        }
    }

    /// A rank is in exit with `code`, or was `lost`. The first code counts, but success gives way to a failure that comes before
    /// anybody is told to leave.
    fn begin(&mut self, code: i32, lost: bool) {
        let code = code & 0xff;
        let now = Instant::now();
        let ending = self.ending.get_or_insert(Ending {
            code,
            since: now,
            lost,
            window_start: now,
            quiet_windows: 0,
            leave_at: None,
            quit_sent: false,
            went: false,
        });
        if ending.leave_at.is_none() {
            if ending.code == 0 {
                ending.code = code;
            }
            ending.lost |= lost;
            // Ranks are arriving: look anew at those that are not here.
            (ending.window_start, ending.quiet_windows) = (now, 0);
            self.board.set_code(ending.code);
            self.board.advance(Phase::Announced);
            self.start_window();
        }
    }

    fn advance(&mut self, now: Instant) {
        let Some(&Ending {
            leave_at,
            quit_sent,
            went,
            ..
        }) = self.ending.as_ref()
        else {
            return;
        };
        let running = self.children.iter().any(|c| c.state == State::Running);
        match leave_at {
            _ if !running && !went => {
                self.go(now);
            }
            None if self.time_is_over(now) => self.leave(now),
            Some(at) if !quit_sent && now >= at + BEFORE_QUIT => self.quit(),
            _ => {}
        }
        self.kill_overdue(now);
    }

    /// Whether those who are not in exit have had their time.
    fn time_is_over(&mut self, now: Instant) -> bool {
        let Some(ending) = &mut self.ending else { return false };
        let (busy, windows) = if ending.code == 0 {
            (self.options.exit_timeout, 4)
        } else {
            (BUSY_FAILURE.min(self.options.exit_timeout), 1)
        };
        if ending.lost || now >= ending.since + busy {
            return true;
        }
        if now < ending.window_start + self.window {
            return false;
        }
        // A progress thread polls while others work, so that polls alone are a sign of idleness only in failure.
        let with_polls = ending.code != 0;
        let mut running = self.children.iter().filter(|c| c.state == State::Running);
        let quiet = running.all(|c| c.beats_now(&self.board, with_polls).wrapping_sub(c.beats) >= 3);
        ending.quiet_windows = if quiet { ending.quiet_windows + 1 } else { 0 };
        ending.window_start = now;
        let over = ending.quiet_windows >= windows;
        self.start_window();
        over
    }

    fn start_window(&mut self) {
        let with_polls = self.ending.as_ref().is_some_and(|e| e.code != 0);
        for child in &mut self.children {
            child.beats = child.beats_now(&self.board, with_polls);
        }
    }

    fn leave(&mut self, now: Instant) {
        if let Some(ending) = &mut self.ending {
            ending.leave_at = Some(now);
        }
        self.board.advance(Phase::Leave);
        let deadline = now + self.options.exit_timeout;
        self.children
            .iter_mut()
            .filter(|c| c.state == State::Running)
            .for_each(|c| c.deadline = Some(deadline));
    }

    fn quit(&mut self) {
        if let Some(ending) = &mut self.ending {
            ending.quit_sent = true;
        }
        self.children
            .iter()
            .filter(|c| c.state == State::Running)
            .for_each(|c| process::kill(c.pid, libc::SIGQUIT));
    }

    fn go(&mut self, now: Instant) {
        if let Some(ending) = &mut self.ending {
            ending.went = true;
            ending.leave_at.get_or_insert(now);
        }
        self.board.advance(Phase::Go);
        let deadline = now + self.options.exit_timeout;
        self.children
            .iter_mut()
            .filter(|c| c.state == State::InExit)
            .for_each(|c| c.deadline = Some(deadline));
    }

    /// Kills whoever has had its time, unless its last output is on its way to a slow reader.
    fn kill_overdue(&mut self, now: Instant) {
        for child in &mut self.children {
            if child.state == State::Gone || child.deadline.is_none_or(|d| now < d) {
                continue;
            }
            let patience = self.board.line(child.rank).patience.load(Ordering::Relaxed);
            if child.state == State::InExit && patience != child.patience {
                child.patience = patience;
                child.deadline = Some(now + Duration::from_secs(1));
            } else {
                process::kill(child.pid, libc::SIGKILL);
                child.deadline = None;
            }
        }
    }

    fn pass_output(&mut self) {
        self.children
            .iter_mut()
            .flat_map(|c| &mut c.output)
            .flatten()
            .for_each(Labeller::pass);
    }
}

static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);

/// The signals of the supervisor, as a queue. A handler, not a blocked set: other threads of the client may still exist here.
struct Signals {
    reader: OwnedFd,
}

impl Signals {
    fn install() -> std::io::Result<Self> {
        let (reader, writer) = fd::pipe()?;
        fd::set_nonblocking(&reader)?;
        fd::set_nonblocking(&writer)?;
        SIGNAL_PIPE.store(writer.as_raw_fd(), Ordering::Release);
        // The handler needs it for as long as the process lives.
        std::mem::forget(writer);
        signal::stop_timers();
        quieten_client_handlers();
        signal::ignore(libc::SIGPIPE);
        // What a shell made its background jobs ignore concerns only what a terminal sends, and that is not passed on.
        let of_shell = |n: i32| matches!(n, libc::SIGINT | libc::SIGQUIT);
        let heard = |n: &i32| of_shell(*n) || signal::disposition(*n) != signal::Disposition::Ignored;
        for number in FORWARDED.into_iter().filter(heard) {
            signal::handle(number, on_signal, &[]);
        }
        signal::handle(libc::SIGCHLD, on_signal, &[]);
        // A rank may have ended while signals were held back and the handler was not there.
        on_signal(libc::SIGCHLD, std::ptr::null_mut(), std::ptr::null_mut());
        signal::unblock_all();
        Ok(Self { reader })
    }

    fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// The next signal, and whether a process sent it.
    fn next(&mut self) -> Option<(i32, bool)> {
        let mut item = [0; 2];
        match fd::read(self.fd(), &mut item) {
            Ok(2) => Some((i32::from(item[0]), item[1] != 0)),
            _ => None,
        }
    }
}

/// The client's handlers are for ranks. Here faults keep their default, so that a defect shows, and the rest does nothing.
fn quieten_client_handlers() {
    for number in 1..=signal::last() {
        if let signal::Disposition::Handler(_) = signal::disposition(number) {
            match number {
                libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGABRT | libc::SIGSYS | libc::SIGTRAP => {
                    signal::set_default(number);
                }
                libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU | libc::SIGCONT => signal::set_default(number),
                _ => signal::ignore(number),
            }
        }
    }
}

extern "C" fn on_signal(number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure, and `install` a null pointer, which is allowed.
    let by_process = unsafe { signal::sent_by_process(info) };
    // A full pipe means that the supervisor has enough to look at.
    fd::write_pair(SIGNAL_PIPE.load(Ordering::Acquire), number as u8, by_process);
}
