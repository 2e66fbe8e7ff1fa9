"""Signals to the started process reach the ranks; its death ends them."""

import os
import signal
import time

import exits
import pytest
import workshop

SIGNALS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129, signal.SIGKILL: -9}


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("case", ["wait", "spin"])
def test_started_process(shop, exit_cases, case, number):
    def send(process):
        process.stdout.readline()
        time.sleep(0.1)
        os.kill(process.pid, number)

    shop.expect([exit_cases, case], SIGNALS[number], "!received", ranks=3, during=send, timeout=exits.LIMIT)


@pytest.mark.parametrize("case", ["wait", "spin"])
def test_stopped_orphan(shop, exit_cases, case):
    """A rank that is stopped ends with the started process too."""

    def stop_and_kill(process):
        process.stdout.readline()
        for rank in workshop.children_of(process.pid)[1:]:
            os.kill(rank, signal.SIGSTOP)
        os.kill(process.pid, signal.SIGKILL)

    shop.expect([exit_cases, case], -9, ranks=3, during=stop_and_kill, timeout=exits.LIMIT)
