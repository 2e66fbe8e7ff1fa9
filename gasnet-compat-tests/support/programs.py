"""Collects the C and C++ programs of the families and runs each over configurations (flavour,
conduit, size of neighbourhoods), thread modes and rank counts. A test is a program in one
configuration and mode: `am/am_flood.c::release:udp:1:par`.

The first comment of a program may say:
  // NP: 1 2 4            rank counts (default 1 2 4)
  // MODES: par parsync   thread modes (default all)
  // CONDUITS: smp        conduits (default all)
  // FLAVOURS: debug      library flavours (default both)
  // SEGMENTS: fast large segment configurations (default all)
  // ARGS: a b            program arguments
  // ENV: A=b C=d         environment
  // TIMEOUT: 60          seconds per run
  // FLAGS: -fopenmp      compiler flags
  // LANGUAGE: c++        compiles a .c file as C++
  // ROOT: yes            also runs as root where the check does
  // DEVICES: yes         has stand-ins for the vendors' device libraries (emulators/devices),
                          unless REAL_DEVICES is set
  // VARIANT: small       the lines after it are for a second test of the program, in the place of
                          the program's own
The programs of the folder tools use only the communication-free tools library, in its modes
tools-seq and tools-par.
Exit codes of a program: 0 passed, 77 skipped (its last line says why), anything else failed."""

import os
import shutil
import tempfile
from pathlib import Path

import jobs
import libfabrics
import matrix
import mpis
import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOT_FAMILIES = ("cluster", "common", "headers", "support")
# Collectives choose their algorithm by whether ranks share cores. Half of the cases of this family
# have a core for every rank (GASNET_HOST_CORES).
BY_CORES = "coll"
CHOICE = pytest.StashKey()


def names():
    """All programs."""
    return {path.stem for path in Path(TESTS).glob("*/*.c*")}


def counts(options, found):
    """Rank counts of a program with these directives."""
    wanted = [int(n) for n in (options.np or found.get("NP", "1 2 4")).split()]
    few = [int(n) for n in options.few_ranks.split()]
    return [n for n in wanted if n in few or not few] or [min(wanted)]


class ProgramFile(pytest.File):
    """A source file and the configurations that the command line chooses for it."""

    def collect(self):
        family, options = self.path.parent.name, self.config.option
        program = self.path.stem
        choice = self.config.stash[CHOICE]
        if options.sample and not matrix.chance(options.sample, f"{family}/{self.path.name}", 4):
            return
        not_here = dict(word.split("=", 1) for word in options.leave_out.split())
        if program in not_here:
            yield Reason.from_parent(self, name=program, reason=not_here[program].replace("_", " "))
            return
        for variant, found in jobs.variants(self.path).items():
            for configuration in choice.configurations:
                yield from self.cases(configuration, family, variant, found)

    def cases(self, configuration, family, variant, found):
        """A variant in one configuration, in its modes."""
        options = self.config.option
        if not matrix.runs_in(configuration, found) or self.is_left_out(configuration, family):
            return
        # Neighbours alone use no network.
        if 1 < configuration.size >= max(counts(options, found)):
            return
        key = self.path.stem + (f"_{variant}" if variant else "")
        modes = matrix.modes_of(configuration, family, found, key, options.modes.split(), bool(options.slice))
        for mode in modes:
            name = f"{configuration}:{mode}" + (f":{variant}" if variant else "")
            if options.providers:
                for provider in libfabrics.providers(options.providers):
                    yield self.over(provider, name, (configuration, family, mode), found)
                continue
            every = not options.slice and not options.part
            always = every or (matrix.is_first(configuration, found) and mode == modes[-1])
            one_in = configuration.one_in if options.slice else 4
            if always or matrix.chance(options.slice or options.part, f"{family}/{key} {name}", one_in):
                for mpi in mpis.of(configuration.conduit, options.mpi):
                    own = f"{name}:{mpi.name}" if options.mpi else name
                    yield Program.from_parent(self, name=own, where=(configuration, family, mode), found=found, mpi=mpi)

    def over(self, provider, name, where, found):
        """A variant over a provider of libfabric."""
        name = f"{name}:{provider.name}"
        if provider.missing:
            return Reason.from_parent(self, name=name, reason=provider.missing)
        found = {**found, "ENV": f"{found.get('ENV', '')} {provider.words}"}
        return Program.from_parent(self, name=name, where=where, found=found)

    def is_left_out(self, configuration, family):
        """Networks in a slice; tools, which know neither segments nor the universal library."""
        if self.config.option.slice and configuration.conduit in matrix.NETWORKS:
            return family not in matrix.NETWORK_FAMILIES
        return family == "tools" and (configuration.segment != "fast" or configuration.conduit == "any")


class Reason(pytest.Item):
    """A program that is not run, and the reason."""

    def __init__(self, *, reason, **others):
        super().__init__(**others)
        self.reason = reason

    def runtest(self):
        pytest.skip(self.reason)


class Program(pytest.Item):
    """A program in one configuration and mode, started by an MPI or by itself."""

    def __init__(self, *, where, found, mpi=None, **others):
        super().__init__(**others)
        (self.configuration, self.family, self.mode), self.found, self.mpi = where, found, mpi
        self.undersubscribed = self.family == BY_CORES and matrix.number(self.nodeid) % 2 == 0
        if self.undersubscribed:
            self.user_properties.append(("cores", "64"))

    def counts(self):
        """Rank counts. A slice has two of them in the less important configurations."""
        if self.mode.startswith("tools-"):
            return [1]
        every, seed = counts(self.config.option, self.found), self.config.option.slice
        if not seed or len(every) < 3 or matrix.is_first(self.configuration, self.found):
            return every
        with_network = [count for count in every if count > max(self.configuration.size, 1)]
        chosen = with_network if len(with_network) > 1 else every
        return sorted(sorted(chosen, key=lambda count: matrix.number(f"{seed}/{self.nodeid} {count}"))[:2])

    def runtest(self):
        """Compiles, and runs with every count."""
        missing = jobs.missing(self.configuration.conduit)
        if missing:
            pytest.skip(missing)
        folder = tempfile.mkdtemp(dir=os.environ[jobs.FOLDER])
        os.chmod(folder, 0o755)
        try:
            binary = self.compile(folder)
            passed, problems, skipped = [], [], ""
            for count in self.counts():
                result = self.run(binary, count)
                if result.status == 77:
                    skipped = ([line for line in result.output.splitlines() if line.strip()] or ["no reason given"])[-1]
                elif problem := problem_of(result):
                    shown = indented(result.output, 15 if result.status is not None else 200)
                    problems.append(f"np={count}: {problem}\n{shown}")
                else:
                    passed.append(str(count))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.user_properties.append(("np", ",".join(passed)))
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)
        if skipped and not passed:
            pytest.skip(skipped)

    def compile(self, folder):
        """The program's file."""
        options, binary = self.config.option, os.path.join(folder, self.path.stem)
        flags = [*jobs.WARNINGS, f"-I{TESTS}/common", f"-I{self.path.parent}", *self.found.get("FLAGS", "").split()]
        built, messages = jobs.Installation(self.configuration.prefix).compile(
            [str(self.path)],
            binary,
            self.configuration.conduit,
            self.mode,
            flags + options.flags.split(),
            options.flags.split(),
            cxx=self.path.suffix == ".cc" or self.found.get("LANGUAGE") == "c++",
        )
        if not built:
            pytest.fail(f"does not compile\n{indented(messages, 12)}", pytrace=False)
        return binary

    def run(self, binary, count):
        """One job."""
        options, size = self.config.option, str(self.configuration.size)
        environment = {} if self.mode.startswith("tools-") else {"GASNET_PSHM_NODES": str(count)}
        if self.mpi:
            environment = self.mpi.environment()
        if self.configuration.size:
            environment["GASNET_SUPERNODE_MAXSIZE"] = size
        if self.undersubscribed:
            environment["GASNET_HOST_CORES"] = "64"
        timeout = float(self.found.get("TIMEOUT", "60")) * options.timeout_factor
        environment["TEST_WATCHDOG"] = str(max(5, int(timeout) - 5))
        work = os.environ[jobs.FOLDER]
        if jobs.wants_stand_ins(self.found):
            environment.update(jobs.stand_ins(os.path.join(work, "devices", "all")))
        environment.update(word.split("=", 1) for word in f"{self.found.get('ENV', '')} {options.env}".split())
        if self.configuration.size and environment["GASNET_SUPERNODE_MAXSIZE"] == size:
            environment["TEST_NBRHD_MOST"] = size
        network = jobs.emulated(self.configuration.conduit, os.path.join(work, "emulators"), options.emulator.split())
        starter = [*network, *(self.mpi.start(count) if self.mpi else [])]
        command = [*starter, *options.wrapper.split(), binary, *self.found.get("ARGS", "").split()]
        as_root = "ROOT" in self.found and matrix.chance("root", f"{self.nodeid} {count}", 4)
        needed = [environment.get("GASNET_OFI_LIBRARY"), self.mpi and self.mpi.package and self.mpi.folder]
        is_private = any(path and jobs.is_private(path) for path in needed)
        return jobs.run(command, timeout, environment, unprivileged=not (as_root or is_private))

    def reportinfo(self):
        return self.path, None, self.name


def problem_of(result):
    """Reason why the end of a job is no success; empty: it is one."""
    if result.status == 0 and not result.leftovers:
        return ""
    why = "out of time" if result.status is None else f"exit status {result.status}"
    return why + (", left behind: " + ", ".join(result.leftovers) if result.leftovers else "")


def indented(text, limit):
    """The last lines of a text."""
    return "\n".join("    " + line for line in text.splitlines()[-limit:])
