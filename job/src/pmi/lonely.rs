//! Processes of a launcher that offers them no PMI. Each would be a job of one rank, with exit code
//! 0, although the user has asked for one job.
//!
//! The variables are those of public documents and sources: flux-shell(1), slurm (mpi_cray_shasta.c
//! has those of PALS), aprun(1), jsrun(1), Open MPI ("Environment variables set for MPI
//! applications"), the guide of MVAPICH2, mpiexec(1) of OSC, and job scripts for MPT.
#![forbid(unsafe_code)]

use std::ffi::OsString;

use super::LOOKED_FOR;

/// A launcher, and the variables by which it is recognised.
struct Launcher {
    /// The command, for messages.
    name: &'static str,
    /// The number of a process, from 0.
    rank: &'static str,
    /// The number of processes, if the launcher sets one.
    size: Option<&'static str>,
    /// The job or the step, where rank and size alone may be those of something else.
    job: Option<&'static str>,
    /// How its processes become one job.
    remedy: &'static str,
}

/// Launchers of others come before the ones that they resemble: the last rows are of what many set.
const LAUNCHERS: [Launcher; 12] = [
    Launcher {
        name: "srun",
        rank: "SLURM_PROCID",
        size: Some("SLURM_STEP_NUM_TASKS"),
        job: Some("SLURM_STEP_ID"),
        remedy: "`srun --mpi=pmi2` or `--mpi=pmix` makes them one job",
    },
    Launcher {
        name: "flux",
        rank: "FLUX_TASK_RANK",
        size: Some("FLUX_JOB_SIZE"),
        job: Some("FLUX_JOB_ID"),
        remedy: "`flux run` without `-o pmi=off`, or with `-o pmi=pmix`, makes them one job",
    },
    Launcher {
        name: "mpiexec of PALS",
        rank: "PALS_RANKID",
        size: Some("PMI_SIZE"),
        job: None,
        remedy: "`mpiexec --pmi=pmix` (PALS_PMI=pmix; for its aprun ALPS_PMI=pmix) makes them one job. \
                 GASNET_PMIX_LIBRARY names the library of PMIx. Cray's own PMI serves programs with the conduit gni \
                 only",
    },
    Launcher {
        name: "aprun",
        rank: "ALPS_APP_PE",
        size: None,
        job: None,
        remedy: "Cray's PMI serves programs with the conduit gni only: link with that library, or with the universal \
                 one",
    },
    Launcher {
        name: "prun of RMS",
        rank: "RMS_RANK",
        size: Some("RMS_NPROCS"),
        job: None,
        remedy: "RMS serves programs with the conduit elan only: link with that library, or with the universal one",
    },
    Launcher {
        name: "jsrun",
        rank: "JSM_NAMESPACE_RANK",
        size: Some("JSM_NAMESPACE_SIZE"),
        job: None,
        remedy: "jsrun makes them one job where its PMIx variables reach them. GASNET_PMIX_LIBRARY names the library \
                 of PMIx",
    },
    Launcher {
        name: "mpirun of Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: Some("OMPI_COMM_WORLD_SIZE"),
        job: None,
        remedy: "an mpirun of Open MPI 2 or newer makes them one job where its PMIx variables reach them. \
                 GASNET_PMIX_LIBRARY names the library of PMIx",
    },
    Launcher {
        name: "mpirun_rsh of MVAPICH",
        rank: "MV2_COMM_WORLD_RANK",
        size: Some("MV2_COMM_WORLD_SIZE"),
        job: None,
        remedy: "`mpiexec.hydra` makes them one job",
    },
    Launcher {
        name: "mpiexec_mpt of HPE MPT",
        rank: "MPT_MPI_RANK",
        size: None,
        job: None,
        remedy: "MPT serves its own MPI only: start them with gasnetrun_<conduit> -n N, which uses ssh, or with \
                 another mpiexec",
    },
    Launcher {
        name: "mpiexec of PBS",
        rank: "MPIEXEC_RANK",
        size: None,
        job: Some("PBS_JOBID"),
        remedy: "an mpiexec with PMI, such as `mpiexec.hydra`, makes them one job",
    },
    Launcher {
        name: "a launcher with PMIx (prterun)",
        rank: "PMIX_RANK",
        size: None,
        job: None,
        remedy: "PMIX_NAMESPACE must reach them, too: let no wrapper remove it",
    },
    Launcher {
        name: "a launcher with PMI (mpiexec.hydra)",
        rank: "PMI_RANK",
        size: Some("PMI_SIZE"),
        job: None,
        remedy: "PMI_FD, or PMI_PORT and PMI_ID, must reach them, too: let no wrapper remove them",
    },
];

/// The error of a process of a launcher that has started several and offers them no PMI. One of
/// them has a message: the first, or the second where the launcher sets no number of processes.
pub fn lonely_process(environment: impl Fn(&str) -> Option<OsString>) -> Option<String> {
    LAUNCHERS.iter().find_map(|launcher| launcher.lonely(&environment))
}

impl Launcher {
    fn lonely(&self, environment: &impl Fn(&str) -> Option<OsString>) -> Option<String> {
        let number = |name: &str| environment(name)?.to_str()?.trim().parse::<u32>().ok();
        if self.job.is_some_and(|job| environment(job).is_none()) {
            return None;
        }
        let rank = number(self.rank)?;
        let size = self.size.and_then(|name| Some((name, number(name)?)));
        let (speaks, seen) = match size {
            Some((name, size)) if size > 1 => (rank == 0, format!("{size} processes ({name}={size}")),
            None if rank > 0 => (rank == 1, format!("several processes ({}={rank}", self.rank)),
            _ => return None,
        };
        if !speaks {
            return Some(String::new());
        }
        let Self { name, remedy, .. } = self;
        Some(format!(
            "{name} has started {seen}), but offers them no PMI, so each would be a job of one rank. None of these is \
             set: {LOOKED_FOR}. {remedy}; GASNET_PSHM_NODES=1 makes each process a job"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &str) -> Option<String> {
        lonely_process(|name| {
            let found = settings
                .split(' ')
                .find_map(|s| s.strip_prefix(name)?.strip_prefix('='));
            found.map(OsString::from)
        })
    }

    #[test]
    fn every_launcher_is_recognised() {
        for launcher in &LAUNCHERS {
            let process = |rank: u32, size: u32| {
                let job = launcher.job.map_or_else(String::new, |job| format!("{job}=7 "));
                let size = launcher.size.map_or_else(String::new, |name| format!(" {name}={size}"));
                of(&format!("{job}{}={rank}{size}", launcher.rank))
            };
            let first = u32::from(launcher.size.is_none());
            let message = process(first, 4).unwrap();
            let start = format!("{} has started ", launcher.name);
            assert!(
                message.starts_with(&start) && message.contains(launcher.remedy),
                "{message}"
            );
            assert_eq!(process(first + 1, 4).as_deref(), Some(""), "{}", launcher.name);
            assert_eq!(process(0, 1), None, "{}", launcher.name);
        }
    }

    #[test]
    fn a_message_has_what_was_seen_and_what_is_missing() {
        let message = of("PALS_RANKID=0 PALS_APID=8 PMI_RANK=0 PMI_SIZE=4").unwrap();
        let start = "mpiexec of PALS has started 4 processes (PMI_SIZE=4), but offers them no PMI";
        assert!(message.starts_with(start), "{message}");
        for name in [
            "PMI_FD",
            "PMI_PORT",
            "PMIX_NAMESPACE",
            "--pmi=pmix",
            "GASNET_PMIX_LIBRARY",
            "GASNET_PSHM_NODES=1",
        ] {
            assert!(message.contains(name), "{name}: {message}");
        }
    }

    #[test]
    fn the_first_launcher_with_several_processes_counts() {
        for (settings, expected) in [
            // A launcher inside a step of one task.
            (
                "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2",
                Some("mpirun of Open MPI has started 2 "),
            ),
            // The first one may be alone if the number of processes is unknown.
            ("ALPS_APP_PE=0", None),
            (
                "PALS_RANKID=1",
                Some("mpiexec of PALS has started several processes (PALS_RANKID=1)"),
            ),
            ("PALS_RANKID=2", Some("")),
            ("PMI_RANK=0", None),
            ("PMI_SIZE=4", None),
            ("PMI_RANK=x PMI_SIZE=4", None),
            ("PMI_RANK=0 PMI_SIZE=x", None),
            // Numbers of others than a step's or a job's.
            ("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3", None),
            ("MPIEXEC_RANK=1", None),
        ] {
            let found = of(settings);
            match expected {
                Some(start) if !start.is_empty() => assert!(found.unwrap().starts_with(start), "{settings}"),
                _ => assert_eq!(found.as_deref(), expected, "{settings}"),
            }
        }
    }
}
