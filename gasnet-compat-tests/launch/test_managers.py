"""Ranks that a process manager has started: PMI-1, PMI-2, PMIx."""

import managers
import mpi
import pytest
from bed import blocks, cyclic
from kinds import ALL, MANAGED

ODD = ["", "a b", "c'd", 'e"f', "$HOME", "`id`", "\\", "--", "new\nline"]


@managers.each(quick=managers.QUICK)
@pytest.mark.hosts("managers", conduits=MANAGED)
def test_blocks_and_arguments(bed, manager):
    words, env = managers.command(bed, manager, 6, "--", *ODD)
    bed.run(words, env=env, places=blocks(6, bed.names()), nbrhds=3, arguments=ODD, manager=True)


@managers.each()
@pytest.mark.hosts("managers")
def test_as_nobody(bed, manager):
    words, env = managers.command(bed, manager, 6)
    bed.run(words, env=env, places=blocks(6, bed.names()), user="nobody", manager=True)


@managers.each()
@pytest.mark.hosts("managers", conduits=MANAGED)
def test_many_ranks_and_small_neighbourhoods(bed, manager):
    words, env = managers.command(bed, manager, 15)
    if manager == "openmpi":
        # It passes on no variables by itself.
        words[1:1] = ["-x", "GASNET_SUPERNODE_MAXSIZE"]
    env = {**env, "GASNET_SUPERNODE_MAXSIZE": "2"}
    bed.run(words, env=env, places=blocks(15, bed.names()), nbrhds=9, manager=True)


@managers.each()
@pytest.mark.hosts("managers", conduits=("smp",))
def test_a_conduit_without_a_network(bed, manager):
    words, env = managers.command(bed, manager, 3)
    bed.run(words, env=env, code=None, says=["smp conduit has no network"], manager=True)


@pytest.mark.parametrize("manager", ("hydra", "openmpi", "srun-pmi2", "srun-pmix"))
@pytest.mark.hosts("managers", conduits=MANAGED)
def test_cyclic_ranks(bed, manager):
    words = [bed.program.path]
    if manager == "hydra":
        one_each = ",".join(f"{n}:1" for n in bed.names())
        words = ["mpiexec.hydra", "-launcher", "ssh", "-hosts", one_each, "-n", "9", *words]
    elif manager == "openmpi":
        words = mpi.openmpi(9, bed.names(), words, ["--map-by", "node"])
    else:
        kind = manager.removeprefix("srun-")
        words = managers.srun(bed, kind, 9, options=["-m", "cyclic"])
        # Slurm gives the first node more, and deals the rest.
        bed.run(managers.srun(bed, kind, 7, options=["-m", "cyclic"]), ranks=7, nbrhds=3, manager=True)
    bed.run(words, places=cyclic(9, bed.names()), nbrhds=3, manager=True)


@pytest.mark.parametrize("manager", ("hydra", "openmpi", "srun-pmi2", "srun-pmix"))
@pytest.mark.hosts("managers", conduits=ALL)
def test_one_host(bed, manager):
    words, _ = managers.command(bed, manager, 4, hosts=1)
    bed.run(words, places=["node1"] * 4, nbrhds=1, manager=True)


@managers.each()
@pytest.mark.hosts("managers")
def test_one_rank(bed, manager):
    words, env = managers.command(bed, manager, 1, hosts=1)
    bed.run(words, env=env, places=["node1"], manager=True)


@pytest.mark.parametrize("manager", managers.QUICK)
@pytest.mark.hosts("managers")
def test_a_number_among_the_arguments(bed, manager):
    words, env = managers.command(bed, manager, 3, "--", "2")
    bed.run(words, env=env, ranks=3, arguments=["2"], manager=True)


@pytest.mark.hosts("managers")
def test_a_variable_of_the_first_host(bed):
    # Open MPI passes on none, so that the others do not know it. All must work alike nevertheless.
    bed.run(
        mpi.openmpi(6, bed.names(), [bed.program.path]),
        env={"GASNET_SUPERNODE_MAXSIZE": "1", "TEST_WATCHDOG": "20"},
        places=blocks(6, bed.names()),
        nbrhds=6,
        manager=True,
    )


@pytest.mark.parametrize("manager", managers.QUICK)
@pytest.mark.hosts("managers")
def test_standard_input(bed, manager):
    words, env = managers.command(bed, manager, 3, "--input")
    bed.run(words, env=env, ranks=3, stdin=b"abc", says=["^rank 0 input 3 bytes"], manager=True)


@pytest.mark.parametrize("option", ("-spawner=pmi", "-spawner=mpi"))
@pytest.mark.hosts("managers", quick=True)
def test_launcher_with_mpirun_cmd(bed, option):
    hosts = ",".join(f"{n}:2" for n in bed.names())
    env = {"MPIRUN_CMD": f"mpiexec.hydra -launcher ssh -hosts '{hosts}' -n %N %C"}
    bed.run(bed.launch(5, "--", *ODD, options=[option]), env=env, ranks=5, arguments=ODD, manager=True)


@pytest.mark.hosts("managers", quick=True)
def test_launcher_with_pmirun_cmd(bed):
    hosts = ",".join(f"{n}:2" for n in bed.names())
    env = {
        "PMIRUN_CMD": f"mpiexec.hydra -launcher ssh -hosts {hosts} -np %N %P %A",
        "MPIRUN_CMD": "nonsense",
        "GASNET_SPAWNER": "pmi",
    }
    bed.run(bed.launch(5, "--", *ODD), env=env, ranks=5, arguments=ODD, manager=True)


@pytest.mark.hosts("managers", quick=True)
def test_launcher_with_mpirun_of_open_mpi(bed):
    open_mpi = " ".join(mpi.openmpi(5, bed.names(), [])[:-2])
    bed.run(
        bed.launch(5, "--env=GASNET_X", options=["-spawner=mpi", "-N", "3"]),
        env={"MPIRUN_CMD": f"{open_mpi} -x GASNET_X -np %N %C", "GASNET_X": "a b"},
        places=blocks(5, bed.names()),
        variables={"GASNET_X": "a b"},
        manager=True,
    )
    # Variables that -E names reach Open MPI's ranks elsewhere, also with `env` before the launcher.
    bed.run(
        bed.launch(5, "--env=TEST_X", options=["-spawner=mpi", "-E", "TEST_X=a b"]),
        env={"MPIRUN_CMD": f"env -u NOT_SET TEST_Y=1 {open_mpi} -np %N %C"},
        places=blocks(5, bed.names()),
        variables={"TEST_X": "a b"},
        manager=True,
    )


@pytest.mark.hosts("managers")
def test_launcher_without_a_template(bed):
    options = ["-spawner=pmi"]
    bed.run(bed.launch(3, "--", *ODD, options=options), places=["node1"] * 3, arguments=ODD, manager=True)
    # With a variable that is not UTF-8.
    script = r"""X=$(printf '\351') exec "$@" """
    bed.run(["sh", "-c", script, "sh", *bed.launch(3, options=options)], places=["node1"] * 3, manager=True)


ALLOCATION = ("salloc", "-Q", "-N", "3", "-n", "6", "--ntasks-per-node=2")


@pytest.mark.hosts("managers", quick=True)
def test_launcher_in_an_allocation_of_slurm(bed):
    bed.run([*ALLOCATION, *bed.launch(6, "--", *ODD)], places=blocks(6, bed.names()), arguments=ODD, manager=True)
    says = ["host 1/2 with 2", "!on node3"]
    bed.run([*ALLOCATION, *bed.launch(4, options=["-N", "2"])], ranks=4, says=says, manager=True)
    # A shell that salloc begins as a step of its own, which holds no processors.
    step = ["env", "SLURM_STEP_ID=4294967290"]
    bed.run([*ALLOCATION, *step, *bed.launch(6)], places=blocks(6, bed.names()), manager=True)
    # As in a script that was submitted with --export=NONE.
    words = ["env", "SLURM_EXPORT_ENV=NONE", *bed.launch(6, "--env=TEST_X", options=["-E", "TEST_X=a b"])]
    bed.run([*ALLOCATION, *words], places=blocks(6, bed.names()), variables={"TEST_X": "a b"}, manager=True)


@pytest.mark.hosts("managers", quick=True)
def test_other_spawners_in_an_allocation_of_slurm(bed):
    for spawner, places in (("ssh", blocks(4, bed.names())), ("fork", ["node1"] * 4)):
        bed.run([*ALLOCATION, *bed.launch(4, options=[f"-spawner={spawner}"])], places=places, manager=True)


@pytest.mark.hosts("three", quick=True)
def test_where_no_manager_is(bed):
    conduit = bed.program.conduit
    variable = "GASNET_SPAWNER" if conduit == "any" else f"GASNET_{conduit.upper()}_SPAWNER"
    says = ["PMI_FD", "PMIX_NAMESPACE", "!^rank"]
    bed.run([bed.program.path, "2"], env={variable: "pmi"}, code=None, says=says)
    bed.run(
        ["env", "PATH=/nowhere", *bed.launch(2, options=["-spawner=pmi"])],
        code=2,
        says=["no process manager found", "MPIRUN_CMD"],
    )


# Programs that depend on the order of neighbours.
CYCLIC = (
    "system/neighbourhood",
    "segment/query_bound",
    "segment/segment_sizes",
    "am/am_payload",
    "am/am_negotiated",
    "rma/rma_blocking",
    "rma/rma_nonblocking",
    "atomic/atomic_mixed",
    "vis/vis_strided",
    "coll/barrier_named",
    "coll/broadcast",
    "coll/reduce",
    "coll/teams",
    "segment/endpoints",
    "stress/mixer",
)


@pytest.mark.parametrize("most", ("0", "2"))
@pytest.mark.parametrize("name", CYCLIC)
@pytest.mark.hosts("managers")
def test_client_program_with_cyclic_ranks(bed, name, most):
    one_each = ",".join(f"{n}:1" for n in bed.names())
    words = ["mpiexec.hydra", "-launcher", "ssh", "-hosts", one_each, "-n", "7", bed.program.client(name)]
    bed.run(words, env={"GASNET_SUPERNODE_MAXSIZE": most}, manager=True)


# Not Debian's MPICH 4.0 over UCX 1.13: between hosts MPI_Finalize may hang there, in any program.
@pytest.mark.parametrize("manager", ("openmpi", "srun-pmix"))
@pytest.mark.parametrize(("end", "code"), (("exit:0", 0), ("poll:9", 9), ("kill", None)))
@pytest.mark.hosts("managers", conduits=("mpi",))
def test_mpi(bed, manager, end, code):
    words, env = managers.command(bed, manager, 6, f"--end={end}")
    bed.run(words, env=env, code=code, places=blocks(6, bed.names()), nbrhds=3, manager=True)
