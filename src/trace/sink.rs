//! Outputs: a file per rank, a file to which all ranks append, or a standard stream.
//!
//! Each write contains whole lines, and the descriptor is in append mode, so lines of ranks that
//! share a file do not mix.

use gasnet_conduit::JobRank;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use gasnet_sys::{fd, process};

/// An open output. It stays open until the process ends.
#[derive(Debug)]
pub struct TraceSink {
    fd: RawFd,
    /// The variable and the file name, for messages.
    variable: &'static str,
    name: String,
    /// The process that opened it. Forked children of the client have copies of the logs and must
    /// not write.
    owner: process::Pid,
    broken: AtomicBool,
}

/// The file name of `rank`: `pattern` with the rank in place of every `%`.
pub fn file_name(pattern: &str, rank: JobRank) -> String {
    pattern.replace('%', &rank.to_string())
}

/// Whether all ranks share the file.
pub fn is_shared(pattern: &str) -> bool {
    !pattern.contains('%')
}

impl TraceSink {
    /// Opens the output of `rank`, and empties the file if `fresh`. The error is a message.
    pub fn open(variable: &'static str, pattern: &str, rank: JobRank, fresh: bool) -> Result<Self, String> {
        let name = file_name(pattern, rank);
        let fd = match pattern {
            "stdout" => 1,
            "stderr" | "-" => 2,
            _ => {
                let file = create(&name, fresh).map_err(|why| {
                    format!(
                        "{variable}={pattern}: cannot open {name} for writing: {why}. Name a file in a writable \
                         directory that exists, or unset {variable}."
                    )
                })?;
                // Stays open until the process ends.
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

    /// Writes whole lines. The first failure gives a warning, and later calls do nothing.
    /// Async-signal-safe, except for the warning.
    pub fn write(&self, lines: &[u8]) {
        if lines.is_empty() || self.broken.load(Ordering::Relaxed) || process::pid() != self.owner {
            return;
        }
        if let Err(why) = fd::write_all(self.fd, lines) {
            if !self.broken.swap(true, Ordering::Relaxed) {
                gasnet_tools::process::warn(format_args!(
                    "{}: writing to {} failed: {why}. This rank continues without recording.",
                    self.variable, self.name
                ));
            }
        }
    }
}

fn create(name: &str, fresh: bool) -> io::Result<File> {
    if fresh {
        // One call cannot combine append mode and truncation.
        OpenOptions::new().write(true).create(true).truncate(true).open(name)?;
    }
    OpenOptions::new().append(true).create(true).open(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_rank_in_place_of_percent_signs() {
        assert_eq!(file_name("a%b%", JobRank(12)), "a12b12");
        assert!(is_shared("stdout") && is_shared("all.trace") && !is_shared("t%"));
    }

    #[test]
    fn files_are_emptied_once_and_bad_names_are_explained() {
        let dir = std::env::temp_dir().join(format!("gasnet-sink-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let path = dir.join("t-%").to_str().unwrap().to_owned();
        std::fs::write(file_name(&path, JobRank(3)), "old").unwrap();
        TraceSink::open("V", &path, JobRank(3), true).unwrap().write(b"one\n");
        TraceSink::open("V", &path, JobRank(3), false).unwrap().write(b"two\n");
        assert_eq!(
            std::fs::read_to_string(file_name(&path, JobRank(3))).unwrap(),
            "one\ntwo\n"
        );
        let why = TraceSink::open("V", dir.join("no/t").to_str().unwrap(), JobRank(0), true).unwrap_err();
        assert!(why.contains("No such file") && why.starts_with("V="), "{why}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
