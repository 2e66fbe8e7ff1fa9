"""An unauthenticated sender on the network of a job of the udp conduit: it captures what the job's
processes send each other, and floods them with forged and replayed datagrams."""

import re

import pytest
from bed import TIMEOUT, short
from working import at_work

MANY, FEW = 10_000_000, 100_000
DROPPED = re.compile(
    r"rank (\d) dropped (\d+) datagrams that were damaged, forged or misaddressed, and (\d+) duplicates"
)


def drops(bed):
    """Of each port: datagrams that the kernel dropped, because too many waited."""
    lines = bed.hosts.check(1, ["cat", "/proc/net/udp"]).splitlines()[1:]
    return {int(line.split()[1].partition(":")[2], 16): int(line.split()[-1]) for line in lines}


def flood(bed, work, forge, number):
    """The flood; returns how many rounds the job did meanwhile, and by rank how many datagrams it
    was sent that were forged, and replayed, and how many the kernel dropped."""
    work.await_rounds(20)
    work.weigh()
    before = work.rounds()
    forger = bed.hosts.run(1, [forge, str(number), str(number // 10)], timeout=10 * TIMEOUT)
    assert forger.code == 0, f"forge ended with {forger.code}: {short(forger.stdout + forger.stderr)}"
    done = work.rounds() - before
    work.await_rounds(20)
    # Later datagrams were read, and so were all before them.
    work.weigh_again()
    assert "answers 0\n" in forger.stdout, f"forge was answered: {forger.stdout}"
    by_port = drops(bed)
    sent = re.findall(r"^rank (\d+) port (\d+) forged (\d+) replayed (\d+)$", forger.stdout, re.M)
    return done, {int(rank): (int(forged), int(replayed), by_port[int(port)]) for rank, port, forged, replayed in sent}


def flooded(bed, number, milliseconds=0, **variables):
    """A job in such a flood, of which in each round one rank computes for so long; and whether the
    ranks' counts are right. Returns how many rounds it did during the flood."""
    forge = bed.program.client("launch/forge")
    with at_work(bed, str(milliseconds), GASNET_VERBOSEENV="1", TEST_WATCHDOG="1800", **variables) as work:
        done, sent = flood(bed, work, forge, number)
        found = DROPPED.findall(work.finish())
    said = {int(rank): (int(strange), int(again)) for rank, strange, again in found}
    assert sorted(said) == [0, 1] and sorted(sent) == [0, 1], (
        f"ranks {sorted(said)} said what they dropped, {sorted(sent)} were found by what they sent"
    )
    for rank, (forged, replayed, lost) in sent.items():
        strange, again = said[rank]
        # Of datagrams of the job the kernel may have dropped some, and some may then have come
        # twice.
        assert strange <= forged and strange + again + lost >= forged + replayed, (
            f"rank {rank} was sent {forged} forged and {replayed} replayed datagrams; "
            f"it counted {strange} and {again}, the kernel dropped {lost}"
        )
    return done


@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_flood(bed, record_property):
    done = flooded(bed, MANY if bed.thorough and bed.program.flavour == "release" else FEW)
    record_property("rounds", done)
    assert done != 0, "the job did nothing during the flood"


@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_flood_of_which_the_kernel_keeps_few(bed):
    # Most of the job's own datagrams are lost with the others, so that it need not do much before
    # the flood is over.
    flooded(bed, FEW, 40, GASNET_SOCKETBUFFER_MAX="64K")
