#!/usr/bin/env python3
"""One process of a job, for the self test: finds the process manager that started it, speaks with
it without any library of ours, waits for the others at its barrier, and prints: HOST KIND
RANK/SIZE. Kinds: pmi1, pmi2, pmix, none.

    probe.py [pmi1|pmi2|pmix]"""

import ctypes
import os
import socket
import sys


class Wire:
    """A connection to a manager: PMI_FD, or PMI_PORT as `host:port`."""

    def __init__(self):
        if "PMI_FD" in os.environ:
            self.socket = socket.socket(fileno=int(os.environ["PMI_FD"]))
        else:
            host, _, port = os.environ["PMI_PORT"].rpartition(":")
            self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.file = self.socket.makefile("rb")

    def send(self, text):
        """Some bytes."""
        self.socket.sendall(text.encode())

    def line(self, expected):
        """A line of `key=value` words, of this command."""
        line = self.file.readline().decode()
        words = dict(w.split("=", 1) for w in line.split())
        if words.get("cmd") != expected or words.get("rc", "0") != "0":
            raise RuntimeError(f"the manager answered {line!r}, not {expected}")
        return words

    def message(self, text, expected):
        """PMI-2: sends a message with its length before it, and returns the answer's values."""
        self.send(f"{len(text):6d}{text}")
        answer = self.file.read(int(self.file.read(6))).decode()
        words = dict(w.split("=", 1) for w in answer.split(";") if "=" in w)
        if words.get("cmd") != expected or words.get("rc", "0") != "0":
            raise RuntimeError(f"the manager answered {answer!r}, not {expected}")
        return words


def pmi1():
    """PMI-1: a line each way."""
    wire = Wire()
    rank, size = os.environ.get("PMI_RANK"), os.environ.get("PMI_SIZE")
    if "PMI_FD" not in os.environ:
        wire.send(f"cmd=initack pmiid={os.environ['PMI_ID']}\n")
        wire.line("initack")
        answer = {}
        while "debug" not in answer:
            answer.update(wire.line("set"))
        rank, size = answer["rank"], answer["size"]
    for sent, expected in (
        ("init pmi_version=1 pmi_subversion=1", "response_to_init"),
        ("barrier_in", "barrier_out"),
        ("finalize", "finalize_ack"),
    ):
        wire.send(f"cmd={sent}\n")
        wire.line(expected)
    return rank, size


def pmi2():
    """PMI-2: counted messages after a first line."""
    wire = Wire()
    wire.send("cmd=init pmi_version=2 pmi_subversion=0\n")
    wire.line("response_to_init")
    who = f"pmijobid={os.environ.get('PMI_JOBID', '')};pmirank={os.environ['PMI_RANK']};threaded=FALSE;"
    answer = wire.message(f"cmd=fullinit;{who}", "fullinit-response")
    wire.message("cmd=kvs-fence;", "kvs-fence-response")
    wire.message("cmd=finalize;", "finalize-response")
    return answer["rank"], answer["size"]


class Process(ctypes.Structure):
    """pmix_proc_t."""

    _fields_ = [("namespace", ctypes.c_char * 256), ("rank", ctypes.c_uint32)]


def pmix():
    """PMIx, by its library."""
    library, me = ctypes.CDLL("libpmix.so.2"), Process()
    for name, arguments in (
        ("PMIx_Init", (ctypes.byref(me), None, ctypes.c_size_t(0))),
        ("PMIx_Fence", (None, ctypes.c_size_t(0)) * 2),
        ("PMIx_Finalize", (None, ctypes.c_size_t(0))),
    ):
        code = getattr(library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} returned {code}")
    return me.rank, os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ["SLURM_NTASKS"]


def main():
    """Prints its place and its findings."""
    kinds = {
        "pmi1": pmi1,
        "pmi2": pmi2,
        "pmix": pmix,
        "none": lambda: (os.environ.get("SLURM_PROCID", "0"), os.environ.get("SLURM_NTASKS", "1")),
    }
    if len(sys.argv) > 1:
        kind = sys.argv[1]
    elif "PMIX_RANK" in os.environ:
        kind = "pmix"
    elif "PMI_JOBID" in os.environ:
        kind = "pmi2"
    else:
        kind = "pmi1" if {"PMI_FD", "PMI_PORT"} & set(os.environ) else "none"
    rank, size = kinds[kind]()
    sys.stdout.write(f"{socket.gethostname()} {kind} {rank}/{size}\n")


if __name__ == "__main__":
    main()
