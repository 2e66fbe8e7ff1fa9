#!/usr/bin/env python3
"""Applies deliberate defects, each of which a named test must catch. scripts/check/mutants.sh calls
it; docs/mutants.md says how to write a definition.

A definition, scripts/mutants/NAME.txt, has the lines `why:`, `file:` and `test:`, and the texts
behind `--- find` and `--- replace`. The sources are copied to $BUILD/mutants/tree and built there.
Every named test must pass on the unchanged copy. Then each defect is applied, the library is built
again, and its test must fail or run out of time. Each defect prints one line: PASS when it was
caught. With a line `replay:`, a replay by gasnet_replay must catch the defect as well, and be
reduced to a few operations. With --check, only compares the definitions with the sources.

MUTANTS names the definitions to try. MUTANTS=cargo runs cargo-mutants in the copy instead."""

import filecmp
import glob
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys

ROOT = os.environ["ROOT"]
WORK = os.path.join(os.environ["BUILD"], "mutants")
TREE = os.path.join(WORK, "tree")
PROGRAM = os.path.join(WORK, "program")
CC = shlex.split(os.environ.get("CC") or "cc")
# Seconds for a reduction, and operations of a replay that are few enough to read.
REDUCTION, FEW = 900, 100

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "gasnet-compat-tests", "support"))
import jobs  # noqa: E402  (found through the line above)

# Builds fast, and without the checks of a Rust debug build: tests must catch the defects, not
# assertions.
PROFILE = {
    "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS": "false",
    "CARGO_PROFILE_DEV_OVERFLOW_CHECKS": "false",
    "CARGO_PROFILE_DEV_INCREMENTAL": "true",
    "CARGO_TERM_COLOR": "never",
}


class BrokenError(Exception):
    """A definition is out of date, or something does not build."""


class RustTest:
    """`unit PACKAGE NAME` or `test PACKAGE TARGET NAME`."""

    def __init__(self, words):
        self.package, self.name = words[1], words[-1]
        self.target = ["--lib"] if words[0] == "unit" else ["--test", words[2]]
        self.library = (self.package, *self.target)

    def build(self):
        """Builds the test program of the crate."""
        options = ["--quiet", "--locked", "--no-run", "--message-format=json", "--target-dir", f"{WORK}/unit"]
        output = command(["cargo", "test", *options, "-p", self.package, *self.target])
        found = re.findall(r'"executable":"([^"]+)"', output)
        if not found:
            raise BrokenError(f"{self.package} has no test program")
        self.program = found[-1]

    def run(self, timeout):
        """Returns None if the test passed, else the failure, and the seconds."""
        result = jobs.run([self.program, self.name, "--exact"], timeout, unprivileged=False)
        passed = result.status == 0 and "1 passed" in result.output
        if not passed and "running 0 tests" in result.output:
            raise BrokenError(f"there is no test {self.name}")
        return None if passed else ending(result.status), result.seconds


class ProgramTest:
    """`family/program` and `key=value` words: a program of gasnet-compat-tests."""

    def __init__(self, words, tree):
        self.name = words[0]
        options = dict(word.split("=", 1) for word in words[1:])
        self.ranks = options.pop("np", "2")
        self.conduit = options.pop("conduit", "smp")
        self.flavour = options.pop("flavour", "release")
        self.arguments = options.pop("args", "").split()
        self.environment = dict(word.split("=", 1) for word in options.pop("env", "").split())
        self.status = int(options.pop("status", "0"))
        self.output = options.pop("output", "")
        self.kill = options.pop("kill", "")
        maxsize = options.pop("maxsize", "" if self.conduit == "smp" else "1")
        if options:
            raise BrokenError(f"unknown words in test: {options}")
        self.sources = self.find_sources(tree)
        directives = jobs.directives(self.sources[0])
        defaults = dict(word.split("=", 1) for word in directives.get("ENV", "").split())
        if maxsize:
            defaults["GASNET_SUPERNODE_MAXSIZE"] = maxsize
        self.environment = {**defaults, **self.environment}
        self.devices = jobs.wants_stand_ins(directives)
        self.library = (self.conduit, self.flavour)

    def find_sources(self, tree):
        """The files of the program."""
        source = f"{tree}/gasnet-compat-tests/{self.name}.c"
        if not os.path.exists(source):
            raise BrokenError(f"there is no {self.name}.c in gasnet-compat-tests")
        return [source]

    def build(self):
        """Builds headers, library and program: the static library as Cargo makes it."""
        command(["scripts/build/headers.sh", self.conduit], {"BUILD": WORK, "FLAVOUR": self.flavour})
        debug = self.flavour == "debug"
        features = f"gasnet-conduit-{self.conduit}" + (",debug-checks" if debug else "")
        options = ["--quiet", "--locked", "--target-dir", f"{WORK}/cargo", "--crate-type", "staticlib"]
        command(["cargo", "rustc", *options, "--lib", "-p", "gasnet-conduit-any", "--features", features])
        include = f"{WORK}/{self.flavour}/include"
        defines = ["_GNU_SOURCE", "GASNET_PAR", "_REENTRANT", "GASNET_SEGMENT_FAST"] + ["GASNET_DEBUG"] * debug
        folders = [include, f"{include}/{self.conduit}-conduit", f"{TREE}/gasnet-compat-tests/common"]
        flags = ["-O1", "-g", "-w", *(f"-D{name}=1" for name in defines), *(f"-I{path}" for path in folders)]
        marker = f"{WORK}/marker.o"
        command([*CC, *flags, "-DGASNETI_BUILDING_LIBRARY=1", "-c", "libraries/marker/marker.c", "-o", marker])
        libraries = [f"{WORK}/cargo/debug/libgasnet_conduit_any.a", "-lpthread", "-ldl", "-lm"]
        command([*CC, *flags, *self.sources, marker, *libraries, "-o", PROGRAM])

    def run(self, timeout):
        """Returns None if the job did as expected, else the failure, and the seconds."""
        environment = {"GASNET_PSHM_NODES": self.ranks, "TEST_WATCHDOG": str(max(5, int(timeout) - 3))}
        if self.devices:
            environment.update(jobs.stand_ins(f"{WORK}/devices"))
        environment.update(self.environment)
        # In the foreground, timeout ends the launcher process alone.
        killer = ["timeout", "--foreground", "-s", "KILL", self.kill] if self.kill else []
        result = jobs.run([*killer, PROGRAM, *self.arguments], timeout, environment, unprivileged=False)
        problem = None
        if ending(result.status) != ending(self.status):
            said = re.search(r"^(FAIL|\*\*\*|GASNet).{,120}", result.output.replace(TREE, ""), re.M)
            problem = ending(result.status) + (f": {said.group()}" if said else "")
        elif result.leftovers:
            problem = f"left behind: {', '.join(result.leftovers)}"
        elif not re.search(self.output, result.output, re.M):
            problem = f"output lacks {self.output!r}"
        return problem, result.seconds


class ReplayTest(ProgramTest):
    """A model of gasnet_replay, and `key=value` words as of a program."""

    def __init__(self, words, tree):
        super().__init__(["replay", *words[1:]], tree)
        self.arguments = ["--limit", "3", "--model", words[0], *self.arguments]

    def find_sources(self, tree):
        """The files of gasnet_replay."""
        return sorted(glob.glob(f"{tree}/programs/replay/*.c"))

    def reduce(self):
        """Returns how many operations of the model still fail, None without an answer."""
        start = ["sh", "-c", 'export GASNET_PSHM_NODES="$1" && shift && exec "$@"', "sh", "%n"]
        words = ["--reduce", f"{WORK}/reduced-%", *self.arguments, "--ranks", self.ranks, "--", *start]
        result = jobs.run([PROGRAM, *words], REDUCTION, self.environment, unprivileged=False)
        found = re.search(r"(\d+) of \d+ operations are in", result.output)
        return int(found[1]) if found else None


def ending(status):
    """Words for a status: 128 + signal number if a signal ended the process."""
    if status is None:
        return "out of time"
    return f"exit status {status if status >= 0 else 128 - status}"


class Mutant:
    """One definition."""

    def __init__(self, path, tree):
        with open(path) as file:
            head, _, body = file.read().partition("--- find\n")
        self.name = os.path.splitext(os.path.basename(path))[0]
        self.find, separator, self.replace = body.partition("\n--- replace\n")
        self.replace = self.replace.removesuffix("\n")
        fields = dict(re.findall(r"^(why|file|test|replay):\s*(.*?)\s*$", head, re.M))
        if not separator or not {"why", "file", "test"} <= set(fields):
            raise BrokenError("a definition has why:, file:, test:, --- find and --- replace")
        hits = []
        for source in sorted(glob.glob(f"{tree}/{fields['file']}")):
            with open(source) as file:
                hits += [source] * file.read().count(self.find)
        if len(hits) != 1:
            raise BrokenError(f"the search text occurs {len(hits)} times in {fields['file']}, not once")
        self.path = hits[0]
        words = shlex.split(fields["test"])
        test = RustTest(words) if words[0] in ("unit", "test") else ProgramTest(words, tree)
        self.tests = {fields["test"]: test}
        if "replay" in fields:
            self.tests[f"replay {fields['replay']}"] = ReplayTest(shlex.split(fields["replay"]), tree)

    def try_out(self, test, timeout):
        """Applies the defect, builds, reverts it, and runs the test."""
        with open(self.path) as file:
            original = file.read()
        try:
            write(self.path, original.replace(self.find, self.replace))
            test.build()
        finally:
            write(self.path, original)
        return test.run(timeout)


def write(path, text):
    """Replaces a file's content."""
    with open(path, "w") as file:
        file.write(text)


def copy_tree():
    """Updates the copy from the sources. Does not touch unchanged files, so that they are not
    compiled again."""

    def ignored(folder, names):
        # scripts/build is source; only the folder at the top is not.
        top = {"build", "target", "shared", ".git"} if folder == ROOT else {"target", "__pycache__"}
        return top & set(names)

    def update(source, target):
        if not os.path.isfile(target) or not filecmp.cmp(source, target, shallow=False):
            shutil.copyfile(source, target)
            shutil.copymode(source, target)

    for folder, _, names in os.walk(TREE):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.exists(os.path.join(ROOT, os.path.relpath(path, TREE))):
                os.remove(path)
    shutil.copytree(ROOT, TREE, ignore=ignored, copy_function=update, dirs_exist_ok=True)


def command(words, environment=None):
    """Runs a build command in the copy and returns its output."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "CARGO_PROFILE"))}
    variables.update(PROFILE, **(environment or {}))
    options = {"capture_output": True, "text": True, "errors": "replace", "stdin": subprocess.DEVNULL}
    result = subprocess.run(words, cwd=TREE, env=variables, **options)
    if result.returncode != 0:
        text = (result.stdout + result.stderr).strip().splitlines()
        errors = [line for line in text if line.startswith("error")]
        raise BrokenError(f"{words[0]} failed: {'; '.join(errors[:3]) or ' / '.join(text[-3:])}")
    return result.stdout


def read(chosen, tree):
    """Returns the chosen definitions (all if none are named), and the number of those that do not
    fit the sources, which it prints."""
    mutants, broken = [], 0
    paths = sorted(glob.glob(os.path.join(ROOT, "scripts", "mutants", "*.txt")))
    unknown = chosen - {os.path.splitext(os.path.basename(path))[0] for path in paths}
    if unknown:
        sys.exit(f"there is no mutant {' '.join(sorted(unknown))}")
    for path in paths:
        name = os.path.splitext(os.path.basename(path))[0]
        if chosen and name not in chosen:
            continue
        try:
            mutants.append(Mutant(path, tree))
        except BrokenError as problem:
            print(f"FAIL mutant-{name} {problem}", flush=True)
            broken += 1
    return mutants, broken


def judge(mutant, line, limit):
    """Tries a mutant with one of its tests and prints the outcome. Returns whether it was caught,
    and by a replay with few operations."""
    test = mutant.tests[line]
    try:
        problem, seconds = mutant.try_out(test, limit) if limit else (None, 0)
    except BrokenError as error:
        print(f"FAIL mutant-{mutant.name} {error}", flush=True)
        return False
    if problem and isinstance(test, ReplayTest):
        left = test.reduce()
        if left not in range(1, FEW):
            print(f"FAIL mutant-{mutant.name} is reduced to {left} operations: {line}", flush=True)
            return False
        problem += f"; {left} operations are left"
    if problem:
        print(f"PASS mutant-{mutant.name} caught by {line} ({problem}; {seconds:.1f} s)", flush=True)
    else:
        reason = "survived" if limit else "its test fails without it"
        print(f"FAIL mutant-{mutant.name} {reason}: {line}", flush=True)
    return bool(problem)


def cargo_mutants():
    """Runs cargo-mutants over the files that .cargo/mutants.toml lists; returns its exit status."""
    build = os.environ["BUILD"]
    program = os.path.join(build, "cargo-mutants", "bin", "cargo-mutants")
    if not os.path.exists(program):
        print("FAIL cargo-mutants is missing: scripts/setup.sh all installs it")
        return 1
    # A change may make a loop allocate without end.
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    environment = {**os.environ, "CARGO_TARGET_DIR": f"{WORK}/unit-debug", "CARGO_PROFILE_DEV_DEBUG": "0"}
    options = ["--in-place", "--workspace", "--no-shuffle", "--no-times", "--colors", "never", "--output", build]
    status = subprocess.run([program, "mutants", *options], cwd=TREE, env=environment, stdin=subprocess.DEVNULL)
    print(f"{'FAIL' if status.returncode else 'PASS'} cargo-mutants")
    return int(status.returncode != 0)


def main():
    """Tries all chosen mutants; exit status 1 unless every one was caught."""
    if "--check" in sys.argv[1:]:
        return int(read(set(), ROOT)[1] > 0)
    copy_tree()
    chosen = set(os.environ.get("MUTANTS", "").split())
    if chosen == {"cargo"}:
        return cargo_mutants()
    mutants, broken = read(chosen, TREE)
    # Consecutive mutants of the same library need fewer builds.
    pairs = [(mutant, line) for mutant in mutants for line in mutant.tests]
    pairs.sort(key=lambda pair: (pair[0].tests[pair[1]].library, pair[0].name))
    limits = {}
    for mutant, line in pairs:
        if line in limits:
            continue
        try:
            mutant.tests[line].build()
            problem, seconds = mutant.tests[line].run(150)
        except BrokenError as error:
            problem, seconds = error, 0
        limits[line] = None if problem else min(60.0, max(15.0, 4 * seconds))
        if problem:
            print(f"FAIL unchanged: {line}: {problem}", flush=True)
    caught = sum(judge(mutant, line, limits[line]) for mutant, line in pairs)
    count = len(pairs) + broken
    print(f"{'PASS' if caught == count else 'FAIL'} mutants: {caught} of {count} caught")
    return int(caught < count or count == 0)


if __name__ == "__main__":
    with jobs.scratch():
        sys.exit(main())
