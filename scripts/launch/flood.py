"""An unauthenticated sender on the network of a job of the udp conduit: it captures what the job's
processes send each other, and floods them with forged and replayed datagrams."""

import os
import re
import time

from bed import TIMEOUT, Wrong, short
from cases import case
from ends import over, starting

MANY, FEW = 10_000_000, 100_000
# Memory that ranks may take more than before, MiB: buffers of the socket's are the kernel's.
GROWTH = 64
DROPPED = re.compile(
    r"rank (\d) dropped (\d+) datagrams that were damaged, forged or misaddressed, and (\d+) duplicates"
)


def rounds(job):
    """How many rounds of its work a job has said to be done."""
    found = re.findall(r"^rounds (\d+)$", job.text()[0], re.M)
    return int(found[-1]) if found else 0


def await_rounds(job, more):
    """Until so many more rounds are done; returns how many there are then."""
    before, end = rounds(job), time.monotonic() + TIMEOUT
    while rounds(job) < before + more:
        if job.process.poll() is not None or time.monotonic() > end:
            raise Wrong(f"after {rounds(job)} rounds the job does not go on: {short(' '.join(job.text()))}")
        time.sleep(0.05)
    return rounds(job)


def drops(bed):
    """Of each port: datagrams that the kernel dropped, because too many waited."""
    lines = bed.hosts.check(1, ["cat", "/proc/net/udp"]).splitlines()[1:]
    return {int(line.split()[1].partition(":")[2], 16): int(line.split()[-1]) for line in lines}


def resident(bed, path):
    """The largest process of a program, in MiB."""
    most = 0
    for process in bed.hosts.strays():
        if process.command.startswith(path):
            with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as file:
                found = re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M)
            most = max(most, int(found[1]) // 1024 if found else 0)
    return most


def flood(bed, job, work, forge, number):
    """The flood; returns how many rounds the job did meanwhile, and by rank how many datagrams it
    was sent that were forged, and replayed, and how many the kernel dropped."""
    await_rounds(job, 20)
    memory, before = resident(bed, work), rounds(job)
    forger = bed.hosts.run(1, [forge, str(number), str(number // 10)], timeout=10 * TIMEOUT)
    if forger.code != 0:
        raise Wrong(f"forge ended with {forger.code}: {short(forger.stdout + forger.stderr)}")
    done = rounds(job) - before
    await_rounds(job, 20)
    # What came later was read, and so was all that had come before.
    grown = resident(bed, work) - memory
    if grown > GROWTH:
        raise Wrong(f"a rank takes {grown} MiB more than before")
    if "answers 0\n" not in forger.stdout:
        raise Wrong(f"forge was answered: {forger.stdout}")
    by_port = drops(bed)
    sent = re.findall(r"^rank (\d+) port (\d+) forged (\d+) replayed (\d+)$", forger.stdout, re.M)
    return done, {int(rank): (int(forged), int(replayed), by_port[int(port)]) for rank, port, forged, replayed in sent}


def flooded(bed, number, milliseconds=0, **variables):
    """A job in such a flood, of which in each round one rank computes for so long; and whether the
    ranks' counts are right."""
    work, forge = bed.program.client("launch/launch_work"), bed.program.client("launch/forge")
    stop = f"{bed.program.folder}/stop"
    env = {"GASNET_SUPERNODE_MAXSIZE": "1", "GASNET_VERBOSEENV": "1", "TEST_WATCHDOG": "1800", **variables}
    try:
        with starting(bed, [bed.program.launcher, "-n", "2", work, stop, str(milliseconds)], env) as job:
            done, sent = flood(bed, job, work, forge, number)
            with open(stop, "w", encoding="ascii"):
                pass
            over(bed, job, 0, "^PASS launch_work")
            said = {int(rank): (int(strange), int(again)) for rank, strange, again in DROPPED.findall(job.text()[1])}
    finally:
        if os.path.exists(stop):
            os.remove(stop)
    if sorted(said) != [0, 1] or sorted(sent) != [0, 1]:
        raise Wrong(f"ranks {sorted(said)} said what they dropped, {sorted(sent)} were found by what they sent")
    for rank, (forged, replayed, lost) in sent.items():
        strange, again = said[rank]
        what = (
            f"rank {rank} was sent {forged} forged and {replayed} replayed datagrams; "
            f"it counted {strange} and {again}, the kernel dropped {lost}"
        )
        print(f"     {what}", flush=True)
        # Of datagrams of the job the kernel may have dropped some, and some may then have come
        # twice.
        if strange > forged or strange + again + lost < forged + replayed:
            raise Wrong(what)
    return done


@case("safety: a flood of forged datagrams", "one", quick=True, conduits=("udp",))
def _(bed):
    done = flooded(bed, MANY if bed.thorough and bed.program.flavour == "release" else FEW)
    print(f"     {done} rounds of work during the flood", flush=True)
    if done == 0:
        raise Wrong("the job did nothing during the flood")


@case("safety: a flood of forged datagrams, of which the kernel keeps few", "one", quick=True, conduits=("udp",))
def _(bed):
    # Most of the job's own datagrams are lost with the others, so that it need not do much before
    # the flood is over.
    flooded(bed, FEW, 40, GASNET_SOCKETBUFFER_MAX="64K")
