//! `gasnet_info`: reports the version and build of the library, its environment variables, and the
//! limits of this machine.
//!
//! It starts no job and changes nothing. Without options it reports everything but the variables
//! and the providers of networks. With `--attach` it reports a running job instead.

#[path = "gasnet_info/attach.rs"]
mod attach;
#[path = "gasnet_info/fabrics.rs"]
mod fabrics;
#[path = "gasnet_info/installed.rs"]
mod installed;
mod json;
#[path = "gasnet_info/kernel.rs"]
mod kernel;
#[path = "gasnet_info/machine.rs"]
mod machine;
#[path = "gasnet_info/memory.rs"]
mod memory;
#[path = "gasnet_info/metrics.rs"]
mod metrics;
#[path = "gasnet_info/network.rs"]
mod network;
mod page;
#[path = "gasnet_info/picture.rs"]
mod picture;
#[path = "gasnet_info/processors.rs"]
mod processors;
#[path = "gasnet_info/providers.rs"]
mod providers;
use attach::Form;
use gasnet_conduit::config::report;
use gasnet_conduit::config::{Config, Origin, Variable, TABLE};
use gasnet_conduit_any::gasneti_conduits;
use gasnet_sys::fd;
use machine::Root;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;

const USAGE: &str = "\
usage: gasnet_info [option]...
  -v, --version       versions of the library and of the specifications that it implements
  -b, --build         how the installed libraries were built, and their limits
  -c, --conduits      the conduits, thread modes and kinds of library installed beside this program
  -e, --env           every environment variable: meaning, accepted values, default
  -k, --check-env     check the variables that are set now; exit 1 if a value is invalid
  -l, --limits        cores, memory, limits, kernel, networks and accelerators of this machine, with \
                      advice where they restrict jobs
  -p, --providers     the providers of libfabric, and how the conduit ofi would use each in this \
                      environment; opens and closes their devices
      --attach PID    what the ranks of a running job do, and who waits for whom; PID is a rank's, the
                      node agent's or the launcher's, of the same user, or the name of the program
      --watch [S]     with --attach: again every S seconds (2)
      --prometheus    with --attach: as metrics in Prometheus's text format
      --html          with --attach: as a page with a picture of the traffic between ranks
      --json          print one JSON object
      --env-markdown  print the variables as the page docs/env.md
  -h, --help          print this text
Reports the library, its environment variables and this machine; without options: -v -c -b -l.
The exit status is 0, 1 if a checked value is invalid or the job cannot be asked, 2 for invalid options.
";

/// Names and values, in order of display.
pub type Facts = Vec<(String, String)>;

/// The parts of the output, by option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Topic {
    Version,
    Build,
    Conduits,
    Env,
    CheckEnv,
    Limits,
    Providers,
    EnvMarkdown,
    Help,
}

fn main() -> ExitCode {
    let mut topics = Vec::new();
    let mut form = Form::Text;
    let mut attach = attach::Request::default();
    let mut arguments = std::env::args().skip(1).peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--json" {
            form = Form::Json;
        } else if argument == "--prometheus" {
            form = Form::Prometheus;
        } else if argument == "--html" {
            form = Form::Html;
        } else if ["--attach", "--watch"].contains(&argument.as_str()) {
            let value = arguments.next_if(|next| !next.starts_with('-'));
            if let Err(why) = attach.add(&argument, value.as_deref()) {
                eprintln!("gasnet_info: {why}");
                return ExitCode::from(2);
            }
        } else if let Some(topic) = topic(&argument) {
            topics.push(topic);
        } else {
            eprint!("gasnet_info: unknown option {argument}\n{USAGE}");
            return ExitCode::from(2);
        }
    }
    if attach.is_made() || [Form::Prometheus, Form::Html].contains(&form) {
        return attach.run(form);
    }
    if topics.is_empty() {
        topics.extend([Topic::Version, Topic::Conduits, Topic::Build, Topic::Limits]);
    }
    // Vendor libraries print errors on standard output, too: it becomes standard error while they
    // run.
    let stdout = fd::duplicate(1).and_then(|copy| fd::replace(2, 1).map(|()| copy));
    let (out, good) = if form == Form::Json {
        as_json(&topics)
    } else {
        as_text(&topics)
    };
    let written = stdout.and_then(|stdout| File::from(stdout).write_all(out.as_bytes()));
    if let Err(why) = written {
        // A reader that closes the pipe early (`| head`) is not an error.
        if why.kind() != std::io::ErrorKind::BrokenPipe {
            eprintln!("gasnet_info: cannot write to standard output: {why}");
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
        "-p" | "--providers" => Topic::Providers,
        "--env-markdown" => Topic::EnvMarkdown,
        "-h" | "--help" => Topic::Help,
        _ => return None,
    })
}

/// The variable tables of the conduits.
fn networks() -> Vec<&'static [Variable]> {
    gasneti_conduits().iter().map(|conduit| conduit.variables()).collect()
}

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

/// The output as text, and whether the environment is valid (true if it was not checked).
fn as_text(topics: &[Topic]) -> (String, bool) {
    let mut out = String::new();
    let mut good = true;
    for topic in topics {
        match topic {
            Topic::Version => out += &lines(&version()),
            Topic::Conduits => {
                let _ = write!(
                    out,
                    "\nInstalled libraries\n{}",
                    installed::as_text(&installed::libraries())
                );
            }
            Topic::Env => out += &report::as_text(&variables()),
            Topic::EnvMarkdown => out += &report::as_markdown(&variables()),
            Topic::Build => {
                let _ = write!(out, "\nBuild\n{}", lines(&installed::build()));
                let _ = write!(out, "\nLimits of the library\n{}", lines(&installed::limits()));
            }
            Topic::Limits => out += &machine::as_text(&machine::sections(&Root("/".into()))),
            Topic::Providers => out += &providers::as_text(&providers::reports(&networks())),
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

/// The output as JSON: one object with a member per topic.
fn as_json(topics: &[Topic]) -> (String, bool) {
    let mut members = Vec::new();
    let mut good = true;
    for topic in topics {
        let member = match topic {
            Topic::Version => ("version", object(&version())),
            Topic::Conduits => ("conduits", installed::as_json(&installed::libraries())),
            Topic::Env => ("variables", json::array(variables().iter().map(variable))),
            Topic::Build => {
                members.push(("build", object(&installed::build())));
                ("library_limits", object(&installed::limits()))
            }
            Topic::Limits => ("machine", machine::as_json(&machine::sections(&Root("/".into())))),
            Topic::Providers => ("providers", providers::as_json(&providers::reports(&networks()))),
            Topic::EnvMarkdown => ("markdown", json::string(&report::as_markdown(&variables()))),
            Topic::Help => ("usage", json::string(USAGE)),
            Topic::CheckEnv => {
                let problems = Config::load(&networks()).err().map(|e| e.problems).unwrap_or_default();
                good &= problems.is_empty();
                ("problems", json::array(problems.iter().map(|p| json::string(p))))
            }
        };
        members.push(member);
    }
    (json::object(members) + "\n", good)
}

fn variable(v: &Variable) -> String {
    let origin = match v.origin {
        Origin::Ours => "libgasnet",
        Origin::Gasnet => "GASNet-EX",
    };
    let members = [
        ("name", v.name),
        ("type", v.kind.name()),
        ("accepts", &report::accepted(v)),
        ("default", &report::default_of(v)),
        ("unit", v.unit),
        ("scope", v.scope.name()),
        ("status", v.status.name()),
        ("origin", origin),
        ("since", v.since),
        ("section", v.section),
        ("help", v.help),
    ];
    json::object(members.map(|(name, value)| (name, json::string(value))))
}

fn lines<N: AsRef<str>>(facts: &[(N, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.as_ref().len()).max().unwrap_or(0);
    facts.iter().fold(String::new(), |mut out, (name, value)| {
        let _ = writeln!(out, "{:<width$}  {value}", name.as_ref());
        out
    })
}

fn object<N: AsRef<str>>(facts: &[(N, String)]) -> String {
    json::object(facts.iter().map(|(name, value)| (name, json::string(value))))
}
