//! Detects the process manager that has started this process from its variables in the environment.

use gasnet_conduit::config::PmiInterface;

/// The variables that [`detect`] checks, for messages.
pub const LOOKED_FOR: &str =
    "PMI_FD (hydra, srun --mpi=pmi2), PMI_PORT with PMI_ID (hydra -pmi-port), PMIX_NAMESPACE with PMIX_RANK (prterun, \
                              Open MPI's mpirun, srun --mpi=pmix)";

/// The process manager's interface and its variables. The values are not checked yet;
/// [`super::connect`] does that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectedManager {
    /// PMI-1 or PMI-2, over a connection.
    Wire(WireStart),
    /// PMIx. Its library reads the environment itself.
    Pmix,
}

/// How to connect by PMI-1 or PMI-2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireStart {
    pub place: ManagerAddress,
    /// The versions to try.
    pub choice: PmiInterface,
    /// `PMI_RANK`.
    pub rank: Option<String>,
    /// `PMI_SIZE`.
    pub size: Option<String>,
    /// `PMI_JOBID`.
    pub job: Option<String>,
}

/// The address of a manager that speaks PMI-1 or PMI-2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagerAddress {
    /// An inherited descriptor: `PMI_FD`.
    Inherited(String),
    Port {
        /// Host and port: `PMI_PORT`.
        address: String,
        /// The identity of this process there: `PMI_ID`.
        id: String,
    },
}

/// The process manager that has started this process, according to the variables that `variable`
/// looks up, if any has.
///
/// A job inside a job inherits its environment, and then has the variables of both managers. It
/// does not inherit their descriptors: `is_open` checks a descriptor here, and a closed `PMI_FD`
/// counts only if there is nothing else. It is an error to choose one interface where there is only
/// another, because each process would be a job of its own.
pub fn detect(
    choice: PmiInterface,
    variable: impl Fn(&str) -> Option<String>,
    is_open: impl Fn(i32) -> bool,
) -> Result<Option<DetectedManager>, String> {
    let variable = |name: &str| {
        let text = variable(name)?.trim().to_owned();
        Some(text).filter(|text| !text.is_empty())
    };
    let descriptor = variable("PMI_FD");
    let is_stale = descriptor
        .as_ref()
        .is_some_and(|text| !text.parse().is_ok_and(&is_open));
    let port = variable("PMI_PORT").zip(variable("PMI_ID"));
    let place = descriptor
        .map(ManagerAddress::Inherited)
        .or(port.map(|(address, id)| ManagerAddress::Port { address, id }));
    let wire = place.map(|place| {
        DetectedManager::Wire(WireStart {
            place,
            choice,
            rank: variable("PMI_RANK").or_else(|| variable("PMI_ID")),
            size: variable("PMI_SIZE"),
            job: variable("PMI_JOBID"),
        })
    });
    let pmix = variable("PMIX_NAMESPACE")
        .and(variable("PMIX_RANK"))
        .map(|_| DetectedManager::Pmix);
    let (found, asked, other) = match choice {
        PmiInterface::Auto if is_stale => return Ok(pmix.or(wire)),
        PmiInterface::Auto => return Ok(wire.or(pmix)),
        PmiInterface::Pmi1 | PmiInterface::Pmi2 => (wire, "PMI-1 or PMI-2", pmix.map(|_| "PMIx (PMIX_NAMESPACE)")),
        PmiInterface::Pmix => (
            pmix,
            "PMIx",
            wire.filter(|_| !is_stale)
                .map(|_| "PMI-1 or PMI-2 (PMI_FD or PMI_PORT)"),
        ),
    };
    match (found, other) {
        (None, Some(there)) => Err(format!(
            "GASNET_PMI asks for {asked}, but this process was started with {there}. Unset the variable, or \
             select that interface"
        )),
        (found, _) => Ok(found),
    }
}

/// As [`detect`], but the `choice` of a site: it comes first where a manager offers several, and
/// rules nothing out.
pub fn prefer(
    choice: PmiInterface,
    variable: impl Fn(&str) -> Option<String>,
    is_open: impl Fn(i32) -> bool,
) -> Option<DetectedManager> {
    let of = |choice| detect(choice, &variable, &is_open).ok().flatten();
    of(choice).or_else(|| of(PmiInterface::Auto))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds a variable in `A=b C=d`.
    fn variables(settings: &str) -> impl Fn(&str) -> Option<String> + '_ {
        |name| {
            let found = settings
                .split(' ')
                .find_map(|s| s.strip_prefix(name)?.strip_prefix('='));
            found.map(str::to_owned)
        }
    }

    #[test]
    fn managers_by_their_variables() {
        for case in [
            "auto: -> ",
            "pmi1: -> ",
            "pmix: -> ",
            "auto: PMI_FD= PMI_RANK=0 PMI_PORT=a:1 PMIX_RANK=0 -> ",
            "pmi2: PMI_FD= PMI_RANK=0 PMI_PORT=a:1 PMIX_RANK=0 -> ",
            "auto: PMI_FD=7 PMI_RANK=2 -> Inherited(\"7\") 2",
            "pmi2: PMI_FD=7 PMI_RANK=2 -> Inherited(\"7\") 2",
            "pmix: PMI_FD=7 PMI_RANK=2 -> asks for PMIx, but this process was started with PMI-1 or PMI-2 (PMI_FD",
            "pmi1: PMI_PORT=h:39 PMI_ID=3 -> Port { address: \"h:39\", id: \"3\" } 3",
            "auto: PMIX_NAMESPACE=8 PMIX_RANK=0 -> PMIx",
            "pmix: PMIX_NAMESPACE=8 PMIX_RANK=0 -> PMIx",
            "pmi2: PMIX_NAMESPACE=8 PMIX_RANK=0 -> asks for PMI-1 or PMI-2, but this process was started with PMIx",
            "auto: PMI_FD=7 PMI_RANK=2 PMIX_NAMESPACE=8 PMIX_RANK=0 -> Inherited(\"7\") 2",
            "pmix: PMI_FD=7 PMI_RANK=2 PMIX_NAMESPACE=8 PMIX_RANK=0 -> PMIx",
            // `connect` reports a closed descriptor, or text that is no number.
            "auto: PMI_FD=8 -> Inherited(\"8\") none",
            "pmi2: PMI_FD=x -> Inherited(\"x\") none",
            "pmix: PMI_FD=8 -> ",
            "auto: PMI_FD=8 PMIX_NAMESPACE=8 PMIX_RANK=0 -> PMIx",
            "auto: PMI_FD=x PMIX_NAMESPACE=8 PMIX_RANK=0 -> PMIx",
            "pmi1: PMI_FD=8 PMIX_NAMESPACE=8 PMIX_RANK=0 -> Inherited(\"8\") none",
        ] {
            let (settings, expected) = case.split_once("-> ").unwrap();
            let choice = match &settings[..4] {
                "auto" => PmiInterface::Auto,
                "pmi1" => PmiInterface::Pmi1,
                "pmi2" => PmiInterface::Pmi2,
                _ => PmiInterface::Pmix,
            };
            match detect(choice, variables(settings), |descriptor| descriptor == 7) {
                Ok(None) => assert_eq!(expected, "", "{case}"),
                Ok(Some(DetectedManager::Pmix)) => assert_eq!(expected, "PMIx", "{case}"),
                Ok(Some(DetectedManager::Wire(start))) => {
                    let rank = start.rank.unwrap_or("none".into());
                    assert_eq!(expected, format!("{:?} {rank}", start.place), "{case}");
                }
                Err(why) => assert!(why.contains(expected) && !expected.is_empty(), "{why}"),
            }
        }
    }

    #[test]
    fn a_site_prefers_an_interface() {
        let of = |choice, settings: &str| {
            prefer(choice, variables(settings), |descriptor| descriptor == 7)
                .map(|found| found == DetectedManager::Pmix)
        };
        let (wire, pmix) = ("PMI_FD=7 PMI_RANK=2", "PMIX_NAMESPACE=8 PMIX_RANK=0");
        let both = format!("{wire} {pmix}");
        for (choice, settings, is_pmix) in [
            (PmiInterface::Auto, both.as_str(), Some(false)),
            (PmiInterface::Pmix, &both, Some(true)),
            (PmiInterface::Pmi2, &both, Some(false)),
            (PmiInterface::Pmix, wire, Some(false)),
            (PmiInterface::Pmi1, pmix, Some(true)),
            (PmiInterface::Pmix, "", None),
        ] {
            assert_eq!(of(choice, settings), is_pmix, "{choice:?} {settings}");
        }
    }
}
