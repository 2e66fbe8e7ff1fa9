"""Unauthenticated peers and secrets: a process outside a job must
neither harm it nor learn its secrets."""

import os
import re

import mpi
from bed import Wrong, blocks
from cases import case
from ends import over, waiting

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


def with_caller(bed, command, silent=0, least=6):
    """A job whose remote shells take two seconds, in which an unauthenticated peer calls its first
    host, at least so often."""
    folder = bed.program.folder
    stop, shell = f"{folder}/stop", f"{folder}/slow"
    with open(shell, "w", encoding="ascii") as file:
        file.write('#!/bin/sh\nsleep 2\nexec ssh "$@"\n')
    os.chmod(shell, 0o755)
    caller = bed.hosts.popen(1, ["python3", "-c", CALLER, stop, str(silent)], stdout=-1, text=True)
    try:
        if caller.stdout.readline() != "ready\n":
            raise Wrong("the unauthenticated peer did not start")
        bed.hosts.accept()
        bed.run(command, env={"GASNET_SSH_CMD": shell, **bed.servers()}, places=blocks(5, bed.names()))
        with open(stop, "w", encoding="ascii"):
            pass
        said = caller.stdout.read()
        if int(said.split()[1]) < least:
            raise Wrong(f"the unauthenticated peer did not call often enough: {said}")
    finally:
        caller.kill()
        caller.wait()
        for name in (stop, shell):
            if os.path.exists(name):
                os.remove(name)


@case("safety: unauthenticated peers call while the job starts", "three", quick=True)
def _(bed):
    with_caller(bed, bed.launch(5))


@case("safety: unauthenticated peers take all connections and are silent", "three")
def _(bed):
    # More than the agent may have open. The rest of the 400 gets through only after it drops some.
    with_caller(bed, ["sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh", *bed.launch(5)], silent=400, least=257)


@case("safety: unauthenticated peers call at full speed while the job starts", "three", conduits=("udp",))
def _(bed):
    with_caller(bed, bed.launch(5), silent=20_000, least=2000)


@case("safety: the secret is in no list of processes", "three", quick=True)
def _(bed):
    folder = bed.program.folder
    shell, log = f"{folder}/tee", f"{folder}/line"
    with open(shell, "w", encoding="ascii") as file:
        file.write(
            f'#!/bin/sh\nIFS= read -r line\nprintf "%s\\n" "$line" > {log}\n'
            f'{{ printf "%s\\n" "$line"; cat; }} | ssh "$@"\n'
        )
    os.chmod(shell, 0o755)
    try:
        with waiting(bed, {"GASNET_SSH_CMD": shell, **bed.servers()}) as job:
            ranks = job.await_ranks()
            with open(log, encoding="utf-8") as file:
                secret = re.search(r"_GASNET_KEY=([0-9a-f]{32});", file.read())
            if not secret:
                raise Wrong("the line for the remote shell has no secret")
            found, looked = [], 0
            for process in bed.hosts.strays():
                for name in ("cmdline", "environ"):
                    try:
                        with open(f"/proc/{process.pid}/{name}", "rb") as file:
                            text = file.read()
                    except OSError:
                        continue  # ended meanwhile
                    looked += 1
                    if secret[1].encode() in text:
                        found.append(f"{name} of {process.command[:60]} on node{process.host}")
            if looked < 2 * len(ranks):
                raise Wrong("there was nothing to look at")
            if found:
                raise Wrong("the secret is in " + ", ".join(found))
            bed.hosts.check(1, ["sh", "-c", f"kill -TERM $(pgrep -o -f '^{bed.program.path}')"])
            over(bed, job, 143)
    finally:
        for name in (shell, log):
            if os.path.exists(name):
                os.remove(name)


# Calls each local socket of GASNet's as another user, keeps all connections, until the file argv[1]
# is there.
MEETER = r"""
import os, socket, sys, time
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
            kept = [*kept[-300:], call]
            call.send(b"\x04\0\0\0\0\0\0\0")
        except OSError:
            pass
print("called", calls, flush=True)
"""


@case("safety: unauthenticated peers where the ranks of a host meet", "managers", quick=True, conduits=("udp", "smp"))
def _(bed):
    stop = f"{bed.program.folder}/stop"
    caller = bed.hosts.popen(1, ["python3", "-c", MEETER, stop], stdout=-1, text=True)
    try:
        if caller.stdout.readline() != "ready\n":
            raise Wrong("the unauthenticated peer did not start")
        bed.hosts.accept()
        late = ["sh", "-c", '[ $PMI_RANK -lt 2 ] || sleep 1; ulimit -Sn 40; exec "$0"', bed.program.path]
        for length in ("1", "4096"):
            # The queue of callers may be as short as can be.
            bed.hosts.check(1, ["sysctl", "-qw", f"net.core.somaxconn={length}"])
            for words in ([bed.program.path], late):
                bed.run(mpi.hydra(6, ["node1"], words), places=["node1"] * 6, manager=True)
        with open(stop, "w", encoding="ascii"):
            pass
        said = caller.stdout.read()
        # The two jobs whose ranks come late are there long enough.
        if int(said.split()[1]) < 2:
            raise Wrong(f"the unauthenticated peer did not call often enough: {said}")
    finally:
        bed.hosts.run(1, ["sysctl", "-qw", "net.core.somaxconn=4096"])
        caller.kill()
        caller.wait()
        if os.path.exists(stop):
            os.remove(stop)
