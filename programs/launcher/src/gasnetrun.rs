//! `gasnetrun_<conduit>` and, for programs with the universal library, `gasnetrun`: start a job.
//! `amudprun` is another name of `gasnetrun_udp`, `gasnetrun_aries` and `gasnetrun_gemini` of
//! `gasnetrun_gni`.
//!
//! The launcher sets the environment and then executes the program, or a process manager that
//! starts it, in its own process. So its exit code, its signals and its place in the shell's job
//! control are those of the job. The options are those of the GASNet-EX launchers (smp-conduit
//! README, "Job spawning"; ssh-spawner README, "Basic Usage"), and a few more.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use gasnet_conduit::config::{self, built_in, AUTO_CONDUIT as AUTO, TABLE};
use gasnet_conduit::{Reach, SystemLauncher};
use gasnet_conduit_any::gasneti_conduits;
use gasnet_job::spawner::{self, Decision, Spawner, Starter};
use gasnet_job::{launcher_record, Library, MAX_RANKS};

#[path = "gasnetrun/manager.rs"]
mod manager;

use manager::Filling;

/// The conduits of this project, and whether their jobs can span several hosts.
fn conduits() -> impl Iterator<Item = (&'static str, bool)> {
    let all = gasneti_conduits().iter();
    all.map(|conduit| conduit.identity())
        .map(|identity| (identity.name, identity.reach == Reach::Hosts))
}

const OPTIONS: &str = "\
Starts a program as a GASNet job.
  -n <n>                 number of processes to run
  -N <n>                 number of nodes to run on
  -c <n>                 number of cpus per process (srun only; otherwise processes are not bound to cpus)
  -E <VAR1[,VAR2...]>    environment variables that override those of the sessions on other nodes; \
                         VAR=value sets one
  -l, --label            prefix each line of output with the rank
  -v                     be verbose about what is happening
  -t                     test only, don't execute anything (implies -v)
  -k                     keep any temporary files created (implies -v; there are none)
  -encode, -noencode     accepted, as with -args or -env: arguments and variables are passed unchanged
  -spawner=<name>        force use of a specific spawner: fork, ssh, pmi, mpi or custom (-spawn: L, S, C)
  --conduit=<name>       conduit for a program with the universal library (@CONDUITS@)
  -h, --help             print this text
  --version              print the version
  --                     ends option parsing
The exit status is that of the job, 2 for invalid options, 126 or 127 if the program cannot be executed.
";

/// Upper bound of `-n`; a larger number is a typing error.
const MOST: u32 = 1 << 20;

/// Exit codes of the shell: wrong usage, not executable, not found.
const USAGE: u8 = 2;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The parsed command line.
#[derive(Debug, Default, PartialEq)]
struct Request {
    conduit: String,
    /// The value of `--conduit`, which overrides the conduit of the launcher's name.
    conduit_option: Option<String>,
    ranks: u32,
    nodes: Option<u32>,
    cpus: Option<u32>,
    /// Names from `-E`, and the assignments among them.
    variables: Vec<String>,
    assignments: Vec<(String, OsString)>,
    label: bool,
    verbose: bool,
    test_only: bool,
    /// The option that selects a spawner, and its value.
    spawner: Option<(String, String)>,
    decision: Decision,
    program: Vec<OsString>,
}

/// Reasons not to start a job.
#[derive(Debug, PartialEq)]
enum Stop {
    Help,
    Version,
    Wrong(String),
}

impl Request {
    /// Takes a value of `-E`: names, or one name and its value, whose bytes are kept as they are.
    fn pass_on(&mut self, given: &OsStr) -> Result<(), Stop> {
        let bytes = given.as_bytes();
        let Some(end) = bytes.iter().position(|&byte| byte == b'=') else {
            let text = given.to_string_lossy();
            let names = text.split(',').map(str::trim).filter(|n| !n.is_empty());
            self.variables.extend(names.map(str::to_owned));
            return Ok(());
        };
        match std::str::from_utf8(&bytes[..end]) {
            Ok(name) if !name.is_empty() && !name.contains(',') => {
                self.variables.push(name.to_owned());
                let value = OsStr::from_bytes(&bytes[end + 1..]).to_owned();
                self.assignments.push((name.to_owned(), value));
                Ok(())
            }
            _ => wrong(format!(
                "option -E {}: names of variables, or one name and its value, are expected",
                given.to_string_lossy()
            )),
        }
    }
}

fn wrong<T>(message: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(message.into()))
}

fn main() -> ExitCode {
    // Another launcher has set them for the processes that it starts.
    launcher_record::discard();
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
        Err(Stop::Wrong(message)) => {
            eprint!("{launcher}: {message}\n{}", usage(&launcher));
            ExitCode::from(USAGE)
        }
    }
}

fn usage(launcher: &str) -> String {
    let names: Vec<&str> = [AUTO].into_iter().chain(conduits().map(|c| c.0)).collect();
    let options = OPTIONS.replace("@CONDUITS@", &names.join("|"));
    format!("usage: {launcher} -n <n> [options] [--] prog [program args]\n{options}")
}

fn parse(launcher: &str, mut arguments: impl Iterator<Item = OsString>) -> Result<Request, Stop> {
    let conduit = match launcher {
        "amudprun" => "udp",
        "gasnetrun_aries" | "gasnetrun_gemini" => "gni",
        other => other.strip_prefix("gasnetrun_").unwrap_or(AUTO),
    };
    let conduit = conduit.to_owned();
    let mut request = Request {
        conduit,
        ..Request::default()
    };
    let mut ranks = None;
    while let Some(argument) = arguments.next() {
        if let Some(value) = argument.as_bytes().strip_prefix(b"-E") {
            let attached = value.strip_prefix(b"=").unwrap_or(value);
            let attached = (!value.is_empty()).then(|| OsStr::from_bytes(attached).to_owned());
            match attached.or_else(|| arguments.next()) {
                Some(value) => request.pass_on(&value)?,
                None => return wrong("option '-E' needs names of variables"),
            }
            continue;
        }
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
            "-n" | "-np" => ranks = Some(number(name, &value("a number of processes")?, MOST)?),
            "-N" => request.nodes = Some(number(name, &value("a number of nodes")?, u32::MAX)?),
            "-c" => request.cpus = Some(cpus(&value("a number of cpus")?)?),
            "-spawner" | "--spawner" | "-spawn" => request.spawner = Some((name.into(), value("a name")?)),
            "--conduit" => request.conduit_option = Some(value("a name")?.to_ascii_lowercase()),
            "-l" | "--label" => request.label = true,
            "-v" | "-vv" | "-k" => request.verbose = true,
            "-t" => (request.verbose, request.test_only) = (true, true),
            "-encode" | "-encode-args" | "-encode-env" | "-noencode" | "-noencode-args" | "-noencode-env" => {}
            "-h" | "-help" | "--help" => return Err(Stop::Help),
            "--version" => return Err(Stop::Version),
            _ => return wrong(format!("unrecognized option '{text}'")),
        }
    }
    finish(request, ranks)
}

/// Checks that need the whole command line.
fn finish(mut request: Request, ranks: Option<u32>) -> Result<Request, Stop> {
    let Some(ranks) = ranks else {
        return wrong("required option -n was not given");
    };
    request.ranks = ranks;
    if let Some(conduit) = &request.conduit_option {
        request.conduit.clone_from(conduit);
    }
    if request.conduit != AUTO && !conduits().any(|c| c.0 == request.conduit) {
        let names: Vec<&str> = conduits().map(|c| c.0).collect();
        return wrong(format!(
            "unknown conduit \"{}\": {} and auto (the program's own choice) are possible",
            request.conduit,
            names.join(", ")
        ));
    }
    if request.program.is_empty() {
        return wrong("no program was given");
    }
    request.decision = decide(&request)?;
    if request.decision.spawner == Spawner::Fork && request.ranks > MAX_RANKS {
        return wrong(format!(
            "option -n {}: on one host a whole number from 1 to {MAX_RANKS} is expected",
            request.ranks
        ));
    }
    Ok(request)
}

/// Whether the conduit has a documented variable that selects its spawner. Those for tests have
/// none.
fn has_spawner_variable(conduit: &str) -> bool {
    let name = format!("GASNET_{}_SPAWNER", conduit.to_ascii_uppercase());
    let own = gasneti_conduits().iter().flat_map(|conduit| conduit.variables());
    TABLE.iter().chain(own).any(|variable| variable.name == name)
}

/// The program's library by its possible conduits: one, or all.
fn library(conduit: &str) -> Library<'static> {
    let is_possible = |name: &str| name == conduit || (conduit == AUTO && has_spawner_variable(name));
    let possible: Vec<_> = conduits().filter(|c| is_possible(c.0)).collect();
    Library {
        names: possible.iter().map(|c| c.0).collect(),
        network: conduit == AUTO || possible.iter().any(|c| c.1),
        alone: possible.iter().any(|c| !c.1),
        launcher: own_launcher(conduit),
        ..Library::default()
    }
}

/// The program that starts processes for the system of a conduit, or of any whose program is on the
/// path, unless that system has started this process.
fn own_launcher(conduit: &str) -> Option<SystemLauncher> {
    let mut launchers = gasneti_conduits().iter().filter_map(|known| {
        let bootstrap = known.bootstrap().filter(|system| !system.has_started_this())?;
        Some((known.identity().name, bootstrap.launcher()?))
    });
    let is_meant = |(name, launcher): &(&str, SystemLauncher)| match conduit {
        AUTO => spawner::is_there(launcher),
        _ => *name == conduit,
    };
    launchers.find(is_meant).map(|(_, launcher)| launcher)
}

/// The spawner that the user selects, else that of the site, else the one that the environment
/// suggests.
fn decide(request: &Request) -> Result<Decision, Stop> {
    let (library, environment) = (library(&request.conduit), |name: &str| env::var_os(name));
    let selected = spawner::selected(&library, request.spawner.as_ref(), environment);
    if let Some(selected) = selected.map_err(Stop::Wrong)? {
        return Ok(selected);
    }
    if let Some(default) = spawner::of_site(&request.conduit).map_err(Stop::Wrong)? {
        return Ok(default);
    }
    let suggested = spawner::suggested(&library, Starter::Launcher, environment);
    let is_alone = library.network && suggested.spawner == Spawner::Fork;
    match request.nodes.filter(|&nodes| is_alone && nodes > 1) {
        None => Ok(suggested),
        Some(_) if built_in("GASNET_SSH_NODEFILE").is_some() => Ok(Decision {
            spawner: Spawner::Ssh,
            by_spawnfn: false,
            why: "this site has a list of hosts".into(),
        }),
        Some(nodes) => wrong(format!(
            "-N {nodes}: no hosts are known. List them in GASNET_SSH_SERVERS or GASNET_SSH_NODEFILE, use a process \
             manager (-spawner=pmi), or start all processes on this host (-spawner=fork, GASNET_SPAWNER=fork)."
        )),
    }
}

/// Name and attached value of an option: `-n4`, `-n=4`, `--conduit=smp`.
fn split(text: &str) -> (&str, Option<String>) {
    if let Some((name, value)) = text.split_once('=') {
        return (name, Some(value.to_owned()));
    }
    for short in ["-np", "-n", "-N", "-c"] {
        let attached = text.strip_prefix(short).filter(|rest| !rest.is_empty());
        if let Some(rest) = attached.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            return (short, Some(rest.to_owned()));
        }
    }
    (text, None)
}

fn number(option: &str, text: &str, most: u32) -> Result<u32, Stop> {
    match text.parse().ok().filter(|n| (1..=most).contains(n)) {
        Some(n) => Ok(n),
        None if most == u32::MAX => wrong(format!(
            "option {option} {text}: a whole number of at least 1 is expected"
        )),
        None => wrong(format!(
            "option {option} {text}: a whole number from 1 to {most} is expected"
        )),
    }
}

fn cpus(text: &str) -> Result<u32, Stop> {
    text.parse()
        .or_else(|_| wrong(format!("option -c {text}: a whole number is expected")))
}

/// The variables that the launcher adds to its own environment for the job.
fn environment(request: &Request) -> Vec<(String, OsString)> {
    let mut set: Vec<(String, OsString)> = request.assignments.clone();
    // The program reads the environment, so an option must override it.
    let word = match request.decision.spawner {
        Spawner::Fork => "fork",
        Spawner::Ssh => "ssh",
        Spawner::Pmi | Spawner::Mpi => "pmi",
        // The other variables have no name for it.
        Spawner::Custom => {
            set.push(("GASNET_SPAWNFN".into(), "C".into()));
            "auto"
        }
    };
    if !request.decision.spawner.is_manager() {
        set.push(("GASNET_PSHM_NODES".into(), request.ranks.to_string().into()));
    }
    set.extend(
        spawner::variables(&library(&request.conduit))
            .into_iter()
            .map(|name| (name, word.into())),
    );
    // An option takes precedence over GASNET_CONDUIT, which takes precedence over the name of the
    // launcher.
    let named = env::var_os("GASNET_CONDUIT").is_some_and(|value| !value.is_empty());
    if request.conduit_option.is_some() || (request.conduit != AUTO && !named) {
        set.push(("GASNET_CONDUIT".into(), request.conduit.clone().into()));
    }
    set.push((launcher_record::RECORD.into(), record(request, &set).into()));
    if let Some(nodes) = request.nodes.filter(|_| request.decision.spawner == Spawner::Ssh) {
        set.push(("GASNET_SPAWN_HOSTS".into(), nodes.to_string().into()));
    }
    if !request.variables.is_empty() {
        set.push(("GASNET_SPAWN_ENVIRONMENT".into(), request.variables.join(",").into()));
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

/// The record of the variables that choose the spawner, the number of ranks and the conduit.
fn record(request: &Request, set: &[(String, OsString)]) -> String {
    let chosen = set.iter().skip(request.assignments.len());
    let chosen = chosen.filter_map(|(name, value)| Some((name.clone(), value.to_str()?.to_owned())));
    launcher_record::of_launcher(&chosen.collect::<Vec<_>>(), request.decision.spawner.is_manager())
}

/// The command line to execute: the program, or a process manager that starts it.
fn words(request: &Request, set: &[(String, OsString)]) -> Result<Vec<OsString>, String> {
    let mut program = request.program.clone();
    program[0] = locate(&program[0]);
    if !request.decision.spawner.is_manager() {
        return Ok(program);
    }
    let of_gasnet = env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| config::is_of_job(name) && name != "GASNET_PSHM_NODES");
    let ours = set.iter().map(|(name, _)| name.clone());
    let mut variables: Vec<String> = request.variables.iter().cloned().chain(ours).chain(of_gasnet).collect();
    variables.sort();
    variables.dedup();
    let filling = Filling {
        ranks: request.ranks,
        nodes: request.nodes,
        verbose: request.verbose,
        mpi: request.decision.spawner == Spawner::Mpi,
        launcher: own_launcher(&request.conduit),
        cpus: request.cpus,
        variables: &variables,
        program: &program,
    };
    manager::command(&filling)
}

/// The value of `-N`, if the job cannot have so many hosts: launchers of clients pass it always.
fn ignored_nodes(request: &Request) -> Option<u32> {
    let is_here = request.decision.spawner == Spawner::Fork;
    request.nodes.filter(|&nodes| is_here && nodes > 1)
}

fn start(launcher: &str, request: &Request) -> ExitCode {
    let set = environment(request);
    let line = match words(request, &set) {
        Ok(line) => line,
        Err(message) => {
            eprintln!("{launcher}: {message}");
            return ExitCode::from(USAGE);
        }
    };
    if request.verbose {
        let mut text = String::new();
        for (name, value) in set.iter().filter(|(name, _)| name != launcher_record::RECORD) {
            let _ = write!(text, " {name}={}", value.to_string_lossy());
        }
        for word in &line {
            let _ = write!(text, " {}", quoted(word));
        }
        let spawner = request.decision.spawner.name();
        eprintln!("{launcher}: spawner {spawner}, because {}", request.decision.why);
        eprintln!("{launcher}: running: env{text}");
    }
    if let Some(nodes) = ignored_nodes(request) {
        eprintln!("{launcher}: warning: request for {nodes} nodes ignored (-N): all processes are on this host");
    }
    if request.test_only {
        return ExitCode::SUCCESS;
    }
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).envs(set);
    if request.decision.spawner.is_manager() {
        // Otherwise each process would start a job of this size.
        command.env_remove("GASNET_PSHM_NODES");
    }
    let error = command.exec();
    eprintln!("{launcher}: cannot run {}: {error}", quoted(&line[0]));
    ExitCode::from(if error.kind() == ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    })
}

/// The program as exec needs it: a plain name that is not on the path may be in the current
/// directory.
fn locate(program: &OsStr) -> OsString {
    let plain = !program.as_bytes().contains(&b'/');
    if plain && !spawner::on_path(program) && Path::new(program).is_file() {
        return Path::new(".").join(program).into_os_string();
    }
    program.to_owned()
}

/// A word, quoted for a shell where necessary.
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
    use gasnet_conduit::config::Config;

    fn read(line: &[&str]) -> Result<Request, Stop> {
        parse("gasnetrun_smp", line.iter().map(OsString::from))
    }

    fn message(line: &[&str]) -> String {
        match read(line) {
            Err(Stop::Wrong(message)) => message,
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
            assert_eq!(
                (request.ranks, request.program),
                (4, vec![OsString::from("a")]),
                "{line:?}"
            );
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
            "-E",
            "C=d=e",
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
        assert_eq!(
            (request.nodes, request.cpus, request.variables.join(" ")),
            (Some(1), Some(0), "A B C".into())
        );
        assert_eq!(request.assignments, [("C".to_owned(), OsString::from("d=e"))]);
        let odd = OsStr::from_bytes(b"-EC=\xe9");
        let line = [OsStr::new("-n1"), odd, OsStr::new("a")].map(OsStr::to_owned);
        let request = parse("gasnetrun_smp", line.into_iter()).unwrap();
        assert_eq!(request.assignments[0].1.as_bytes(), b"\xe9");
        assert_eq!(request.decision.spawner, Spawner::Fork);
        let udp = |line: &[&str]| parse("amudprun", line.iter().map(OsString::from));
        let request = udp(&["-np", "2", "-spawn", "S", "a"]).unwrap();
        assert_eq!(
            (request.conduit.as_str(), request.decision.spawner),
            ("udp", Spawner::Ssh)
        );
        assert_eq!(
            udp(&["-n4", "-spawn", "L", "a"]).unwrap().decision.spawner,
            Spawner::Fork
        );
        let request = udp(&["-n4", "-spawn", "C", "a"]).unwrap();
        let set = environment(&request);
        let has = |name: &str, value: &str| set.contains(&(name.to_owned(), value.into()));
        assert!(has("GASNET_SPAWNFN", "C") && has("GASNET_UDP_SPAWNER", "auto") && has("GASNET_SPAWNER", "auto"));
        assert!(has("GASNET_PSHM_NODES", "4"));
        let auto = parse("gasnetrun", ["-n2", "-spawner=ssh", "a"].iter().map(OsString::from)).unwrap();
        let set = environment(&auto);
        for name in ["GASNET_SMP_SPAWNER", "GASNET_UDP_SPAWNER", "GASNET_SPAWNER"] {
            assert!(set.contains(&(name.to_owned(), "ssh".into())), "{name}");
        }
        assert!(read(&["-n", "1", "-t", "a"]).unwrap().test_only);
        let encoded = read(&["-n", "1", "-noencode", "-encode-args", "-encode-env", "a", "-encode"]);
        assert_eq!(encoded.unwrap().program, ["a", "-encode"]);
        assert_eq!(read(&["-n", "1", "--conduit=sock", "a"]).unwrap().conduit, "sock");
        assert_eq!(read(&["-n", "1", "--", "-prog"]).unwrap().program, ["-prog"]);
    }

    #[test]
    fn errors_name_the_option() {
        assert!(message(&["a"]).contains("-n"));
        assert!(message(&["-n", "2"]).contains("no program"));
        assert!(message(&["-n"]).contains("-n"));
        for bad in ["0", "-1", "x", "1048577", "99999999999", ""] {
            assert!(message(&["-n", bad, "a"]).contains("1 to 1048576"), "{bad}");
        }
        assert!(message(&["-n", "1025", "a"]).contains("1 to 1024"));
        let chapel = read(&["-n", "2", "-N", "2", "-c", "0", "a"]).unwrap();
        assert_eq!(ignored_nodes(&chapel), Some(2));
        assert_eq!(ignored_nodes(&read(&["-n", "2", "-N", "1", "a"]).unwrap()), None);
        assert!(message(&["-n", "2", "-c", "x", "a"]).contains("-c x"));
        assert!(message(&["-n", "2", "-foo", "a"]).contains("-foo"));
        assert!(message(&["-n", "2", "-E", "A,B=c", "a"]).contains("A,B=c"));
        assert!(message(&["-n", "2", "-spawner=ssh", "a"]).contains("no conduit with a network (smp)"));
        assert!(message(&["-n", "2", "-spawner", "smoke", "a"]).contains("unknown spawner"));
        assert!(message(&["-n", "2", "--conduit", "lapi", "a"]).contains("lapi"));
        assert_eq!(read(&["--help"]), Err(Stop::Help));
        assert_eq!(read(&["--version"]), Err(Stop::Version));
    }

    #[test]
    fn variables_of_other_conduits_are_not_misspelt() {
        let variables = || gasneti_conduits().iter().flat_map(|conduit| conduit.variables());
        for own in gasneti_conduits() {
            let is_declared = |name: &str| TABLE.iter().chain(own.variables()).any(|v| v.name == name);
            let others = variables().map(|v| v.name).filter(|name| !is_declared(name));
            let environment = others.map(|name| (name.into(), "1".into()));
            let config = Config::from_env(&[own.variables()], environment).unwrap();
            assert_eq!(config.misspelt(), [], "{}", own.identity().name);
        }
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
