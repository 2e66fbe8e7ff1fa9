"""How jobs start. See run.sh. Direct execution and the launcher: ranks, arguments, environment,
standard input and output, exit codes, and a message for every error."""

import os
import pty
import re
import select
import shutil
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
import jobtest  # noqa: E402  (found through the line above)
import starts  # noqa: E402

LAUNCHER = f"{jobtest.PREFIX}/bin/gasnetrun_{jobtest.CONDUIT}"
LIMIT = 60.0
ODD_ARGUMENTS = [
    "",
    "a b",
    "c'd",
    'e"f',
    "$HOME",
    "`id`",
    "*",
    "\\",
    "-n",
    "--",
    "tab\there",
    "é",
    "new\nline",
]

# Variables that clients set on any conduit, with values of theirs (conduit/src/config/tests.rs has
# the names, too): in effect here, accepted, and unknown.
USED = [
    ("GASNET_SMP_SPAWNER", "fork"),
    ("GASNET_SPAWN_VERBOSE", "0"),
    ("GASNET_BACKTRACE", "1"),
    ("GASNET_FREEZE_ON_ERROR", "0"),
    ("GASNET_CATCH_EXIT", "1"),
    ("GASNET_EXITTIMEOUT_FACTOR", "0.5"),
    ("GASNET_EXITTIMEOUT_MIN", "10"),
    ("GASNET_MAX_SEGSIZE", "128.0MB/P"),
    ("GASNET_SPAWNFN", "L"),
    ("GASNET_MASTERIP", "127.0.0.1"),
    ("GASNET_WORKERIP", "127.0.0.0"),
    ("GASNET_ROUTE_OUTPUT", "0"),
    ("GASNET_BARRIER", "PSHM"),
    ("GASNET_QUIET", "y"),
]
# Jobs of these can be on several hosts.
NETWORK = jobtest.CONDUIT in ("ibv", "gni", "elan", "ofi", "udp", "any")
if not NETWORK:
    USED += [("GASNET_SPAWNER", "ssh"), ("GASNET_SSH_SERVERS", "node0 node1")]
NOT_USED = [
    ("GASNET_PHYSMEM_NOPROBE", "1"),
    ("GASNET_HOST_DETECT", "gethostid"),
    ("GASNET_COLL_SCRATCH_SEG_SIZE", "2M"),
    ("GASNET_UCX_SPAWNER", "ssh"),
    ("GASNET_IBV_SPAWNFN", "S"),
    ("GASNET_SPAWN_CONTROL", "pmi"),
    ("GASNET_SUPPRESS_DEBUG_WARNING", "1"),
    ("GASNET_MPI_THREAD", "MULTIPLE"),
]
FOREIGN = [("GASNET_FROM_A_LATER_RELEASE", "17")]
OF_IBV = [
    ("GASNET_PINNED_REGIONS_MAX", "1024"),
    ("GASNET_USE_FENCED_PUTS", "1"),
    ("GASNET_IBV_PORTS_VERBOSE", "0"),
    ("GASNET_USE_ODP", "0"),
    ("GASNET_ODP_VERBOSE", "0"),
    ("GASNET_AMRDMA_MAX_PEERS", "0"),
]
OF_GNI = [("GASNET_DOMAIN_COUNT", "4"), ("GASNET_AM_DOMAIN_POLL_MASK", "255")]
PINNED = [("GASNET_PHYSMEM_MAX", "16GB")]
if jobtest.CONDUIT in ("gni", "any"):
    USED += OF_GNI
else:
    NOT_USED += OF_GNI
if jobtest.CONDUIT in ("ibv", "gni", "any"):
    USED += PINNED
else:
    FOREIGN += PINNED
if jobtest.CONDUIT in ("ibv", "any"):
    USED += OF_IBV
else:
    USED += [("GASNET_IBV_SPAWNER", "mpi")]
    FOREIGN += OF_IBV


class Tests:
    """The tests of one program."""

    def __init__(self, shop, program):
        self.shop, self.program = shop, program

    def expect(
        self,
        name,
        command,
        status,
        *patterns,
        ranks=0,
        extra=None,
        stdin=None,
        count=None,
    ):
        """Runs and compares: the status, patterns in the output (behind "!": not in it), how often
        the first one occurs."""
        got, output, _, left = self.shop.run(command, ranks, extra, LIMIT, stdin=stdin)
        problem = ""
        if got != status:
            problem = f"exit status {got} instead of {status}: {output[-400:]!r}"
        elif left:
            problem = f"left behind: {left}"
        for pattern in patterns:
            unwanted, plain = pattern.startswith("!"), pattern.lstrip("!")
            if not problem and bool(re.search(plain, output, re.M)) == unwanted:
                problem = f"output {'has' if unwanted else 'lacks'} {plain!r}: {output[-400:]!r}"
        if not problem and count is not None and len(re.findall(patterns[0], output, re.M)) != count:
            problem = f"not {count} times {patterns[0]!r}: {output[-400:]!r}"
        jobtest.report(f"launch: {name}", problem)

    def ranks(self):
        """Numbers of ranks, both ways."""
        counts = (1, 2, 3, 7, 16) if jobtest.QUICK else (1, 2, 3, 4, 7, 16, 33, 64, 128, 256)
        if jobtest.CONDUIT == "ibv":
            # The emulator of verbs has 65535 queue pairs.
            counts = [count for count in counts if count < 256]
        for count in counts:
            self.expect(
                f"{count} ranks directly",
                [self.program],
                0,
                rf"^rank \d+ of {count}$",
                ranks=count,
                count=count,
            )
            self.expect(
                f"{count} ranks by launcher",
                [LAUNCHER, "-n", str(count), self.program],
                0,
                rf"^rank \d+ of {count}$",
                count=count,
            )
        self.expect("one rank by default", [self.program], 0, "^rank 0 of 1$", count=1)
        self.expect(
            "the launcher wins over the environment",
            [LAUNCHER, "-n", "2", self.program],
            0,
            "of 2$",
            count=2,
            ranks=3,
        )

    def wrong_counts(self):
        """One clear message each, and no job."""
        for value in (
            "0",
            "-1",
            "four",
            "2x",
            "1.5",
            "100000",
            "99999999999999999999",
            " ",
        ):
            self.expect(
                f"GASNET_PSHM_NODES='{value}'",
                [self.program],
                1,
                "GASNET_PSHM_NODES=",
                "!^rank",
                count=1,
                extra={"GASNET_PSHM_NODES": value},
            )
        spawner = [("GASNET_SMP_SPAWNER", "ssh")] if jobtest.CONDUIT == "smp" else []
        for name, value in (
            *spawner,
            ("GASNET_SMP_SPAWNER", "magic"),
            ("GASNET_EXITTIMEOUT", "soon"),
            ("GASNET_CATCH_EXIT", "perhaps"),
            ("GASNET_NO_CATCH_SIGNAL", "SIGNOPE"),
            ("GASNET_SUPERNODE_MAXSIZE", "-2"),
        ):
            self.expect(
                f"{name}={value}",
                [self.program],
                1,
                f"{name}={value}",
                "!^rank",
                extra={name: value},
                ranks=2,
            )

    def launcher_options(self):
        """The launcher's own command line."""
        run = [LAUNCHER, "-n", "2"]
        self.expect(
            "all options",
            run + ["-N", "1", "-c", "1", "-E", "A,B", "-spawner=fork", "--", self.program],
            0,
            "of 2$",
            count=2,
        )
        self.expect(
            "attached values",
            [LAUNCHER, "-n2", "-N1", self.program],
            0,
            "of 2$",
            count=2,
        )
        self.expect(
            "-v says what it runs",
            run + ["-v", self.program],
            0,
            "running: env GASNET_PSHM_NODES=2 ",
            "of 2$",
        )
        self.expect("-t runs nothing", run + ["-t", self.program], 0, "running: ", "!of 2$")
        self.expect("-t quotes", run + ["-t", self.program, "a b", "c'd"], 0, r"'a b' 'c'\\''d'")
        self.expect(
            "env",
            run + ["env", "SHOW_ME=x y", self.program, "environment", "SHOW_ME"],
            0,
            r"^\{x y\}\{x y\}\{x y\}$",
            count=2,
        )
        self.expect(
            "environment of the launcher",
            run + [self.program, "environment", "SHOW_ME"],
            0,
            r"^\{1=2\}\{1=2\}\{1=2\}$",
            count=2,
            extra={"SHOW_ME": "1=2"},
        )
        self.expect("--help", [LAUNCHER, "--help"], 0, "^usage: ", "-spawner")
        self.expect("--version", [LAUNCHER, "--version"], 0, r"\d+\.\d+")
        of_one_host = () if NETWORK else ((["-n", "2", "-spawner=ssh", "x"], "fork"),)
        for wrong, message in (
            (["-n", "0", "x"], "-n 0"),
            (["-n", "many", "x"], "-n many"),
            (["x"], "-n was not given"),
            (["-n", "2"], "no program"),
            (["-n", "2", "-foo", "x"], "-foo"),
            *of_one_host,
            (["-n", "2", "-spawner=magic", "x"], "unknown spawner"),
        ):
            self.expect(
                f"launcher {' '.join(wrong)}",
                [LAUNCHER, *wrong],
                2,
                re.escape(message),
                "^usage: ",
            )
        self.expect(
            "a program that is not there",
            run + ["./nowhere"],
            127,
            "cannot run ./nowhere: No such file",
        )
        plain = os.path.join(self.shop.folder, "plain")
        with open(plain, "w", encoding="ascii") as file:
            file.write("nothing")
        self.expect(
            "a file that is no program",
            run + [plain],
            126,
            "cannot run .*Permission denied",
        )

    def arguments(self):
        """Arguments arrive as they are."""
        expected = re.escape("".join(f"[{a}]" for a in ODD_ARGUMENTS))
        self.expect(
            "arguments directly",
            [self.program, "arguments", *ODD_ARGUMENTS],
            0,
            expected,
            ranks=3,
            count=3,
        )
        self.expect(
            "arguments by launcher",
            [LAUNCHER, "-n", "3", self.program, "arguments", *ODD_ARGUMENTS],
            0,
            expected,
            count=3,
        )

    def nesting(self):
        """What clients' launchers put around and inside each other."""
        run = [LAUNCHER, "-n", "2"]
        chapel = [
            LAUNCHER,
            "-n",
            "3",
            "-N",
            "1",
            "-c",
            "0",
            "-E",
            "SHOW_ME,LANG",
            "-v",
            "env",
            "LANG=C",
        ]
        self.expect("env LANG=C, as Chapel does", [*chapel, self.program], 0, "of 3$", count=3)
        self.expect(
            "more nodes than there are, as Chapel does on one host",
            [LAUNCHER, "-n", "3", "-N", "3", "-c", "0", "-spawner=fork", self.program],
            0,
            "of 3$",
            "warning: request for 3 nodes ignored",
            count=3,
        )
        self.expect(
            "env around the launcher",
            ["env", "GASNET_PSHM_NODES=7", *run, self.program],
            0,
            "of 2$",
            count=2,
        )
        self.expect(
            "env around the program, as Spack does",
            ["env", "GASNET_PSHM_NODES=4", self.program],
            0,
            "of 4$",
            count=4,
        )
        if jobtest.CONDUIT == "smp":
            self.expect(
                "GASNET_SUPERNODE_MAXSIZE=1, as Spack sets it",
                [self.program],
                0,
                "GASNET_SUPERNODE_MAXSIZE=1 has no effect: the smp",
                "of 4$",
                ranks=4,
                count=1,
                extra={"GASNET_SUPERNODE_MAXSIZE": "1"},
            )
        self.expect(
            "a launcher inside a launcher: the inner one counts",
            [*run, LAUNCHER, "-n", "3", self.program],
            0,
            "of 3$",
            count=3,
        )
        self.expect(
            "a launcher inside env inside a launcher",
            [*run, "env", "LANG=C", LAUNCHER, "-n", "3", self.program],
            0,
            "of 3$",
            count=3,
        )
        self.expect(
            "a shell inside a launcher",
            [*run, "sh", "-c", 'exec "$0" rank 5', self.program],
            5,
            "of 2$",
            count=2,
        )
        inner = f"{LAUNCHER} -n 3 {self.program} rank 7"
        self.expect(
            "a job started by a rank of a job",
            [*run, self.program, "nested", inner],
            0,
            "^rank [012] of 3$",
            "inner job ended with 7$",
            count=3,
        )
        self.expect(
            "the same without a launcher",
            [self.program, "nested", f"{self.program} rank 8"],
            0,
            "^rank [01] of 2$",
            "inner job ended with 8$",
            ranks=2,
            count=2,
        )
        if jobtest.CONDUIT == "udp":
            self.expect(
                "a number of its own",
                [self.program, "nested", f"{self.program} 3 rank 8"],
                0,
                "^rank [012] of 3$",
                "inner job ended with 8$",
                ranks=2,
                count=3,
            )
        self.expect(
            "the same, labelled",
            [*run, "-l", self.program, "nested", inner],
            0,
            "rank [012] of 3$",
            "inner job ended with 7$",
            count=3,
        )

    def nested_managers(self):
        """A process manager inside a launcher or a rank: one job of its size, as the innermost
        counts."""
        for name, manager in (
            ("MPICH", ["mpiexec.hydra"]),
            ("Open MPI", ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]),
        ):
            if not shutil.which(manager[0]):
                print(f"SKIP launch: {name} is not installed")
                continue
            inner = " ".join([*manager, "-n 3", self.program, "rank 7"])
            run = [LAUNCHER, "-n", "2"]
            for how, command, ranks in (
                ("a shell inside a launcher", [*run, "sh", "-c", inner], 0),
                ("a launcher inside a launcher", [*run, "sh", "-c", f"{LAUNCHER} -n 2 {inner}"], 0),
            ):
                self.expect(f"{name} inside {how}", command, 7, "^rank [012] of 3$", ranks=ranks, count=3)
            for how, command, ranks in (
                ("a rank of a launcher", [*run, self.program, "nested", inner], 0),
                ("a rank", [self.program, "nested", inner], 2),
            ):
                patterns = ("^rank [012] of 3$", "inner job ended with 7$")
                self.expect(f"{name} inside {how}", command, 0, *patterns, ranks=ranks, count=3)
            around = [*manager, "-n", "2", LAUNCHER, "-n", "3", self.program, "rank", "0"]
            self.expect(f"{name} around launchers", around, 0, "^rank [012] of 3$", count=6)
        for command, ranks in (([LAUNCHER, "-n", "2"], 0), ([], 2)):
            words = [*command, self.program, "nested", "env | grep -c '^GASNET.*_SPAWNER='; true"]
            self.expect(f"no variable of the launcher in a rank, {ranks} ranks", words, 0, "^0$", ranks=ranks)

    def number_first(self):
        """A program of udp that is started with the number of its ranks: `main` sees in every rank
        what a launcher would have passed."""
        if jobtest.CONDUIT != "udp":
            return
        self.expect(
            "a number first",
            [self.program, "2", "arguments", "a", "b"],
            0,
            r"^\[a\]\[b\]$",
            count=2,
        )
        self.expect(
            "what main had before initialisation",
            [self.program, "2", "early", "a", "b"],
            0,
            r"^early a b, then early a b$",
            count=2,
        )
        self.expect(
            "a second number is the program's own",
            [self.program, "2", "3", "x"],
            0,
            r"^3 x, then 3 x$",
            count=2,
        )
        self.expect(
            "output before initialisation",
            [self.program, "2", "loud"],
            0,
            "^loud$",
            count=2,
        )
        self.expect(
            "a number that was not passed",
            [self.program, "2"],
            1,
            "first argument of this program is 2",
            "gasnetrun",
            "!^rank",
            extra={"SHOW_BARE": "1"},
            count=1,
        )
        self.expect(
            "the same with a launcher",
            [LAUNCHER, "-n", "3", self.program, "2"],
            0,
            "^rank [012] of 3$",
            extra={"SHOW_BARE": "1"},
            count=3,
        )

    def bare_start(self):
        """gex_Client_Init without argc and argv, main without gasnet_exit: how UPC++ and Caffeine
        start and end."""
        for code in (0, 3):
            self.expect(
                f"no argc and argv, return {code}",
                [self.program, "bare", str(code)],
                code,
                "of 3$",
                ranks=3,
                count=3,
            )
            self.expect(
                f"the same by launcher, return {code}",
                [LAUNCHER, "-n", "3", self.program, "bare", str(code)],
                code,
                "of 3$",
                count=3,
            )

    def variables(self):
        """What launchers and job scripts of clients set, with values that they use: accepted
        without a word."""
        for value, ranks, most in (
            ("8388608", 1, 8 << 20),
            ("8MB", 1, 8 << 20),
            ("8.0MB/P", 2, 8 << 20),
            ("16MB/H", 2, 8 << 20),
        ):
            self.expect(
                f"GASNET_MAX_SEGSIZE={value}",
                [self.program, "limit"],
                0,
                f"^at most {most} bytes$",
                ranks=ranks,
                count=ranks,
                extra={"GASNET_MAX_SEGSIZE": value},
            )
        self.expect(
            "GASNET_MAX_SEGSIZE=0.5/H",
            [self.program, "limit"],
            0,
            r"^at most \d{6,} bytes$",
            ranks=2,
            count=2,
            extra={"GASNET_MAX_SEGSIZE": "0.5/H"},
        )
        everything = dict(USED + NOT_USED + FOREIGN)
        self.expect(
            "variables that clients set: no word about them",
            [self.program],
            0,
            r"\Arank \d of 2\nrank \d of 2\n\Z",
            ranks=2,
            extra=everything,
        )
        extra = everything | {"GASNET_VERBOSEENV": "1"}
        _, output, _, _ = self.shop.run([self.program], 2, extra, LIMIT)
        lines = {line.split()[2]: line for line in output.splitlines() if line.startswith("ENV parameter: ")}
        for names, pattern in (
            (USED, r"= [^(]*$"),
            (NOT_USED, r"\(accepted, no effect\)$"),
            (FOREIGN, "is set, but unknown to"),
        ):
            for name, _ in names:
                line = lines.get(name, "no line")
                jobtest.report(
                    f"launch: {name} under GASNET_VERBOSEENV",
                    "" if re.search(pattern, line) else line,
                )

    def own_bootstrap(self):
        """Processes that no launcher starts, and that meet by what the conduit brings along: one
        job, whose exit code all have, and which ends when one of them is killed."""
        start = 'for rank in 0 1 2; do GASNET_LOOP_BOOTSTRAP="$0:$rank:3" "$@" & pids="$pids $!"; done; '
        codes = 'for pid in $pids; do wait $pid; echo "code $?"; done'
        name = f"gasnet-test-{os.urandom(8).hex()}"
        command = ["sh", "-c", start + codes, name, self.program, "rank"]
        for code in (0, 42):
            pattern = rf"^rank \d of 3$(.|\n)*code {code}\ncode {code}\ncode {code}$"
            self.expect(f"own bootstrap, code {code}", [*command, str(code)], 0, pattern)
        for victim in range(3):
            kill = f"sleep 1; set -- $pids; shift {victim}; kill -9 $1; "
            killed = ["sh", "-c", start + kill + codes, f"{name}-{victim}", self.program, "wait"]
            message = rf"^gasnet: rank {victim} of 3 .* ended without gasnet_exit; ending the job$"
            self.expect(f"own bootstrap, rank {victim} is killed", killed, 0, message, "^code 137$", "^code 1$")

    def exit_codes(self):
        """The code of the job is the launcher's."""
        for code in (0, 1, 42, 255):
            self.expect(
                f"exit code {code}",
                [LAUNCHER, "-n", "3", self.program, "rank", str(code)],
                code,
                "of 3$",
                count=3,
            )

    def streams(self):
        """Standard input goes to rank 0, output is as it comes, labels on request."""
        data = bytes(range(256)) * 4096
        self.expect(
            "standard input",
            [self.program, "input"],
            0,
            r"^rank [1-3] read 0 bytes",
            rf"^rank 0 read {len(data)} bytes",
            ranks=4,
            count=3,
            stdin=data,
        )
        self.expect(
            "no standard input",
            ["sh", "-c", '"$0" input <&-', self.program],
            0,
            r"read 0 bytes",
            ranks=3,
            count=3,
        )
        labelled = [LAUNCHER, "-n", "3", "--label", self.program, "streams"]
        self.expect(
            "labels",
            labelled,
            0,
            r"^\[(\d)\] (first|second) line of \1$",
            r"^\[\d\] error line of \d$",
            r"^\[2\] no end$",
            count=6,
        )
        self.expect(
            "labels, many ranks",
            [LAUNCHER, "-n", "40", "-l", self.program],
            0,
            r"^\[(\d+)\] rank \1 of 40$",
            count=40,
        )
        self.expect(
            "labels and a failure",
            [LAUNCHER, "-n", "2", "-l", self.program, "rank", "7"],
            7,
            r"^\[\d\] rank \d of 2$",
            count=2,
        )
        if jobtest.CONDUIT == "ofi" and jobtest.MAXSIZE:
            print("SKIP launch: descriptors do not leak: libfabric's are not closed on exec")
        else:
            self.expect("descriptors do not leak", [self.program, "descriptors"], 0, "^4$", ranks=3)

    def terminal(self):
        """A terminal stays one; Ctrl-C ends the job once, and Ctrl-Z with continuation does it no
        harm."""
        output = self.in_terminal([self.program, "terminal"], b"", None)
        problem = (
            "" if {"rank 0: 1 1 1", "rank 1: 0 1 1", "rank 2: 0 1 1"} <= set(output.split("\r\n")) else repr(output)
        )
        jobtest.report("launch: a terminal stays a terminal", problem)
        output = self.in_terminal([self.program, "wait"], b"\x03", "rank 2 waits")
        jobtest.report("launch: Ctrl-C", "" if "status 130" in output else repr(output))

    def in_terminal(self, command, keys, when):
        """Runs 3 ranks in a terminal of their own; types `keys` when the output has `when`. Returns
        the output and the status."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(self.shop.environment("terminal", 3, {}))
            try:
                os.execv(command[0], command)
            finally:
                os._exit(127)
        jobtest.OWN.add(pid)
        output, typed, deadline = b"", False, time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.2)[0]:
                continue
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            output += piece
            if when and not typed and output.count(b"waits") == 3:
                typed = True
                os.write(terminal, keys)
        else:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        return output.decode(errors="replace") + f"status {os.waitstatus_to_exitcode(status)}"

    def stop_and_continue(self):
        """A job that was stopped and continued as a group goes on."""

        def pause(process):
            process.stdout.readline()
            os.killpg(process.pid, signal.SIGTSTP)
            time.sleep(1.5)
            os.killpg(process.pid, signal.SIGCONT)
            time.sleep(0.3)
            os.kill(process.pid, signal.SIGTERM)

        status, output, _, left = self.shop.run(
            [self.program, "wait"],
            3,
            {"GASNET_EXITTIMEOUT": "0.5"},
            LIMIT,
            during=pause,
        )
        jobtest.report(
            "launch: stopped and continued",
            "" if status == 143 and not left else f"status {status}, left: {left}, {output!r}",
        )

    def under_a_tool(self):
        """The program may be started by another: the job begins in gex_Client_Init, not in the
        launcher."""
        self.expect(
            "nice",
            [LAUNCHER, "-n", "2", "nice", "-n", "1", self.program],
            0,
            "of 2$",
            count=2,
        )
        if shutil.which("valgrind"):
            self.expect(
                "valgrind",
                [LAUNCHER, "-n", "2", "valgrind", "-q", self.program],
                0,
                "of 2$",
                count=2,
            )
            tool = ["valgrind", "-q", "--error-exitcode=9", self.program, "uninitialised"]
            message = "rank 0 of 2 .* called exit with code 0, but ended with status 9"
            self.expect("valgrind --error-exitcode by launcher", [LAUNCHER, "-n", "2", *tool], 9, message)
            self.expect("valgrind --error-exitcode directly", tool, 9, message, ranks=2)
        else:
            print("SKIP launch: valgrind is not installed")
        if shutil.which("gdb"):
            self.expect(
                "gdb",
                ["gdb", "-q", "-batch", "-ex", "run", self.program],
                0,
                "of 2$",
                ranks=2,
                count=2,
            )
        else:
            print("SKIP launch: gdb is not installed")


# Debian's names first; other systems have one MPI, whose compiler and launcher have the plain ones.
MPIS = (
    ("MPICH", "mpicc.mpich", ["mpiexec.hydra"]),
    (
        "Open MPI",
        "mpicc.openmpi",
        [
            "mpirun.openmpi",
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
        ],
    ),
    ("MPI", "mpicc", ["mpiexec"]),
)


class MpiTests(Tests):
    """MPI and GASNet in one program, started by MPI's launcher and without it."""

    def __init__(self, shop, program, name, launcher):
        super().__init__(shop, program)
        self.name, self.launcher = name, launcher

    def both(self, ranks, order, level, end, code=0, status=None, extra=None, pass_on=()):
        """A job of the launcher; all ranks use both libraries, and have the same numbers in
        both."""
        command = [
            *self.launcher,
            *pass_on,
            "-n",
            str(ranks),
            self.program,
            order,
            level,
            end,
            str(code),
        ]
        lines = (
            rf"^rank (\d+) of {ranks} is \1 of {ranks} in MPI$",
            r"^rank \d+ has used both: 0 failures$",
        )
        if end == "abort":
            # MPI's launcher may end before it has forwarded what the ranks wrote.
            lines = ()
        self.expect(
            f"{self.name}: {order}, {level}, {end} {code}, {ranks} ranks{' of their own' if extra else ''}",
            command,
            code if status is None else status,
            *lines,
            count=ranks if lines else None,
            extra=extra,
        )

    def orders(self):
        """Which library is initialised first does not matter where MPI's launcher starts the
        ranks."""
        levels = (
            ("init", "single", "serialized", "multiple") if "par" in jobtest.MODES else ("init", "single", "serialized")
        )
        for order in ("gasnet-first", "mpi-between", "mpi-first"):
            for ranks in (2,) if jobtest.QUICK else (1, 2, 4):
                self.both(ranks, order, "init", "finalize-return")
            for level in () if jobtest.QUICK else levels[1:]:
                self.both(2, order, level, "finalize-exit")
        if NETWORK:
            words = ["-x", "GASNET_SUPERNODE_MAXSIZE"] if self.name == "Open MPI" else []
            self.both(
                4,
                "gasnet-first",
                "init",
                "finalize-return",
                extra={"GASNET_SUPERNODE_MAXSIZE": "1"},
                pass_on=words,
            )

    def ends(self):
        """Either library ends the job, with its code. Open MPI's launcher wants MPI_Finalize or
        gasnet_exit before an exit code of 0."""
        for order in ("gasnet-first", "mpi-first"):
            for end in (
                "finalize-return",
                "finalize-exit",
                "exit",
                "return",
                "atexit",
                "one-exits",
                "one-exits-mpi",
                "abort",
            ):
                self.both(2, order, "init", end, 7)
            for end in (
                ("finalize-exit", "exit", "atexit")
                if self.name == "Open MPI"
                else ("finalize-exit", "exit", "return", "atexit", "one-exits")
            ):
                self.both(2, order, "init", end, 0)

    def alone(self):
        """Without MPI's launcher each rank is alone in its MPI; MPI_Init comes after
        gex_Client_Init, which forks the ranks."""
        lines = (
            r"^rank \d of 2 is 0 of 1 in MPI$",
            r"^rank \d has used both: 0 failures$",
        )
        own = {"LAUNCH_MPI_WORLDS": "1"}
        words = [self.program, "gasnet-first", "init"]
        self.expect(
            f"{self.name}: directly",
            [*words, "finalize-return", "7"],
            7,
            *lines,
            ranks=2,
            extra=own,
            count=2,
        )
        self.expect(
            f"{self.name}: by launcher",
            [LAUNCHER, "-n", "2", *words, "finalize-exit", "0"],
            0,
            *lines,
            extra=own,
            count=2,
        )

    def our_launcher(self):
        """Our launcher starts MPI's."""
        command = [
            LAUNCHER,
            "-spawner=mpi",
            "-n",
            "2",
            self.program,
            "gasnet-first",
            "init",
            "finalize-return",
            "7",
        ]
        self.expect(
            f"{self.name}: MPIRUN_CMD",
            command,
            7,
            r"^rank (\d+) of 2 is \1 of 2 in MPI$",
            r"^rank \d has used both: 0 failures$",
            count=2,
            extra={"MPIRUN_CMD": f"{' '.join(self.launcher)} -n %N %C"},
        )


def test_mpi(shop, mode):
    """With each MPI that is installed."""
    found = [mpi for mpi in MPIS if shutil.which(mpi[1]) and shutil.which(mpi[2][0])]
    # The plain names mean one of the others where those are.
    for name, compiler, launcher in found[:-1] if len(found) > 1 and found[-1][0] == "MPI" else found:
        program = shop.compile(os.path.join(HERE, "launch_mpi.c"), mode, compiler=[compiler])
        if program:
            tests = MpiTests(shop, program, name, launcher)
            for test in (
                tests.orders,
                tests.ends,
                tests.alone,
                *([tests.our_launcher] if NETWORK else []),
            ):
                test()
    if not found:
        print("SKIP launch: no MPI is installed (mpicc and mpiexec)")


def main():
    """All tests."""
    with jobtest.Workshop() as shop:
        mode = "par" if "par" in jobtest.MODES else jobtest.MODES[0]
        program = shop.compile(os.path.join(HERE, "show.c"), mode)
        if program:
            tests = Tests(shop, program)
            for test in (
                tests.ranks,
                tests.wrong_counts,
                tests.launcher_options,
                tests.arguments,
                tests.nesting,
                tests.nested_managers,
                tests.number_first,
                tests.bare_start,
                tests.variables,
                tests.exit_codes,
                tests.streams,
                tests.terminal,
                tests.stop_and_continue,
                tests.under_a_tool,
                *([tests.own_bootstrap] if jobtest.CONDUIT == "loop" else []),
            ):
                test()
            test_mpi(shop, mode)
        starts.test_threads(shop, mode)
        starts.test_signals(shop, mode)
    jobtest.finish()


if __name__ == "__main__":
    main()
