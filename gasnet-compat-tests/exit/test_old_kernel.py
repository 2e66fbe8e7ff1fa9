"""Jobs on the kernel of Enterprise Linux 8, which lacks system calls that later ones have: node
agents have no descriptors of the ranks that a process manager has started."""

import os
import shutil

import exits
import pytest

pytestmark = pytest.mark.conduits("smp", "udp")
RANKS = 3
WAYS = ["launcher", *(["mpiexec"] if shutil.which("mpiexec.hydra") else [])]


@pytest.fixture
def old_kernel(shop):
    """The program that runs another one so."""
    return shop.compile(f"{os.path.dirname(__file__)}/old_kernel.c")


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name, code", [("success", 0), ("exit-spin", 5), ("kill", 137), ("kill-spin", 137)])
def test_end(shop, exit_cases, old_kernel, how, name, code):
    """The job ends as on other kernels."""
    program = [exit_cases, name]
    launcher = {
        "launcher": [old_kernel, shop.launcher, "-n", str(RANKS), *program],
        "mpiexec": ["mpiexec.hydra", "-n", str(RANKS), old_kernel, *program],
    }
    status, output, _, left = shop.run(launcher[how], 0, {}, exits.LIMIT)
    if "no filter" in output:
        pytest.skip("this machine has no seccomp filters")
    assert not left, output
    # hydra has codes of its own for ranks that are killed.
    assert status == code or (how == "mpiexec" and code and status), output
    assert "Function not implemented" not in output
