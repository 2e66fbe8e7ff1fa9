"""Shared parts of the tests of this folder."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CLUSTER = os.path.dirname(HERE)
TIMEOUT_SECONDS = 60


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
    assert not left, f"left running: {left}"


def machine():
    """State that must be as before, when hosts have gone: interfaces, mounts and folders of the
    machine, as far as hosts have such ones."""
    interfaces = sorted(n for n in os.listdir("/sys/class/net") if n.startswith(("node", "bridge", "eth", "tun")))
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = sorted(
            line
            for line in file
            if line.split()[4].startswith(("/run", "/etc", "/proc", "/sys", "/dev/shm", "/var/log"))
        )
    return interfaces, mounts, os.path.exists("/run/cluster"), os.path.exists("/run/netns")
