"""Links that misbehave, as datagrams see them: each applies its fault, and about as often as
configured."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid

import jobs
from expect import CLUSTER, TIMEOUT_SECONDS, nothing_running, python
from processes import need
from tunnel import Tunnel

DATAGRAMS = 2000
# Of these there and back, so that twice as many packets meet the faults of a tunnel.
FEWER = 1000


def test_link(hosts):
    """Loss, bursts, bundles, copies and changes, as datagrams see them; a cable pulled and put
    back."""
    need("nft")
    seen = []
    with hosts.popen(2, python("udp_echo.py", "9000"), stdout=subprocess.PIPE, cwd="/") as server:
        server.stdout.readline()

        def ask(*more, **changes):
            hosts.link(2, **changes)
            answer = hosts.check(1, python("udp_echo.py", "9000", "node2", str(DATAGRAMS), *more), cwd="/")
            seen.append(f"{' '.join([*more, *(f'{k}={v}' for k, v in changes.items())])} {answer.strip()}")
            return json.loads(answer)

        try:
            assert ask(loss=0)["back"] == DATAGRAMS, seen[-1]
            # Five standard deviations about 20 % of 2000.
            assert abs(ask(loss=20, protocol="udp")["back"] - 0.8 * DATAGRAMS) < 90, seen[-1]
            assert ask(burst=10)["back"] == 0.8 * DATAGRAMS, seen[-1]
            assert ask(loss=20, burst=1, protocol="tcp")["back"] == DATAGRAMS, seen[-1]
            assert ask("bundled", protocol="udp")["torn"] == 0, seen[-1]
            hosts.link(1, segments=1)
            assert ask("bundled", segments=1)["torn"] > 0, seen[-1]
            assert ask(loss=0, protocol="all", duplicate=20)["twice"] > 0.1 * DATAGRAMS, seen[-1]
            assert ask(duplicate=0, corrupt=20)["changed"] > 0.1 * DATAGRAMS, seen[-1]
            assert ask(corrupt=0, mtu=1280)["back"] == DATAGRAMS, seen[-1]
            assert hosts.check(2, ["cat", "/sys/class/net/eth0/mtu"]) == "1280\n", "the MTU is not what it was made"
            hosts.link(2, mtu=1500, up=False)
            assert hosts.check(2, ["cat", "/sys/class/net/eth0/carrier"]).strip() == "0", "the cable cannot be pulled"
            hosts.link(2, up=True)
            assert ask(rate="100mbit")["back"] == DATAGRAMS, seen[-1]
            hosts.link(2, rate="")
        finally:
            server.kill()
    hosts.sweep()
    nothing_running(hosts)


def test_tunnel(hosts):
    """The same for a tunnel, over IPv4 and IPv6. Nothing happens except the faults that its relay
    counts."""
    seen = []
    with (
        Tunnel(hosts) as tunnel,
        hosts.popen(2, python("udp_echo.py", "9000"), stdout=subprocess.PIPE, cwd="/") as server,
    ):
        server.stdout.readline()

        def ask(address, **faults):
            tunnel.heal()
            tunnel.change(**faults)
            before = tunnel.counts()
            answer = hosts.check(1, python("udp_echo.py", "9000", address, str(FEWER)), cwd="/")
            found = json.loads(answer) | {name: number - before[name] for name, number in tunnel.counts().items()}
            seen.append(f"{' '.join(f'{k}={v}' for k, v in faults.items())} {found}")
            return found

        try:
            for address in tunnel.addresses(2):
                found = ask(address)
                assert (found["back"], found["behind"], found["came"], found["went"]) == (
                    FEWER,
                    0,
                    2 * FEWER,
                    2 * FEWER,
                ), seen[-1]
                found = ask(address, disguise=20)
                assert (
                    0 < found["changed"] <= found["disguised"]
                    and found["cut"] == 0
                    and found["back"] + found["changed"] == FEWER
                ), seen[-1]
                # Five standard deviations, here and below.
                assert abs(found["disguised"] - 0.4 * FEWER) < 5 * (2 * FEWER * 0.2 * 0.8) ** 0.5, seen[-1]
                found = ask(address, truncate=20)
                assert (
                    0 < found["cut"] == found["changed"] <= found["truncated"] and found["back"] + found["cut"] == FEWER
                ), seen[-1]
                found = ask(address, corrupt=20)
                assert found["changed"] == 0 and FEWER - found["back"] == found["corrupted"] > 0.2 * FEWER, seen[-1]
            found = ask(address, loss=20)
            assert found["back"] == FEWER - found["lost"], seen[-1]
            assert abs(found["lost"] - 0.2 * found["came"]) < 5 * (found["came"] * 0.2 * 0.8) ** 0.5, seen[-1]
            assert found["rows"] > found["lost"] / 2, seen[-1]
            found = ask(address, loss=20, burst=10)
            assert 0.1 < found["lost"] / found["came"] < 0.35 and found["back"] == FEWER - found["lost"], seen[-1]
            assert found["rows"] < found["lost"] / 4, seen[-1]
            found = ask(address, duplicate=20)
            assert found["back"] == FEWER and found["twice"] == found["doubled"] > 0.2 * FEWER, seen[-1]
            found = ask(address, delay=20)
            assert found["back"] == FEWER and found["behind"] == 0 and found["fastest"] >= 40, seen[-1]
            found = ask(address, late=20, hold=5)
            assert (
                found["back"] == FEWER
                and found["behind"] > 0
                and found["overtaken"] > 0
                and found["held"] > 0.2 * FEWER
            ), seen[-1]
        finally:
            server.kill()
    hosts.sweep()
    nothing_running(hosts)
    assert not os.path.exists(f"/proc/{hosts.hosts[1].pid}/root/sys/class/net/tun0"), (
        "the device is there without its relay"
    )


def test_killed_tunnel():
    """Hosts and relay end with the process that made them."""
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-B", f"{CLUSTER}/tunnel.py", "-n", "2", "--", "sh", "-c", "echo ready; sleep 1000"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**os.environ, jobs.MARK: mark},
    ) as tool:
        try:
            ready = tool.stdout.readline()
            names = []
            for process in jobs.job_processes(mark):
                with open(f"/proc/{process}/comm", encoding="ascii") as file:
                    names.append(file.read().strip())
        finally:
            tool.send_signal(signal.SIGKILL)
    assert ready == b"ready\n" and "relay" in names, f"a relay was not started; there are {names}"
    end = time.monotonic() + TIMEOUT_SECONDS
    while left := jobs.job_processes(mark):
        assert time.monotonic() < end, f"these live on: {left}"
        time.sleep(0.02)
