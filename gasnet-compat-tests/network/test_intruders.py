"""Intruders on the network of a job of the ofi conduit, whose providers authenticate nothing: they
connect to the ports on which its processes listen, and send garbage, nothing, messages of
libfabric's without the job's token, and puts and gets with guessed keys. The bytes of others are
altered below libfabric: launch/ofi_mutate.c lies between libfabric and its sockets. Its bytes
depend on a seed alone, so that MUTATE_SEEDS=7,12 repeats the named seeds."""

import functools
import os
import re
import subprocess

import pytest
from bed import CLIENTS, Wrong, short
from working import at_work

TCP = "tcp;ofi_rxm"
# Calls the ports given after the address: with garbage of all sizes, and 200 times silently. It
# keeps all connections until its standard input ends.
CALLER = r"""
import os, socket, sys
kept, address = [], sys.argv[1]
garbage = [b"", b"x", b"GET / HTTP/1.0\r\n\r\n", os.urandom(16), bytes(64), os.urandom(4000), bytes(100000)]
garbage += [b"\xff" * 100000, os.urandom(1 << 20)]
for port in sys.argv[2:]:
    for words in garbage + [b""] * 200:
        try:
            kept.append(socket.create_connection((address, int(port)), 2))
            kept[-1].sendall(words)
        except OSError:
            pass
print("called", len(kept), flush=True)
sys.stdin.read()
"""


def compiled(bed, name, *options):
    """A program of an intruder, compiled once."""
    path = f"{bed.program.folder}/{name}"
    if not os.path.exists("/usr/include/rdma/fabric.h"):
        pytest.skip("no headers of libfabric")
    if not os.path.exists(path):
        command = ["cc", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-o", path, f"{CLIENTS}/launch/{name}.c"]
        done = subprocess.run([*command, *options], capture_output=True, text=True)
        assert done.returncode == 0, f"{name} does not compile: {done.stderr[-500:]}"
    return path


def intruder(bed):
    """The program that uses libfabric."""
    return compiled(bed, "ofi_intruder", "-lfabric")


def listening(bed, provider):
    """Addresses and ports of this host on which providers listen."""
    # State 7 of a datagram socket is that of one without a peer.
    table, state = ("udp", "07") if provider.startswith("udp") else ("tcp", "0A")
    found = set()
    for line in bed.hosts.check(1, ["cat", f"/proc/net/{table}"]).splitlines()[1:]:
        words = line.split()
        if words[3] == state:
            address, _, port = words[1].partition(":")
            found.add((".".join(str(byte) for byte in reversed(bytes.fromhex(address))), int(port, 16)))
    return found


def disturbed(bed, provider, works, **variables):
    """A job in which two ranks work, and one intruder after another does what `works` names, or is
    called with the job, an address and ports. It goes on meanwhile and afterwards, and takes no
    more memory than it should."""
    rogue, known = intruder(bed), listening(bed, provider)
    with at_work(bed, **{"GASNET_OFI_PROVIDER": provider, "TEST_WATCHDOG": "300", **variables}) as work:
        work.await_rounds(10)
        found = listening(bed, provider) - known
        address = next((a for a, _ in found if a != "0.0.0.0"), "127.0.0.1")
        ports = [str(port) for _, port in sorted(found)]
        assert len(ports) >= 2, f"two ranks listen at {found}"
        work.weigh()
        for what in works:
            if callable(what):
                what(work, address, ports)
            elif what == "garbage":
                calls(bed, work, [address, *ports])
            else:
                uses_libfabric(bed, [rogue, provider, what, address, *ports])
            work.await_rounds(10)
        work.weigh_again()
        work.finish()


def calls(bed, work, arguments):
    """An intruder without libfabric. The job continues while the connections stay."""
    caller = bed.hosts.popen(1, ["python3", "-c", CALLER, *arguments], stdin=-1, stdout=-1, text=True)
    try:
        said = caller.stdout.readline()
        assert int((said.split() or ["", "0"])[1]) >= 200, f"the intruder did not call often enough: {said!r}"
        work.await_rounds(10)
    finally:
        caller.stdin.close()
        caller.wait()


def uses_libfabric(bed, command):
    """One who does."""
    done = bed.hosts.run(1, command, timeout=60)
    sent = re.findall(r"^port \d+ begun (\d+) done (\d+) failed (\d+)$", done.stdout, re.M)
    assert done.code == 0 and sent and not any(int(begun) == 0 for begun, _, _ in sent), (
        f"{' '.join(command[1:])}: exit code {done.code}: {short(done.stdout + done.stderr)}"
    )


@pytest.mark.hosts("one", quick=True, conduits=("ofi",))
def test_intruders(bed):
    disturbed(bed, TCP, ("garbage", "messages", "data", "long", "rma"))


@pytest.mark.hosts("one", conduits=("ofi",))
def test_intruders_with_receive_buffers(bed):
    disturbed(bed, TCP, ("messages", "long"), GASNET_OFI_RECEIVE_BUFF_SIZE="recv")


@pytest.mark.hosts("one", conduits=("ofi",))
def test_intruders_with_provider_net(bed):
    disturbed(bed, "net", ("garbage", "messages", "long", "rma"))


SEEDS, QUICK = 200, 1
WORKS = ("data", "rma")
# Seconds that the operations on a port may take: many never end.
LIMIT = "0.2"
DROPPED = re.compile(r"rank (\d+) dropped (\d+) messages and errors of unauthenticated peers")


# Of tcp;ofi_rxm 48 bytes are the headers of tcp and the control header of ofi_rxm (docs/ofi.md), of
# udp;ofi_rxd 96 the headers of ofi_rxd.
@pytest.mark.parametrize(
    "first, provider, spared, variables",
    (
        pytest.param(0, "net", 0, {}, id="net"),
        pytest.param(1, TCP, 48, {"GASNET_OFI_RECEIVE_BUFF_SIZE": "recv"}, id="tcp"),
        pytest.param(2, "udp;ofi_rxd", 96, {}, id="udp"),
    ),
)
@pytest.mark.hosts("one", quick=True, conduits=("ofi",))
def test_mutated_bytes(bed, record_property, first, provider, spared, variables):
    """Intruders over one provider, one for each seed. `spared`: the bytes at the start of each
    message that stay as they are, because libfabric itself does not survive others there."""
    chosen = os.environ.get("MUTATE_SEEDS")
    seeds = [int(seed) for seed in chosen.split(",")] if chosen else list(range(first, SEEDS, 3))
    seeds = seeds if bed.thorough or chosen else seeds[:QUICK]
    # ofi_rxm fetches messages above 16 KiB, by a header of its own.
    ways = WORKS if provider == TCP else (*WORKS, "messages", "long")
    rogue, library = intruder(bed), compiled(bed, "ofi_mutate", "-shared", "-fPIC")
    counts = []

    def intrude(seed, work, address, ports):
        words = {"LD_PRELOAD": library, "INTRUDER_SECONDS": LIMIT, "MUTATE_SEED": seed, "MUTATE_FROM": spared}
        # The intruder may crash on the job's answers, or wait for ever. psm leaves files of
        # crashes.
        words |= {"HFI_NO_BACKTRACE": 1, "IPATH_NO_BACKTRACE": 1}
        words = [f"{name}={value}" for name, value in words.items()]
        command = [rogue, provider, ways[seed // 3 % len(ways)], address, *ports]
        done = bed.hosts.run(1, ["env", *words, *command], timeout=20)
        counts.append(done.stderr.count("mutated socket"))
        try:
            work.await_rounds(5)
        except Wrong as wrong:
            raise Wrong(f"MUTATE_SEEDS={seed}: {wrong}") from None

    def compare(work, *_):
        dropped = dict(DROPPED.findall(work.job.text()[1]))
        assert sum(counts) >= len(seeds) and dropped, (
            f"too few mutations: {sum(counts)} of {len(seeds)} seeds; dropped by rank: {dropped}"
        )

    works = [*(functools.partial(intrude, seed) for seed in seeds), compare]
    disturbed(bed, provider, works, GASNET_VERBOSEENV="1", TEST_WATCHDOG="1800", **variables)
    record_property("mutations", sum(counts))
