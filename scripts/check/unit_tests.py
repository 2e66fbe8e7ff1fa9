#!/usr/bin/env python3
"""unit_tests.py OPTION... [--and OPTION...]: builds and runs the tests of `cargo test`, once with
each list of options. Runs several test programs at once, and builds those of the next list
meanwhile. Cargo would run one program after the other, and many of them mostly wait. Documentation
tests are those of the first list. Prints the result of each program, with VERBOSE set its time, and
at the end the output of those that failed."""

import concurrent.futures
import json
import os
import subprocess
import sys
import time

# Seconds for a program.
TIMEOUT = 900
# Lines of a failure that are shown.
FAILURE_LINES = 40
# Programs that run concurrently. Each runs as many tests at once as there are cores.
PROGRAMS = max(3, (os.cpu_count() or 1) // 2)


def cargo(options, *more):
    """A command of Cargo's tests."""
    return ["cargo", "test", "--quiet", "--locked", *options, *more]


def build(options):
    """Builds tests. Returns their programs: path, and folder of the package. Those of folders named
    tests come first, because they take longest. None: not all can be built."""
    # Compiler errors go to standard error.
    command = cargo(options, "--tests", "--no-run", "--message-format=json-render-diagnostics")
    built = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if built.returncode:
        return None
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith(b"{")]
    programs = [
        ("test" not in message["target"]["kind"], os.path.dirname(message["manifest_path"]), message["executable"])
        for message in messages
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]
    ]
    return [(path, folder) for _, folder, path in sorted(programs)]


def has_library(options):
    """Whether a package of these options may have documentation tests: Cargo refuses to look for
    them in programs alone."""
    listed = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"], stdout=subprocess.PIPE, check=True
    )
    packages = json.loads(listed.stdout)["packages"]
    chosen = {name for word, name in zip(options, options[1:]) if word == "-p"}
    kinds = {
        kind
        for package in packages
        if not chosen or package["name"] in chosen
        for target in package["targets"]
        for kind in target["kind"]
    }
    return bool(kinds & {"lib", "rlib", "proc-macro"})


def run(command, folder):
    """Runs a test command. Returns its output, and whether all tests have passed."""
    start = time.monotonic()
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
        has_passed, output = ended.returncode == 0, ended.stdout
    except subprocess.TimeoutExpired as expired:
        has_passed, output = False, (expired.stdout or b"") + f"no end in {TIMEOUT} seconds\n".encode()
    name = " ".join(command[:2])
    text = output.decode(errors="replace")
    if has_passed:
        text = "\n".join(line for line in text.splitlines() if line.startswith("test result:"))
    else:
        text += f"\nFAILED: {name}"
    if os.environ.get("VERBOSE"):
        text += f"\n{time.monotonic() - start:.1f} s: {name}"
    return text, has_passed


def main():
    """Returns the exit status."""
    lists = [[]]
    for word in sys.argv[1:]:
        if word == "--and":
            lists.append([])
        else:
            lists[-1].append(word)
    failures, running = [], []
    with concurrent.futures.ThreadPoolExecutor(PROGRAMS) as pool:
        for options in lists:
            programs = build(options)
            if programs is None:
                failures.append(f"FAILED: building the tests of {' '.join(options)}")
            running += [pool.submit(run, [path, "--quiet"], folder) for path, folder in programs or []]
        if has_library(lists[0]):
            running.append(pool.submit(run, cargo(lists[0], "--doc"), None))
        for ended in concurrent.futures.as_completed(running):
            text, has_passed = ended.result()
            if has_passed:
                print(text, flush=True)
            else:
                failures.append(text)
    # Last, since callers show the end of the output; and each by its own end, so that none hides
    # the others.
    for text in failures:
        print(*text.splitlines()[-FAILURE_LINES:], sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
