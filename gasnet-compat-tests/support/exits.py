"""How jobs end: the cases of gasnet-compat-tests/exit/exit_cases.c, with the exit status and the
output of each."""

import os

import workshop

# An orderly or failed end takes far less; a busy rank is given a second, a stopped one the exit
# timeout. No test depends on less than this.
LIMIT = 120.0

QUIT_LINE = r"in the SIGQUIT handler"


class Case:
    """Name, expected exit status, and patterns for the output as in `workshop.problem_of`."""

    def __init__(
        self,
        name,
        status,
        *patterns,
        ranks=(1, 2, 4),
        tries=1,
        handler=False,
        threads=False,
        environment=None,
        stdin=False,
        background=False,
        networks=True,
        alone=True,
    ):
        self.name, self.status, self.patterns, self.ranks, self.tries = name, status, patterns, ranks, tries
        self.handler, self.threads, self.environment = handler, threads, environment or {}
        # `stdin`: an input that stays open and empty. `networks`: not only on smp; `alone`: on smp,
        # too.
        self.stdin, self.background, self.networks, self.alone = stdin, background, networks, alone

    def __str__(self):
        variant = ["handler"] * self.handler + ["background"] * self.background
        variant += [f"{name.removeprefix('GASNET_')}={value}" for name, value in self.environment.items()]
        return "-".join([self.name, *variant])

    def command(self, program):
        """The command to start: the program, or a shell that ignores for it the signals that shells
        make background jobs ignore."""
        words = [program, self.name] + ["handler"] * self.handler
        return ["sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh", *words] if self.background else words

    def check(self, shop, command, count):
        """Runs the job, and fails the test if it does not end so."""
        reader, writer = os.pipe()
        try:
            source = reader if self.stdin else None
            status, output, _, left = shop.run(command, count, self.environment, LIMIT, source=source)
        finally:
            os.close(reader)
            os.close(writer)
        # A shell's number for a signal; a job of one rank dies of it itself.
        status = 128 - status if status is not None and status < 0 else status
        workshop.check(workshop.problem_of(status, output, left, self.status, *self.patterns))


SEVERAL = (2, 4)
NO_ATEXIT = "!atexit ran"
# Ranks that are at work have GASNET_EXITTIMEOUT_MAX.
SHORT_TIMEOUT = {"GASNET_EXITTIMEOUT_MIN": "0.5", "GASNET_EXITTIMEOUT_FACTOR": "0"}
# A rank is frozen for 3 s; it needs a part of the timeout to get there.
FROZEN = {"GASNET_EXITTIMEOUT": "1.5", "GASNET_FREEZE_ON_ERROR": "1"}

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
    Case("exit-alarm", 22, "kept until the end", ranks=SEVERAL, tries=3),
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


# Those that end with the same code under other launchers, where no node agent has the last word.
UNDER_LAUNCHERS = [
    "collective-exit",
    "collective-return",
    "exit-barrier",
    "exit-wait",
    "exit-poll",
    "exit-spin",
    "early-collective",
    "early-one",
    "early-return-one",
    "return-barrier",
    "return-spin",
    "handlers-collective",
    "handler-remote",
    "handler-loopback",
    "handler-many",
    "prepared-request",
    "prepared-reply",
    "unflushed",
    "threads-collective",
    "thread-one-spin",
    "thread-one-poll",
    "segv",
    "kill",
    "kill-wait",
    "kill-flood",
]


def simplest(name):
    """The case of this name with the fewest variations."""
    return min((case for case in CASES if case.name == name), key=lambda case: len(str(case)))
