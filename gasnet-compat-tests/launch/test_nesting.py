"""Clients' launchers put programs around and inside each other."""

import mpis
import pytest

INNER = "'{run} -n 3 {show} rank 7'"
# The command, the number of ranks in its environment, the exit code, the output.
NESTED = {
    "env-LANG=C-as-Chapel-does": (
        "{run} -n 3 -N 1 -c 0 -E SHOW_ME,LANG -v env LANG=C {show}",
        0,
        0,
        [("of 3$", 3)],
    ),
    "more-nodes-than-there-are-as-Chapel-does-on-one-host": (
        "{run} -n 3 -N 3 -c 0 -spawner=fork {show}",
        0,
        0,
        [("of 3$", 3), "warning: request for 3 nodes ignored"],
    ),
    "env-around-launcher": ("env GASNET_PSHM_NODES=7 {run} -n 2 {show}", 0, 0, [("of 2$", 2)]),
    "env-around-program-as-Spack-does": ("env GASNET_PSHM_NODES=4 {show}", 0, 0, [("of 4$", 4)]),
    "launcher-in-launcher": ("{run} -n 2 {run} -n 3 {show}", 0, 0, [("of 3$", 3)]),
    "launcher-in-env-in-launcher": ("{run} -n 2 env LANG=C {run} -n 3 {show}", 0, 0, [("of 3$", 3)]),
    "shell-in-launcher": ("{run} -n 2 sh -c 'exec \"$0\" rank 5' {show}", 0, 5, [("of 2$", 2)]),
    "job-in-rank-of-launcher": (
        f"{{run}} -n 2 {{show}} nested {INNER}",
        0,
        0,
        [("^rank [012] of 3$", 3), "inner job ended with 7$"],
    ),
    "job-in-rank": (
        "{show} nested '{show} rank 8'",
        2,
        0,
        [("^rank [01] of 2$", 2), "inner job ended with 8$"],
    ),
    "job-in-rank-labelled": (
        f"{{run}} -n 2 -l {{show}} nested {INNER}",
        0,
        0,
        [("rank [012] of 3$", 3), "inner job ended with 7$"],
    ),
}


@pytest.mark.parametrize("command, ranks, status, patterns", NESTED.values(), ids=NESTED)
def test_nested(launch, command, ranks, status, patterns):
    """The innermost launcher counts."""
    launch.expect(command, status, *patterns, ranks=ranks)


@pytest.mark.conduits("smp")
def test_neighbourhoods_as_spack_sets_them(launch):
    message = "GASNET_SUPERNODE_MAXSIZE=1 has no effect: the smp"
    launch.expect("{show}", 0, (message, 1), "of 4$", ranks=4, extra={"GASNET_SUPERNODE_MAXSIZE": "1"})


@pytest.mark.conduits("udp")
def test_number_of_its_own(launch):
    """A rank starts a program with the number of its ranks."""
    patterns = ("^rank [012] of 3$", 3), "inner job ended with 8$"
    launch.expect("{show} nested '{show} 3 rank 8'", 0, *patterns, ranks=2)


@pytest.fixture(params=["MPICH", "OpenMPI"])
def manager(request):
    """The words of a process manager."""
    mpi = mpis.BY_NAME[request.param]
    if not mpi.is_there():
        pytest.skip(f"{mpi.name} is not installed")
    return mpi.launcher


@pytest.mark.parametrize(
    "around, inside, ranks, status, patterns",
    [
        pytest.param("{run} -n 2 sh -c", "", 0, 7, [], id="shell-in-launcher"),
        pytest.param("{run} -n 2 sh -c", "{run} -n 2 ", 0, 7, [], id="launcher-in-launcher"),
        pytest.param("{run} -n 2 {show} nested", "", 0, 0, ["inner job ended with 7$"], id="rank-of-launcher"),
        pytest.param("{show} nested", "", 2, 0, ["inner job ended with 7$"], id="rank"),
    ],
)
def test_manager_inside(launch, manager, around, inside, ranks, status, patterns):
    """One job of its size, as the innermost counts."""
    command = f"{around} '{inside}{manager} -n 3 {{show}} rank 7'"
    launch.expect(command, status, ("^rank [012] of 3$", 3), *patterns, ranks=ranks)


def test_manager_around(launch, manager):
    launch.expect(f"{manager} -n 2 {{run}} -n 3 {{show}} rank 0", 0, ("^rank [012] of 3$", 6))


@pytest.mark.parametrize("start, ranks", [("{run} -n 2", 0), ("", 2)], ids=["launcher", "directly"])
def test_no_variable_of_launcher_in_rank(launch, start, ranks):
    inner = "env | grep -c '^GASNET.*_SPAWNER='; true"
    launch.expect(f'{start} {{show}} nested "{inner}"', 0, "^0$", ranks=ranks)
