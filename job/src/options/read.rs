//! Reads the options of a job from the configuration.

use std::env;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{CustomCommand, ExitTimeouts, Remote, Start, StartMethod, StartOptions};
use crate::spawn::hosts;
use crate::{refuse, JobError};
use gasnet_conduit::config::{self, built_in, Config, FromValue, Key};

impl StartOptions {
    /// Reads the options of a job that starts in this way. `network`: the library has a network
    /// that reaches other hosts.
    pub(crate) fn read(config: &Config, how: Start, network: bool) -> Result<Self, JobError> {
        let directory = config
            .get(&config::TMPDIR)
            .or_else(|| env::var_os("TMPDIR").filter(|d| !d.is_empty()).map(PathBuf::from));
        Ok(Self {
            route_output: routes(config, &how.method, network)?.then(|| config.get(&config::LINEBUFFERSZ) as usize),
            start: how.method,
            restart: how.restart,
            ranks: how.ranks,
            nbrhd_max: config.get(&config::SUPERNODE_MAXSIZE),
            exit_timeouts: exit_timeouts(config, how.ranks),
            catch_exit: config.get(&config::CATCH_EXIT),
            sync_files: config.get(&config::FS_SYNC),
            directory: directory.unwrap_or_else(|| PathBuf::from("/tmp")),
            label_output: config.get(&config::LABEL_OUTPUT),
            verbose: is_verbose(config),
            remote: remote(config)?,
            custom: CustomCommand {
                command: variable("GASNET_CSPAWN_CMD"),
                servers: variable("GASNET_CSPAWN_SERVERS")
                    .map_or_else(Vec::new, |text| hosts::parse_list(&text.to_string_lossy())),
                env: variable("GASNET_ENV_CMD"),
                rank_in: rank_in(),
            },
            workers: workers(config)?,
        })
    }

    /// Reads again what may still change once the job has begun.
    pub(crate) fn refresh(&mut self, config: &Config) {
        self.exit_timeouts = exit_timeouts(config, self.ranks);
        self.catch_exit = config.get(&config::CATCH_EXIT);
        self.sync_files = config.get(&config::FS_SYNC);
        self.verbose = is_verbose(config);
    }
}

/// A variable by its documented name, or by the names that users of udp know (`AMUDP_X`, `X`); else
/// the site's default.
fn variable(name: &str) -> Option<OsString> {
    let plain = name.strip_prefix("GASNET_").unwrap_or(name);
    let names = [name.to_owned(), format!("AMUDP_{plain}"), plain.to_owned()];
    let given = names
        .iter()
        .find_map(|name| env::var_os(name).filter(|v| !v.is_empty()));
    given.or_else(|| built_in(name).map(OsString::from))
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
    let Some(text) = variable(name).filter(|_| !config.is_set(key)) else {
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

pub fn is_verbose(config: &Config) -> bool {
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
    let text = |name: &str| variable(name).map(|v| v.to_string_lossy().into_owned());
    let names = config.get(&config::SPAWN_ENVIRONMENT).unwrap_or_default();
    Ok(Remote {
        command: text("GASNET_SSH_CMD").unwrap_or_else(|| "ssh".into()),
        options: text("GASNET_SSH_OPTIONS").unwrap_or_default(),
        out_degree: config.get(&config::SSH_OUT_DEGREE),
        folder: variable("GASNET_SSH_REMOTE_PATH"),
        env: variable("GASNET_ENV_CMD").unwrap_or_else(|| "env".into()),
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
