"""The launcher's own command line, and tools that it starts."""

import re
import shutil
from pathlib import Path

import matrix
import pytest

OPTIONS = {
    "all": ("{run} -n 2 -N 1 -c 1 -E A,B -spawner=fork -- {show}", [("of 2$", 2)]),
    "attached-values": ("{run} -n2 -N1 {show}", [("of 2$", 2)]),
    "-v": ("{run} -n 2 -v {show}", ["running: env GASNET_PSHM_NODES=2 ", "of 2$"]),
    "-t-runs-nothing": ("{run} -n 2 -t {show}", ["running: ", "!of 2$"]),
    "-t-quotes": ("{run} -n 2 -t {show} 'a b' \"c'd\"", [r"'a b' 'c'\\''d'"]),
    "env": ("{run} -n 2 env 'SHOW_ME=x y' {show} environment SHOW_ME", [(r"^\{x y\}\{x y\}\{x y\}$", 2)]),
    "--help": ("{run} --help", ["^usage: ", "-spawner"]),
    "--version": ("{run} --version", [r"\d+\.\d+"]),
}


@pytest.mark.parametrize("command, patterns", OPTIONS.values(), ids=OPTIONS)
def test_option(launch, command, patterns):
    launch.expect(command, 0, *patterns)


def test_environment(launch):
    extra = {"SHOW_ME": "1=2"}
    launch.expect("{run} -n 2 {show} environment SHOW_ME", 0, (r"^\{1=2\}\{1=2\}\{1=2\}$", 2), extra=extra)


WRONG = {
    "no-ranks": ("-n 0 x", "-n 0"),
    "no-number": ("-n many x", "-n many"),
    "no-option": ("x", "-n was not given"),
    "no-program": ("-n 2", "no program"),
    "unknown": ("-n 2 -foo x", "-foo"),
    "spawner": ("-n 2 -spawner=magic x", "unknown spawner"),
}


@pytest.mark.parametrize("wrong, message", WRONG.values(), ids=WRONG)
def test_wrong_options(launch, wrong, message):
    launch.expect(f"{{run}} {wrong}", 2, re.escape(message), "^usage: ")


@pytest.mark.not_conduits(*matrix.SEVERAL_HOSTS)
def test_spawner_of_several_hosts(launch):
    launch.expect("{run} -n 2 -spawner=ssh x", 2, "fork", "^usage: ")


def test_absent_program(launch):
    launch.expect("{run} -n 2 ./nowhere", 127, "cannot run ./nowhere: No such file")


def test_no_program(launch, shop):
    plain = Path(shop.folder, "plain")
    plain.write_text("nothing")
    launch.expect(f"{{run}} -n 2 {plain}", 126, "cannot run .*Permission denied")


def test_nice(launch):
    """The program may be started by another: the job begins in gex_Client_Init, not in the
    launcher."""
    launch.expect("{run} -n 2 nice -n 1 {show}", 0, ("of 2$", 2))


needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")


@needs_valgrind
def test_valgrind(launch):
    launch.expect("{run} -n 2 valgrind -q {show}", 0, ("of 2$", 2))


@needs_valgrind
@pytest.mark.parametrize("start, ranks", [("{run} -n 2", 0), ("", 2)], ids=["launcher", "directly"])
def test_valgrind_error(launch, start, ranks):
    message = "rank 0 of 2 .* called exit with code 0, but ended with status 9"
    launch.expect(f"{start} valgrind -q --error-exitcode=9 {{show}} uninitialised", 9, message, ranks=ranks)


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
def test_gdb(launch):
    launch.expect("gdb -q -batch -ex run {show}", 0, ("of 2$", 2), ranks=2)
