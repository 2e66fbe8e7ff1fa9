//! `gasnet_info`: what this library is, which variables it reads, and what this machine offers it.
//!
//! It starts no job and changes nothing. Without options it says all of that but the variables.

#[path = "gasnet_info/fabrics.rs"]
mod fabrics;
#[path = "gasnet_info/installed.rs"]
mod installed;
#[path = "gasnet_info/kernel.rs"]
mod kernel;
#[path = "gasnet_info/machine.rs"]
mod machine;
#[path = "gasnet_info/memory.rs"]
mod memory;
#[path = "gasnet_info/network.rs"]
mod network;
#[path = "gasnet_info/processors.rs"]
mod processors;

use gasnet_conduit::config::report::{self, json_string};
use gasnet_conduit::config::{Config, Variable, TABLE};
use gasnet_conduit_any::gasneti_conduits;
use gasnet_sys::fd;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;

const USAGE: &str = "\
usage: gasnet_info [option]...
  -v, --version       versions of the library and of the specifications it implements
  -b, --build         how the installed libraries were built, and their limits
  -c, --conduits      the conduits, thread modes and kinds of library installed beside this program
  -e, --env           every environment variable: meaning, accepted values, default
  -k, --check-env     check the variables that are set now; exit 1 if one is not acceptable
  -l, --limits        what this machine offers (cores, memory, limits, kernel, networks, accelerators), and what to change where it is poor
      --json          the answers as one JSON object
      --env-markdown  the variables as the page docs/env.md
  -h, --help          this text
Without options: -v -c -b -l.
";

/// Facts in order of display.
pub type Facts = Vec<(String, String)>;

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Topic {
    Version,
    Build,
    Conduits,
    Env,
    CheckEnv,
    Limits,
    EnvMarkdown,
    Help,
}

fn main() -> ExitCode {
    let mut topics = Vec::new();
    let mut json = false;
    for argument in std::env::args().skip(1) {
        if argument == "--json" {
            json = true;
        } else if let Some(topic) = topic(&argument) {
            topics.push(topic);
        } else {
            eprint!("gasnet_info: unknown option {argument}\n{USAGE}");
            return ExitCode::from(2);
        }
    }
    if topics.is_empty() {
        topics.extend([Topic::Version, Topic::Conduits, Topic::Build, Topic::Limits]);
    }
    // Vendors' libraries say what troubles them on standard output, too.
    let stdout = fd::duplicate(1).and_then(|copy| fd::replace(2, 1).map(|()| copy));
    let (out, good) = if json { as_json(&topics) } else { as_text(&topics) };
    let written = stdout.and_then(|stdout| File::from(stdout).write_all(out.as_bytes()));
    if let Err(why) = written {
        // A reader that closes the pipe early (`| head`) has what it wanted.
        if why.kind() != std::io::ErrorKind::BrokenPipe {
            eprintln!("gasnet_info: standard output cannot be written: {why}");
            return ExitCode::FAILURE;
        }
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn topic(word: &str) -> Option<Topic> {
    Some(match word {
        "-v" | "--version" => Topic::Version,
        "-b" | "--build" => Topic::Build,
        "-c" | "--conduits" => Topic::Conduits,
        "-e" | "--env" => Topic::Env,
        "-k" | "--check-env" => Topic::CheckEnv,
        "-l" | "--limits" => Topic::Limits,
        "--env-markdown" => Topic::EnvMarkdown,
        "-h" | "--help" => Topic::Help,
        _ => return None,
    })
}

/// The variables of networks.
fn networks() -> Vec<&'static [Variable]> {
    gasneti_conduits().iter().map(|conduit| conduit.variables()).collect()
}

/// All variables.
fn variables() -> Vec<Variable> {
    TABLE.iter().chain(networks().into_iter().flatten()).copied().collect()
}

fn version() -> Facts {
    vec![
        ("libgasnet".into(), env!("CARGO_PKG_VERSION").into()),
        ("compatible with GASNet-EX".into(), "2025.8.0".into()),
        ("GASNet-EX specification".into(), "0.19".into()),
        ("GASNet-1 specification".into(), "1.8".into()),
        ("GASNet tools specification".into(), "1.20".into()),
    ]
}

/// The answers for a person, and whether the environment is acceptable (true when that was not asked).
fn as_text(topics: &[Topic]) -> (String, bool) {
    let mut out = String::new();
    let mut good = true;
    for topic in topics {
        match topic {
            Topic::Version => out += &lines(&version()),
            Topic::Conduits => {
                let _ = write!(out, "\nInstalled libraries\n{}", installed::as_text(&installed::libraries()));
            }
            Topic::Env => out += &report::as_text(&variables()),
            Topic::EnvMarkdown => out += &report::as_markdown(&variables()),
            Topic::Build => {
                let _ = write!(out, "\nBuild\n{}", lines(&installed::build()));
                let _ = write!(out, "\nLimits of the library\n{}", lines(&installed::limits()));
            }
            Topic::Limits => out += &machine::as_text(&machine::sections(&root())),
            Topic::Help => out += USAGE,
            Topic::CheckEnv => match Config::load(&networks()) {
                Ok(config) => out += &config.verbose(),
                Err(error) => {
                    let _ = writeln!(out, "{error}");
                    good = false;
                }
            },
        }
    }
    (out, good)
}

/// The answers for a program: one object with a member per topic.
fn as_json(topics: &[Topic]) -> (String, bool) {
    let mut members = Vec::new();
    let mut good = true;
    for topic in topics {
        members.push(match topic {
            Topic::Version => format!("\"version\": {}", object(&version())),
            Topic::Conduits => format!("\"conduits\": {}", installed::as_json(&installed::libraries())),
            Topic::Env => format!("\"variables\": {}", report::as_json(&variables()).trim_end()),
            Topic::Build => format!(
                "\"build\": {},\n\"library_limits\": {}",
                object(&installed::build()),
                object(&installed::limits())
            ),
            Topic::Limits => format!("\"machine\": {}", machine::as_json(&machine::sections(&root()))),
            Topic::EnvMarkdown => format!("\"markdown\": {}", json_string(&report::as_markdown(&variables()))),
            Topic::Help => format!("\"usage\": {}", json_string(USAGE)),
            Topic::CheckEnv => {
                let problems = Config::load(&networks()).err().map(|e| e.problems).unwrap_or_default();
                good &= problems.is_empty();
                let list: Vec<String> = problems.iter().map(|p| json_string(p)).collect();
                format!("\"problems\": [{}]", list.join(", "))
            }
        });
    }
    (format!("{{{}}}\n", members.join(",\n")), good)
}

/// Where the system's files are.
fn root() -> machine::Root {
    machine::Root("/".into())
}

fn lines(facts: &Facts) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts.iter().fold(String::new(), |mut out, (name, value)| {
        let _ = writeln!(out, "{name:<width$}  {value}");
        out
    })
}

fn object(facts: &Facts) -> String {
    let members: Vec<String> = facts
        .iter()
        .map(|(name, value)| format!("{}: {}", json_string(name), json_string(value)))
        .collect();
    format!("{{{}}}", members.join(", "))
}
