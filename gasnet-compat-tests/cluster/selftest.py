#!/usr/bin/env python3
"""Shows that the cluster on one machine works, without anything of the library. A line per item:
PASS, FAIL why, or SKIP why; fails when one did.

scripts/cluster/selftest.py [--seed WORD] [NAME…]        only items whose name contains one of the
                                                         words"""

import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "check")]

import jobs  # noqa: E402 (in scripts/check)
import mpi  # noqa: E402
from expect import TIMEOUT_SECONDS, Failed, expect, nothing_running, python  # noqa: E402
from hosts import BASE, Hosts  # noqa: E402
from linktest import bad_network, killed_tunnel, link  # noqa: E402
from processes import Unavailable, need  # noqa: E402
from slurm import Slurm  # noqa: E402

HOSTS = 3
PROCESSES = 4
USERS = ("root", "nobody")
KILLS = 10
# As many processes as there are when all jobs of `killed` run.
ALL_JOBS = 25


# Sends what is too long until the path's MTU is known to be another one, and prints that.
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


def users():
    """Who runs the jobs."""
    return USERS if readable() else USERS[:1]


def machine():
    """What must be as before, when hosts have gone: interfaces, mounts and folders of the machine,
    as far as hosts have such ones."""
    interfaces = sorted(n for n in os.listdir("/sys/class/net") if n.startswith(("node", "bridge", "eth", "tun")))
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = sorted(
            line
            for line in file
            if line.split()[4].startswith(("/run", "/etc", "/proc", "/sys", "/dev/shm", "/var/log"))
        )
    return interfaces, mounts, os.path.exists(BASE), os.path.exists("/run/netns")


def ssh(hosts):
    """Between all pairs, by name, over both families, as both users."""
    count = 0
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
                expect(
                    words[:3] == [target, target, user] and (":" in words[5]) == (family == "-6"),
                    f"{source} to {target} {family}: {line}",
                )
                count += 1
    nothing_running(hosts)
    return f"{count} connections"


def exit_codes(hosts):
    """Status, signals, input, time limit, environment."""
    expect(
        hosts.run(2, ["sh", "-c", "cat; hostname; echo $A-$HOME >&2; exit 3"], stdin="in\n", env={"A": "b"})
        == (3, "in\nnode2\n", f"b-{BASE}/home/root\n"),
        "exit code, input, output or environment are wrong",
    )
    expect(hosts.run(2, ["sh", "-c", "kill -9 $$"]).code == -9, "a signal is not reported")
    expect(
        hosts.run(2, ["sh", "-c", "sleep 1000 & sleep 1000"], timeout=0.5).code is None, "the time limit is not kept"
    )
    nothing_running(hosts)
    pids = hosts.check(3, ["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"])
    expect(len(hosts.sweep()) == 1, f"a process left on purpose ({pids.strip()} on node3) is not found")
    nothing_running(hosts)


def separation(hosts):
    """Hosts share neither shared memory, /run, temporary files, processes nor identity."""
    script = f"""touch /dev/shm/mine /run/mine {BASE}/tmp/mine; cat /proc/sys/kernel/random/boot_id
        ls /sys/class/net | tr '\\n' ' '"""
    first = hosts.check(1, ["sh", "-ec", script])
    expect(first.endswith("eth0 lo "), f"interfaces in /sys: {first}")
    second = hosts.check(
        2, ["sh", "-c", f"ls /dev/shm/mine /run/mine {BASE}/tmp/mine 2>/dev/null; cat /proc/sys/kernel/random/boot_id"]
    )
    expect(len(second.split()) == 1 and second.split()[0] != first.split()[0], f"seen on node2: {second}")


def job(hosts, command, kind):
    """A job of PROCESSES probes on all hosts, as every user: each has spoken with its manager."""
    for user in users():
        result = hosts.run(1, command, user=user, cwd="/", timeout=TIMEOUT_SECONDS)
        found = (
            sorted(result.stdout.split()[2::3]),
            set(result.stdout.split()[1::3]),
            len(set(result.stdout.split()[::3])),
        )
        wanted = [f"{n}/{PROCESSES}" for n in range(PROCESSES)], {kind}, HOSTS
        expect(result.code == 0 and found == wanted, f"as {user}: {result}")
        nothing_running(hosts)
    return f"{PROCESSES} processes on {HOSTS} hosts as {' and '.join(users())}"


def hydra_fd(hosts):
    """MPICH's launcher: PMI-1 over an inherited descriptor."""
    return job(hosts, mpi.hydra(PROCESSES, hosts.names(), python("probe.py", "pmi1")), "pmi1")


def hydra_port(hosts):
    """The same over a port."""
    return job(hosts, mpi.hydra(PROCESSES, hosts.names(), python("probe.py", "pmi1"), ["-pmi-port"]), "pmi1")


def hydra_pmi2(hosts):
    """The same launcher, asked for PMI-2."""
    return job(hosts, mpi.hydra(PROCESSES, hosts.names(), python("probe.py", "pmi2")), "pmi2")


def openmpi(hosts):
    """Open MPI's launcher: PMIx."""
    return job(hosts, mpi.openmpi(PROCESSES, hosts.names(), python("probe.py")), "pmix")


def slurm_with(kind):
    """`srun --mpi=kind`."""

    def srun(slurm):
        if kind not in slurm.mpi_types():
            raise Unavailable(f"this Slurm has no --mpi={kind}")
        return job(
            slurm.hosts, ["srun", "-N", str(HOSTS), "-n", str(PROCESSES), f"--mpi={kind}", *python("probe.py")], kind
        )

    return srun


def batch(slurm):
    """`sbatch` and `salloc`."""
    hosts = slurm.hosts
    hosts.check(
        1,
        ["sbatch", "--wait", "-N", "2", "-o", f"{BASE}/home/root/out", "--wrap", "srun hostname"],
        cwd="/",
        timeout=TIMEOUT_SECONDS,
    )
    found = hosts.check(1, ["cat", f"{BASE}/home/root/out"])
    expect(sorted(found.split()) == ["node1", "node2"], f"sbatch: {found}")
    found = hosts.check(1, ["salloc", "-N", "3", "srun", "hostname"], cwd="/", timeout=TIMEOUT_SECONDS)
    expect(sorted(found.split()) == hosts.names(), f"salloc: {found}")
    nothing_running(hosts)


def shapes(report):
    """Hosts of other kinds."""
    for options, wanted in (
        ({"ipv6": False}, "10.77.0.2"),
        ({"ipv4": False}, "fd77::2"),
        ({"networks": 2}, "10.78.0.2"),
        ({"routed": True}, "fd77::2"),
        ({"own_name_is_loopback": True}, "10.77.0.2"),
        ({"own_identity": False}, "10.77.0.2"),
    ):
        name = "hosts with " + " ".join(f"{k}={v}" for k, v in options.items())
        report.group(name, Hosts(2, **options), [(f"{name} see one another", shape(options, wanted))])


def shape(options, wanted):
    """How such hosts see one another."""

    def look(hosts):
        script = f"ssh {wanted} hostname; ssh node2 'getent ahosts node2; cat /proc/sys/kernel/random/boot_id'"
        found = hosts.check(1, ["sh", "-ec", script]).split()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            same = file.read().strip() == found[-1]
        expect(found[0] == "node2" and same != options.get("own_identity", True), f"{found}")
        expect(("127.0.1.1" in found) == options.get("own_name_is_loopback", False), f"{found}")
        elsewhere = "own_name_is_loopback" not in options
        expect(any(":" in word for word in found) == (hosts.ipv6 and elsewhere), f"{found}")
        expect(any(word.startswith("10.77.") for word in found) == (hosts.ipv4 and elsewhere), f"{found}")
        if "routed" in options:
            hosts.link(2, mtu=1300)
            for target in hosts.addresses(2):
                found = hosts.check(
                    1, [*python("udp_echo.py")[:2], "-c", PATH_MTU, target], cwd="/", timeout=TIMEOUT_SECONDS
                )
                expect(found == "1300\n", f"the MTU to {target} became {found}")

    return look


def crash(hosts):
    """A host that loses power: nothing of it is left, the others live."""
    with hosts.popen(1, ["ssh", "node3", "sleep", "1000"], stderr=subprocess.DEVNULL) as session:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not any(p.command == "sleep 1000" for p in hosts.strays()) and time.monotonic() < end:
            time.sleep(0.05)
        hosts.crash(3)
        session.kill()
    expect(not any(p.host == 3 for p in hosts.processes()), "processes of node3 live on")
    hosts.sweep()
    result = hosts.run(1, ["ssh", "-o", "ConnectTimeout=2", "node3", "true"], timeout=TIMEOUT_SECONDS)
    expect(result.code == 255, f"ssh to the crashed host: {result}")
    expect(hosts.check(1, ["ssh", "node2", "hostname"]) == "node2\n", "node2 is not there any more")


def killed(seed):
    """Nothing is left when the outermost process is killed at any time, with jobs of all kinds
    under way."""
    before, chance, times = machine(), random.Random(seed), []
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
            [sys.executable, "-B", f"{HERE}/slurm.py", "-n", "3", "--", "sh", "-c", script],
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
        expect(alive, "the cluster could not be made, or ended too soon")
        expect(number < KILLS - 1 or inside >= ALL_JOBS, f"the jobs did not start: {inside} processes")
        end = time.monotonic() + TIMEOUT_SECONDS
        while left := jobs.job_processes(mark):
            if time.monotonic() > end:
                raise Failed(f"killed after {delay:.2f} s; these live on: {' '.join(map(str, left))}")
            time.sleep(0.02)
        times.append(f"{delay:.1f} s/{inside}")
    expect(machine() == before, "interfaces, mounts or folders of the machine are not as before")
    return f"seed {seed}; after (seconds/processes) {', '.join(times)}"


class Report:
    """Runs items and prints a line for each."""

    def __init__(self, words):
        self.words, self.counts = words, collections.Counter()

    def item(self, name, work, *arguments):
        """One item."""
        if self.words and not any(w in name for w in self.words):
            return
        try:
            more = work(*arguments)
            self.line("PASS", name, more)
        except Unavailable as error:
            self.line("SKIP", name, error)
        except (Failed, RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            self.line("FAIL", name, error)

    def line(self, status, name, text):
        """A line, at once."""
        self.counts[status] += 1
        print(f"{status} {name}" + (f": {text}" if text else ""), flush=True)

    def group(self, name, cluster, items):
        """Items over one cluster, and that it ends without a rest."""
        items = [(n, w) for n, w in items if not self.words or any(word in n for word in self.words)]
        if not items:
            return
        before = machine()
        try:
            with cluster as made:
                for item, work in items:
                    self.item(item, work, made)
                hosts = made.hosts if isinstance(made, Slurm) else made
            expect(machine() == before and not hosts.leftovers(), "interfaces, mounts, folders or processes are left")
            self.line("PASS", f"{name}: nothing left", None)
        except Unavailable as error:
            self.line("SKIP", f"{name}: {', '.join(n for n, _ in items)}", error)
        except (Failed, RuntimeError, OSError) as error:
            self.line("FAIL", name, error)


def main():
    """All items."""
    parser = argparse.ArgumentParser(description="Shows that the cluster on one machine works.")
    parser.add_argument("--seed", default=os.environ.get("SEED") or "1", help="when the kills come")
    parser.add_argument("words", nargs="*", help="only items whose name contains one of these")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = Report(options.words)
    report.group(
        "hosts",
        Hosts(HOSTS),
        [
            ("ssh between all pairs", ssh),
            ("exit codes and strays", exit_codes),
            ("hosts are separate", separation),
            ("hydra PMI_FD", hydra_fd),
            ("hydra PMI_PORT", hydra_port),
            ("hydra PMI-2", hydra_pmi2),
            ("Open MPI PMIx", openmpi),
            ("link", link),
            ("tunnel", bad_network),
            ("crash", crash),
        ],
    )
    report.group(
        "slurm",
        Slurm(HOSTS),
        [
            *((f"srun --mpi={kind}", slurm_with(kind)) for kind in ("none", "pmi2", "pmix")),
            ("sbatch and salloc", batch),
        ],
    )
    shapes(report)
    report.item("tunnel killed", killed_tunnel)
    report.item(f"killed {KILLS} times", killed, options.seed)
    print(f"{report.counts['PASS']} passed, {report.counts['FAIL']} failed, {report.counts['SKIP']} skipped")
    return 1 if report.counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
