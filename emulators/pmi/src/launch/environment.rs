//! Variables that a rank gets.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::arguments::{Plan, Style};
use crate::words::{Words, VARIABLE};

/// The first address of the NICs that the emulator of uGNI has.
const FIRST_NIC: u32 = 0x100;

/// Facts that are the same for all ranks of a job.
#[derive(Debug)]
pub struct Job<'a> {
    pub plan: &'a Plan,
    pub words: &'a Words,
    /// The launcher's socket.
    pub at: String,
    pub id: u32,
    /// Protection tag of the network.
    pub ptag: u8,
    /// Cookie of the network.
    pub cookie: u32,
    /// NICs on each node.
    pub nics: u32,
    /// Whether the network is QsNet.
    pub is_elan: bool,
    /// The folder of the library.
    pub library: &'a Path,
}

/// Prefixes of variables that a job inside a job must not inherit.
const REMOVED: [&str; 6] = [
    "ALPS_APP_",
    "PMI_FORK_RANK",
    "PMI_GNI_",
    "CRAY_COOKIES",
    "SLURM_",
    "RMS_",
];

/// Whether a job inside a job must not inherit a variable.
pub fn is_removed(name: &OsStr) -> bool {
    REMOVED
        .iter()
        .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

type Pair = (OsString, OsString);

fn words<const N: usize>(pairs: [(&str, String); N]) -> Vec<Pair> {
    pairs.map(|(name, value)| (name.into(), value.into())).into()
}

impl Job<'_> {
    /// Variables of a rank. `text`: the user's words.
    pub fn variables(&self, rank: u32, text: &str, path: Option<&OsStr>) -> Vec<Pair> {
        let mut found = if self.is_elan {
            self.of_rms(rank)
        } else {
            self.of_cray(rank, text, path)
        };
        match self.plan.style {
            Style::Aprun => found.extend(words([
                ("ALPS_APP_PE", rank.to_string()),
                ("ALPS_APP_ID", self.id.to_string()),
            ])),
            Style::Srun => found.extend(self.of_slurm(rank)),
            Style::Prun => {}
        }
        found.extend(self.plan.variables.iter().cloned());
        found
    }

    /// Ranks of its node before a rank.
    fn place_in_node(&self, rank: u32) -> usize {
        let node = self.plan.node_of(rank);
        (0..rank).filter(|&other| self.plan.node_of(other) == node).count()
    }

    /// Variables of libelan, which RMS sets, and Slurm's plugin switch/elan.
    fn of_rms(&self, rank: u32) -> Vec<Pair> {
        words([
            ("RMS_RANK", rank.to_string()),
            ("RMS_NPROCS", self.plan.size().to_string()),
            ("RMS_PROCID", self.place_in_node(rank).to_string()),
            ("RMS_NODEID", self.plan.node_of(rank).to_string()),
            ("RMS_NNODES", self.plan.nodes().to_string()),
            ("RMS_JOBID", self.id.to_string()),
            ("RMS_RESOURCEID", format!("parallel.{}", self.id)),
        ])
    }

    fn of_slurm(&self, rank: u32) -> Vec<Pair> {
        let size = self.plan.size().to_string();
        words([
            ("SLURM_JOB_ID", self.id.to_string()),
            ("SLURM_STEP_ID", "0".into()),
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_LOCALID", self.place_in_node(rank).to_string()),
            ("SLURM_NODEID", self.plan.node_of(rank).to_string()),
            ("SLURM_NNODES", self.plan.nodes().to_string()),
            ("SLURM_NTASKS", size.clone()),
            ("SLURM_NPROCS", size.clone()),
            ("SLURM_STEP_NUM_TASKS", size),
        ])
    }

    /// Cray's PMI, and the NICs.
    fn of_cray(&self, rank: u32, text: &str, path: Option<&OsStr>) -> Vec<Pair> {
        let node = self.plan.node_of(rank);
        let list = |first: String, second: String| {
            if self.words.colon_lists {
                format!("{first}:{second}")
            } else {
                first
            }
        };
        let mut library = OsString::from(self.library);
        for rest in path.into_iter().filter(|path| !path.is_empty()) {
            library.push(":");
            library.push(rest);
        }
        let mut found: Vec<(&str, String)> = vec![
            (VARIABLE, format!("{text} at={} rank={rank}", self.at)),
            ("EMU_UGNI_NODE", node.to_string()),
            ("PMI_FORK_RANK", rank.to_string()),
        ];
        if !self.words.no_dev_id {
            let nics: Vec<String> = (0..self.nics)
                .map(|nic| (FIRST_NIC + node * self.nics + nic).to_string())
                .collect();
            found.push(("PMI_GNI_DEV_ID", "0".into()));
            found.push(("PMI_GNI_LOC_ADDR", list(nics.join(":"), "0".into())));
        }
        let (ptag, cookie) = (u32::from(self.ptag), self.cookie);
        if !self.words.cookies_only {
            found.push(("PMI_GNI_PTAG", list(ptag.to_string(), (ptag ^ 1).to_string())));
            found.push(("PMI_GNI_COOKIE", list(cookie.to_string(), (cookie + 1).to_string())));
        }
        if self.plan.style == Style::Srun {
            found.push(("CRAY_COOKIES", format!("{cookie},{}", cookie + 1)));
        }
        let found = found.into_iter().map(|(name, value)| (name.into(), value.into()));
        found.chain([("LD_LIBRARY_PATH".into(), library)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(style: Style, line: &str, words: &str, rank: u32) -> Vec<(OsString, OsString)> {
        let words_of_line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let plan = Plan::parse(style, &words_of_line).unwrap();
        let job = Job {
            plan: &plan,
            words: &Words::parse(words).unwrap(),
            at: "x".into(),
            id: 7,
            ptag: 17,
            cookie: 99,
            nics: 2,
            is_elan: words.is_empty(),
            library: Path::new("/lib"),
        };
        job.variables(rank, words, Some(OsStr::new("/usr/lib")))
    }

    #[test]
    fn ranks_get_what_launchers_give() {
        let found = variables(Style::Aprun, "-n 4 -N 2 p", "seed=3", 2);
        let has = |found: &[(OsString, OsString)], name: &str, value: &str| {
            assert!(
                found.contains(&(name.into(), value.into())),
                "{name}={value}: {found:?}"
            );
        };
        for (name, value) in [
            ("EMU_PMI", "seed=3 at=x rank=2"),
            ("EMU_UGNI_NODE", "1"),
            ("ALPS_APP_PE", "2"),
            ("PMI_GNI_LOC_ADDR", "258:259"),
            ("PMI_GNI_PTAG", "17"),
            ("LD_LIBRARY_PATH", "/lib:/usr/lib"),
        ] {
            has(&found, name, value);
        }
        let found = variables(Style::Srun, "-n 3 -N 2 p", "colon-lists no-dev-id", 2);
        for (name, value) in [
            ("PMI_GNI_COOKIE", "99:100"),
            ("CRAY_COOKIES", "99,100"),
            ("SLURM_NODEID", "1"),
            ("SLURM_LOCALID", "0"),
        ] {
            has(&found, name, value);
        }
        assert!(!found
            .iter()
            .any(|(name, _)| name == "PMI_GNI_DEV_ID" || name == "ALPS_APP_PE"));
        for style in [Style::Prun, Style::Srun] {
            let found = variables(style, "-n 4 -N 2 p", "", 3);
            for (name, value) in [
                ("RMS_RANK", "3"),
                ("RMS_NPROCS", "4"),
                ("RMS_NODEID", "1"),
                ("RMS_PROCID", "1"),
            ] {
                has(&found, name, value);
            }
            assert!(!found
                .iter()
                .any(|(name, _)| name == "CRAY_COOKIES" || name == "PMI_FORK_RANK"));
        }
        let found = variables(Style::Srun, "-n 1 p", "cookies-only", 0);
        assert!(!found.iter().any(|(name, _)| name == "PMI_GNI_PTAG"));
    }
}
