//! Detects the process manager that has started this process from its variables in the environment.

use std::str::FromStr;

/// The variables that [`detect`] checks, for messages.
pub const LOOKED_FOR: &str =
    "PMI_FD (hydra, srun --mpi=pmi2), PMI_PORT with PMI_ID (hydra -pmi-port), PMIX_NAMESPACE with PMIX_RANK (prterun, \
                              Open MPI's mpirun, srun --mpi=pmix)";

/// The interfaces that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PmiInterface {
    /// Any.
    #[default]
    Auto,
    /// PMI-1 only.
    Pmi1,
    /// PMI-2 only.
    Pmi2,
    /// PMIx only.
    Pmix,
}

impl FromStr for PmiInterface {
    type Err = String;

    /// Reads `auto`, `pmi1`, `pmi2` or `pmix`, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = [
            ("auto", Self::Auto),
            ("pmi1", Self::Pmi1),
            ("pmi2", Self::Pmi2),
            ("pmix", Self::Pmix),
        ];
        let found = named.iter().find(|(name, _)| text.trim().eq_ignore_ascii_case(name));
        found
            .map(|&(_, choice)| choice)
            .ok_or_else(|| format!("GASNET_PMI={text}: expected auto, pmi1, pmi2 or pmix"))
    }
}

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
    let variable = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
    let place = if let Some(descriptor) = variable("PMI_FD") {
        Some(ManagerAddress::Inherited(descriptor))
    } else {
        let port = variable("PMI_PORT").zip(variable("PMI_ID"));
        port.map(|(address, id)| ManagerAddress::Port { address, id })
    };
    let wire = place.map(|place| WireStart {
        place,
        choice,
        rank: variable("PMI_RANK").or_else(|| variable("PMI_ID")),
        size: variable("PMI_SIZE"),
        job: variable("PMI_JOBID"),
    });
    let pmix = variable("PMIX_NAMESPACE")
        .and(variable("PMIX_RANK"))
        .map(|_| DetectedManager::Pmix);
    let stale = |start: &WireStart| match &start.place {
        ManagerAddress::Inherited(text) => !text.trim().parse().is_ok_and(&is_open),
        ManagerAddress::Port { .. } => false,
    };
    let other = |asked: &str, there: &str| {
        Err(format!(
            "GASNET_PMI asks for {asked}, but this process was started with {there}. Unset the variable, or \
             select that interface"
        ))
    };
    match (choice, wire, pmix) {
        (PmiInterface::Pmi1 | PmiInterface::Pmi2, None, Some(_)) => other("PMI-1 or PMI-2", "PMIx (PMIX_NAMESPACE)"),
        (PmiInterface::Pmix, Some(start), None) if !stale(&start) => {
            other("PMIx", "PMI-1 or PMI-2 (PMI_FD or PMI_PORT)")
        }
        (PmiInterface::Pmi1 | PmiInterface::Pmi2, wire, _) => Ok(wire.map(DetectedManager::Wire)),
        (PmiInterface::Auto, Some(start), Some(pmix)) if stale(&start) => Ok(Some(pmix)),
        (PmiInterface::Auto, Some(start), _) => Ok(Some(DetectedManager::Wire(start))),
        (PmiInterface::Auto | PmiInterface::Pmix, _, pmix) => Ok(pmix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(choice: PmiInterface, pairs: &[(&str, &str)]) -> Result<Option<DetectedManager>, String> {
        let variable = |name: &str| pairs.iter().find(|p| p.0 == name).map(|p| p.1.to_owned());
        detect(choice, variable, |descriptor| descriptor == 7)
    }

    fn found(choice: PmiInterface, pairs: &[(&str, &str)]) -> Option<DetectedManager> {
        detected(choice, pairs).unwrap()
    }

    fn place(kind: Option<DetectedManager>) -> ManagerAddress {
        match kind {
            Some(DetectedManager::Wire(start)) => start.place,
            other => panic!("{other:?}"),
        }
    }

    const FD: [(&str, &str); 3] = [("PMI_FD", "7"), ("PMI_RANK", "2"), ("PMI_SIZE", "4")];
    const PMIX: [(&str, &str); 2] = [("PMIX_NAMESPACE", "800129025"), ("PMIX_RANK", "0")];

    #[test]
    fn nothing_is_found_in_an_empty_environment() {
        for choice in [
            PmiInterface::Auto,
            PmiInterface::Pmi1,
            PmiInterface::Pmi2,
            PmiInterface::Pmix,
        ] {
            assert_eq!(found(choice, &[]), None);
            let halves = [
                ("PMI_FD", " "),
                ("PMI_RANK", "0"),
                ("PMI_PORT", "a:1"),
                ("PMIX_RANK", "0"),
            ];
            assert_eq!(found(choice, &halves), None);
        }
    }

    #[test]
    fn an_inherited_descriptor() {
        let start = WireStart {
            place: ManagerAddress::Inherited("7".into()),
            choice: PmiInterface::Auto,
            rank: Some("2".into()),
            size: Some("4".into()),
            job: None,
        };
        assert_eq!(found(PmiInterface::Auto, &FD), Some(DetectedManager::Wire(start)));
        assert!(detected(PmiInterface::Pmix, &FD).unwrap_err().contains("PMI_FD"));
        assert_eq!(found(PmiInterface::Pmix, &[("PMI_FD", "8")]), None);
        // `connect` reports a closed descriptor, or text that is no number.
        assert_eq!(
            place(found(PmiInterface::Auto, &[("PMI_FD", "8")])),
            ManagerAddress::Inherited("8".into())
        );
        assert_eq!(
            place(found(PmiInterface::Pmi2, &[("PMI_FD", "x")])),
            ManagerAddress::Inherited("x".into())
        );
    }

    #[test]
    fn an_address_to_connect_to() {
        let port = [("PMI_PORT", "host:39223"), ("PMI_ID", "3")];
        let Some(DetectedManager::Wire(start)) = found(PmiInterface::Pmi1, &port) else {
            panic!("nothing found");
        };
        let (address, id) = ("host:39223".into(), "3".into());
        assert_eq!(start.place, ManagerAddress::Port { address, id });
        assert_eq!(
            (start.choice, start.rank.as_deref(), start.size),
            (PmiInterface::Pmi1, Some("3"), None)
        );
    }

    #[test]
    fn marks_of_two_managers() {
        assert_eq!(found(PmiInterface::Auto, &PMIX), Some(DetectedManager::Pmix));
        assert!(detected(PmiInterface::Pmi2, &PMIX).unwrap_err().contains("PMIx"));
        let open: Vec<_> = FD.into_iter().chain(PMIX).collect();
        assert_eq!(
            place(found(PmiInterface::Auto, &open)),
            ManagerAddress::Inherited("7".into())
        );
        assert_eq!(found(PmiInterface::Pmix, &open), Some(DetectedManager::Pmix));
        for stale in ["8", "-1", "x"] {
            let both: Vec<_> = [("PMI_FD", stale)].into_iter().chain(PMIX).collect();
            assert_eq!(found(PmiInterface::Auto, &both), Some(DetectedManager::Pmix), "{stale}");
            assert_eq!(
                place(found(PmiInterface::Pmi1, &both)),
                ManagerAddress::Inherited(stale.into())
            );
        }
    }

    #[test]
    fn choices() {
        for (text, choice) in [
            ("auto", PmiInterface::Auto),
            ("PMI1", PmiInterface::Pmi1),
            (" pmi2 ", PmiInterface::Pmi2),
            ("PMIx", PmiInterface::Pmix),
        ] {
            assert_eq!(text.parse(), Ok(choice));
        }
        assert!("pmi3".parse::<PmiInterface>().unwrap_err().contains("pmi3"));
    }
}
