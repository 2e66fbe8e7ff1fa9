"""Command lines of MPI's launchers for `n` processes over given hosts, for `Hosts.run`: MPICH's
hydra (PMI-1), and Open MPI's mpirun (PMIx)."""

from processes import need


def shares(n, names):
    """Deals `n` processes to the hosts, in blocks: [(name, number)]."""
    each, more = divmod(n, len(names))
    return [(name, each + (place < more)) for place, name in enumerate(names) if each + (place < more)]


def hydra(n, names, command, options=()):
    """MPICH's launcher, by ssh. Its processes find PMI_FD or PMI_PORT, PMI_RANK and PMI_SIZE, and
    speak PMI-1."""
    need("mpiexec.hydra")
    hosts = ",".join(f"{name}:{number}" for name, number in shares(n, names))
    return ["mpiexec.hydra", "-launcher", "ssh", "-hosts", hosts, "-n", str(n), *options, *command]


def openmpi(n, names, command, options=()):
    """Open MPI's launcher, by ssh. Its processes find PMIX_RANK, PMIX_NAMESPACE and so on. It
    refuses root without an option, and so more processes than processors."""
    need("mpirun.openmpi")
    hosts = ",".join(f"{name}:{number}" for name, number in shares(n, names))
    return [
        "mpirun.openmpi",
        "--allow-run-as-root",
        "--oversubscribe",
        "--bind-to",
        "none",
        "--host",
        hosts,
        "-n",
        str(n),
        *options,
        *command,
    ]
