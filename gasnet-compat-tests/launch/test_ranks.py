"""Numbers of ranks, arguments, exit codes; started directly and by the launcher."""

import os
import re

import pytest

both_ways = pytest.mark.parametrize("how", ["directly", "launcher"])
ODD_ARGUMENTS = ["", "a b", "c'd", 'e"f', "$HOME", "`id`", "*", "\\", "-n", "--", "tab\there", "é", "new\nline"]


def pytest_generate_tests(metafunc):
    if "count" in metafunc.fixturenames:
        quick = metafunc.config.option.slice
        counts = (1, 2, 3, 7, 16) if quick else (1, 2, 3, 4, 7, 16, 33, 64, 128, 256)
        # The emulator of verbs has 65535 queue pairs.
        no_ibv = [pytest.mark.not_conduits("ibv")]
        metafunc.parametrize("count", [pytest.param(n, id=f"np{n}", marks=no_ibv if n > 255 else []) for n in counts])


@both_ways
def test_ranks(launch, how, count):
    command, ranks = launch.job(how, count)
    launch.expect(command, 0, (rf"^rank \d+ of {count}$", count), ranks=ranks)


def test_one_rank_by_default(launch):
    launch.expect("{show}", 0, ("^rank 0 of 1$", 1))


def test_launcher_wins_over_environment(launch):
    launch.expect("{run} -n 2 {show}", 0, ("of 2$", 2), ranks=3)


@pytest.mark.parametrize("value", ["0", "-1", "four", "2x", "1.5", "100000", "9" * 20, pytest.param(" ", id="blank")])
def test_wrong_count(launch, value):
    """One clear message, and no job."""
    launch.expect("{show}", 1, ("GASNET_PSHM_NODES=", 1), "!^rank", extra={"GASNET_PSHM_NODES": value})


@both_ways
def test_arguments(launch, how):
    """Arguments arrive as they are."""
    command, ranks = launch.job(how, 3, "arguments", *ODD_ARGUMENTS)
    launch.expect(command, 0, (re.escape("".join(f"[{a}]" for a in ODD_ARGUMENTS)), 3), ranks=ranks)


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_code(launch, code):
    """The code of the job is the launcher's."""
    launch.expect(f"{{run}} -n 3 {{show}} rank {code}", code, ("of 3$", 3))


@both_ways
@pytest.mark.parametrize("code", [0, 3])
def test_bare_start(launch, how, code):
    """gex_Client_Init without argc and argv, main without gasnet_exit: how UPC++ and Caffeine
    start and end."""
    command, ranks = launch.job(how, 3, "bare", str(code))
    launch.expect(command, code, ("of 3$", 3), ranks=ranks)


# A program of udp that is started with the number of its ranks: `main` sees in every rank what a
# launcher would have passed.
BARE = {"SHOW_BARE": "1"}
NUMBERS = {
    "first": ("{show} 2 arguments a b", 0, [(r"^\[a\]\[b\]$", 2)], {}),
    "main-before-initialisation": ("{show} 2 early a b", 0, [(r"^early a b, then early a b$", 2)], {}),
    "second-one-is-the-programs-own": ("{show} 2 3 x", 0, [(r"^3 x, then 3 x$", 2)], {}),
    "output-before-initialisation": ("{show} 2 loud", 0, [("^loud$", 2)], {}),
    "not-passed-on": (
        "{show} 2",
        1,
        [("first argument of this program is 2", 1), "gasnetrun", "!^rank"],
        BARE,
    ),
    "not-passed-on-launcher": ("{run} -n 3 {show} 2", 0, [("^rank [012] of 3$", 3)], BARE),
}


@pytest.mark.conduits("udp")
@pytest.mark.parametrize("command, status, patterns, extra", NUMBERS.values(), ids=NUMBERS)
def test_number_first(launch, command, status, patterns, extra):
    launch.expect(command, status, *patterns, extra=extra)


# Processes without a launcher, which meet by the bootstrap of the conduit: one job, whose exit code
# all have, and which ends when one of them is killed.
START = 'for rank in 0 1 2; do GASNET_LOOP_BOOTSTRAP="$0:$rank:3" "$@" & pids="$pids $!"; done; '
CODES = 'for pid in $pids; do wait $pid; echo "code $?"; done'


@pytest.mark.conduits("loop")
@pytest.mark.parametrize("code", [0, 42])
def test_own_bootstrap(launch, code):
    command = ["sh", "-c", START + CODES, f"gasnet-test-{os.urandom(8).hex()}", launch.show, "rank", str(code)]
    launch.expect(command, 0, rf"^rank \d of 3$(.|\n)*code {code}\ncode {code}\ncode {code}$")


@pytest.mark.conduits("loop")
@pytest.mark.parametrize("victim", range(3))
def test_own_bootstrap_killed(launch, victim):
    kill = f"sleep 1; set -- $pids; shift {victim}; kill -9 $1; "
    command = ["sh", "-c", START + kill + CODES, f"gasnet-test-{os.urandom(8).hex()}", launch.show, "wait"]
    message = rf"^gasnet: rank {victim} of 3 .* ended without gasnet_exit; ending the job$"
    launch.expect(command, 0, message, "^code 137$", "^code 1$")
