#!/usr/bin/env python3
"""clients.py SOURCES [--only NAME...] [--conduits CONDUIT...] [--ranks N...] [--prefix FOLDER]
[--work FOLDER]: builds and tests clients by the recipes of docs/clients.md, as they stand there,
and prints a table. SOURCES has a folder of unpacked sources for each client, with the first word of
its heading as its name: upcxx, legion, caffeine. Those that are missing are skipped.

A recipe is two blocks marked bash, which build and test. They take the variables CONDUIT and RANKS;
/opt/gasnet stands for the prefix, /path/to/libgasnet for this tree. Without $CONDUIT in the first
block one build serves all conduits. Each configuration runs in one neighbourhood and in
neighbourhoods of one rank. Output is in WORK/CLIENT-*.log."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from commands import ROOT

PAGE = ROOT / "docs" / "clients.md"
EMULATORS = {"ibv": "verbs", "gni": "ugni", "elan": "elan"}
# Seconds for a build, and for the tests of a configuration.
TIMEOUT = 5400
# Jobs start on this host.
HERE = {"GASNET_SPAWNFN": "L", "GASNET_SPAWNER": "fork"}


def recipes(text):
    """{name: [block that builds, block that tests]} of a page."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        name = section.split()[0].lower().replace("+", "x")
        blocks = re.findall(r"^```bash\n(.*?)^```", section, flags=re.M | re.S)
        if blocks:
            if len(blocks) != 2:
                sys.exit(f"clients: the recipe of {name} has {len(blocks)} blocks marked bash; two are expected")
            found[name] = blocks
    return found


def summary(log):
    """The last line of an output that counts tests."""
    counts = r"\d+ of \d+|\d+% tests passed|(PASSED|FAILED) running|\bpassed\b"
    lines = [line.strip(" _-*") for line in log.read_text(errors="replace").splitlines() if re.search(counts, line)]
    return lines[-1] if lines else ""


def run(block, folder, log, env, emulator=None):
    """Runs a block, and returns its exit status and its seconds."""
    command = ["bash", "-euc", block]
    if emulator:
        command = [f"{ROOT}/scripts/with-emulator", emulator, *command]
    begun = time.monotonic()
    with open(log, "w", encoding="utf-8") as output:
        status = subprocess.run(
            ["timeout", "--kill-after=30", str(TIMEOUT), *command],
            cwd=folder,
            env={**os.environ, **HERE, **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        ).returncode
    return status, round(time.monotonic() - begun)


def configurations(name, blocks, options):
    """A row of the table for each configuration of a client."""
    build, test = blocks
    for conduit in options.conduits:
        env = {"CONDUIT": conduit, "RANKS": str(options.ranks[0])}
        label = f"{name}-{conduit}" if "CONDUIT" in build else name
        folder, built = options.work / label, options.work / f"{label}.built"
        if not built.exists():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(options.sources / name, folder, symlinks=True)
            status, seconds = run(build, folder, options.work / f"{label}-build.log", env)
            yield name, conduit, "", "", "built" if status == 0 else f"build failed: {status}", seconds, status == 0
            if status:
                continue
            built.touch()
        for ranks in options.ranks:
            for alone in "", "1":
                env = {"CONDUIT": conduit, "RANKS": str(ranks), **({"GASNET_SUPERNODE_MAXSIZE": "1"} if alone else {})}
                if alone and conduit == "smp":
                    continue
                log = options.work / f"{name}-{conduit}-{ranks}{'-alone' if alone else ''}.log"
                status, seconds = run(test, folder, log, env, EMULATORS.get(conduit))
                result = summary(log) or "no count"
                yield (
                    name,
                    conduit,
                    ranks,
                    alone,
                    result if status == 0 else f"exit status {status}: {result}",
                    seconds,
                    status == 0,
                )


def main():
    """Prints the table. Exits with 1 if something failed, or nothing ran."""
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--conduits", nargs="*", default=["smp", "udp"])
    parser.add_argument("--ranks", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    for conduit in options.conduits:
        if not (options.prefix / "lib/pkgconfig" / f"gasnet-{conduit}-par.pc").exists():
            sys.exit(f"clients: {options.prefix} has no gasnet-{conduit}-par (make install PREFIX=…)")
    text = PAGE.read_text(encoding="utf-8")
    known = recipes(text.replace("/opt/gasnet", str(options.prefix)).replace("/path/to/libgasnet", str(ROOT)))
    for name in options.only:
        if name not in known:
            sys.exit(f"clients: docs/clients.md has no recipe of '{name}'; it has {', '.join(known)}")
    chosen = options.only or [name for name in known if (options.sources / name).is_dir()]
    if not chosen:
        sys.exit(f"clients: {options.sources} has no folder named {', '.join(known)}")
    options.work.mkdir(parents=True, exist_ok=True)
    print("| client | conduit | ranks | nbrhd | result | s |\n|---|---|---|---|---|---|", flush=True)
    failed = 0
    for name in chosen:
        if not (options.sources / name).is_dir():
            sys.exit(f"clients: there is no {options.sources / name}")
        for *row, is_right in configurations(name, known[name], options):
            print("| " + " | ".join(map(str, row)) + " |", flush=True)
            failed += not is_right
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
