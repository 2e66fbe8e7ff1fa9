"""The matrix of gasnet-compat-tests: installations, conduits, sizes of neighbourhoods and thread
modes, and the part of it that a quick check takes (`--slice`)."""

import difflib
import hashlib
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import jobs

MODES = ("seq", "parsync", "par")
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
# A slice runs over these only the families whose calls use the network.
NETWORKS = ("ibv", "gni", "elan", "ucx", "ofi", "mpi")
NETWORK_FAMILIES = ("am", "rma", "atomic", "vis", "event", "coll")
# Jobs of these can be on several hosts.
SEVERAL_HOSTS = ("ibv", "gni", "elan", "ucx", "ofi", "udp", "mpi", "any")
# Release programs cover neighbourhoods of two; this configuration is for those that need the debug
# flavour.
ONLY_DEBUG = ("debug", "sock", 2)


class Unknown(Exception):
    """A word of the command line that names nothing."""


def known(what, word, names):
    """Refuses a word that is none of these names: a run of no program would look like a success."""
    if word not in names:
        few = len(names) <= 20
        close = sorted(names) if few else difflib.get_close_matches(word, names, 3) or sorted(names)[:20]
        raise Unknown(f"there is no {what} '{word}'; known: {', '.join(close)}{'' if few else ' and others'}")


def number(text):
    """A number that looks random, the same one for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def chance(seed, key, one_in):
    """True for one in `one_in` keys, the same ones for the same seed."""
    return number(f"{seed}/{key}") % one_in == 0


@dataclass(frozen=True)
class Configuration:
    """An installed library and the size of its neighbourhoods (0: all ranks are neighbours). Of the
    less important ones a slice takes one case in `one_in`."""

    flavour: str
    prefix: str = field(repr=False)
    conduit: str
    size: int
    one_in: int = field(default=1, compare=False)

    def __str__(self):
        return f"{self.flavour}:{self.conduit}:{self.size}"

    @property
    def build(self):
        """release or debug."""
        return self.flavour.partition("-")[0]

    @property
    def segment(self):
        """fast, large or everything."""
        return self.flavour.partition("-")[2] or "fast"


def installations(words):
    """The prefixes by flavour, with a segment configuration other than FAST after a dash
    (release-large), from words `flavour=prefix`; by default those that the step `build` made."""
    if words:
        if unfit := [word for word in words if "=" not in word]:
            raise Unknown(f"--library {unfit[0]}: not flavour=prefix")
        found = dict(word.split("=", 1) for word in words)
    else:
        stages = Path(os.environ.get("BUILD") or f"{jobs.ROOT}/build").glob("stage-*")
        found = {stage.name.removeprefix("stage-"): str(stage) for stage in sorted(stages)}
    for name, prefix in found.items():
        known("flavour", name, [f"{f}{s}" for f in ("release", "debug") for s in ("", "-large", "-everything")])
        if not os.path.exists(f"{prefix}/include/gasnetex.h"):
            raise Unknown(f"{name}: no libgasnet is installed in '{prefix}'")
    if not found:
        raise Unknown("no library is built; name one: --library release=PREFIX")
    return {name: os.path.abspath(prefix) for name, prefix in found.items()}


def conduits():
    """The conduits of this release."""
    command = [f"{jobs.ROOT}/scripts/build/conduits.sh", "--all"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def table(installed):
    """(flavour, conduit, size, one in how many cases a slice takes)."""
    rows = [("release", "smp", 0, 14), ("debug", "smp", 0, 14), (*ONLY_DEBUG, 28)]
    # Every network, except loop, which is slow and for tests only.
    for conduit in conduits():
        rare = 3 if conduit == "loop" else 1
        if conduit != "smp":
            rows += [
                ("release", conduit, 1, 20 * rare),
                ("release", conduit, 2, 34 * rare),
                ("debug", conduit, 1, 34 * rare),
            ]
    # The universal library, which takes smp where it can.
    rows += [("release", "any", 0, 56), ("release", "any", 2, 56), ("debug", "any", 1, 84)]
    for name in installed:
        if "-" in name:
            rows += [(name, "smp", 0, 28), (name, "sock", 1, 28)]
            rows += [(name, "udp", 1, 42), (name, "ibv", 1, 56)] if name.startswith("release") else []
            # Its NIC reaches all memory.
            rows += [(name, "elan", 1, 56)] if name == "release-everything" else []
    return rows


def configurations(installed, wanted=()):
    """Those of the table that are installed; or these, `flavour:conduit:size`, in the table or
    not."""
    rows = table(installed)
    if wanted:
        there = {f"{flavour}:{conduit}:{size}": one_in for flavour, conduit, size, one_in in rows}
        rows = []
        for word in wanted:
            parts = word.split(":")
            if len(parts) != 3 or not parts[2].isdigit():
                raise Unknown(f"'{word}' is not flavour:conduit:size")
            flavour, conduit, size = parts
            known("installation of flavour", flavour, installed)
            names = [name for name in [*conduits(), "any"] if jobs.Installation(installed[flavour]).has(name)]
            known(f"conduit in '{installed[flavour]}',", conduit, names)
            rows.append((flavour, conduit, int(size), there.get(word, 1)))
    return [
        Configuration(flavour, installed[flavour], conduit, size, one_in)
        for flavour, conduit, size, one_in in rows
        if flavour in installed and jobs.Installation(installed[flavour]).has(conduit)
    ]


def modes_of(configuration, family, found, key, wanted, in_part):
    """The thread modes in which a program with these directives runs; `wanted`: only these;
    `in_part`: for a slice."""
    modes = [mode for mode in MODES if mode in found.get("MODES", mode).split() and mode in (wanted or MODES)]
    if family == "tools":
        modes = [f"tools-{mode}" for mode in modes if mode != "parsync" and configuration.conduit == "smp"]
    every = EVERY_MODE[:1] if family == "stress" else EVERY_MODE
    where = (configuration.flavour, configuration.conduit)
    if not modes or wanted or in_part or (where in every and configuration.size < 2):
        return modes
    return [modes[number(f"{key} {configuration}") % len(modes)]]


def runs_in(configuration, found):
    """Whether a program with these directives runs in a configuration."""
    flavours = found.get("FLAVOURS", "release debug").split()
    where = (configuration.flavour, configuration.conduit, configuration.size)
    return (
        configuration.build in flavours
        and configuration.conduit in found.get("CONDUITS", configuration.conduit).split()
        and configuration.segment in found.get("SEGMENTS", configuration.segment).split()
        and not (where == ONLY_DEBUG and "release" in flavours)
    )


def is_first(configuration, found):
    """Whether this is the configuration that a slice always has: release on smp, in the program's
    own segment configuration, or FAST."""
    own = found.get("SEGMENTS", "fast").split()
    where = (configuration.build, configuration.segment, configuration.conduit)
    return where == ("release", "fast" if "fast" in own else own[0], "smp")
