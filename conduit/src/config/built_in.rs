//! Site defaults of variables: options of `configure` (`--with-ssh-cmd=…`) or `make`
//! (`DEFAULT_SSH_CMD=…`). A variable that is set takes precedence.
#![forbid(unsafe_code)]

/// Variables that may have a site default, and its value.
const DEFAULTS: [(&str, Option<&str>); 32] = [
    ("GASNET_PMI", option_env!("DEFAULT_PMI")),
    ("GASNET_CSPAWN_CMD", option_env!("DEFAULT_CSPAWN_CMD")),
    ("GASNET_SSH_CMD", option_env!("DEFAULT_SSH_CMD")),
    ("GASNET_SSH_OPTIONS", option_env!("DEFAULT_SSH_OPTIONS")),
    ("GASNET_SSH_NODEFILE", option_env!("DEFAULT_SSH_NODEFILE")),
    ("GASNET_SSH_OUT_DEGREE", option_env!("DEFAULT_SSH_OUT_DEGREE")),
    ("GASNET_MAX_SEGSIZE", option_env!("DEFAULT_MAX_SEGSIZE")),
    ("GASNET_SUPERNODE_MAXSIZE", option_env!("DEFAULT_SUPERNODE_MAXSIZE")),
    ("GASNET_IBV_SPAWNER", option_env!("DEFAULT_IBV_SPAWNER")),
    ("GASNET_IBV_PORTS", option_env!("DEFAULT_IBV_PORTS")),
    ("GASNET_IBV_MAX_MEDIUM", option_env!("DEFAULT_IBV_MAX_MEDIUM")),
    ("GASNET_PHYSMEM_MAX", option_env!("DEFAULT_PHYSMEM_MAX")),
    ("GASNET_USE_FENCED_PUTS", option_env!("DEFAULT_USE_FENCED_PUTS")),
    ("GASNET_IBV_MAX_HCAS", option_env!("DEFAULT_IBV_MAX_HCAS")),
    ("GASNET_PHYSMEM_PROBE", option_env!("DEFAULT_PHYSMEM_PROBE")),
    ("GASNET_USE_SRQ", option_env!("DEFAULT_USE_SRQ")),
    ("GASNET_USE_XRC", option_env!("DEFAULT_USE_XRC")),
    ("GASNET_USE_ODP", option_env!("DEFAULT_USE_ODP")),
    ("GASNET_IBV_ATOMICS", option_env!("DEFAULT_IBV_ATOMICS")),
    ("GASNET_OFI_SPAWNER", option_env!("DEFAULT_OFI_SPAWNER")),
    (
        "GASNET_OFI_PROVIDER_INCLUDE",
        option_env!("DEFAULT_OFI_PROVIDER_INCLUDE"),
    ),
    ("GASNET_OFI_MAX_MEDIUM", option_env!("DEFAULT_OFI_MAX_MEDIUM")),
    ("GASNET_OFI_NUM_COMPLETIONS", option_env!("DEFAULT_OFI_NUM_COMPLETIONS")),
    ("GASNET_UCX_SPAWNER", option_env!("DEFAULT_UCX_SPAWNER")),
    ("GASNET_UCX_MAX_MEDIUM", option_env!("DEFAULT_UCX_MAX_MEDIUM")),
    // Processes that another launcher has started are no job of MPI.
    ("GASNET_MPI_SPAWNER", Some("mpi")),
    ("GASNET_GNI_SPAWNER", option_env!("DEFAULT_GNI_SPAWNER")),
    ("GASNET_ELAN_SPAWNER", option_env!("DEFAULT_ELAN_SPAWNER")),
    ("GASNET_GNI_MAX_MEDIUM", option_env!("DEFAULT_GNI_MAX_MEDIUM")),
    ("GASNET_USE_UDREG", option_env!("DEFAULT_USE_UDREG")),
    ("MPIRUN_CMD", option_env!("DEFAULT_MPIRUN_CMD")),
    ("PMIRUN_CMD", option_env!("DEFAULT_PMIRUN_CMD")),
];

/// The site's default of a variable, if it has one.
pub fn built_in(name: &str) -> Option<&'static str> {
    let (_, value) = DEFAULTS.iter().find(|(known, _)| *known == name)?;
    value.filter(|value| !value.is_empty())
}
