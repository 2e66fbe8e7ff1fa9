//! The choice of the spawner, in one order for launchers and programs. The user's selection comes
//! first ([`selected`]), then the suggestion of the environment ([`suggested`]).
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::path::Path;

use super::options::Library;
use super::spawn::hosts;
pub use gasnet_conduit::config::Spawner;
use gasnet_conduit::config::{built_in, Choice};
use gasnet_conduit::SystemLauncher;
use gasnet_sys::process;

/// The values of `GASNET_SPAWNFN`, which options know, too.
const SHORT: [Word; 3] = [
    ("L", Some(Spawner::Fork)),
    ("S", Some(Spawner::Ssh)),
    ("C", Some(Spawner::Custom)),
];
const SPAWNER: &str = "GASNET_SPAWNER";
/// The variable of udp programs.
const SPAWNFN: &str = "GASNET_SPAWNFN";

/// A word that selects a spawner. None is `auto`.
type Word = (&'static str, Option<Spawner>);

/// The spawner of the value of `name`, an option or a variable that takes these words.
fn parse(words: &[Word], name: &str, value: &str) -> Result<Option<Spawner>, String> {
    let found = words.iter().find(|(word, _)| value.trim().eq_ignore_ascii_case(word));
    found.map(|(_, spawner)| *spawner).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{name}={value}: unknown spawner; expected one of {}", words.join(", "))
    })
}

/// The words of `GASNET_SPAWNER`.
fn names() -> Vec<Word> {
    let spawners = <Option<Spawner>>::VARIANTS.iter().copied();
    <Option<Spawner>>::WORDS.iter().copied().zip(spawners).collect()
}

/// A spawner, and why it was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The spawner.
    pub spawner: Spawner,
    /// Whether `GASNET_SPAWNFN` selects it.
    pub by_spawnfn: bool,
    /// The option or variable that selects it, with its value, or the reason.
    pub why: String,
}

/// The variables that select a spawner by name, the first takes precedence. Clients set the last
/// one for any conduit, so it counts only where there is a network.
pub fn variables(library: &Library<'_>) -> Vec<String> {
    let general = library.network.then(|| SPAWNER.to_owned());
    library.names.iter().map(|name| variable(name)).chain(general).collect()
}

/// The variable that selects the spawner of a conduit.
fn variable(conduit: &str) -> String {
    format!("GASNET_{}_SPAWNER", conduit.to_ascii_uppercase())
}

/// The spawner that the user selects: by the launcher's option (its name and value), else by the
/// first variable that does.
pub fn selected(
    library: &Library<'_>,
    option: Option<&(String, String)>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Decision>, String> {
    let names = names();
    let custom = (Spawner::Custom.name(), Some(Spawner::Custom));
    let of_option = [&names[..], &[custom], &SHORT].concat();
    let variables = variables(library).into_iter().map(|name| (&names[..], name));
    let variables = variables.chain(library.network.then(|| (&SHORT[..], SPAWNFN.to_owned())));
    let variables = variables.map(|(words, name)| {
        let value = text(&name, &environment)?;
        Ok(value.map(|value| (words, name, value)))
    });
    let option = option.cloned().map(|(name, value)| (&of_option[..], name, value));
    for setting in [Ok::<_, String>(option)].into_iter().chain(variables) {
        let Some((words, name, value)) = setting? else {
            continue;
        };
        let Some(spawner) = parse(words, &name, &value)? else {
            continue;
        };
        if matches!(spawner, Spawner::Ssh | Spawner::Custom) && !library.network {
            return Err(format!(
                "{name}={value}: no conduit with a network ({}), so all ranks are on one host; expected fork, \
                 pmi or mpi",
                library.names.join(", ")
            ));
        }
        return Ok(Some(Decision {
            spawner,
            by_spawnfn: name == SPAWNFN,
            why: format!("{name}={value}"),
        }));
    }
    Ok(None)
}

/// The spawner that this installation has for the launcher of a conduit (`configure
/// --with-ofi-spawner`).
pub fn of_site(conduit: &str) -> Result<Option<Decision>, String> {
    let name = variable(conduit);
    let Some(value) = built_in(&name) else { return Ok(None) };
    let spawner = parse(&names(), &name, value)?;
    Ok(spawner.map(|spawner| Decision {
        spawner,
        by_spawnfn: false,
        why: format!("{name}={value} is the default of this installation"),
    }))
}

/// The text of a variable; none if it is unset or blank.
pub fn text(name: &str, environment: impl Fn(&str) -> Option<OsString>) -> Result<Option<String>, String> {
    match environment(name).map(OsString::into_string).transpose() {
        Ok(value) => Ok(value.filter(|value| !value.trim().is_empty())),
        Err(value) => Err(format!("{name}={}: UTF-8 text is expected", value.to_string_lossy())),
    }
}

/// The process that starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// A launcher. It can run a process manager.
    Launcher,
    /// A program with this number of ranks. In a step of Slurm it has its hosts already.
    Program(u32),
}

/// The spawner that the environment suggests, if the user selects none.
pub fn suggested(library: &Library<'_>, starter: Starter, environment: impl Fn(&str) -> Option<OsString>) -> Decision {
    let decision = |spawner, why: &str| Decision {
        spawner,
        by_spawnfn: false,
        why: why.into(),
    };
    if !library.network {
        let why = format!("no conduit with a network ({})", library.names.join(", "));
        return decision(Spawner::Fork, &why);
    }
    if hosts::are_named(&environment) {
        return decision(Spawner::Ssh, "hosts are listed");
    }
    let is_in_step = hosts::is_in_step(&environment);
    let (who, may_read_list) = match starter {
        Starter::Launcher => ("gasnetrun", true),
        Starter::Program(ranks) => ("gasnet", ranks > 1 && !is_in_step),
    };
    let is_set = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
    // In a Slurm step, srun would wait for processors that the step holds.
    if starter == Starter::Launcher && is_set("SLURM_JOB_ID") && !is_in_step && on_path("srun") {
        return decision(Spawner::Pmi, "this is a Slurm allocation");
    }
    let own = library.launcher.filter(|_| starter == Starter::Launcher);
    if let Some(found) = own.filter(is_there) {
        return decision(Spawner::Pmi, &format!("{} is on the path", found.program));
    }
    match may_read_list.then(|| hosts::allocated(who, &environment)).flatten() {
        Some(found) => decision(
            Spawner::Ssh,
            &format!("{} lists {} hosts", found.source, found.names.len()),
        ),
        None => decision(Spawner::Fork, "no other hosts are known"),
    }
}

/// Whether the launcher of a conduit's system is on the path.
pub fn is_there(launcher: &SystemLauncher) -> bool {
    let mut programs = [Some(launcher.program), launcher.companion].into_iter().flatten();
    programs.all(on_path)
}

/// Whether a program is on the path.
pub fn on_path(program: impl AsRef<Path>) -> bool {
    let is_there = |folders| env::split_paths(&folders).any(|folder| folder.join(&program).is_file());
    process::search_path().is_some_and(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds a variable in `A=b C=d`.
    fn environment(settings: &str) -> impl Fn(&str) -> Option<OsString> + '_ {
        |name| {
            let found = settings
                .split(' ')
                .find_map(|s| s.strip_prefix(name)?.strip_prefix('='));
            found.map(OsString::from)
        }
    }

    fn library(names: &str) -> Library<'_> {
        Library {
            names: names.split(' ').collect(),
            network: names.contains("net"),
            alone: names.contains("smp"),
            count: None,
            bootstrap: None,
            launcher: None,
        }
    }

    #[test]
    fn the_first_setting_wins() {
        for case in [
            "net: -> none",
            "net: -spawn=mpi GASNET_NET_SPAWNER=ssh -> mpi",
            "net: -spawn=C GASNET_NET_SPAWNER=ssh -> custom",
            "net: -spawn=auto GASNET_NET_SPAWNER=SSH -> ssh",
            "net: GASNET_SPAWNER=ssh GASNET_NET_SPAWNER=fork -> fork",
            "net: GASNET_SPAWNFN=c GASNET_SPAWNER=pmi -> pmi",
            "net: GASNET_SPAWNFN=c GASNET_SPAWNER=auto GASNET_NET_SPAWNER= -> custom",
            "smp net: GASNET_NET_SPAWNER=ssh GASNET_SMP_SPAWNER=fork -> fork",
            // Without a network these are meant for other conduits.
            "smp: GASNET_SPAWNER=ssh GASNET_SPAWNFN=S GASNET_NET_SPAWNER=ssh -> none",
            "smp: GASNET_SMP_SPAWNER=ssh -> GASNET_SMP_SPAWNER=ssh: no conduit with a network",
            "smp: -spawn=C -> -spawn=C: no conduit with a network (smp)",
            "net: GASNET_NET_SPAWNER=smoke -> GASNET_NET_SPAWNER=smoke: unknown spawner",
            "net: GASNET_SPAWNER=custom -> expected one of auto, fork, pmi, mpi, ssh",
            "net: GASNET_SPAWNFN=auto -> one of L, S, C",
            "net: -spawn=G -> ssh, custom, L, S, C",
        ] {
            let (names, rest) = case.split_once(": ").or(case.split_once(':')).unwrap();
            let (settings, expected) = rest.split_once("-> ").unwrap();
            let environment = environment(settings);
            let option = environment("-spawn").map(|value| ("-spawn".into(), value.into_string().unwrap()));
            match selected(&library(names), option.as_ref(), environment) {
                Ok(found) => assert_eq!(found.map_or("none", |d| d.spawner.name()), expected, "{case}"),
                Err(why) => assert!(why.contains(expected), "{why}"),
            }
        }
    }

    #[test]
    fn the_environment_suggests() {
        let slurm = "SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n[1-2]";
        let step = &format!("{slurm} SLURM_STEP_ID=0");
        for (starter, settings, expected) in [
            (Starter::Launcher, "", Spawner::Fork),
            (Starter::Program(2), "", Spawner::Fork),
            (Starter::Launcher, "SSH_SERVERS=a,b SLURM_JOB_ID=1", Spawner::Ssh),
            (Starter::Program(1), "SSH_SERVERS=a,b", Spawner::Ssh),
            (Starter::Launcher, "LSB_HOSTS=a,a,b", Spawner::Ssh),
            (Starter::Launcher, "LSB_HOSTS=a,a", Spawner::Fork),
            (Starter::Program(2), "LSB_HOSTS=a,a,b", Spawner::Ssh),
            (Starter::Program(1), "LSB_HOSTS=a,a,b", Spawner::Fork),
            (Starter::Launcher, step, Spawner::Ssh),
            (Starter::Program(2), step, Spawner::Fork),
            (Starter::Program(2), slurm, Spawner::Ssh),
        ] {
            let found = ["net", "smp"].map(|name| suggested(&library(name), starter, environment(settings)).spawner);
            assert_eq!(found, [expected, Spawner::Fork], "{starter:?} {settings}");
        }
    }
}
