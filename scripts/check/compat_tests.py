#!/usr/bin/env python3
"""Runs the C and C++ test programs of gasnet-compat-tests over an installed libgasnet: flavour (and
segment configuration) x conduit x neighbourhood size x thread mode x ranks. Prints PASS, FAIL or
SKIP per program and configuration.

The first lines of a program may say:
  // NP: 1 2 4            rank counts (default 1 2 4)
  // MODES: par parsync   thread modes (default all)
  // CONDUITS: smp        conduits (default all)
  // FLAVOURS: debug      library flavours (default both)
  // SEGMENTS: fast large segment configurations (default all)
  // ARGS: a b            program arguments
  // ENV: A=b C=d         environment
  // TIMEOUT: 60          seconds per run
  // FLAGS: -fopenmp      compiler flags
  // ROOT: yes            also runs as root where the check does
  // DEVICES: yes         has stand-ins for the vendors' device libraries (emulators/devices),
                          unless REAL_DEVICES is set
The programs of the folder tools use only the communication-free tools library, in its modes
tools-seq and tools-par.
A folder with a run.sh is run by that script instead: its environment has PREFIX, FLAVOUR, CONDUIT,
MODES, SUPERNODE_MAXSIZE (empty: all ranks), QUICK (1 or empty), CC, CXX, OUT (a scratch folder); it
prints the same PASS, FAIL and SKIP lines.
Exit codes of a program: 0 passed, 77 skipped (its last line says why), anything else failed."""

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid

import jobs
import matrix
from matrix import MODES, TESTS, chance, number

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-g"]
LONG_SCRIPTS = ("exit",)
# Collectives choose their algorithm by whether ranks share cores. Half of the cases of this family
# have a core for every rank (GASNET_HOST_CORES).
BY_CORES = "coll"


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="", help="prefix of the release installation")
    parser.add_argument("--debug", default="", help="prefix of the debug installation")
    parser.add_argument(
        "--other",
        default="",
        help="further prefixes as NAME=prefix words; NAME: release-large, debug-everything and so on",
    )
    parser.add_argument(
        "--slice",
        default="",
        help="seed: of the less important configurations take only a part, chosen by this text",
    )
    parser.add_argument("--families", default="", help="only these folders")
    parser.add_argument("--programs", default="", help="only these programs (names without suffix)")
    parser.add_argument(
        "--configurations",
        default="",
        help="only these, as flavour:conduit:maxsize (maxsize 0: all ranks; flavour may be release-large …), "
        "those that no matrix has among them",
    )
    parser.add_argument("--modes", default="", help="only these thread modes")
    parser.add_argument("--np", default="", help="instead of what the programs say")
    parser.add_argument(
        "--few-ranks",
        default="",
        help="only those of the counts that the programs say, or else their least",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--flags", default="", help="further compiler and linker flags")
    parser.add_argument("--wrapper", default="", help="put before the program, for example valgrind")
    parser.add_argument(
        "--emulator",
        default="",
        help="options of scripts/with-emulator, divided at spaces: --faults late --faults yield=9",
    )
    parser.add_argument("--env", default="", help="further environment, NAME=value words")
    parser.add_argument(
        "--skip",
        default="",
        help="not these programs: NAME=reason_without_spaces words",
    )
    parser.add_argument(
        "--no-scripts",
        action="store_true",
        help="leave out folders that have a script of their own",
    )
    parser.add_argument("--only-scripts", action="store_true", help="only those")
    parser.add_argument(
        "--sample",
        default="",
        help="seed: take only one in four programs, chosen by this text",
    )
    parser.add_argument("--timeout-factor", type=float, default=1)
    options = parser.parse_args()
    try:
        matrix.validate(options)
    except matrix.Unknown as unknown:
        parser.error(str(unknown))
    return options


class Case:
    """A program in one configuration and mode."""

    def __init__(self, options, where, family, source, found, mode, always):
        self.options, self.family, self.source, self.found, self.mode = options, family, source, found, mode
        flavour, self.prefix, conduit, size, self.one_in = where
        self.conduit, self.size, self.always = conduit, size, always
        self.program = os.path.splitext(source)[0]
        where = conduit if not size else f"{conduit}/{size}"
        self.name = f"{family}/{self.program} {flavour} {where} {mode}"
        self.undersubscribed = family == BY_CORES and number(self.name) % 2 == 0
        self.name += " undersubscribed" * self.undersubscribed
        if conduit in jobs.EMULATORS and options.emulator:
            self.name += f" ({options.emulator})"
        self.devices, self.network = {}, []

    def counts(self):
        """Rank counts."""
        if self.mode.startswith("tools-"):
            return [1]
        counts = [int(n) for n in (self.options.np or self.found.get("NP", "1 2 4")).split()]
        few = [int(n) for n in self.options.few_ranks.split()]
        return [n for n in counts if n in few or not few] or [min(counts)]

    def run(self, installation, work):
        """Compiles, runs, and returns the lines to print."""
        folder = tempfile.mkdtemp(dir=work)
        os.chmod(folder, 0o755)
        binary = os.path.join(folder, self.program)
        flags = WARNINGS + [f"-I{TESTS}/common", f"-I{TESTS}/{self.family}"] + self.found.get("FLAGS", "").split()
        flags += self.options.flags.split()
        path = os.path.join(TESTS, self.family, self.source)
        built, messages = installation.compile(
            [path], binary, self.conduit, self.mode, flags, self.options.flags.split()
        )
        if not built:
            return [f"FAIL {self.name}: does not compile", *indent(messages, 12)]
        lines, skipped, passed, seconds = [], "", [], 0.0
        for count in self.counts():
            environment = {} if self.mode.startswith("tools-") else {"GASNET_PSHM_NODES": str(count)}
            if self.size:
                environment["GASNET_SUPERNODE_MAXSIZE"] = str(self.size)
            if self.undersubscribed:
                environment["GASNET_HOST_CORES"] = "64"
            timeout = float(self.found.get("TIMEOUT", "60")) * self.options.timeout_factor
            environment["TEST_WATCHDOG"] = str(max(5, int(timeout) - 5))
            if jobs.wants_stand_ins(self.found):
                environment.update(self.devices)
            for word in (self.found.get("ENV", "") + " " + self.options.env).split():
                key, _, value = word.partition("=")
                environment[key] = value
            if self.size and environment["GASNET_SUPERNODE_MAXSIZE"] == str(self.size):
                environment["TEST_NBRHD_MOST"] = str(self.size)
            command = self.network + self.options.wrapper.split() + [binary] + self.found.get("ARGS", "").split()
            as_root = "ROOT" in self.found and chance("root", f"{self.name} {count}", 4)
            result = jobs.run(command, timeout, environment, unprivileged=not as_root)
            seconds += result.seconds
            output = [line for line in result.output.splitlines() if line.strip()]
            if result.status == 77:
                skipped = output[-1] if output else "no reason given"
            elif result.status != 0 or result.leftovers:
                why = "out of time" if result.status is None else f"exit status {result.status}"
                if result.leftovers:
                    why += ", left behind: " + ", ".join(result.leftovers)
                lines += [
                    f"FAIL {self.name} np={count}: {why}",
                    *indent(result.output, 15),
                ]
            else:
                passed.append(str(count))
        shutil.rmtree(folder, ignore_errors=True)
        if passed:
            lines.insert(0, f"PASS {self.name} np={','.join(passed)} ({seconds:.1f} s)")
        elif skipped and not lines:
            lines.insert(0, f"SKIP {self.name} {skipped}")
        return lines


def indent(text, limit):
    """The last lines of a text, marked as belonging to the line before."""
    return ["    | " + line for line in text.splitlines()[-limit:]]


def run_script(options, family, flavour, prefix, conduit, size, work, network):
    """Runs a family's own script; `network`: the words that run it on an emulated one."""
    out = tempfile.mkdtemp(prefix=f"{family}-", dir=work)
    os.chmod(out, 0o777)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GASNET_", "MAKE", "MFLAGS"))}
    mark = uuid.uuid4().hex
    environment.update(CHECK_SCRIPT=mark)
    environment.update(
        PREFIX=prefix,
        FLAVOUR=flavour,
        CONDUIT=conduit,
        MODES=options.modes or MODES,
        OUT=out,
        QUICK="1" if options.slice else "",
        SUPERNODE_MAXSIZE=str(size) if size else "",
    )
    name = f"{family}/run.sh {flavour} {conduit}" + (f"/{size}" if size else "")
    started = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        tempfile.TemporaryFile("w+", errors="replace") as messages,
    ):
        process = subprocess.Popen(
            [*network, "sh", f"{TESTS}/{family}/run.sh"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=messages,
            start_new_session=True,
        )
        try:
            status = process.wait(1800 * options.timeout_factor)
        except subprocess.TimeoutExpired:
            status = None
        left = jobs.job_processes(mark) if status is not None else []
        jobs.kill_job(mark)
        process.wait()
        output.seek(0)
        messages.seek(0)
        output, messages = output.read(), messages.read()
    lines = []
    for line in output.splitlines():
        if line.startswith(("PASS ", "FAIL ", "SKIP ")):
            lines.append(f"{line} [{flavour} {conduit}" + (f"/{size}]" if size else "]"))
        else:
            lines.append("    | " + line)
    if status is None:
        lines.append(f"FAIL {name}: out of time")
    elif left:
        lines.append(f"FAIL {name}: {len(left)} processes were left behind")
    elif status != 0 and not any(line.startswith("FAIL ") for line in lines):
        lines.append(f"FAIL {name}: exit status {status}")
    if status != 0:
        lines += indent(messages, 15)
    lines.append(f"     {name} took {time.monotonic() - started:.0f} s")
    return lines


def main():
    """Runs all cases; exit status 1 when one failed, 2 when there was nothing to run."""
    options = arguments()
    chosen = matrix.Chosen(options)
    for line in chosen.skipped:
        print(line, flush=True)
    if chosen.is_empty():
        print("compat_tests: no program runs in such a configuration; nothing was tested", file=sys.stderr)
        return 2
    cases = [Case(options, *chosen_case) for chosen_case in chosen.cases]
    if options.slice:
        cases = [case for case in cases if case.always or chance(options.slice, case.name, case.one_in)]
    installations = {prefix: jobs.Installation(prefix) for prefix in matrix.prefixes(options).values()}
    failed = 0
    with jobs.scratch() as work:
        if any(jobs.wants_stand_ins(case.found) for case in cases):
            devices = jobs.stand_ins(os.path.join(work, "devices"))
            for case in cases:
                case.devices = devices
        used = {case.conduit for case in cases} | {script[3] for script in chosen.scripts}
        networks = {
            conduit: jobs.emulated(conduit, os.path.join(work, "emulators"), options.emulator.split())
            for conduit in used
        }
        for case in cases:
            case.network = networks[case.conduit]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            running = [pool.submit(case.run, installations[case.prefix], work) for case in cases]
            # The longest first.
            scripts = sorted(chosen.scripts, key=lambda script: script[0] not in LONG_SCRIPTS)
            running += [pool.submit(run_script, options, *script, work, networks[script[3]]) for script in scripts]
            for future in running:
                lines = future.result()
                failed += any(line.startswith("FAIL ") for line in lines)
                print("\n".join(lines), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
