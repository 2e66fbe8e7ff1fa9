//! How the ranks are started: as the user selects, or as the environment suggests.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use gasnet_job::hosts;

/// How the ranks are started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spawner {
    /// The program forks them.
    #[default]
    Fork,
    /// The program starts itself on other hosts through remote shells.
    Ssh,
    /// A process manager starts them: `PMIRUN_CMD`, or the first one on the path.
    Pmi,
    /// As `Pmi`, but `MPIRUN_CMD` takes precedence.
    Mpi,
    /// The user's command starts them: `GASNET_CSPAWN_CMD`.
    Custom,
}

impl Spawner {
    /// Its name in options and variables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Ssh => "ssh",
            Self::Pmi => "pmi",
            Self::Mpi => "mpi",
            Self::Custom => "custom",
        }
    }

    /// Whether a process manager starts the ranks.
    pub fn is_manager(self) -> bool {
        matches!(self, Self::Pmi | Self::Mpi)
    }
}

/// A spawner, and why it was chosen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The spawner.
    pub spawner: Spawner,
    /// The option or variable that selects it, or the reason.
    pub why: String,
}

/// Reads the name of a spawner from an option or a variable; none for `auto`. Variables accept the
/// names that programs accept, options also `custom`, `L`, `S` and `C`.
pub fn parse(source: &str, name: &str) -> Result<Option<Spawner>, String> {
    let letters = [("L", Spawner::Fork), ("S", Spawner::Ssh), ("C", Spawner::Custom)];
    let words = [Spawner::Fork, Spawner::Ssh, Spawner::Pmi, Spawner::Mpi].map(|spawner| (spawner.name(), spawner));
    let known: Vec<(&str, Spawner)> = match source {
        "GASNET_SPAWNFN" => letters.to_vec(),
        _ if source.starts_with("GASNET_") => words.to_vec(),
        _ => words
            .into_iter()
            .chain([("custom", Spawner::Custom)])
            .chain(letters)
            .collect(),
    };
    let (asked, has_auto) = (name.trim(), source != "GASNET_SPAWNFN");
    if has_auto && asked.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    let found = known.iter().find(|(word, _)| asked.eq_ignore_ascii_case(word));
    found.map(|(_, spawner)| Some(*spawner)).ok_or_else(|| {
        let words: Vec<&str> = has_auto
            .then_some("auto")
            .into_iter()
            .chain(known.iter().map(|k| k.0))
            .collect();
        format!("{source}={name}: unknown spawner; expected one of {}", words.join(", "))
    })
}

/// The value of a variable; none if it is unset or empty.
pub fn variable(name: &str) -> Result<Option<String>, String> {
    match env::var_os(name).map(OsString::into_string).transpose() {
        Ok(value) => Ok(value.filter(|value| !value.trim().is_empty())),
        Err(value) => Err(format!("{name}={}: UTF-8 text is expected", value.to_string_lossy())),
    }
}

/// The path of a program.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// The spawner for a job over a network if none is selected; `nodes` is the value of `-N`.
pub fn suggested(environment: impl Fn(&str) -> Option<OsString>, nodes: Option<u32>) -> Result<Decision, String> {
    let set = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
    let decision = |spawner, why: &str| {
        Ok(Decision {
            spawner,
            why: why.into(),
        })
    };
    if hosts::are_named(&environment) {
        return decision(Spawner::Ssh, "hosts are listed");
    }
    // In a Slurm step, srun would wait for processors that the step holds.
    if set("SLURM_JOB_ID") && !hosts::is_in_step(&environment) && on_path("srun").is_some() {
        return decision(Spawner::Pmi, "this is a Slurm allocation");
    }
    if let Some(found) = hosts::allocated("gasnetrun", &environment) {
        return decision(
            Spawner::Ssh,
            &format!("{} lists {} hosts", found.source, found.names.len()),
        );
    }
    match nodes {
        Some(nodes) if nodes > 1 && hosts::has_default() => decision(Spawner::Ssh, "this site has a list of hosts"),
        Some(nodes) if nodes > 1 => Err(format!(
            "-N {nodes}: no hosts are known. List them in GASNET_SSH_SERVERS or GASNET_SSH_NODEFILE, or use a process \
             manager (-spawner=pmi)."
        )),
        _ => decision(Spawner::Fork, "no other hosts are known"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&str, &str)], nodes: Option<u32>) -> Result<Spawner, String> {
        let find = |name: &str| pairs.iter().find(|p| p.0 == name).map(|p| OsString::from(p.1));
        suggested(find, nodes).map(|d| d.spawner)
    }

    #[test]
    fn environment_selects_the_spawner() {
        assert_eq!(found(&[], None).unwrap(), Spawner::Fork);
        assert_eq!(
            found(&[("SSH_SERVERS", "a b"), ("SLURM_JOB_ID", "1")], None).unwrap(),
            Spawner::Ssh
        );
        assert_eq!(found(&[("LSB_HOSTS", "a a b")], None).unwrap(), Spawner::Ssh);
        assert_eq!(found(&[("LSB_HOSTS", "a a")], None).unwrap(), Spawner::Fork);
        if hosts::has_default() {
            assert_eq!(found(&[], Some(2)).unwrap(), Spawner::Ssh);
        } else {
            assert!(found(&[], Some(2)).unwrap_err().contains("GASNET_SSH_SERVERS"));
        }
    }

    #[test]
    fn names_of_spawners() {
        assert_eq!(parse("x", " SSH ").unwrap(), Some(Spawner::Ssh));
        assert_eq!(parse("x", "mpi").unwrap(), Some(Spawner::Mpi));
        assert_eq!(parse("x", "pmi").unwrap(), Some(Spawner::Pmi));
        assert_eq!(parse("x", "C").unwrap(), Some(Spawner::Custom));
        assert_eq!(parse("x", "auto").unwrap(), None);
        assert!(parse("GASNET_UDP_SPAWNER", "smoke")
            .unwrap_err()
            .contains("GASNET_UDP_SPAWNER=smoke"));
    }
}
