//! How the ranks of a job are started: [`StartOptions::from_config`] decides it, connects to the
//! process manager if there is one, and reads the other options.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;

use super::invitation::Invitation;
use super::options::{is_verbose, Count, Library, Start, StartMethod, StartOptions, MAX_RANKS, RANKS};
use super::pmi::by_exchange::ByExchange;
use super::pmi::{self, current, stream, Membership};
use super::spawn::Contact;
use super::spawner::{self, Decision, Spawner, Starter};
use super::{launcher_record, refuse, JobError};
use gasnet_conduit::config::{self, Config, AUTO_CONDUIT};

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
        let mut how = start(config, library, &environment)?;
        let membership = current::membership();
        let is_first = membership.as_ref().is_none_or(|membership| membership.rank == 0);
        if is_first && !matches!(how.method, StartMethod::Fresh(_)) {
            warn_ignored(config.ignored());
            warn_misspelt(config);
        }
        if let Some(message) = other_conduit(config, library, &environment) {
            return refuse(if is_first { message } else { String::new() });
        }
        if let Some(Membership {
            size, rank, manager, ..
        }) = membership
        {
            how.ranks = size;
            if rank == 0 && is_verbose(config) {
                eprintln!("gasnet: {size} ranks of {manager}");
            }
        }
        check_argument(&how)?;
        // A program that restarts reads them again.
        if how.restart.is_none() {
            mark_inherited(how.ranks);
            launcher_record::consume();
        }
        check_one_host(&how)?;
        Self::read(config, how, library.network)
    }
}

/// Checks a number of ranks that is the program's first argument.
fn check_argument(how: &Start) -> Result<(), JobError> {
    if how.restart.is_none() || (1..=1 << 20).contains(&how.ranks) {
        return Ok(());
    }
    refuse(
        "the first argument of a program started without a launcher is the number of its ranks, 1 to \
         1048576; this one is out of range. With gasnetrun_<conduit> -n or GASNET_PSHM_NODES, all \
         arguments are the program's",
    )
}

/// Checks that one host can start all ranks, if it must.
fn check_one_host(how: &Start) -> Result<(), JobError> {
    let ranks = how.ranks;
    if how.method != StartMethod::Fork || ranks <= MAX_RANKS {
        return Ok(());
    }
    let name = if how.restart.is_some() {
        "number of ranks "
    } else {
        "GASNET_PSHM_NODES="
    };
    refuse(format!(
        "{name}{ranks}: one host starts at most {MAX_RANKS} ranks; name more hosts with GASNET_SSH_SERVERS"
    ))
}

/// Marks the number of ranks as this job's, for all programs that its ranks start, here and on
/// other hosts: a plus sign, which users do not write.
fn mark_inherited(ranks: u32) {
    if env::var_os(RANKS).is_some() {
        env::set_var(RANKS, format!("+{ranks}"));
    }
}

/// Whether the number of ranks is inherited from the job that started this process, which has
/// recorded it: a user may set one with a plus sign after all.
fn is_inherited(environment: impl Fn(&str) -> Option<OsString>) -> bool {
    let ranks = environment(RANKS).and_then(|ranks| ranks.into_string().ok());
    ranks.is_some_and(|ranks| ranks.starts_with('+') && launcher_record::has(environment, RANKS, &ranks))
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

/// The warning of variables whose names are probably misspelt.
fn warn_misspelt(config: &Config) {
    for (name, meant) in config.misspelt() {
        gasnet_tools::process::warn(format_args!(
            "{name} is set, but there is no such variable: {meant} is probably meant"
        ));
    }
}

/// The error of a program whose library lacks the conduit of the launcher that has started it. A
/// conduit that the user names in `GASNET_CONDUIT` is no launcher's.
fn other_conduit(
    config: &Config,
    library: &Library<'_>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Option<String> {
    let wanted = config.get(&config::CONDUIT);
    let is_held = library.names.iter().any(|name| name.eq_ignore_ascii_case(&wanted));
    if is_held || wanted == AUTO_CONDUIT || !launcher_record::has(environment, config::CONDUIT.variable.name, &wanted) {
        return None;
    }
    let names = library.names.join(", ");
    Some(format!(
        "the launcher is that of conduit {wanted}, but this program's library holds {names}. Start the program with \
         gasnetrun_{}, allow its own conduit by --conduit=auto, or link it with the library of {wanted} or the \
         universal library (-lgasnet)",
        library.names.first().copied().unwrap_or_default()
    ))
}

/// Decides how ranks are started, and whether the program's first argument is their number. The
/// order: an agent, remote shell or launcher process that started this process; the user's spawner;
/// a number of ranks that the user has set; a process manager; the program's first argument; hosts
/// in the environment.
fn start(
    config: &Config,
    library: &Library<'_>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Start, JobError> {
    let is_set = config.is_set(&config::PSHM_NODES);
    let started = |method| Start {
        method,
        ranks: config.get(&config::PSHM_NODES),
        restart: None,
    };
    if let Some(method) = of_parent()? {
        return Ok(started(method));
    }
    let count = library.count.as_ref().filter(|_| !is_set || is_inherited(&environment));
    let ranks = match count {
        Some(Count::Passed { ranks, .. }) => *ranks,
        _ => config.get(&config::PSHM_NODES),
    };
    let selected = spawner::selected(library, None, &environment).map_err(JobError::new)?;
    check_spawnfn(selected.as_ref(), library, is_set)?;
    if selected.as_ref().map_or(!is_set, |s| s.spawner.is_manager()) {
        if connect_manager(config, library)? {
            return Ok(started(StartMethod::Managed));
        }
        if let Some(selected) = &selected {
            return refuse(format!(
                "{} asks for a process manager, but none has started this process: no {} in the environment. \
                 Start the program with mpiexec, mpirun or srun, or unset the variable",
                selected.why,
                pmi::LOOKED_FOR
            ));
        }
        if let Some(message) = pmi::lonely_process(&environment).filter(|_| count.is_none() && ranks == 1) {
            return refuse(message);
        }
    }
    let decision = selected.unwrap_or_else(|| spawner::suggested(library, Starter::Program(ranks), &environment));
    let method = match decision.spawner {
        Spawner::Ssh => StartMethod::Ssh,
        Spawner::Custom => StartMethod::Custom,
        Spawner::Fork | Spawner::Pmi | Spawner::Mpi => StartMethod::Fork,
    };
    let restart = match count {
        Some(Count::Passed { rest, .. }) => Some(rest.clone()),
        Some(Count::Unpassed(number)) => {
            return refuse(format!(
                "the first argument of this program is {number}, but the argc and argv passed to GASNet \
                 lack it, so it cannot be the number of ranks. Start the program with gasnetrun_<conduit> \
                 -n N, or set GASNET_PSHM_NODES=N (1 for one rank)"
            ))
        }
        None => None,
    };
    Ok(Start { method, ranks, restart })
}

/// The method of an agent, remote shell or launcher process that has started this process.
fn of_parent() -> Result<Option<StartMethod>, JobError> {
    if let Some(invitation) = Invitation::take() {
        return Ok(Some(StartMethod::Fresh(invitation)));
    }
    if let Some(contact) = Contact::take(false) {
        return Ok(Some(StartMethod::SshChild(contact?)));
    }
    Ok(current::membership().map(|_| StartMethod::CustomWorker))
}

/// Checks that a program whose spawner `GASNET_SPAWNFN` selects has a number of ranks, as the
/// reference's udp does.
fn check_spawnfn(selected: Option<&Decision>, library: &Library<'_>, is_set: bool) -> Result<(), JobError> {
    let by_spawnfn = selected.is_some_and(|s| s.by_spawnfn);
    if !by_spawnfn || library.alone || is_set || library.count.is_some() {
        return Ok(());
    }
    refuse(format!(
        "GASNET_SPAWNFN is set, but not how many ranks to start. Pass their number as the first argument, \
         set GASNET_PSHM_NODES=N (1 for one rank), or start the program with gasnetrun_{} -n N",
        library.names.join(", ")
    ))
}

/// Connects to the process manager, or the system of a conduit, that has started this process.
/// Whether there is one.
fn connect_manager(config: &Config, library: &Library<'_>) -> Result<bool, JobError> {
    let first = library.bootstrap.filter(|bootstrap| bootstrap.precedes_managers());
    if let Some(bootstrap) = first {
        current::set(Box::new(ByExchange::connect(bootstrap)?));
        return Ok(true);
    }
    let is_open = |descriptor| stream::is_socket(descriptor).is_ok();
    let (choice, variable) = (config.get(&config::PMI), |name: &str| env::var(name).ok());
    let detected = if config.is_set(&config::PMI) {
        pmi::detect(choice, variable, is_open)
    } else {
        Ok(pmi::prefer(choice, variable, is_open))
    };
    if let Some(manager) = detected.map_err(JobError::new)? {
        current::set(pmi::connect(manager)?);
    } else if let Some(bootstrap) = library.bootstrap {
        current::set(Box::new(ByExchange::connect(bootstrap)?));
    } else {
        return Ok(false);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::path::PathBuf;
    use std::time::Duration;

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
        let recorded = "GASNET_PSHM_NODES=+4 _GASNET_LAUNCHER=;GASNET_PSHM_NODES";
        let task = "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0";
        let pals = "PALS_RANKID=0 PMI_SIZE=4";
        for (settings, count, expected) in [
            ("", none, "Fork 1"),
            ("GASNET_SPAWNER=ssh", none, "Ssh 1"),
            ("GASNET_SPAWNFN=L", passed, "Fork 3"),
            ("GASNET_SPAWNFN=S", passed, "Ssh 3"),
            ("GASNET_SPAWNFN=C", passed, "Custom 3"),
            ("SSH_SERVERS=a,b", passed, "Ssh 3"),
            ("GASNET_PSHM_NODES=4", passed, "Fork 4"),
            ("GASNET_PSHM_NODES=4", unpassed, "Fork 4"),
            // Only the number that a job has recorded is not the user's.
            ("GASNET_PSHM_NODES=+4", passed, "Fork 4"),
            (&format!("{recorded}=4"), passed, "Fork 4"),
            (&format!("{recorded}=+4"), passed, "Fork 3"),
            ("", unpassed, "first argument of this program is 3"),
            ("GASNET_SPAWNFN=L", none, "but not how many ranks"),
            ("GASNET_SPAWNFN=L GASNET_PSHM_NODES=1", none, "Fork 1"),
            ("GASNET_SPAWNFN=G", none, "GASNET_SPAWNFN=G"),
            ("GASNET_SPAWNER=pmi", none, "PMI_FD"),
            // Tasks of Slurm without PMI. Only the first has a message.
            (task, none, "srun has started 3 processes"),
            (task, passed, "Fork 3"),
            (&task.replace("PROCID=0", "PROCID=1"), none, ""),
            (&task.replace("TASKS=3", "TASKS=1"), none, "Fork 1"),
            (&task.replace("TASKS=3", "TASKS=x"), none, "Fork 1"),
            (&task.replace("STEP_ID", "NO_STEP_ID"), none, "Fork 1"),
            (pals, none, "mpiexec of PALS has started 4 processes"),
            (&format!("{pals} GASNET_PSHM_NODES=1"), none, "Fork 1"),
            (&format!("{pals} GASNET_SPAWNER=fork"), none, "Fork 1"),
        ] {
            let pairs: Vec<_> = settings.split(' ').filter_map(|s| s.split_once('=')).collect();
            match read(&pairs, &["net"], count.clone()) {
                Ok(options) => assert_eq!(format!("{:?} {}", options.start, options.ranks), expected, "{settings}"),
                Err(why) => assert!(why.contains(expected) && why.is_empty() == expected.is_empty(), "{why}"),
            }
        }
    }

    #[test]
    fn the_launcher_of_another_conduit_is_refused() {
        let read = |settings: &str| {
            let pairs: Vec<_> = settings.split(' ').filter_map(|s| s.split_once('=')).collect();
            read(&pairs, &["net"], None).map(|options| options.ranks)
        };
        for by in ["ibv", "loop"] {
            let message = read(&format!("GASNET_CONDUIT={by} _GASNET_LAUNCHER=;GASNET_CONDUIT={by}")).unwrap_err();
            let start = format!("the launcher is that of conduit {by}, but this program's library holds net.");
            assert!(
                message.starts_with(&start) && message.contains("gasnetrun_net"),
                "{message}"
            );
        }
        for settings in [
            "GASNET_CONDUIT=net _GASNET_LAUNCHER=;GASNET_CONDUIT=net",
            "GASNET_CONDUIT=auto _GASNET_LAUNCHER=;GASNET_CONDUIT=auto",
            // The user's own, which the launcher leaves alone.
            "GASNET_CONDUIT=ibv _GASNET_LAUNCHER=;GASNET_SPAWNER=fork",
            "GASNET_CONDUIT=ibv",
        ] {
            assert_eq!(read(settings), Ok(1), "{settings}");
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
