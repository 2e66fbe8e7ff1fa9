"""Runs the cases of the programs in this folder: each must end badly and say why, and leave nothing
behind. See run.sh and misuse.h."""

import fnmatch
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
import jobtest  # noqa: E402  (found through the line above)

FLAVOUR = os.environ.get("FLAVOUR", "release")
ONLY = os.environ.get("ONLY", "*")
CHECKS = os.path.join(HERE, "..", "..", "docs", "checks.md")


def cases(program, flavours):
    """(name, ranks, environment, pattern) of the cases for these flavours."""
    listed = subprocess.run([program, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in listed.splitlines():
        name, flavour, ranks, environment, pattern = line.split("\t")
        if flavour in flavours:
            yield name, int(ranks), dict(word.split("=", 1) for word in environment.split()), pattern


def problem(status, output, left, pattern):
    """What is wrong with how a job ended; empty: nothing."""
    good = pattern.startswith("=")
    if status is None:
        return "it hangs"
    if "still alive" in output:
        return "a rank outlived the job"
    if "panicked at" in output or "defect of the library" in output:
        return "a panic instead of a message"
    if (status == 0) != good:
        return f"status {status}"
    if not re.search(pattern.removeprefix("="), output, re.S):
        return f"no text matches: {pattern}"
    if left:
        return f"left behind: {left}"
    return ""


def documented():
    """Names of cases that docs/checks.md has; none when the page is not there (an installation)."""
    if not os.path.exists(CHECKS):
        return None
    with open(CHECKS, encoding="utf-8") as file:
        return set(re.findall(r"`misuse/([a-z0-9-]+)`", file.read()))


def main():
    """Everything."""
    usual = "par" if "par" in jobtest.MODES else jobtest.MODES[0]
    names = documented()
    with jobtest.Workshop() as shop:
        for source in sorted(glob.glob(os.path.join(HERE, "*.c"))):
            with open(source, encoding="utf-8") as file:
                text = file.read()
            if '"misuse.h"' not in text:  # calls.sh runs it
                continue
            # A case for one thread mode says so: debug-seq.
            for mode in jobtest.MODES:
                flavours = [f"{FLAVOUR}-{mode}"] + ([FLAVOUR, "any"] if mode == usual else [])
                if mode != usual and f'"{FLAVOUR}-{mode}"' not in text:
                    continue
                program = shop.compile(source, mode)
                if program:
                    run_cases(shop, program, flavours, names)
    jobtest.finish()


def run_cases(shop, program, flavours, names):
    """Those of one program."""
    for name, ranks, environment, pattern in cases(program, flavours):
        if not fnmatch.fnmatch(name, ONLY):
            continue
        status, output, _, left = shop.run([program, name], ranks, environment)
        wrong = problem(status, output, left, pattern)
        if not wrong and names is not None and name not in names:
            wrong = "docs/checks.md does not name it"
        jobtest.report(f"misuse/{name}", wrong)
        if wrong:
            print("\n".join("    | " + line for line in output.splitlines()[:12]), flush=True)


main()
