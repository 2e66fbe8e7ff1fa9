"""pytest plugin for tests over several hosts. Such a test takes the fixture `bed` and is marked

    @pytest.mark.hosts(KIND, quick=False, conduits=NETWORKED)

with the kind of its hosts, which tests share, but for "fresh" ones: each test breaks its own.
`quick`: a slice has it, too (QUICK marks single parameters so). The release flavour of udp runs all
tests, other programs a part: those for all with `quick`, and a conduit's own; `--every`: all
tests."""

import contextlib
import os
import shutil
import tempfile

import jobs
import matrix
import programs
import pytest
from bed import Bed, Program

# Arguments of Bed.
KINDS = {
    "one": {"count": 1, "ssh": False},
    "three": {"count": 3},
    "seven": {"count": 7},
    "ipv6": {"count": 3, "ipv4": False},
    "loopback": {"count": 3, "own_name_is_loopback": True, "own_identity": False},
    "two-networks": {"count": 3, "networks": 2},
    "managers": {"count": 3, "slurm": True},
    "fresh": {"count": 3},
    "bad-network": {"count": 3, "tunnel": True},
    "routed": {"count": 2, "routed": True, "ipv6": False},
    "routed-ipv6": {"count": 2, "routed": True, "ipv4": False},
}
NETWORKED = ("udp", "ofi", "any", "ucx", "ibv", "gni", "elan")
ALL = ("udp", "ofi", "any", "ucx", "smp", "ibv", "gni", "elan")
# Those whose jobs process managers start; of mpi only they do.
MANAGED = (*NETWORKED, "mpi")
# Those whose addresses GASNet chooses.
BY_ADDRESS = tuple(conduit for conduit in NETWORKED if conduit != "ucx")
# The emulators join the processes of one host.
ONE_HOST = ("ibv", "gni", "elan")
QUICK = pytest.mark.hosts(quick=True)
# Variables of jobs around this one.
FOREIGN = ("GASNET_", "PMI", "SLURM_", "OMPI_", "SSH_", "AMUDP_", "MPIRUN_")


def pytest_addoption(parser):
    parser.getgroup("libgasnet").addoption(
        "--every", action="store_true", help="over hosts: every test with every conduit and flavour"
    )


def marked(node):
    """The kind of hosts of a test, whether it is quick, and its conduits."""
    marks = list(node.iter_markers("hosts"))
    kind = next(mark.args[0] for mark in marks if mark.args)
    conduits = next((mark.kwargs["conduits"] for mark in marks if "conduits" in mark.kwargs), NETWORKED)
    return kind, any(mark.kwargs.get("quick") for mark in marks), conduits


def programs_of(config):
    """The flavours and conduits that the command line chooses."""
    found = {(c.flavour, c.conduit): c for c in config.stash[programs.CHOICE].configurations if c.segment == "fast"}
    order = (*ALL, "mpi")
    known = [key for key in found if key[1] in order]
    return [found[key] for key in sorted(known, key=lambda key: (key[0] != "release", order.index(key[1])))]


def pytest_generate_tests(metafunc):
    if "bed" in metafunc.fixturenames:
        kind, _, conduits = marked(metafunc.definition)
        scope = "function" if kind == "fresh" else "session"
        metafunc.parametrize("cluster", [kind], indirect=True, scope=scope)
        found = [
            program
            for program in programs_of(metafunc.config)
            if program.conduit in conduits and (kind == "one" or program.conduit not in ONE_HOST)
        ]
        metafunc.parametrize("program", found, ids=[f"{p.conduit}-{p.flavour}" for p in found], indirect=True)


@pytest.hookimpl(trylast=True)  # after that of conftest.py, which brings together tests of a file
def pytest_collection_modifyitems(config, items):
    """Leaves out tests that are not chosen, and groups tests over the same hosts."""
    over_hosts = [item for item in items if "bed" in getattr(item, "fixturenames", ())]
    chosen = [item for item in over_hosts if is_chosen(config, item)]
    by_kind = {kind: [item for item in chosen if item.callspec.params["cluster"] == kind] for kind in KINDS}
    for kind, found in by_kind.items():
        for item in found:
            item.add_marker(pytest.mark.xdist_group(kind))
    others = set(items).difference(over_hosts)
    config.hook.pytest_deselected(items=[item for item in over_hosts if item not in chosen])
    items[:] = [item for item in items if item in others] + [item for found in by_kind.values() for item in found]


def is_chosen(config, item):
    """Whether a test runs with a program."""
    kind, quick, conduits = marked(item)
    program, found = item.callspec.params["program"], programs_of(config)
    if not isinstance(program, matrix.Configuration):
        return False
    first = program is found[0] or program.conduit == "smp"
    # Not of every conduit with a network.
    own = conduits not in (NETWORKED, MANAGED, ALL, BY_ADDRESS)
    own = own and program is next(p for p in found if p.conduit == program.conduit)
    if config.option.every:
        return True
    if config.option.slice:
        return quick and (first or own or (kind == "one" and program.conduit in ("any", "udp")))
    return quick or first or own


@contextlib.contextmanager
def clean_environment():
    """Without the variables of a job around this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith(FOREIGN) and n != jobs.MARK]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def cluster(request):
    """Hosts of a kind."""
    with clean_environment():
        made = Bed(**KINDS[request.param])
        made.__enter__()
    yield made
    made.__exit__(None, None, None)


@pytest.fixture(scope="session")
def built():
    """A folder for programs, and its programs by configuration."""
    folder = tempfile.mkdtemp(prefix="hosts-", dir=os.environ[jobs.FOLDER])
    os.chmod(folder, 0o755)
    return folder, {}


@pytest.fixture
def program(request, built):
    """The program of a flavour and conduit."""
    configuration = request.param
    missing = jobs.missing(configuration.conduit)
    if missing:
        pytest.skip(missing)
    folder, found = built
    if configuration not in found:
        # Other users cannot execute programs in somebody's home.
        reachable = f"{folder}/{configuration.flavour}"
        if not os.path.exists(reachable):
            shutil.copytree(f"{configuration.prefix}/bin", f"{reachable}/bin", symlinks=True)
        place = f"{reachable}-{configuration.conduit}"
        os.makedirs(place, exist_ok=True)
        network = jobs.emulated(configuration.conduit, os.path.join(os.environ[jobs.FOLDER], "emulators"))
        found[configuration] = Program(
            jobs.Installation(configuration.prefix),
            reachable,
            configuration.flavour,
            configuration.conduit,
            place,
            network,
        )
    return found[configuration]


@pytest.fixture
def bed(cluster, program, pytestconfig):
    """Hosts, and the program to run there."""
    cluster.program, cluster.thorough = program, not pytestconfig.option.slice
    with clean_environment():
        yield cluster
    cluster.hosts.sweep()


@pytest.fixture
def folder(bed):
    """An empty folder that all hosts see."""
    path = f"{bed.program.folder}/folder"
    os.mkdir(path)
    yield path
    shutil.rmtree(path)
