//! The options of a job.

use std::env;
use std::ffi::{CString, OsString};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::agent::output::OutputMode;
use super::custom::Custom;
use super::invitation::Invitation;
use super::pmi::{self, current, Membership};
use super::spawn::ssh::{self, Remote};
use super::spawn::{hosts, Contact};
use super::spawner::{self, Source, Spawner, Starter};
use super::{launcher_record, refuse, JobError};
use gasnet_conduit::config::{self, Config, FromValue, Key, SignalSet};
use gasnet_conduit::{Bootstrap, SystemLauncher};
use gasnet_sys::net;

/// Most ranks on one host. A larger number is probably a mistake.
pub const MAX_RANKS: u32 = 1024;

pub(super) const RANKS: &str = "GASNET_PSHM_NODES";
/// The value of `RANKS` that a job has set itself. Programs started by ranks do not take it for the
/// user's. (The launcher removes it.)
pub(super) const RANKS_OF_JOB: &str = "_GASNET_JOB_RANKS";

/// The number of ranks in a form that users do not write.
fn inherited(ranks: u32) -> String {
    format!("+{ranks}")
}

/// Whether the number of ranks is inherited from the job that started this process.
fn is_inherited() -> bool {
    env::var_os(RANKS_OF_JOB).is_some_and(|of_job| env::var_os(RANKS) == Some(of_job))
}

/// What a library contributes.
#[derive(Clone, Default)]
pub struct Library<'a> {
    /// Its conduits.
    pub names: Vec<&'a str>,
    /// Whether one of them has a network that reaches other hosts.
    pub network: bool,
    /// Whether one of them is for a single host, so that programs may be meant to run alone.
    pub alone: bool,
    /// The program's first argument, if it may be a number of ranks.
    pub count: Option<Count>,
    /// The system of a conduit that has started this process.
    pub bootstrap: Option<&'static dyn Bootstrap>,
    /// The program that starts processes for the system of a conduit, if none has started this one.
    pub launcher: Option<SystemLauncher>,
}

/// A number as the program's first argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// It is among the arguments that the client has passed.
    Passed {
        /// The number; [`u32::MAX`] stands for all greater ones.
        ranks: u32,
        /// The program's name and its other arguments.
        rest: Vec<CString>,
    },
    /// It is only on the process's command line; its meaning to the program is unknown.
    Unpassed(u32),
}

/// How ranks are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartMethod {
    /// This process forks them.
    Fork,
    /// Remote shells start them on several hosts; this host is the first.
    Ssh,
    /// A remote shell has started this process, which forks the ranks of its host.
    SshChild(Contact),
    /// A node agent has executed the program again as a rank.
    Fresh(Invitation),
    /// A command of the user starts them; this is the launcher process.
    Custom,
    /// Such a command has started this process, which has connected to the launcher process.
    CustomWorker,
    /// A process manager has started all ranks, including this process.
    Managed,
}

/// Exit timeouts. `GASNET_EXITTIMEOUT` and related variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitTimeouts {
    /// The exit timeout: until ranks that poll must leave, and from then until ranks are killed.
    pub exit: Duration,
    /// After a success: until ranks that compute must leave.
    pub busy: Duration,
    /// The same after a failure.
    pub failure: Duration,
}

/// How to start and end a job.
#[allow(clippy::struct_excessive_bools)] // Each is a variable of its own.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// How ranks are started. `GASNET_SPAWNER`, `GASNET_<conduit>_SPAWNER`, `GASNET_SPAWNFN`, or
    /// detected.
    pub start: StartMethod,
    /// If the first argument is the number of ranks: the other arguments, with which to restart the
    /// program ([`super::restart()`]).
    pub restart: Option<Vec<CString>>,
    /// Ranks to start. `GASNET_PSHM_NODES`.
    pub ranks: u32,
    /// Most ranks in a neighbourhood; 0: no limit. `GASNET_SUPERNODE_MAXSIZE`.
    pub nbrhd_max: u32,
    /// Cores that the ranks of a host share; 0: all available. `GASNET_HOST_CORES`.
    pub cores: u32,
    /// How long an ending job waits for ranks.
    pub exit_timeouts: ExitTimeouts,
    /// Whether a rank that returns from `main` or calls `exit` ends the job. `GASNET_CATCH_EXIT`.
    pub catch_exit: bool,
    /// Signals that get no handler. `GASNET_NO_CATCH_SIGNAL`.
    pub no_catch: SignalSet,
    /// Whether to call sync at the end. `GASNET_FS_SYNC`.
    pub sync_files: bool,
    /// Directory of shared memory files, if nothing better works. `GASNET_TMPDIR`, `TMPDIR`.
    pub directory: PathBuf,
    /// Whether each line of output starts with its rank. `GASNET_LABEL_OUTPUT`, set by the
    /// launcher.
    pub label_output: bool,
    /// If output is routed to the first host: up to how many bytes lines are kept together.
    /// `GASNET_ROUTE_OUTPUT`, `GASNET_CSPAWN_ROUTE_OUTPUT`, `GASNET_LINEBUFFERSZ`.
    pub route_output: Option<usize>,
    /// Whether to report the start, and what failed at first. `GASNET_VERBOSEENV`,
    /// `GASNET_SPAWN_VERBOSE`.
    pub verbose: bool,
    /// How to reach other hosts.
    pub remote: Remote,
    /// The user's command that starts the ranks.
    pub custom: Custom,
    /// The network of the addresses that ranks of different hosts use. `GASNET_WORKERIP`.
    pub workers: Option<IpAddr>,
}

impl StartOptions {
    /// Reads the environment, and connects to the process manager that has started this process.
    pub fn from_config(config: &Config, library: &Library<'_>) -> Result<Self, JobError> {
        Self::from_environment(config, library, |name| env::var_os(name))
    }

    fn from_environment(
        config: &Config,
        library: &Library<'_>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, JobError> {
        let (start, is_counted) = start(config, library, environment)?;
        let (ranks, restart) = match library.count.clone().filter(|_| is_counted) {
            Some(Count::Passed { ranks, rest }) => (ranks, Some(rest)),
            Some(Count::Unpassed(number)) => {
                return refuse(format!(
                    "the first argument of this program is {number}, but the argc and argv passed to GASNet \
                     lack it, so it cannot be the number of ranks. Start the program with gasnetrun_<conduit> \
                     -n N, or set GASNET_PSHM_NODES=N (1 for one rank)"
                ))
            }
            None => (config.get(&config::PSHM_NODES), None),
        };
        let membership = current::membership();
        let is_first = membership.as_ref().is_none_or(|membership| membership.rank == 0);
        if is_first && !matches!(start, StartMethod::Fresh(_)) {
            warn_ignored(config.ignored());
        }
        let ranks = membership.as_ref().map_or(ranks, |membership| membership.size);
        if let Some(Membership { manager, rank: 0, .. }) = membership.filter(|_| is_verbose(config)) {
            eprintln!("gasnet: {ranks} ranks of {manager}");
        }
        if restart.is_some() && !(1..=1 << 20).contains(&ranks) {
            return refuse(
                "the first argument of a program started without a launcher is the number of its ranks, 1 to \
                 1048576; this one is out of range. With gasnetrun_<conduit> -n or GASNET_PSHM_NODES, all \
                 arguments are the program's",
            );
        }
        // For all programs that ranks start, here and on other hosts.
        if restart.is_none() && env::var_os(RANKS).is_some() {
            env::set_var(RANKS, inherited(ranks));
            env::set_var(RANKS_OF_JOB, inherited(ranks));
        }
        if restart.is_none() {
            launcher_record::consume();
        }
        if start == StartMethod::Fork && ranks > MAX_RANKS {
            let name = if restart.is_some() {
                "number of ranks "
            } else {
                "GASNET_PSHM_NODES="
            };
            return refuse(format!(
                "{name}{ranks}: one host starts at most {MAX_RANKS} ranks; name more hosts with GASNET_SSH_SERVERS"
            ));
        }
        let directory = config
            .get(&config::TMPDIR)
            .or_else(|| env::var_os("TMPDIR").filter(|d| !d.is_empty()).map(PathBuf::from));
        Ok(Self {
            route_output: routes(config, &start, library.network)?.then(|| config.get(&config::LINEBUFFERSZ) as usize),
            start,
            restart,
            ranks,
            nbrhd_max: config.get(&config::SUPERNODE_MAXSIZE),
            cores: config.get(&config::HOST_CORES),
            exit_timeouts: exit_timeouts(config, ranks),
            catch_exit: config.get(&config::CATCH_EXIT),
            no_catch: config
                .get(&config::NO_CATCH_SIGNAL)
                .unwrap_or(SignalSet::Some(Vec::new())),
            sync_files: config.get(&config::FS_SYNC),
            directory: directory.unwrap_or_else(|| PathBuf::from("/tmp")),
            label_output: config.get(&config::LABEL_OUTPUT),
            verbose: is_verbose(config),
            remote: remote(config)?,
            custom: Custom {
                command: ssh::variable("GASNET_CSPAWN_CMD"),
                servers: ssh::variable("GASNET_CSPAWN_SERVERS")
                    .map_or_else(Vec::new, |text| hosts::parse_list(&text.to_string_lossy())),
                env: ssh::variable("GASNET_ENV_CMD"),
                rank_in: rank_in(),
            },
            workers: workers(config)?,
        })
    }
}

impl StartOptions {
    /// Reads again what may still change once the job has begun.
    pub(super) fn refresh(&mut self, config: &Config) {
        self.exit_timeouts = exit_timeouts(config, self.ranks);
        self.catch_exit = config.get(&config::CATCH_EXIT);
        self.no_catch = config
            .get(&config::NO_CATCH_SIGNAL)
            .unwrap_or(SignalSet::Some(Vec::new()));
        self.sync_files = config.get(&config::FS_SYNC);
        self.verbose = is_verbose(config);
    }

    /// The address of this host in the network that the user has chosen, if there is one.
    pub(super) fn worker_address(&self) -> Result<Option<IpAddr>, JobError> {
        self.workers.map(address_in).transpose()
    }

    /// How the agent forwards output, if it does; `is_first`: it is the root.
    pub(super) fn output(&self, is_first: bool) -> Option<OutputMode> {
        // Also on the first host, because its ranks flush their buffers in the middle of lines of
        // others.
        (self.label_output || self.route_output.is_some()).then(|| OutputMode {
            label: self.label_output,
            up: self.route_output.is_some() && !is_first,
            line_max: self.route_output.unwrap_or(0),
        })
    }
}

/// The address of this host in the network that contains `network`; `network` itself if it is one
/// of this host's.
fn address_in(network: IpAddr) -> Result<IpAddr, JobError> {
    let all = net::addresses();
    let exact = all.iter().find(|own| own.ip == network);
    if let Some(own) = exact.or_else(|| all.iter().find(|own| own.network_has(network))) {
        return Ok(own.ip);
    }
    let own: Vec<String> = all.iter().map(|a| format!("{}/{}", a.ip, a.prefix)).collect();
    Err(JobError::new(format!(
        "GASNET_WORKERIP={network}: host {} has no address in that network; it has {}",
        net::host_name(),
        own.join(", ")
    )))
}

/// Whether the agents route output to the first host, in whole lines. Process managers do that
/// themselves.
fn routes(config: &Config, start: &StartMethod, network: bool) -> Result<bool, JobError> {
    match start {
        StartMethod::Managed => Ok(false),
        // The other names are for udp.
        StartMethod::Fork if !network => Ok(config.get(&config::ROUTE_OUTPUT)),
        StartMethod::Custom | StartMethod::CustomWorker => under_any_name(config, &config::CSPAWN_ROUTE_OUTPUT),
        StartMethod::Fork | StartMethod::Ssh | StartMethod::SshChild(_) | StartMethod::Fresh(_) => {
            under_any_name(config, &config::ROUTE_OUTPUT)
        }
    }
}

/// Whether a flag is set, by its own name or by those that users of udp know.
fn under_any_name(config: &Config, key: &Key<bool>) -> Result<bool, JobError> {
    let name = key.variable.name;
    let Some(text) = ssh::variable(name).filter(|_| !config.is_set(key)) else {
        return Ok(config.get(key));
    };
    let given = text.to_str().and_then(|text| key.variable.parse(text).ok());
    match given.and_then(|value| bool::from_value(&value)) {
        Some(value) => Ok(value),
        None => refuse(format!(
            "{}={}: {} is expected (the variable is {name}, or the same with AMUDP_ or nothing for GASNET_)",
            name.trim_start_matches("GASNET_"),
            text.to_string_lossy(),
            key.variable.kind.accepts()
        )),
    }
}

/// The warning of a privileged process whose caller has set variables that it ignores.
fn warn_ignored(names: &[String]) {
    if !names.is_empty() {
        gasnet_tools::process::warn(format_args!(
            "this program has privileges of its file (set-user-ID, set-group-ID or capabilities), so variables that \
             name libraries, commands or files are ignored: {}",
            names.join(", ")
        ));
    }
}

/// Whether to report the start.
fn is_verbose(config: &Config) -> bool {
    config.get(&config::VERBOSEENV) || config.get(&config::SPAWN_VERBOSE)
}

/// An address or a name from `GASNET_MASTERIP`. It passes through shells.
fn master(text: &str) -> Result<String, JobError> {
    let text = text.trim();
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    if bare.is_empty() || !bare.chars().all(|c| c.is_ascii_alphanumeric() || ".:-_".contains(c)) {
        return refuse(format!(
            "GASNET_MASTERIP={text}: expected an address or a name of this host"
        ));
    }
    Ok(bare.to_owned())
}

fn remote(config: &Config) -> Result<Remote, JobError> {
    let text = |name: &str| ssh::variable(name).map(|v| v.to_string_lossy().into_owned());
    let names = config.get(&config::SPAWN_ENVIRONMENT).unwrap_or_default();
    Ok(Remote {
        command: text("GASNET_SSH_CMD").unwrap_or_else(|| "ssh".into()),
        options: text("GASNET_SSH_OPTIONS").unwrap_or_default(),
        out_degree: config.get(&config::SSH_OUT_DEGREE),
        folder: ssh::variable("GASNET_SSH_REMOTE_PATH"),
        env: ssh::variable("GASNET_ENV_CMD").unwrap_or_else(|| "env".into()),
        master: config.get(&config::MASTERIP).map(|text| master(&text)).transpose()?,
        keep_duplicates: config.get(&config::SSH_KEEPDUP),
        most_hosts: config.get(&config::SPAWN_HOSTS),
        limit: Some(Duration::from_secs_f64(config.get(&config::SPAWN_TIMEOUT))).filter(|limit| !limit.is_zero()),
        wins: hosts::parse_list(&names),
    })
}

/// The variable that `GASNET_WORKER_RANK` names for all workers. (A number would be for one.)
fn rank_in() -> Option<String> {
    let name = env::var("GASNET_WORKER_RANK").ok()?.trim().to_owned();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (is_name && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

fn workers(config: &Config) -> Result<Option<IpAddr>, JobError> {
    let Some(text) = config.get(&config::WORKERIP) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(ip) => Ok(Some(ip)),
        Err(_) => refuse(format!(
            "GASNET_WORKERIP={text}: expected an address of the network to use, such as 192.168.0.0 or fd00::"
        )),
    }
}

/// Decides how ranks are started, and whether the program's first argument is their number. The
/// order: an agent, remote shell or launcher process that started this process; the user's spawner;
/// a number of ranks that the user has set; a process manager; the program's first argument; hosts
/// in the environment.
fn start(
    config: &Config,
    library: &Library<'_>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<(StartMethod, bool), JobError> {
    if let Some(invitation) = Invitation::take() {
        return Ok((StartMethod::Fresh(invitation), false));
    }
    if let Some(contact) = Contact::take(false) {
        return Ok((StartMethod::SshChild(contact?), false));
    }
    if current::membership().is_some() {
        return Ok((StartMethod::CustomWorker, false));
    }
    let is_set = config.is_set(&config::PSHM_NODES);
    let count = library.count.as_ref().filter(|_| !is_set || is_inherited());
    let ranks = match count {
        Some(Count::Passed { ranks, .. }) => *ranks,
        _ => config.get(&config::PSHM_NODES),
    };
    let selected = spawner::selected(library, None, &environment).map_err(JobError::new)?;
    // As the reference's udp does.
    let by_spawnfn = selected.as_ref().is_some_and(|s| s.source == Source::SpawnFn);
    if by_spawnfn && !library.alone && !is_set && library.count.is_none() {
        return refuse(format!(
            "GASNET_SPAWNFN is set, but not how many ranks to start. Pass their number as the first argument, \
             set GASNET_PSHM_NODES=N (1 for one rank), or start the program with gasnetrun_{} -n N",
            library.names.join(", ")
        ));
    }
    let is_open = selected.as_ref().map_or(!is_set, |s| s.spawner.is_manager());
    if is_open {
        let manager = pmi::detect_here(config.get(&config::PMI)).map_err(JobError::new)?;
        if let Some(manager) = manager {
            current::set(pmi::connect(manager)?);
            return Ok((StartMethod::Managed, false));
        }
        if let Some(bootstrap) = library.bootstrap {
            current::set(pmi::connect_by(bootstrap)?);
            return Ok((StartMethod::Managed, false));
        }
        if let Some(selected) = &selected {
            return refuse(format!(
                "{} asks for a process manager, but none has started this process: no {} in the environment. \
                 Start the program with mpiexec, mpirun or srun, or unset the variable",
                selected.why,
                pmi::LOOKED_FOR
            ));
        }
        if let Some(message) = lonely_task(&environment).filter(|_| count.is_none() && ranks == 1) {
            return refuse(message);
        }
    }
    let decision = selected.unwrap_or_else(|| spawner::suggested(library, Starter::Program(ranks), &environment));
    let method = match decision.spawner {
        Spawner::Ssh => StartMethod::Ssh,
        Spawner::Custom => StartMethod::Custom,
        Spawner::Fork | Spawner::Pmi | Spawner::Mpi => StartMethod::Fork,
    };
    Ok((method, count.is_some()))
}

/// The error of a task of a Slurm step that has several tasks and offers no PMI. Each would be a
/// job of one rank, which is rarely meant. Only the first task has a message.
fn lonely_task(environment: impl Fn(&str) -> Option<OsString>) -> Option<String> {
    let number = |name: &str| environment(name)?.to_str()?.parse::<u32>().ok();
    let tasks = number("SLURM_STEP_NUM_TASKS").filter(|&tasks| tasks > 1)?;
    environment("SLURM_STEP_ID")?;
    if number("SLURM_PROCID")? != 0 {
        return Some(String::new());
    }
    Some(format!(
        "srun has started {tasks} tasks, but offers them no PMI, so each would be a job of one rank. `srun \
         --mpi=pmi2` or `--mpi=pmix` makes them one job; GASNET_PSHM_NODES=1 makes each task a job"
    ))
}

/// Seconds for a rank that computes when the job has failed.
const BUSY_FAILURE: f64 = 1.0;

/// The exit timeout is min(MAX, MIN + ranks × FACTOR). A rank that computes has MAX, or one second
/// after a failure. `GASNET_EXITTIMEOUT` replaces all of them.
fn exit_timeouts(config: &Config, ranks: u32) -> ExitTimeouts {
    let most = config.get(&config::EXITTIMEOUT_MAX);
    let formula = config.get(&config::EXITTIMEOUT_MIN) + f64::from(ranks) * config.get(&config::EXITTIMEOUT_FACTOR);
    let given = config.get(&config::EXITTIMEOUT);
    ExitTimeouts {
        exit: Duration::from_secs_f64(given.unwrap_or(formula.min(most))),
        busy: Duration::from_secs_f64(given.unwrap_or(most)),
        failure: Duration::from_secs_f64(given.unwrap_or(formula.min(most).min(BUSY_FAILURE))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)], names: &[&str], count: Option<Count>) -> Result<StartOptions, String> {
        let library = Library {
            names: names.to_vec(),
            network: names.contains(&"net"),
            alone: names.contains(&"smp"),
            count,
            bootstrap: None,
            launcher: None,
        };
        let all = pairs.iter().map(|p| (OsString::from(p.0), OsString::from(p.1)));
        let config = Config::from_env(&[], all).map_err(|e| e.to_string())?;
        let environment = |name: &str| pairs.iter().find(|p| p.0 == name).map(|p| OsString::from(p.1));
        StartOptions::from_environment(&config, &library, environment).map_err(|e| e.message)
    }

    #[test]
    fn values() {
        let options = read(&[], &["smp"], None).unwrap();
        let read_values = (
            options.ranks,
            options.nbrhd_max,
            options.catch_exit,
            options.label_output,
        );
        assert_eq!(read_values, (1, 0, true, false));
        let folder = read(&[("GASNET_TMPDIR", "/b")], &["smp"], None).unwrap().directory;
        assert_eq!(folder, PathBuf::from("/b"));
        for bad in ["0", "-1", "four", "4x", "99999999999999999999", "1.5", "1025"] {
            let message = read(&[("GASNET_PSHM_NODES", bad)], &["smp"], None).unwrap_err();
            assert!(message.contains(&format!("GASNET_PSHM_NODES={bad}")), "{message}");
        }
    }

    #[test]
    fn how_ranks_are_started() {
        let rest = vec![CString::from(c"a.out")];
        let (passed, unpassed) = (Count::Passed { ranks: 3, rest }, Count::Unpassed(3));
        let (none, passed, unpassed) = (&None, &Some(passed), &Some(unpassed));
        let task = "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0";
        for (settings, count, expected) in [
            ("", none, "Fork 1"),
            ("GASNET_SPAWNER=ssh", none, "Ssh 1"),
            ("GASNET_SPAWNFN=L", passed, "Fork 3"),
            ("GASNET_SPAWNFN=S", passed, "Ssh 3"),
            ("GASNET_SPAWNFN=C", passed, "Custom 3"),
            ("SSH_SERVERS=a,b", passed, "Ssh 3"),
            ("GASNET_PSHM_NODES=4", passed, "Fork 4"),
            ("GASNET_PSHM_NODES=4", unpassed, "Fork 4"),
            ("", unpassed, "first argument of this program is 3"),
            ("GASNET_SPAWNFN=L", none, "but not how many ranks"),
            ("GASNET_SPAWNFN=L GASNET_PSHM_NODES=1", none, "Fork 1"),
            ("GASNET_SPAWNFN=G", none, "GASNET_SPAWNFN=G"),
            ("GASNET_SPAWNER=pmi", none, "PMI_FD"),
            // Tasks of Slurm without PMI. Only the first has a message.
            (task, none, "srun has started 3 tasks"),
            (task, passed, "Fork 3"),
            (&task.replace("PROCID=0", "PROCID=1"), none, ""),
            (&task.replace("TASKS=3", "TASKS=1"), none, "Fork 1"),
            (&task.replace("TASKS=3", "TASKS=x"), none, "Fork 1"),
            (&task.replace("STEP_ID", "NO_STEP_ID"), none, "Fork 1"),
        ] {
            let pairs: Vec<_> = settings.split(' ').filter_map(|s| s.split_once('=')).collect();
            match read(&pairs, &["net"], count.clone()) {
                Ok(options) => assert_eq!(format!("{:?} {}", options.start, options.ranks), expected, "{settings}"),
                Err(why) => assert!(why.contains(expected) && why.is_empty() == expected.is_empty(), "{why}"),
            }
        }
    }

    #[test]
    fn exit_timeouts() {
        let four = ("GASNET_PSHM_NODES", "4");
        let (exit, most) = (("GASNET_EXITTIMEOUT", "7"), ("GASNET_EXITTIMEOUT_MAX", "0.5"));
        let formula = [
            four,
            ("GASNET_EXITTIMEOUT_MIN", "1"),
            ("GASNET_EXITTIMEOUT_FACTOR", "0.5"),
        ];
        for (pairs, seconds) in [
            (&[][..], [2.25, 30.0, 1.0]),
            (&formula, [3.0, 30.0, 1.0]),
            (&[four, most], [0.5, 0.5, 0.5]),
            (&[exit, most], [7.0, 7.0, 7.0]),
        ] {
            let timeouts = read(pairs, &["smp"], None).unwrap().exit_timeouts;
            let all = [timeouts.exit, timeouts.busy, timeouts.failure];
            assert_eq!(all, seconds.map(Duration::from_secs_f64), "{pairs:?}");
        }
    }
}
