"""Process managers that start jobs over hosts: PMI-1, PMI-2, PMIx."""

import mpi
import pytest
from kinds import QUICK as QUICKLY

MANAGERS = ("hydra", "hydra-port", "hydra-pmi2", "openmpi", "srun-pmi2", "srun-pmix")
# One of each interface.
QUICK = ("hydra", "srun-pmi2", "openmpi")


def each(quick=()):
    """Parametrises a test by manager; `quick`: those of a slice."""
    found = [pytest.param(manager, marks=[QUICKLY] * (manager in quick)) for manager in MANAGERS]
    return pytest.mark.parametrize("manager", found)


def srun(bed, kind, ranks, *arguments, options=(), hosts=3):
    """srun with an interface."""
    if kind not in bed.slurm.mpi_types():
        pytest.skip(f"this Slurm has no --mpi={kind}")
    share = [] if ranks % hosts else [f"--ntasks-per-node={ranks // hosts}"]
    words = ["srun", "-n", str(ranks), "-N", str(hosts), *share, f"--mpi={kind}", *options]
    return [*words, bed.program.path, *arguments]


def command(bed, manager, ranks, *arguments, hosts=3):
    """A job of a manager in blocks on the first hosts, and the environment that it needs."""
    words, names = [bed.program.path, *arguments], bed.names()[:hosts]
    if manager == "openmpi":
        return mpi.openmpi(ranks, names, words), {}
    if manager.startswith("srun-"):
        return srun(bed, manager.removeprefix("srun-"), ranks, *arguments, hosts=hosts), {}
    options = ["-pmi-port"] if manager == "hydra-port" else []
    env = {"GASNET_PMI": "pmi2"} if manager == "hydra-pmi2" else {}
    return mpi.hydra(ranks, names, words, options), env
