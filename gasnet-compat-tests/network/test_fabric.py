"""The network of ofi: hosts that do not agree on a provider, which network it takes, jobs that a
command of the user's starts, and losses while ranks exchange much."""

import time

import managers
import pytest
from bed import TIMEOUT, blocks, inside, short
from working import FIVE_ALONE, FIVE_ON_THREE, under_way

CHOSEN = r"^GASNet: ofi: tcp;ofi_rxm on {}, "


@pytest.mark.hosts("three", quick=True, conduits=("ofi",))
def test_provider(bed):
    verbose = {"GASNET_VERBOSEENV": "1"}
    bed.run(
        bed.launch(5),
        env={**verbose, **bed.servers()},
        places=blocks(5, bed.names()),
        nbrhds=3,
        says=[CHOSEN.format("eth0")],
    )
    bed.run(
        bed.launch(3), env={**verbose, "GASNET_SUPERNODE_MAXSIZE": "1"}, nbrhds=3, ranks=3, says=[CHOSEN.format(r"\S+")]
    )


@pytest.mark.parametrize("manager", managers.QUICK)
@pytest.mark.hosts("managers", quick=True, conduits=("ofi",))
def test_manager(bed, manager):
    words, env = managers.command(bed, manager, 6)
    bed.run(words, env=env, places=blocks(6, bed.names()), nbrhds=3, manager=True)


# The device that the user names counts more than the network.
@pytest.mark.parametrize(
    "variable, value, interface",
    (
        ("GASNET_WORKERIP", None, "eth0"),
        ("GASNET_WORKERIP", "10.78.0.0", "eth1"),
        ("GASNET_WORKERIP", "fd78::", "eth1"),
        ("GASNET_WORKERIP", "fd77::", "eth0"),
        ("GASNET_OFI_DEVICE", "eth1", "eth1"),
    ),
)
@pytest.mark.hosts("two-networks", conduits=("ofi",))
def test_hosts_with_two_networks(bed, variable, value, interface):
    env = {"GASNET_VERBOSEENV": "1", variable: value, **bed.servers()}
    bed.run(bed.launch(6), env=env, places=blocks(6, bed.names()), says=[CHOSEN.format(interface)])


# A remote shell that sets a variable on node3: that, and its value, are to be filled in.
ELSEWHERE = """
set_there='export {}="{}"; '
case " $* " in *" node3 "*) ;; *) exec ssh "$@" ;; esac
count=$#
for word; do
    count=$((count - 1))
    [ $count -gt 0 ] || word=$set_there$word
    set -- "$@" "$word"
    shift
done
exec ssh "$@"
"""


@pytest.mark.parametrize(
    "variable, value, says",
    (
        pytest.param(
            "GASNET_OFI_PROVIDER",
            "net",
            "this rank uses the provider .*, but rank . uses .* Set GASNET_OFI_PROVIDER",
            id="another",
        ),
        pytest.param("GASNET_OFI_PROVIDER", "cxi", "libfabric has no provider GASNET_OFI_PROVIDER=cxi", id="none"),
        pytest.param("GASNET_OFI_LIBRARY", "/nowhere/libfabric.so.1", "/nowhere/libfabric.so.1", id="no-library"),
        pytest.param("GASNET_OFI_DEVICE", "eth7", "GASNET_OFI_DEVICE=eth7", id="no-device"),
    ),
)
@pytest.mark.hosts("three", quick=True, conduits=("ofi",))
def test_one_host_has_another_provider(bed, variable, value, says):
    with bed.script("elsewhere", ELSEWHERE.format(variable, value)) as shell:
        env = {"GASNET_SSH_CMD": shell, **bed.servers()}
        bed.run(bed.launch(3), env=env, code=None, says=[says, "!^rank", "!panicked"], limit=40)


@pytest.mark.hosts("managers", conduits=("ofi",))
def test_custom(bed):
    launch = bed.launch(3, "--", "x y", options=["-spawner=custom"])
    loop = {"GASNET_CSPAWN_CMD": "for i in $(seq %N); do %C & done; wait"}
    bed.run(launch, env=loop, places=["node1"] * 3, arguments=["x y"], manager=True)
    hosts = ",".join(f"{name}:1" for name in bed.names())
    several = {
        "GASNET_CSPAWN_CMD": f"mpiexec.hydra -launcher ssh -hosts {hosts} -genvall -n %N %C",
        "GASNET_WORKER_RANK": "PMI_RANK",
    }
    bed.run(launch, env=several, places=blocks(3, bed.names()), nbrhds=3, arguments=["x y"], manager=True)


@pytest.mark.hosts("three", quick=True, conduits=("ofi",))
def test_sigkill_of_a_rank_in_traffic(bed):
    with under_way(bed, FIVE_ALONE) as job:
        job.lose(-1)


@pytest.mark.hosts("three", quick=True, conduits=("ofi",))
def test_sigkill_of_an_agent_in_traffic(bed):
    with under_way(bed, FIVE_ON_THREE) as job:
        bed.kill(3, inside(bed.agents(job.ranks, 3, bed.program.client("launch/net_faults"))[0].pid))
        job.job.over(None, "node3")


@pytest.mark.parametrize("shape, rank", ((FIVE_ON_THREE, 0), (FIVE_ALONE, 3)), ids=("5-on-3", "5-on-3-alone"))
@pytest.mark.hosts("three", conduits=("ofi",))
def test_a_rank_is_stopped_in_traffic(bed, shape, rank):
    with under_way(bed, shape) as job:
        job.stop(rank, 5)


@pytest.mark.hosts("three", conduits=("ofi",))
def test_a_job_ends_while_a_rank_is_stopped(bed):
    with under_way(bed, FIVE_ALONE) as job:
        job.kill(1, "STOP")
        time.sleep(1)
        job.lose(-1)


@pytest.mark.hosts("fresh", conduits=("ofi",))
def test_the_interface_of_a_host_goes(bed):
    with under_way(bed, FIVE_ALONE) as job:
        bed.hosts.link(3, up=False)
        job.job.over(None, "node3", limit=90, grace=90, cut=True)


@pytest.mark.hosts("two-networks", conduits=("ofi",))
def test_a_firewall_between_the_hosts(bed):
    with (
        bed.firewall('iifname "eth1" meta l4proto tcp reject with tcp reset'),
        bed.start(bed.launch(3), {"GASNET_WORKERIP": "10.78.0.0", **bed.servers()}) as job,
    ):
        end = time.monotonic() + TIMEOUT
        while "a firewall blocks the connections of tcp;ofi_rxm on eth1" not in job.text()[1]:
            assert job.process.poll() is None and time.monotonic() <= end, (
                f"there is no warning: {short(' '.join(job.text()))}"
            )
            time.sleep(0.1)
        bed.kill(1, bed.first_process(), "TERM")
        job.over(143)
