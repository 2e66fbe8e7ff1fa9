"""How jobs end. See run.sh. Exit codes, output, time, and nothing left behind: for every way to
end a job, and for SIGKILL of the started process or a rank, with the launcher and without, at
random instants of a job's life."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
import jobtest  # noqa: E402  (found through the line above)

SEED = os.environ.get("SEED") or "20250830"  # any text
# An orderly or failed end takes far less; a busy rank is given a second, a stopped one the exit
# timeout. No test depends on less than this.
LIMIT = 120.0

QUIT_LINE = r"in the SIGQUIT handler"


class Case:
    """Name, expected exit status, and what the output must (or, behind "!", must not) match."""

    def __init__(
        self,
        name,
        status,
        *patterns,
        ranks=(1, 2, 4),
        handler=False,
        threads=False,
        environment=None,
        stdin=None,
        background=False,
        networks=True,
        alone=True,
    ):
        self.name, self.status, self.patterns, self.ranks, self.handler = name, status, patterns, ranks, handler
        self.threads, self.environment, self.stdin, self.background = threads, environment or {}, stdin, background
        self.networks, self.alone = networks, alone

    def command(self, program):
        """What to start: the program, or a shell that ignores for it what shells make their
        background jobs ignore."""
        words = [program, self.name] + (["handler"] if self.handler else [])
        return ["sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh", *words] if self.background else words

    def label(self):
        """What a line of the result calls it."""
        how = (" with SIGQUIT handler" if self.handler else "") + (" in the background" if self.background else "")
        return f"exit: {self.name}{how}{settings(self.environment)}"


SEVERAL = (2, 4)
NO_ATEXIT = "!atexit ran"
# Ranks that are at work have GASNET_EXITTIMEOUT_MAX.
SHORT_TIMEOUT = {"GASNET_EXITTIMEOUT_MIN": "0.5", "GASNET_EXITTIMEOUT_FACTOR": "0"}
FROZEN = {"GASNET_EXITTIMEOUT": "0.5", "GASNET_FREEZE_ON_ERROR": "1"}

CASES = [
    Case("success", 0, "started", "atexit ran"),
    Case("collective-exit", 1, "started", NO_ATEXIT, "!" + QUIT_LINE, handler=True),
    Case("collective-return", 2, "atexit ran", "!" + QUIT_LINE, handler=True),
    Case("handler-calls", 0, "atexit ran", "!atexit went on"),
    Case("handler-hangs", 20, "atexit ran", environment={"GASNET_EXITTIMEOUT": "0.5"}),
    Case("handler-ends", 7, r"rank \d of \d .* called exit with code 0, but ended with status 7", ranks=SEVERAL),
    Case("handler-ends", 7, ranks=(1,)),
    Case("handler-ends-gasnet", 7),
    Case("handler-killed", 137, "called exit with code 0, but was killed by SIGKILL", ranks=SEVERAL),
    Case("destructor-aborts", 134, r"Caught a fatal signal \(rank \d+/\d+\): SIGABRT\(6\)"),
    Case("handler-fails-late", 3, "called exit with code 3, but ended with status 7", ranks=SEVERAL),
    Case("handler-computes", 0, "the handler has finished", environment=SHORT_TIMEOUT),
    Case("handler-starved", 0, "the handler has finished", environment={"GASNET_EXITTIMEOUT": "0.5"}),
    Case("handler-frozen", 134, "SIGABRT", "FROZEN", environment=FROZEN),
    Case("frozen", 134, "FROZEN", "was killed by SIGABRT", "!and was killed;", ranks=SEVERAL, environment=FROZEN),
    Case("traced", 5, ranks=SEVERAL, environment={"GASNET_EXITTIMEOUT": "0.5"}),
    Case("collective-different", 21, ranks=SEVERAL),
    # A network needs its descriptors; shared memory does not.
    Case("closed-exit", 0, NO_ATEXIT, networks=False),
    Case("closed-return", 0, "atexit ran", networks=False),
    Case("closed-one", 22, ranks=SEVERAL, networks=False),
    Case("closed-spin", 0, ranks=SEVERAL, networks=False, environment={"GASNET_EXITTIMEOUT": "0.5"}),
    Case("exit-barrier", 3, QUIT_LINE, ranks=SEVERAL, handler=True),
    Case("exit-barrier", 3, ranks=(1, 2, 4, 7)),
    Case("exit-wait", 3, ranks=SEVERAL),
    Case("exit-poll", 3, ranks=SEVERAL),
    Case("exit-spin", 5, QUIT_LINE, ranks=SEVERAL, handler=True),
    Case("exit-spin", 5, ranks=SEVERAL),
    Case("exit-zero-barrier", 0, ranks=SEVERAL),
    Case("early-collective", 6),
    Case("early-one", 7),
    Case("early-return-one", 8),
    Case("early-abort", 134, r"rank \d+ of \d+ \(pid \d+\) was killed by SIGABRT", ranks=SEVERAL),
    Case("return-barrier", 8, QUIT_LINE, ranks=SEVERAL, handler=True),
    Case("return-barrier", 8),
    Case("return-spin", 9, ranks=SEVERAL),
    Case("handlers-collective", 10),
    Case("handler-remote", 11),
    Case("handler-loopback", 12),
    Case("handler-many", 13),
    Case("handler-abort", 134, r"Caught a fatal signal \(rank \d+/\d+\): SIGABRT\(6\)"),
    Case("handler-segv", 139, r"Caught a fatal signal \(rank \d+/\d+\): SIGSEGV\(11\)"),
    Case("prepared-request", 14),
    Case("prepared-reply", 15),
    Case("signal-handler", 18),
    # A signal handler's exit waits for no lock that the interrupted code holds.
    Case("exit-alarm", 22, "kept until the end", ranks=(2, 2, 2, 4, 4, 4)),
    Case("int", 4, QUIT_LINE, handler=True),
    Case("int", 130),
    Case("int", 130, background=True),
    Case("int", 4, QUIT_LINE, handler=True, background=True),
    Case("exit-spin", 5, ranks=SEVERAL, background=True),
    Case("term", 4, QUIT_LINE, handler=True),
    Case("term", 143, ranks=(1,)),
    Case("term", 143, r"rank \d+ of \d+ \(pid \d+\) received SIGTERM, which ended the job", ranks=SEVERAL),
    Case("term-spin", 143, "received SIGTERM, which ended the job", ranks=SEVERAL),
    Case("abort", 134, r"\*\*\* Caught a fatal signal \(rank \d+/\d+\): SIGABRT\(6\)"),
    Case("fatalerror", 134, "a made-up error"),
    Case("segv", 139, r"Caught a fatal signal \(rank \d+/\d+\): SIGSEGV\(11\)"),
    Case("segv", 139, QUIT_LINE, ranks=SEVERAL, handler=True),
    Case("segv", 139, "!Caught a fatal signal", environment={"GASNET_NO_CATCH_SIGNAL": "SEGV,sigfpe"}),
    Case("segv", 139, "!Caught a fatal signal", environment={"GASNET_NO_CATCH_SIGNAL": "*"}),
    Case("segv-everywhere", 139),
    Case("bus", 135),
    Case("fpe", 136),
    Case("kill", 137, r"rank \d+ of \d+ \(pid \d+\) was killed by SIGKILL; ending the job", ranks=SEVERAL),
    Case("kill", 137, ranks=(1,)),
    Case("kill-spin", 137, ranks=SEVERAL),
    Case("kill-wait", 137, r"rank \d+ of \d+ \(pid \d+\) was killed by SIGKILL", ranks=SEVERAL),
    Case("kill-flood", 137, r"rank \d+ of \d+ \(pid \d+\) was killed by SIGKILL", ranks=SEVERAL),
    Case("raw-exit", 9, "without gasnet_exit", ranks=SEVERAL),
    Case("raw-exit-zero", 5, "status 0 without gasnet_exit", ranks=SEVERAL),
    Case("stop", 16, ranks=SEVERAL, environment={"GASNET_EXITTIMEOUT": "0.5"}),
    Case("child-exits", 0, "the job went on"),
    Case("child-gasnet-exits", 0, "the job went on"),
    Case("child-crashes", 0, "the job went on"),
    Case("late-output", 0, "rank 0 was given time"),
    Case("late-work", 0, "rank 0 has finished its work", environment=SHORT_TIMEOUT),
    Case("late-sleep", 0, "rank 0 has finished its work", environment=SHORT_TIMEOUT),
    Case("late-poll", 0, "!rank 0 has finished its work", ranks=SEVERAL, environment=SHORT_TIMEOUT),
    Case(
        "late-child",
        0,
        "rank 0 has finished its work",
        ranks=SEVERAL,
        threads=True,
        alone=False,
        environment={"GASNET_RCV_THREAD": "1", "GASNET_SUPERNODE_MAXSIZE": "0", **SHORT_TIMEOUT},
    ),
    Case(
        "late-served",
        0,
        "!has not ended long after",
        ranks=SEVERAL,
        threads=True,
        alone=False,
        environment={"GASNET_RCV_THREAD": "1", "GASNET_SUPERNODE_MAXSIZE": "0", **SHORT_TIMEOUT},
    ),
    Case(
        "thread-overflow",
        139,
        r"Caught a fatal signal \(rank \d+/\d+\): SIGSEGV\(11\)",
        "Backtrace by EXECINFO",
        threads=True,
        environment={"GASNET_BACKTRACE": "1", "GASNET_BACKTRACE_TYPE": "EXECINFO"},
    ),
    Case("late-thread", 0, "rank 0 has finished its work", threads=True),
    Case(
        "late-work",
        0,
        "rank 0 has not ended long after the others",
        ranks=SEVERAL,
        environment={"GASNET_EXITTIMEOUT": "0.5"},
    ),
    Case("unflushed", 17, *(f"rank {r} wrote this" for r in range(4)), ranks=(4,)),
    Case("unflushed-spin", 17, *(f"rank {r} wrote this" for r in range(4)), ranks=(4,)),
    Case("collective-return", 2, "atexit ran", environment={"GASNET_CATCH_EXIT": "0"}),
    Case("return-barrier", 8, "atexit ran", ranks=SEVERAL, environment={"GASNET_CATCH_EXIT": "0"}),
    Case("collective-exit", 1, NO_ATEXIT, environment={"GASNET_CATCH_EXIT": "0"}),
    Case("threads-collective", 51, threads=True),
    Case("thread-one-spin", 53, threads=True),
    Case("thread-one-poll", 53, threads=True),
    Case("thread-reads", 19, threads=True, stdin=True),
]


def problem_of(case, status, output, left):
    """What is wrong with the end of a job."""
    if status is None:
        return "out of time"
    # A shell's number for a signal; a job of one rank dies of it itself.
    status = 128 - status if status < 0 else status
    if status != case.status:
        return f"exit status {status} instead of {case.status}: {output[-300:]!r}"
    if left:
        return f"left behind: {left}"
    for pattern in case.patterns:
        unwanted, pattern = pattern.startswith("!"), pattern.lstrip("!")
        if bool(re.search(pattern, output)) == unwanted:
            return f"output {'has' if unwanted else 'lacks'} {pattern!r}: {output[-300:]!r}"
    return ""


def run_cases(shop, programs):
    """Every case in every mode and number of ranks. The modes have the same code: a quick check
    takes one case in eight of the others than PAR, with the most ranks."""
    for mode, program in programs.items():
        in_part = jobtest.QUICK and mode != "par" and len(programs) > 1
        for number, case in enumerate(CASES):
            fits = case.alone if jobtest.CONDUIT == "smp" else case.networks
            if (case.threads and mode != "par") or not fits or (in_part and (number + len(mode)) % 8):
                continue
            for count in case.ranks[-1:] if in_part else case.ranks:
                status, output, _, left = run_case(shop, case.command(program), count, case)
                jobtest.report(f"{case.label()} {mode} np={count}", problem_of(case, status, output, left))


def settings(environment):
    """An environment for a label."""
    return "".join(f" {name}={value}" for name, value in environment.items())


def run_case(shop, command, count, case):
    """Runs one case, on request with a standard input that stays open and empty."""
    if not case.stdin:
        return shop.run(command, count, case.environment, LIMIT)
    reader, writer = os.pipe()
    try:
        return shop.run(command, count, case.environment, LIMIT, source=reader)
    finally:
        os.close(reader)
        os.close(writer)


def run_network_failure(shop, program):
    """The network of a rank fails without a peer as the reason: a message, and the end of all. The
    fault counts packets, so the barriers are not those of the network."""
    faults = {"GASNET_FAULTS": "network=1:40", "GASNET_SUPERNODE_MAXSIZE": "1", "GASNET_BARRIER": "AMDISSEM"}
    status, output, _, left = shop.run([program, "barriers"], 3, faults, LIMIT)
    message = "rank 1: the network has failed: GASNET_FAULTS: the port is down"
    problem = "" if status and message in output and not left else f"status {status}, left {left}: {output[-300:]}"
    jobtest.report("exit: a network that fails", problem)


@contextlib.contextmanager
def memory_group(limit):
    """A control group that may use so many bytes; none if this user cannot make one."""
    root = "/sys/fs/cgroup"
    unified = os.path.exists(f"{root}/cgroup.controllers")
    group = f"{root}/{'' if unified else 'memory/'}gasnet-exit-test-{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError:
        yield None
        return
    try:
        with open(f"{group}/memory.{'max' if unified else 'limit_in_bytes'}", "w", encoding="ascii") as file:
            file.write(str(limit))
        yield group
    except OSError:
        yield None
    finally:
        os.rmdir(group)


def run_out_of_memory(shop, program):
    """A kill by the kernel for lack of memory is named."""
    name = "exit: a rank is killed for lack of memory"
    with memory_group(256 << 20) as group:
        if not group:
            print(f"SKIP {name}: no control group for memory")
            return
        join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        status, output, _, left = shop.run(["sh", "-c", join, "sh", program, "memory"], 3, timeout=LIMIT)
        if "there is no limit" in output:
            print(f"SKIP {name}: the kernel swaps")
            return
        pattern = r"rank \d of 3 \(pid \d+\) was killed by SIGKILL \(out of memory: oom_kill \d+ in .*\); ending"
        good = status == 137 and not left and re.search(pattern, output)
        jobtest.report(name, "" if good else f"status {status}, left {left}: {output[-300:]!r}")


def run_slow_reader(shop, program):
    """Output that its reader takes late is complete: the exit timeout is for ranks that hang, not
    for ranks whose output waits."""
    mark = os.urandom(12).hex()
    process = shop.start([program, "much-output"], mark, 2, {"GASNET_EXITTIMEOUT": "0.5"})
    time.sleep(3)
    output, _ = process.communicate()
    count = output.count(b"\n")  # "started", 20000 lines of each rank, and that its exit handler ran
    jobtest.report(
        "exit: a slow reader gets all output",
        "" if (process.returncode, count) == (0, 40003) else f"{process.returncode}, {count} lines",
    )


def run_no_reader(shop, program):
    """A signal ends a job whose output nobody reads, also one of a single rank, which has no node
    agent; and that is no success."""
    started, rank = "the started process", "a rank"
    for case, count, number, target in (
        ("much-output", 1, signal.SIGTERM, started),
        ("much-output", 1, signal.SIGQUIT, started),
        ("kept-output", 1, signal.SIGTERM, started),
        ("much-output", 2, signal.SIGTERM, started),
        ("kept-output", 2, signal.SIGTERM, started),
        ("much-output", 2, signal.SIGTERM, rank),
        ("kept-output", 2, signal.SIGTERM, rank),
    ):
        process = shop.start([program, case], os.urandom(12).hex(), count, {"GASNET_EXITTIMEOUT": "0.5"})
        time.sleep(1)
        problem = "it ended by itself" if process.poll() is not None else ""
        os.kill(process.pid if target is started else jobtest.children_of(process.pid)[0], number)
        try:
            if process.wait(LIMIT) != 128 + number:
                problem = f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            problem = f"it waits for its reader {LIMIT} s after the signal"
            process.kill()
        process.stdout.close()
        jobtest.report(f"exit: {number.name} to {target} and a reader who never reads, {case}, ranks: {count}", problem)


def run_signals_to_started(shop, program):
    """Signals to the started process reach the ranks; its death ends them."""
    for case in ("wait", "spin"):
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGKILL, -9)):

            def send(process, number=number):
                process.stdout.readline()
                time.sleep(0.1)
                os.kill(process.pid, number)

            got, output, _, left = shop.run([program, case], 3, during=send, timeout=LIMIT)
            problem = (
                ""
                if got == status and not left and "received" not in output
                else f"status {got}, left: {left}, {output[-200:]!r}"
            )
            jobtest.report(f"exit: {signal.Signals(number).name} to the started process, ranks {case}", problem)


def run_stopped_orphan(shop, program):
    """A rank that is stopped ends with the started process too."""
    for case in ("wait", "spin"):

        def stop_and_kill(process):
            process.stdout.readline()
            for rank in jobtest.children_of(process.pid)[1:]:
                os.kill(rank, signal.SIGSTOP)
            os.kill(process.pid, signal.SIGKILL)

        got, output, _, left = shop.run([program, case], 3, during=stop_and_kill, timeout=LIMIT)
        problem = "" if got == -9 and not left else f"status {got}, left: {left}, {output[-200:]!r}"
        jobtest.report(f"exit: SIGKILL to the started process, ranks {case}, some of them stopped", problem)


class Kill:
    """One SIGKILL: whom, and when."""

    def __init__(self, generator, length):
        # Half of the instants lie in the first tenth: start and attach.
        self.delay = generator.uniform(0, length * (0.15 if generator.random() < 0.5 else 1.05))
        self.ranks = generator.choice((1, 2, 4, 7))
        self.by_launcher = generator.random() < 0.5
        self.victim = generator.choice(("started process", "rank"))
        self.rank = generator.randrange(self.ranks)

    def __str__(self):
        how = "gasnetrun" if self.by_launcher else "directly"
        rank = self.rank if self.victim == "rank" else ""
        return f"{self.victim} {rank} of {self.ranks} ranks started {how}, after {self.delay * 1e3:.2f} ms"


def kill_once(shop, program, launcher, kill):
    """Starts a job, kills, and returns what is wrong."""
    mark = os.urandom(12).hex()
    before = jobtest.shared_memory()
    command = [launcher, "-n", str(kill.ranks), program] if kill.by_launcher else [program]
    process = shop.start(
        command, mark, 0 if kill.by_launcher else kill.ranks, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    started = time.monotonic()
    while time.monotonic() - started < kill.delay:
        time.sleep(max(0.0, min(0.0005, kill.delay - (time.monotonic() - started))))
    children = jobtest.children_of(process.pid)
    victim = process.pid
    if kill.victim == "rank" and kill.rank < len(children):
        victim = children[kill.rank]
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        status = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        left = shop.leftovers(mark, before, 0)
        process.wait()
        return f"did not end: {left}"
    left = shop.leftovers(mark, before)
    if left:
        return f"left behind: {left}"
    expected = (-9, 0) if victim == process.pid else (137, 0)
    return "" if status in expected else f"exit status {status}"


def run_kills(shop, program):
    """SIGKILL at random instants, the same ones for the same seed."""
    launcher = f"{jobtest.PREFIX}/bin/gasnetrun_{jobtest.CONDUIT}"
    _, _, length, _ = shop.run([program], 4, timeout=LIMIT)
    generator = random.Random(SEED)
    count = 24 if jobtest.QUICK else 200
    deadline = time.monotonic() + 600
    done, problems = 0, []
    while done < count and time.monotonic() < deadline:
        kill = Kill(generator, length)
        problem = kill_once(shop, program, launcher, kill)
        if problem:
            problems.append(f"{kill}: {problem}")
        done += 1
    jobtest.report(f"exit: SIGKILL at {done} random instants (seed {SEED})", "; ".join(problems[:5]))


def main():
    """All tests."""
    with jobtest.Workshop() as shop:
        programs = {mode: shop.compile(os.path.join(HERE, "exit_cases.c"), mode) for mode in jobtest.MODES}
        if not all(programs.values()):
            jobtest.finish()
        mode = "par" if "par" in programs else jobtest.MODES[0]
        run_cases(shop, programs)
        if os.environ.get("FLAVOUR") == "debug" and jobtest.CONDUIT != "smp":
            run_network_failure(shop, programs[mode])
        run_out_of_memory(shop, programs[mode])
        run_slow_reader(shop, programs[mode])
        run_no_reader(shop, programs[mode])
        run_signals_to_started(shop, programs[mode])
        run_stopped_orphan(shop, programs[mode])
        life = shop.compile(os.path.join(HERE, "life.c"), mode)
        if life:
            run_kills(shop, life)
    jobtest.finish()


if __name__ == "__main__":
    main()
