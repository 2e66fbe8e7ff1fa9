"""Ranks that a process manager has started: PMI-1, PMI-2, PMIx."""

import mpi
from bed import Skip, blocks, cyclic
from cases import ALL, case

ODD = ["", "a b", "c'd", 'e"f', "$HOME", "`id`", "\\", "--", "new\nline"]


def srun(bed, kind, ranks, *arguments, options=(), hosts=3):
    """srun with an interface."""
    if kind not in bed.slurm.mpi_types():
        raise Skip(f"this Slurm has no --mpi={kind}")
    share = [] if ranks % hosts else [f"--ntasks-per-node={ranks // hosts}"]
    return [
        "srun",
        "-n",
        str(ranks),
        "-N",
        str(hosts),
        *share,
        f"--mpi={kind}",
        *options,
        bed.program.path,
        *arguments,
    ]


def command(bed, manager, ranks, *arguments):
    """A job of a manager in blocks, and the environment that it needs."""
    words = [bed.program.path, *arguments]
    if manager == "hydra":
        return mpi.hydra(ranks, bed.names(), words), {}
    if manager == "hydra -pmi-port":
        return mpi.hydra(ranks, bed.names(), words, ["-pmi-port"]), {}
    if manager == "hydra, PMI-2":
        return mpi.hydra(ranks, bed.names(), words), {"GASNET_PMI": "pmi2"}
    if manager == "mpirun of Open MPI":
        return mpi.openmpi(ranks, bed.names(), words), {}
    return srun(bed, manager.removeprefix("srun --mpi="), ranks, *arguments), {}


MANAGERS = (
    "hydra",
    "hydra -pmi-port",
    "hydra, PMI-2",
    "mpirun of Open MPI",
    "srun --mpi=pmi2",
    "srun --mpi=pmix",
)
# One of each interface.
QUICK = ("hydra", "srun --mpi=pmi2", "mpirun of Open MPI")


def of_manager(manager):
    """Tests of one manager."""

    @case(f"{manager}: blocks, arguments", "managers", quick=manager in QUICK)
    def _(bed):
        words, env = command(bed, manager, 6, "--", *ODD)
        bed.run(
            words,
            env=env,
            places=blocks(6, bed.names()),
            nbrhds=3,
            arguments=ODD,
            manager=True,
        )

    @case(f"{manager}: as nobody", "managers")
    def _(bed):
        words, env = command(bed, manager, 6)
        bed.run(words, env=env, places=blocks(6, bed.names()), user="nobody", manager=True)

    @case(f"{manager}: many ranks, small neighbourhoods", "managers")
    def _(bed):
        words, env = command(bed, manager, 15)
        if manager == "mpirun of Open MPI":
            # It passes on no variables by itself.
            words[1:1] = ["-x", "GASNET_SUPERNODE_MAXSIZE"]
        bed.run(
            words,
            env={**env, "GASNET_SUPERNODE_MAXSIZE": "2"},
            places=blocks(15, bed.names()),
            nbrhds=9,
            manager=True,
        )

    @case(
        f"{manager}: a conduit without a network on several hosts",
        "managers",
        conduits=("smp",),
    )
    def _(bed):
        words, env = command(bed, manager, 3)
        bed.run(words, env=env, code=None, says=["smp conduit has no network"], manager=True)


for _manager in MANAGERS:
    of_manager(_manager)


@case("managers: cyclic ranks", "managers")
def _(bed):
    places, words = cyclic(9, bed.names()), [bed.program.path]
    one_each = ",".join(f"{n}:1" for n in bed.names())
    bed.run(
        ["mpiexec.hydra", "-launcher", "ssh", "-hosts", one_each, "-n", "9", *words],
        places=places,
        nbrhds=3,
        manager=True,
    )
    bed.run(
        mpi.openmpi(9, bed.names(), words, ["--map-by", "node"]),
        places=places,
        nbrhds=3,
        manager=True,
    )
    for kind in ("pmi2", "pmix"):
        bed.run(
            srun(bed, kind, 9, options=["-m", "cyclic"]),
            places=places,
            nbrhds=3,
            manager=True,
        )
        # Slurm gives the first node more, and deals what is left.
        bed.run(
            srun(bed, kind, 7, options=["-m", "cyclic"]),
            ranks=7,
            nbrhds=3,
            manager=True,
        )


@case("managers: on one host", "managers", conduits=ALL)
def _(bed):
    words = [bed.program.path]
    bed.run(mpi.hydra(4, ["node1"], words), places=["node1"] * 4, nbrhds=1, manager=True)
    bed.run(mpi.openmpi(4, ["node1"], words), places=["node1"] * 4, nbrhds=1, manager=True)
    for kind in ("pmi2", "pmix"):
        bed.run(srun(bed, kind, 4, hosts=1), places=["node1"] * 4, nbrhds=1, manager=True)


@case("managers: one rank", "managers")
def _(bed):
    for manager in MANAGERS:
        if manager.startswith("srun"):
            words, env = srun(bed, manager.removeprefix("srun --mpi="), 1, hosts=1), {}
        else:
            words, env = command(bed, manager, 1)
        bed.run(words, env=env, places=["node1"], manager=True)


@case("managers: a number among the arguments is an argument", "managers")
def _(bed):
    for manager in QUICK:
        words, env = command(bed, manager, 3, "--", "2")
        bed.run(words, env=env, ranks=3, arguments=["2"], manager=True)


@case("managers: a variable that only the first host has", "managers")
def _(bed):
    # Open MPI passes on none, so that the others do not know it. All must work alike nevertheless.
    bed.run(
        mpi.openmpi(6, bed.names(), [bed.program.path]),
        env={"GASNET_SUPERNODE_MAXSIZE": "1", "TEST_WATCHDOG": "20"},
        places=blocks(6, bed.names()),
        nbrhds=6,
        manager=True,
    )


@case("managers: standard input of rank 0", "managers")
def _(bed):
    for manager in QUICK:
        words, env = command(bed, manager, 3, "--input")
        bed.run(
            words,
            env=env,
            ranks=3,
            stdin=b"abc",
            says=["^rank 0 input 3 bytes"],
            manager=True,
        )


@case(
    "launcher: -spawner=pmi and mpi with the command of MPIRUN_CMD",
    "managers",
    quick=True,
)
def _(bed):
    hosts = ",".join(f"{n}:2" for n in bed.names())
    template = f"mpiexec.hydra -launcher ssh -hosts '{hosts}' -n %N %C"
    for option in ("-spawner=pmi", "-spawner=mpi"):
        bed.run(
            bed.launch(5, "--", *ODD, options=[option]),
            env={"MPIRUN_CMD": template},
            ranks=5,
            arguments=ODD,
            manager=True,
        )
    bed.run(
        bed.launch(5, "--", *ODD),
        env={
            "PMIRUN_CMD": f"mpiexec.hydra -launcher ssh -hosts {hosts} -np %N %P %A",
            "MPIRUN_CMD": "nonsense",
            "GASNET_SPAWNER": "pmi",
        },
        ranks=5,
        arguments=ODD,
        manager=True,
    )
    open_mpi = " ".join(mpi.openmpi(5, bed.names(), [])[:-2])
    bed.run(
        bed.launch(5, "--env=GASNET_X", options=["-spawner=mpi", "-N", "3"]),
        env={"MPIRUN_CMD": f"{open_mpi} -x GASNET_X -np %N %C", "GASNET_X": "a b"},
        places=blocks(5, bed.names()),
        variables={"GASNET_X": "a b"},
        manager=True,
    )
    # What -E names reaches Open MPI's ranks elsewhere, also behind env.
    bed.run(
        bed.launch(5, "--env=TEST_X", options=["-spawner=mpi", "-E", "TEST_X=a b"]),
        env={"MPIRUN_CMD": f"env -u NOT_SET TEST_Y=1 {open_mpi} -np %N %C"},
        places=blocks(5, bed.names()),
        variables={"TEST_X": "a b"},
        manager=True,
    )


@case("launcher: -spawner=pmi without a template", "managers")
def _(bed):
    bed.run(
        bed.launch(3, "--", *ODD, options=["-spawner=pmi"]),
        places=["node1"] * 3,
        arguments=ODD,
        manager=True,
    )
    # With a variable that is not UTF-8.
    bed.run(
        [
            "sh",
            "-c",
            r"""X=$(printf '\351') exec "$@" """,
            "sh",
            *bed.launch(3, options=["-spawner=pmi"]),
        ],
        places=["node1"] * 3,
        manager=True,
    )


@case("launcher: inside an allocation of Slurm's", "managers", quick=True)
def _(bed):
    allocation = ["salloc", "-Q", "-N", "3", "-n", "6", "--ntasks-per-node=2"]
    bed.run(
        [*allocation, *bed.launch(6, "--", *ODD)],
        places=blocks(6, bed.names()),
        arguments=ODD,
        manager=True,
    )
    bed.run(
        [*allocation, *bed.launch(4, options=["-N", "2"])],
        ranks=4,
        says=["host 1/2 with 2", "!on node3"],
        manager=True,
    )
    bed.run(
        [*allocation, *bed.launch(4, options=["-spawner=ssh"])],
        places=blocks(4, bed.names()),
        manager=True,
    )
    bed.run(
        [*allocation, *bed.launch(4, options=["-spawner=fork"])],
        places=["node1"] * 4,
        manager=True,
    )
    # A shell that salloc begins as a step of its own, which holds no processors.
    bed.run(
        [*allocation, "env", "SLURM_STEP_ID=4294967290", *bed.launch(6)],
        places=blocks(6, bed.names()),
        manager=True,
    )
    # As in a script that was submitted with --export=NONE.
    bed.run(
        [
            *allocation,
            "env",
            "SLURM_EXPORT_ENV=NONE",
            *bed.launch(6, "--env=TEST_X", options=["-E", "TEST_X=a b"]),
        ],
        places=blocks(6, bed.names()),
        variables={"TEST_X": "a b"},
        manager=True,
    )


@case("launcher: a wish for a process manager where none is", "three", quick=True)
def _(bed):
    conduit = bed.program.conduit
    variable = "GASNET_SPAWNER" if conduit == "any" else f"GASNET_{conduit.upper()}_SPAWNER"
    bed.run(
        [bed.program.path, "2"],
        env={variable: "pmi"},
        code=None,
        says=["PMI_FD", "PMIX_NAMESPACE", "!^rank"],
    )
    bed.run(
        ["env", "PATH=/nowhere", *bed.launch(2, options=["-spawner=pmi"])],
        code=2,
        says=["no process manager found", "MPIRUN_CMD"],
    )


# What may go wrong where neighbours are not in a row.
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


@case("managers: client programs with cyclic ranks", "managers")
def _(bed):
    one_each = ",".join(f"{n}:1" for n in bed.names())
    for name in CYCLIC:
        program = bed.program.client(name)
        for most in ("0", "2"):
            words = [
                "mpiexec.hydra",
                "-launcher",
                "ssh",
                "-hosts",
                one_each,
                "-n",
                "7",
                program,
            ]
            bed.run(words, env={"GASNET_SUPERNODE_MAXSIZE": most}, manager=True)
