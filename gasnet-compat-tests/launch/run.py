"""How jobs start. See run.sh. Direct execution and the launcher: ranks, arguments, environment, standard input and output, exit codes,
and a sentence for everything that is wrong."""

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

LAUNCHER = f"{jobtest.PREFIX}/bin/gasnetrun_{jobtest.CONDUIT}"
LIMIT = 60.0
ODD_ARGUMENTS = ["", "a b", "c'd", 'e"f', "$HOME", "`id`", "*", "\\", "-n", "--", "tab\there", "é", "new\nline"]


class Tests:
    """The tests of one program."""

    def __init__(self, shop, program):
        self.shop, self.program = shop, program

    def expect(self, name, command, status, *patterns, ranks=0, extra=None, stdin=None, count=None):
        """Runs and compares: the status, patterns in the output (behind "!": not in it), how often the first one occurs."""
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
        for count in (1, 2, 3, 7, 16) if jobtest.QUICK else (1, 2, 3, 4, 7, 16, 33, 64, 128, 256):
            self.expect(f"{count} ranks directly", [self.program], 0, rf"^rank \d+ of {count}$", ranks=count, count=count)
            self.expect(f"{count} ranks by launcher", [LAUNCHER, "-n", str(count), self.program], 0, rf"^rank \d+ of {count}$", count=count)
        self.expect("one rank when nothing is said", [self.program], 0, "^rank 0 of 1$", count=1)
        self.expect("the launcher wins over the environment", [LAUNCHER, "-n", "2", self.program], 0, "of 2$", count=2, ranks=3)

    def wrong_counts(self):
        """One clear sentence each, and no job."""
        for value in ("0", "-1", "four", "2x", "1.5", "100000", "99999999999999999999", " "):
            self.expect(f"GASNET_PSHM_NODES='{value}'", [self.program], 3, "GASNET_PSHM_NODES=", "!^rank", count=1,
                        extra={"GASNET_PSHM_NODES": value})
        for name, value in (("GASNET_SMP_SPAWNER", "ssh"), ("GASNET_SMP_SPAWNER", "magic"), ("GASNET_EXITTIMEOUT", "soon"),
                            ("GASNET_CATCH_EXIT", "perhaps"), ("GASNET_NO_CATCH_SIGNAL", "SIGNOPE"), ("GASNET_SUPERNODE_MAXSIZE", "-2")):
            self.expect(f"{name}={value}", [self.program], 3, f"{name}={value}", "!^rank", extra={name: value}, ranks=2)

    def launcher_options(self):
        """The launcher's own command line."""
        run = [LAUNCHER, "-n", "2"]
        self.expect("all options", run + ["-N", "1", "-c", "1", "-E", "A,B", "-spawner=fork", "--", self.program], 0, "of 2$", count=2)
        self.expect("attached values", [LAUNCHER, "-n2", "-N1", self.program], 0, "of 2$", count=2)
        self.expect("-v says what it runs", run + ["-v", self.program], 0, "running: env GASNET_PSHM_NODES=2 ", "of 2$")
        self.expect("-t runs nothing", run + ["-t", self.program], 0, "running: ", "!of 2$")
        self.expect("-t quotes", run + ["-t", self.program, "a b", "c'd"], 0, r"'a b' 'c'\\''d'")
        self.expect("env", run + ["env", "SHOW_ME=x y", self.program, "environment", "SHOW_ME"], 0, r"^\{x y\}\{x y\}$", count=2)
        self.expect("environment of the launcher", run + [self.program, "environment", "SHOW_ME"], 0, r"^\{1=2\}\{1=2\}$", count=2,
                    extra={"SHOW_ME": "1=2"})
        self.expect("--help", [LAUNCHER, "--help"], 0, "^usage: ", "-spawner")
        self.expect("--version", [LAUNCHER, "--version"], 0, r"\d+\.\d+")
        for wrong, sentence in ((["-n", "0", "x"], "-n 0"), (["-n", "many", "x"], "-n many"), (["x"], "-n was not given"),
                                (["-n", "2"], "no program"), (["-n", "2", "-N", "2", "x"], "-N 1"), (["-n", "2", "-foo", "x"], "-foo"),
                                (["-n", "2", "-spawner=ssh", "x"], "fork"), (["-n", "2", "-spawner=magic", "x"], "no such spawner")):
            self.expect(f"launcher {' '.join(wrong)}", [LAUNCHER, *wrong], 2, re.escape(sentence), "^usage: ")
        self.expect("a program that is not there", run + ["./nowhere"], 127, "cannot run ./nowhere: No such file")
        plain = os.path.join(self.shop.folder, "plain")
        with open(plain, "w", encoding="ascii") as file:
            file.write("nothing")
        self.expect("a file that is no program", run + [plain], 126, "cannot run .*Permission denied")

    def arguments(self):
        """Arguments arrive as they are."""
        expected = re.escape("".join(f"[{a}]" for a in ODD_ARGUMENTS))
        self.expect("arguments directly", [self.program, "arguments", *ODD_ARGUMENTS], 0, expected, ranks=3, count=3)
        self.expect("arguments by launcher", [LAUNCHER, "-n", "3", self.program, "arguments", *ODD_ARGUMENTS], 0, expected, count=3)

    def exit_codes(self):
        """The code of the job is the launcher's."""
        for code in (0, 1, 42, 255):
            self.expect(f"exit code {code}", [LAUNCHER, "-n", "3", self.program, "rank", str(code)], code, "of 3$", count=3)

    def streams(self):
        """Standard input goes to rank 0, output is as it comes, labels on request."""
        data = bytes(range(256)) * 4096
        self.expect("standard input", [self.program, "input"], 0, r"^rank [1-3] read 0 bytes", rf"^rank 0 read {len(data)} bytes", ranks=4,
                    count=3, stdin=data)
        self.expect("no standard input", ["sh", "-c", '"$0" input <&-', self.program], 0, r"read 0 bytes", ranks=3, count=3)
        labelled = [LAUNCHER, "-n", "3", "--label", self.program, "streams"]
        self.expect("labels", labelled, 0, r"^\[(\d)\] (first|second) line of \1$", r"^\[\d\] error line of \d$", r"^\[2\] no end$", count=6)
        self.expect("labels, many ranks", [LAUNCHER, "-n", "40", "-l", self.program], 0, r"^\[(\d+)\] rank \1 of 40$", count=40)
        self.expect("labels and a failure", [LAUNCHER, "-n", "2", "-l", self.program, "rank", "7"], 7, r"^\[\d\] rank \d of 2$", count=2)
        self.expect("descriptors do not leak", [self.program, "descriptors"], 0, "^4$", ranks=3)

    def terminal(self):
        """A terminal stays one; Ctrl-C ends the job once, and Ctrl-Z with continuation does it no harm."""
        output = self.in_terminal([self.program, "terminal"], b"", None)
        problem = "" if {"rank 0: 1 1 1", "rank 1: 0 1 1", "rank 2: 0 1 1"} <= set(output.split("\r\n")) else repr(output)
        jobtest.report("launch: a terminal stays a terminal", problem)
        output = self.in_terminal([self.program, "wait"], b"\x03", "rank 2 waits")
        jobtest.report("launch: Ctrl-C", "" if "status 130" in output else repr(output))

    def in_terminal(self, command, keys, when):
        """Runs 3 ranks in a terminal of their own; types `keys` when the output has `when`. Returns the output and the status."""
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
        status, output, _, left = self.shop.run([self.program, "wait"], 3, {"GASNET_EXITTIMEOUT": "0.5"}, LIMIT, during=pause)
        jobtest.report("launch: stopped and continued", "" if status == 143 and not left else f"status {status}, left: {left}, {output!r}")

    def under_a_tool(self):
        """The program may be started by another: the job begins in gex_Client_Init, not in the launcher."""
        self.expect("nice", [LAUNCHER, "-n", "2", "nice", "-n", "1", self.program], 0, "of 2$", count=2)
        if shutil.which("valgrind"):
            self.expect("valgrind", [LAUNCHER, "-n", "2", "valgrind", "-q", self.program], 0, "of 2$", count=2)
        else:
            print("SKIP launch: valgrind is not installed")
        if shutil.which("gdb"):
            self.expect("gdb", ["gdb", "-q", "-batch", "-ex", "run", self.program], 0, "of 2$", ranks=2, count=2)
        else:
            print("SKIP launch: gdb is not installed")


def main():
    """All tests."""
    with jobtest.Workshop() as shop:
        mode = "par" if "par" in jobtest.MODES else jobtest.MODES[0]
        program = shop.compile(os.path.join(HERE, "show.c"), mode)
        if program:
            tests = Tests(shop, program)
            for test in (tests.ranks, tests.wrong_counts, tests.launcher_options, tests.arguments, tests.exit_codes, tests.streams,
                         tests.terminal, tests.stop_and_continue, tests.under_a_tool):
                test()
    jobtest.finish()


if __name__ == "__main__":
    main()
