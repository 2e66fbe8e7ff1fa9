//! The process that runs a job: starts its ranks, serves their library, and ends all of them when
//! one fails as Cray's launchers define it.

use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{parent_id, CommandExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::arguments::{Plan, Style};
use super::environment::{is_removed, Job};
use super::os::{self, Signals};
use super::server::Server;
use super::state::{Phase, State};
use crate::protocol::Layout;
use crate::words::{Words, VARIABLE};

/// Time that processes which ranks have started may outlive them.
const GRACE: Duration = Duration::from_secs(2);
/// The exit code of a job that was killed, as of one that SIGKILL ended.
const KILLED: i32 = 128 + libc::SIGKILL;
/// Between looks for processes that outlive the ranks.
const PAUSE: Duration = Duration::from_millis(20);

struct Running<'a> {
    job: Job<'a>,
    state: State,
    server: Server,
    /// By process: its rank.
    ranks: BTreeMap<i32, u32>,
    /// Exit codes of ranks that were not killed by this process.
    codes: Vec<i32>,
    /// When the first rank ended.
    first_end: Option<Instant>,
    is_ending: bool,
    /// The process that the user started.
    guard: u32,
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// NICs of a node, from the options of the emulator of uGNI.
fn nics() -> u32 {
    let text = env::var("EMU_UGNI").unwrap_or_default();
    let found = text
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("nics="));
    found.and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// Runs it. Returns the exit code.
pub fn run(plan: &Plan, words: &Words, library: &Path, signals: Signals) -> i32 {
    os::inherit_orphans();
    match start(plan, words, library, signals) {
        Ok((mut running, descriptor)) => {
            running.run(&descriptor);
            running.code()
        }
        Err(why) => {
            eprintln!("{}: {why}", plan.style.name());
            os::kill_all();
            1
        }
    }
}

fn start<'a>(
    plan: &'a Plan,
    words: &'a Words,
    library: &'a Path,
    signals: Signals,
) -> Result<(Running<'a>, OwnedFd), String> {
    let descriptor = signals
        .descriptor()
        .map_err(|why| format!("cannot wait for signals: {why}"))?;
    let at = format!("emu-pmi-{:016x}", random());
    let server = Server::open(&at).map_err(|why| format!("cannot listen: {why}"))?;
    let id = 1 + (random() % 99_999) as u32;
    let apps = (0..).zip(&plan.apps);
    let layout = Layout {
        job: format!("kvs_{id}"),
        nodes: (0..plan.size()).map(|rank| plan.node_of(rank)).collect(),
        apps: apps
            .flat_map(|(number, app)| (0..app.ranks).map(move |_| number))
            .collect(),
    };
    let cookie = random() as u32;
    let mut running = Running {
        job: Job {
            plan,
            words,
            at,
            id,
            // As `GNI_GetPtag` of the emulator of uGNI returns it.
            ptag: 3 + ((cookie ^ cookie >> 16) % 125) as u8,
            cookie,
            nics: nics(),
            is_elan: plan.style == Style::Prun || env::var_os("EMU_ELAN").is_some(),
            library,
        },
        state: State::new(layout, words.seed, words.lazy_fence),
        server,
        ranks: BTreeMap::new(),
        codes: Vec::new(),
        first_end: None,
        is_ending: false,
        guard: parent_id(),
    };
    running.spawn(signals)?;
    Ok((running, descriptor))
}

impl Running<'_> {
    fn spawn(&mut self, signals: Signals) -> Result<(), String> {
        let (text, path) = (env::var(VARIABLE).unwrap_or_default(), env::var_os("LD_LIBRARY_PATH"));
        let own = std::process::id();
        let plan = self.job.plan;
        let programs = plan.apps.iter().flat_map(|app| (0..app.ranks).map(|_| &app.command));
        for (rank, words) in (0..).zip(programs) {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            for (name, _) in env::vars_os().filter(|(name, _)| is_removed(name)) {
                command.env_remove(name);
            }
            command.envs(self.job.variables(rank, &text, path.as_deref()));
            if rank > 0 {
                command.stdin(Stdio::null());
            }
            let host = self.node(rank).into_bytes();
            let prepare = move || {
                os::name_host(&host);
                os::die_with_parent(own, libc::SIGKILL);
                os::reset_signals(&signals);
                Ok(())
            };
            // SAFETY: system calls only.
            unsafe { command.pre_exec(prepare) };
            let child = command.spawn();
            let child = child.map_err(|why| format!("cannot start {}: {why}", words[0].to_string_lossy()))?;
            if plan.verbose {
                let (name, pid) = (plan.style.name(), child.id());
                eprintln!("{name}: task {rank} is process {pid} on {}", self.node(rank));
            }
            self.ranks.insert(child.id() as i32, rank);
        }
        Ok(())
    }

    /// The name of a rank's node.
    fn node(&self, rank: u32) -> String {
        format!("nid{:05}", 100 + self.job.plan.node_of(rank))
    }

    fn run(&mut self, descriptor: &OwnedFd) {
        while !self.ranks.is_empty() {
            let mut items = self.server.items();
            items.push(os::readable(descriptor));
            os::poll(&mut items, self.time_left());
            while let Some(number) = os::next_signal(descriptor) {
                self.signal(number);
            }
            // Before the ends of processes, because they finalise first.
            self.serve();
            while let Some((pid, status)) = os::reap() {
                if let Some(rank) = self.ranks.remove(&pid) {
                    self.serve();
                    self.ended(rank, status);
                }
            }
            if self.time_left() == 0 {
                self.end("the time to wait for all tasks has passed");
            }
        }
        self.sweep();
    }

    fn serve(&mut self) {
        self.server.serve(&mut self.state);
        for complaint in std::mem::take(&mut self.state.complaints) {
            let _ = writeln!(io::stderr(), "{}: {complaint}", self.job.plan.style.name());
        }
        if let Some(rank) = self.state.aborted {
            let why = format!("rank {rank} has called PMI2_Abort");
            self.end(&why);
        }
    }

    /// Milliseconds until the others are killed, or -1.
    fn time_left(&self) -> i32 {
        match (self.job.plan.wait, self.first_end) {
            (Some(wait), Some(first)) if !self.is_ending => {
                let left = Duration::from_secs(wait.into()).saturating_sub(first.elapsed());
                left.as_millis().min(i32::MAX as u128) as i32
            }
            _ => -1,
        }
    }

    fn signal(&mut self, number: i32) {
        if number == libc::SIGCHLD {
            return;
        }
        if parent_id() != self.guard {
            self.end("the launcher was killed");
            return;
        }
        for pid in self.ranks.keys() {
            os::kill(*pid, number);
        }
    }

    fn ended(&mut self, rank: u32, status: i32) {
        let phase = self.state.phase(rank);
        let answers = self.state.ended(rank);
        self.judge(rank, status, phase);
        // They would be lost.
        if !self.is_ending {
            self.server.answer(answers);
        }
    }

    /// Whether a rank's end is that of the job.
    fn judge(&mut self, rank: u32, status: i32, phase: Phase) {
        self.first_end.get_or_insert_with(Instant::now);
        if self.is_ending && libc::WIFSIGNALED(status) {
            return;
        }
        let code = if libc::WIFSIGNALED(status) {
            128 + libc::WTERMSIG(status)
        } else {
            libc::WEXITSTATUS(status)
        };
        self.codes.push(code);
        if libc::WIFSIGNALED(status) {
            let why = format!("rank {rank} on {} was killed by signal {}", self.node(rank), code - 128);
            self.fail(&why, 1);
        } else if phase == Phase::Joined && !self.job.words.lenient {
            let why = format!(
                "rank {rank} on {} has ended without PMI_Finalize, with exit code {code}",
                self.node(rank)
            );
            self.fail(&why, 1);
        } else if code != 0 {
            if self.job.plan.style == Style::Srun {
                let _ = writeln!(
                    io::stderr(),
                    "srun: error: {}: task {rank}: Exited with exit code {code}",
                    self.node(rank)
                );
            }
            if self.job.plan.kill_on_bad_exit {
                self.end("a task has failed");
            }
        }
    }

    /// A rank has failed: the job ends, with at least this exit code.
    fn fail(&mut self, why: &str, code: i32) {
        self.codes.push(code);
        self.end(why);
    }

    /// Kills all ranks.
    fn end(&mut self, why: &str) {
        if std::mem::replace(&mut self.is_ending, true) {
            return;
        }
        let _ = match self.job.plan.style {
            Style::Aprun => writeln!(
                io::stderr(),
                "aprun: Apid {}: initiated application termination: {why}",
                self.job.id
            ),
            Style::Srun => writeln!(io::stderr(), "srun: error: step {}.0 is terminated: {why}", self.job.id),
            Style::Prun => writeln!(io::stderr(), "prun: the program is terminated: {why}"),
        };
        if !self.ranks.is_empty() {
            self.codes.push(KILLED);
        }
        for pid in self.ranks.keys() {
            os::kill(*pid, libc::SIGKILL);
        }
    }

    /// Ends what ranks have started and left, which compute nodes do not keep.
    fn sweep(&self) {
        let begin = Instant::now();
        while !self.is_ending && begin.elapsed() < GRACE && !os::children().is_empty() {
            while os::reap().is_some() {}
            std::thread::sleep(PAUSE);
        }
        os::kill_all();
    }

    /// The job's exit code: the largest.
    fn code(&self) -> i32 {
        let code = self.codes.iter().copied().max().unwrap_or(0);
        if code != 0 && self.job.plan.style == Style::Aprun {
            eprintln!("Application {} exit codes: {code}", self.job.id);
        }
        code
    }
}
