#!/usr/bin/env python3
"""Deliberate defects, each caught by a named test. Called by scripts/check/mutants.sh;
docs/mutants.md says how to write one.

A definition, scripts/mutants/NAME.txt, has the lines `why:`, `file:` and `test:`, and the texts
behind `--- find` and `--- replace`. The sources are copied to $BUILD/mutants/tree and built there.
Every named test must pass on the unchanged copy; then each defect is put in, the library is built
again, and its test must fail or run out of time. One line per defect: PASS when it was caught."""

import concurrent.futures
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = os.environ["ROOT"]
WORK = os.path.join(os.environ["BUILD"], "mutants")
TREE = os.path.join(WORK, "tree")
DEFINITIONS = os.path.join(ROOT, "scripts", "mutants")
CC = shlex.split(os.environ.get("CC") or "cc")
JOBS = int(os.environ.get("MUTANTS_JOBS") or 2)
NOT_COPIED = {".git", "build", "target", "shared", "__pycache__"}

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "scripts", "check"))
import jobs  # noqa: E402  (found through the line above)

# Fast to build, and without the checks of a Rust debug build: the tests, not the assertions, are to
# catch the defects.
PROFILE = {
    "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS": "false",
    "CARGO_PROFILE_DEV_OVERFLOW_CHECKS": "false",
    "CARGO_PROFILE_DEV_INCREMENTAL": "true",
    "CARGO_TERM_COLOR": "never",
}

# Environment of programs with the stand-ins for device libraries.
DEVICES = {}
# The words that run a program on the emulated network of a conduit.
NETWORKS = {}


class Broken(Exception):
    """A definition is out of date, or something does not build."""


class Test:
    """What a `test:` line names: `family/program key=value…`, `unit PACKAGE NAME`, or
    `test PACKAGE TARGET NAME`."""

    def __init__(self, line):
        self.line = line
        words = shlex.split(line)
        self.kind = words[0] if words[0] in ("unit", "test") else "program"
        if self.kind == "unit":
            self.package, self.name = words[1:]
            self.target = ["--lib"]
            return
        if self.kind == "test":
            self.package, target, self.name = words[1:]
            self.target = ["--test", target]
            return
        self.name = words[0]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        self.ranks = int(options.pop("np", "2"))
        self.conduit = options.pop("conduit", "smp")
        self.mode = options.pop("mode", "par")
        self.flavour = options.pop("flavour", "release")
        self.segments = options.pop("segments", "fast")
        self.arguments = options.pop("args", "").split()
        self.environment = dict(word.split("=", 1) for word in options.pop("env", "").split())
        self.status = int(options.pop("status", "0"))
        self.output = options.pop("output", "")
        self.stdin = int(options.pop("stdin", "0"))
        self.kill = options.pop("kill", "")
        maxsize = options.pop("maxsize", "" if self.conduit == "smp" else "1")
        if maxsize:
            self.environment["GASNET_SUPERNODE_MAXSIZE"] = maxsize
        if options:
            raise Broken(f"unknown words in test: {options}")
        self.source = os.path.join(TREE, "gasnet-compat-tests", self.name + ".c")
        if not os.path.exists(self.source):
            raise Broken(f"there is no {self.name}.c in gasnet-compat-tests")
        found = jobs.directives(self.source)
        for word in found.get("ENV", "").split():
            self.environment.setdefault(*word.split("=", 1))
        self.devices = jobs.wants_stand_ins(found)

    def what_is_built(self):
        """Key of the library that the test needs."""
        return (self.conduit, self.flavour) if self.kind == "program" else (self.package, *self.target)


class Mutant:
    """One definition."""

    def __init__(self, path):
        self.name = os.path.splitext(os.path.basename(path))[0]
        with open(path) as file:
            head, _, body = file.read().partition("--- find\n")
        self.find, separator, self.replace = body.partition("\n--- replace\n")
        self.replace = self.replace.removesuffix("\n")
        fields = dict(re.findall(r"^(why|file|test):\s*(.*?)\s*$", head, re.M))
        if not separator or set(fields) != {"why", "file", "test"}:
            raise Broken(f"{path}: a definition has why:, file:, test:, --- find and --- replace")
        self.file, self.test_line, self.path = fields["file"], fields["test"], None

    def locate(self):
        """The file in which the search text stands, exactly once among those that `file:` names."""
        hits = []
        for path in sorted(glob.glob(os.path.join(TREE, self.file))):
            with open(path) as file:
                hits += [path] * file.read().count(self.find)
        if len(hits) != 1:
            raise Broken(f"the search text occurs {len(hits)} times in {self.file}, not once")
        return hits[0]


def copy_tree(source, target):
    """Makes `target` like `source`; leaves files alone that are the same, so that nothing is built
    for nothing."""
    os.makedirs(target, exist_ok=True)
    # scripts/build is source; only the build folder at the top is not.
    skipped = NOT_COPIED if source == ROOT else NOT_COPIED - {"build"}
    names = {name for name in os.listdir(source) if name not in skipped}
    for name in set(os.listdir(target)) - names:
        path = os.path.join(target, name)
        (shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.remove)(path)
    for name in names:
        old, new = os.path.join(source, name), os.path.join(target, name)
        if os.path.isdir(old):
            copy_tree(old, new)
        elif os.path.isfile(old):
            with open(old, "rb") as file:
                content = file.read()
            previous = None
            if os.path.isfile(new):
                with open(new, "rb") as file:
                    previous = file.read()
            if previous != content:
                shutil.copyfile(old, new)
                shutil.copymode(old, new)


def write(path, text):
    """Replaces a file's content."""
    with open(path, "w") as file:
        file.write(text)


def command(words, environment=None, what="a command"):
    """Runs a build command in the copy."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "CARGO_PROFILE"))}
    variables.update(PROFILE)
    variables.update(environment or {})
    result = subprocess.run(
        words,
        cwd=TREE,
        env=variables,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    if result.returncode != 0:
        text = (result.stdout + result.stderr).strip().splitlines()
        errors = [line for line in text if line.startswith("error")]
        raise Broken(f"{what} failed: {'; '.join(errors[:3]) or ' / '.join(text[-3:])}")
    return result.stdout


def headers(flavour):
    """The include tree of a flavour, made anew."""
    command(
        ["scripts/build/headers.sh", "smp", "sock", "loop"],
        {"BUILD": WORK, "FLAVOUR": flavour},
        "headers.sh",
    )


def c_flags(test):
    """Flags for clients and for the marker."""
    include, conduit, mode = (
        os.path.join(WORK, test.flavour, "include"),
        test.conduit,
        test.mode,
    )
    debug = [f"-DGASNET_SEGMENT_{test.segments.upper()}"] + (["-DGASNET_DEBUG"] if test.flavour == "debug" else [])
    return [
        "-O1",
        "-g",
        "-w",
        "-D_GNU_SOURCE=1",
        f"-DGASNET_{mode.upper()}",
        "-D_REENTRANT",
        *debug,
        f"-I{include}",
        f"-I{include}/{conduit}-conduit",
    ]


def build_library(conduit, flavour):
    """The static library, unstripped, as Cargo makes it."""
    features = f"gasnet-conduit-{conduit}" + (",debug-checks" if flavour == "debug" else "")
    command(
        [
            "cargo",
            "rustc",
            "--quiet",
            "--locked",
            "--target-dir",
            os.path.join(WORK, "cargo"),
            "-p",
            "gasnet-conduit-any",
            "--lib",
            "--crate-type",
            "staticlib",
            "--features",
            features,
        ],
        what="the library's build",
    )
    return os.path.join(WORK, "cargo", "debug", "libgasnet_conduit_any.a")


def build_marker(test, output):
    """The object that knows the thread mode and the segment configuration."""
    command(
        [
            *CC,
            "-std=c11",
            "-fPIC",
            *c_flags(test),
            "-DGASNETI_BUILDING_LIBRARY=1",
            "-c",
            os.path.join(TREE, "marker", "marker.c"),
            "-o",
            output,
        ],
        what="the marker",
    )


def build_program(test, library, folder):
    """A test program, linked with the library as it is now."""
    objects = []
    for name, source in (("marker", None), (test.name.replace("/", "-"), test.source)):
        path = os.path.join(
            folder,
            f"{name}-{test.conduit}-{test.mode}-{test.flavour}-{test.segments}.o",
        )
        if not os.path.exists(path) and source is None:
            build_marker(test, path)
        elif not os.path.exists(path):
            family = os.path.dirname(source)
            command(
                [
                    *CC,
                    *c_flags(test),
                    f"-I{TREE}/gasnet-compat-tests/common",
                    f"-I{family}",
                    "-c",
                    source,
                    "-o",
                    path,
                ],
                what=test.name,
            )
        objects.append(path)
    output = os.path.join(folder, uuid.uuid4().hex)
    command(
        [*CC, *objects, library, "-lpthread", "-ldl", "-lm", "-o", output],
        what=f"linking {test.name}",
    )
    return output


def build_rust_test(test):
    """A Rust test program; a list of words that run the one test."""
    words = [
        "cargo",
        "test",
        "--quiet",
        "--locked",
        "-p",
        test.package,
        *test.target,
        "--no-run",
        "--message-format=json",
        "--target-dir",
        os.path.join(WORK, "unit"),
    ]
    found = re.findall(r'"executable":"([^"]+)"', command(words, what="the Rust tests' build"))
    if not found:
        raise Broken(f"{test.package} has no test program")
    # Beside the original: there may be an emulator, too.
    copy = os.path.join(os.path.dirname(found[-1]), uuid.uuid4().hex)
    shutil.copy(found[-1], copy)
    return copy


def build(test, folder):
    """Whatever runs the test, with the sources as they are now."""
    if test.kind != "program":
        return build_rust_test(test)
    return build_program(test, build_library(test.conduit, test.flavour), folder)


def run_rust_test(test, program, timeout):
    """None when the test passed, else what happened."""
    try:
        result = subprocess.run(
            [program, test.name, "--exact"],
            cwd=TREE,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "out of time"
    if "1 passed" in result.stdout and result.returncode == 0:
        return None
    return "no such test" if "running 0 tests" in result.stdout else f"exit status {result.returncode}"


def run_program(test, program, timeout):
    """None when the job did what it should, else what it did."""
    mark, folder = (
        uuid.uuid4().hex,
        tempfile.mkdtemp(prefix="gasnet-mutant-", dir=jobs.FOLDERS[-1]),
    )
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("GASNET_", "MAKE", "MFLAGS"))}
    variables.update(
        {
            jobs.MARK: mark,
            "TMPDIR": folder,
            "GASNET_PSHM_NODES": str(test.ranks),
            "TEST_WATCHDOG": str(max(5, int(timeout) - 3)),
        }
    )
    if test.devices:
        variables.update(DEVICES)
    variables.update(test.environment)
    status = None
    with tempfile.TemporaryFile() as captured, tempfile.TemporaryFile() as source:
        source.write(b"x" * test.stdin)
        source.seek(0)
        reader = subprocess.Popen(["cat"], stdin=source, stdout=subprocess.PIPE) if test.stdin else None
        process = subprocess.Popen(
            [*NETWORKS[test.conduit], program, *test.arguments],
            cwd=folder,
            env=variables,
            stdout=captured,
            stderr=subprocess.STDOUT,
            stdin=reader.stdout if reader else subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            if test.kill:
                time.sleep(float(test.kill))
                os.kill(process.pid, signal.SIGKILL)
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        if reader:
            reader.kill()
            reader.wait()
            reader.stdout.close()
        deadline = time.monotonic() + jobs.GRACE_SECONDS
        while status is not None and jobs.job_processes(mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = len(jobs.job_processes(mark))
        jobs.kill_job(mark)
        process.wait()
        captured.seek(0)
        output = captured.read().decode(errors="replace")
    shutil.rmtree(folder, ignore_errors=True)
    if status is None:
        return "out of time"
    status = 128 - status if status < 0 else status
    lines = output.replace(f"{TREE}/gasnet-compat-tests/", "").splitlines()
    said = [f": {line.strip()[:120]}" for line in lines if line.startswith(("FAIL", "***", "GASNet"))]
    if status != test.status:
        return f"exit status {status}" + (said[0] if said else "")
    if left:
        return f"{left} processes left behind"
    return None if re.search(test.output, output, re.M) else f"output lacks {test.output!r}"


def run(test, program, timeout):
    """Runs and removes a test's program. Returns (None or what went wrong, seconds)."""
    started = time.monotonic()
    try:
        runner = run_program if test.kind == "program" else run_rust_test
        return runner(test, program, timeout), time.monotonic() - started
    finally:
        os.remove(program)


def baseline(tests, pool):
    """Runs every test on the unchanged copy. Returns what failed, and how long each took, by the
    test's line."""
    failed, seconds, running = {}, {}, {}
    folder = os.path.join(WORK, "objects")
    for line in sorted(tests, key=lambda line: tests[line].what_is_built()):
        try:
            running[line] = pool.submit(run, tests[line], build(tests[line], folder), 150)
        except Broken as problem:
            failed[line] = str(problem)
    for line, future in running.items():
        problem, seconds[line] = future.result()
        if problem:
            failed[line] = problem
    for line, problem in failed.items():
        print(f"FAIL unchanged: {line}: {problem}", flush=True)
    return failed, seconds


def try_mutant(mutant, test, timeout, pool):
    """Puts the defect in, builds, takes it out again. Returns the running test."""
    path = mutant.locate()
    with open(path) as file:
        original = file.read()
    in_headers = os.path.relpath(path, TREE).startswith(("include", "marker"))
    folder = tempfile.mkdtemp(dir=WORK) if in_headers else os.path.join(WORK, "objects")
    try:
        write(path, original.replace(mutant.find, mutant.replace))
        if in_headers:
            headers(test.flavour)
        program = build(test, folder)
    finally:
        write(path, original)
        if in_headers:
            headers(test.flavour)
    if in_headers:
        moved = os.path.join(WORK, "objects", os.path.basename(program))
        os.rename(program, moved)
        program = moved
        shutil.rmtree(folder)
    return pool.submit(run, test, program, timeout)


def check(paths):
    """Whether every definition fits the sources as they are; nothing is built."""
    global TREE
    TREE, broken = ROOT, []
    for path in paths:
        try:
            mutant = Mutant(path)
            mutant.locate()
            Test(mutant.test_line)
        except Broken as problem:
            broken.append(f"{os.path.basename(path)}: {problem}")
    print("\n".join(broken))
    return int(bool(broken))


def main():
    """All chosen mutants; exit status 1 unless every one was caught."""
    if "--check" in sys.argv[1:]:
        return check(sorted(glob.glob(os.path.join(DEFINITIONS, "*.txt"))))
    chosen = os.environ.get("MUTANTS", "").split()
    paths = sorted(glob.glob(os.path.join(DEFINITIONS, "*.txt")))
    names = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    if set(chosen) - set(names):
        sys.exit(f"there is no mutant {' '.join(sorted(set(chosen) - set(names)))}")
    copy_tree(ROOT, TREE)
    shutil.rmtree(os.path.join(WORK, "objects"), ignore_errors=True)
    os.makedirs(os.path.join(WORK, "objects"))
    for flavour in ("release", "debug"):
        headers(flavour)
    DEVICES.update(jobs.stand_ins(os.path.join(WORK, "devices")))
    mutants, tests, caught, count = [], {}, 0, 0
    for path, name in zip(paths, names):
        if chosen and name not in chosen:
            continue
        count += 1
        try:
            mutant = Mutant(path)
            mutant.locate()
            tests.setdefault(mutant.test_line, Test(mutant.test_line))
            mutants.append(mutant)
        except Broken as problem:
            print(f"FAIL mutant-{name} {problem}", flush=True)
    for conduit in {test.conduit for test in tests.values() if test.kind == "program"}:
        NETWORKS[conduit] = jobs.emulated(conduit, os.path.join(WORK, "emulators"))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        failed, seconds = baseline(tests, pool)
        running = []
        # Those that need the same library one after the other: less is built.
        for mutant in sorted(mutants, key=lambda m: tests[m.test_line].what_is_built()):
            line = mutant.test_line
            if line in failed:
                print(
                    f"FAIL mutant-{mutant.name} its test fails without it: {line}",
                    flush=True,
                )
                continue
            timeout = min(60.0, max(15.0, 4 * seconds[line]))
            try:
                running.append((mutant, try_mutant(mutant, tests[line], timeout, pool)))
            except Broken as problem:
                print(f"FAIL mutant-{mutant.name} {problem}", flush=True)
            while running and (running[0][1].done() or len(running) > 2 * JOBS):
                caught += tell(*running.pop(0))
        for pair in running:
            caught += tell(*pair)
    print(f"{'PASS' if caught == count else 'FAIL'} mutants: {caught} of {count} caught")
    return int(caught < count or count == 0)


def tell(mutant, future):
    """Prints what became of a mutant. 1 when it was caught."""
    problem, took = future.result()
    if problem and problem != "no such test":
        print(
            f"PASS mutant-{mutant.name} caught by {mutant.test_line} ({problem}; {took:.1f} s)",
            flush=True,
        )
        return 1
    print(
        f"FAIL mutant-{mutant.name} {problem or 'survived'}: {mutant.test_line}",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    with jobs.scratch():
        sys.exit(main())
