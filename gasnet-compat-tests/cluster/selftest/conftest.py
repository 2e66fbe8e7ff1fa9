"""Fixtures for the tests of this folder, which need no library: hosts, with Slurm and without."""

import sys

sys.dont_write_bytecode = True
import pytest  # noqa: E402
from expect import machine  # noqa: E402  (pytest.ini names the folder)
from hosts import Hosts  # noqa: E402
from slurm import Slurm  # noqa: E402

HOSTS = 3


@pytest.fixture(scope="module")
def hosts():
    """Three hosts, which leave nothing."""
    before = machine()
    with Hosts(HOSTS) as made:
        yield made
    assert machine() == before and not made.leftovers(), "interfaces, mounts, folders or processes are left"


@pytest.fixture(scope="module")
def slurm():
    """Slurm over three hosts, which leave nothing."""
    before = machine()
    with Slurm(HOSTS) as made:
        yield made
    assert machine() == before and not made.hosts.leftovers(), "interfaces, mounts, folders or processes are left"
