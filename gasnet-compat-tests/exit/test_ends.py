"""Every way to end a job: exit code, output, and nothing left behind."""

import contextlib
import os

import exits
import matrix
import pytest
import workshop

SOURCE = f"{os.path.dirname(__file__)}/exit_cases.c"


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        options = metafunc.config.option
        modes = options.modes.split() or matrix.MODES
        metafunc.parametrize("case, count, mode", parameters(modes, bool(options.slice)))


def parameters(modes, quick):
    """Every case in every mode and number of ranks. The modes have the same code: a quick check
    takes one case in eight of the others than PAR, with the most ranks."""
    for mode in modes:
        in_part = quick and mode != "par" and len(modes) > 1
        for number, case in enumerate(exits.CASES):
            if (case.threads and mode != "par") or (in_part and (number + len(mode)) % 8):
                continue
            marks = [] if case.networks else [pytest.mark.conduits("smp")]
            marks += [] if case.alone else [pytest.mark.not_conduits("smp")]
            for count in case.ranks[-1:] if in_part else case.ranks:
                for attempt in range(1 if in_part else case.tries):
                    name = f"{case}-np{count}-{mode}" + (f"-try{attempt + 1}" if attempt else "")
                    yield pytest.param(case, count, mode, marks=marks, id=name)


def test_end(shop, case, count, mode):
    case.check(shop, case.command(shop.compile(SOURCE, mode)), count)


@pytest.mark.flavours("debug")
@pytest.mark.not_conduits("smp")
def test_network_failure(shop, exit_cases):
    """The network of a rank fails without a peer as the reason: a message, and the end of all. The
    fault counts packets, so the barriers are not those of the network."""
    faults = {"GASNET_FAULTS": "network=1:40", "GASNET_SUPERNODE_MAXSIZE": "1", "GASNET_BARRIER": "AMDISSEM"}
    status, output, _, left = shop.run([exit_cases, "barriers"], 3, faults, exits.LIMIT)
    assert "rank 1: the network has failed: GASNET_FAULTS: the port is down" in output
    assert status
    assert not left


@contextlib.contextmanager
def memory_group(limit):
    """A control group with this limit of bytes; None if this user cannot make one."""
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


def test_out_of_memory(shop, exit_cases):
    """A kill by the kernel for lack of memory is named."""
    with memory_group(256 << 20) as group:
        if not group:
            pytest.skip("no control group for memory")
        command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", exit_cases, "memory"]
        status, output, _, left = shop.run(command, 3, timeout=exits.LIMIT)
    if "there is no limit" in output:
        pytest.skip("the kernel swaps")
    pattern = r"rank \d of 3 \(pid \d+\) was killed by SIGKILL \(out of memory: oom_kill \d+ in .*\); ending"
    workshop.check(workshop.problem_of(status, output, left, 137, pattern))
