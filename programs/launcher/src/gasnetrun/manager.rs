//! The command line of a process manager: the user's template (mpi-conduit README, `MPIRUN_CMD`),
//! or a manager that this host has.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use gasnet_conduit::config::built_in;
use gasnet_conduit::SystemLauncher;
use gasnet_job::shell_words;
use gasnet_job::spawner::{is_there, on_path, text};

/// Values for the placeholders of a template.
pub struct Filling<'a> {
    /// Ranks.
    pub ranks: u32,
    /// Hosts, from `-N`.
    pub nodes: Option<u32>,
    /// Whether `MPIRUN_CMD` takes precedence over `PMIRUN_CMD`.
    pub mpi: bool,
    /// The program that starts processes for the system of the conduit.
    pub launcher: Option<SystemLauncher>,
    /// Whether the user wants to see what happens, by `-v`.
    pub verbose: bool,
    /// Processors per rank, from `-c`.
    pub cpus: Option<u32>,
    /// Names of the variables that the ranks need.
    pub variables: &'a [String],
    /// The program and its arguments.
    pub program: &'a [OsString],
}

/// The command of the manager.
pub fn command(filling: &Filling<'_>) -> Result<Vec<OsString>, String> {
    let names = if filling.mpi {
        ["MPIRUN_CMD", "PMIRUN_CMD"]
    } else {
        ["PMIRUN_CMD", "MPIRUN_CMD"]
    };
    let given = names.map(|name| (name, text(name, |name| env::var_os(name))));
    let of_site = names.map(|name| (name, text(name, |name| built_in(name).map(OsString::from))));
    for (name, template) in given.into_iter().chain(of_site) {
        if let Some(template) = template? {
            if filling.nodes.is_some() && !template.contains("%M") {
                eprintln!("gasnetrun: -N has no effect: {name} has no %M, the number of hosts");
            }
            let mut line = fill(name, &template, filling)?;
            if let Some(at) = launcher(&line).filter(|&at| is_open_mpi(&output(&line[at], "--version"))) {
                line.splice(at + 1..=at, forwarded(filling));
            }
            return Ok(line);
        }
    }
    let own = filling.launcher.map(|launcher| launcher.program);
    if env::var_os("SLURM_JOB_ID").is_some() && on_path("srun") {
        return Ok(match own {
            Some("aprun") => cray_srun(filling),
            Some("prun") => elan_srun(filling),
            _ => srun(filling, &output("srun", "--mpi=list")),
        });
    }
    if own == Some("prun") && filling.launcher.as_ref().is_some_and(is_there) {
        return Ok(prun(filling));
    }
    if on_path("aprun") {
        return Ok(aprun(filling));
    }
    let names = ["mpiexec.hydra", "mpiexec", "mpirun"];
    let Some(name) = names.into_iter().find(|name| on_path(name)) else {
        return Err(format!(
            "no process manager found: neither PMIRUN_CMD nor MPIRUN_CMD is set, this is not a Slurm allocation, and \
             {}aprun, {} are not on the path",
            if own == Some("prun") { "prun of RMS, " } else { "" },
            names.join(", ")
        ));
    };
    Ok(mpiexec(name, filling, &output(name, "--version")))
}

/// Prefixes of the names of Open MPI's launcher (Debian has `mpirun.openmpi`), which forwards only
/// the variables that `-x` names.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "orterun", "prterun"];

/// The index of a launcher that may be Open MPI's: at the beginning of the command line, or after
/// `env` and its arguments.
fn launcher(line: &[OsString]) -> Option<usize> {
    let name = |word: &OsString| {
        Path::new(word)
            .file_name()
            .unwrap_or(word)
            .to_string_lossy()
            .into_owned()
    };
    let mut at = 0;
    if line.first().is_some_and(|word| name(word) == "env") {
        at = 1;
        while let Some(word) = line.get(at).map(|word| word.to_string_lossy()) {
            at += match &*word {
                "-u" | "--unset" | "-C" | "--chdir" => 2,
                word if word.starts_with('-') || word.contains('=') => 1,
                _ => break,
            };
        }
    }
    let own_name = name(line.get(at)?);
    let is = |launcher: &&str| {
        own_name
            .strip_prefix(*launcher)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
    };
    LAUNCHERS.iter().any(is).then_some(at)
}

fn is_open_mpi(version: &str) -> bool {
    ["Open MPI", "OpenRTE", "PRRTE"]
        .iter()
        .any(|name| version.contains(name))
}

/// Options with which Open MPI forwards variables.
fn forwarded(filling: &Filling<'_>) -> Vec<OsString> {
    filling
        .variables
        .iter()
        .flat_map(|variable| words(["-x", variable]))
        .collect()
}

/// The output of a program, on standard output and standard error.
fn output(program: impl AsRef<OsStr>, option: &str) -> String {
    let output = Command::new(program).arg(option).output();
    output.map_or_else(
        |_| String::new(),
        |s| String::from_utf8_lossy(&[s.stdout, s.stderr].concat()).into_owned(),
    )
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

fn srun(filling: &Filling<'_>, interfaces: &str) -> Vec<OsString> {
    let has = |name: &str| {
        interfaces
            .split_whitespace()
            .any(|word| word == name || word.starts_with(&format!("{name}_")))
    };
    let interface = if has("pmix") && !has("pmi2") {
        "--mpi=pmix"
    } else {
        "--mpi=pmi2"
    };
    // A batch script that was submitted with --export=NONE would pass no variables to its steps.
    place(words(["srun", interface, "--export=ALL"]), filling, "-c", filling.nodes)
}

/// Completes a command line: the number of ranks, `-N` with `nodes`, processors per rank by an
/// option of this name, and the program.
fn place(mut line: Vec<OsString>, filling: &Filling<'_>, cpus: &str, nodes: Option<u32>) -> Vec<OsString> {
    let each = filling.cpus.filter(|&each| each > 0);
    for (option, number) in [("-n", Some(filling.ranks)), ("-N", nodes), (cpus, each)] {
        if let Some(number) = number {
            line.extend(words([option, &number.to_string()]));
        }
    }
    line.extend(filling.program.iter().cloned());
    line
}

/// Native Slurm of a Cray, whose own PMI is the default there: the command of the manuals.
fn cray_srun(filling: &Filling<'_>) -> Vec<OsString> {
    let mut line = words(["srun", "-K0", "-W60"]);
    line.extend(filling.verbose.then(|| "-v".into()));
    line.extend(words(["-mblock", "--export=ALL"]));
    place(line, filling, "-c", filling.nodes)
}

/// Slurm with the plugin switch/elan, which gives tasks all that libelan needs.
fn elan_srun(filling: &Filling<'_>) -> Vec<OsString> {
    place(words(["srun"]), filling, "-c", filling.nodes)
}

/// The launcher of RMS, whose options for places are those of srun. It passes the whole
/// environment.
fn prun(filling: &Filling<'_>) -> Vec<OsString> {
    let mut line = words(["prun"]);
    line.extend(filling.verbose.then(|| "-v".into()));
    place(line, filling, "-c", filling.nodes)
}

/// Cray's launcher, which passes the whole environment. Its `-N` is the ranks per host.
fn aprun(filling: &Filling<'_>) -> Vec<OsString> {
    let each = filling.nodes.map(|nodes| filling.ranks.div_ceil(nodes));
    place(words(["aprun"]), filling, "-d", each)
}

fn mpiexec(name: &str, filling: &Filling<'_>, version: &str) -> Vec<OsString> {
    let mut line = words([name, "-n", &filling.ranks.to_string()]);
    let each = filling.nodes.map(|nodes| filling.ranks.div_ceil(nodes));
    if let Some((each, nodes)) = each.zip(filling.nodes) {
        let hosts = filling.ranks.div_ceil(each);
        if hosts != nodes {
            eprintln!("gasnetrun: -N {nodes}: {name} places {each} ranks per host, on {hosts} hosts");
        }
    }
    // Others forward the whole environment.
    if is_open_mpi(version) {
        line.extend(
            each.into_iter()
                .flat_map(|each| words(["--map-by", &format!("ppr:{each}:node")])),
        );
        line.extend(forwarded(filling));
    } else if let Some(each) = each {
        line.extend(words(["-ppn", &each.to_string()]));
    }
    line.extend(filling.program.iter().cloned());
    line
}

/// Fills a template. A word that is just `%A` or `%C` becomes one word per argument.
fn fill(source: &str, template: &str, filling: &Filling<'_>) -> Result<Vec<OsString>, String> {
    let Some(pattern) = shell_words(template) else {
        return Err(format!("{source}={template}: unterminated quote or backslash"));
    };
    let mut line = Vec::new();
    for word in pattern {
        match word.as_str() {
            "%A" => line.extend(filling.program.iter().skip(1).cloned()),
            "%C" => line.extend(filling.program.iter().cloned()),
            "%V" if !filling.verbose => {}
            _ => line.push(fill_word(source, &word, filling)?),
        }
    }
    Ok(line)
}

fn fill_word(source: &str, word: &str, filling: &Filling<'_>) -> Result<OsString, String> {
    let [program, arguments @ ..] = filling.program else {
        return Err("no program was given".into());
    };
    let mut filled = OsString::new();
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            filled.push(letter.to_string());
            continue;
        }
        match letters.next() {
            Some('N') => filled.push(filling.ranks.to_string()),
            Some('M') => filled.push(filling.nodes.unwrap_or(1).to_string()),
            Some('V') => filled.push(if filling.verbose { "-v" } else { "" }),
            Some('P') => filled.push(program),
            Some('A') => filled.push(arguments.join(OsStr::new(" "))),
            Some('C') => filled.push(filling.program.join(OsStr::new(" "))),
            Some('D') => filled.push(env::current_dir().unwrap_or_default()),
            Some('H') => match env::var_os("GASNET_NODEFILE").filter(|v| !v.is_empty()) {
                Some(file) => filled.push(file),
                None => return Err(format!("{source} has %H, but GASNET_NODEFILE is not set")),
            },
            Some('%') => filled.push("%"),
            other => {
                let other = other.map_or_else(String::new, String::from);
                return Err(format!(
                    "{source}: unknown placeholder %{other}; %N, %M, %P, %A, %C, %D, %H, %V and %% are known"
                ));
            }
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<R>(f: impl Fn(&Filling<'_>) -> R) -> R {
        let program = ["./a b", "x y", ""].map(OsString::from);
        f(&Filling {
            ranks: 5,
            nodes: Some(2),
            mpi: false,
            launcher: None,
            verbose: false,
            cpus: Some(3),
            variables: &["GASNET_X".to_owned()],
            program: &program,
        })
    }

    fn text(line: &[OsString]) -> Vec<&str> {
        line.iter().filter_map(|w| w.to_str()).collect()
    }

    #[test]
    fn templates_are_filled() {
        let line = with(|f| fill("T", "env A='b c' mpirun -np %N %C", f).unwrap());
        assert_eq!(text(&line), ["env", "A=b c", "mpirun", "-np", "5", "./a b", "x y", ""]);
        let line = with(|f| fill("T", "run -n%N -N%M 100%% %P -- %A", f).unwrap());
        assert_eq!(text(&line), ["run", "-n5", "-N2", "100%", "./a b", "--", "x y", ""]);
        let line = with(|f| fill("T", "srun -K0 -W60 %V -mblock -n %N %C", f).unwrap());
        assert_eq!(text(&line)[..5], ["srun", "-K0", "-W60", "-mblock", "-n"]);
        assert_eq!(text(&with(aprun))[..7], ["aprun", "-n", "5", "-N", "3", "-d", "3"]);
        assert!(with(|f| fill("T", "run %X", f).unwrap_err()).contains("%X"));
        assert!(with(|f| fill("T", "run 'x", f).unwrap_err()).contains("unterminated"));
    }

    #[test]
    fn launchers_are_found_behind_env() {
        let at = |line: &str| launcher(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(at("mpirun -np 3 a"), Some(0));
        assert_eq!(at("/opt/x/mpirun.openmpi -np 3 a"), Some(0));
        assert_eq!(at("env A=b -u C D=e mpirun -np 3 a"), Some(5));
        assert_eq!(at("mpirun-openmpi-mp -np 3 a"), Some(0));
        for other in ["mpirunner -np 3 a", "env A=b", "srun mpirun", "srun -n 3 a"] {
            assert_eq!(at(other), None, "{other}");
        }
    }

    #[test]
    fn managers_that_are_known() {
        let line = with(|f| srun(f, "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n"));
        let wanted = ["srun", "--mpi=pmi2", "--export=ALL", "-n", "5", "-N", "2", "-c", "3"];
        assert_eq!(text(&line)[..9], wanted);
        assert_eq!(text(&with(|f| srun(f, "none\npmix_v4")))[1], "--mpi=pmix");
        let line = with(cray_srun);
        let wanted = "srun -K0 -W60 -mblock --export=ALL -n 5 -N 2 -c 3";
        assert_eq!(text(&line)[..11].join(" "), wanted);
        assert_eq!(text(&with(elan_srun))[..7].join(" "), "srun -n 5 -N 2 -c 3");
        assert_eq!(text(&with(prun))[..7].join(" "), "prun -n 5 -N 2 -c 3");
        let line = with(|f| mpiexec("mpirun", f, "mpirun (Open MPI) 4.1.4"));
        let wanted = ["mpirun", "-n", "5", "--map-by", "ppr:3:node", "-x", "GASNET_X", "./a b"];
        assert_eq!(text(&line)[..8], wanted);
        let line = with(|f| mpiexec("mpiexec", f, "HYDRA build details"));
        assert_eq!(text(&line)[..6], ["mpiexec", "-n", "5", "-ppn", "3", "./a b"]);
    }
}
