"""Intruders on the network of a job of the ofi conduit, whose providers authenticate nothing: they
connect to the ports on which its processes listen, and send garbage, nothing, messages of
libfabric's without the job's token, and puts and gets with guessed keys."""

import os
import re
import subprocess

from bed import CLIENTS, Skip, Wrong, short
from cases import case
from ends import over, starting
from flood import GROWTH, await_rounds, resident

TCP = "tcp;ofi_rxm"
# Calls the ports of the arguments behind the address: with garbage of all sizes, and 200 times
# without a word. It keeps all connections until its standard input ends.
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
        raise Skip("no headers of libfabric")
    if not os.path.exists(path):
        command = ["cc", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-o", path, f"{CLIENTS}/launch/{name}.c"]
        done = subprocess.run([*command, *options], capture_output=True, text=True)
        if done.returncode != 0:
            raise Wrong(f"{name} does not compile: {done.stderr[-500:]}")
    return path


def intruder(bed):
    """The program that uses libfabric."""
    return compiled(bed, "ofi_intruder", "-lfabric")


def listening(bed, provider):
    """Addresses and ports of this host on which somebody awaits what a provider sends."""
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
    work, stop = bed.program.client("launch/launch_work"), f"{bed.program.folder}/stop"
    rogue, known = intruder(bed), listening(bed, provider)
    env = {"GASNET_OFI_PROVIDER": provider, "GASNET_SUPERNODE_MAXSIZE": "1", "TEST_WATCHDOG": "300", **variables}
    try:
        with starting(bed, [bed.program.launcher, "-n", "2", work, stop], env) as job:
            await_rounds(job, 10)
            found = listening(bed, provider) - known
            address = next((a for a, _ in found if a != "0.0.0.0"), "127.0.0.1")
            ports = [str(port) for _, port in sorted(found)]
            if len(ports) < 2:
                raise Wrong(f"two ranks listen at {found}")
            memory = resident(bed, work)
            for what in works:
                if callable(what):
                    what(job, address, ports)
                elif what == "garbage":
                    calls(bed, job, [address, *ports])
                else:
                    uses_libfabric(bed, [rogue, provider, what, address, *ports])
                await_rounds(job, 10)
            grown = resident(bed, work) - memory
            if grown > GROWTH:
                raise Wrong(f"a rank takes {grown} MiB more than before")
            with open(stop, "w", encoding="ascii"):
                pass
            over(bed, job, 0, "^PASS launch_work")
    finally:
        if os.path.exists(stop):
            os.remove(stop)


def calls(bed, job, arguments):
    """One who does not know libfabric. The job goes on while the connections stay."""
    caller = bed.hosts.popen(1, ["python3", "-c", CALLER, *arguments], stdin=-1, stdout=-1, text=True)
    try:
        said = caller.stdout.readline()
        if int((said.split() or ["", "0"])[1]) < 200:
            raise Wrong(f"the intruder did not call often enough: {said!r}")
        await_rounds(job, 10)
    finally:
        caller.stdin.close()
        caller.wait()


def uses_libfabric(bed, command):
    """One who does."""
    done = bed.hosts.run(1, command, timeout=60)
    sent = re.findall(r"^port \d+ begun (\d+) done (\d+) failed (\d+)$", done.stdout, re.M)
    if done.code != 0 or not sent or any(int(begun) == 0 for begun, _, _ in sent):
        raise Wrong(f"{' '.join(command[1:])}: exit code {done.code}: {short(done.stdout + done.stderr)}")


@case("intruders: garbage, messages without the token, guessed keys", "one", quick=True, conduits=("ofi",))
def _(bed):
    disturbed(bed, TCP, ("garbage", "messages", "data", "long", "rma"))


@case("intruders: the same, a receive buffer for each message", "one", conduits=("ofi",))
def _(bed):
    disturbed(bed, TCP, ("messages", "long"), GASNET_OFI_RECEIVE_BUFF_SIZE="recv")


@case("intruders: the same, provider net", "one", conduits=("ofi",))
def _(bed):
    disturbed(bed, "net", ("garbage", "messages", "long", "rma"))
