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
    let name = words.first().and_then(|first| Path::new(first).file_name()?.to_str());
    let style = match name {
        Some("srun") => Style::Srun,
        Some("prun") => Style::Prun,
        _ => Style::Aprun,
    };
    let parse = |options| Ok((options, Plan::parse(style, words.get(1..).unwrap_or_default())?));
    match Words::of_environment().and_then(parse) {
        Ok((options, plan)) => guard::run(|signals| job::run(&plan, &options, library, signals)),
        Err(why) => {
            eprintln!("{}: {why}", style.name());
            USAGE
        }
    }
}
