"""Starts in processes with other threads, and signals to the started process: the same for a
program started by hand, by the launcher, and (as the control) by a process manager."""

import os
import re
import shutil
import signal

import jobtest

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCHER = f"{jobtest.PREFIX}/bin/gasnetrun_{jobtest.CONDUIT}"
LIMIT = 90.0
RANKS = 3
SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT]


def ways(manager):
    """How a job is started: name, the words before the program, the number of ranks in the
    environment."""
    found = [("directly", [], RANKS), ("by launcher", [LAUNCHER, "-n", str(RANKS)], 0)]
    if manager and shutil.which("mpiexec.hydra"):
        found.append(("by mpiexec", ["mpiexec.hydra", "-n", str(RANKS)], 0))
    return found


def problem_of(expected, counts, result):
    """What is wrong with a result: its status, and how often patterns occur in its output."""
    status, output, _, left = result
    if status != expected:
        return f"exit status {status} instead of {expected}: {output[-400:]!r}"
    for pattern, count in counts.items():
        if len(re.findall(pattern, output, re.M)) != count:
            return f"not {count} times {pattern!r}: {output[-400:]!r}"
    return f"left behind: {left}" if left else ""


def test_threads(shop, mode):
    """Every thread lives on in every rank, whichever thread initialises."""
    if mode != "par":
        print("SKIP launch: threads need the mode par")
        return
    program = shop.compile(os.path.join(HERE, "threads.c"), mode, flags=["-fopenmp"])
    if not program:
        return
    ranks = {rf"^rank \d of {RANKS}, ": RANKS, "^main goes on$": RANKS}
    for what, more, extra in (
        ("team", {"^teams of 3 and 3$": RANKS}, []),
        ("thread", {}, []),
        ("concurrent", {}, []),
        ("changed", {"^main began as started$": RANKS}, ["a,b"]),
    ):
        for how, words, count in ways(manager=True):
            result = shop.run([*words, program, what, *extra], count, timeout=LIMIT)
            jobtest.report(f"launch: threads, {what}, {how}", problem_of(0, ranks | more, result))
    run_codes(shop, program)
    run_refusals(shop, program)


def run_codes(shop, program):
    """The exit code is the job's; labels, bound threads and signals that end the job are
    what they are for forked ranks."""
    for name, words, extra, status, counts in (
        ("exit code", [program, "team", "7"], {}, 7, {}),
        ("labels", [LAUNCHER, "-n", "3", "-l", program, "team"], {}, 0, {r"^\[(\d)\] rank \1 of 3": 3}),
        ("bound threads", [program, "team"], {"OMP_PROC_BIND": "true"}, 0, {"^teams of 3 and 3$": 3}),
    ):
        result = shop.run(words, 0 if words[0] == LAUNCHER else RANKS, extra, LIMIT)
        jobtest.report(f"launch: threads, {name}", problem_of(status, counts, result))

    def send_usr1(process):
        process.stdout.readline()
        os.kill(process.pid, signal.SIGUSR1)

    result = shop.run([program, "sigwait"], RANKS, timeout=LIMIT, during=send_usr1)
    counts = {"^SIGUSR1 came$": RANKS, "^main goes on$": RANKS}
    jobtest.report("launch: threads, one waits for signals", problem_of(0, counts, result))
    started = []
    result = shop.run([program, "single"], RANKS, timeout=LIMIT, during=lambda process: started.append(process.pid))
    jobtest.report("launch: no other thread, forked ranks", problem_of(0, {rf"parent {started[0]}$": RANKS}, result))
    for number in (signal.SIGKILL, signal.SIGTERM):

        def send(process, number=number):
            process.stdout.readline()
            os.kill(process.pid, number)

        result = shop.run([program, "hang"], RANKS, timeout=LIMIT, during=send)
        expected = -number if number == signal.SIGKILL else 128 + number
        jobtest.report(f"launch: threads, {number.name} to the started process", problem_of(expected, {}, result))


def run_refusals(shop, program):
    """What cannot be started so ends with a message, and at once."""
    for what, message in (
        ("absent", r"^gasnet: rank 1 of 3 \(pid \d+\) ended with status 0 before gex_Client_Init .*; ending the job$"),
        ("forked", "then forks the process that initialises GASNet"),
    ):
        result = shop.run([program, what], RANKS, timeout=LIMIT)
        problem = problem_of(1, {}, result)
        if not problem and not re.search(message, result[1], re.M):
            problem = f"no message: {result[1][-400:]!r}"
        jobtest.report(f"launch: threads, {what}", problem)


def test_signals(shop, mode):
    """Signals to the started process reach the handlers of all ranks, whenever these were
    installed."""
    program = shop.compile(os.path.join(HERE, "signals.c"), mode)
    if not program:
        return
    for when in ("before", "after", "thread") if mode == "par" else ("before", "after"):
        for how, words, count in ways(manager=False):
            for number in SIGNALS:

                def send(process, number=number):
                    process.stdout.readline()
                    os.kill(process.pid, number)

                result = shop.run([*words, program, when], count, timeout=LIMIT, during=send)
                counts = {rf"^rank \d got signal {int(number)}$": RANKS}
                jobtest.report(f"launch: {number.name}, handlers {when}, {how}", problem_of(0, counts, result))
