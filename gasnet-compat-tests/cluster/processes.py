"""Finds processes by namespace or by a word of their command line, and ends them; looks for the
commands that we need."""

import collections
import os
import shutil
import signal
import unittest

SEARCH_PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

Process = collections.namedtuple("Process", "pid host command")


class Unavailable(unittest.SkipTest):
    """This machine, or this user, cannot have such a cluster; the text is the reason. Tests skip
    then."""


def need(*commands):
    """Raises Unavailable unless we are root and these commands exist."""
    if os.geteuid() != 0:
        raise Unavailable("only root can make hosts out of namespaces")
    missing = [c for c in commands if not shutil.which(c, path=SEARCH_PATH)]
    if missing:
        raise Unavailable(f"{', '.join(missing)} not found; `scripts/setup.sh cluster` installs what Debian has of it")


def processes_in(namespaces):
    """Living processes in these process namespaces ({inode: host}), as (pid as seen here, host,
    command line)."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            inode = os.stat(f"/proc/{entry}/ns/pid").st_ino
            if inode not in namespaces:
                continue
            with open(f"/proc/{entry}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # ended meanwhile
        if state not in b"ZX":
            found.append(Process(int(entry), namespaces[inode], words))
    return found


def marked(mark):
    """Processes with this word in their command line."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(entry)}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except (OSError, ValueError):
            continue
        if mark in words:
            found.append(Process(int(entry), 0, " ".join(words).strip()))
    return found


def kill_group(process):
    """Kills a process that `popen` started, and its group, also on the inside; collects it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.wait()
