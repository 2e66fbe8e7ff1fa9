"""How jobs end: by themselves, by a lost process, host or cable, by signals. Afterwards nothing is
left."""

import re
import time

import managers
from bed import Job, Wrong, blocks, short
from cases import ALL, case

# Ways of --end: exit code where the job's own is the code, whether the message names the rank.
WAYS = {"exit:0": 0, "exit:3": 3, "return:0": 0, "return:4": 4, "one:9": 9, "poll:9": 9, "kill": 137, "abort": 134}
WAYS.update({"late-exit:7": 7, "late-kill": 137, "late-abort": 134})
# After a loss. Silence of a host is noticed after 30 s.
SOON, AFTER_SILENCE = 40, 90
# Any exit code; None means any but 0.
ANY = "any"


def own_ends(bed, env, ranks=4, prefix=None):
    """All ways, with the fork or ssh spawner."""
    for way, code in WAYS.items():
        says = ["rank 3 of 4.*(SIGKILL|SIGABRT)"] if way.endswith(("kill", "abort")) else ["!killed"]
        bed.run(bed.launch(ranks, f"--end={way}"), env=env, code=code, ranks=ranks, says=says)


@case("ends: fork", "one", quick=True, conduits=ALL)
def _(bed):
    own_ends(bed, {})


@case("ends: ssh", "three", quick=True)
def _(bed):
    own_ends(bed, bed.servers())
    bed.run(bed.launch(4, "--end=one:9"), env=bed.servers(2, 3), code=9, ranks=4)


@case("ends: ssh, a deep tree", "seven")
def _(bed):
    own_ends(bed, {"GASNET_SSH_OUT_DEGREE": "1", **bed.servers(3, 4, 5, 6)})


@case("ends: a rank that is stopped while the others exit", "three")
def _(bed):
    for env in ({}, bed.servers(), bed.servers(2, 3)):
        bed.run(bed.launch(4, "--end=stop"), env={"GASNET_EXITTIMEOUT": "2", **env}, code=0, ranks=4)


# Timeouts that end long before the rank is set free.
FROZEN = {"GASNET_EXITTIMEOUT": "0.5", "GASNET_FREEZE_ON_ERROR": "1"}


@case("ends: a rank that waits for a debugger", "three", quick=True)
def _(bed):
    for env in ({}, bed.servers()):
        says = ["FROZEN", "rank 3 of 4.*was killed by SIGABRT"]
        bed.run(bed.launch(4, "--end=frozen"), env={**FROZEN, **env}, code=134, ranks=4, says=says)


@case("ends: the started process is killed while remote shells hang", "three", quick=True)
def _(bed):
    with bed.script("hang", "exec sleep 600") as shell:
        bed.look_around()
        with starting(bed, bed.launch(3), {"GASNET_SSH_CMD": shell, **bed.servers()}) as job:
            end = time.monotonic() + 30
            while sum(p.command == "sleep 600" for p in bed.hosts.strays()) < 2:
                if time.monotonic() > end:
                    raise Wrong("the remote shells did not begin")
                time.sleep(0.05)
            name = bed.program.path.rsplit("/", 1)[-1]
            bed.hosts.check(1, ["sh", "-c", f"kill -KILL $(pgrep -f -o '/{name}$')"])
            over(bed, job, None)


def of_manager(manager):
    """All ways under a process manager. A manager chooses the exit code of a job that fails: it
    must be a failure, and the message must be there."""

    @case(f"ends: {manager}", "managers", quick=manager in managers.QUICK[:1])
    def _(bed):
        for way, code in WAYS.items():
            words, env = managers.command(bed, manager, 4, f"--end={way}")
            # In a failure, output on its way may be lost.
            bed.run(words, env=env, code=0 if code == 0 else None, ranks=4 if code == 0 else 0, manager=True)

        words, env = managers.command(bed, manager, 4, "--end=frozen")
        bed.run(words, env={**env, **FROZEN}, code=None, says=["FROZEN"], manager=True)

    @case(f"ends: {manager}, SIGTERM and SIGINT to the manager", "managers")
    def _(bed):
        for signal in ("TERM", "INT"):
            words, env = managers.command(bed, manager, 4, "--end=wait")
            with starting(bed, words, env) as job:
                job.await_ranks()
                bed.hosts.check(
                    1,
                    ["sh", "-c", f"kill -{signal} $(pgrep -o '^(srun|mpiexec.hydra|mpirun.openmpi|mpirun|orterun)$')"],
                )
                if signal == "INT" and manager.startswith("srun"):
                    # Slurm asks for a second one.
                    time.sleep(0.3)
                    bed.hosts.run(1, ["sh", "-c", "kill -INT $(pgrep -o '^srun$')"])
                # After a signal hydra now and then says that all went well, whatever it has started
                # (SIGTERM: 1 of 30 with `sleep`).
                over(bed, job, ANY if manager.startswith("hydra") else None)

    @case(f"ends: {manager}, SIGUSR1 to the manager", "managers", quick=manager in managers.QUICK)
    def _(bed):
        program = bed.program.client("launch/signals")
        for when in ("before", "after"):
            words, env = managers.command(bed, manager, 3)
            words[words.index(bed.program.path) :] = [program, when]
            with starting(bed, words, env) as job:
                job.await_text("ready")
                bed.hosts.check(
                    1, ["sh", "-c", "kill -USR1 $(pgrep -o '^(srun|mpiexec.hydra|mpirun.openmpi|mpirun|orterun)$')"]
                )
                over(bed, job, 0, *(f"^rank {rank} got signal 10$" for rank in range(3)))


for _manager in managers.MANAGERS:
    of_manager(_manager)


@case("ends: SIGKILL of a process manager's part", "managers", quick=True)
def _(bed):
    for manager, part in (
        ("hydra", "hydra_pmi_proxy"),
        ("mpirun of Open MPI", "mpirun.openmpi|mpirun|orterun|prterun"),
    ):
        # Scripts between the two live on.
        for shell in ([], ["sh", "-c", '"$@"; exit $?', "sh"]):
            words, env = managers.command(bed, manager, 6, "--end=wait")
            at = words.index(bed.program.path)
            words[at:at] = shell
            with starting(bed, words, env) as job:
                job.await_ranks()
                bed.hosts.check(1, ["sh", "-c", f"kill -KILL $(pgrep -o '^({part})$')"])
                over(bed, job, None)


@case("ends: a rank of a process manager's that never comes", "managers", quick=True)
def _(bed):
    script = '[ "${PMI_RANK:-$PMIX_RANK}" != 1 ] || %s; exec "$0"'
    # (Slurm's part for PMIx does not end when its ranks give up a fence.)
    of_all = ("hydra", "hydra, PMI-2", "mpirun of Open MPI", "srun --mpi=pmi2")
    for manager in of_all if bed.thorough else of_all[:1]:
        # srun waits for what it has started, whatever becomes of the rest.
        for way in ("exit 0",) if manager.startswith("srun") else ("exit 0", "exec sleep 600"):
            words, env = managers.command(bed, manager, 3)
            words[words.index(bed.program.path) :] = ["sh", "-c", script % way, bed.program.path]
            if manager == "mpirun of Open MPI":
                words[1:1] = ["-x", "GASNET_SPAWN_TIMEOUT"]
            with starting(bed, words, {"GASNET_SPAWN_TIMEOUT": "1", **env}) as job:
                try:
                    over(bed, job, None)
                except Wrong as wrong:
                    raise Wrong(f"{manager}, {way}: {wrong}") from None


@case("ends: another interface than is asked for, or none", "managers", quick=True)
def _(bed):
    for manager, asked, says in (
        ("hydra", "pmix", "GASNET_PMI asks for PMIx"),
        ("mpirun of Open MPI", "pmi1", "GASNET_PMI asks for PMI-1"),
    ):
        words, env = managers.command(bed, manager, 3)
        if manager != "hydra":
            words[1:1] = ["-x", "GASNET_PMI"]
        bed.run(words, env={**env, "GASNET_PMI": asked}, code=None, ranks=0, says=[says], manager=True)
    words = ["srun", "-n", "3", "-N", "3", "--mpi=none", bed.program.path]
    bed.run(words, code=1, says=["srun has started 3 tasks, but offers them no PMI"], ranks=0, manager=True)
    bed.run(words, env={"GASNET_PSHM_NODES": "1"}, says=["^rank 0 of 1 .*"], ranks=0, manager=True)


def starting(bed, words, env):
    """A job in the background."""
    bed.look_around()
    return Job(bed, words, env=env)


def over(bed, job, code, *says, limit=SOON, grace=15, cut=False):
    """The job ends in time, as it should, and leaves nothing."""
    got = job.await_end(limit)
    text = " ".join(job.text())
    if code != ANY and (got != code if code is not None else got == 0):
        raise Wrong(f"exit code {got} instead of {'a failure' if code is None else code}: {short(text)}")
    for pattern in says:
        if not re.search(pattern, text, re.M):
            raise Wrong(f"the output lacks {pattern!r}: {short(text)}")
    left = bed.left(grace, cut)
    if left:
        raise Wrong(f"{left}: {short(text, 200)}")


def inside(pid):
    """A process's number on its own host."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return int(next(line for line in file if line.startswith("NSpid:")).split()[-1])


def agents(bed, ranks, host, program=None):
    """Processes of the program (of most tests, unless `program`) on a host that are no ranks."""
    own = {r.pid for r in ranks if r.host == f"node{host}"}
    return [
        p
        for p in bed.hosts.strays()
        if p.host == host and p.command.startswith(program or bed.program.path) and inside(p.pid) not in own
    ]


def first_process(bed, program=None):
    """The starting process, which has the lowest number of the program's on its host."""
    program = program or bed.program.path
    return min(inside(p.pid) for p in bed.hosts.strays() if p.host == 1 and p.command.startswith(program))


def kill(bed, host, pid, signal="KILL"):
    """Sends a signal to a process by its number on its host."""
    bed.hosts.check(host, ["kill", f"-{signal}", str(pid)])


def waiting(bed, servers, ranks=5):
    """A job whose ranks wait, with the ssh spawner."""
    return starting(bed, bed.launch(ranks, "--end=wait"), {"TEST_WATCHDOG": "300", **servers})


@case("ends: SIGKILL of a rank on another host", "three", quick=True)
def _(bed):
    for servers in (bed.servers(), bed.servers(2, 3)):
        with waiting(bed, servers) as job:
            last = job.await_ranks()[-1]
            kill(bed, 3, last.pid)
            over(bed, job, 137, "rank 4 of 5 .*SIGKILL")


@case("ends: SIGKILL of an agent", "three", quick=True)
def _(bed):
    for servers in (bed.servers(), bed.servers(2, 3)):
        with waiting(bed, servers) as job:
            found = agents(bed, job.await_ranks(), 3)
            if len(found) != 1:
                raise Wrong(f"{len(found)} agents on node3")
            kill(bed, 3, inside(found[0].pid))
            over(bed, job, None, "node3")


@case("ends: SIGKILL of an agent in the middle of a deep tree", "seven")
def _(bed):
    with waiting(bed, {"GASNET_SSH_OUT_DEGREE": "1", **bed.servers(2, 3, 4, 5, 6)}) as job:
        kill(bed, 4, inside(agents(bed, job.await_ranks(), 4)[0].pid))
        over(bed, job, None, "node4")


@case("ends: SIGKILL of the starting process", "three", quick=True)
def _(bed):
    for servers in ({}, bed.servers(), bed.servers(2, 3)):
        with waiting(bed, servers) as job:
            found = agents(bed, job.await_ranks(), 1)
            if len(found) != 1:
                raise Wrong(f"{len(found)} starting processes on node1")
            kill(bed, 1, inside(found[0].pid))
            over(bed, job, 137)


@case("ends: SIGKILL of a remote shell", "three")
def _(bed):
    with waiting(bed, bed.servers(2, 3)) as job:
        job.await_ranks()
        shells = [
            p for p in bed.hosts.strays() if p.host == 1 and p.command.startswith("ssh ") and " node3 " in p.command
        ]
        if len(shells) != 1:
            raise Wrong(f"{len(shells)} remote shells for node3")
        kill(bed, 1, inside(shells[0].pid))
        # The control connection is another one: the job may go on, but must still end in order.
        time.sleep(1)
        if job.process.poll() is None:
            kill(bed, 1, inside(agents(bed, job.await_ranks(), 1)[0].pid), "TERM")
        over(bed, job, None)


@case("ends: signals to the starting process", "three", quick=True)
def _(bed):
    for signal, code in (("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)):
        for servers in ({}, bed.servers(), bed.servers(2, 3)):
            with waiting(bed, servers) as job:
                kill(bed, 1, inside(agents(bed, job.await_ranks(), 1)[0].pid), signal)
                over(bed, job, code)


@case("ends: signals to handlers of the client", "three", quick=True)
def _(bed):
    program = bed.program.client("launch/signals")
    for when, signal, number in (("before", "USR1", 10), ("after", "TERM", 15), ("thread", "HUP", 1)):
        for servers in (bed.servers(), bed.servers(2, 3)):
            with starting(bed, [bed.program.launcher, "-n", "3", program, when], servers) as job:
                job.await_text("ready")
                kill(bed, 1, first_process(bed, program), signal)
                over(bed, job, 0, *(f"^rank {rank} got signal {number}$" for rank in range(3)))


@case("ends: signals while hosts have not called", "three")
def _(bed):
    with bed.script("never", "sleep 1000") as shell:
        for signal, code in (("INT", 130), ("TERM", 143)):
            for servers in (bed.servers(), bed.servers(2, 3)):
                with starting(bed, bed.launch(3), {"GASNET_SSH_CMD": shell, **servers}) as job:
                    end = time.monotonic() + SOON
                    while len([p for p in bed.hosts.strays() if p.command == "sleep 1000"]) < 2:
                        if time.monotonic() > end:
                            raise Wrong("the remote shells were not started")
                        time.sleep(0.05)
                    kill(bed, 1, first_process(bed), signal)
                    over(bed, job, code)


def end_with_stopped_agent(bed, job):
    """Stops the agent of host 3 and ends the job; returns the agent's number there."""
    ranks = job.await_ranks()
    agent = inside(agents(bed, ranks, 3)[0].pid)
    kill(bed, 3, agent, "STOP")
    kill(bed, 1, inside(agents(bed, ranks, 1)[0].pid), "TERM")
    return agent


@case("ends: a stopped agent holds nobody for ever when it goes on", "three")
def _(bed):
    with waiting(bed, bed.servers()) as job:
        agent = end_with_stopped_agent(bed, job)
        time.sleep(1)
        kill(bed, 3, agent, "CONT")
        over(bed, job, 143)


@case("ends: a stopped agent is given up", "fresh")
def _(bed):
    with waiting(bed, bed.servers()) as job:
        agent = end_with_stopped_agent(bed, job)
        got = job.await_end(AFTER_SILENCE)
        if got == 0 or "node3 has been silent" not in " ".join(job.text()):
            raise Wrong(f"exit code {got}: {short(' '.join(job.text()))}")
        # It goes on, sees that nobody is there, and takes its ranks along.
        kill(bed, 3, agent, "CONT")
        left = bed.left(15)
        if left:
            raise Wrong(left)


@case("ends: a host crashes", "fresh")
def _(bed):
    with waiting(bed, bed.servers()) as job:
        job.await_ranks()
        bed.hosts.crash(3)
        over(bed, job, None, "node3", limit=AFTER_SILENCE)


@case("ends: the starting host crashes", "fresh")
def _(bed):
    with waiting(bed, bed.servers(), ranks=6) as job:
        job.await_ranks()
        bed.hosts.crash(1)
        job.await_end(AFTER_SILENCE)
        left = bed.left(AFTER_SILENCE)
        if left:
            raise Wrong(left)


@case("ends: the cable of a host is pulled", "fresh")
def _(bed):
    with waiting(bed, bed.servers()) as job:
        job.await_ranks()
        bed.hosts.link(3, up=False)
        over(bed, job, None, "node3", limit=AFTER_SILENCE, grace=AFTER_SILENCE, cut=True)


@case("ends: the cable of a host in the middle of the tree is pulled", "fresh")
def _(bed):
    with waiting(bed, {"GASNET_SSH_OUT_DEGREE": "1", **bed.servers()}) as job:
        job.await_ranks()
        bed.hosts.link(2, up=False)
        over(bed, job, None, "node2", limit=AFTER_SILENCE, grace=AFTER_SILENCE, cut=True)


@case("ends: a host of a manager's job loses its cable", "fresh")
def _(bed):
    words, env = managers.command(bed, "hydra", 6, "--end=wait")
    with starting(bed, words, {"TEST_WATCHDOG": "300", **env}) as job:
        ranks = job.await_ranks()
        if [r.host for r in ranks] != blocks(6, bed.names()):
            raise Wrong("the ranks are elsewhere")
        bed.hosts.link(3, up=False)
        # hydra itself waits for its proxy there; our processes must end, also on the host that is
        # cut off.
        end = time.monotonic() + AFTER_SILENCE
        while [p for p in bed.hosts.strays() if p.command.startswith(bed.program.path)]:
            if time.monotonic() > end:
                raise Wrong(f"the ranks still ran: {short(' '.join(job.text()))}")
            time.sleep(0.1)
        if "the connection to host node3 is lost" not in job.text()[1]:
            raise Wrong(f"there is no message: {short(' '.join(job.text()))}")
