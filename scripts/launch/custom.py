"""Jobs that a command of the user's starts (GASNET_SPAWNFN=C), and output that agents bring to the
first host."""

import os
import shlex

import mpi
from bed import Wrong, blocks
from cases import case

ODD = ["", "a b", "c'd", "$HOME", "new\nline"]


def hydra(bed, options=""):
    """The variables for a job over all hosts whose ranks mpiexec starts. It gives them its own
    numbers."""
    hosts = ",".join(f"{n}:2" for n in bed.names())
    return {
        "GASNET_SPAWNFN": "C",
        "GASNET_CSPAWN_CMD": f"mpiexec.hydra -launcher ssh -hosts {hosts} -genvall -n %N {options} %C",
        "GASNET_WORKER_RANK": "PMI_RANK",
    }


@case("custom: a loop of the shell", "one", quick=True, conduits=("udp",))
def _(bed):
    env = {"GASNET_SPAWNFN": "C", "GASNET_CSPAWN_CMD": "for i in $(seq %N); do %C & done; wait"}
    bed.run([bed.program.path, "4", "--", *ODD], env=env, places=["node1"] * 4, nbrhds=1, arguments=ODD)
    for way, code in (("exit:3", 3), ("one:9", 9), ("return:0", 0)):
        bed.run([bed.program.path, "3", f"--end={way}"], env=env, ranks=3, code=code)
    # The kernel reports how a rank ended to its parent only: here that is the command.
    bed.run(
        [bed.program.path, "3", "--end=kill"],
        env=env,
        ranks=3,
        code=1,
        says=["rank 2 of 3 .*ended without gasnet_exit"],
    )


@case("custom: through launchers", "one", quick=True, conduits=("udp",))
def _(bed):
    prefix = bed.program.prefix
    command = {"GASNET_CSPAWN_CMD": "for i in $(seq %N); do %C & done; wait"}
    for line, env in (
        ([bed.program.launcher, "-n", "3"], {"GASNET_SPAWNFN": "C"}),
        ([f"{prefix}/bin/amudprun", "-np", "3"], {"GASNET_SPAWNFN": "c"}),
        ([f"{prefix}/bin/amudprun", "-np", "3", "-spawn", "C"], {}),
        ([bed.program.launcher, "-n", "3", "-spawner=custom"], {"GASNET_UDP_SPAWNER": "ssh", "GASNET_SPAWNER": "ssh"}),
    ):
        bed.run([*line, bed.program.path, "--", *ODD], env={**command, **env}, places=["node1"] * 3, arguments=ODD)


@case("custom: mpiexec over three hosts", "managers", quick=True, conduits=("udp",))
def _(bed):
    bed.run(
        [bed.program.path, "6", "--", "x"],
        env=hydra(bed),
        places=blocks(6, bed.names()),
        nbrhds=3,
        arguments=["x"],
        manager=True,
    )
    bed.run([bed.program.path, "6", "--end=exit:5"], env=hydra(bed), ranks=6, code=5, manager=True)
    bed.run([bed.program.path, "5", "--end=kill"], env=hydra(bed), ranks=0, code=None, manager=True)


@case("custom: Open MPI's mpirun over three hosts, as documented", "managers", conduits=("udp",))
def _(bed):
    # It passes nothing on but variables with its own prefix, and gives each rank its number.
    mpirun = " ".join(mpi.openmpi(6, bed.names(), [])).replace("-n 6", "-n %N")
    env = {
        "GASNET_SPAWNFN": "C",
        "GASNET_CSPAWN_CMD": f'cd "%D" && {mpirun} %C',
        "GASNET_WORKER_RANK": "OMPI_COMM_WORLD_RANK",
    }
    bed.run(
        [bed.program.path, "6", "--", "x"],
        env=env,
        places=blocks(6, bed.names()),
        nbrhds=3,
        arguments=["x"],
        manager=True,
    )


@case("custom: hosts for the command, variables from the launcher process", "three", conduits=("udp",))
def _(bed):
    # The command's own words carry the secret to the other hosts, which ssh does not.
    command = (
        "for host in %M; do"
        " ssh -o BatchMode=yes -o StrictHostKeyChecking=no $host _GASNET_KEY=$_GASNET_KEY %C & done; wait"
    )
    env = {"GASNET_SPAWNFN": "C", "AMUDP_CSPAWN_CMD": command, "CSPAWN_SERVERS": "node1 node2,node3", "TEST_X": "a b"}
    bed.run([bed.program.path, "3", "--env=TEST_X"], env=env, ranks=3, nbrhds=3, variables={"TEST_X": "a b"})


@case("custom: errors", "one", quick=True, conduits=("udp",))
def _(bed):
    def fails(command, *says):
        env = {"GASNET_SPAWNFN": "C", **({"GASNET_CSPAWN_CMD": command} if command else {})}
        bed.run([bed.program.path, "2"], env=env, code=None, says=[*says, "!^rank"])

    fails(None, "GASNET_CSPAWN_CMD.*is not set")
    fails("exit 7", "ended .*7.* before 2 of its processes had connected")
    fails("%C %X", "%X is unknown")
    fails("echo %M; %C", "GASNET_CSPAWN_SERVERS names no hosts")
    fails("GASNET_WORKER_RANK=NOT_SET %C & %C; wait", "GASNET_WORKER_RANK=NOT_SET")
    fails("GASNET_WORKER_RANK=1 %C & GASNET_WORKER_RANK=1 %C; wait", "each once")
    # A process that connects while the job starts fails the job; one that comes later fails alone.
    early = r"started more processes than the job's 2[\s\S]*status [1-9]"
    late = r"(received no rank in the job|cannot connect to the launcher process)[\s\S]*status 0"
    bed.run(
        ["sh", "-c", '"$0" 2; echo "status $?" >&2', bed.program.path],
        env={"GASNET_SPAWNFN": "C", "GASNET_CSPAWN_CMD": "for i in 1 2 3; do %C & done; wait"},
        says=[f"{early}|{late}"],
    )
    # What the shell had started beside them goes, too.
    fails("sleep 600 & (sleep 601; :) & GASNET_WORKER_RANK=1 %C & GASNET_WORKER_RANK=1 %C; wait", "each once")


@case("custom: a command that starts nothing", "one", conduits=("udp",))
def _(bed):
    for command, state in (("true", "has ended"), ("sleep 600", "still runs")):
        env = {"GASNET_SPAWNFN": "C", "GASNET_CSPAWN_CMD": command, "GASNET_SPAWN_TIMEOUT": "7"}
        early = ["has ended without an error, and of 2 processes 2 have not called back"] if command == "true" else []
        bed.run(
            [bed.program.path, "2"],
            env=env,
            code=None,
            says=[*early, f"of 2 processes 2 have not called.*which {state}.*GASNET_SPAWN_TIMEOUT"],
        )


@case("launcher: values that cannot be", "one", conduits=("udp",))
def _(bed):
    for name, value, says in (
        ("GASNET_SPAWNER", "custom", "one of auto, fork, pmi, mpi, ssh$"),
        ("GASNET_SPAWNFN", "fork", "one of L, S, C$"),
        ("GASNET_SPAWNER", b"\xff", "UTF-8"),
        ("GASNET_UDP_SPAWNER", b"\xff", "UTF-8"),
    ):
        bed.run(bed.launch(2), env={name: os.fsdecode(value)}, code=None, says=[says, "!^rank"])
    bed.run(
        bed.launch(2, options=["-spawner=pmi"]),
        env={"MPIRUN_CMD": os.fsdecode(b"\xff %C")},
        code=None,
        says=["MPIRUN_CMD=.*UTF-8", "!^rank"],
    )


# Output.


@case("output: brought to the first host, through shells that show nothing", "three", quick=True)
def _(bed):
    with bed.script("mute", 'exec ssh "$@" > /dev/null 2>&1') as shell:
        mute = {"GASNET_SSH_CMD": shell, **bed.servers()}
        bed.run(bed.launch(5), env=mute, ranks=0, says=["^rank 0 of 5", "!^rank 4 of 5"])
        for env in ({}, {"GASNET_LINEBUFFERSZ": "0"}, {"GASNET_SSH_OUT_DEGREE": "1"}):
            bed.run(bed.launch(5), env={"GASNET_ROUTE_OUTPUT": "1", **mute, **env}, places=blocks(5, bed.names()))
        bed.run(bed.launch(5, "--end=kill"), env={"GASNET_ROUTE_OUTPUT": "1", **mute}, ranks=5, code=137)
        text = bed.run(bed.launch(3, options=["-l"]), env={"GASNET_ROUTE_OUTPUT": "1", **mute}, ranks=0)
        for rank in range(3):
            if f"[{rank}] rank {rank} of 3" not in text:
                raise Wrong(f"no line of rank {rank} has its label: {text}")


@case("output: much of it, brought to the first host", "three")
def _(bed):
    lines = 20_000
    env = {"GASNET_ROUTE_OUTPUT": "1", **bed.servers()}
    text = bed.run(bed.launch(3, f"--lines={lines}"), env=env, ranks=3)
    for rank in range(3):
        numbers = [line.split()[4] for line in text.splitlines() if line.startswith(f"rank {rank} says line ")]
        if numbers != [str(n) for n in range(lines)]:
            raise Wrong(f"rank {rank} wrote {lines} lines, of which {len(numbers)} came, or in another order")


@case("output: a reader who pauses for longer than a host may be silent", "three")
def _(bed):
    lines = 200_000
    job = shlex.join(bed.launch(3, f"--lines={lines}"))
    text = bed.run(
        ["sh", "-c", f"{job} | {{ sleep 45; cat; }}"],
        env={"GASNET_ROUTE_OUTPUT": "1", **bed.servers()},
        ranks=3,
        limit=240,
    )
    for rank in range(3):
        came = sum(line.startswith(f"rank {rank} says line ") for line in text.splitlines())
        if came != lines:
            raise Wrong(f"rank {rank} wrote {lines} lines, of which {came} came")


@case("output: a reader who pauses when ranks elsewhere have ended", "three", quick=True)
def _(bed):
    # What they wrote is in the remote shells, which wait for the reader. (Lines of different ranks
    # may mix.)
    lines = 20_000
    job = shlex.join(bed.launch(3, f"--lines={lines}"))
    text = bed.run(["sh", "-c", f"{job} | {{ sleep 15; cat; }}"], env=bed.servers(), ranks=0, limit=120)
    came = text.count("\n")
    if came != 3 * (lines + 1):
        each = [text.count(f"rank {rank} says line") for rank in range(3)]
        raise Wrong(f"three ranks wrote {lines + 1} lines each, of which {came} came: {each}")


@case("output: a reader who never reads, and SIGTERM", "three")
def _(bed):
    fifo = f"{bed.program.folder}/fifo"
    # Ranks wait for the reader, or have ended, and remote shells do: what is lost then is no
    # success.
    for lines in (20_000, 2_000):
        job = shlex.join(bed.launch(3, f"--lines={lines}"))
        script = (
            f"mkfifo {fifo}; exec 3<>{fifo}; {job} >{fifo} 3>&- & sleep 6; "
            f"kill -TERM $!; wait $!; echo ended with $?; rm {fifo}"
        )
        bed.run(["sh", "-c", script], env=bed.servers(), ranks=0, limit=60, says=["ended with 143"])


@case("output: a device that is full", "one", quick=True)
def _(bed):
    # Where agents write, the job fails; what ranks write themselves is the client's, but is not
    # lost without a word.
    for options, code, says in (
        (["-l"], None, "standard output cannot be written: No space left"),
        ([], 0, "WARNING \\(proc 0\\): standard output cannot be written, so that some of it is lost"),
    ):
        bed.run(
            ["sh", "-c", f"{shlex.join(bed.launch(3, options=options))} > /dev/full"], ranks=0, code=code, says=[says]
        )


@case("output: a reader who goes", "three", quick=True)
def _(bed):
    for options, env in ((["-l"], {}), ([], {"GASNET_ROUTE_OUTPUT": "1"})):
        job = shlex.join(bed.launch(3, "--lines=100000000", options=options))
        bed.run(["sh", "-c", f"{job} | head -n 1"], env={**env, **bed.servers()}, says=["rank . "])


@case("output: of ranks of one host, in whole lines", "one", conduits=("udp",))
def _(bed):
    lines = 5_000
    for name in ("GASNET_ROUTE_OUTPUT", "AMUDP_ROUTE_OUTPUT"):
        text = bed.run(bed.launch(3, f"--lines={lines}"), env={name: "1"}, ranks=3)
        for rank in range(3):
            numbers = [line.split()[4] for line in text.splitlines() if line.startswith(f"rank {rank} says line ")]
            if numbers != [str(n) for n in range(lines)]:
                raise Wrong(f"rank {rank} wrote {lines} lines, of which {len(numbers)} came whole")
    bed.run(
        bed.launch(3), env={"AMUDP_ROUTE_OUTPUT": "maybe"}, code=None, says=["ROUTE_OUTPUT=maybe: a boolean", "!^rank"]
    )


@case("output: of ranks that a command has started", "one", conduits=("udp",))
def _(bed):
    env = {"GASNET_SPAWNFN": "C", "GASNET_CSPAWN_CMD": "for i in $(seq %N); do %C > /dev/null 2>&1 & done; wait"}
    bed.run([bed.program.path, "3"], env=env, ranks=0, says=["!^rank"])
    for name in ("GASNET_CSPAWN_ROUTE_OUTPUT", "CSPAWN_ROUTE_OUTPUT"):
        bed.run([bed.program.path, "3"], env={name: "1", **env}, places=["node1"] * 3)


@case("output: labels under a manager", "managers")
def _(bed):
    template = f"mpiexec.hydra -launcher ssh -hosts {','.join(f'{n}:2' for n in bed.names())} -n %N %C"
    text = bed.run(bed.launch(5, options=["-l", "-spawner=pmi"]), env={"MPIRUN_CMD": template}, ranks=0, manager=True)
    for rank in range(5):
        if f"[{rank}] rank {rank} of 5" not in text:
            raise Wrong(f"no line of rank {rank} has its label: {text}")
