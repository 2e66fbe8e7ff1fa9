"""Starts in processes with other threads: every thread lives on in every rank, whichever thread
initialises; and signals to the started process reach the handlers of all ranks, whenever these were
installed. The same for a program started by hand, by the launcher, and (as the control) by a
process manager."""

import os
import shutil
import signal

import pytest

HERE = os.path.dirname(__file__)
LIMIT = 90.0
RANKS = 3
WAYS = ["directly", "launcher"]
ALL = [(rf"^rank \d of {RANKS}, ", RANKS), ("^main goes on$", RANKS)]
SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT]


@pytest.fixture
def threads(shop):
    """The program."""
    if shop.mode != "par":
        pytest.skip("threads need the mode par")
    return shop.compile(f"{HERE}/threads.c", flags=["-fopenmp"])


def start(shop, how):
    """The words before a program, and the number of ranks in the environment."""
    words = {"launcher": [shop.launcher, "-n", str(RANKS)], "mpiexec": ["mpiexec.hydra", "-n", str(RANKS)]}
    return words.get(how, []), RANKS if how == "directly" else 0


def sender(number):
    """Sends a signal to a process that has begun to write."""

    def send(process):
        process.stdout.readline()
        os.kill(process.pid, number)

    return send


@pytest.mark.parametrize("how", [*WAYS, *(["mpiexec"] if shutil.which("mpiexec.hydra") else [])])
@pytest.mark.parametrize(
    "what, patterns",
    [
        ("team", [("^teams of 3 and 3$", RANKS)]),
        ("thread", []),
        ("concurrent", []),
        ("changed a,b", [("^main began as started$", RANKS)]),
    ],
    ids=["team", "thread", "concurrent", "changed"],
)
def test_threads(shop, threads, what, patterns, how):
    words, ranks = start(shop, how)
    shop.expect([*words, threads, *what.split()], 0, *ALL, *patterns, ranks=ranks, timeout=LIMIT)


def test_exit_code(shop, threads):
    shop.expect([threads, "team", "7"], 7, ranks=RANKS, timeout=LIMIT)


def test_labels(shop, threads):
    shop.expect([shop.launcher, "-n", "3", "-l", threads, "team"], 0, (r"^\[(\d)\] rank \1 of 3", 3), timeout=LIMIT)


def test_bound(shop, threads):
    extra = {"OMP_PROC_BIND": "true"}
    shop.expect([threads, "team"], 0, ("^teams of 3 and 3$", 3), ranks=RANKS, extra=extra, timeout=LIMIT)


def test_waiting_for_signals(shop, threads):
    patterns = ("^SIGUSR1 came$", RANKS), ("^main goes on$", RANKS)
    shop.expect([threads, "sigwait"], 0, *patterns, ranks=RANKS, timeout=LIMIT, during=sender(signal.SIGUSR1))


def test_no_other_thread(shop, threads):
    """The ranks are forked."""
    started = []
    output = shop.expect(
        [threads, "single"], 0, ranks=RANKS, timeout=LIMIT, during=lambda process: started.append(process.pid)
    )
    assert output.count(f"parent {started[0]}\n") == RANKS


@pytest.mark.parametrize("number, status", [(signal.SIGKILL, -9), (signal.SIGTERM, 143)], ids=["SIGKILL", "SIGTERM"])
def test_end_by_signal(shop, threads, number, status):
    shop.expect([threads, "hang"], status, ranks=RANKS, timeout=LIMIT, during=sender(number))


@pytest.mark.parametrize(
    "what, message",
    [
        ("absent", r"^gasnet: rank 1 of 3 \(pid \d+\) ended with status 0 before gex_Client_Init .*; ending the job$"),
        ("forked", "then forks the process that initialises GASNet"),
    ],
    ids=["absent", "forked"],
)
def test_refusal(shop, threads, what, message):
    """A program that cannot be started in this way ends with a message, and at once."""
    shop.expect([threads, what], 1, message, ranks=RANKS, timeout=LIMIT)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("when", ["before", "after", "thread"])
def test_handlers(shop, when, how, number):
    if when == "thread" and shop.mode != "par":
        pytest.skip("threads need the mode par")
    words, ranks = start(shop, how)
    command = [*words, shop.compile(f"{HERE}/signals.c"), when]
    patterns = rf"^rank \d got signal {int(number)}$", RANKS
    shop.expect(command, 0, patterns, ranks=ranks, timeout=LIMIT, during=sender(number))
