//! Where lines go: a file of the rank's own, one that all ranks append to, or a standard stream.
//!
//! A write has whole lines and goes to a descriptor in append mode, so the lines of ranks that share a file stay whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use gasnet_sys::{fd, process};

/// An open output. Lives to the end of the process.
#[derive(Debug)]
pub struct Sink {
    fd: RawFd,
    /// The variable that names it, and its name, for messages.
    variable: &'static str,
    name: String,
    /// Forked children of the client have copies of everything and may not write.
    owner: process::Pid,
    broken: AtomicBool,
}

/// The name of rank `rank`'s file: every `%` in `pattern` is its number.
pub fn file_name(pattern: &str, rank: u32) -> String {
    pattern.replace('%', &rank.to_string())
}

/// Whether ranks share what `pattern` names.
pub fn is_shared(pattern: &str) -> bool {
    !pattern.contains('%')
}

impl Sink {
    /// Opens what `pattern` names for `rank`, emptying a file if `fresh`. The error is a sentence.
    pub fn open(variable: &'static str, pattern: &str, rank: u32, fresh: bool) -> Result<Self, String> {
        let name = file_name(pattern, rank);
        let fd = match pattern {
            "stdout" => 1,
            "stderr" | "-" => 2,
            _ => {
                let file = create(&name, fresh).map_err(|why| {
                    format!(
                        "{variable}={pattern}: {name} cannot be opened for writing: {why}. Name a file in a folder that exists and may be \
                         written to, or unset {variable}."
                    )
                })?;
                // Stays open to the end of the process.
                std::mem::ManuallyDrop::new(file).as_raw_fd()
            }
        };
        Ok(Self {
            fd,
            variable,
            name,
            owner: process::pid(),
            broken: AtomicBool::new(false),
        })
    }

    /// Writes whole lines. After the first failure, which is reported, it does nothing. Async-signal-safe but for that report.
    pub fn write(&self, lines: &[u8]) {
        if lines.is_empty() || self.broken.load(Ordering::Relaxed) || process::pid() != self.owner {
            return;
        }
        if let Err(why) = fd::write_all(self.fd, lines) {
            if !self.broken.swap(true, Ordering::Relaxed) {
                gasnet_tools::process::warn(format_args!(
                    "{}: writing to {} failed: {why}. This rank goes on without; what was written stays.",
                    self.variable, self.name
                ));
            }
        }
    }
}

fn create(name: &str, fresh: bool) -> io::Result<File> {
    if fresh {
        // Append mode and truncation do not go together in one call.
        OpenOptions::new().write(true).create(true).truncate(true).open(name)?;
    }
    OpenOptions::new().append(true).create(true).open(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_rank_in_place_of_percent_signs() {
        assert_eq!(file_name("a%b%", 12), "a12b12");
        assert!(is_shared("stdout") && is_shared("all.trace") && !is_shared("t%"));
    }

    #[test]
    fn files_are_emptied_once_and_bad_names_are_explained() {
        let dir = std::env::temp_dir().join(format!("gasnet-sink-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let path = dir.join("t-%").to_str().unwrap().to_owned();
        std::fs::write(file_name(&path, 3), "old").unwrap();
        Sink::open("V", &path, 3, true).unwrap().write(b"one\n");
        Sink::open("V", &path, 3, false).unwrap().write(b"two\n");
        assert_eq!(std::fs::read_to_string(file_name(&path, 3)).unwrap(), "one\ntwo\n");
        let why = Sink::open("V", dir.join("no/t").to_str().unwrap(), 0, true).unwrap_err();
        assert!(why.contains("No such file") && why.starts_with("V="), "{why}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
