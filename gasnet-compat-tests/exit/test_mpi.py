"""How jobs of mpi end under the launcher of each MPI that is installed."""

import os
import signal
import subprocess
import time

import exits
import mpis
import pytest
import workshop
from bed import NOT_OURS

pytestmark = [pytest.mark.mpi, pytest.mark.conduits("mpi")]


def pytest_generate_tests(metafunc):
    if "mpi" in metafunc.fixturenames:
        metafunc.parametrize("mpi", mpis.installed(), ids=lambda mpi: mpi.name)


def run(shop, mpi, command, ranks=2, extra=None, **options):
    """A job, as `Workshop.run` returns it."""
    words = [*mpi.start(ranks), *command]
    return shop.run(words, 0, {**mpi.environment(), **(extra or {})}, exits.LIMIT, **options)


def ours(left):
    """What a job left, without the files of an MPI that is killed or not finalised."""
    own = tuple(f"TMPDIR/{name}" for name in NOT_OURS)
    return [name for name in left.split(", ") if left and not name.startswith(own)]


def codes(code):
    """Launchers' codes for a job that ends with this one. hydra has no 128 for signals. SIGKILL is
    what launchers end the other ranks with; hydra has the bits of all."""
    if code < 128:
        return {code}
    number, kill = code - 128, signal.SIGKILL
    return {code, 128 + kill, number, kill, number | kill}


@pytest.mark.parametrize("nbrhd", [0, 1], ids=["one-nbrhd", "network"])
@pytest.mark.parametrize("name", [*exits.UNDER_LAUNCHERS, "success", "abort", "term", "int"])
def test_end(shop, exit_cases, mpi, name, nbrhd):
    """The code is that of the job, and nothing is left."""
    case = exits.simplest(name)
    extra = {**case.environment, "GASNET_SUPERNODE_MAXSIZE": str(nbrhd)}
    status, output, _, left = run(shop, mpi, [exit_cases, name], 2, extra)
    wanted = codes(case.status)
    if mpi.family == mpis.HYDRA and "spin" in name:
        # A rank that computes does not finalize MPI: hydra may kill another one before its own end,
        # and that of MPICH 4.0 notes 1 if the connection closes after it has collected the process.
        wanted |= {signal.SIGKILL, 128 + signal.SIGKILL, 1}
    workshop.check(workshop.problem_of(status, output, left, status if status in wanted else min(wanted)))


def test_ranks_end_one_after_another(shop, exit_cases, mpi):
    """A launcher takes the first end for an orderly one."""
    for _ in range(5):
        status, output, _, left = run(shop, mpi, [exit_cases, "exit-zero-barrier"], 8)
        workshop.check(workshop.problem_of(status, output, left, 0))


def test_fault_report(shop, exit_cases, mpi):
    """No MPI keeps GASNet's report of a fault."""
    status, output, _, left = run(shop, mpi, [exit_cases, "segv"])
    assert status and "Caught a fatal signal (rank" in output, output
    assert not ours(left)


def test_stopped_rank(shop, exit_cases, mpi):
    """A rank that is stopped (SIGSTOP) while the others end is killed after the exit timeout."""
    case = exits.simplest("stop")
    status, output, _, left = run(shop, mpi, [exit_cases, case.name], 3, case.environment)
    assert status in {case.status} | codes(128 + signal.SIGKILL), output
    assert not ours(left)


def test_no_success_without_gasnet_exit(shop, exit_cases, mpi):
    """A rank that ends by _exit(0) fails."""
    if mpi.family == mpis.HYDRA:
        pytest.skip("hydra takes it for a success, and kills the others")
    status, output, _, left = run(shop, mpi, [exit_cases, "raw-exit-zero"])
    assert status, output
    assert not left


@pytest.mark.parametrize("case", ["wait", "spin"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_signal_to_the_launcher(shop, exit_cases, mpi, number, case):
    """The job ends, with a failure. But hydra forgets the codes of some processes that it has ended
    itself, whatever the program, and seldom of all."""

    def send(process):
        process.stdout.readline()
        time.sleep(0.1)
        os.kill(process.pid, number)

    for _ in range(4 if mpi.family == mpis.HYDRA else 1):
        status, output, _, left = run(shop, mpi, [exit_cases, case], 3, during=send)
        assert not ours(left)
        if status:
            return
    assert status, output


# Names of a library of the other ABI, and what the launcher has set.
OTHER = {mpis.HYDRA: ("libmpi.so.40", "OpenMPI"), mpis.OPEN_MPI: ("libmpich.so.12", "MPICH")}


def test_another_library(shop, exit_cases, mpi):
    """Processes that their MPI takes for jobs of one are refused, where the launcher has started
    several."""
    library, name = OTHER.get(mpi.family, ("", ""))
    if mpi.package or mpis.BY_NAME.get(name) not in mpis.installed():
        pytest.skip("needs the MPIs of Debian")
    extra = {"GASNET_MPI_LIBRARY": library, "GASNET_SUPERNODE_MAXSIZE": "1"}
    status, output, _, left = run(shop, mpi, [exit_cases, "success"], extra=extra)
    assert status not in (0, None), output
    assert "the launcher is not of this MPI" in output
    assert not ours(left)


def test_no_mpi(shop, exit_cases, mpi):
    """A library that is no MPI is named."""
    status, output, _, left = run(shop, mpi, [exit_cases, "success"], extra={"GASNET_MPI_LIBRARY": "libc.so.6"})
    assert status not in (0, None), output
    assert "libc.so.6" in output
    assert not left


# MPICH 4.3's draft of the standard ABI, which tells neither its version nor that it is MPICH.
DRAFT = """
#include <string.h>
int MPI_Get_library_version(char *text, int *length) {
    *length = (int)strlen(strcpy(text, "MPICH Version: 4.3.2"));
    return 0;
}
"""


def test_unknown_abi(shop, exit_cases, mpi):
    """An MPI whose ABI is unknown is named."""
    library = f"{shop.folder}/libmpi_abi.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=DRAFT, text=True, check=True)
    status, output, _, left = run(shop, mpi, [exit_cases, "success"], extra={"GASNET_MPI_LIBRARY": library})
    assert status not in (0, None), output
    assert f"{library} (MPICH Version: 4.3.2) has none of the ABIs" in output
    assert not left
