"""Ends of jobs over several hosts: by themselves, by a lost process, host or cable, by signals.
Afterwards nothing is left."""

import time

import managers
import pytest
from bed import AFTER_SILENCE, ANY, SOON, blocks, inside, short
from kinds import ALL, QUICK

# Ways of --end: exit code where the job's own is the code, whether the message names the rank.
WAYS = {"exit:0": 0, "exit:3": 3, "return:0": 0, "return:4": 4, "one:9": 9, "poll:9": 9, "kill": 137, "abort": 134}
WAYS.update({"late-exit:7": 7, "late-kill": 137, "late-abort": 134})


# Places of the first ranks, and their spawner.
WHERE = pytest.mark.parametrize("where", ("fork", "ssh", "elsewhere"))
OVER_SSH = pytest.mark.parametrize("where", ("ssh", "elsewhere"))
# The process that the user has started.
A_MANAGER = "$(pgrep -o '^(srun|mpiexec.hydra|mpirun.openmpi|mpirun|orterun)$')"
every_way = pytest.mark.parametrize("way", WAYS)


def spawner(bed, where):
    """The environment for it."""
    return {"fork": {}, "ssh": bed.servers(), "elsewhere": bed.servers(2, 3)}[where]


def own_end(bed, env, way):
    """One way, with the fork or ssh spawner."""
    says = ["rank 3 of 4.*(SIGKILL|SIGABRT)"] if way.endswith(("kill", "abort")) else ["!killed"]
    bed.run(bed.launch(4, f"--end={way}"), env=env, code=WAYS[way], ranks=4, says=says)


@every_way
@pytest.mark.hosts("one", quick=True, conduits=ALL)
def test_fork(bed, way):
    own_end(bed, {}, way)


@every_way
@pytest.mark.hosts("three", quick=True)
def test_ssh(bed, way):
    own_end(bed, bed.servers(), way)


@pytest.mark.hosts("three", quick=True)
def test_ssh_elsewhere(bed):
    bed.run(bed.launch(4, "--end=one:9"), env=bed.servers(2, 3), code=9, ranks=4)


@every_way
@pytest.mark.hosts("seven")
def test_ssh_a_deep_tree(bed, way):
    own_end(bed, {"GASNET_SSH_OUT_DEGREE": "1", **bed.servers(3, 4, 5, 6)}, way)


@WHERE
@pytest.mark.hosts("three")
def test_a_rank_is_stopped_while_others_exit(bed, where):
    env = {"GASNET_EXITTIMEOUT": "2", **spawner(bed, where)}
    bed.run(bed.launch(4, "--end=stop"), env=env, code=0, ranks=4)


# Timeouts that end long before the rank is set free.
FROZEN = {"GASNET_EXITTIMEOUT": "0.5", "GASNET_FREEZE_ON_ERROR": "1"}


@pytest.mark.parametrize("where", ("fork", "ssh"))
@pytest.mark.hosts("three", quick=True)
def test_a_rank_that_waits_for_a_debugger(bed, where):
    says = ["FROZEN", "rank 3 of 4.*was killed by SIGABRT"]
    bed.run(bed.launch(4, "--end=frozen"), env={**FROZEN, **spawner(bed, where)}, code=134, ranks=4, says=says)


@pytest.mark.hosts("three", quick=True)
def test_sigkill_while_remote_shells_hang(bed):
    with (
        bed.script("hang", "exec sleep 600") as shell,
        bed.start(bed.launch(3), {"GASNET_SSH_CMD": shell, **bed.servers()}) as job,
    ):
        await_sleepers(bed, "sleep 600")
        name = bed.program.path.rsplit("/", 1)[-1]
        bed.hosts.check(1, ["sh", "-c", f"kill -KILL $(pgrep -f -o '/{name}$')"])
        job.over(None)


def await_sleepers(bed, command):
    """Until two remote shells run this."""
    end = time.monotonic() + SOON
    while sum(p.command == command for p in bed.hosts.strays()) < 2:
        assert time.monotonic() <= end, "the remote shells were not started"
        time.sleep(0.05)


# A manager chooses the exit code of a job that fails: it must be a failure, and the message must be
# there.


@every_way
@managers.each(quick=managers.QUICK[:1])
@pytest.mark.hosts("managers")
def test_manager(bed, manager, way):
    words, env = managers.command(bed, manager, 4, f"--end={way}")
    # In a failure, output on its way may be lost.
    success = WAYS[way] == 0
    bed.run(words, env=env, code=0 if success else None, ranks=4 if success else 0, manager=True)


@managers.each(quick=managers.QUICK[:1])
@pytest.mark.hosts("managers")
def test_manager_of_a_rank_that_waits_for_a_debugger(bed, manager):
    words, env = managers.command(bed, manager, 4, "--end=frozen")
    bed.run(words, env={**env, **FROZEN}, code=None, says=["FROZEN"], manager=True)


@pytest.mark.parametrize("signal", ("TERM", "INT"))
@managers.each()
@pytest.mark.hosts("managers")
def test_signal_to_the_manager(bed, manager, signal):
    words, env = managers.command(bed, manager, 4, "--end=wait")
    with bed.start(words, env) as job:
        job.await_ranks()
        bed.hosts.check(1, ["sh", "-c", f"kill -{signal} {A_MANAGER}"])
        if signal == "INT" and manager.startswith("srun"):
            # Slurm asks for a second one.
            time.sleep(0.3)
            bed.hosts.run(1, ["sh", "-c", "kill -INT $(pgrep -o '^srun$')"])
        # After a signal hydra sometimes reports success, whatever it has started (SIGTERM: 1 of 30
        # with `sleep`).
        job.over(ANY if manager.startswith("hydra") else None)


@pytest.mark.parametrize("when", ("before", "after"))
@managers.each(quick=managers.QUICK)
@pytest.mark.hosts("managers")
def test_sigusr1_to_the_manager(bed, manager, when):
    words, env = managers.command(bed, manager, 3)
    words[words.index(bed.program.path) :] = [bed.program.client("launch/signals"), when]
    with bed.start(words, env) as job:
        job.await_text("ready")
        bed.hosts.check(1, ["sh", "-c", f"kill -USR1 {A_MANAGER}"])
        job.over(0, *(f"^rank {rank} got signal 10$" for rank in range(3)))


# Scripts between the two live on.
@pytest.mark.parametrize("shell", ([], ["sh", "-c", '"$@"; exit $?', "sh"]), ids=("directly", "by-a-script"))
@pytest.mark.parametrize(
    "manager, part",
    (("hydra", "hydra_pmi_proxy"), ("openmpi", "mpirun.openmpi|mpirun|orterun|prterun")),
    ids=("hydra", "openmpi"),
)
@pytest.mark.hosts("managers", quick=True)
def test_sigkill_of_a_managers_part(bed, manager, part, shell):
    words, env = managers.command(bed, manager, 6, "--end=wait")
    at = words.index(bed.program.path)
    words[at:at] = shell
    with bed.start(words, env) as job:
        job.await_ranks()
        bed.hosts.check(1, ["sh", "-c", f"kill -KILL $(pgrep -o '^({part})$')"])
        job.over(None)


# srun waits for the processes that it has started, whatever happens to the rest. (Slurm's part for
# PMIx does not end when its ranks give up a fence.)
@pytest.mark.parametrize(
    "manager, way",
    (
        pytest.param("hydra", "exit 0", id="hydra-exit", marks=QUICK),
        pytest.param("hydra", "exec sleep 600", id="hydra-sleep", marks=QUICK),
        pytest.param("hydra-pmi2", "exit 0", id="hydra-pmi2-exit"),
        pytest.param("hydra-pmi2", "exec sleep 600", id="hydra-pmi2-sleep"),
        pytest.param("openmpi", "exit 0", id="openmpi-exit"),
        pytest.param("openmpi", "exec sleep 600", id="openmpi-sleep"),
        pytest.param("srun-pmi2", "exit 0", id="srun-pmi2-exit"),
    ),
)
@pytest.mark.hosts("managers")
def test_a_rank_of_a_manager_never_comes(bed, manager, way):
    script = f'[ "${{PMI_RANK:-$PMIX_RANK}}" != 1 ] || {way}; exec "$0"'
    words, env = managers.command(bed, manager, 3)
    words[words.index(bed.program.path) :] = ["sh", "-c", script, bed.program.path]
    if manager == "openmpi":
        words[1:1] = ["-x", "GASNET_SPAWN_TIMEOUT"]
    with bed.start(words, {"GASNET_SPAWN_TIMEOUT": "1", **env}) as job:
        job.over(None)


@pytest.mark.parametrize(
    "manager, asked, name", (("hydra", "pmix", "PMIx"), ("openmpi", "pmi1", "PMI-1")), ids=("hydra", "openmpi")
)
@pytest.mark.hosts("managers", quick=True)
def test_another_interface_than_is_asked_for(bed, manager, asked, name):
    words, env = managers.command(bed, manager, 3)
    if manager != "hydra":
        words[1:1] = ["-x", "GASNET_PMI"]
    says = [f"GASNET_PMI asks for {name}"]
    bed.run(words, env={**env, "GASNET_PMI": asked}, code=None, ranks=0, says=says, manager=True)


@pytest.mark.hosts("managers", quick=True)
def test_srun_without_an_interface(bed):
    words = ["srun", "-n", "3", "-N", "3", "--mpi=none", bed.program.path]
    bed.run(words, code=1, says=["srun has started 3 processes"], ranks=0, manager=True)
    bed.run(words, env={"GASNET_PSHM_NODES": "1"}, says=["^rank 0 of 1 .*"], ranks=0, manager=True)


@OVER_SSH
@pytest.mark.hosts("three", quick=True)
def test_sigkill_of_a_rank_on_another_host(bed, where):
    with bed.waiting(spawner(bed, where)) as job:
        last = job.await_ranks()[-1]
        bed.kill(3, last.pid)
        job.over(137, "rank 4 of 5 .*SIGKILL")


@OVER_SSH
@pytest.mark.hosts("three", quick=True)
def test_sigkill_of_an_agent(bed, where):
    with bed.waiting(spawner(bed, where)) as job:
        found = bed.agents(job.await_ranks(), 3)
        assert len(found) == 1, f"{len(found)} agents on node3"
        bed.kill(3, inside(found[0].pid))
        job.over(None, "node3")


@pytest.mark.hosts("seven")
def test_sigkill_of_an_agent_in_a_deep_tree(bed):
    with bed.waiting({"GASNET_SSH_OUT_DEGREE": "1", **bed.servers(2, 3, 4, 5, 6)}) as job:
        bed.kill(4, inside(bed.agents(job.await_ranks(), 4)[0].pid))
        job.over(None, "node4")


@WHERE
@pytest.mark.hosts("three", quick=True)
def test_sigkill_of_the_starting_process(bed, where):
    with bed.waiting(spawner(bed, where)) as job:
        found = bed.agents(job.await_ranks(), 1)
        assert len(found) == 1, f"{len(found)} starting processes on node1"
        bed.kill(1, inside(found[0].pid))
        job.over(137)


@pytest.mark.hosts("three")
def test_sigkill_of_a_remote_shell(bed):
    with bed.waiting(bed.servers(2, 3)) as job:
        job.await_ranks()
        shells = [
            p for p in bed.hosts.strays() if p.host == 1 and p.command.startswith("ssh ") and " node3 " in p.command
        ]
        assert len(shells) == 1, f"{len(shells)} remote shells for node3"
        bed.kill(1, inside(shells[0].pid))
        # The control connection is another one: the job may go on, but must still end in order.
        time.sleep(1)
        if job.process.poll() is None:
            bed.kill(1, inside(bed.agents(job.await_ranks(), 1)[0].pid), "TERM")
        job.over(None)


@WHERE
@pytest.mark.parametrize("signal, code", (("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)))
@pytest.mark.hosts("three", quick=True)
def test_signal_to_the_starting_process(bed, where, signal, code):
    with bed.waiting(spawner(bed, where)) as job:
        bed.kill(1, inside(bed.agents(job.await_ranks(), 1)[0].pid), signal)
        job.over(code)


@OVER_SSH
@pytest.mark.parametrize("when, signal, number", (("before", "USR1", 10), ("after", "TERM", 15), ("thread", "HUP", 1)))
@pytest.mark.hosts("three", quick=True)
def test_signal_to_handlers_of_the_client(bed, where, when, signal, number):
    program = bed.program.client("launch/signals")
    with bed.start([bed.program.launcher, "-n", "3", program, when], spawner(bed, where)) as job:
        job.await_text("ready")
        bed.kill(1, bed.first_process(program), signal)
        job.over(0, *(f"^rank {rank} got signal {number}$" for rank in range(3)))


@OVER_SSH
@pytest.mark.parametrize("signal, code", (("INT", 130), ("TERM", 143)))
@pytest.mark.hosts("three")
def test_signal_while_hosts_have_not_called(bed, where, signal, code):
    with (
        bed.script("never", "sleep 1000") as shell,
        bed.start(bed.launch(3), {"GASNET_SSH_CMD": shell, **spawner(bed, where)}) as job,
    ):
        await_sleepers(bed, "sleep 1000")
        bed.kill(1, bed.first_process(), signal)
        job.over(code)


def end_with_stopped_agent(bed, job):
    """Stops the agent of host 3 and ends the job; returns the agent's number there."""
    ranks = job.await_ranks()
    agent = inside(bed.agents(ranks, 3)[0].pid)
    bed.kill(3, agent, "STOP")
    bed.kill(1, inside(bed.agents(ranks, 1)[0].pid), "TERM")
    return agent


@pytest.mark.hosts("three")
def test_a_stopped_agent_goes_on(bed):
    with bed.waiting(bed.servers()) as job:
        agent = end_with_stopped_agent(bed, job)
        time.sleep(1)
        bed.kill(3, agent, "CONT")
        job.over(143)


@pytest.mark.hosts("fresh")
def test_a_stopped_agent_is_given_up(bed):
    with bed.waiting(bed.servers()) as job:
        agent = end_with_stopped_agent(bed, job)
        got = job.await_end(AFTER_SILENCE)
        assert got != 0 and "node3 has been silent" in " ".join(job.text()), (
            f"exit code {got}: {short(' '.join(job.text()))}"
        )
        # It continues, finds its connections closed, and ends its ranks.
        bed.kill(3, agent, "CONT")
        left = bed.left(15)
        assert not left, left


@pytest.mark.hosts("fresh")
def test_a_host_crashes(bed):
    with bed.waiting(bed.servers()) as job:
        job.await_ranks()
        bed.hosts.crash(3)
        job.over(None, "node3", limit=AFTER_SILENCE)


@pytest.mark.hosts("fresh")
def test_the_starting_host_crashes(bed):
    with bed.waiting(bed.servers(), ranks=6) as job:
        job.await_ranks()
        bed.hosts.crash(1)
        job.await_end(AFTER_SILENCE)
        left = bed.left(AFTER_SILENCE)
        assert not left, left


@pytest.mark.hosts("fresh")
def test_the_cable_of_a_host_is_pulled(bed):
    with bed.waiting(bed.servers()) as job:
        job.await_ranks()
        bed.hosts.link(3, up=False)
        job.over(None, "node3", limit=AFTER_SILENCE, grace=AFTER_SILENCE, cut=True)


@pytest.mark.hosts("fresh")
def test_the_cable_in_the_middle_of_a_tree_is_pulled(bed):
    with bed.waiting({"GASNET_SSH_OUT_DEGREE": "1", **bed.servers()}) as job:
        job.await_ranks()
        bed.hosts.link(2, up=False)
        job.over(None, "node2", limit=AFTER_SILENCE, grace=AFTER_SILENCE, cut=True)


@pytest.mark.hosts("fresh")
def test_the_cable_of_a_managers_host_is_pulled(bed):
    words, env = managers.command(bed, "hydra", 6, "--end=wait")
    with bed.start(words, {"TEST_WATCHDOG": "300", **env}) as job:
        ranks = job.await_ranks()
        assert [r.host for r in ranks] == blocks(6, bed.names()), "the ranks are elsewhere"
        bed.hosts.link(3, up=False)
        # hydra itself waits for its proxy there; our processes must end, also on the host that is
        # cut off.
        end = time.monotonic() + AFTER_SILENCE
        while [p for p in bed.hosts.strays() if p.command.startswith(bed.program.path)]:
            assert time.monotonic() <= end, f"the ranks still ran: {short(' '.join(job.text()))}"
            time.sleep(0.1)
        assert "the connection to host node3 is lost" in job.text()[1], (
            f"there is no message: {short(' '.join(job.text()))}"
        )
