"""Signals to the started process: the same for a program started by hand and by the launcher."""

import os
import re
import signal

import jobtest

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCHER = f"{jobtest.PREFIX}/bin/gasnetrun_{jobtest.CONDUIT}"
LIMIT = 90.0
RANKS = 3
SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT]


def ways():
    """How a job is started: name, the words before the program, the number of ranks in the
    environment."""
    return [("directly", [], RANKS), ("by launcher", [LAUNCHER, "-n", str(RANKS)], 0)]


def problem_of(expected, counts, result):
    """What is wrong with a result: its status, and how often patterns occur in its output."""
    status, output, _, left = result
    if status != expected:
        return f"exit status {status} instead of {expected}: {output[-400:]!r}"
    for pattern, count in counts.items():
        if len(re.findall(pattern, output, re.M)) != count:
            return f"not {count} times {pattern!r}: {output[-400:]!r}"
    return f"left behind: {left}" if left else ""


def test_signals(shop, mode):
    """Signals to the started process reach the handlers of all ranks, whenever these were
    installed."""
    program = shop.compile(os.path.join(HERE, "signals.c"), mode)
    if not program:
        return
    for when in ("before", "after"):
        for how, words, count in ways():
            for number in SIGNALS:

                def send(process, number=number):
                    process.stdout.readline()
                    os.kill(process.pid, number)

                result = shop.run([*words, program, when], count, timeout=LIMIT, during=send)
                counts = {rf"^rank \d got signal {int(number)}$": RANKS}
                jobtest.report(f"launch: {number.name}, handlers {when}, {how}", problem_of(0, counts, result))
