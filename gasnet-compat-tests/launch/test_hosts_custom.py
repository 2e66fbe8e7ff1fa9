"""Jobs that a command of the user's starts (GASNET_SPAWNFN=C), and output that agents bring to the
first host."""

import os
import shlex

import mpi
import pytest
from bed import Wrong, blocks

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


LOOP = {"GASNET_SPAWNFN": "C", "GASNET_CSPAWN_CMD": "for i in $(seq %N); do %C & done; wait"}


@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_custom_a_loop_of_the_shell(bed):
    bed.run([bed.program.path, "4", "--", *ODD], env=LOOP, places=["node1"] * 4, nbrhds=1, arguments=ODD)


# The kernel reports how a rank ended to its parent only: here that is the command.
@pytest.mark.parametrize("way, code", (("exit:3", 3), ("one:9", 9), ("return:0", 0), ("kill", 1)))
@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_custom_ends(bed, way, code):
    says = ["rank 2 of 3 .*ended without gasnet_exit"] if way == "kill" else []
    bed.run([bed.program.path, "3", f"--end={way}"], env=LOOP, ranks=3, code=code, says=says)


# Words with the launcher, or with amudprun, and variables.
@pytest.mark.parametrize(
    "words, env",
    (
        pytest.param(["-n", "3"], {"GASNET_SPAWNFN": "C"}, id="launcher"),
        pytest.param(["amudprun", "-np", "3"], {"GASNET_SPAWNFN": "c"}, id="amudprun"),
        pytest.param(["amudprun", "-np", "3", "-spawn", "C"], {"GASNET_SPAWNFN": None}, id="amudprun-spawn"),
        pytest.param(
            ["-n", "3", "-spawner=custom"],
            {"GASNET_UDP_SPAWNER": "ssh", "GASNET_SPAWNER": "ssh", "GASNET_SPAWNFN": None},
            id="launcher-spawner",
        ),
    ),
)
@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_custom_through_launchers(bed, words, env):
    program = bed.program
    command = [program.launcher, *words] if words[0] == "-n" else [f"{program.prefix}/bin/amudprun", *words[1:]]
    bed.run([*command, program.path, "--", *ODD], env={**LOOP, **env}, places=["node1"] * 3, arguments=ODD)


@pytest.mark.hosts("managers", quick=True, conduits=("udp",))
def test_custom_mpiexec_over_three_hosts(bed):
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


@pytest.mark.hosts("managers", conduits=("udp",))
def test_custom_mpirun_over_three_hosts(bed):
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


@pytest.mark.hosts("three", conduits=("udp",))
def test_custom_hosts_and_variables(bed):
    # The command's own words carry the secret to the other hosts, which ssh does not.
    command = (
        "for host in %M; do"
        " ssh -o BatchMode=yes -o StrictHostKeyChecking=no $host _GASNET_KEY=$_GASNET_KEY %C & done; wait"
    )
    env = {"GASNET_SPAWNFN": "C", "AMUDP_CSPAWN_CMD": command, "CSPAWN_SERVERS": "node1 node2,node3", "TEST_X": "a b"}
    bed.run([bed.program.path, "3", "--env=TEST_X"], env=env, ranks=3, nbrhds=3, variables={"TEST_X": "a b"})


EARLY = r"started more processes than the job's 2[\s\S]*status [1-9]"
LATE = r"(received no rank in the job|cannot connect to the launcher process)[\s\S]*status 0"


@pytest.mark.parametrize(
    "command, says",
    (
        pytest.param(None, "GASNET_CSPAWN_CMD.*is not set", id="unset"),
        pytest.param("exit 7", "ended .*7.* before 2 of its processes had connected", id="exit"),
        pytest.param("%C %X", "%X is unknown", id="unknown"),
        pytest.param("echo %M; %C", "GASNET_CSPAWN_SERVERS names no hosts", id="no-hosts"),
        pytest.param("GASNET_WORKER_RANK=NOT_SET %C & %C; wait", "GASNET_WORKER_RANK=NOT_SET", id="no-rank"),
        pytest.param("GASNET_WORKER_RANK=1 %C & GASNET_WORKER_RANK=1 %C; wait", "each once", id="same-rank"),
        # Other processes of the shell end as well.
        pytest.param(
            "sleep 600 & (sleep 601; :) & GASNET_WORKER_RANK=1 %C & GASNET_WORKER_RANK=1 %C; wait",
            "each once",
            id="sleep",
        ),
    ),
)
@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_custom_errors(bed, command, says):
    env = {"GASNET_SPAWNFN": "C", "GASNET_CSPAWN_CMD": command}
    bed.run([bed.program.path, "2"], env=env, code=None, says=[says, "!^rank"])


@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_custom_too_many_processes(bed):
    # A process that connects while the job starts fails the job; one that comes later fails alone.
    bed.run(
        ["sh", "-c", '"$0" 2; echo "status $?" >&2', bed.program.path],
        env={"GASNET_SPAWNFN": "C", "GASNET_CSPAWN_CMD": "for i in 1 2 3; do %C & done; wait"},
        says=[f"{EARLY}|{LATE}"],
    )


@pytest.mark.parametrize("command, state", (("true", "has ended"), ("sleep 600", "still runs")), ids=("true", "sleep"))
@pytest.mark.hosts("one", conduits=("udp",))
def test_custom_a_command_that_starts_nothing(bed, command, state):
    env = {"GASNET_SPAWNFN": "C", "GASNET_CSPAWN_CMD": command, "GASNET_SPAWN_TIMEOUT": "7"}
    early = ["has ended without an error, and of 2 processes 2 have not called back"] if command == "true" else []
    says = [*early, f"of 2 processes 2 have not called.*which {state}.*GASNET_SPAWN_TIMEOUT"]
    bed.run([bed.program.path, "2"], env=env, code=None, says=says)


@pytest.mark.parametrize(
    "name, value, says, option",
    (
        ("GASNET_SPAWNER", "custom", "one of auto, fork, pmi, mpi, ssh$", []),
        ("GASNET_SPAWNFN", "fork", "one of L, S, C$", []),
        ("GASNET_SPAWNER", b"\xff", "UTF-8", []),
        ("GASNET_UDP_SPAWNER", b"\xff", "UTF-8", []),
        ("MPIRUN_CMD", b"\xff %C", "MPIRUN_CMD=.*UTF-8", ["-spawner=pmi"]),
    ),
    ids=("spawner", "spawnfn", "spawner-utf8", "udp-spawner-utf8", "mpirun-utf8"),
)
@pytest.mark.hosts("one", conduits=("udp",))
def test_launcher_values_that_cannot_be(bed, name, value, says, option):
    env = {name: os.fsdecode(value)}
    bed.run(bed.launch(2, options=option), env=env, code=None, says=[says, "!^rank"])


# Output.


@pytest.fixture
def mute(bed):
    """The environment for remote shells that show nothing."""
    with bed.script("mute", 'exec ssh "$@" > /dev/null 2>&1') as shell:
        yield {"GASNET_SSH_CMD": shell, **bed.servers()}


def has_labels(text, ranks):
    """Fails unless every rank's line has its label."""
    for rank in range(ranks):
        assert f"[{rank}] rank {rank} of {ranks}" in text, f"no line of rank {rank} has its label: {text}"


def has_lines(text, lines):
    """Fails unless three ranks wrote this number of lines, in order."""
    for rank in range(3):
        numbers = [line.split()[4] for line in text.splitlines() if line.startswith(f"rank {rank} says line ")]
        assert numbers == [str(n) for n in range(lines)], (
            f"rank {rank} wrote {lines} lines, of which {len(numbers)} came whole, or in another order"
        )


@pytest.mark.hosts("three", quick=True)
def test_output_through_mute_shells(bed, mute):
    bed.run(bed.launch(5), env=mute, ranks=0, says=["^rank 0 of 5", "!^rank 4 of 5"])


@pytest.mark.parametrize(
    "more", ({}, {"GASNET_LINEBUFFERSZ": "0"}, {"GASNET_SSH_OUT_DEGREE": "1"}), ids=("lines", "unbuffered", "tree")
)
@pytest.mark.hosts("three", quick=True)
def test_output_brought_to_the_first_host(bed, mute, more):
    bed.run(bed.launch(5), env={"GASNET_ROUTE_OUTPUT": "1", **mute, **more}, places=blocks(5, bed.names()))


@pytest.mark.hosts("three", quick=True)
def test_output_brought_of_a_killed_job_and_with_labels(bed, mute):
    env = {"GASNET_ROUTE_OUTPUT": "1", **mute}
    bed.run(bed.launch(5, "--end=kill"), env=env, ranks=5, code=137)
    has_labels(bed.run(bed.launch(3, options=["-l"]), env=env, ranks=0), 3)


@pytest.mark.hosts("three")
def test_output_of_many_lines(bed):
    env = {"GASNET_ROUTE_OUTPUT": "1", **bed.servers()}
    has_lines(bed.run(bed.launch(3, "--lines=20000"), env=env, ranks=3), 20_000)


@pytest.mark.hosts("three")
def test_output_reader_pauses_for_long(bed):
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
        assert came == lines, f"rank {rank} wrote {lines} lines, of which {came} came"


@pytest.mark.hosts("three", quick=True)
def test_output_reader_pauses_at_the_end(bed):
    # Their output is in the remote shells, which wait for the reader. (Lines of different ranks may
    # mix.)
    lines = 20_000
    job = shlex.join(bed.launch(3, f"--lines={lines}"))
    text = bed.run(["sh", "-c", f"{job} | {{ sleep 15; cat; }}"], env=bed.servers(), ranks=0, limit=120)
    came = text.count("\n")
    if came != 3 * (lines + 1):
        each = [text.count(f"rank {rank} says line") for rank in range(3)]
        raise Wrong(f"three ranks wrote {lines + 1} lines each, of which {came} came: {each}")


# Ranks or remote shells wait for the reader, or have ended: lost output then is no success.
@pytest.mark.parametrize("lines", (20_000, 2_000))
@pytest.mark.hosts("three")
def test_output_reader_never_reads(bed, lines):
    fifo, job = f"{bed.program.folder}/fifo", shlex.join(bed.launch(3, f"--lines={lines}"))
    script = (
        f"mkfifo {fifo}; exec 3<>{fifo}; {job} >{fifo} 3>&- & sleep 6; "
        f"kill -TERM $!; wait $!; echo ended with $?; rm {fifo}"
    )
    bed.run(["sh", "-c", script], env=bed.servers(), ranks=0, limit=60, says=["ended with 143"])


# An agent that cannot write fails the job. A rank that cannot is the client's matter, but the loss
# is reported.
@pytest.mark.parametrize(
    "options, code, says",
    (
        (["-l"], None, "standard output cannot be written: No space left"),
        ([], 0, "WARNING \\(proc 0\\): standard output cannot be written, so that some of it is lost"),
    ),
    ids=("labels", "plain"),
)
@pytest.mark.hosts("one", quick=True)
def test_output_to_a_full_device(bed, options, code, says):
    command = f"{shlex.join(bed.launch(3, options=options))} > /dev/full"
    bed.run(["sh", "-c", command], ranks=0, code=code, says=[says])


@pytest.mark.parametrize("options, env", ((["-l"], {}), ([], {"GASNET_ROUTE_OUTPUT": "1"})), ids=("labels", "routed"))
@pytest.mark.hosts("three", quick=True)
def test_output_reader_goes(bed, options, env):
    job = shlex.join(bed.launch(3, "--lines=100000000", options=options))
    bed.run(["sh", "-c", f"{job} | head -n 1"], env={**env, **bed.servers()}, says=["rank . "])


@pytest.mark.parametrize("name", ("GASNET_ROUTE_OUTPUT", "AMUDP_ROUTE_OUTPUT"))
@pytest.mark.hosts("one", conduits=("udp",))
def test_output_of_one_host_in_whole_lines(bed, name):
    has_lines(bed.run(bed.launch(3, "--lines=5000"), env={name: "1"}, ranks=3), 5_000)


@pytest.mark.hosts("one", conduits=("udp",))
def test_output_routed_by_no_boolean(bed):
    says = ["ROUTE_OUTPUT=maybe: a boolean", "!^rank"]
    bed.run(bed.launch(3), env={"AMUDP_ROUTE_OUTPUT": "maybe"}, code=None, says=says)


@pytest.mark.hosts("one", conduits=("udp",))
def test_output_of_custom_ranks(bed):
    env = {"GASNET_SPAWNFN": "C", "GASNET_CSPAWN_CMD": "for i in $(seq %N); do %C > /dev/null 2>&1 & done; wait"}
    bed.run([bed.program.path, "3"], env=env, ranks=0, says=["!^rank"])
    for name in ("GASNET_CSPAWN_ROUTE_OUTPUT", "CSPAWN_ROUTE_OUTPUT"):
        bed.run([bed.program.path, "3"], env={name: "1", **env}, places=["node1"] * 3)


@pytest.mark.hosts("managers")
def test_output_labels_under_a_manager(bed):
    template = f"mpiexec.hydra -launcher ssh -hosts {','.join(f'{n}:2' for n in bed.names())} -n %N %C"
    command = bed.launch(5, options=["-l", "-spawner=pmi"])
    has_labels(bed.run(command, env={"MPIRUN_CMD": template}, ranks=0, manager=True), 5)
