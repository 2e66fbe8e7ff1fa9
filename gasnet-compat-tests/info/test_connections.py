"""gasnet_info --attach: connections of networks that connect at the first message."""

import re
from pathlib import Path

import jobs
import pytest
from attaching import AGE, LIMIT, RANKS, Stuck, attach

pytestmark = pytest.mark.conduits("ibv", "ucx")


@pytest.fixture
def stuck(shop):
    """Jobs of stuck.c."""
    return Stuck(shop, shop.compile(Path(__file__).with_name("stuck.c")))


def test_being_made(stuck):
    """A stopped rank answers nobody who wants to connect."""
    connecting = [rf"rank {rank} has been making a connection to rank 1 for {AGE}" for rank in (0, 2)]
    stopped = "rank 1 has been stopped by a signal or a debugger"
    ranks = stuck.reports("connect", *connecting, stopped, GASNET_CONNECT_STATIC="0")["ranks"]
    assert [rank["connecting"] and rank["connecting"]["to"] for rank in ranks] == [1, None, 1], ranks
    assert all(rank["connections"] == 0 for rank in ranks), ranks


def test_up(shop, stuck):
    """Connections after a barrier, of which no more are being made."""
    process = shop.start([stuck.program, "barrier"], stuck.mark, RANKS, {"TEST_WATCHDOG": str(2 * LIMIT)})
    try:
        ranks = stuck.wait_for(process, [rf"rank 1 has polled in vain( for {AGE})?"])["ranks"]
        assert all(1 <= rank["connections"] <= RANKS for rank in ranks), ranks
        text = attach(shop, process.pid, "--prometheus")[1]
        assert len(re.findall(r"^gasnet_connections\{rank=.*\} [1-3]$", text, re.M)) == RANKS, text
        assert "gasnet_connecting_seconds{" not in text, text
    finally:
        jobs.kill_job(stuck.mark)
        process.communicate()
