"""MPI and GASNet in one program, started by MPI's launcher and without it, with each MPI that is
installed."""

import os
import shutil

import matrix
import mpis
import pytest

LIMIT = 60.0
FOUND = [mpi.name for mpi in mpis.installed() if mpi.compiler and shutil.which(mpi.compiler)]
pytestmark = [
    pytest.mark.skipif(not FOUND, reason="no MPI is installed (mpicc and mpiexec)"),
    pytest.mark.mpi,
]
ORDERS = ("gasnet-first", "mpi-between", "mpi-first")
ENDS = ("finalize-return", "finalize-exit", "exit", "return", "atexit", "one-exits", "one-exits-mpi", "abort")
USED = r"^rank \d+ has used both: 0 failures$"


def jobs_of(mpi, modes, quick):
    """Number of ranks, order of initialisation, level of threads, end, exit code. The order of
    initialisation does not matter if MPI's launcher starts the ranks. Either library ends the job,
    with its code."""
    levels = ("single", "serialized", "multiple") if "par" in modes else ("single", "serialized")
    for order in ORDERS:
        for ranks in (2,) if quick else (1, 2, 4):
            yield ranks, order, "init", "finalize-return", 0
        for level in () if quick else levels:
            yield 2, order, level, "finalize-exit", 0
    # Open MPI's launcher wants MPI_Finalize or gasnet_exit before an exit code of 0.
    well = ("finalize-exit", "exit", "atexit", *(("return", "one-exits") if mpi != "OpenMPI" else ()))
    for order in ("gasnet-first", "mpi-first"):
        for code, ends in ((7, ENDS), (0, well)):
            for end in ends:
                yield 2, order, "init", end, code


def pytest_generate_tests(metafunc):
    options = metafunc.config.option
    if "job" in metafunc.fixturenames:
        modes = options.modes.split() or matrix.MODES
        chosen = {
            f"{mpi}-np{job[0]}-{'-'.join(map(str, job[1:]))}": (mpi, job)
            for mpi in FOUND
            for job in jobs_of(mpi, modes, bool(options.slice))
        }
        # Of a slice each second one.
        names = [name for name in chosen if not options.slice or matrix.chance(options.slice, name, 2)]
        metafunc.parametrize("mpi, job", [chosen[name] for name in names], ids=names)
    else:
        metafunc.parametrize("mpi", FOUND)


def compiled(shop, mpi):
    """The program."""
    return shop.compile(f"{os.path.dirname(__file__)}/launch_mpi.c", compiler=[mpis.BY_NAME[mpi].compiler])


def expect(shop, mpi, job, extra=None, options=()):
    """A job of the launcher; all ranks use both libraries, and have the same numbers in both."""
    ranks, order, level, end, code = job
    command = [*mpis.BY_NAME[mpi].start(ranks), *options, compiled(shop, mpi), order, level, end, str(code)]
    patterns = (rf"^rank (\d+) of {ranks} is \1 of {ranks} in MPI$", ranks), USED
    # After an abort, MPI's launcher may end before it has forwarded the ranks' output.
    shop.expect(command, code, *(() if end == "abort" else patterns), extra=extra, timeout=LIMIT)


def test_job(shop, mpi, job):
    expect(shop, mpi, job)


@pytest.mark.conduits(*matrix.SEVERAL_HOSTS)
def test_neighbourhoods(shop, mpi):
    """Each rank has its own."""
    options = ["-x", "GASNET_SUPERNODE_MAXSIZE"] if mpi == "OpenMPI" else []
    job = 4, "gasnet-first", "init", "finalize-return", 0
    expect(shop, mpi, job, {"GASNET_SUPERNODE_MAXSIZE": "1"}, options)


@pytest.mark.not_conduits("mpi")
@pytest.mark.parametrize("how", ["directly", "launcher"])
def test_alone(shop, mpi, how):
    """Without MPI's launcher each rank is alone in its MPI; MPI_Init comes after gex_Client_Init,
    which forks the ranks."""
    words, ranks, end = ([], 2, ("finalize-return", "7"))
    if how == "launcher":
        words, ranks, end = [shop.launcher, "-n", "2"], 0, ("finalize-exit", "0")
    command = [*words, compiled(shop, mpi), "gasnet-first", "init", *end]
    patterns = (r"^rank \d of 2 is 0 of 1 in MPI$", 2), USED
    extra = {"LAUNCH_MPI_WORLDS": "1"}
    shop.expect(command, int(end[1]), *patterns, ranks=ranks, extra=extra, timeout=LIMIT)


@pytest.mark.conduits(*matrix.SEVERAL_HOSTS)
def test_our_launcher(shop, mpi):
    """Our launcher starts MPI's."""
    words = [shop.launcher, "-spawner=mpi", "-n", "2", compiled(shop, mpi)]
    patterns = (r"^rank (\d+) of 2 is \1 of 2 in MPI$", 2), USED
    extra = {"MPIRUN_CMD": mpis.BY_NAME[mpi].template()}
    shop.expect([*words, "gasnet-first", "init", "finalize-return", "7"], 7, *patterns, extra=extra, timeout=LIMIT)


@pytest.mark.conduits("mpi")
def test_flood(shop, mpi):
    """Requests do not fill the memory of a rank that is in MPI."""
    tests, known = os.path.dirname(os.path.dirname(__file__)), mpis.BY_NAME[mpi]
    flags = ["-DIN_MPI", f"-I{tests}/common"]
    program = shop.compile(f"{tests}/stress/many_to_one.c", compiler=[known.compiler], flags=flags)
    extra = {"GASNET_SUPERNODE_MAXSIZE": "1"}
    shop.expect([*known.start(4), program], 0, "PASS many_to_one", extra=extra, timeout=LIMIT)
