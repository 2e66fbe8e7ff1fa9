"""A place for tests in Python: compiles a program with an installation, starts jobs under a mark,
and finds what they left."""

import contextlib
import ctypes
import glob
import os
import re
import shutil
import subprocess
import tempfile
import time

import jobs
import pytest

SET_CHILD_SUBREAPER = 36
# Processes that their Popen waits for.
OWN = set()


class Workshop:
    """A scratch folder with compiled programs for one configuration, and an empty TMPDIR that must
    stay empty. `quick`: for a slice."""

    def __init__(self, configuration, network, modes, quick):
        self.configuration, self.modes, self.quick = configuration, modes, quick
        self.conduit, self.flavour, self.prefix = configuration.conduit, configuration.build, configuration.prefix
        # The usual thread mode, for tests that are the same in all.
        self.mode = "par" if "par" in modes else modes[0]
        self.launcher = f"{self.prefix}/bin/gasnetrun" + ("" if self.conduit == "any" else f"_{self.conduit}")
        self.installation = jobs.Installation(self.prefix)
        # Variables of an emulated network.
        self.network = network
        self.folder = tempfile.mkdtemp(prefix="gasnet-jobtest-", dir=os.environ[jobs.FOLDER])
        self.temporary = os.path.join(self.folder, "tmp")
        os.mkdir(self.temporary)
        for folder in (self.folder, self.temporary):
            os.chmod(folder, 0o777)
        # Orphans become children of this process, which can then tell a zombie that nobody reaped
        # from a process that lives.
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def close(self):
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def compile(self, source, mode="", conduit="", compiler=None, flags=()):
        """The compiled program, made once. `compiler` takes the place of the installation's."""
        mode, conduit = mode or self.mode, conduit or self.conduit
        name = "-".join([os.path.splitext(os.path.basename(source))[0], conduit, mode, *flags])
        if compiler:
            name += "-" + os.path.basename(compiler[0])
        # All modules with tests share the programs.
        output = os.path.join(os.environ[jobs.FOLDER], "programs", self.configuration.flavour, name.replace("/", "_"))
        with jobs.built_once(output) as missing_yet:
            if missing_yet:
                done, messages = self.installation.compile(
                    [str(source)], output, conduit, mode, [*jobs.WARNINGS, *flags], compiler=compiler
                )
                if not done:
                    pytest.fail(f"{name} does not compile\n{messages}", pytrace=False)
        return output

    def environment(self, mark, ranks, extra):
        """The environment of a job."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("GASNET_", "MAKE", "MFLAGS"))}
        variables.update(self.network)
        variables.update({jobs.MARK: mark, "TMPDIR": self.temporary})
        if ranks:
            variables["GASNET_PSHM_NODES"] = str(ranks)
        if self.configuration.size:
            variables["GASNET_SUPERNODE_MAXSIZE"] = str(self.configuration.size)
        variables.update(extra)
        return variables

    def start(self, command, mark, ranks, extra=None, **popen):
        """A running job."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **popen}
        process = subprocess.Popen(
            command, env=self.environment(mark, ranks, extra or {}), start_new_session=True, cwd=self.folder, **options
        )
        OWN.add(process.pid)
        return process

    def run(self, command, ranks, extra=None, timeout=60, stdin=None, source=None, during=None):
        """Runs a job to its end: (status or None, output, seconds, leftovers). `stdin` is text for
        its standard input, `source` an open descriptor instead; `during` is called with the running
        process."""
        mark = os.urandom(12).hex()
        before = shared_memory()
        standard_input = (
            {"stdin": subprocess.PIPE} if stdin is not None else {"stdin": source} if source is not None else {}
        )
        started = time.monotonic()
        process = self.start(command, mark, ranks, extra, **standard_input)
        if during:
            during(process)
        try:
            output, _ = process.communicate(stdin, timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            hung = jobs.stacks(mark)
            jobs.kill_job(mark)
            output, _ = process.communicate()
            output += b"\n" + hung.encode()
            status = None
        seconds = time.monotonic() - started
        return status, output.decode(errors="replace"), seconds, self.leftovers(mark, before)

    def expect(self, command, status, *patterns, ranks=0, extra=None, timeout=60, **options):
        """Runs a job to its end, and fails the test if that is not as `problem_of` wants it.
        Returns the output."""
        got, output, _, left = self.run(command, ranks, extra, timeout, **options)
        check(problem_of(got, output, left, status, *patterns))
        return output

    def leftovers(self, mark, before, limit=3.0):
        """Lists what a job that should be over has left; empty if nothing."""
        deadline = time.monotonic() + limit
        while jobs.job_processes(mark) and time.monotonic() < deadline:
            reap()
            time.sleep(0.005)
        reap()
        left = [f"process {p}" for p in jobs.job_processes(mark)]
        jobs.kill_job(mark)
        for name in os.listdir(self.temporary):
            left.append(f"TMPDIR/{name}")
            # The next job is not to be blamed.
            path = os.path.join(self.temporary, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        # These may belong to a job of another script, which also ends soon.
        while (names := named(before)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return ", ".join(left + names)


def check(problem):
    """Fails the test with the text, if it is not empty."""
    if problem:
        pytest.fail(problem, pytrace=False)


def problem_of(got, output, left, status, *patterns):
    """Describes the defects of the end of a job; empty if there are none. A pattern must occur in
    the output, after "!" it must not, and `(pattern, number)` must occur that number of times."""
    if got is None:
        return f"out of time:\n{output[-20000:]}"
    if got != status:
        return f"exit status {got} instead of {status}: {output[-400:]!r}"
    if left:
        return f"left behind: {left}"
    for pattern in patterns:
        pattern, count = pattern if isinstance(pattern, tuple) else (pattern, None)
        unwanted, plain = pattern.startswith("!"), pattern.removeprefix("!")
        found = len(re.findall(plain, output, re.M))
        if count is not None and found != count:
            return f"output has {plain!r} {found} times instead of {count}: {output[-400:]!r}"
        if count is None and bool(found) == unwanted:
            return f"output {'has' if unwanted else 'lacks'} {plain!r}: {output[-400:]!r}"
    return ""


def reap():
    """Collects orphans that have ended and were inherited; never the job's own process, for which
    its Popen waits."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return
    for child in children:
        if child not in OWN:
            try:
                os.waitpid(child, os.WNOHANG)
            except OSError:
                pass


def shared_memory():
    """Names in /dev/shm that this library gives."""
    try:
        return {name for name in os.listdir("/dev/shm") if name.startswith("gasnet-")}
    except OSError:
        return set()


def named(before):
    """Lists objects with names of this library: shared memory, except the given names, and Unix
    sockets."""
    return [f"/dev/shm/{name}" for name in shared_memory() - before] + named_sockets()


def named_sockets():
    """Unix sockets with a name of this library, but for those of jobs of others under way."""
    with open("/proc/net/unix", errors="replace", encoding="utf-8") as file:
        lines = [line.split() for line in file if "gasnet-" in line.rpartition(" ")[2] and "gasnet-jobtest" not in line]
    return [words[-1] for words in lines if not is_of_a_job(words[-2])]


def is_of_a_job(inode):
    """Whether a process with a job's mark has the socket with this inode."""
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) == f"socket:[{inode}]":
                with open(f"{link.partition('/fd/')[0]}/environ", "rb") as file:
                    return f"{jobs.MARK}=".encode() in file.read()
        except OSError:
            pass
    return False


def children_of(pid):
    """Direct children of a process."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


@contextlib.contextmanager
def network_of(conduit, options):
    """Variables of an emulated network, which exists meanwhile; none where a conduit needs none."""
    words = jobs.emulated(conduit, os.path.join(os.environ[jobs.FOLDER], "emulators"), options)
    if not words:
        yield {}
        return
    with subprocess.Popen(
        [*words, "sh", "-c", "env -0 && printf '\\0' && exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        text = ""
        while not text.endswith("\0\0"):
            piece = process.stdout.read(1)
            if not piece:
                raise RuntimeError(f"the emulator for {conduit} did not start")
            text += piece
        found = dict(word.split("=", 1) for word in text.strip("\0").split("\0"))
        yield {name: value for name, value in found.items() if os.environ.get(name) != value}
        process.stdin.close()
