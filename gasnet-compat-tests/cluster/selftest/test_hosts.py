"""The cluster on one machine works, without anything of the library."""

import os
import random
import subprocess
import sys
import time
import uuid

import jobs
import mpi
import pytest
from expect import CLUSTER, HERE, TIMEOUT_SECONDS, machine, nothing_running, python
from hosts import BASE, Hosts
from processes import need

PROCESSES = 4
USERS = ("root", "nobody")
KILLS = 10
# As many processes as there are when all jobs of the killed command run.
ALL_JOBS = 25

# Sends datagrams that are too long until the kernel has learnt another path MTU, and prints it.
PATH_MTU = """
import socket, sys, time
six = ":" in sys.argv[1]
level, discover, mtu = (socket.IPPROTO_IPV6, 23, 24) if six else (socket.IPPROTO_IP, 10, 14)
client = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
client.setsockopt(level, discover, 2)
client.connect((sys.argv[1], 9))
while client.getsockopt(level, mtu) == 1500:
    try:
        client.send(bytes(1400))
    except OSError:
        pass
    time.sleep(0.01)
print(client.getsockopt(level, mtu))
"""


def readable():
    """Whether the unprivileged user may read this folder."""
    folder = HERE
    while folder != "/":
        if not os.stat(folder).st_mode & 0o001:
            return False
        folder = os.path.dirname(folder)
    return True


def test_ssh_between_all_pairs(hosts):
    """Between all pairs, by name, over both families, as both users."""
    for user in USERS:
        for source in hosts.numbers():
            pairs = [(target, family) for target in hosts.names() for family in ("-4", "-6")[: 1 + hosts.ipv6]]
            script = "\n".join(
                f'echo {target} $(ssh {family} {target} "hostname; id -un; echo \\$SSH_CONNECTION")'
                for target, family in pairs
            )
            lines = hosts.check(source, ["sh", "-c", script], user=user, cwd="/").splitlines()
            for (target, family), line in zip(pairs, lines, strict=True):
                words = line.split()
                assert words[:3] == [target, target, user] and (":" in words[5]) == (family == "-6"), (
                    f"{source} to {target} {family}: {line}"
                )
    nothing_running(hosts)


def test_exit_codes_and_strays(hosts):
    """Status, signals, input, time limit, environment."""
    assert hosts.run(2, ["sh", "-c", "cat; hostname; echo $A-$HOME >&2; exit 3"], stdin="in\n", env={"A": "b"}) == (
        3,
        "in\nnode2\n",
        f"b-{BASE}/home/root\n",
    ), "exit code, input, output or environment are wrong"
    assert hosts.run(2, ["sh", "-c", "kill -9 $$"]).code == -9, "a signal is not reported"
    assert hosts.run(2, ["sh", "-c", "sleep 1000 & sleep 1000"], timeout=0.5).code is None, "the time limit is not kept"
    nothing_running(hosts)
    pids = hosts.check(3, ["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"])
    assert len(hosts.sweep()) == 1, f"a process left on purpose ({pids.strip()} on node3) is not found"
    nothing_running(hosts)


def test_hosts_are_separate(hosts):
    """Hosts share neither shared memory, /run, temporary files, processes nor identity."""
    script = f"""touch /dev/shm/mine /run/mine {BASE}/tmp/mine; cat /proc/sys/kernel/random/boot_id
        ls /sys/class/net | tr '\\n' ' '"""
    first = hosts.check(1, ["sh", "-ec", script])
    assert first.endswith("eth0 lo "), f"interfaces in /sys: {first}"
    second = hosts.check(
        2, ["sh", "-c", f"ls /dev/shm/mine /run/mine {BASE}/tmp/mine 2>/dev/null; cat /proc/sys/kernel/random/boot_id"]
    )
    assert len(second.split()) == 1 and second.split()[0] != first.split()[0], f"seen on node2: {second}"


def job(hosts, command, kind, user):
    """A job of PROCESSES probes on all hosts: each has spoken with its manager."""
    if user != "root" and not readable():
        pytest.skip("this folder cannot be read by others")
    result = hosts.run(1, command, user=user, cwd="/", timeout=TIMEOUT_SECONDS)
    words = result.stdout.split()
    found = sorted(words[2::3]), set(words[1::3]), len(set(words[::3]))
    wanted = [f"{n}/{PROCESSES}" for n in range(PROCESSES)], {kind}, hosts.count
    assert result.code == 0 and found == wanted, result
    nothing_running(hosts)


AS_USERS = pytest.mark.parametrize("user", USERS)


# PMI-1 over an inherited descriptor and over a port, PMI-2.
@AS_USERS
@pytest.mark.parametrize(
    "kind, options", (("pmi1", []), ("pmi1", ["-pmi-port"]), ("pmi2", [])), ids=("fd", "port", "pmi2")
)
def test_hydra(hosts, user, kind, options):
    job(hosts, mpi.hydra(PROCESSES, hosts.names(), python("probe.py", kind), options), kind, user)


@AS_USERS
def test_openmpi(hosts, user):
    job(hosts, mpi.openmpi(PROCESSES, hosts.names(), python("probe.py")), "pmix", user)


@AS_USERS
@pytest.mark.parametrize("kind", ("none", "pmi2", "pmix"))
def test_srun(slurm, user, kind):
    if kind not in slurm.mpi_types():
        pytest.skip(f"this Slurm has no --mpi={kind}")
    words = ["srun", "-N", str(slurm.hosts.count), "-n", str(PROCESSES), f"--mpi={kind}", *python("probe.py")]
    job(slurm.hosts, words, kind, user)


def test_sbatch_and_salloc(slurm):
    hosts = slurm.hosts
    hosts.check(
        1,
        ["sbatch", "--wait", "-N", "2", "-o", f"{BASE}/home/root/out", "--wrap", "srun hostname"],
        cwd="/",
        timeout=TIMEOUT_SECONDS,
    )
    found = hosts.check(1, ["cat", f"{BASE}/home/root/out"])
    assert sorted(found.split()) == ["node1", "node2"], f"sbatch: {found}"
    found = hosts.check(1, ["salloc", "-N", "3", "srun", "hostname"], cwd="/", timeout=TIMEOUT_SECONDS)
    assert sorted(found.split()) == hosts.names(), f"salloc: {found}"
    nothing_running(hosts)


@pytest.mark.parametrize(
    "options, wanted",
    (
        ({"ipv6": False}, "10.77.0.2"),
        ({"ipv4": False}, "fd77::2"),
        ({"networks": 2}, "10.78.0.2"),
        ({"routed": True}, "fd77::2"),
        ({"own_name_is_loopback": True}, "10.77.0.2"),
        ({"own_identity": False}, "10.77.0.2"),
    ),
    ids=("ipv4", "ipv6", "two-networks", "routed", "loopback", "same-identity"),
)
def test_kind(options, wanted):
    """Hosts of another kind see one another, and leave nothing."""
    before = machine()
    with Hosts(2, **options) as hosts:
        script = f"ssh {wanted} hostname; ssh node2 'getent ahosts node2; cat /proc/sys/kernel/random/boot_id'"
        found = hosts.check(1, ["sh", "-ec", script]).split()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            same = file.read().strip() == found[-1]
        assert found[0] == "node2" and same != options.get("own_identity", True), f"{found}"
        assert ("127.0.1.1" in found) == options.get("own_name_is_loopback", False), f"{found}"
        elsewhere = "own_name_is_loopback" not in options
        assert any(":" in word for word in found) == (hosts.ipv6 and elsewhere), f"{found}"
        assert any(word.startswith("10.77.") for word in found) == (hosts.ipv4 and elsewhere), f"{found}"
        if "routed" in options:
            hosts.link(2, mtu=1300)
            for target in hosts.addresses(2):
                found = hosts.check(
                    1, [*python("udp_echo.py")[:2], "-c", PATH_MTU, target], cwd="/", timeout=TIMEOUT_SECONDS
                )
                assert found == "1300\n", f"the MTU to {target} became {found}"
    assert machine() == before and not hosts.leftovers(), "interfaces, mounts, folders or processes are left"


def test_crash():
    """A host that loses power: nothing of it is left, the others live."""
    with Hosts(3) as hosts:
        with hosts.popen(1, ["ssh", "node3", "sleep", "1000"], stderr=subprocess.DEVNULL) as session:
            end = time.monotonic() + TIMEOUT_SECONDS
            while not any(p.command == "sleep 1000" for p in hosts.strays()) and time.monotonic() < end:
                time.sleep(0.05)
            hosts.crash(3)
            session.kill()
        assert not any(p.host == 3 for p in hosts.processes()), "processes of node3 live on"
        hosts.sweep()
        result = hosts.run(1, ["ssh", "-o", "ConnectTimeout=2", "node3", "true"], timeout=TIMEOUT_SECONDS)
        assert result.code == 255, f"ssh to the crashed host: {result}"
        assert hosts.check(1, ["ssh", "node2", "hostname"]) == "node2\n", "node2 is not there any more"


def test_killed():
    """Nothing is left when the outermost process is killed at any time, with jobs of all kinds
    under way."""
    before, chance = machine(), random.Random(os.environ.get("SEED") or "1")
    # Every other time the command itself is stopped, which its end must not wait for.
    jobs_of_it = (
        "ssh node2 sleep 1000 & setsid sleep 1000 & "
        f"{' '.join(mpi.hydra(3, ['node1', 'node2', 'node3'], ['sleep', '1000']))} & "
        f"{' '.join(mpi.openmpi(3, ['node1', 'node2', 'node3'], ['sleep', '1000']))} & srun -N 3 sleep 1000 & "
    )
    need("slurmctld")
    with Hosts(1, ssh=False):
        pass  # it can be done at all
    for number in range(KILLS):
        mark, delay = uuid.uuid4().hex, chance.uniform(0, 3)
        script = jobs_of_it + ("wait", "kill -STOP $$")[number % 2]
        tool = subprocess.Popen(
            [sys.executable, "-B", f"{CLUSTER}/slurm.py", "-n", "3", "--", "sh", "-c", script],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, jobs.MARK: mark},
        )
        time.sleep(delay)
        inside = len(jobs.job_processes(mark))
        end = time.monotonic() + TIMEOUT_SECONDS
        while number == KILLS - 1 and inside < ALL_JOBS and tool.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
            inside = len(jobs.job_processes(mark))
        alive = tool.poll() is None
        tool.kill()
        tool.wait()
        assert alive, "the cluster could not be made, or ended too soon"
        assert number < KILLS - 1 or inside >= ALL_JOBS, f"the jobs did not start: {inside} processes"
        end = time.monotonic() + TIMEOUT_SECONDS
        while left := jobs.job_processes(mark):
            assert time.monotonic() < end, f"killed after {delay:.2f} s; these live on: {left}"
            time.sleep(0.02)
    assert machine() == before, "interfaces, mounts or folders of the machine are not as before"
