"""Jobs over hosts that work until a file exists, while a test disturbs them: net_faults, which does
rounds of messages and transfers, and launch_work, whose ranks work in turns."""

import contextlib
import os
import re
import time

from bed import TIMEOUT, Wrong, short

# Ranks, hosts, and the most ranks that share memory (0: all of a host).
PAIR, FIVE_ON_TWO, FIVE_ON_THREE, FIVE_ALONE_ON_TWO, FIVE_ALONE = (2, 2, 0), (5, 2, 0), (5, 3, 0), (5, 2, 1), (5, 3, 1)
SHAPES = {
    "pair": PAIR,
    "5-on-2": FIVE_ON_TWO,
    "5-on-3": FIVE_ON_THREE,
    "5-on-2-alone": FIVE_ALONE_ON_TWO,
    "5-on-3-alone": FIVE_ALONE,
}
# Seconds.
LIMIT = 300
RIGHT = r"^rank \d+: \d+ messages, \d+ transfers, all right$"
# Memory that ranks may take more than before, MiB: buffers of sockets are the kernel's.
GROWTH = 64


def environment(bed, shape):
    """Variables of a job of this shape."""
    _, hosts, most = shape
    values = {
        "TEST_WATCHDOG": str(LIMIT - 20),
        "GASNET_SUPERNODE_MAXSIZE": str(most),
        **bed.servers(*range(1, hosts + 1)),
    }
    networks = (
        bed.tunnel.networks() if bed.tunnel else [re.sub(r"1$", "0", address) for address in bed.hosts.addresses(1)]
    )
    if bed.tunnel or len(networks) > 1:
        # Some tests are over IPv4, the others over IPv6, where there are both.
        values["GASNET_WORKERIP"] = networks[most % len(networks)]
    return values


def all_right(text, ranks):
    """Every rank has printed its line."""
    found = re.findall(RIGHT, text, re.M)
    if len(found) != ranks:
        raise Wrong(f"{len(found)} of {ranks} ranks found all right: {short(text)}")


class UnderWay:
    """A job that does rounds until its stop file appears."""

    def __init__(self, job, ranks, path):
        self.job, self.size, self.path = job, ranks, path
        self.ranks = job.await_ranks("round 1\n")

    def rounds(self, more=2):
        """Until it has done more rounds: the first of them may have been under way before."""
        done = self.job.text()[0].count("\nround ")
        self.job.await_text(f"\nround {done + more}\n", LIMIT)

    def end(self):
        """It ends in order, and everything was right."""
        with open(self.path, "w", encoding="ascii"):
            pass
        self.job.over(0, limit=LIMIT)
        all_right(self.job.text()[0], self.size)

    def kill(self, rank, signal="KILL"):
        """Sends a signal to a rank, and returns its record."""
        place = self.ranks[rank]
        self.job.bed.kill(int(place.host.removeprefix("node")), place.pid, signal)
        return place

    def stop(self, rank, seconds):
        """Stops a rank for this time, while others send to it. It continues, and ends normally."""
        self.kill(rank, "STOP")
        time.sleep(seconds)
        self.kill(rank, "CONT")
        self.rounds()
        self.end()

    def lose(self, rank):
        """A rank is killed; the job ends at once and names it."""
        lost = self.kill(rank)
        self.job.over(137, f"rank {lost.rank} of {lost.size} .*SIGKILL")


@contextlib.contextmanager
def stop_file(bed):
    """The path of a file that ends a job."""
    path = f"{bed.program.folder}/enough"
    try:
        yield path
    finally:
        if os.path.exists(path):
            os.remove(path)


@contextlib.contextmanager
def under_way(bed, shape, *arguments):
    """A job with the ssh spawner that does rounds for as long as the test wants."""
    with stop_file(bed) as path:
        command = bed.launch(shape[0], "--rounds=1", f"--until={path}", *arguments, client="launch/net_faults")
        with bed.start(command, environment(bed, shape)) as job:
            yield UnderWay(job, shape[0], path)


class Work:
    """A job of launch_work, whose two ranks share no memory and work until its stop file
    appears."""

    def __init__(self, bed, job, program, path):
        self.bed, self.job, self.program, self.path, self.memory = bed, job, program, path, 0

    def rounds(self):
        """Number of rounds that it has reported."""
        found = re.findall(r"^rounds (\d+)$", self.job.text()[0], re.M)
        return int(found[-1]) if found else 0

    def await_rounds(self, more):
        """Waits for this number of further rounds."""
        before, end = self.rounds(), time.monotonic() + TIMEOUT
        while self.rounds() < before + more:
            if self.job.process.poll() is not None or time.monotonic() > end:
                text = short(" ".join(self.job.text()))
                raise Wrong(f"after {self.rounds()} rounds the job does not go on: {text}")
            time.sleep(0.05)

    def resident(self):
        """Its largest process, in MiB."""
        most = 0
        for process in self.bed.hosts.strays():
            if process.command.startswith(self.program):
                with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as file:
                    found = re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M)
                most = max(most, int(found[1]) // 1024 if found else 0)
        return most

    def weigh(self):
        """Remembers how much memory it takes."""
        self.memory = self.resident()

    def weigh_again(self):
        """Fails when it takes much more."""
        grown = self.resident() - self.memory
        if grown > GROWTH:
            raise Wrong(f"a rank takes {grown} MiB more than before")

    def finish(self):
        """It ends in order; returns its errors."""
        with open(self.path, "w", encoding="ascii"):
            pass
        self.job.over(0, "^PASS launch_work")
        return self.job.text()[1]


@contextlib.contextmanager
def at_work(bed, *arguments, **variables):
    """A job of launch_work, which the test finishes."""
    program = bed.program.client("launch/launch_work")
    with stop_file(bed) as path:
        command = [bed.program.launcher, "-n", "2", program, path, *arguments]
        with bed.start(command, {"GASNET_SUPERNODE_MAXSIZE": "1", **variables}) as job:
            yield Work(bed, job, program, path)
