//! The node agent of a host: a process that only waits. It never runs the client's code or its exit
//! handlers again. On one host it is the started process, and ends with the job's exit code. With
//! several hosts that is the root of the tree of agents; the others end with 0.
//!
//! How a job ends. The first rank in exit is *announced*. Other ranks then have time to join a
//! collective exit: more if they compute, less if all of them only wait inside GASNet. When that
//! time is over, or at once when a rank was lost, ranks inside GASNet must *leave*. The
//! others get SIGQUIT, and after the exit timeout SIGKILL. When all ranks are in exit or have
//! ended, they may *go*. The root decides this for all hosts; each agent enforces it on its host.

mod children;
mod deadlines;
mod endings;
pub(crate) mod exchange;
mod out_of_memory;
pub mod output;
mod shutdown;
mod signals;
mod start_line;
mod tools;

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::control_block::{ControlBlock, Phase};
use super::control_socket::RankMessage;
use super::layout::JobLayout;
use super::options::ExitTimeouts;
use super::pmi::daemon::ManagerDaemon;
use super::tree::message::{AgentMessage, Pairs, RankCounts};
use super::tree::{Tree, TreeEvent};
use super::StartOptions;
pub use children::Child;
use children::{State, Windows};
use deadlines::{Clock, Deadline};
use exchange::Gather;
use gasnet_conduit::config;
use gasnet_sys::process;
use gasnet_sys::{fd, net};
use gasnet_tools::timer::monotonic_ns;
use out_of_memory::OutOfMemory;
use output::{Output, OutputMode};
use shutdown::Shutdown;
pub use signals::take_over as take_over_signals;
use signals::{signal_name, Signals, ENDING};
use start_line::StartLine;
use tools::Tools;

/// Interval of checks while the job ends.
const TICK: Duration = Duration::from_millis(10);
/// Interval of checks whether hosts have called back, and whether ranks without control socket have
/// announced their exit.
const IMPATIENT: Duration = Duration::from_millis(200);
/// Interval of the coarse clock.
const CLOCK: Duration = Duration::from_secs(1);
/// Interval of an agent's reports while the job ends, and the limit for its silence then.
const BEAT: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_secs(30);
/// Limit for a stalled reader to delay the last output of a job that a signal has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// Limit for an orphaned agent to write its last messages.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Exit code of a job that the library itself has ended.
const BROKEN: i32 = 1;

/// Initial state of a node agent.
pub struct AgentSetup<'a> {
    pub options: &'a StartOptions,
    pub layout: &'a JobLayout,
    /// This host's number, if it has ranks.
    pub host: Option<u32>,
    /// Variables of the first host, for hosts that lack them.
    pub variables: Pairs,
    pub control: ControlBlock,
    pub children: Vec<Child>,
    /// If output is forwarded: by rank, the pipes of standard output and error.
    pub outputs: Vec<(u32, [OwnedFd; 2])>,
    /// The daemons that started the ranks, if a process manager did.
    pub daemons: Vec<ManagerDaemon>,
    pub tree: Tree,
}

/// Waits for the ranks and ends the process.
pub fn serve(setup: AgentSetup<'_>) -> ! {
    process::end(run(setup));
}

/// Waits for the ranks. Returns the exit code of the process.
pub fn run(setup: AgentSetup<'_>) -> i32 {
    let mut setup = setup;
    let mode = OutputMode::of(setup.options, setup.tree.is_root());
    let (ranks, up) = (std::mem::take(&mut setup.outputs), setup.tree.up.as_mut());
    let up = up.and_then(|up| up.outputs.take());
    let started = Signals::install().and_then(|signals| Ok((signals, Output::start(mode, ranks, up)?)));
    let (signals, output) = match started {
        Ok(started) => started,
        Err(e) => {
            let _ = fd::write_all(2, message(format_args!("the node agent cannot start: {e}")).as_bytes());
            setup.children.iter().for_each(Child::kill_and_wait);
            return BROKEN;
        }
    };
    if let Some((input, before)) = setup.tree.branches.iter_mut().find_map(|branch| branch.input.take()) {
        pump_input(input, before);
    }
    // Rank 0 is the only reader: if the agent held standard input, too, its writer would never see
    // that rank 0 has closed it.
    fd::empty_stdin();
    let mut agent = Agent {
        windows: Windows::new(setup.children.len()),
        counts: !setup.children.is_empty() && config::get().get(&config::COUNTERS),
        out_of_memory: OutOfMemory::watch(setup.children.iter().map(|child| child.pid)),
        tools: if setup.tree.is_root() && !setup.tree.is_alone() {
            Tools::listen(&setup.control)
        } else {
            Tools::default()
        },
        setup,
        signals,
        output,
        gather: Gather::default(),
        start_line: StartLine::new(),
        shutdown: Shutdown::new(),
        clock: Clock::start(),
        sampled: 0,
        leave_at: None,
        held_at: None,
        reported: None,
        shutdown_since: None,
        ended_by: None,
        cut_by: None,
    };
    let code = agent.run();
    let (tree, mut signals) = (agent.setup.tree, agent.signals);
    let (is_root, job_code) = (tree.is_root(), agent.shutdown.code);
    let has_cut = tree.close(|| {
        signals.drain();
        signals.is_terminating(job_code)
    });
    match signals.termination {
        Some(number) if is_root && has_cut && code == 0 => 128 + number,
        _ => code,
    }
}

fn message(what: fmt::Arguments<'_>) -> String {
    format!("gasnet: {what}\n")
}

/// Forwards standard input to rank 0 on another host, after the start-up line of its remote shell.
/// Either may block.
fn pump_input(to: OwnedFd, before: Vec<u8>) {
    let from = net::may_read_stdin().then(|| fd::duplicate(0).ok()).flatten();
    std::thread::spawn(move || {
        if fd::write_all(to.as_raw_fd(), &before).is_err() {
            return;
        }
        let Some(from) = from else { return };
        let mut buffer = [0; 16 << 10];
        while let Ok(n) = fd::read(from.as_raw_fd(), &mut buffer) {
            if n == 0 || fd::write_all(to.as_raw_fd(), &buffer[..n]).is_err() {
                return;
            }
        }
    });
}

struct Agent<'a> {
    setup: AgentSetup<'a>,
    signals: Signals,
    output: Output,
    gather: Gather,
    tools: Tools,
    start_line: StartLine,
    /// The last decision known here.
    shutdown: Shutdown,
    windows: Windows,
    /// The time of all that follows once the job ends.
    clock: Clock,
    out_of_memory: OutOfMemory,
    /// Whether ranks need the coarse clock.
    counts: bool,
    /// When the states of their threads were last sampled, in nanoseconds.
    sampled: u64,
    leave_at: Option<Instant>,
    /// The last check of ranks for debuggers.
    held_at: Option<Instant>,
    /// The last report to the agent above, and when.
    reported: Option<(RankCounts, Instant)>,
    /// Since when agents below must report regularly.
    shutdown_since: Option<Instant>,
    /// The first rank here that a signal asked to end: rank, pid and signal.
    ended_by: Option<(u32, i32, i32)>,
    /// The signal that dropped output of a stalled reader.
    cut_by: Option<i32>,
}

impl Agent<'_> {
    fn run(&mut self) -> i32 {
        // Messages that arrived with the layout make no descriptor readable.
        self.handle_tree_events();
        while self.alive().next().is_some() || !self.setup.tree.is_over() {
            self.wait();
            self.forward_signals();
            for i in 0..self.setup.children.len() {
                self.read_control_socket(i);
                self.reap(i);
            }
            self.check_daemons();
            self.handle_tree_events();
            self.show_start();
            self.serve_tools();
            let now = self.clock.now();
            self.advance(now);
            self.report();
        }
        self.signals.in_shutdown = true;
        self.report_signal();
        self.finish_output();
        if self.setup.tree.is_root() {
            self.exit_code()
        } else {
            0
        }
    }

    /// The job's exit code; but lost output is not a success.
    fn exit_code(&self) -> i32 {
        match (self.shutdown.code, self.cut_by) {
            (0, Some(number)) => 128 + number,
            (0, None) => i32::from(self.output.has_failed()),
            (code, _) => code,
        }
    }

    /// Prints a message to standard error, without waiting for its reader.
    fn print(&mut self, what: fmt::Arguments<'_>) {
        let erase = self.start_line.erase().unwrap_or("");
        self.output.report(&format!("{erase}{}", message(what)));
    }

    /// Shows on a terminal how many hosts have connected.
    fn show_start(&mut self) {
        if self.setup.tree.is_root() && !self.setup.tree.is_alone() {
            let (connected, all) = self.setup.tree.connected();
            if let Some(text) = self.start_line.next(connected, all, Instant::now()) {
                self.output.report(&text);
            }
        }
    }

    /// Names the signal that made the first rank end the job, unless this process got and forwarded
    /// such a signal.
    fn report_signal(&mut self) {
        self.signals.drain();
        if let Some((rank, pid, number)) = self.ended_by.filter(|_| !self.signals.was_terminated) {
            let (size, name) = (self.setup.layout.size, signal_name(number));
            self.print(format_args!(
                "rank {rank} of {size} (pid {pid}) received {name}, which ended the job"
            ));
        }
    }

    /// Forwards the remaining output when all ranks have ended. A stalled reader delays the end of
    /// the job, as it does for any program: for a limited time after a signal that ends the job,
    /// and until a second such signal.
    fn finish_output(&mut self) {
        let (mut asked_since, mut is_asked) = (None, false);
        while !self.output.finish() {
            if asked_since.is_none() && self.signals.is_terminating(self.shutdown.code) {
                asked_since = Some(Instant::now());
            }
            if is_asked || asked_since.is_some_and(|since| since.elapsed() >= LAST_OUTPUT) {
                self.cut_by = self.signals.termination;
                return;
            }
            let mut items = vec![fd::readable(self.signals.fd())];
            items.extend(self.output.running().map(fd::readable));
            let _ = fd::poll(&mut items, Some(IMPATIENT));
            is_asked = self.signals.drain();
            // The agent above needs reports, and may forward a signal.
            self.handle_tree_events();
            self.report();
        }
    }

    fn alive(&self) -> impl Iterator<Item = &Child> {
        self.setup.children.iter().filter(|c| c.state != State::Gone)
    }

    fn running(&self) -> impl Iterator<Item = &Child> {
        self.setup.children.iter().filter(|c| c.state == State::Running)
    }

    /// Sleeps until an event, or for one check interval while the job ends.
    fn wait(&mut self) {
        if self.counts {
            let (control, now) = (&self.setup.control, monotonic_ns());
            control.coarse_clock().store(now, Ordering::Relaxed);
            if now.saturating_sub(self.sampled) >= CLOCK.as_nanos() as u64 {
                self.sampled = now;
                let lanes = self.running().flat_map(|child| &control.counters(child.rank).lanes);
                lanes.for_each(|lane| lane.sample());
            }
        }
        let mut items = vec![fd::readable(self.signals.fd())];
        items.extend(self.setup.children.iter().flat_map(Child::poll_items));
        let daemons = self.setup.daemons.iter().filter_map(|daemon| daemon.process.fd());
        items.extend(daemons.map(fd::readable));
        self.setup.tree.poll_items(&mut items);
        self.tools.poll_items(&mut items);
        let limit = match self.shutdown.phase {
            Phase::Running if self.setup.tree.listener.is_some() => Some(IMPATIENT),
            Phase::Running if self.alive().any(|child| child.is_silent() || child.is_unseen()) => Some(IMPATIENT),
            Phase::Running => self.counts.then_some(CLOCK),
            _ => Some(TICK),
        };
        if fd::poll(&mut items, limit).is_err() {
            std::thread::sleep(TICK);
        }
    }

    /// Forwards signals from processes to all ranks. Those from a terminal have already reached the
    /// ranks of this host.
    fn forward_signals(&mut self) {
        while let Some((number, by_process)) = self.signals.next() {
            // A process manager forwards signals to its ranks on all hosts itself.
            if number == libc::SIGCHLD || self.setup.children.iter().any(Child::is_managed) {
                continue;
            }
            if by_process {
                self.alive().for_each(|c| c.signal(number));
            }
            self.setup.tree.send_down(&AgentMessage::Signal { number });
            // Ranks that do not exist yet cannot be signalled, and a job without them would wait
            // for ever.
            if ENDING.contains(&number) && !self.setup.tree.is_complete() {
                self.begin_shutdown(128 + number, true);
            }
        }
    }

    fn read_control_socket(&mut self, i: usize) {
        while let Some(message) = self.setup.children[i].message(&self.setup.control) {
            match message {
                // A fault after the announcement.
                RankMessage::Exit { code, .. } if self.setup.children[i].state == State::InExit => self.worsen(code),
                RankMessage::Exit { code, signal } => {
                    let child = &mut self.setup.children[i];
                    child.state = State::InExit;
                    child.announced = code;
                    // A process manager itself reports whom it ends. SIGPIPE needs no report.
                    let is_silent = [0, libc::SIGPIPE].contains(&signal) || child.is_managed();
                    if !is_silent && self.shutdown.phase < Phase::Leave {
                        self.ended_by.get_or_insert((child.rank, child.pid, signal));
                    }
                    self.begin_shutdown(code, false);
                }
                RankMessage::Asked { signal } => self.signals.record_in_exit(signal),
                RankMessage::Exchange { round, length } => self.exchange_here(round, length),
            }
        }
    }

    /// A process manager's daemon that ends before its ranks was killed, and can no longer end
    /// them.
    fn check_daemons(&mut self) {
        while let Some(i) = self.setup.daemons.iter().position(|daemon| daemon.process.has_ended()) {
            let ManagerDaemon { pid, name, .. } = self.setup.daemons.swap_remove(i);
            if self.leave_at.is_none() && self.running().next().is_some() {
                let host = net::host_name();
                self.end_job(
                    BROKEN,
                    &format!("host {host}: the process manager that started the ranks ({name}, pid {pid}) has ended"),
                );
            }
        }
    }

    /// A rank or a host was lost, for this reason.
    fn end_job(&mut self, code: i32, why: &str) {
        self.print(format_args!("{why}; ending the job"));
        self.begin_shutdown(code, true);
    }

    /// A rank that had announced another code has ended with `code`.
    fn worsen(&mut self, code: i32) {
        if self.setup.tree.is_root() {
            self.shutdown.worsen(code);
        } else {
            self.setup.tree.send_up(&AgentMessage::Worse { code });
        }
    }

    /// A rank is in exit with `code`, or was `lost`.
    fn begin_shutdown(&mut self, code: i32, lost: bool) {
        if !self.setup.tree.is_root() {
            self.setup.tree.send_up(&AgentMessage::Ended { code, lost });
            return;
        }
        let now = self.clock.now();
        if self.shutdown.arrive(code, lost, now) {
            self.apply_decision();
        }
    }

    /// Applies the last decision of the root here and below.
    fn apply_decision(&mut self) {
        let now = self.clock.now();
        self.setup.tree.send_down(&self.shutdown.message());
        self.signals.in_shutdown = true;
        self.setup.control.set_code(self.shutdown.code);
        self.setup.control.advance(self.shutdown.phase);
        let ExitTimeouts { exit: limit, busy, .. } = self.setup.options.exit_timeouts;
        let late = match self.shutdown.phase {
            Phase::Running => return,
            Phase::Announced => {
                return self.windows.restart(&mut self.setup.children, &self.setup.control, now);
            }
            Phase::Leave => State::Running,
            Phase::Go => State::InExit,
        };
        self.leave_at.get_or_insert(now);
        self.setup.tree.limit_connect_time(limit);
        for child in self.setup.children.iter_mut().filter(|c| c.state == late) {
            child.deadline = Some(Deadline::new(child.pid, now, limit, busy));
        }
    }

    /// The state of all ranks on this host and below.
    fn counts(&self) -> RankCounts {
        let epoch = self.shutdown.epoch;
        let mut all = self.setup.tree.counts(epoch);
        all.add(&RankCounts {
            running: self.running().count() as u32,
            held: self.running().filter(|c| c.held).count() as u32,
            present: self.alive().count() as u32,
            epoch,
            waiting: self.windows.waiting,
            idle: self.windows.idle,
        });
        all
    }

    /// Reports changes to the agent above.
    fn report(&mut self) {
        if self.setup.tree.is_root() {
            return;
        }
        let mut counts = self.counts();
        // No decision needs more.
        counts.waiting = counts.waiting.min(8);
        counts.idle = counts.idle.min(8);
        let now = Instant::now();
        let ends = self.shutdown.phase != Phase::Running;
        let is_due = |(last, at): (RankCounts, Instant)| last != counts || (ends && now >= at + BEAT);
        if self.reported.is_none_or(is_due) {
            self.reported = Some((counts, now));
            self.setup.tree.send_up(&AgentMessage::Report { counts });
        }
    }

    fn advance(&mut self, now: Instant) {
        if self.shutdown.phase != Phase::Running {
            self.setup.control.beat();
            self.watch_held(now);
        }
        if self.shutdown.phase == Phase::Announced {
            self.windows.check(&mut self.setup.children, &self.setup.control, now);
        }
        if self
            .shutdown
            .advance(self.counts(), self.setup.options.exit_timeouts, now)
        {
            self.apply_decision();
        }
        self.enforce_deadlines(now);
        self.drop_silent_branches(now);
    }

    /// Gives up agents below that are silent while the job ends: they would delay the end for ever.
    fn drop_silent_branches(&mut self, now: Instant) {
        if self.shutdown.phase == Phase::Running || now < *self.shutdown_since.get_or_insert(now) + SILENCE {
            return;
        }
        for why in self.setup.tree.silent(SILENCE) {
            self.print(format_args!("{why}; the job ends without it"));
            self.begin_shutdown(BROKEN, true);
        }
    }

    fn handle_tree_events(&mut self) {
        let (layout, variables) = (self.setup.layout, &self.setup.variables);
        let shutdown = &self.shutdown;
        let events = self.setup.tree.events(|branch| {
            let start = AgentMessage::Start {
                ranges: layout.ranges.clone(),
                nbrhd_max: layout.nbrhd_max,
                variables: variables.clone(),
                todo: branch.todo.clone(),
            };
            // An agent that connects while the job ends must learn that, too.
            let end = (shutdown.phase != Phase::Running).then(|| shutdown.message());
            [start].into_iter().chain(end).collect()
        });
        for event in events {
            match event {
                TreeEvent::Orphaned => self.orphaned(),
                TreeEvent::Lost(why) => self.end_job(BROKEN, &why),
                TreeEvent::Output(stream, connection) => self.output.add(stream, connection),
                TreeEvent::Up(AgentMessage::Ended { code, lost }) => self.begin_shutdown(code, lost),
                TreeEvent::Up(AgentMessage::Worse { code }) => self.worsen(code),
                TreeEvent::Up(AgentMessage::Gather { round, length, parts }) => self.exchange(round, length, parts),
                TreeEvent::Down(AgentMessage::Phase { phase, code, epoch }) => {
                    (self.shutdown.phase, self.shutdown.code, self.shutdown.epoch) = (phase, code, epoch);
                    self.apply_decision();
                }
                TreeEvent::Down(AgentMessage::Result { round, bytes }) => self.deliver(round, bytes),
                TreeEvent::Down(AgentMessage::Signal { number }) => {
                    self.signals.record(number);
                    self.alive().for_each(|c| c.signal(number));
                    self.setup.tree.send_down(&AgentMessage::Signal { number });
                }
                TreeEvent::Down(AgentMessage::Look { round }) => self.look(round),
                TreeEvent::Up(AgentMessage::View { round, at, ranks }) => {
                    self.pass_on(round, &AgentMessage::View { round, at, ranks });
                }
                TreeEvent::Up(_) | TreeEvent::Down(_) => {}
            }
        }
    }

    /// The agent above is lost. Ranks still alive are killed.
    fn orphaned(&mut self) {
        self.alive().for_each(|c| c.signal(libc::SIGKILL));
        self.setup.tree.abandon();
        // Messages printed just before.
        let since = Instant::now();
        while !self.output.finish() && since.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(1));
        }
        process::end(BROKEN);
    }
}
