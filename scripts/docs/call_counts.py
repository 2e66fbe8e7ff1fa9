#!/usr/bin/env python3
"""Finds out which functions each program of gasnet-compat-tests calls: runs all of them against the
shared library of a debug installation (there nothing is inlined away) under the audit module
call-audit.c, and writes lines "symbol program" to a file for `api-table.sh --calls`. A program that
fails is named and left out; those that a script runs count as far as they work alone."""

import argparse
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts", "check"))
import jobs  # noqa: E402  (found through the line above)

TESTS = os.path.join(ROOT, "gasnet-compat-tests")


def sources():
    """(family, file) of every program."""
    for family in sorted(os.listdir(TESTS)):
        folder = os.path.join(TESTS, family)
        if family in ("common", "headers") or not os.path.isdir(folder):
            continue
        for name in sorted(os.listdir(folder)):
            if name.endswith((".c", ".cc")):
                yield family, name


def audit(installation, family, source, module, counts, work, devices):
    """Compiles and runs one program; returns why it cannot be counted, or nothing."""
    path = os.path.join(TESTS, family, source)
    found = jobs.directives(path)
    if "debug" not in found.get("FLAVOURS", "debug").split() or "smp" not in found.get("CONDUITS", "smp").split():
        return "not for this library"
    modes = found.get("MODES", "par").split()
    mode = "par" if "par" in modes else modes[0]
    if family == "tools":
        mode = "tools-par" if mode == "par" else "tools-seq"
    ranks = [int(n) for n in found.get("NP", "1 2 4").split()]
    count = min((n for n in ranks if n >= 2), default=ranks[0])
    name = os.path.splitext(source)[0]
    binary = os.path.join(work, name)
    shared = [
        f"-L{installation.prefix}/lib/gasnet-shared",
        f"-Wl,-rpath,{installation.prefix}/lib",
        "-Wl,-z,lazy",
        "-fplt",
    ]
    flags = [*shared, "-w", f"-I{TESTS}/common", f"-I{TESTS}/{family}"] + found.get("FLAGS", "").split()
    built, messages = installation.compile([path], binary, "smp", mode, flags)
    if not built:
        return "does not compile: " + (messages.splitlines() or ["?"])[0]
    environment = {
        "GASNET_PSHM_NODES": str(count),
        "LD_AUDIT": module,
        "GASNET_CALL_COUNTS": counts,
        "GASNET_CALL_PROGRAM": name,
    }
    environment.update(devices if jobs.wants_stand_ins(found) else {})
    environment.update(word.split("=", 1) for word in found.get("ENV", "").split())
    result = jobs.run([binary] + found.get("ARGS", "").split(), float(found.get("TIMEOUT", "60")) * 2, environment)
    return None if result.status in (0, 77) else f"exit status {result.status}"


def main():
    """Writes the file; exit status 1 when a program could not be counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", required=True, help="debug installation")
    parser.add_argument("--out", required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--programs", default="", help="only these (names without suffix)")
    options = parser.parse_args()
    installation = jobs.Installation(options.prefix)
    wanted = options.programs.split()
    failed = set()
    with jobs.scratch() as work:
        module, counts = f"{work}/audit.so", f"{work}/counts"
        subprocess.run(
            [options.cc, "-shared", "-fPIC", "-O2", "-o", module, f"{ROOT}/scripts/docs/call-audit.c"], check=True
        )
        with open(counts, "w"):
            os.chmod(counts, 0o666)
        devices = jobs.stand_ins(f"{work}/devices")
        for family, source in sources():
            if wanted and os.path.splitext(source)[0] not in wanted:
                continue
            why = audit(installation, family, source, module, counts, work, devices)
            if why:
                print(f"{family}/{source}: {why}", flush=True)
                if "not for" not in why and not os.path.exists(os.path.join(TESTS, family, "run.sh")):
                    failed.add(os.path.splitext(source)[0])
        with open(counts) as file, open(options.out, "w") as out:
            out.writelines(line for line in sorted(set(file)) if line.split()[1] not in failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
