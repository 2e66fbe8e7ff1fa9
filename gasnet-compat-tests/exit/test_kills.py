"""SIGKILL at random instants of a job's life, with the launcher and without: an end, and nothing
left behind."""

import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass

import exits
import pytest
import workshop

SEED = os.environ.get("SEED") or "20250830"  # any text


@dataclass
class Kill:
    """One SIGKILL: at which part of the job's usual time, and of which rank (None: the process that
    was started)."""

    instant: float
    count: int
    launched: bool
    rank: int

    def __str__(self):
        victim = "started" if self.rank is None else f"rank{self.rank}"
        return f"np{self.count}-{'launcher' if self.launched else 'directly'}-{victim}-at{self.instant:.4f}"


def kills(seed, count):
    """Random ones, the same for the same seed."""
    generator = random.Random(seed)
    for _ in range(count):
        # Half of the instants are in the first tenth: start and attach.
        instant = generator.uniform(0, 0.15 if generator.random() < 0.5 else 1.05)
        ranks, launched = generator.choice((1, 2, 4, 7)), generator.random() < 0.5
        yield Kill(instant, ranks, launched, generator.choice((None, generator.randrange(ranks))))


def pytest_generate_tests(metafunc):
    chosen = kills(SEED, 24 if metafunc.config.option.slice else 200)
    metafunc.parametrize("kill", chosen, ids=str)


@pytest.fixture(scope="module")
def life(shop):
    """The program, the seconds that it takes undisturbed, and when there is no time for more."""
    program = shop.compile(f"{os.path.dirname(__file__)}/life.c")
    _, _, length, _ = shop.run([program], 4, timeout=exits.LIMIT)
    return program, length, time.monotonic() + 600


def test_kill(shop, life, kill):
    program, length, deadline = life
    if time.monotonic() > deadline:
        pytest.skip("enough time has passed")
    mark, before, delay = os.urandom(12).hex(), workshop.shared_memory(), kill.instant * length
    command, ranks = [program], kill.count
    if kill.launched:
        command, ranks = [shop.launcher, "-n", str(ranks), program], 0
    process = shop.start(command, mark, ranks, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = time.monotonic()
    while (rest := delay - (time.monotonic() - started)) > 0:
        time.sleep(min(0.0005, rest))
    children = workshop.children_of(process.pid)
    victim = process.pid if kill.rank is None or kill.rank >= len(children) else children[kill.rank]
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        status = process.wait(exits.LIMIT)
    except subprocess.TimeoutExpired:
        left = shop.leftovers(mark, before, 0)
        process.wait()
        pytest.fail(f"did not end: {left}", pytrace=False)
    left = shop.leftovers(mark, before)
    assert not left, f"left behind: {left}"
    assert status in ((-9, 0) if victim == process.pid else (137, 0))
