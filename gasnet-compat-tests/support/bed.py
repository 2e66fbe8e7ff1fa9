"""Fixture of tests over several hosts: a program built in several ways, hosts of the folder cluster
under it, and a look at what a job did and left. kinds.py makes it."""

import contextlib
import os
import re
import subprocess
import tempfile
import time

import jobs
import pytest
from hosts import Hosts
from processes import kill_group
from slurm import Slurm
from tunnel import Tunnel

# Files of process managers in these folders.
NOT_OURS = ("ompi.", "pmix", "prte", "spmix", "slurm", "hydra", "dstore", "dst-", "sm_segment", "gds")
CLIENTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINE = re.compile(
    r"^rank (\d+) of (\d+) on (\S+) host (\d+)/(\d+) with (\d+) nbrhd (\d+)/(\d+) with (\d+) pid (\d+)$", re.M
)
# Beside the program's own time: a busy machine is no failure.
TIMEOUT = 90
# After a loss. Silence of a host is noticed after 30 s.
SOON, AFTER_SILENCE = 40, 90
# Any exit code; None means any but 0.
ANY = "any"


class Wrong(pytest.fail.Exception):
    """A failure; the text is the reason."""

    def __init__(self, text):
        super().__init__(text, pytrace=False)


class Rank:
    """The place of a rank, as it reports it."""

    def __init__(self, found):
        self.rank, self.size, self.host = int(found[1]), int(found[2]), found[3]
        self.hosts, self.nbrhds, self.in_nbrhd, self.pid = int(found[5]), int(found[8]), int(found[9]), int(found[10])


def blocks(ranks, names):
    """Places of ranks in blocks as equal as possible, the larger ones first."""
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
    """The test program of one flavour and conduit, in a folder of its own, and the launcher for it
    in `prefix`. `network`: the words that run a command on an emulated network of one host."""

    def __init__(self, installation, prefix, flavour, conduit, folder, network):
        self.installation, self.prefix, self.flavour, self.conduit = installation, prefix, flavour, conduit
        self.folder, self.network = folder, network
        self.path = self.client("launch/launch_place")
        self.launcher = f"{self.prefix}/bin/gasnetrun" + ("" if conduit == "any" else f"_{conduit}")

    def client(self, name):
        """A program, `family/name` of gasnet-compat-tests, compiled once."""
        path = f"{self.folder}/{os.path.basename(name)}"
        if not os.path.exists(path):
            done, messages = self.installation.compile(
                [f"{CLIENTS}/{name}.c"],
                path,
                self.conduit,
                "seq",
                [*jobs.WARNINGS, f"-I{CLIENTS}/common"],
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
        """Waits until the job has printed this."""
        end = time.monotonic() + limit
        while text not in self.text()[0]:
            if self.process.poll() is not None or time.monotonic() > end:
                raise Wrong(f"the job did not come to say {text!r}: {short(' '.join(self.text()))}")
            time.sleep(0.02)

    def await_ranks(self, text="waiting\n"):
        """Waits until all ranks wait, or rank 0 has printed this; returns the places of all."""
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

    def over(self, code, *says, limit=SOON, grace=15, cut=False):
        """The job ends in time, as it should, and leaves nothing."""
        got = self.await_end(limit)
        text = " ".join(self.text())
        if code != ANY and (got != code if code is not None else got == 0):
            raise Wrong(f"exit code {got} instead of {'a failure' if code is None else code}: {short(text)}")
        for pattern in says:
            if not re.search(pattern, text, re.M):
                raise Wrong(f"the output lacks {pattern!r}: {short(text)}")
        left = self.bed.left(grace, cut)
        if left:
            raise Wrong(f"{left}: {short(text, 200)}")


def inside(pid):
    """A process's number on its own host."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return int(next(line for line in file if line.startswith("NSpid:")).split()[-1])


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

    @contextlib.contextmanager
    def firewall(self, rule):
        """A rule of nftables for incoming packets, on all hosts, for the duration of the block."""
        table = f"table inet wall {{ chain input {{ type filter hook input priority 0; {rule}; }}; }}\n"
        try:
            for host in self.hosts.numbers():
                self.hosts.check(host, ["nft", "-f", "-"], stdin=table)
            yield
        finally:
            for host in self.hosts.numbers():
                self.hosts.check(host, ["nft", "-f", "-"], stdin="table inet wall\ndelete table inet wall\n")

    def files(self):
        """Files in the hosts' folders for temporary files and shared memory."""
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
        """Before a job: records the objects that exist already."""
        self.before = self.files()

    def start(self, words, env):
        """A job in the background."""
        self.look_around()
        return Job(self, words, env=env)

    def waiting(self, servers, ranks=5):
        """A job whose ranks wait, with the ssh spawner."""
        return self.start(self.launch(ranks, "--end=wait"), {"TEST_WATCHDOG": "300", **servers})

    def agents(self, ranks, host, program=None):
        """Processes of the program (of most tests, unless `program`) on a host that are no
        ranks."""
        own = {r.pid for r in ranks if r.host == f"node{host}"}
        return [
            p
            for p in self.hosts.strays()
            if p.host == host and p.command.startswith(program or self.program.path) and inside(p.pid) not in own
        ]

    def first_process(self, program=None):
        """The starting process, which has the lowest number of the program's on its host."""
        program = program or self.program.path
        return min(inside(p.pid) for p in self.hosts.strays() if p.host == 1 and p.command.startswith(program))

    def kill(self, host, pid, signal="KILL"):
        """Sends a signal to a process by its number on its host."""
        self.hosts.check(host, ["kill", f"-{signal}", str(pid)])

    def strays(self, grace, cut=False):
        """Processes that jobs have left. `cut`: a host is cut off; its ssh server's session cannot
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
