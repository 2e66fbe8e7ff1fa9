//! Variables of a process that has privileges by its program file (set-user-ID, set-group-ID, file
//! capabilities). The environment belongs to a caller without them, so variables that name
//! libraries, commands, files or folders count as not set ([`Variable::names_file`]).
#![forbid(unsafe_code)]

use std::ffi::OsString;

use super::{Scope, Variable};

/// Variables of others that name files for this library, or plugins for a library that it opens.
const OF_OTHERS: [&str; 33] = [
    "TMPDIR",
    "PBS_NODEFILE",
    "LSB_DJOB_HOSTFILE",
    "PE_HOSTFILE",
    "FI_PROVIDER_PATH",
    "IBV_DRIVERS",
    "RDMAV_DRIVERS",
    "MLX4_DEBUG_FILE",
    "MLX5_DEBUG_FILE",
    "PMIX_INSTALL_PREFIX",
    "PMIX_EXEC_PREFIX",
    "PMIX_DATAROOTDIR",
    "PMIX_DATADIR",
    "PMIX_SYSCONFDIR",
    "PMIX_LIBDIR",
    "PMIX_PKGDATADIR",
    "PMIX_PKGLIBDIR",
    "PMIX_MCA_mca_base_component_path",
    "PMIX_MCA_mca_base_param_files",
    "OMPI_MCA_mca_base_component_path",
    "OMPI_MCA_mca_base_param_files",
    "OPAL_PREFIX",
    "OPAL_LIBDIR",
    "OPAL_PKGLIBDIR",
    "I_MPI_ROOT",
    "CUDA_CACHE_PATH",
    "CUDA_COREDUMP_FILE",
    "CUDA_INJECTION64_PATH",
    "CUDA_LOG_FILE",
    "HSA_TOOLS_LIB",
    "ROCP_TOOL_LIB",
    "ZE_ENABLE_ALT_DRIVERS",
    "ROCP_TOOL_LIBRARIES",
];

/// The variables in `environment` that a privileged process ignores, sorted.
pub(super) fn ignored<'a>(
    tables: impl Iterator<Item = &'a Variable>,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    let marked: Vec<&Variable> = tables.filter(|variable| variable.names_file).collect();
    let set = environment.filter(|(_, value)| !value.is_empty());
    let names = set.filter_map(|(name, _)| name.into_string().ok());
    let mut ignored: Vec<String> = names
        .filter(|name| OF_OTHERS.contains(&name.as_str()) || marked.iter().any(|variable| is_of(variable, name)))
        .collect();
    ignored.sort();
    ignored
}

/// Whether `name` is that of a variable, or another name of one that the launcher process reads
/// (`AMUDP_X`, `X`).
fn is_of(variable: &Variable, name: &str) -> bool {
    let plain = variable.name.strip_prefix("GASNET_");
    let other_name = || plain == Some(name.strip_prefix("AMUDP_").unwrap_or(name));
    variable.name == name || (variable.scope == Scope::Launcher && other_name())
}

#[cfg(test)]
mod tests {
    use super::super::{table::TABLE, text, Key};
    use super::*;

    const OF_CONDUIT: Key<Option<String>> = text("GASNET_CONDUIT_X_LIBRARY", "A test's.");

    #[test]
    fn variables_of_files_are_marked() {
        let marked = |name: &str| {
            TABLE
                .iter()
                .any(|variable| variable.name == name && variable.names_file)
        };
        for name in "TMPDIR CSPAWN_CMD ENV_CMD SSH_CMD SSH_OPTIONS SSH_NODEFILE SSH_REMOTE_PATH NODEFILE PMIX_LIBRARY \
                     NUMA_LIBRARY CUDA_LIBRARY TRACEFILE STATSFILE RECORD MALLOCFILE COLL_TUNING_FILE CALL_COUNTS"
            .split_whitespace()
        {
            assert!(marked(&format!("GASNET_{name}")), "{name}");
        }
        assert!(marked("MPIRUN_CMD") && marked("PMIRUN_CMD") && OF_CONDUIT.variable.names_file);
        assert!(!marked("GASNET_SSH_SERVERS") && !marked("GASNET_PSHM_NODES") && !marked("GASNET_TRACEMASK"));
    }

    #[test]
    fn variables_of_files_are_ignored_under_all_names() {
        let set = "GASNET_SSH_CMD=x AMUDP_ENV_CMD=x CSPAWN_CMD=x GASNET_TRACEFILE=x TRACEFILE=x TMPDIR=x HOME=x \
                   GASNET_CONDUIT_X_LIBRARY=x GASNET_PSHM_NODES=2 GASNET_STATSFILE= SSH_SERVERS=x FI_PROVIDER_PATH=x \
                   CUDA_INJECTION64_PATH=x";
        let set = set.split_whitespace().filter_map(|pair| pair.split_once('='));
        let ignored = ignored(
            TABLE.iter().chain([&OF_CONDUIT.variable]),
            set.map(|(name, value)| (name.into(), value.into())),
        );
        assert_eq!(
            ignored.join(" "),
            "AMUDP_ENV_CMD CSPAWN_CMD CUDA_INJECTION64_PATH FI_PROVIDER_PATH GASNET_CONDUIT_X_LIBRARY GASNET_SSH_CMD \
             GASNET_TRACEFILE TMPDIR"
        );
    }
}
