//! Command lines of `aprun`, `srun` and `prun`.

use std::ffi::{OsStr, OsString};

/// The launcher whose command line is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Cray's ALPS.
    Aprun,
    /// Native Slurm.
    Srun,
    /// Quadrics' RMS.
    Prun,
}

impl Style {
    pub fn name(self) -> &'static str {
        match self {
            Self::Aprun => "aprun",
            Self::Srun => "srun",
            Self::Prun => "prun",
        }
    }
}

/// How ranks follow nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Consecutive ranks on each node.
    Block,
    /// One for each node, and again.
    Cyclic,
}

/// Ranks that run the same program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    pub ranks: u32,
    pub command: Vec<OsString>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub style: Style,
    /// Programs, of which each has at least one rank.
    pub apps: Vec<App>,
    /// Ranks on each node.
    pub per_node: u32,
    pub order: Order,
    /// `-e NAME=VALUE`.
    pub variables: Vec<(OsString, OsString)>,
    /// Seconds after the end of the first rank at which the others are killed.
    pub wait: Option<u32>,
    /// A rank that fails ends the job.
    pub kill_on_bad_exit: bool,
    /// `-v`.
    pub verbose: bool,
}

/// Options with a value; others have none, or one that is part of their word.
const APRUN: &[&str] = &[
    "-n", "-N", "-S", "-d", "-cc", "-m", "-L", "-l", "-e", "-j", "-sn", "-sl", "-ss", "-p", "-r", "-t", "-C", "-M",
];
const SRUN: &[&str] = &[
    "-n", "-N", "-c", "-m", "-w", "-p", "-t", "-J", "-A", "-W", "-x", "-q", "-C",
];
const PRUN: &[&str] = &["-n", "-N", "-c", "-m", "-p", "-P", "-R", "-B", "-e", "-i", "-o"];
/// Long forms, and what they stand for.
const LONG: &[(&str, &str)] = &[
    ("--pes", "-n"),
    ("--ntasks", "-n"),
    ("--pes-per-node", "-N"),
    ("--nodes", "-N"),
    ("--ntasks-per-node", "--per-node"),
    ("--distribution", "-m"),
    ("--kill-on-bad-exit", "-K"),
    ("--wait", "-W"),
    ("--verbose", "-v"),
    ("--environment-override", "-e"),
];

/// An option and its value, which is empty if it has none.
type Word = (String, String);

/// Splits the options off a command line.
fn options(words: &mut std::slice::Iter<'_, OsString>, style: Style) -> Result<Vec<Word>, String> {
    let with_value = match style {
        Style::Aprun => APRUN,
        Style::Srun => SRUN,
        Style::Prun => PRUN,
    };
    let mut found = Vec::new();
    while let Some(word) = words.as_slice().first().and_then(|word| word.to_str()) {
        if !word.starts_with('-') || word == "-" {
            break;
        }
        words.next();
        if word == "--" {
            break;
        }
        let mut value = || {
            let next = words.next().and_then(|value| value.to_str());
            next.map(str::to_owned)
                .ok_or_else(|| format!("{word}: a value is missing"))
        };
        if word.starts_with("--") {
            let (name, given) = word
                .split_once('=')
                .map_or((word, None), |(name, given)| (name, Some(given)));
            let short = LONG.iter().find(|(long, _)| *long == name).map(|(_, short)| *short);
            let name = short.unwrap_or(name);
            // `--verbose` and `--kill-on-bad-exit` may stand alone; so may all that are unknown.
            let needs = short.is_some_and(|short| with_value.contains(&short) || short == "--per-node");
            let given = match given {
                Some(given) => given.to_owned(),
                None if needs => value()?,
                None => String::new(),
            };
            found.push((name.to_owned(), given));
        } else if with_value.contains(&word) {
            found.push((word.to_owned(), value()?));
        } else {
            let (name, given) = word.split_at(word.char_indices().nth(2).map_or(word.len(), |(at, _)| at));
            found.push((name.to_owned(), given.to_owned()));
        }
    }
    Ok(found)
}

fn number(option: &str, value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{option} {value}: a number from 1 is expected"))
}

impl Plan {
    /// From a command line without its first word.
    pub fn parse(style: Style, words: &[OsString]) -> Result<Self, String> {
        let mut plan = Self {
            style,
            apps: Vec::new(),
            per_node: 0,
            order: Order::Block,
            variables: Vec::new(),
            wait: None,
            kill_on_bad_exit: false,
            verbose: false,
        };
        let mut nodes = None;
        let parts = words.split(|word| style == Style::Aprun && word == OsStr::new(":"));
        for part in parts {
            let (mut words, mut ranks) = (part.iter(), 1);
            for (option, value) in options(&mut words, style)? {
                match (&*option, style) {
                    ("-n", _) => ranks = number(&option, &value)?,
                    ("-N", Style::Aprun) | ("--per-node", _) => plan.per_node = number(&option, &value)?,
                    ("-N", Style::Srun | Style::Prun) => nodes = Some(number(&option, &value)?),
                    ("-m", Style::Srun | Style::Prun) if value.starts_with("cyclic") => plan.order = Order::Cyclic,
                    ("-e", Style::Aprun) => {
                        let pair = value
                            .split_once('=')
                            .ok_or_else(|| format!("-e {value}: NAME=VALUE is expected"))?;
                        plan.variables.push((pair.0.into(), pair.1.into()));
                    }
                    ("-W", Style::Srun) => plan.wait = Some(value.parse().map_err(|_| format!("-W{value}: seconds"))?),
                    ("-K", Style::Srun) => plan.kill_on_bad_exit = value != "0",
                    ("-v", _) => plan.verbose = true,
                    _ => {}
                }
            }
            let command = words.as_slice().to_vec();
            if command.is_empty() {
                return Err("there is no program".into());
            }
            plan.apps.push(App { ranks, command });
        }
        // 0 is for ever, as in Slurm.
        plan.wait = plan.wait.filter(|&wait| wait > 0);
        let size = plan.size();
        if plan.per_node == 0 {
            plan.per_node = size.div_ceil(nodes.unwrap_or(1));
        }
        Ok(plan)
    }

    pub fn size(&self) -> u32 {
        self.apps.iter().map(|app| app.ranks).sum()
    }

    pub fn nodes(&self) -> u32 {
        self.size().div_ceil(self.per_node)
    }

    pub fn node_of(&self, rank: u32) -> u32 {
        match self.order {
            Order::Block => rank / self.per_node,
            Order::Cyclic => rank % self.nodes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(style: Style, line: &str) -> Result<Plan, String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Plan::parse(style, &words)
    }

    #[test]
    fn aprun_is_understood() {
        let found = plan(Style::Aprun, "-n 5 -N2 -S 1 -d 4 -cc cpu -q -e A=b ./prog -n 7").unwrap();
        assert_eq!((found.size(), found.nodes(), found.node_of(4)), (5, 3, 2));
        assert_eq!(found.apps[0].command, ["./prog", "-n", "7"]);
        assert_eq!(found.variables, [("A".into(), "b".into())]);
        let found = plan(Style::Aprun, "-n 1 a : -n 2 -- -b c").unwrap();
        assert_eq!((found.apps.len(), found.size(), found.nodes()), (2, 3, 1));
        assert_eq!(found.apps[1].command, ["-b", "c"]);
        for wrong in ["-n", "-n 0 a", "-n 2", "-n x a", "-n 1 a :", "-n 1 -e A a"] {
            assert!(plan(Style::Aprun, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn srun_is_understood() {
        let found = plan(Style::Srun, "-K0 -W60 -v -mblock -n 4 -N 2 ./prog x").unwrap();
        assert_eq!((found.size(), found.per_node, found.wait), (4, 2, Some(60)));
        assert!(found.verbose && !found.kill_on_bad_exit && found.order == Order::Block);
        let found = plan(
            Style::Srun,
            "--ntasks=5 --nodes 2 -mcyclic --mpi=none --kill-on-bad-exit a",
        )
        .unwrap();
        assert_eq!((found.size(), found.nodes(), found.node_of(3)), (5, 2, 1));
        assert!(found.kill_on_bad_exit);
    }

    #[test]
    fn prun_is_understood() {
        let found = plan(Style::Prun, "-v -n 5 -N2 -c 1 -m cyclic -p par -e none ./prog -n 7").unwrap();
        assert_eq!((found.size(), found.nodes(), found.node_of(3)), (5, 2, 1));
        assert_eq!(found.apps[0].command, ["./prog", "-n", "7"]);
        assert!(plan(Style::Prun, "-n 2").is_err());
    }
}
