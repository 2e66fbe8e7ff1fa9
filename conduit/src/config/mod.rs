//! Environment variables: every one is declared once, in [`table`], and everything else follows from the declaration:
//! reading and checking ([`Config::load`]), typed access ([`Config::get`]), the output of `GASNET_VERBOSEENV`,
//! `gasnet_info --env` and `docs/env.md` ([`report`]).
//!
//! The environment is read when a client initialises, never when the library is loaded, because clients set variables
//! before they initialise. All values are checked then, and all problems are reported together. An empty value counts
//! as not set. A `GASNET_*` name that no declaration knows is not an error: clients have their own; [`Config::unknown`]
//! lists them for `GASNET_VERBOSEENV=1`.
//!
//! A value that the library does not use is not checked: that of a variable without effect, or of one for gasnetrun or test programs.
#![forbid(unsafe_code)]

mod built_in;
mod fault_plan;
mod kind;
mod lists;
pub mod report;
mod segment_limit;
mod suggest;
pub mod table;
mod variable;

pub use built_in::built_in;
pub use fault_plan::FaultPlan;
pub use kind::{Kind, Value};
pub use lists::{RankSet, SignalSet};
pub use segment_limit::{Amount, Per, SegmentLimit};
pub use table::*;
pub use variable::{
    choice, count, double, faults, flag, form, int, path, ranks, segment_limit, signal, signals, size, text, Choice, FromValue,
    Key, Origin, Scope, Status, Variable,
};

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::{OnceLock, PoisonError, RwLock};

/// The value of `GASNET_CONDUIT` that leaves the choice to the library.
pub const AUTO_CONDUIT: &str = "auto";

/// The value of one variable in this process.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its declaration.
    pub variable: &'static Variable,
    /// Its value: what the environment says, or the default.
    pub value: Value,
    /// Whether the environment sets it.
    pub is_set: bool,
}

/// The values of all variables.
#[derive(Clone, Debug)]
pub struct Config {
    settings: Vec<Setting>,
    unknown: Vec<String>,
    /// The tables beside [`table`].
    extra: Vec<&'static [Variable]>,
}

/// What is wrong with the environment: one sentence per variable.
#[derive(Debug)]
pub struct ConfigError {
    /// The sentences, in the order of the table.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads the process's environment. `extra` are the tables of the conduits that this library contains.
    pub fn load(extra: &[&'static [Variable]]) -> Result<Self, ConfigError> {
        Self::from_env(extra, std::env::vars_os())
    }

    /// Reads an environment that is given as names and values.
    pub fn from_env(
        extra: &[&'static [Variable]],
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::defaults(extra);
        let mut problems = Vec::new();
        let mut senseless = Vec::new();
        for setting in &mut config.settings {
            let Some(text) = built_in(setting.variable.name) else {
                continue;
            };
            match read(setting.variable, text.as_ref()) {
                Ok(value) => setting.value = value,
                Err(problem) => senseless.push((setting.variable.name, problem)),
            }
        }
        for (name, text) in environment {
            let Some(name) = name.to_str() else { continue };
            match config.settings.iter_mut().find(|s| s.variable.name == name) {
                None if name.starts_with("GASNET_") => config.unknown.push(name.to_owned()),
                Some(setting) if !text.is_empty() => match read(setting.variable, &text) {
                    Ok(value) => (setting.value, setting.is_set) = (value, true),
                    Err(problem) => problems.push(problem),
                },
                _ => {}
            }
        }
        for (name, problem) in senseless {
            // Who sets the variable is not troubled.
            if config.setting(name).is_some_and(|setting| !setting.is_set) {
                problems.push(format!(
                    "this library was built with a default that makes no sense: {problem}"
                ));
            }
        }
        if problems.is_empty() {
            config.unknown.sort();
            Ok(config)
        } else {
            problems.sort();
            Err(ConfigError { problems })
        }
    }

    /// The values in an empty environment.
    pub fn defaults(extra: &[&'static [Variable]]) -> Self {
        let tables = std::iter::once(table::TABLE).chain(extra.iter().copied());
        let settings = tables.flatten().map(|variable| Setting {
            variable,
            value: variable.default_value(),
            is_set: false,
        });
        Self {
            settings: settings.collect(),
            unknown: Vec::new(),
            extra: extra.to_vec(),
        }
    }

    /// The value of a variable.
    ///
    /// # Panics
    /// When `key` belongs to a table that was not given to [`Config::load`].
    pub fn get<T: FromValue>(&self, key: &Key<T>) -> T {
        let name = key.variable.name;
        self.setting(name)
            .and_then(|s| T::from_value(&s.value))
            .unwrap_or_else(|| panic!("{name} is not in the table that was loaded, or not of the type of its key"))
    }

    /// Whether the environment sets a variable.
    pub fn is_set<T>(&self, key: &Key<T>) -> bool {
        self.setting(key.variable.name).is_some_and(|s| s.is_set)
    }

    /// All settings, in the order of the table.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// `GASNET_*` names in the environment that no table declares.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|s| s.variable.name == name)
    }
}

/// Reads one value; one that the library does not use counts as its default if it is not acceptable.
fn read(variable: &Variable, text: &OsStr) -> Result<Value, String> {
    if matches!(variable.kind, Kind::Path) {
        return Ok(Value::Path(text.into()));
    }
    let result = match text.to_str() {
        Some(text) => variable.parse(text),
        None => Err(format!(
            "{} (this one is not UTF-8)",
            variable.complaint(&text.to_string_lossy())
        )),
    };
    match result {
        Err(_) if !variable.status.is_effective() || variable.scope.is_of_others() => Ok(variable.default_value()),
        result => result,
    }
}

static INSTALLED: RwLock<Option<&'static Config>> = RwLock::new(None);

/// Makes `config` the one of this process. Who holds the one before keeps that.
pub fn install(config: Config) {
    *INSTALLED.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::leak(Box::new(config)));
}

/// Reads the environment again, into the same tables.
pub fn reload() -> Result<(), ConfigError> {
    install(Config::load(&get().extra)?);
    Ok(())
}

/// The process's configuration: what [`install`] got, or the defaults before that.
pub fn get() -> &'static Config {
    static DEFAULTS: OnceLock<Config> = OnceLock::new();
    let installed = *INSTALLED.read().unwrap_or_else(PoisonError::into_inner);
    installed.unwrap_or_else(|| DEFAULTS.get_or_init(|| Config::defaults(&[])))
}

#[cfg(test)]
mod tests;
