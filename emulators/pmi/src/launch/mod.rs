//! `aprun`, `srun` and `prun`: start the ranks of a job on this host, and end it as the launchers
//! of Cray and of Quadrics do.
//!
//! - [`arguments`], [`environment`]: the command line, and what ranks get
//! - [`guard`]: the process that the user started
//! - [`job`]: the process that runs the job
//! - [`server`], [`state`]: what the library asks for
//! - [`os`]: system calls

mod arguments;
mod environment;
mod guard;
mod job;
mod os;
mod server;
mod state;

use std::ffi::OsString;
use std::path::Path;

use crate::words::Words;
use arguments::{Plan, Style};

/// Exit code of a command line that is wrong.
const USAGE: i32 = 2;

/// Runs a command line: its first word is the name of the launcher. Ranks look for the library in
/// `library`. Returns the exit code.
pub fn run(words: &[OsString], library: &Path) -> i32 {
    let (first, rest) = words
        .split_first()
        .map_or((Path::new(""), words), |(first, rest)| (Path::new(first), rest));
    let (name, style) = match first.file_name().and_then(|name| name.to_str()) {
        Some("srun") => ("srun", Style::Srun),
        Some("prun") => ("prun", Style::Prun),
        _ => ("aprun", Style::Aprun),
    };
    let options = Words::of_environment();
    let parsed = options.and_then(|options| Ok((options, Plan::parse(style, rest)?)));
    let (options, plan) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => {
            eprintln!("{name}: {why}");
            return USAGE;
        }
    };
    guard::run(|signals| job::run(name, &plan, &options, library, signals))
}
