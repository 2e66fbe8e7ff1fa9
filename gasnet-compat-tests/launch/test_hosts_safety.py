"""Unauthenticated peers and secrets: a process outside a job must
neither harm it nor learn its secrets."""

import contextlib
import re
from pathlib import Path

import mpi
import pytest
from bed import blocks

# Calls every port that listens on this host and is not known, until the file argv[1] is there: with
# garbage, with half a greeting and with silence, or argv[2] times with silence only.
CALLER = r"""
import os, resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (3000, 3000))
def ports():
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(name):
            with open(name) as file:
                for line in file.readlines()[1:]:
                    words = line.split()
                    if words[3] == "0A":
                        found.add(int(words[1].rpartition(":")[2], 16))
    return found
known, kept, calls, silent = ports(), [], 0, int(sys.argv[2])
print("ready", flush=True)
garbage = [b"", b"GASNETj2", b"GET / HTTP/1.0\r\n\r\n"]
garbage += [b"GASNETj2" + bytes(size) for size in (16, 32, 52)] + [os.urandom(4000)]
end = time.monotonic() + 60
while time.monotonic() < end and not os.path.exists(sys.argv[1]):
    for port in ports() - known:
        for words in [b""] * (silent - calls) if silent else garbage:
            try:
                call = socket.create_connection(("127.0.0.1", port), 1)
                calls += 1
                kept.append(call)
                kept = kept[-500:]
                call.sendall(words)
            except OSError:
                pass
    time.sleep(0.002)
print("called", calls, flush=True)
"""


@contextlib.contextmanager
def calling(bed, stop, program, *arguments, least):
    """Meanwhile an unauthenticated peer on the first host calls, at least so often."""
    caller = bed.hosts.popen(1, ["python3", "-c", program, stop, *arguments], stdout=-1, text=True)
    try:
        assert caller.stdout.readline() == "ready\n", "the unauthenticated peer did not start"
        bed.hosts.accept()
        yield
        Path(stop).touch()
        said = caller.stdout.read()
        assert int(said.split()[1]) >= least, f"the unauthenticated peer did not call often enough: {said}"
    finally:
        caller.kill()
        caller.wait()


def with_caller(bed, folder, command, silent=0, least=6):
    """A job whose remote shells take two seconds, in which an unauthenticated peer calls."""
    with (
        bed.script("slow", 'sleep 2\nexec ssh "$@"') as shell,
        calling(bed, f"{folder}/stop", CALLER, str(silent), least=least),
    ):
        bed.run(command, env={"GASNET_SSH_CMD": shell, **bed.servers()}, places=blocks(5, bed.names()))


@pytest.mark.hosts("three", quick=True)
def test_unauthenticated_peers_call(bed, folder):
    with_caller(bed, folder, bed.launch(5))


@pytest.mark.hosts("three")
def test_unauthenticated_peers_take_all_connections(bed, folder):
    # More than the agent may have open. The rest of the 400 gets through only after it drops some.
    with_caller(bed, folder, ["sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh", *bed.launch(5)], silent=400, least=257)


@pytest.mark.hosts("three", conduits=("udp",))
def test_unauthenticated_peers_call_at_full_speed(bed, folder):
    with_caller(bed, folder, bed.launch(5), silent=20_000, least=2000)


@pytest.mark.hosts("three", quick=True)
def test_the_secret_is_in_no_list_of_processes(bed, folder):
    log = Path(folder, "line")
    script = f'IFS= read -r line\nprintf "%s\\n" "$line" > {log}\n{{ printf "%s\\n" "$line"; cat; }} | ssh "$@"'
    with bed.script("tee", script) as shell, bed.waiting({"GASNET_SSH_CMD": shell, **bed.servers()}) as job:
        ranks = job.await_ranks()
        secret = re.search(r"_GASNET_KEY=([0-9a-f]{32});", log.read_text(encoding="utf-8"))
        assert secret, "the line for the remote shell has no secret"
        found, looked = [], 0
        for process in bed.hosts.strays():
            for name in ("cmdline", "environ"):
                try:
                    text = Path(f"/proc/{process.pid}/{name}").read_bytes()
                except OSError:
                    continue  # ended meanwhile
                looked += 1
                if secret[1].encode() in text:
                    found.append(f"{name} of {process.command[:60]} on node{process.host}")
        assert looked >= 2 * len(ranks), "there was nothing to look at"
        assert not found, "the secret is in " + ", ".join(found)
        bed.hosts.check(1, ["sh", "-c", f"kill -TERM $(pgrep -o -f '^{bed.program.path}')"])
        job.over(143)


# Calls each local socket of GASNet's as another user, keeps all connections, until the file argv[1]
# is there. The file argv[2] gets a byte for each call.
MEETER = r"""
import os, socket, sys, time
log = open(sys.argv[2], "wb", 0)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
kept, calls = [], 0
print("ready", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end and not os.path.exists(sys.argv[1]):
    with open("/proc/net/unix", "rb") as file:
        names = {line.split()[-1][1:] for line in file if line.split()[-1].startswith(b"@gasnet-")}
    for name in names:
        try:
            call = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            call.connect(b"\0" + name)
            calls += 1
            log.write(b".")
            kept = [*kept[-300:], call]
            call.send(b"\x04\0\0\0\0\0\0\0")
        except OSError:
            pass
print("called", calls, flush=True)
"""


@pytest.mark.hosts("managers", quick=True, conduits=("udp", "smp"))
def test_unauthenticated_peers_where_ranks_meet(bed, folder):
    few = ["sh", "-c", 'ulimit -Sn 40; exec "$0"', bed.program.path]
    log = Path(folder, "calls")
    try:
        with calling(bed, f"{folder}/stop", MEETER, str(log), least=2):
            # The socket is there for some milliseconds, in which a busy machine may run no caller.
            for _ in range(20):
                for length in ("1", "4096"):
                    # The queue of callers may be as short as can be.
                    bed.hosts.check(1, ["sysctl", "-qw", f"net.core.somaxconn={length}"])
                    for words in ([bed.program.path], few):
                        bed.run(mpi.hydra(6, ["node1"], words), places=["node1"] * 6, manager=True)
                if log.stat().st_size >= 2:
                    break
    finally:
        bed.hosts.run(1, ["sysctl", "-qw", "net.core.somaxconn=4096"])
