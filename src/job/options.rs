//! What a job is started with.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use super::JobError;
use crate::config::{self, Config, SignalSet, Spawner};

/// Most ranks that one host starts: beyond that, a mistake is likelier than a wish.
pub const MAX_RANKS: u32 = 1024;

/// How to start and end a job.
#[allow(clippy::struct_excessive_bools)] // Each is a variable of its own.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// Ranks to start. `GASNET_PSHM_NODES`.
    pub ranks: u32,
    /// Most ranks in a neighbourhood; 0: no limit. `GASNET_SUPERNODE_MAXSIZE`.
    pub nbrhd_max: u32,
    /// How long an ending job waits for a rank before it kills it. `GASNET_EXITTIMEOUT` and relatives.
    pub exit_timeout: Duration,
    /// Whether a rank that returns from `main` or calls `exit` ends the job. `GASNET_CATCH_EXIT`.
    pub catch_exit: bool,
    /// Signals that get no handler. `GASNET_NO_CATCH_SIGNAL`.
    pub no_catch: SignalSet,
    /// Whether to call sync at the end. `GASNET_FS_SYNC`.
    pub sync_files: bool,
    /// Where a file for shared memory would go, if nothing better works. `GASNET_TMPDIR`, `TMPDIR`.
    pub directory: PathBuf,
    /// Whether each line of output gets its rank in front. `GASNET_LABEL_OUTPUT`, which the launcher sets.
    pub label_output: bool,
    /// Whether what did not work at first is worth a line. `GASNET_VERBOSEENV`, `GASNET_SPAWN_VERBOSE`.
    pub verbose: bool,
}

impl StartOptions {
    /// What the environment says.
    pub fn from_config(config: &Config) -> Result<Self, JobError> {
        let spawner = config.get(&config::SMP_SPAWNER);
        if spawner != Spawner::Fork {
            let name = format!("{spawner:?}").to_ascii_lowercase();
            return Err(JobError {
                message: spawner_sentence("GASNET_SMP_SPAWNER", &name),
            });
        }
        let ranks = config.get(&config::PSHM_NODES);
        let directory = config
            .get(&config::TMPDIR)
            .or_else(|| env::var_os("TMPDIR").filter(|d| !d.is_empty()).map(PathBuf::from));
        Ok(Self {
            ranks,
            nbrhd_max: config.get(&config::SUPERNODE_MAXSIZE),
            exit_timeout: exit_timeout(config, ranks),
            catch_exit: config.get(&config::CATCH_EXIT),
            no_catch: config.get(&config::NO_CATCH_SIGNAL).unwrap_or(SignalSet::Some(Vec::new())),
            sync_files: config.get(&config::FS_SYNC),
            directory: directory.unwrap_or_else(|| PathBuf::from("/tmp")),
            label_output: config.get(&config::LABEL_OUTPUT),
            verbose: config.get(&config::VERBOSEENV) || config.get(&config::SPAWN_VERBOSE),
        })
    }
}

/// Why a spawner cannot be used; `source` is the variable or option that asked for it.
pub fn spawner_sentence(source: &str, name: &str) -> String {
    let known = ["ssh", "mpi", "pmi"].iter().any(|s| name.trim().eq_ignore_ascii_case(s));
    let why = if known {
        "that spawner comes with the network conduits and is not part of this one"
    } else {
        "there is no such spawner"
    };
    format!("{source}={name}: {why}; the one spawner here is \"fork\"")
}

/// The documented formula: min(MAX, MIN + ranks × FACTOR), unless the whole is given.
fn exit_timeout(config: &Config, ranks: u32) -> Duration {
    let formula = config.get(&config::EXITTIMEOUT_MIN) + f64::from(ranks) * config.get(&config::EXITTIMEOUT_FACTOR);
    let seconds = config
        .get(&config::EXITTIMEOUT)
        .unwrap_or_else(|| formula.min(config.get(&config::EXITTIMEOUT_MAX)));
    Duration::from_secs_f64(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn read(pairs: &[(&str, &str)]) -> Result<StartOptions, String> {
        let pairs = pairs.iter().map(|p| (OsString::from(p.0), OsString::from(p.1)));
        let config = Config::from_env(&[], pairs).map_err(|e| e.to_string())?;
        StartOptions::from_config(&config).map_err(|e| e.message)
    }

    #[test]
    fn defaults() {
        let options = read(&[]).unwrap();
        assert_eq!(
            (options.ranks, options.nbrhd_max, options.catch_exit, options.label_output),
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
        assert!(read(&[("GASNET_SMP_SPAWNER", "ssh")]).unwrap_err().contains("fork"));
        assert!(read(&[("GASNET_SMP_SPAWNER", "telepathy")]).is_err());
        assert!(read(&[("GASNET_SMP_SPAWNER", "FORK")]).is_ok());
    }

    #[test]
    fn exit_timeouts() {
        let timeout = |pairs: &[(&str, &str)]| read(pairs).unwrap().exit_timeout.as_secs_f64();
        let four = ("GASNET_PSHM_NODES", "4");
        assert!((timeout(&[four, ("GASNET_EXITTIMEOUT_MIN", "1"), ("GASNET_EXITTIMEOUT_FACTOR", "0.5")]) - 3.0).abs() < 1e-9);
        assert!((timeout(&[four, ("GASNET_EXITTIMEOUT_MAX", "0.5")]) - 0.5).abs() < 1e-9);
        assert!((timeout(&[("GASNET_EXITTIMEOUT", "7"), ("GASNET_EXITTIMEOUT_MAX", "0.5")]) - 7.0).abs() < 1e-9);
    }
}
