"""Ends of jobs in a bad environment, or after a wrong call: they work, or print a message."""

import re
import signal

import pytest


def expect(shop, wanted, pattern, command, ranks, extra=None, flags=re.I | re.M):
    """Runs a job and fails the test when its end has a problem."""
    job = shop.run(command, ranks, extra)
    if problem := problem_of(job, wanted, pattern, flags):
        pytest.fail("\n    ".join([problem, *job[1].splitlines()[:15]]), pytrace=False)


def problem_of(job, wanted, pattern, flags):
    """Describes the defects of a job, as Workshop.run returns it; empty if there are none.
    `wanted`: a status, "bad" (any but 0) or "handled": it works and prints a line that begins with
    "fine", or ends with another status and a text that matches."""
    status, output, _, left = job
    if status is None or (wanted == "handled" and status in (-signal.SIGKILL, 137)):
        return "it hangs or was killed"
    if status == 99 or "still alive" in output:
        return "a rank outlived the job"
    if "panicked at" in output or "defect of the library" in output:
        return "a panic instead of a message"
    if wanted == "handled":
        wanted, pattern, flags = (0, "^fine", re.M) if status == 0 else ("bad", pattern, flags)
    if status == 0 if wanted == "bad" else status != wanted:
        return f"status {status}, expected {wanted}"
    if not re.search(pattern, output, flags):
        return f"status {status}; no text matches: {pattern}"
    return f"left behind: {left}" if left else ""
