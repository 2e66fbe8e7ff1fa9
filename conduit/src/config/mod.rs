//! Environment variables. Each is declared once, in [`mod@table`] or by a conduit in
//! [`settings!`]. Everything else derives from the declaration: reading and checking
//! ([`Config::load`]), typed access ([`Config::get`]), and the output of `GASNET_VERBOSEENV`,
//! `gasnet_info --env` and `docs/env.md` ([`report`]).
//!
//! The environment is read when a client initialises, not when the library is loaded: clients set
//! variables before they initialise. All values are checked then, and all errors are reported
//! together. An empty value counts as not set. An undeclared `GASNET_*` name is not an error,
//! because clients have their own; [`Config::unknown`] lists them for `GASNET_VERBOSEENV=1`.
//!
//! Conduits may declare the same name with other defaults or ranges. Each reads its own
//! declaration. A value that only another conduit's declaration refuses is no error unless that
//! conduit is chosen ([`Config::check`]).
//!
//! A name that ends with `*` declares a family: numbers, separated by underscores, take the place
//! of the star ([`Config::members_of`]).
//!
//! A privileged process ignores variables that name files ([`privileged`]).
//!
//! Values that the library does not use are not checked: those of variables without effect, and of
//! variables of gasnetrun and test programs.
#![forbid(unsafe_code)]

mod built_in;
mod fault_plan;
mod lists;
pub mod privileged;
pub mod report;
mod segment_limit;
mod settings;
mod suggest;
pub mod table;
mod value_type;
mod variable;

pub use built_in::built_in;
pub use fault_plan::FaultPlan;
pub use lists::{RankSet, SignalSet};
pub use segment_limit::{Amount, Per, SegmentLimit};
pub use settings::{check_row, settings};
pub use table::*;
pub use value_type::{Value, ValueType};
pub use variable::{
    choice, count, double, faults, flag, form, int, path, ranks, segment_limit, signal, signals, size, text, Choice,
    FromValue, Key, Origin, Scope, Status, Unsigned, Variable,
};

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::OnceLock;

use gasnet_sys::atomic::RwLock;
use gasnet_sys::process;

/// The value of `GASNET_CONDUIT` with which the library chooses the conduit.
pub const AUTO_CONDUIT: &str = "auto";

/// The value of one variable in this process.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The declaration.
    pub variable: &'static Variable,
    /// The value from the environment, or the default.
    pub value: Value,
    /// Whether the environment sets it.
    pub is_set: bool,
    /// Why the value from the environment is invalid, if another declaration of the name takes it.
    problem: Option<String>,
}

/// The values of all variables.
#[derive(Clone, Debug)]
pub struct Config {
    settings: Vec<Setting>,
    unknown: Vec<String>,
    /// Unknown names that are near to a declared one, which takes the value. Sorted.
    misspelt: Vec<(String, &'static str)>,
    /// The variables that [`privileged`] has removed, sorted.
    ignored: Vec<String>,
    /// The members of families that are set: name and value, sorted.
    members: Vec<(String, String)>,
    /// The tables of conduits.
    extra: Vec<&'static [Variable]>,
}

/// The errors of an environment.
#[derive(Debug)]
pub struct ConfigError {
    /// One message per variable, sorted.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads the environment of the process. `extra` has the tables of the conduits in this
    /// library. Removes the variables that a privileged process ignores, so that code which does
    /// not read the table ignores them, too.
    pub fn load(extra: &[&'static [Variable]]) -> Result<Self, ConfigError> {
        let mut ignored = Vec::new();
        if process::is_privileged() {
            ignored = privileged::ignored(
                table::TABLE.iter().chain(extra.iter().copied().flatten()),
                std::env::vars_os(),
            );
            for name in &ignored {
                std::env::remove_var(name);
            }
        }
        let mut config = Self::from_env(extra, std::env::vars_os())?;
        config.ignored = ignored;
        Ok(config)
    }

    /// Reads an environment that is given as names and values.
    pub fn from_env(
        extra: &[&'static [Variable]],
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::defaults(extra);
        let mut problems = Vec::new();
        let mut invalid_defaults: Vec<(&'static str, String)> = Vec::new();
        for setting in &mut config.settings {
            let Some(text) = built_in(setting.variable.name) else {
                continue;
            };
            match read(setting.variable, text.as_ref()) {
                Ok(value) => setting.value = value,
                Err(problem) => invalid_defaults.push((setting.variable.name, problem)),
            }
        }
        for (name, text) in environment {
            let Some(name) = name.to_str() else { continue };
            let mut declared = config
                .settings
                .iter_mut()
                .filter(|s| s.variable.name == name)
                .peekable();
            if declared.peek().is_none() && name.starts_with("GASNET_") {
                drop(declared);
                match text.to_str().filter(|_| {
                    config
                        .settings
                        .iter()
                        .any(|setting| is_member(name, setting.variable.name))
                }) {
                    Some("") => {}
                    Some(text) => config.members.push((name.to_owned(), text.to_owned())),
                    None => {
                        let meant = config.meant(name, &text).map(|meant| (name.to_owned(), meant));
                        config.misspelt.extend(meant);
                        config.unknown.push(name.to_owned());
                    }
                }
                continue;
            }
            let (mut refused, mut taken) = (None, false);
            for setting in declared.filter(|_| !text.is_empty()) {
                match read(setting.variable, &text) {
                    Ok(value) => (setting.value, setting.is_set, taken) = (value, true, true),
                    Err(problem) => refused = Some(setting.problem.insert(problem).clone()),
                }
            }
            problems.extend(refused.filter(|_| !taken));
        }
        for (name, problem) in invalid_defaults {
            // A variable that is set overrides the invalid default.
            if config.setting(name).is_some_and(|setting| !setting.is_set) {
                problems.push(format!("this library was built with an invalid default: {problem}"));
            }
        }
        if problems.is_empty() {
            config.unknown.sort();
            config.misspelt.sort();
            config.members.sort();
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
            problem: None,
        });
        Self {
            settings: settings.collect(),
            unknown: Vec::new(),
            misspelt: Vec::new(),
            ignored: Vec::new(),
            members: Vec::new(),
            extra: extra.to_vec(),
        }
    }

    /// The value of a variable.
    ///
    /// # Panics
    /// If `key` belongs to a table that was not passed to [`Config::load`].
    pub fn get<T: FromValue>(&self, key: &Key<T>) -> T {
        let name = key.variable.name;
        self.declared(&key.variable)
            .and_then(|s| T::from_value(&s.value))
            .unwrap_or_else(|| panic!("{name} is not in a loaded table, or not of the type of its key"))
    }

    /// The value of a variable, or its default where its table is not loaded: in processes without
    /// a client, such as tests of a conduit.
    ///
    /// # Panics
    /// If the default is not of the type of `key`.
    pub fn get_or_default<T: FromValue>(&self, key: &Key<T>) -> T {
        let value = self.declared(&key.variable).and_then(|s| T::from_value(&s.value));
        value
            .or_else(|| T::from_value(&key.variable.default_value()))
            .unwrap_or_else(|| panic!("{} has no value", key.variable.name))
    }

    /// The members of a family that are set: name and value, sorted.
    pub fn members_of<T>(&self, family: &Key<T>) -> Vec<(String, String)> {
        let is_one = |(name, _): &&(String, String)| is_member(name, family.variable.name);
        self.members.iter().filter(is_one).cloned().collect()
    }

    /// The members of all families that are set: name and value, sorted.
    pub fn members(&self) -> &[(String, String)] {
        &self.members
    }

    /// Whether the environment sets a variable.
    pub fn is_set<T>(&self, key: &Key<T>) -> bool {
        self.declared(&key.variable).is_some_and(|s| s.is_set)
    }

    /// The errors of values that the declarations of `table`, the chosen conduit's, refuse.
    pub fn check(&self, table: &[Variable]) -> Result<(), ConfigError> {
        let settings = table.iter().filter_map(|variable| self.declared(variable));
        let problems: Vec<String> = settings.filter_map(|s| s.problem.clone()).collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }

    /// The setting of this very declaration, or else of another one of its name.
    fn declared(&self, variable: &Variable) -> Option<&Setting> {
        let same = |s: &&Setting| {
            let known = s.variable;
            (known.name, known.default, known.help) == (variable.name, variable.default, variable.help)
        };
        self.settings.iter().find(same).or_else(|| self.setting(variable.name))
    }

    /// All settings, in the order of the table.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// `GASNET_*` names in the environment that no table declares.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Names among [`Config::unknown`] that are probably misspelt, and the variable that is meant.
    pub fn misspelt(&self) -> &[(String, &'static str)] {
        &self.misspelt
    }

    /// The variable in effect that an unknown name with this value probably means.
    fn meant(&self, name: &str, text: &OsStr) -> Option<&'static str> {
        if text.is_empty() || self.other_conduit(name).is_some() {
            return None;
        }
        let takes_effect = |v: &&Variable| v.status.is_effective() && !v.scope.is_of_others();
        let variables = || self.settings.iter().map(|s| s.variable).filter(takes_effect);
        let meant = suggest::misspelt(name, variables().map(|v| v.name))?;
        let takes = |v: &Variable| v.name == meant && read(v, text).is_ok();
        variables().any(takes).then_some(meant)
    }

    /// The conduit of a variable, in upper case, if it is one that this process has no variables
    /// of. Every conduit has a variable in the common table that selects its spawner.
    fn other_conduit<'a>(&self, name: &'a str) -> Option<&'a str> {
        let word = suggest::first_word(name)?;
        let is_conduit = table::TABLE.iter().any(|v| v.name == format!("GASNET_{word}_SPAWNER"));
        let mut own = self.extra.iter().copied().flatten();
        (is_conduit && !own.any(|v| suggest::first_word(v.name) == Some(word))).then_some(word)
    }

    /// The variables that were set, but that this privileged process ignores.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|s| s.variable.name == name)
    }
}

/// Whether `name` is that of a family, with numbers in place of its star.
fn is_member(name: &str, family: &str) -> bool {
    let numbers = family.strip_suffix('*').and_then(|start| name.strip_prefix(start));
    numbers.is_some_and(|numbers| numbers.split('_').all(|number| number.parse::<u32>().is_ok()))
}

/// Reads one value. An invalid value that the library does not use counts as the default.
fn read(variable: &Variable, text: &OsStr) -> Result<Value, String> {
    if matches!(variable.kind, ValueType::Path) {
        return Ok(Value::Path(text.into()));
    }
    let result = match text.to_str() {
        Some(text) => variable.parse(text),
        None => Err(format!(
            "{} (the value is not UTF-8)",
            variable.complaint(&text.to_string_lossy())
        )),
    };
    match result {
        Err(_) if !variable.status.is_effective() || variable.scope.is_of_others() => Ok(variable.default_value()),
        result => result,
    }
}

static INSTALLED: RwLock<Option<&'static Config>> = RwLock::new(None);

/// Makes `config` the configuration of this process. References to the previous one stay valid.
pub fn install(config: Config) {
    *gasnet_sys::write_lock(&INSTALLED) = Some(Box::leak(Box::new(config)));
}

/// Reads the environment again, into the same tables.
pub fn reload() -> Result<(), ConfigError> {
    install(Config::load(&get().extra)?);
    Ok(())
}

/// The configuration of this process: from [`install`], or the defaults before that.
pub fn get() -> &'static Config {
    static DEFAULTS: OnceLock<Config> = OnceLock::new();
    let installed = *gasnet_sys::read_lock(&INSTALLED);
    installed.unwrap_or_else(|| DEFAULTS.get_or_init(|| Config::defaults(&[])))
}

/// Whether a variable of this name concerns the whole job: GASNet's, and those that mpi shares with
/// the reference.
pub fn is_of_job(name: &str) -> bool {
    ["GASNET_", "AMMPI_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the user has named this conduit, instead of leaving the choice to the library.
pub fn names_conduit(name: &str) -> bool {
    get().get_or_default(&CONDUIT).trim().eq_ignore_ascii_case(name)
}

/// Whether the user wants no warnings of networks at start.
pub fn is_quiet() -> bool {
    get().get_or_default(&QUIET)
}

/// The stack size of a thread of the library that needs `bytes`, by `GASNET_THREAD_STACK_MIN` and
/// `GASNET_THREAD_STACK_PAD`.
pub fn stack_bytes(bytes: usize) -> usize {
    let size = |key: &Key<u64>| get().get_or_default(key) as usize;
    bytes
        .saturating_add(size(&THREAD_STACK_PAD))
        .max(size(&THREAD_STACK_MIN))
}

#[cfg(test)]
mod tests;
