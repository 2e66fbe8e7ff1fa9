//! The options of a job.

use std::env;
use std::ffi::CString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::agent::output::OutputMode;
use super::custom::Custom;
use super::spawn::ssh::{self, Remote};
use super::spawn::{hosts, Contact};
use super::{pmi, pmi_bootstrap, refuse, JobError};
use gasnet_conduit::config::{self, Config, FromValue, Key, SignalSet, Spawner};

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
#[derive(Clone, Debug, Default)]
pub struct Library<'a> {
    /// Its conduits.
    pub names: Vec<&'a str>,
    /// Whether one of them has a network that reaches other hosts.
    pub network: bool,
    /// The program's first argument, if it may be a number of ranks.
    pub count: Option<Count>,
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
    /// A command of the user starts them; this is the launcher process.
    Custom,
    /// Such a command has started this process, which has connected to the launcher process.
    CustomWorker,
    /// A process manager has started all ranks, including this process.
    Managed(pmi::DetectedManager),
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
    /// program ([`super::restart`]).
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
    /// Reads the environment.
    pub fn from_config(config: &Config, library: &Library<'_>) -> Result<Self, JobError> {
        let Decision { start, counted } = start(config, library)?;
        let (ranks, restart) = match library.count.clone().filter(|_| counted) {
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
                servers: ssh::variable("GASNET_CSPAWN_SERVERS").map_or_else(Vec::new, |text| {
                    let text = text.to_string_lossy();
                    text.split(|c: char| c == ',' || c.is_whitespace())
                        .filter(|name| !name.is_empty())
                        .map(str::to_owned)
                        .collect()
                }),
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

    /// Sets the number of ranks that a process manager reports.
    pub(super) fn set_ranks(&mut self, ranks: u32) {
        self.ranks = ranks;
        self.exit_timeouts = exit_timeouts(config::get(), ranks);
    }
}

/// Whether the agents route output to the first host, in whole lines. Process managers do that
/// themselves.
fn routes(config: &Config, start: &StartMethod, network: bool) -> Result<bool, JobError> {
    match start {
        StartMethod::Managed(_) => Ok(false),
        // The other names are for udp.
        StartMethod::Fork if !network => Ok(config.get(&config::ROUTE_OUTPUT)),
        StartMethod::Custom | StartMethod::CustomWorker => under_any_name(config, &config::CSPAWN_ROUTE_OUTPUT),
        StartMethod::Fork | StartMethod::Ssh | StartMethod::SshChild(_) => {
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
        limit: Duration::from_secs_f64(config.get(&config::SPAWN_TIMEOUT)),
        wins: names
            .split(',')
            .map(|n| n.trim().to_owned())
            .filter(|n| !n.is_empty())
            .collect(),
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

/// The requested spawner and its variable: the first conduit's own variable that is set, then the
/// general one, then that of udp programs. Clients set the last two for any conduit, so they count
/// only where there is a network.
fn asked(config: &Config, library: &Library<'_>) -> Result<Option<(String, Requested)>, JobError> {
    let of_conduits = library
        .names
        .iter()
        .map(|name| format!("GASNET_{}_SPAWNER", name.to_ascii_uppercase()));
    let mut variables = of_conduits.chain(library.network.then(|| "GASNET_SPAWNER".to_owned()));
    let found = variables.find_map(|variable| {
        let setting = config
            .settings()
            .iter()
            .find(|s| s.variable.name == variable && s.is_set)?;
        let spawner = Spawner::from_value(&setting.value).filter(|&s| s != Spawner::Auto)?;
        Some((variable, Requested::Spawner(spawner)))
    });
    if found.is_some() || !library.network {
        return Ok(found);
    }
    let Some(code) = config.get(&config::SPAWNFN) else {
        return Ok(None);
    };
    let spawner = match code.trim() {
        "L" | "l" => Requested::Spawner(Spawner::Fork),
        "S" | "s" => Requested::Spawner(Spawner::Ssh),
        "C" | "c" => Requested::Custom,
        other => {
            return refuse(format!(
                "GASNET_SPAWNFN={other}: expected L (this host), S (remote shells) or C (the command of \
                 GASNET_CSPAWN_CMD)"
            ))
        }
    };
    Ok(Some(("GASNET_SPAWNFN".into(), spawner)))
}

/// A spawner that a user may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requested {
    Spawner(Spawner),
    Custom,
}

/// How ranks are started, and whether the program's first argument is their number.
struct Decision {
    start: StartMethod,
    counted: bool,
}

/// Decides how ranks are started. The order: a remote shell or launcher process that started this
/// process; the user's spawner; a number of ranks that the user has set; a process manager; the
/// program's first argument; hosts in the environment.
fn start(config: &Config, library: &Library<'_>) -> Result<Decision, JobError> {
    if let Some(contact) = Contact::take(false) {
        let start = StartMethod::SshChild(contact?);
        return Ok(Decision { start, counted: false });
    }
    if pmi_bootstrap::has_manager() {
        let start = StartMethod::CustomWorker;
        return Ok(Decision { start, counted: false });
    }
    let set = config.settings().iter().any(|s| s.variable.name == RANKS && s.is_set);
    let count = library.count.as_ref().filter(|_| !set || is_inherited());
    let by_argument = |start| Decision {
        start,
        counted: count.is_some(),
    };
    let by_manager = |kind| Decision {
        start: StartMethod::Managed(kind),
        counted: false,
    };
    let ranks = match count {
        Some(Count::Passed { ranks, .. }) => *ranks,
        _ => config.get(&config::PSHM_NODES),
    };
    let found = || {
        if library.network && suggests_hosts(ranks) {
            StartMethod::Ssh
        } else {
            StartMethod::Fork
        }
    };
    let asked = asked(config, library)?;
    // As the reference's udp does. A library that also holds smp may be meant to run alone.
    let wants_count =
        asked.as_ref().is_some_and(|(variable, _)| variable == "GASNET_SPAWNFN") && !library.names.contains(&"smp");
    if wants_count && !set && library.count.is_none() {
        return refuse(format!(
            "GASNET_SPAWNFN is set, but not how many ranks to start. Pass their number as the first argument, \
             set GASNET_PSHM_NODES=N (1 for one rank), or start the program with gasnetrun_{} -n N",
            library.names.join(", ")
        ));
    }
    match asked {
        Some((variable, Requested::Spawner(Spawner::Ssh))) if !library.network => refuse(format!(
            "{variable}=ssh: this library holds no conduit with a network ({}), so all ranks are on one host",
            library.names.join(", ")
        )),
        Some((_, Requested::Spawner(Spawner::Ssh))) => Ok(by_argument(StartMethod::Ssh)),
        Some((_, Requested::Spawner(Spawner::Fork))) => Ok(by_argument(StartMethod::Fork)),
        Some((_, Requested::Custom)) => Ok(by_argument(StartMethod::Custom)),
        Some((variable, _)) => match managed(config)? {
            Some(kind) => Ok(by_manager(kind)),
            None => refuse(format!(
                "{variable} asks for a process manager, but none has started this process: no {} in the \
                 environment. Start the program with mpiexec, mpirun or srun, or unset the variable",
                pmi::LOOKED_FOR
            )),
        },
        None if set => Ok(by_argument(found())),
        None => {
            let kind = managed(config)?;
            match lonely_task(|name| env::var(name).ok()) {
                Some(task) if kind.is_none() && count.is_none() && ranks == 1 => refuse(task.refusal()),
                _ => Ok(kind.map_or_else(|| by_argument(found()), by_manager)),
            }
        }
    }
}

/// A task of a Slurm step that has several tasks and offers no PMI. Each would be a job of one
/// rank, which is rarely meant.
#[derive(Debug, PartialEq, Eq)]
struct LonelyTask {
    tasks: u32,
    is_first: bool,
}

impl LonelyTask {
    /// The message of the first task. The other tasks end without one.
    fn refusal(&self) -> String {
        if !self.is_first {
            return String::new();
        }
        format!(
            "srun has started {} tasks, but offers them no PMI, so each would be a job of one rank. `srun \
             --mpi=pmi2` or `--mpi=pmix` makes them one job; GASNET_PSHM_NODES=1 makes each task a job",
            self.tasks
        )
    }
}

fn lonely_task(variable: impl Fn(&str) -> Option<String>) -> Option<LonelyTask> {
    let number = |name: &str| variable(name)?.parse::<u32>().ok();
    let tasks = number("SLURM_STEP_NUM_TASKS").filter(|&tasks| tasks > 1)?;
    variable("SLURM_STEP_ID")?;
    let is_first = number("SLURM_PROCID")? == 0;
    Some(LonelyTask { tasks, is_first })
}

/// Whether the user or a batch system names hosts for this number of ranks. (A Slurm step has its
/// hosts already.)
fn suggests_hosts(ranks: u32) -> bool {
    let environment = |name: &str| env::var_os(name);
    if hosts::are_named(environment) {
        return true;
    }
    if ranks < 2 || hosts::is_in_step(environment) {
        return false;
    }
    hosts::allocated("gasnet", environment).is_some()
}

/// The process manager that has started this process.
fn managed(config: &Config) -> Result<Option<pmi::DetectedManager>, JobError> {
    pmi::detect_here(config.get(&config::PMI)).map_err(JobError::new)
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
    use std::ffi::OsString;

    fn smp() -> Library<'static> {
        Library {
            names: vec!["smp"],
            ..Library::default()
        }
    }

    fn read(pairs: &[(&str, &str)]) -> Result<StartOptions, String> {
        let pairs = pairs.iter().map(|p| (OsString::from(p.0), OsString::from(p.1)));
        let config = Config::from_env(&[], pairs).map_err(|e| e.to_string())?;
        StartOptions::from_config(&config, &smp()).map_err(|e| e.message)
    }

    #[test]
    fn defaults() {
        let options = read(&[]).unwrap();
        assert_eq!(
            (
                options.ranks,
                options.nbrhd_max,
                options.catch_exit,
                options.label_output
            ),
            (1, 0, true, false)
        );
        assert_eq!(read(&[("GASNET_TMPDIR", "/b")]).unwrap().directory, PathBuf::from("/b"));
    }

    #[test]
    fn bad_values_are_named() {
        for bad in ["0", "-1", "four", "4x", "99999999999999999999", "1.5", "1025"] {
            let message = read(&[("GASNET_PSHM_NODES", bad)]).unwrap_err();
            assert!(message.contains(&format!("GASNET_PSHM_NODES={bad}")), "{message}");
        }
        assert!(read(&[("GASNET_SMP_SPAWNER", "ssh")])
            .unwrap_err()
            .contains("no conduit with a network"));
        assert!(read(&[("GASNET_SMP_SPAWNER", "telepathy")]).is_err());
        assert!(read(&[("GASNET_SMP_SPAWNER", "FORK")]).is_ok());
    }

    fn of_network(pairs: &[(&str, &str)], count: Option<Count>) -> Result<(StartMethod, bool), String> {
        let library = Library {
            names: vec!["net"],
            network: true,
            count,
        };
        let pairs = pairs.iter().map(|p| (OsString::from(p.0), OsString::from(p.1)));
        let config = Config::from_env(&[], pairs).map_err(|e| e.to_string())?;
        start(&config, &library)
            .map(|d| (d.start, d.counted))
            .map_err(|e| e.message)
    }

    #[test]
    fn spawners_by_wish() {
        let three = || {
            let rest = vec![CString::from(c"a.out")];
            Some(Count::Passed { ranks: 3, rest })
        };
        assert_eq!(
            of_network(&[("GASNET_SPAWNER", "ssh")], None).unwrap(),
            (StartMethod::Ssh, false)
        );
        assert_eq!(
            of_network(&[("GASNET_SPAWNFN", "L")], three()).unwrap(),
            (StartMethod::Fork, true)
        );
        assert_eq!(
            of_network(&[("GASNET_SPAWNFN", "S")], three()).unwrap(),
            (StartMethod::Ssh, true)
        );
        assert_eq!(
            of_network(&[("GASNET_PSHM_NODES", "4")], three()).unwrap(),
            (StartMethod::Fork, false)
        );
        assert!(of_network(&[("GASNET_SPAWNFN", "L")], None)
            .unwrap_err()
            .contains("but not how many ranks"));
        assert!(of_network(&[("GASNET_SPAWNFN", "L"), ("GASNET_PSHM_NODES", "1")], None).is_ok());
        assert!(of_network(&[("GASNET_SPAWNFN", "G")], None)
            .unwrap_err()
            .contains("GASNET_SPAWNFN=G"));
        assert!(of_network(&[("GASNET_SPAWNER", "pmi")], None)
            .unwrap_err()
            .contains("PMI_FD"));
        // Without a network these are meant for other conduits.
        assert_eq!(
            read(&[("GASNET_SPAWNER", "ssh"), ("GASNET_SPAWNFN", "S")])
                .unwrap()
                .start,
            StartMethod::Fork
        );
    }

    #[test]
    fn a_number_that_was_not_passed_is_refused() {
        let read = |pairs: &[(&str, &str)]| {
            let library = Library {
                names: vec!["net"],
                network: true,
                count: Some(Count::Unpassed(3)),
            };
            let pairs = pairs.iter().map(|p| (OsString::from(p.0), OsString::from(p.1)));
            let config = Config::from_env(&[], pairs).map_err(|e| e.to_string())?;
            StartOptions::from_config(&config, &library).map_err(|e| e.message)
        };
        assert!(read(&[]).unwrap_err().contains("first argument of this program is 3"));
        assert_eq!(read(&[("GASNET_PSHM_NODES", "4")]).unwrap().ranks, 4);
    }

    #[test]
    fn exit_timeouts() {
        let timeouts = |pairs: &[(&str, &str)]| read(pairs).unwrap().exit_timeouts;
        let timeout = |pairs: &[(&str, &str)]| timeouts(pairs).exit.as_secs_f64();
        let four = ("GASNET_PSHM_NODES", "4");
        assert!(
            (timeout(&[
                four,
                ("GASNET_EXITTIMEOUT_MIN", "1"),
                ("GASNET_EXITTIMEOUT_FACTOR", "0.5")
            ]) - 3.0)
                .abs()
                < 1e-9
        );
        assert!((timeout(&[four, ("GASNET_EXITTIMEOUT_MAX", "0.5")]) - 0.5).abs() < 1e-9);
        assert!((timeout(&[("GASNET_EXITTIMEOUT", "7"), ("GASNET_EXITTIMEOUT_MAX", "0.5")]) - 7.0).abs() < 1e-9);
        assert_eq!(timeouts(&[]).busy, Duration::from_secs(30));
        let given = timeouts(&[("GASNET_EXITTIMEOUT", "7")]);
        assert_eq!(
            (given.busy, given.failure),
            (Duration::from_secs(7), Duration::from_secs(7))
        );
        assert_eq!(timeouts(&[]).failure, Duration::from_secs(1));
        assert_eq!(
            timeouts(&[("GASNET_EXITTIMEOUT_MAX", "0.5")]).busy,
            Duration::from_millis(500)
        );
    }

    #[test]
    fn several_tasks_without_a_manager_are_refused() {
        let found =
            |pairs: &[(&str, &str)]| lonely_task(|name| pairs.iter().find(|p| p.0 == name).map(|p| p.1.to_owned()));
        let step = [
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_TASKS", "3"),
            ("SLURM_PROCID", "0"),
        ];
        let with = |other: (&'static str, &'static str)| step.map(|pair| if pair.0 == other.0 { other } else { pair });
        assert!(found(&step).unwrap().refusal().contains("3 tasks"));
        assert_eq!(found(&with(("SLURM_PROCID", "1"))).unwrap().refusal(), "");
        assert_eq!(found(&with(("SLURM_STEP_NUM_TASKS", "1"))), None);
        assert_eq!(found(&with(("SLURM_STEP_NUM_TASKS", "x"))), None);
        assert_eq!(found(&step[1..]), None);
    }
}
