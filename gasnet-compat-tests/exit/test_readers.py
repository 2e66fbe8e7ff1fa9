"""Jobs whose output is read late or never."""

import os
import signal
import subprocess
import time

import exits
import pytest
import workshop

SHORT = {"GASNET_EXITTIMEOUT": "0.5"}


def test_slow_reader(shop, exit_cases):
    """Output that its reader takes late is complete: the exit timeout is for ranks that hang, not
    for ranks whose output waits."""
    process = shop.start([exit_cases, "much-output"], os.urandom(12).hex(), 2, SHORT)
    time.sleep(3)
    output, _ = process.communicate()
    # "started", 20000 lines of each rank, and that its exit handler ran
    assert (process.returncode, output.count(b"\n")) == (0, 40003)


@pytest.mark.parametrize(
    "case, count, number, to",
    [
        ("much-output", 1, "SIGTERM", "started"),
        ("much-output", 1, "SIGQUIT", "started"),
        ("kept-output", 1, "SIGTERM", "started"),
        ("much-output", 2, "SIGTERM", "started"),
        ("kept-output", 2, "SIGTERM", "started"),
        ("much-output", 2, "SIGTERM", "rank"),
        ("kept-output", 2, "SIGTERM", "rank"),
    ],
    ids=lambda value: f"np{value}" if isinstance(value, int) else value,
)
def test_no_reader(shop, exit_cases, case, count, number, to):
    """A signal ends a job whose output nobody reads, also one of a single rank, which has no node
    agent; and that is no success."""
    process = shop.start([exit_cases, case], os.urandom(12).hex(), count, SHORT)
    time.sleep(1)
    ended = process.poll() is not None
    number = signal.Signals[number]
    os.kill(workshop.children_of(process.pid)[0] if to == "rank" else process.pid, number)
    try:
        status = process.wait(exits.LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"it waits for its reader {exits.LIMIT} s after the signal", pytrace=False)
    finally:
        process.stdout.close()
    assert not ended, "it ended by itself"
    assert status == 128 + number
