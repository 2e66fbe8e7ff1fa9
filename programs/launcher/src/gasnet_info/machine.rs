//! Resources of this machine for jobs, and advice where it restricts them.
//!
//! Files are read below a root folder, which tests replace. Functions that use system calls instead
//! say so.

use super::{fabrics, json, kernel, memory, network, processors};
use std::fmt::Write as _;
use std::path::PathBuf;

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub name: String,
    pub text: String,
    /// Value as a number (bytes, cores, …), if it is one.
    pub number: Option<u64>,
    /// Advice: a change, and its reason; none if nothing needs to change.
    pub advice: Option<String>,
}

/// A heading and its lines.
pub type Section = (&'static str, Vec<Fact>);

/// A fact that is a text.
pub fn fact(name: impl Into<String>, text: impl Into<String>) -> Fact {
    Fact {
        name: name.into(),
        text: text.into(),
        number: None,
        advice: None,
    }
}

/// A number of bytes; `without` is the text for none.
pub fn bytes(name: &str, number: Option<u64>, without: &str) -> Fact {
    Fact {
        number,
        ..fact(name, number.map_or(without.into(), rounded))
    }
}

/// A plain number; `without` is the text for none.
pub fn count(name: &str, number: Option<u64>, without: &str) -> Fact {
    Fact {
        number,
        ..fact(name, number.map_or(without.into(), |n| n.to_string()))
    }
}

pub fn flag(name: &str, value: bool) -> Fact {
    Fact {
        number: Some(u64::from(value)),
        ..fact(name, if value { "yes" } else { "no" })
    }
}

impl Fact {
    /// Adds advice if `poor`.
    #[must_use]
    pub fn advise(mut self, poor: bool, advice: impl Into<String>) -> Self {
        if poor {
            self.advice = Some(advice.into());
        }
        self
    }
}

/// Bytes in the largest unit that leaves at least two digits before the point.
pub fn rounded(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    let mut value = bytes;
    let mut below = 0;
    while value >= 10_000 && unit + 1 < UNITS.len() {
        below = value % 1024;
        value /= 1024;
        unit += 1;
    }
    if value < 100 && below > 0 {
        format!("{value}.{} {}", below * 10 / 1024, UNITS[unit])
    } else {
        format!("{value} {}", UNITS[unit])
    }
}

/// The folder of the system's files: `/`, or a test's folder.
#[derive(Clone, Debug)]
pub struct Root(pub PathBuf);

impl Root {
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The text of a file without surrounding white space; none if it cannot be read.
    pub fn read(&self, path: &str) -> Option<String> {
        let bytes = std::fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds one number.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// Sorted names in a folder; empty if there is no folder.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}

pub fn sections(root: &Root) -> Vec<Section> {
    vec![
        ("Processors", processors::facts(root)),
        ("Memory", memory::facts(root)),
        ("Limits of a process", kernel::limits(root)),
        ("Kernel", kernel::facts(root)),
        ("Network interfaces", network::interfaces(root)),
        ("RDMA devices", network::rdma(root)),
        ("Network and launcher libraries", fabrics::networks()),
        ("Accelerator libraries", fabrics::accelerators()),
    ]
}

pub fn as_text(sections: &[Section]) -> String {
    let mut out = String::new();
    for (title, facts) in sections {
        let _ = writeln!(out, "\n{title}");
        let width = facts.iter().map(|f| f.name.chars().count()).max().unwrap_or(0);
        for f in facts {
            let pad = width - f.name.chars().count();
            let _ = writeln!(out, "  {}{:pad$}  {}", f.name, "", f.text);
            if let Some(advice) = &f.advice {
                let _ = writeln!(out, "    ! {advice}");
            }
        }
    }
    let poor = sections
        .iter()
        .flat_map(|(_, facts)| facts)
        .filter(|f| f.advice.is_some())
        .count();
    let _ = match poor {
        0 => writeln!(out, "\nNo advice for this machine."),
        1 => writeln!(out, "\nOne line with advice, marked !."),
        n => writeln!(out, "\n{n} lines with advice, marked !."),
    };
    out
}

/// The report as JSON: an object of sections, each an object of facts with `text` and, where they
/// exist, `number` and `advice`.
pub fn as_json(sections: &[Section]) -> String {
    let fact = |f: &Fact| {
        let mut members = vec![("text", json::string(&f.text))];
        members.extend(f.number.map(|number| ("number", number.to_string())));
        members.extend(f.advice.as_ref().map(|advice| ("advice", json::string(advice))));
        (f.name.clone(), json::object(members))
    };
    let section = |(title, facts): &Section| (*title, json::object(facts.iter().map(fact)));
    json::object(sections.iter().map(section))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A simulated machine: a folder of files, removed on drop.
    pub struct Machine(pub Root);

    impl Machine {
        /// Creates the files.
        pub fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = std::env::temp_dir().join(format!("gasnet_info-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = folder.join(path.trim_start_matches('/'));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(Root(folder))
        }

        /// The fact of that name, which must be there.
        pub fn find(facts: &[Fact], name: &str) -> Fact {
            facts
                .iter()
                .find(|f| f.name == name)
                .unwrap_or_else(|| panic!("no fact {name} in {facts:?}"))
                .clone()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0 .0);
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(rounded(0), "0 B");
        assert_eq!(rounded(9999), "9999 B");
        assert_eq!(rounded(65536), "64 KB");
        assert_eq!(rounded(20 << 20), "20 MB");
        assert_eq!(rounded((24 << 30) + (500 << 20)), "24.4 GB");
        assert_eq!(rounded(u64::MAX), "16383 PB");
    }

    #[test]
    fn a_machine_without_files_has_a_report() {
        let machine = Machine::new("nothing", &[]);
        for (title, facts) in sections(&machine.0) {
            assert!(!facts.is_empty(), "{title}");
        }
        let text = as_text(&sections(&machine.0));
        assert!(text.contains("Processors") && text.contains("unknown"));
    }

    #[test]
    fn json_is_nested() {
        let facts = vec![fact("a", "x\"y").advise(true, "do"), bytes("b", Some(5), "")];
        let json = as_json(&[("S", facts)]);
        assert_eq!(
            json,
            "{\"S\": {\"a\": {\"text\": \"x\\\"y\", \"advice\": \"do\"},\n\"b\": {\"text\": \"5 B\", \"number\": 5}}}"
        );
    }
}
