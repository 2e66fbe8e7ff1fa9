//! The record of variables that the launcher has set, and for whom: `_GASNET_LAUNCHER`.
//!
//! The variables that choose a spawner, a number of ranks and a conduit are for the ranks that the
//! launcher starts, perhaps through scripts and shells. They are not for programs that these ranks
//! start, nor for a process manager or a launcher that a script runs: of nested launchers the
//! innermost counts. So the launcher records them, with the marks of the process manager that has
//! started itself. A process with other marks was started by a process manager inside the launcher.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;

use super::options::RANKS;
use super::pmi::daemon;
use gasnet_conduit::config::CONDUIT;

/// The variable: hashes of marks, or [`ANY_MANAGER`], then assignments.
pub const RECORD: &str = "_GASNET_LAUNCHER";
/// The launcher itself runs a process manager, whose marks are to come.
const ANY_MANAGER: &str = "*";
/// Between the parts. The values are names and numbers.
const SEPARATOR: char = ';';

/// A record that a launcher has left.
#[derive(Debug, PartialEq)]
struct Record {
    /// Marks of process managers outside the launcher; none: any.
    outside: Option<BTreeSet<u64>>,
    /// Variables that the launcher has set.
    variables: Vec<(String, String)>,
}

impl Record {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(SEPARATOR);
        let marks = parts.next()?;
        let hashes = marks.split(',').filter_map(|hash| u64::from_str_radix(hash, 16).ok());
        let variables = parts.filter_map(|part| part.split_once('='));
        Some(Self {
            outside: (marks != ANY_MANAGER).then(|| hashes.collect()),
            variables: variables.map(|(name, value)| (name.into(), value.into())).collect(),
        })
    }

    fn text(&self) -> String {
        let hashes = self.outside.as_ref().map(|marks| {
            let hashes: Vec<_> = marks.iter().map(|mark| format!("{mark:x}")).collect();
            hashes.join(",")
        });
        let mut text = hashes.unwrap_or_else(|| ANY_MANAGER.into());
        for (name, value) in &self.variables {
            let _ = write!(text, "{SEPARATOR}{name}={value}");
        }
        text
    }

    /// Whether a process with these marks was started by a process manager inside the launcher.
    fn is_inside(&self, marks: &BTreeSet<u64>) -> bool {
        self.outside.as_ref().is_some_and(|outside| !marks.is_subset(outside))
    }

    /// Whether the record has this value of the variable.
    fn has(&self, name: &str, value: &str) -> bool {
        self.variables.iter().any(|(n, v)| n == name && v == value)
    }

    /// Removes the variables that still have the values that the launcher has given them.
    fn discard(&self, except: &[&str]) {
        for (name, _) in &self.variables {
            let is_ours = env::var(name).is_ok_and(|now| self.has(name, &now));
            if is_ours && !except.contains(&name.as_str()) {
                env::remove_var(name);
            }
        }
    }
}

/// The record of a launcher that sets these `variables` and starts the ranks itself or, if
/// `by_manager`, runs a process manager.
pub fn of_launcher(variables: &[(String, String)], by_manager: bool) -> String {
    let variables = variables.iter().filter(|(_, value)| !value.contains(SEPARATOR));
    let record = Record {
        outside: (!by_manager).then(own_marks),
        variables: variables.cloned().collect(),
    };
    record.text()
}

/// Removes what a launcher has set for other processes than those that this process starts. For a
/// launcher at its start.
pub fn discard() {
    if let Some(record) = take() {
        record.discard(&[]);
    }
}

/// Removes what a launcher has set, if a process manager inside it has started this process. Before
/// the configuration is read.
pub(super) fn discard_inside() {
    let Some(record) = read(|name| env::var_os(name)).filter(|record| record.is_inside(&own_marks())) else {
        return;
    };
    record.discard(&[]);
    env::remove_var(RECORD);
}

/// The job has read its variables: programs that its ranks start do not get those of the launcher.
/// They get the number of ranks unless a process manager starts them.
pub(super) fn consume() {
    if let Some(record) = take() {
        // Hosts take the conduit from the first one.
        record.discard(&[RANKS, CONDUIT.variable.name]);
    }
    if let Some(ranks) = env::var(RANKS).ok().filter(|ranks| !ranks.contains(SEPARATOR)) {
        env::set_var(RECORD, of_launcher(&[(RANKS.into(), ranks)], false));
    }
}

/// Whether the record in an environment has this value of the variable.
pub(super) fn has(environment: impl Fn(&str) -> Option<OsString>, name: &str, value: &str) -> bool {
    read(environment).is_some_and(|record| record.has(name, value))
}

fn read(environment: impl Fn(&str) -> Option<OsString>) -> Option<Record> {
    Record::parse(environment(RECORD)?.to_str()?)
}

fn take() -> Option<Record> {
    let record = read(|name| env::var_os(name));
    env::remove_var(RECORD);
    record
}

/// The marks of the process managers that have started this process.
fn own_marks() -> BTreeSet<u64> {
    let own = fs::read("/proc/self/environ").unwrap_or_default();
    daemon::marks(&own).iter().map(|mark| hash(mark)).collect()
}

/// FNV-1a: the launcher and the library may be of different compilers.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let variables = vec![("GASNET_PSHM_NODES".to_owned(), "2".to_owned())];
        for outside in [None, Some(BTreeSet::new()), Some(BTreeSet::from([1, u64::MAX]))] {
            let record = Record {
                outside,
                variables: variables.clone(),
            };
            assert_eq!(Record::parse(&record.text()), Some(record));
        }
        assert_eq!(Record::parse("zz;A").unwrap().variables, []);
    }

    #[test]
    fn only_new_marks_are_of_a_manager_inside() {
        let record = |text| Record::parse(text).unwrap();
        let marks = |marks: &[u64]| marks.iter().copied().collect::<BTreeSet<_>>();
        // Remote shells do not pass on marks.
        assert!(!record("a,b").is_inside(&marks(&[])));
        assert!(!record("a,b").is_inside(&marks(&[10, 11])));
        assert!(record("a,b").is_inside(&marks(&[10, 12])));
        assert!(record("").is_inside(&marks(&[10])));
        assert!(!record("*").is_inside(&marks(&[10])));
    }
}
