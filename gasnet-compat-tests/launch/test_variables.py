"""Variables that launchers and job scripts of clients set, with values that they use."""

import os
import re

import matrix
import pytest

# In effect, accepted, and unknown (conduit/src/config/tests.rs has the names, too).
USED, NO_EFFECT = r"= [^(]*$", r"\(accepted, no effect\)$"
UNKNOWN = "is set, but (unknown to|this library has no conduit)"
IBV, GNI, MPI, PINNING = ("ibv", "any"), ("gni", "any"), ("mpi", "any"), ("ibv", "gni", "any")
# Value, effect, and another effect on some conduits.
VARIABLES = {
    "GASNET_SMP_SPAWNER": ("fork", USED),
    "GASNET_SPAWN_VERBOSE": ("0", USED),
    "GASNET_BACKTRACE": ("1", USED),
    "GASNET_FREEZE_ON_ERROR": ("0", USED),
    "GASNET_CATCH_EXIT": ("1", USED),
    "GASNET_EXITTIMEOUT_FACTOR": ("0.5", USED),
    "GASNET_EXITTIMEOUT_MIN": ("10", USED),
    "GASNET_MAX_SEGSIZE": ("128.0MB/P", USED),
    "GASNET_SPAWNFN": ("L", USED),
    "GASNET_MASTERIP": ("127.0.0.1", USED),
    "GASNET_WORKERIP": ("127.0.0.0", USED),
    "GASNET_ROUTE_OUTPUT": ("0", USED),
    "GASNET_BARRIER": ("PSHM", USED),
    "GASNET_QUIET": ("y", USED),
    "GASNET_PHYSMEM_NOPROBE": ("1", NO_EFFECT),
    "GASNET_HOST_DETECT": ("gethostid", NO_EFFECT),
    "GASNET_COLL_SCRATCH_SEG_SIZE": ("2M", NO_EFFECT),
    "GASNET_IBV_SPAWNFN": ("S", NO_EFFECT),
    "GASNET_SPAWN_CONTROL": ("pmi", NO_EFFECT),
    "GASNET_SUPPRESS_DEBUG_WARNING": ("1", NO_EFFECT),
    "GASNET_MPI_THREAD": ("MULTIPLE", UNKNOWN, USED, MPI),
    "GASNET_FROM_A_LATER_RELEASE": ("17", UNKNOWN),
    "GASNET_PINNED_REGIONS_MAX": ("1024", UNKNOWN, USED, IBV),
    "GASNET_USE_FENCED_PUTS": ("1", UNKNOWN, USED, IBV),
    "GASNET_IBV_PORTS_VERBOSE": ("0", UNKNOWN, USED, IBV),
    "GASNET_USE_ODP": ("0", UNKNOWN, USED, IBV),
    "GASNET_ODP_VERBOSE": ("0", UNKNOWN, USED, IBV),
    "GASNET_AMRDMA_MAX_PEERS": ("0", UNKNOWN, USED, IBV),
    "GASNET_DOMAIN_COUNT": ("4", NO_EFFECT, USED, GNI),
    "GASNET_AM_DOMAIN_POLL_MASK": ("255", NO_EFFECT, USED, GNI),
    "GASNET_PHYSMEM_MAX": ("16GB", UNKNOWN, USED, PINNING),
    # Not set where they would have an effect.
    "GASNET_SPAWNER": ("ssh", USED, "", matrix.SEVERAL_HOSTS),
    "GASNET_SSH_SERVERS": ("node0 node1", USED, "", matrix.SEVERAL_HOSTS),
    "GASNET_IBV_SPAWNER": ("mpi", USED, "", IBV),
}


def taken(conduit):
    """The variables for a conduit: name: (value, how it is taken)."""
    found = {}
    for name, (value, how, *special) in VARIABLES.items():
        if special and conduit in special[1]:
            how = special[0]
        if how:
            found[name] = (value, how)
    return found


def values(conduit):
    """An environment of all."""
    return {name: value for name, (value, _) in taken(conduit).items()}


def test_no_word(launch, shop):
    """All are accepted without a word."""
    launch.expect("{show}", 0, r"\Arank \d of 2\nrank \d of 2\n\Z", ranks=2, extra=values(shop.conduit))


@pytest.fixture(scope="module")
def reports(shop):
    """The line about each that a job of this module's configuration prints with
    GASNET_VERBOSEENV."""
    extra = values(shop.conduit) | {"GASNET_VERBOSEENV": "1"}
    _, output, _, _ = shop.run([shop.compile(f"{os.path.dirname(__file__)}/show.c")], 2, extra)
    return {line.split()[2]: line for line in output.splitlines() if line.startswith("ENV parameter: ")}


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        names = [
            pytest.param(name, marks=pytest.mark.not_conduits(*special[1]) if special and not special[0] else [])
            for name, (_, _, *special) in VARIABLES.items()
        ]
        metafunc.parametrize("name", names)


def test_verboseenv(reports, shop, name):
    line = reports.get(name, "no line")
    assert re.search(taken(shop.conduit)[name][1], line), line


@pytest.mark.parametrize(
    "value, ranks, most",
    [
        ("8388608", 1, 8 << 20),
        ("8MB", 1, 8 << 20),
        ("8.0MB/P", 2, 8 << 20),
        ("16MB/H", 2, 8 << 20),
        pytest.param("0.5/H", 2, r"\d{6,}", id="half-of-memory"),
    ],
)
def test_segment_limit(launch, value, ranks, most):
    extra = {"GASNET_MAX_SEGSIZE": value}
    launch.expect("{show} limit", 0, (rf"^at most {most} bytes$", ranks), ranks=ranks, extra=extra)


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param("GASNET_SMP_SPAWNER=ssh", marks=pytest.mark.conduits("smp")),
        "GASNET_SMP_SPAWNER=magic",
        "GASNET_EXITTIMEOUT=soon",
        "GASNET_CATCH_EXIT=perhaps",
        "GASNET_NO_CATCH_SIGNAL=SIGNOPE",
        "GASNET_SUPERNODE_MAXSIZE=-2",
    ],
)
def test_wrong_value(launch, setting):
    """One clear message, and no job."""
    launch.expect("{show}", 1, setting, "!^rank", ranks=2, extra=dict([setting.split("=")]))
