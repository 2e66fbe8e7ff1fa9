//! How the ranks come into being: what the user says, or what the environment suggests.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use gasnet_job::hosts;

/// How the ranks come into being.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spawner {
    /// The program forks them.
    #[default]
    Fork,
    /// The program starts itself on other hosts through remote shells.
    Ssh,
    /// A process manager starts them: that of `PMIRUN_CMD`, or one that is found.
    Pmi,
    /// The same, that of `MPIRUN_CMD` first.
    Mpi,
    /// A command of the user's starts them, `GASNET_CSPAWN_CMD`.
    Custom,
}

impl Spawner {
    /// The word that asks for it.
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

/// A spawner, and why it was taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The spawner.
    pub spawner: Spawner,
    /// Where the wish comes from, or what was found.
    pub why: String,
}

/// A name that a user gives by an option or a variable; none for `auto`. The variables take what programs take that start without the launcher.
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
        format!("{source}={name}: there is no such spawner; it is one of {}", words.join(", "))
    })
}

/// What a variable says, unless it is unset or empty.
pub fn variable(name: &str) -> Result<Option<String>, String> {
    match env::var_os(name).map(OsString::into_string).transpose() {
        Ok(value) => Ok(value.filter(|value| !value.trim().is_empty())),
        Err(value) => Err(format!("{name}={}: a text in UTF-8 is expected", value.to_string_lossy())),
    }
}

/// Whether a program of this name can be found.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// What `environment` suggests for a job over a network, on `nodes` hosts if that was said.
pub fn suggested(environment: impl Fn(&str) -> Option<OsString>, nodes: Option<u32>) -> Result<Decision, String> {
    let set = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
    let decision = |spawner, why: &str| {
        Ok(Decision {
            spawner,
            why: why.into(),
        })
    };
    if hosts::are_named(&environment) {
        return decision(Spawner::Ssh, "hosts are named");
    }
    // Inside a step of Slurm's, srun would wait for processors that the step holds.
    if set("SLURM_JOB_ID") && !hosts::is_in_step(&environment) && on_path("srun").is_some() {
        return decision(Spawner::Pmi, "this is an allocation of Slurm's");
    }
    if let Some(found) = hosts::allocated("gasnetrun", &environment) {
        return decision(Spawner::Ssh, &format!("{} names {} hosts", found.source, found.names.len()));
    }
    match nodes {
        Some(nodes) if nodes > 1 && hosts::has_default() => decision(Spawner::Ssh, "this site has a list of hosts"),
        Some(nodes) if nodes > 1 => Err(format!(
            "-N {nodes}: no hosts are known; name them with GASNET_SSH_SERVERS or GASNET_SSH_NODEFILE, or take a process manager by -spawner=pmi"
        )),
        _ => decision(Spawner::Fork, "nothing tells of other hosts"),
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
    fn what_is_found_decides() {
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
