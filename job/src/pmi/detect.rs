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
    /// Where the manager is.
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
    /// An address to connect to.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_by_their_variables() {
        use PmiInterface::{Auto, Pmi1, Pmi2, Pmix};
        let none: &[(&str, &str)] = &[];
        let halves = &[
            ("PMI_FD", " "),
            ("PMI_RANK", "0"),
            ("PMI_PORT", "a:1"),
            ("PMIX_RANK", "0"),
        ];
        let open = &[("PMI_FD", "7"), ("PMI_RANK", "2")];
        let port = &[("PMI_PORT", "host:39223"), ("PMI_ID", "3")];
        let pmix = &[("PMIX_NAMESPACE", "800129025"), ("PMIX_RANK", "0")];
        let both = [&open[..], pmix].concat();
        let stale = |text| [&[("PMI_FD", text)], &pmix[..]].concat();
        for (choice, pairs, expected) in [
            (Auto, none, ""),
            (Pmi1, none, ""),
            (Pmix, none, ""),
            (Auto, halves, ""),
            (Pmi2, halves, ""),
            (Pmix, halves, ""),
            (Auto, open, "descriptor 7, rank 2"),
            (Pmi2, open, "descriptor 7, rank 2"),
            (Pmix, open, "PMI_FD"),
            (Auto, port, "id 3 at host:39223, rank 3"),
            (Pmi1, port, "id 3 at host:39223, rank 3"),
            (Auto, pmix, "PMIx"),
            (Pmix, pmix, "PMIx"),
            (Pmi2, pmix, "PMIX_NAMESPACE"),
            (Auto, &both, "descriptor 7, rank 2"),
            (Pmix, &both, "PMIx"),
            // `connect` reports a closed descriptor, or text that is no number.
            (Auto, &[("PMI_FD", "8")], "descriptor 8, rank none"),
            (Pmi2, &[("PMI_FD", "x")], "descriptor x, rank none"),
            (Pmix, &[("PMI_FD", "8")], ""),
            (Auto, &stale("8"), "PMIx"),
            (Auto, &stale("-1"), "PMIx"),
            (Auto, &stale("x"), "PMIx"),
            (Pmi1, &stale("8"), "descriptor 8, rank none"),
        ] {
            let variable = |name: &str| pairs.iter().find(|p| p.0 == name).map(|p| p.1.to_owned());
            let found = match detect(choice, variable, |descriptor| descriptor == 7) {
                Ok(None) => String::new(),
                Ok(Some(DetectedManager::Pmix)) => "PMIx".into(),
                Ok(Some(DetectedManager::Wire(start))) => {
                    assert_eq!(start.choice, choice);
                    let rank = start.rank.unwrap_or("none".into());
                    match start.place {
                        ManagerAddress::Inherited(number) => format!("descriptor {number}, rank {rank}"),
                        ManagerAddress::Port { address, id } => format!("id {id} at {address}, rank {rank}"),
                    }
                }
                Err(why) => why.split(['(', ')']).nth(1).unwrap().split(' ').next().unwrap().into(),
            };
            assert_eq!(found, expected, "{choice:?} {pairs:?}");
        }
    }
}
