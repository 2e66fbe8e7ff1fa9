"""pytest for gasnet-compat-tests: options, the C and C++ programs as tests, and fixtures."""

import re
import sys

sys.dont_write_bytecode = True
import jobs  # noqa: E402  (pytest.ini names the folder)
import libfabrics  # noqa: E402
import lines  # noqa: E402
import matrix  # noqa: E402
import mpis  # noqa: E402
import programs  # noqa: E402
import pytest  # noqa: E402
import workshop  # noqa: E402

pytest_plugins = ["kinds"]


class Choice:
    """The installations and configurations that the command line chooses."""

    def __init__(self, options):
        self.configurations = matrix.configurations(
            matrix.installations(options.library), options.configurations.split()
        )
        for mode in options.modes.split():
            matrix.known("thread mode", mode, matrix.MODES)
        for word in options.leave_out.split():
            matrix.known("program", word.partition("=")[0], programs.names())
        for option, words, pattern in (
            ("--leave-out", options.leave_out, r"\w+=\S+"),
            ("--env", options.env, r"\w+=\S*"),
            ("--np", options.np, r"[1-9]\d*"),
            ("--few-ranks", options.few_ranks, r"[1-9]\d*"),
        ):
            if unfit := [word for word in words.split() if not re.fullmatch(pattern, word)]:
                raise matrix.Unknown(f"{option} {unfit[0]}: not understood")
        if options.emulator and not any(c.conduit in jobs.EMULATORS for c in self.configurations):
            raise matrix.Unknown(f"--emulator: no conduit with an emulator is chosen ({', '.join(jobs.EMULATORS)})")
        for name in options.mpi.split():
            matrix.known("MPI", name, [*mpis.BY_NAME, mpis.ALL])
        if options.providers:
            matrix.known("kind of providers", options.providers.partition(":")[0], libfabrics.KINDS)
        if options.providers and {c.conduit for c in self.configurations} != {"ofi"}:
            raise matrix.Unknown("--providers: other conduits than ofi are chosen")


def pytest_addoption(parser):
    group = parser.getgroup("libgasnet")
    group.addoption(
        "--library",
        action="append",
        default=[],
        metavar="FLAVOUR=PREFIX",
        help="installation to test; release, debug, release-large … (default: all build/stage-*)",
    )
    group.addoption("--configurations", default="", help="only these: flavour:conduit:size words (size 0: all ranks)")
    group.addoption("--modes", default="", help="only these thread modes")
    group.addoption("--np", default="", help="rank counts, instead of what the programs say")
    group.addoption("--few-ranks", default="", help="only those of the programs' counts, or else their least")
    group.addoption("--slice", default="", help="seed: of the less important configurations only a part")
    group.addoption("--part", default="", help="seed: of the configurations of C programs one in four")
    group.addoption("--sample", default="", help="seed: only one in four programs")
    group.addoption("--leave-out", default="", help="not these programs: NAME=reason_without_spaces words")
    group.addoption("--flags", default="", help="further compiler and linker flags")
    group.addoption("--wrapper", default="", help="put before the program, for example valgrind")
    group.addoption("--env", default="", help="further environment, NAME=value words")
    group.addoption("--emulator", default="", help="options of scripts/with-emulator: --faults late --faults yield=9")
    group.addoption("--providers", default="", help="over providers of libfabric: versions, profiles, profiles:SEED")
    group.addoption("--mpi", default="", help="these MPIs start the C programs: names of support/mpis.py, or all")
    group.addoption("--timeout-factor", type=float, default=1)
    group.addoption("--lines", nargs="?", const="", default=None, metavar="PREFIX", help="report as a check's step")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    options = config.option
    try:
        config.stash[programs.CHOICE] = Choice(options)
    except matrix.Unknown as unknown:
        raise pytest.UsageError(str(unknown)) from None
    if hasattr(config, "workerinput"):
        return
    if options.lines is not None:
        lines.install(config, options.lines)
    if not options.collectonly:
        scratch = jobs.scratch()
        scratch.__enter__()
        config.add_cleanup(lambda: scratch.__exit__(None, None, None))


def pytest_collect_file(file_path, parent):
    """A program of a family; where a family has tests in Python, its programs belong to those."""
    folder = file_path.parent
    is_family = folder.parent == parent.config.rootpath and folder.name not in programs.NOT_FAMILIES
    if file_path.suffix in (".c", ".cc") and is_family and not any(folder.glob("test_*.py")):
        return programs.ProgramFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    """Tests in Python run in the configurations of their family that the command line chooses."""
    if "configuration" in metafunc.fixturenames:
        chosen = scripted(metafunc.config, metafunc.definition.path.parent.name)
        metafunc.parametrize("configuration", chosen, ids=str, scope="module")


def scripted(config, family):
    """Configurations for the tests in Python of a family. They know no segments."""
    found, seed = config.stash[programs.CHOICE].configurations, config.option.slice
    for configuration in found:
        always = not seed or (configuration.flavour, configuration.conduit) == ("release", "smp")
        key = f"{family} {configuration}"
        if configuration.segment != "fast" or (configuration.conduit == "any" and not config.option.configurations):
            continue
        if always or (configuration.conduit not in matrix.NETWORKS and matrix.chance(seed, key, configuration.one_in)):
            yield configuration


def pytest_itemcollected(item):
    """Tests of a module in one configuration are a group for pytest-xdist (--dist loadgroup)."""
    configuration = item.callspec.params.get("configuration") if hasattr(item, "callspec") else None
    if configuration:
        item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}/{item.path.stem} {configuration}"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leaves out tests for which no configuration was chosen, or that are not for theirs. Those of
    a module in one configuration, which share its workshop, follow each other."""
    groups, deselected = {}, []
    for item in items:
        configuration = item.callspec.params.get("configuration") if hasattr(item, "callspec") else None
        if configuration is not None and not is_for(item, configuration):
            deselected.append(item)
            continue
        groups.setdefault((item.path, str(configuration)), []).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for group in groups.values() for item in group]


def is_for(item, configuration):
    """Whether a test runs in a configuration, by its marks."""
    return isinstance(configuration, matrix.Configuration) and (
        all(configuration.conduit in mark.args for mark in item.iter_markers("conduits"))
        and all(configuration.conduit not in mark.args for mark in item.iter_markers("not_conduits"))
        and all(configuration.build in mark.args for mark in item.iter_markers("flavours"))
        and (configuration.conduit != "mpi" or item.get_closest_marker("mpi"))
    )


@pytest.fixture(scope="module")
def quick(pytestconfig):
    """Whether a part is enough."""
    return bool(pytestconfig.option.slice)


@pytest.fixture(scope="module")
def shop(configuration, quick, pytestconfig):
    """A workshop for the configuration of the test."""
    missing = jobs.missing(configuration.conduit)
    if missing:
        pytest.skip(missing)
    options = pytestconfig.option
    modes = options.modes.split() or list(matrix.MODES)
    with workshop.network_of(configuration.conduit, options.emulator.split()) as network:
        made = workshop.Workshop(configuration, network, modes, quick)
        yield made
        made.close()
