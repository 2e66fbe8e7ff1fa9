#!/usr/bin/env python3
"""How jobs start and end, and what they bear: every spawner, and networks that fail, over several
hosts made by scripts/cluster (root and the packages of `scripts/setup.sh cluster`; without them
each kind of hosts is one SKIP). One line per test: PASS, FAIL or SKIP. docs/testing.md has the
matrix.

    scripts/check/launch.py --release PREFIX [--debug PREFIX] [--quick] [--only WORD]... [--conduits
    udp,ofi,any,smp,ibv,gni,elan] [--list]

The release flavour of udp makes all tests, that of ofi those that are about it, and the others a
part (--all: all). ibv, gni and elan run on emulators, so only on one host. --only takes tests whose
name has the word.
"""

import argparse
import os
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
SCRIPTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [f"{SCRIPTS}/check", f"{SCRIPTS}/cluster", f"{SCRIPTS}/launch"]
import custom  # noqa: E402,F401  (the modules of scripts/launch register their tests)
import ends  # noqa: E402,F401
import errors  # noqa: E402,F401
import fabric  # noqa: E402,F401
import faults  # noqa: E402,F401
import flood  # noqa: E402,F401
import intruders  # noqa: E402,F401
import jobs  # noqa: E402  (found through the line above)
import managers  # noqa: E402,F401
import mutations  # noqa: E402,F401
import places  # noqa: E402,F401
import safety  # noqa: E402,F401
from bed import Bed, Program, Skip, Wrong  # noqa: E402
from cases import ALL, CASES, KINDS, NETWORKED, ONE_HOST  # noqa: E402
from processes import Unavailable  # noqa: E402

SOURCE = f"{SCRIPTS}/../gasnet-compat-tests/launch/launch_place.c"


class Report:
    """Prints and counts."""

    def __init__(self):
        self.failed = 0

    def __call__(self, verdict, name, why=""):
        self.failed += verdict == "FAIL"
        why = re.sub(r"\s+", " ", why)
        print(f"{verdict} launch: {name}{' ' + why if why else ''}", flush=True)


def build(options, folder, report):
    """The programs, by flavour and conduit."""
    programs = []
    for flavour, prefix in (("release", options.release), ("debug", options.debug)):
        installation = jobs.Installation(prefix) if prefix else None
        # Other users cannot execute what lies in somebody's home.
        reachable = f"{folder}/{flavour}"
        if prefix:
            shutil.copytree(f"{prefix}/bin", f"{reachable}/bin", symlinks=True)
        for conduit in options.conduits.split(",") if prefix else ():
            if not installation.has(conduit):
                # Of the debug flavour a quick check has a few.
                if flavour == "release" or not options.quick:
                    report("SKIP", f"{flavour} {conduit}", f"{prefix} has no such conduit")
                continue
            why = jobs.missing(conduit)
            if why:
                report("SKIP", f"{flavour} {conduit}", why)
                continue
            place = f"{folder}/{flavour}-{conduit}"
            os.mkdir(place)
            path = f"{place}/launch_place"
            done, messages = installation.compile([SOURCE], path, conduit, "seq", ["-Wall", "-Wextra", "-Werror"])
            if done:
                network = jobs.emulated(conduit, f"{folder}/emulators")
                programs.append(Program(installation, reachable, flavour, conduit, path, network))
            else:
                report("FAIL", f"{flavour} {conduit}", f"the program does not compile: {messages[-500:]}")
    return programs


def chosen(options, programs):
    """What to do: [(kind, [(program, case)])], so that each kind of hosts is made once."""
    plan = {}
    for program in programs:
        first = program is programs[0] or program.conduit == "smp"
        first_of_conduit = program is next(p for p in programs if p.conduit == program.conduit)
        for case in CASES:
            # Not of every conduit with a network.
            own = first_of_conduit and case.conduits not in (NETWORKED, ALL)
            name = f"{case.name} ({program.conduit} {program.flavour})"
            wanted = program.conduit in case.conduits and (
                case.quick or (not options.quick and (first or own or options.all))
            )
            if options.quick and not (first or own or (case.kind == "one" and program.conduit in ("any", "udp"))):
                wanted = False
            if options.only:
                wanted = program.conduit in case.conduits and any(word in name for word in options.only)
            if program.conduit in ONE_HOST and case.kind != "one":
                wanted = False
            if wanted:
                plan.setdefault(case.kind, []).append((program, case))
    return plan


def perform(bed, program, case, report, times):
    """One test on hosts that are there."""
    bed.program = program
    name = f"{case.name} ({program.conduit} {program.flavour})"
    started = time.monotonic()
    try:
        case.function(bed)
        report("PASS", name)
    except Wrong as wrong:
        report("FAIL", name, str(wrong))
    except (Skip, Unavailable) as skip:
        report("SKIP", name, str(skip))
    if times:
        print(f"     {time.monotonic() - started:.1f} s", flush=True)
    bed.hosts.sweep()


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", help="an installation")
    parser.add_argument("--debug", help="one of the debug flavour")
    parser.add_argument(
        "--conduits",
        default="udp,ofi,any,smp,ibv,gni,elan",
        help="conduits to test (udp,ofi,any,smp,ibv,gni,elan)",
    )
    parser.add_argument("--quick", action="store_true", help="the tests that every check makes")
    parser.add_argument("--all", action="store_true", help="every test with every program")
    parser.add_argument("--only", action="append", metavar="WORD", help="tests whose name has this")
    parser.add_argument("--times", action="store_true", help="tell how long each took")
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    options = parser.parse_args()
    if options.list:
        for case in CASES:
            print(f"{case.name} [{case.kind}{', quick' if case.quick else ''}]")
        return 0
    if not (options.release or options.debug):
        parser.error("--release or --debug is needed")
    for prefix in filter(None, (options.release, options.debug)):
        if not os.path.exists(f"{prefix}/include/gasnetex.h"):
            parser.error(f"no libgasnet is installed in '{prefix}'")
    for conduit in options.conduits.split(","):
        if conduit not in ALL:
            parser.error(f"there is no conduit '{conduit}'; known: {', '.join(ALL)}")
    for name in [
        n for n in os.environ if n.startswith(("GASNET_", "PMI", "SLURM_", "OMPI_", "SSH_", "AMUDP_", "MPIRUN_"))
    ]:
        if name != jobs.MARK:
            del os.environ[name]
    # So that nothing is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = Report()
    with jobs.scratch() as folder:
        programs = build(options, folder, report)
        plan = chosen(options, programs) if programs else {}
        if programs and options.only and not plan:
            parser.error(f"no test of these conduits has {' or '.join(options.only)} in its name; --list prints all")
        for kind, tests in plan.items():
            groups = [[test] for test in tests] if kind == "fresh" else [tests]
            for group in groups:
                try:
                    with Bed(**KINDS[kind]) as bed:
                        bed.thorough = not options.quick
                        for program, case in group:
                            perform(bed, program, case, report, options.times)
                except Unavailable as why:
                    report("SKIP", f'{len(group)} tests on hosts of the kind "{kind}"', str(why))
                except RuntimeError as why:
                    report("FAIL", f'hosts of the kind "{kind}"', str(why))
    return int(report.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
