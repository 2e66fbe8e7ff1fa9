//! `gasnetrun_<conduit>` and, for programs with the universal library, `gasnetrun`: start a job on this host.
//!
//! It only sets the environment and becomes the program, so that launcher and supervisor are one process: its exit code, its signals and
//! its place in the shell's job control are the job's. The options are those of the GASNet-EX launchers (smp-conduit README, "Job
//! spawning"), and a few more.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use gasnet::job::{spawner_sentence, MAX_RANKS};
use gasnet::select::AUTO;

/// Conduits whose ranks all run on this host.
const CONDUITS: [&str; 3] = ["smp", "sock", "udp"];

const OPTIONS: &str = "\
    options:
      -n <n>                 number of processes to run
      -N <n>                 number of nodes to run on: 1
      -c <n>                 number of cpus per process (accepted; processes are not bound to cpus)
      -E <VAR1[,VAR2...]>    environment variables to propagate (accepted; all are)
      -l, --label            put the rank in front of each line of output
      -v                     be verbose about what is happening
      -t                     test only, don't execute anything (implies -v)
      -k                     keep any temporary files created (implies -v; there are none)
      -spawner=<name>        force use of a specific spawner (fork)
      --conduit=<name>       the conduit that a program with the universal library shall use (auto|smp|sock|udp)
      --help, --version      print this text, or the version
      --                     ends option parsing
";

/// Exit codes of the shell: wrong usage, not executable, not found.
const USAGE: u8 = 2;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What the command line asks for.
#[derive(Debug, Default, PartialEq)]
struct Request {
    conduit: String,
    /// The option that names it, where that is not the launcher's own name.
    conduit_option: Option<String>,
    ranks: u32,
    label: bool,
    verbose: bool,
    test_only: bool,
    /// Where the wish for a spawner comes from, and its name.
    spawner: Option<(String, String)>,
    program: Vec<OsString>,
}

/// What to do instead of starting something.
#[derive(Debug, PartialEq)]
enum Stop {
    Help,
    Version,
    Wrong(String),
}

fn wrong<T>(sentence: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(sentence.into()))
}

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let own_name = arguments.next().unwrap_or_else(|| "gasnetrun".into());
    let launcher = Path::new(&own_name)
        .file_name()
        .unwrap_or(&own_name)
        .to_string_lossy()
        .into_owned();
    match parse(&launcher, arguments) {
        Ok(request) => start(&launcher, &request),
        Err(Stop::Help) => {
            print!("{}", usage(&launcher));
            ExitCode::SUCCESS
        }
        Err(Stop::Version) => {
            println!("{launcher} (libgasnet) {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Err(Stop::Wrong(sentence)) => {
            eprint!("{launcher}: {sentence}\n{}", usage(&launcher));
            ExitCode::from(USAGE)
        }
    }
}

fn usage(launcher: &str) -> String {
    format!("usage: {launcher} -n <n> [options] [--] prog [program args]\n{OPTIONS}")
}

fn parse(launcher: &str, mut arguments: impl Iterator<Item = OsString>) -> Result<Request, Stop> {
    let conduit = launcher.strip_prefix("gasnetrun_").unwrap_or(AUTO).to_owned();
    let mut request = Request {
        conduit,
        ..Request::default()
    };
    let mut ranks = None;
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        if text == "--" {
            request.program.extend(arguments.by_ref());
            break;
        }
        if text == "-" || !text.starts_with('-') {
            request.program.push(argument);
            request.program.extend(arguments.by_ref());
            break;
        }
        let (name, value) = split(&text);
        // A value that is not attached is the next argument.
        let mut value = |what: &str| match value
            .clone()
            .or_else(|| arguments.next().map(|v| v.to_string_lossy().into_owned()))
        {
            Some(value) => Ok(value),
            None => wrong(format!("option '{name}' needs {what}")),
        };
        match name {
            "-n" | "-np" => ranks = Some(number(name, &value("a number of processes")?, MAX_RANKS)?),
            "-N" => match number(name, &value("a number of nodes")?, u32::MAX)? {
                1 => {}
                _ => return wrong("all processes of this conduit run on one node: only '-N 1' is possible"),
            },
            "-c" => drop(cpus(&value("a number of cpus")?)?),
            "-E" => drop(value("names of variables")?),
            "-spawner" | "--spawner" => request.spawner = Some((name.into(), value("a name")?)),
            "--conduit" => request.conduit_option = Some(value("a name")?.to_ascii_lowercase()),
            "-l" | "--label" => request.label = true,
            "-v" | "-vv" | "-k" => request.verbose = true,
            "-t" => (request.verbose, request.test_only) = (true, true),
            "-h" | "-help" | "--help" => return Err(Stop::Help),
            "--version" => return Err(Stop::Version),
            _ => return wrong(format!("unrecognized option '{text}'")),
        }
    }
    finish(request, ranks)
}

/// Checks what only the whole command line tells.
fn finish(mut request: Request, ranks: Option<u32>) -> Result<Request, Stop> {
    let Some(ranks) = ranks else {
        return wrong("required option -n was not given");
    };
    request.ranks = ranks;
    if let Some(conduit) = &request.conduit_option {
        request.conduit.clone_from(conduit);
    }
    if request.conduit != AUTO && !CONDUITS.contains(&request.conduit.as_str()) {
        return wrong(format!(
            "this launcher does not know conduit \"{}\"; it starts jobs of {}, or takes the program's own choice (auto)",
            request.conduit,
            CONDUITS.join(" and ")
        ));
    }
    if request.program.is_empty() {
        return wrong("no program was given");
    }
    let variable = spawner_variable(&request.conduit);
    if request.spawner.is_none() {
        request.spawner = env::var(&variable).ok().filter(|v| !v.is_empty()).map(|v| (variable, v));
    }
    match &request.spawner {
        Some((source, name)) if !name.trim().eq_ignore_ascii_case("fork") => wrong(spawner_sentence(source, name)),
        _ => Ok(request),
    }
}

fn spawner_variable(conduit: &str) -> String {
    let conduit = if conduit == AUTO { CONDUITS[0] } else { conduit };
    format!("GASNET_{}_SPAWNER", conduit.to_ascii_uppercase())
}

/// Name and attached value of an option: `-n4`, `-n=4`, `--conduit=smp`.
fn split(text: &str) -> (&str, Option<String>) {
    if let Some((name, value)) = text.split_once('=') {
        return (name, Some(value.to_owned()));
    }
    for short in ["-np", "-n", "-N", "-c", "-E"] {
        let attached = text.strip_prefix(short).filter(|rest| !rest.is_empty());
        if let Some(rest) = attached.filter(|rest| short == "-E" || rest.starts_with(|c: char| c.is_ascii_digit())) {
            return (short, Some(rest.to_owned()));
        }
    }
    (text, None)
}

fn number(option: &str, text: &str, most: u32) -> Result<u32, Stop> {
    match text.parse().ok().filter(|n| (1..=most).contains(n)) {
        Some(n) => Ok(n),
        None if most == u32::MAX => wrong(format!("option {option} {text}: a whole number of at least 1 is expected")),
        None => wrong(format!("option {option} {text}: a whole number from 1 to {most} is expected")),
    }
}

fn cpus(text: &str) -> Result<u32, Stop> {
    text.parse()
        .or_else(|_| wrong(format!("option -c {text}: a whole number is expected")))
}

/// The environment of the job, beside what the launcher has itself.
fn environment(request: &Request) -> Vec<(String, String)> {
    let mut set = vec![("GASNET_PSHM_NODES".to_owned(), request.ranks.to_string())];
    // The launcher's name says what its user wants; an option or the environment says it louder.
    let named = env::var_os("GASNET_CONDUIT").is_some_and(|value| !value.is_empty());
    if request.conduit_option.is_some() || (request.conduit != AUTO && !named) {
        set.push(("GASNET_CONDUIT".into(), request.conduit.clone()));
    }
    if request.spawner.is_some() {
        // An option wins over the environment, which the program reads.
        set.push((spawner_variable(&request.conduit), "fork".into()));
    }
    if request.label {
        set.push(("GASNET_LABEL_OUTPUT".into(), "1".into()));
    }
    if request.verbose {
        set.push(("GASNET_VERBOSEENV".into(), "1".into()));
        set.push(("GASNET_SPAWN_VERBOSE".into(), "1".into()));
    }
    set
}

fn start(launcher: &str, request: &Request) -> ExitCode {
    let set = environment(request);
    let program = locate(&request.program[0]);
    if request.verbose {
        let mut line = String::new();
        for (name, value) in &set {
            let _ = write!(line, " {name}={value}");
        }
        for word in std::iter::once(program.as_os_str()).chain(request.program[1..].iter().map(OsString::as_os_str)) {
            let _ = write!(line, " {}", quoted(word));
        }
        eprintln!("{launcher}: running: env{line}");
    }
    if request.test_only {
        return ExitCode::SUCCESS;
    }
    let error = Command::new(&program).args(&request.program[1..]).envs(set).exec();
    eprintln!("{launcher}: cannot run {}: {error}", quoted(&request.program[0]));
    ExitCode::from(if error.kind() == ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    })
}

/// The program as exec should see it: a plain name that is not on the path may lie in the current folder.
fn locate(program: &OsStr) -> OsString {
    let plain = !program.as_bytes().contains(&b'/');
    let on_path = || env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()));
    if plain && !on_path() && Path::new(program).is_file() {
        return Path::new(".").join(program).into_os_string();
    }
    program.to_owned()
}

/// A word as a shell would have to read it.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<Request, Stop> {
        parse("gasnetrun_smp", line.iter().map(OsString::from))
    }

    fn sentence(line: &[&str]) -> String {
        match read(line) {
            Err(Stop::Wrong(sentence)) => sentence,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn options_of_every_form() {
        for line in [
            &["-n", "4", "a"][..],
            &["-n4", "a"],
            &["-n=4", "a"],
            &["-np", "4", "a"],
            &["-np4", "a"],
            &["-n", "4", "--", "a"],
        ] {
            let request = read(line).unwrap();
            assert_eq!((request.ranks, request.program), (4, vec![OsString::from("a")]), "{line:?}");
        }
        let all = [
            "-n",
            "2",
            "-N",
            "1",
            "-c",
            "0",
            "-E",
            "A,B",
            "-v",
            "-l",
            "-spawner=fork",
            "env",
            "A=b",
            "-n",
            "x",
        ];
        let request = read(&all).unwrap();
        assert_eq!(
            (request.ranks, request.verbose, request.label, request.test_only),
            (2, true, true, false)
        );
        assert_eq!(request.program, ["env", "A=b", "-n", "x"]);
        assert!(read(&["-n", "1", "-t", "a"]).unwrap().test_only);
        assert_eq!(read(&["-n", "1", "--conduit=sock", "a"]).unwrap().conduit, "sock");
        assert_eq!(read(&["-n", "1", "--", "-prog"]).unwrap().program, ["-prog"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(sentence(&["a"]).contains("-n"));
        assert!(sentence(&["-n", "2"]).contains("no program"));
        assert!(sentence(&["-n"]).contains("-n"));
        for bad in ["0", "-1", "x", "1025", "99999999999", ""] {
            assert!(sentence(&["-n", bad, "a"]).contains("1 to 1024"), "{bad}");
        }
        assert!(sentence(&["-n", "2", "-N", "2", "a"]).contains("-N 1"));
        assert!(sentence(&["-n", "2", "-c", "x", "a"]).contains("-c x"));
        assert!(sentence(&["-n", "2", "-foo", "a"]).contains("-foo"));
        assert!(sentence(&["-n", "2", "-spawner=ssh", "a"]).contains("fork"));
        assert!(sentence(&["-n", "2", "-spawner", "smoke", "a"]).contains("no such spawner"));
        assert!(sentence(&["-n", "2", "--conduit", "ibv", "a"]).contains("ibv"));
        assert_eq!(read(&["--help"]), Err(Stop::Help));
        assert_eq!(read(&["--version"]), Err(Stop::Version));
    }

    #[test]
    fn words_are_quoted() {
        for (word, text) in [
            ("a.b/c-d=1", "a.b/c-d=1"),
            ("a b", "'a b'"),
            ("", "''"),
            ("c'd", r"'c'\''d'"),
            ("$x", "'$x'"),
        ] {
            assert_eq!(quoted(OsStr::new(word)), text);
        }
    }
}
