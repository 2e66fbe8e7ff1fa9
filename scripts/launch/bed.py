"""What the launch tests stand on: a program built in several ways, hosts of scripts/cluster under
it, and a look at what a job did and left."""

import contextlib
import os
import re
import subprocess
import tempfile
import time

from hosts import Hosts
from processes import kill_group
from slurm import Slurm
from tunnel import Tunnel

# What process managers keep in these folders for themselves.
NOT_OURS = ("ompi.", "pmix", "prte", "spmix", "slurm", "hydra", "dstore", "dst-", "sm_segment", "gds")
CLIENTS = f"{os.path.dirname(os.path.abspath(__file__))}/../../gasnet-compat-tests"
LINE = re.compile(
    r"^rank (\d+) of (\d+) on (\S+) host (\d+)/(\d+) with (\d+) nbrhd (\d+)/(\d+) with (\d+) pid (\d+)$", re.M
)
# Beside the program's own time: a busy machine is no failure.
TIMEOUT = 90


class Wrong(Exception):
    """A test has failed; the text says why."""


class Skip(Exception):
    """A test cannot be made here; the text says why."""


class Rank:
    """What one rank said about its place."""

    def __init__(self, found):
        self.rank, self.size, self.host = int(found[1]), int(found[2]), found[3]
        self.hosts, self.nbrhds, self.in_nbrhd, self.pid = int(found[5]), int(found[8]), int(found[9]), int(found[10])


def blocks(ranks, names):
    """Where the ranks go: blocks as equal as possible, the larger ones first."""
    each, more = divmod(ranks, len(names))
    return [name for place, name in enumerate(names) for _ in range(each + (place < more))]


def cyclic(ranks, names):
    """The same, placed cyclically."""
    return [names[rank % len(names)] for rank in range(ranks)]


def quoted(text):
    """A text as the program prints it."""
    return (
        "[" + "".join(chr(b) if chr(b).isascii() and chr(b).isalnum() else f"\\x{b:02x}" for b in text.encode()) + "]"
    )


def short(text, most=500):
    """The end of a text, for a message."""
    return repr(text.strip()[-most:])


class Program:
    """The test program of one flavour and conduit, and the launcher for it in `prefix`."""

    def __init__(self, installation, prefix, flavour, conduit, path, network=()):
        self.installation, self.prefix, self.flavour, self.conduit, self.path = (
            installation,
            prefix,
            flavour,
            conduit,
            path,
        )
        self.folder = os.path.dirname(path)
        # The words that run a command on an emulated network of one host.
        self.network = list(network)
        self.launcher = f"{self.prefix}/bin/gasnetrun" + ("" if conduit == "any" else f"_{conduit}")

    def client(self, name):
        """Another program, `family/name` of gasnet-compat-tests, compiled once in the same way."""
        path = f"{self.folder}/{name.replace('/', '-')}"
        if not os.path.exists(path):
            done, messages = self.installation.compile(
                [f"{CLIENTS}/{name}.c"],
                path,
                self.conduit,
                "seq",
                ["-Wall", "-Wextra", "-Werror", f"-I{CLIENTS}/common"],
            )
            if not done:
                raise Wrong(f"{name} does not compile: {messages[-500:]}")
        return path


class Job:
    """A job under way on the first host (or `node`), whose output grows in files."""

    def __init__(self, bed, command, node=1, env=None, user=None, stdin=None):
        self.bed, self.command = bed, command
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self.process = bed.hosts.popen(
            node,
            [*bed.program.network, *command],
            env=env,
            user=user,
            cwd=bed.program.folder,
            stdout=self.out,
            stderr=self.err,
            stdin=stdin if stdin is not None else subprocess.DEVNULL,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            kill_group(self.process)
        self.out.close()
        self.err.close()

    def text(self):
        """Output and errors so far."""
        texts = []
        for file in (self.out, self.err):
            size = os.fstat(file.fileno()).st_size
            texts.append(os.pread(file.fileno(), size, 0).decode(errors="replace"))
        return texts

    def await_text(self, text, limit=TIMEOUT):
        """Until the job has said this."""
        end = time.monotonic() + limit
        while text not in self.text()[0]:
            if self.process.poll() is not None or time.monotonic() > end:
                raise Wrong(f"the job did not come to say {text!r}: {short(' '.join(self.text()))}")
            time.sleep(0.02)

    def await_ranks(self, text="waiting\n"):
        """Until all ranks wait, or rank 0 has said this; returns the places of all."""
        self.await_text(text)
        end = time.monotonic() + TIMEOUT
        # Managers pass on output in any order.
        while True:
            ranks = [Rank(found) for found in LINE.finditer(self.text()[0])]
            if (ranks and len(ranks) == ranks[0].size) or time.monotonic() > end:
                return sorted(ranks, key=lambda r: r.rank)
            time.sleep(0.02)

    def await_end(self, limit):
        """The exit code, as a shell gives it; it is a failure that the job runs for longer."""
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise Wrong(f"the job still ran {limit} s later: {short(' '.join(self.text()))}") from None
        return code if code >= 0 else 128 - code


class Bed:
    """Hosts of one kind, with Slurm if `slurm`, with a bad network if `tunnel`, for the tests of
    one program."""

    def __init__(self, count, slurm=False, tunnel=False, **options):
        self.hosts = Hosts(count, **options)
        self.slurm = Slurm(hosts=self.hosts, cpus=8) if slurm else None
        self.tunnel = Tunnel(self.hosts) if tunnel else None
        self.program, self.before = None, {}
        # Tests may take minutes.
        self.thorough = False

    def __enter__(self):
        self.hosts.__enter__()
        try:
            for more in filter(None, (self.slurm, self.tunnel)):
                more.__enter__()
        except BaseException:
            self.hosts.close(check=False)
            raise
        return self

    def __exit__(self, *details):
        for more in filter(None, (self.slurm, self.tunnel)):
            more.__exit__(*details)
        self.hosts.__exit__(*details)

    def names(self):
        """All hosts."""
        return self.hosts.names()

    def servers(self, *numbers):
        """The environment for the ssh spawner."""
        return {"GASNET_SSH_SERVERS": " ".join(f"node{n}" for n in numbers or self.hosts.numbers())}

    def launch(self, ranks, *arguments, options=(), client=None):
        """A command line with the launcher; `client`: not for the program of most tests, but for
        this one, as `Program.client` has it."""
        path = self.program.client(client) if client else self.program.path
        return [self.program.launcher, "-n", str(ranks), *options, path, *arguments]

    @contextlib.contextmanager
    def script(self, name, text):
        """A program for the shell, while it is needed: its place."""
        path = f"{self.program.folder}/{name}"
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
        try:
            yield path
        finally:
            os.remove(path)

    def files(self):
        """What lies in the hosts' folders for temporary files and shared memory."""
        found = set()
        for number, host in self.hosts.hosts.items():
            if not host.alive():
                continue
            for folder in ("/run/cluster/tmp", "/dev/shm"):
                for name in os.listdir(f"/proc/{host.pid}/root{folder}"):
                    if not name.startswith(NOT_OURS):
                        found.add(f"node{number}:{folder}/{name}")
        return found

    def look_around(self):
        """Before a job: what lies there already."""
        self.before = self.files()

    def strays(self, grace, cut=False):
        """What jobs have left running. `cut`: a host is cut off; its ssh server's session cannot
        know yet that nobody is there."""
        end = time.monotonic() + grace
        while True:
            found = [p for p in self.hosts.strays() if not (cut and p.command.startswith("sshd:"))]
            if not found or time.monotonic() >= end:
                return found
            time.sleep(0.05)

    def left(self, grace=10, cut=False):
        """Describes what a job has left behind; empty if nothing."""
        strays = [f"{p.command[:100]} (node{p.host})" for p in self.strays(grace, cut)]
        self.hosts.sweep()
        left = strays + sorted(self.files() - self.before)
        return "left behind: " + "; ".join(left) if left else ""

    def run(
        self,
        command,
        *,
        code=0,
        ranks=0,
        places=None,
        nbrhds=None,
        says=(),
        arguments=None,
        variables=None,
        env=None,
        stdin=None,
        user=None,
        node=1,
        limit=TIMEOUT,
        manager=False,
    ):
        """Runs a job and compares: the exit code (`code` None: any but 0), the places of all
        ranks (host by rank) and the number of neighbourhoods, patterns that its output must have
        (behind "!": must not), arguments and variables on the first and the last rank. Returns
        the output."""
        self.look_around()
        started = time.monotonic()
        command = [*self.program.network, *command]
        got = self.hosts.run(node, command, env=env, stdin=stdin, user=user, cwd=self.program.folder, timeout=limit)
        seconds = time.monotonic() - started
        status = got.code if got.code is None or got.code >= 0 else 128 - got.code
        text = got.stdout + got.stderr
        if status is None:
            self.hosts.sweep()
            raise Wrong(f"it still ran after {limit} s: {short(text)}")
        if status != code if code is not None else status == 0:
            raise Wrong(
                f"exit code {status} instead of {'a failure' if code is None else code} after {seconds:.1f} s: "
                f"{short(text)}"
            )
        found = sorted((Rank(f) for f in LINE.finditer(text)), key=lambda r: r.rank)
        if ranks or places is not None:
            compare_places(found, ranks or len(places), places, nbrhds, text)
        for pattern in says:
            unwanted, plain = pattern.startswith("!"), pattern.lstrip("!")
            if bool(re.search(plain, text, re.M)) == unwanted:
                raise Wrong(f"the output {'has' if unwanted else 'lacks'} {plain!r}: {short(text)}")
        ends = sorted({0, (ranks or len(places or [0])) - 1})
        if arguments is not None:
            expected = [f"rank {r} arg {quoted(a)}" for r in ends for a in arguments]
            lines = [line for line in text.splitlines() if re.match(r"rank \d+ arg ", line)]
            if sorted(lines) != sorted(expected):
                raise Wrong(f"arguments {lines} instead of {expected}")
        for name, value in (variables or {}).items():
            for rank in ends:
                line = f"rank {rank} env {name} {'unset' if value is None else quoted(value)}"
                if line not in text.splitlines():
                    seen = [other for other in text.splitlines() if other.startswith(f"rank {rank} env {name} ")]
                    raise Wrong(f"{seen} instead of {line}")
        left = self.left(20 if manager else 10)
        if left:
            raise Wrong(f"{left} (exit code {status} after {seconds:.1f} s: {short(text, 200)})")
        return text


def compare_places(found, ranks, places, nbrhds, text):
    """Whether each rank spoke once and is where it should be."""
    if [r.rank for r in found] != list(range(ranks)) or any(r.size != ranks for r in found):
        raise Wrong(f"ranks {[f'{r.rank}/{r.size}' for r in found]} instead of 0 to {ranks - 1} spoke: {short(text)}")
    hosts = [r.host for r in found]
    if places is not None and hosts != list(places):
        raise Wrong(f"ranks on {' '.join(hosts)} instead of {' '.join(places)}")
    if places is not None and found[0].hosts != len(set(places)):
        raise Wrong(f"{found[0].hosts} hosts instead of {len(set(places))}")
    if nbrhds is not None and found[0].nbrhds != nbrhds:
        raise Wrong(f"{found[0].nbrhds} neighbourhoods instead of {nbrhds}")
