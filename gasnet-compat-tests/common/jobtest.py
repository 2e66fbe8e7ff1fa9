"""Shared by the tests of launch and exit: compiles a program with an installation, starts it under
a mark, and finds what it left."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts", "check"))
import jobs  # noqa: E402  (found through the line above)

PREFIX = os.path.abspath(os.environ["PREFIX"])
CONDUIT = os.environ.get("CONDUIT", "smp")
MODES = os.environ.get("MODES", "seq parsync par").split()
MAXSIZE = os.environ.get("SUPERNODE_MAXSIZE", "")
QUICK = bool(os.environ.get("QUICK"))
SET_CHILD_SUBREAPER = 36
# Processes that their Popen waits for.
OWN = set()

failed = False


def report(name, problem):
    """Prints the line of one test."""
    global failed
    if problem:
        failed = True
    print(f"FAIL {name}: {problem}" if problem else f"PASS {name}", flush=True)


def finish():
    """Ends the script."""
    sys.exit(1 if failed else 0)


class Workshop:
    """A scratch folder with compiled programs, and an empty TMPDIR that must stay empty."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="gasnet-jobtest-", dir=os.environ.get("OUT") or None)
        self.temporary = os.path.join(self.folder, "tmp")
        os.mkdir(self.temporary)
        self.installation = jobs.Installation(PREFIX)
        # Orphans become children of this process, which can then tell a zombie that nobody reaped
        # from a process that lives.
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def compile(self, source, mode, conduit=CONDUIT, compiler=None, flags=()):
        """The compiled program, or none (reported). `compiler` takes the place of the
        installation's."""
        output = os.path.join(self.folder, f"{os.path.basename(source)[:-2]}-{mode}")
        done, messages = self.installation.compile(
            [source], output, conduit, mode, ["-Wall", "-Wextra", "-Werror", *flags], compiler=compiler
        )
        if not done:
            report(f"{os.path.basename(source)} {mode}", "does not compile\n" + messages)
        return output if done else None

    def environment(self, mark, ranks, extra):
        """The environment of a job."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("GASNET_", "MAKE", "MFLAGS"))}
        variables.update({jobs.MARK: mark, "TMPDIR": self.temporary})
        if ranks:
            variables["GASNET_PSHM_NODES"] = str(ranks)
        if MAXSIZE:
            variables["GASNET_SUPERNODE_MAXSIZE"] = MAXSIZE
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
        """Runs a job to its end: (status or None, output, seconds, what it left). `stdin` is text
        for its standard input, `source` an open descriptor instead; `during` is called with the
        running process."""
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
            jobs.kill_job(mark)
            output, _ = process.communicate()
            status = None
        seconds = time.monotonic() - started
        return status, output.decode(errors="replace"), seconds, self.leftovers(mark, before)

    def leftovers(self, mark, before, limit=3.0):
        """What a job that should be over has left, as text; empty: nothing."""
        deadline = time.monotonic() + limit
        while jobs.job_processes(mark) and time.monotonic() < deadline:
            reap()
            time.sleep(0.005)
        reap()
        left = [f"process {p}" for p in jobs.job_processes(mark)]
        jobs.kill_job(mark)
        left += [f"TMPDIR/{name}" for name in os.listdir(self.temporary)]
        # These may belong to a job of another script, which soon is over, too.
        while (names := named(before)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return ", ".join(left + names)


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
    """What has a name of this library: shared memory, but for the given names, and Unix sockets."""
    return [f"/dev/shm/{name}" for name in shared_memory() - before] + named_sockets()


def named_sockets():
    """Unix sockets with a name of this library."""
    with open("/proc/net/unix", errors="replace", encoding="utf-8") as file:
        return [
            line.split()[-1] for line in file if "gasnet-" in line.rpartition(" ")[2] and "gasnet-jobtest" not in line
        ]


def children_of(pid):
    """Direct children of a process."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []
