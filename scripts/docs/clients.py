#!/usr/bin/env python3
"""clients.py SOURCES [--only NAME...] [--conduits CONDUIT...] [--ranks N...] [--prefix FOLDER]
[--work FOLDER] [--reference] [--write] [--page FILE]: builds and tests clients by the recipes of
docs/clients.md, as they stand there, and prints the page's table by network. --write puts the cells
into the page, and keeps those of other runs. --reference names the rows after the reference, if the
prefix is one of it. SOURCES has a folder of unpacked sources for each client, with the first word
of its heading as its name: upcxx, legion, caffeine. Those that are missing are skipped.

A recipe is two blocks marked bash, which build and test. They take the variables CONDUIT and RANKS;
/opt/gasnet stands for the prefix, /path/to/libgasnet for this tree. Without $CONDUIT in the first
block one build serves all conduits. Each configuration runs in one neighbourhood and in
neighbourhoods of one rank; over ibv, gni and elan on an emulator, unless the machine has the
devices. Output is in WORK/CLIENT-*.log."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from commands import ROOT

EMULATORS = {"ibv": "verbs", "gni": "ugni", "elan": "elan"}
DEVICES = {"ibv": "/sys/class/infiniband"}
# Seconds for a build, and for the tests of a configuration.
TIMEOUT = 5400
BEGIN, END = "<!-- networks: written by scripts/docs/clients.py -->", "<!-- end of networks -->"
NETWORKS = ["smp", "udp", "ofi", "ibv", "ucx", "mpi"]
NO_COUNT = "no count"
# Counts of all tests, in the last line that has one.
COUNTS = [
    (r"\d+% tests passed, (\d+) tests failed out of (\d+)", lambda failed, of: f"{int(of) - int(failed)} of {of}"),
    (r"_ (\d+) of (\d+) tests passed\. (\d+) tests were skipped", lambda n, of, skipped: of_all(n, of, skipped)),
    (r"PASSED running (\d+) tests", lambda of: f"{of} of {of}"),
]


def of_all(passed, tests, skipped):
    """Counts of a suite that skips tests."""
    return f"{passed} of {tests}" + (f" and {skipped} skipped" if skipped != "0" else "")


def recipes(text):
    """{name: [title, block that builds, block that tests]} of a page."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        name = section.split()[0].lower().replace("+", "x")
        blocks = re.findall(r"^```bash\n(.*?)^```", section, flags=re.M | re.S)
        if blocks:
            if len(blocks) != 2:
                sys.exit(f"clients: the recipe of {name} has {len(blocks)} blocks marked bash; two are expected")
            found[name] = [section.split("\n", 1)[0], *blocks]
    return found


def summary(log):
    """What the output of tests counts last."""
    for line in reversed(log.read_text(errors="replace").splitlines()):
        for pattern, words in COUNTS:
            match = re.search(pattern, line)
            if match:
                return words(*match.groups())
    return NO_COUNT


def emulator_of(conduit):
    """The emulator that a conduit needs on this machine, if any."""
    devices = Path(DEVICES.get(conduit, "/none"))
    return None if devices.is_dir() and any(devices.iterdir()) else EMULATORS.get(conduit)


def run(block, folder, log, env, emulator=None):
    """Runs a block, and returns its exit status and its seconds."""
    # Jobs start on this host; those of mpi by mpiexec.
    here = {} if env["CONDUIT"] == "mpi" else {"GASNET_SPAWNFN": "L", "GASNET_SPAWNER": "fork"}
    command = ["bash", "-euc", block]
    if emulator:
        command = [f"{ROOT}/scripts/with-emulator", emulator, *command]
    begun = time.monotonic()
    with open(log, "w", encoding="utf-8") as output:
        status = subprocess.run(
            ["timeout", "--kill-after=30", str(TIMEOUT), *command],
            cwd=folder,
            env={**os.environ, **here, **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        ).returncode
    return status, round(time.monotonic() - begun)


def built(name, block, conduit, options):
    """The folder in which a client is built for a conduit, or None if the build fails."""
    label = f"{name}-{conduit}" if "CONDUIT" in block else name
    folder, mark = options.work / label, options.work / f"{label}.built"
    if not mark.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(options.sources / name, folder, symlinks=True)
        env = {"CONDUIT": conduit, "RANKS": str(options.ranks[0])}
        status, seconds = run(block, folder, options.work / f"{label}-build.log", env)
        progress(f"{label}: {'built' if status == 0 else f'build failed with {status}'}, {seconds} s")
        if status:
            return None
        mark.touch()
    return folder


def configurations(conduits, ranks):
    """(conduit, ranks, whether in neighbourhoods of one)"""
    for conduit in conduits:
        for number in ranks:
            yield conduit, number, False
            if conduit != "smp":
                yield conduit, number, True


def cells(name, recipe, options):
    """(row, conduit, cell, whether it passed) for each configuration of a client."""
    title, build, test = recipe
    folders = {}
    for conduit, ranks, alone in configurations(options.conduits, options.ranks):
        row = f"{title}, {ranks} ranks" + ", nbrhd 1" * alone + ", reference" * options.reference
        if conduit not in folders:
            folders[conduit] = built(name, build, conduit, options)
        folder = folders[conduit]
        if folder is None:
            yield row, conduit, "does not build", False
            continue
        env = {"CONDUIT": conduit, "RANKS": str(ranks), **({"GASNET_SUPERNODE_MAXSIZE": "1"} if alone else {})}
        log = options.work / f"{name}-{conduit}-{ranks}{'-alone' if alone else ''}.log"
        status, seconds = run(test, folder, log, env, emulator_of(conduit))
        count = summary(log)
        is_right = status == 0 and count != NO_COUNT
        yield row, conduit, f"{count}{f', status {status}' if status else ''}; {seconds} s", is_right


def progress(line):
    """Reports a step on standard error."""
    print(f"clients: {line}", file=sys.stderr, flush=True)


def rows_of(text):
    """{row: {conduit: cell}} of the page's table."""
    lines = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("|")]
    if not lines:
        return {}
    return {first: dict(zip(lines[0][1:], rest)) for first, *rest in lines[2:]}


def table(rows):
    """The table of the page."""
    others = sorted({conduit for cells_of in rows.values() for conduit in cells_of} - set(NETWORKS))
    columns = NETWORKS + others
    lines = ["| client | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for row, cells_of in rows.items():
        lines.append(f"| {row} | " + " | ".join(cells_of.get(column, "–") for column in columns) + " |")
    return "\n".join(lines) + "\n"


def merged(text, new):
    """The page with cells put into its table."""
    before, old, after = re.fullmatch(f"(.*{BEGIN}\n)(.*)({END}.*)", text, flags=re.S).groups()
    rows = rows_of(old)
    for row, cells_of in new.items():
        rows.setdefault(row, {}).update(cells_of)
    return before + "\n" + table(dict(sorted(rows.items()))) + "\n" + after


def read_options():
    """The command line."""
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--conduits", nargs="*", default=["smp", "udp"])
    parser.add_argument("--ranks", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "clients.md")
    return parser.parse_args()


def main():
    """Prints the table. Exits with 1 if something failed, or nothing ran."""
    options = read_options()
    for conduit in options.conduits:
        if not (options.prefix / "lib/pkgconfig" / f"gasnet-{conduit}-par.pc").exists():
            sys.exit(f"clients: {options.prefix} has no gasnet-{conduit}-par (make install PREFIX=…)")
    text = options.page.read_text(encoding="utf-8")
    known = recipes(text.replace("/opt/gasnet", str(options.prefix)).replace("/path/to/libgasnet", str(ROOT)))
    for name in options.only:
        if name not in known:
            sys.exit(f"clients: {options.page} has no recipe of '{name}'; it has {', '.join(known)}")
        if not (options.sources / name).is_dir():
            sys.exit(f"clients: there is no {options.sources / name}")
    chosen = options.only or [name for name in known if (options.sources / name).is_dir()]
    if not chosen:
        sys.exit(f"clients: {options.sources} has no folder named {', '.join(known)}")
    options.work.mkdir(parents=True, exist_ok=True)
    rows, failed = {}, 0
    for name in chosen:
        for row, conduit, cell, is_right in cells(name, known[name], options):
            progress(f"{row}, {conduit}: {cell}")
            rows.setdefault(row, {})[conduit] = cell
            failed += not is_right
            if options.write:
                page = options.page.read_text(encoding="utf-8")
                options.page.write_text(merged(page, {row: {conduit: cell}}), encoding="utf-8")
    print(table(rows), end="")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
