"""The matrix of gasnet-compat-tests: families, flavours, conduits, thread modes; and the part of it
that a quick check takes. Words of a command line that name nothing are refused: a run of no program
would look like a success."""

import difflib
import hashlib
import os
import subprocess
from pathlib import Path

import jobs

TESTS = os.path.join(jobs.ROOT, "gasnet-compat-tests")
NOT_FAMILIES = ("common", "headers")


class Unknown(Exception):
    """A word of the command line that names nothing."""


def known(what, word, names):
    """Refuses a word that is none of these names."""
    if word not in names:
        close = difflib.get_close_matches(word, names, 3) or sorted(names)
        raise Unknown(f"there is no {what} '{word}'; known: {', '.join(close)}")


def families():
    """The folders of programs."""
    return sorted(d for d in os.listdir(TESTS) if os.path.isdir(os.path.join(TESTS, d)) and d not in NOT_FAMILIES)


def programs(family):
    """The sources of a family's programs."""
    return sorted(f for f in os.listdir(os.path.join(TESTS, family)) if f.endswith((".c", ".cc")))


def prefixes(options):
    """The installations by flavour, with a segment configuration other than FAST behind a dash."""
    found = {"release": options.release, "debug": options.debug}
    for word in options.other.split():
        name, _, found[name] = word.partition("=")
    return {name: prefix for name, prefix in found.items() if prefix}


def validate(options):
    """Refuses what names nothing: a run of no program would look like a success."""
    installed = prefixes(options)
    if not installed:
        raise Unknown("--release PREFIX or --debug PREFIX is needed")
    for name, prefix in installed.items():
        if not os.path.exists(f"{prefix}/include/gasnetex.h"):
            raise Unknown(f"{name}: no libgasnet is installed in '{prefix}'")
    for family in options.families.split():
        known("family", family, families())
    everything = [os.path.splitext(source)[0] for family in families() for source in programs(family)]
    for program in options.programs.split() + [word.partition("=")[0] for word in options.skip.split()]:
        known("program", program, everything)
    for mode in options.modes.split():
        known("thread mode", mode, MODES.split())
    for word in options.configurations.split():
        flavour, _, rest = word.partition(":")
        conduit, _, size = rest.partition(":")
        if not size.isdigit():
            raise Unknown(f"'{word}' is not flavour:conduit:maxsize")
        known("installation of flavour", flavour, installed)
        there = [name for name in [*conduits(), "any"] if jobs.Installation(installed[flavour]).has(name)]
        known(f"conduit in '{installed[flavour]}',", conduit, there)


def number(text):
    """A number that looks random, the same one for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def chance(seed, key, one_in):
    """True for one in `one_in` keys, the same ones for the same seed."""
    return number(f"{seed}/{key}") % one_in == 0


MODES = "seq parsync par"
# Here a complete matrix has every thread mode; elsewhere each program runs in one, over all
# programs in all of them. So do the stress programs, which take half of the time, but for the first
# of these.
EVERY_MODE = (
    ("release", "smp"),
    ("debug", "smp"),
    ("release", "sock"),
    ("release", "udp"),
    ("release", "ofi"),
    ("release", "ibv"),
    ("release", "gni"),
)

# A slice runs over these only: the families whose calls use the network.
NETWORKS = ("ibv", "gni", "elan", "ofi")
NETWORK_FAMILIES = ("am", "rma", "atomic", "vis", "event", "coll")

# Release programs cover neighbourhoods of two; this configuration is for those that need the debug
# flavour.
ONLY_DEBUG = ("debug", "sock", 2)


def modes_of(options, found, family, where, source):
    """The thread modes in which a program runs; `where`: flavour, conduit, neighbourhood size."""
    modes = (options.modes or MODES).split()
    if family == "tools":
        modes = ["tools-" + mode for mode in modes if mode != "parsync" and where[1] == "smp"]
    modes = [mode for mode in modes if mode in found.get("MODES", mode).split()]
    every = EVERY_MODE[:1] if family == "stress" else EVERY_MODE
    if not modes or options.modes or options.slice or (where[:2] in every and where[2] < 2):
        return modes
    return [modes[number(f"{source} {where}") % len(modes)]]


def conduits():
    """The conduits of this release."""
    command = [Path(__file__).resolve().parents[1] / "build/conduits.sh", "--all"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def configurations(options):
    """(flavour, prefix, conduit, maximum neighbourhood size, one in how many cases a slice
    takes)."""
    table = [
        ("release", "smp", 0, 10),
        ("debug", "smp", 0, 10),
        ("debug", "sock", 2, 20),
    ]
    # Every network. That of loop is slow, and nobody's.
    for conduit in conduits():
        rare = 3 if conduit == "loop" else 1
        if conduit != "smp":
            table += [
                ("release", conduit, 1, 14 * rare),
                ("release", conduit, 2, 24 * rare),
                ("debug", conduit, 1, 24 * rare),
            ]
    # The universal library, which takes smp where it can.
    table += [
        ("release", "any", 0, 40),
        ("release", "any", 2, 40),
        ("debug", "any", 1, 60),
    ]
    installed = prefixes(options)
    for name in installed:
        if "-" not in name:
            continue
        table += [(name, conduit, size, 20) for conduit, size in (("smp", 0), ("sock", 1))]
        table += [(name, "udp", 1, 30), (name, "ibv", 1, 40)] if name.startswith("release") else []
        # Its NIC reaches all memory.
        table += [(name, "elan", 1, 40)] if name == "release-everything" else []
    wanted = options.configurations.split()
    known = {f"{flavour}:{conduit}:{size}" for flavour, conduit, size, _ in table}
    for flavour, conduit, size in (word.split(":") for word in wanted if word not in known):
        table.append((flavour, conduit, int(size), 1))
    for flavour, conduit, size, one_in in table:
        prefix = installed.get(flavour, "")
        if wanted and f"{flavour}:{conduit}:{size}" not in wanted:
            continue
        if prefix and jobs.Installation(prefix).has(conduit):
            yield flavour, prefix, conduit, size, one_in


class Chosen:
    """The choice that these options make: `cases`, programs as (configuration, family, source,
    directives, thread mode, whether a slice has it always); `scripts`, as (family, flavour, prefix,
    conduit, size); and `skipped`, the lines about what cannot run."""

    def __init__(self, options):
        self.options = options
        self.cases, self.scripts, self.skipped = [], [], []
        self.not_here = dict(word.split("=", 1) for word in options.skip.split())
        for configuration in configurations(options):
            flavour, _, conduit, size, _ = configuration
            why = jobs.missing(conduit)
            if why:
                self.skipped.append(f"SKIP programs {flavour} {conduit}/{size} {why}")
                continue
            for family in options.families.split() or families():
                if options.slice and conduit in NETWORKS and family not in NETWORK_FAMILIES:
                    continue
                has_script = os.path.exists(os.path.join(TESTS, family, "run.sh"))
                if ("-" in flavour or conduit == "any") and (has_script or family == "tools"):
                    continue  # starts, ends and tools know no segments, and the conduit does not matter to them
                if has_script:
                    self.choose_script(configuration, family)
                elif not options.only_scripts:
                    self.choose_programs(configuration, family)

    def is_empty(self):
        """Whether nothing runs."""
        return not (self.cases or self.scripts or self.skipped)

    def choose_script(self, configuration, family):
        """A family's own script."""
        options = self.options
        flavour, prefix, conduit, size, one_in = configuration
        # Without /dev/shm there is no emulator either.
        if options.no_scripts or options.programs or (family == "environment" and conduit in jobs.EMULATORS):
            return
        always = not options.slice or (flavour, conduit) == ("release", "smp")
        if always or chance(options.slice, f"{family} {flavour} {conduit} {size}", one_in):
            self.scripts.append((family, flavour, prefix, conduit, size))

    def choose_programs(self, configuration, family):
        """The programs of a family."""
        options = self.options
        wanted = options.programs.split()
        for source in programs(family):
            name = os.path.splitext(source)[0]
            if wanted and name not in wanted:
                continue
            if options.sample and not chance(options.sample, f"{family}/{source}", 4):
                continue
            if name in self.not_here:
                self.skipped.append(f"SKIP {family}/{source} {self.not_here[name].replace('_', ' ')}")
                continue
            self.choose_modes(configuration, family, source)

    def choose_modes(self, configuration, family, source):
        """A program in its thread modes, if it runs in this configuration."""
        flavour, _, conduit, size, _ = configuration
        found = jobs.directives(os.path.join(TESTS, family, source))
        plain, _, segments = flavour.partition("-")
        segments = segments or "fast"
        flavours = found.get("FLAVOURS", "release debug").split()
        if (
            plain not in flavours
            or conduit not in found.get("CONDUITS", conduit).split()
            or segments not in found.get("SEGMENTS", segments).split()
            or ((flavour, conduit, size) == ONLY_DEBUG and "release" in flavours)
        ):
            return
        # In the release flavour on smp each program runs in one mode: that of its own segment
        # configuration, or FAST.
        own = found.get("SEGMENTS", "fast").split()
        first = (plain, segments, conduit) == ("release", "fast" if "fast" in own else own[0], "smp")
        modes = modes_of(self.options, found, family, (flavour, conduit, size), source)
        for mode in modes:
            self.cases.append((configuration, family, source, found, mode, first and mode == modes[-1]))
