"""What the parts of the self test share."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT_SECONDS = 60


class Failed(Exception):
    """What was seen instead."""


def expect(condition, seen):
    """Fails with what was seen."""
    if not condition:
        raise Failed(seen)


def python(name, *arguments):
    """A program of this folder, with a Python that everybody may run."""
    return [
        "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable,
        "-B",
        f"{HERE}/{name}",
        *arguments,
    ]


def nothing_running(hosts):
    """No process of the last job is left on any host."""
    left = hosts.strays(TIMEOUT_SECONDS)
    expect(not left, f"left running: {left}")
