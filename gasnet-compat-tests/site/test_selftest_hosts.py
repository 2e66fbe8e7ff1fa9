"""gasnet_selftest over three hosts with different numbers of ranks, started by ssh."""

import json
import os
import re

import pytest
from bed import inside
from working import environment

# Both files; the JSON has all that is compared.
FILES = ("gasnet_selftest.txt", "gasnet_selftest.json")
# For a slow machine.
LIMIT = 300


@pytest.fixture
def report(bed):
    """Reads the report of the last job."""

    def read():
        with open(f"{bed.program.folder}/{FILES[1]}", encoding="utf-8") as file:
            return json.load(file)

    yield read
    for name in FILES:
        os.remove(f"{bed.program.folder}/{name}")


def selftest(bed, *options):
    """A command for four ranks: two on the first host, one on each other."""
    return [bed.program.launcher, "-n", "4", f"{bed.program.prefix}/bin/gasnet_selftest", "--quick", *options]


@pytest.mark.hosts("three", conduits=("udp",))
def test_uneven_hosts(bed, report):
    """All tests pass, that of uneven hosts among them, and the report names the hosts."""
    bed.run(selftest(bed), env=bed.servers(), limit=LIMIT)
    data = report()
    results = {row["test"]: row["result"] for row in data["tests"]}
    assert data["complete"] and data["result"] == "PASS", data
    assert results["uneven"] == "PASS" and results["put-nb"] == "PASS"
    hosts = [(host["name"], host["first"], host["ranks"]) for host in data["hosts"]]
    assert hosts == [("node1", 0, 2), ("node2", 2, 1), ("node3", 3, 1)]


@pytest.mark.hosts("three", conduits=("udp",))
def test_a_rank_that_stops_on_another_host(bed, report):
    """The failure names the hosts of the rank that does not answer, and of the others."""
    env = {**bed.servers(), "GASNET_EXITTIMEOUT": "5"}
    with bed.start(selftest(bed, "--limit", "4", "put"), env) as job:
        job.await_text("report    ")
        program = f"{bed.program.prefix}/bin/gasnet_selftest"
        # The agent of the host has started the rank.
        found = [p for p in bed.hosts.strays() if p.host == 3 and p.command.startswith(program)]
        bed.kill(3, max(inside(p.pid) for p in found), "STOP")
        job.over(1, "rank 3 on node3 does not answer", limit=LIMIT)
    data = report()
    (failed,) = [row for row in data["tests"] if row["result"] == "FAIL"]
    head, *ranks = failed["texts"]
    stopped = [text for text in ranks if text.startswith("rank 3 on node3 does not answer")]
    waiting = [text for text in ranks if re.search(r"rank \d on node[12] with (rank \d on node\d |all ranks)", text)]
    assert head.startswith("no progress") and (len(stopped), len(waiting)) == (1, 3), failed


@pytest.mark.hosts("bad-network", conduits=("udp",))
def test_a_bad_network(bed, report):
    """udp survives datagrams that are lost, doubled, late, damaged and cut."""
    faults = {"loss": 5, "duplicate": 5, "late": 20, "hold": 10, "corrupt": 3, "disguise": 3, "truncate": 3}
    bed.tunnel.heal()
    bed.tunnel.change(**faults)
    before = bed.tunnel.counts()
    bed.run(selftest(bed), env=environment(bed, (4, 3, 0)), limit=LIMIT)
    done = bed.tunnel.counts()
    assert all(done[bed.tunnel.FAULTS[name]] > before[bed.tunnel.FAULTS[name]] for name in faults), (before, done)
    assert report()["result"] == "PASS"
