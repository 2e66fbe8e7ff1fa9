"""What is ofi's own: hosts that do not agree on a provider, which network it takes, jobs that a
command of the user's starts, and losses while ranks exchange much."""

import time

import managers
from bed import TIMEOUT, Wrong, blocks, short
from cases import case
from ends import agents, first_process, inside, kill, over, starting
from faults import FIVE_ALONE, FIVE_ON_THREE, under_way

CHOSEN = r"^GASNet: ofi: tcp;ofi_rxm on {}, "


@case("ofi: the provider, over ssh and between neighbours", "three", quick=True, conduits=("ofi",))
def _(bed):
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


@case("ofi: PMI-1, PMI-2 and PMIx", "managers", quick=True, conduits=("ofi",))
def _(bed):
    for manager in managers.QUICK:
        words, env = managers.command(bed, manager, 6)
        bed.run(words, env=env, places=blocks(6, bed.names()), nbrhds=3, manager=True)


@case("ofi: the networks of hosts with two", "two networks", conduits=("ofi",))
def _(bed):
    for network, interface in ((None, "eth0"), ("10.78.0.0", "eth1"), ("fd78::", "eth1"), ("fd77::", "eth0")):
        chosen = {"GASNET_WORKERIP": network} if network else {}
        bed.run(
            bed.launch(6),
            env={"GASNET_VERBOSEENV": "1", **chosen, **bed.servers()},
            places=blocks(6, bed.names()),
            says=[CHOSEN.format(interface)],
        )
    # The device that the user names counts more.
    bed.run(
        bed.launch(6),
        env={"GASNET_VERBOSEENV": "1", "GASNET_OFI_DEVICE": "eth1", **bed.servers()},
        places=blocks(6, bed.names()),
        says=[CHOSEN.format("eth1")],
    )


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


@case("ofi: one host has another provider, or none", "three", quick=True, conduits=("ofi",))
def _(bed):
    for variable, value, says in (
        ("GASNET_OFI_PROVIDER", "net", "this rank uses the provider .*, but rank . uses .* Set GASNET_OFI_PROVIDER"),
        ("GASNET_OFI_PROVIDER", "cxi", "libfabric has no provider GASNET_OFI_PROVIDER=cxi"),
        ("GASNET_OFI_LIBRARY", "/nowhere/libfabric.so.1", "/nowhere/libfabric.so.1"),
        ("GASNET_OFI_DEVICE", "eth7", "GASNET_OFI_DEVICE=eth7"),
    ):
        with bed.script("elsewhere", ELSEWHERE.format(variable, value)) as shell:
            env = {"GASNET_SSH_CMD": shell, **bed.servers()}
            bed.run(bed.launch(3), env=env, code=None, says=[says, "!^rank", "!panicked"], limit=40)


@case("ofi: custom, a loop of the shell and mpiexec", "managers", conduits=("ofi",))
def _(bed):
    launch = bed.launch(3, "--", "x y", options=["-spawner=custom"])
    loop = {"GASNET_CSPAWN_CMD": "for i in $(seq %N); do %C & done; wait"}
    bed.run(launch, env=loop, places=["node1"] * 3, arguments=["x y"], manager=True)
    hosts = ",".join(f"{name}:1" for name in bed.names())
    several = {
        "GASNET_CSPAWN_CMD": f"mpiexec.hydra -launcher ssh -hosts {hosts} -genvall -n %N %C",
        "GASNET_WORKER_RANK": "PMI_RANK",
    }
    bed.run(launch, env=several, places=blocks(3, bed.names()), nbrhds=3, arguments=["x y"], manager=True)


@case("ofi: SIGKILL of a rank and of an agent in traffic", "three", quick=True, conduits=("ofi",))
def _(bed):
    with under_way(bed, FIVE_ALONE) as job:
        last = job.ranks[-1]
        kill(bed, int(last.host.removeprefix("node")), last.pid)
        over(bed, job.job, 137, f"rank {last.rank} of {last.size} .*SIGKILL")
    with under_way(bed, FIVE_ON_THREE) as job:
        kill(bed, 3, inside(agents(bed, job.ranks, 3, bed.program.client("launch/net_faults"))[0].pid))
        over(bed, job.job, None, "node3")


@case("ofi: a rank is stopped for 5 s in traffic", "three", conduits=("ofi",))
def _(bed):
    for shape, rank in ((FIVE_ON_THREE, 0), (FIVE_ALONE, 3)):
        with under_way(bed, shape) as job:
            place = job.ranks[rank]
            host = int(place.host.removeprefix("node"))
            kill(bed, host, place.pid, "STOP")
            time.sleep(5)
            kill(bed, host, place.pid, "CONT")
            job.rounds()
            job.end()


@case("ofi: a job ends while a rank is stopped in traffic", "three", conduits=("ofi",))
def _(bed):
    with under_way(bed, FIVE_ALONE) as job:
        stopped, last = job.ranks[1], job.ranks[-1]
        kill(bed, int(stopped.host.removeprefix("node")), stopped.pid, "STOP")
        time.sleep(1)
        kill(bed, int(last.host.removeprefix("node")), last.pid)
        over(bed, job.job, 137, f"rank {last.rank} of {last.size} .*SIGKILL")


@case("ofi: the interface of a host goes in traffic", "fresh", conduits=("ofi",))
def _(bed):
    with under_way(bed, FIVE_ALONE) as job:
        bed.hosts.link(3, up=False)
        over(bed, job.job, None, "node3", limit=90, grace=90, cut=True)


@case("ofi: a firewall between the hosts", "two networks", conduits=("ofi",))
def _(bed):
    rule = 'iifname "eth1" meta l4proto tcp reject with tcp reset'
    table = f"table inet wall {{ chain input {{ type filter hook input priority 0; {rule}; }}; }}\n"
    try:
        for host in bed.hosts.numbers():
            bed.hosts.check(host, ["nft", "-f", "-"], stdin=table)
        with starting(bed, bed.launch(3), {"GASNET_WORKERIP": "10.78.0.0", **bed.servers()}) as job:
            end = time.monotonic() + TIMEOUT
            while "a firewall may block the connections of tcp;ofi_rxm on eth1" not in job.text()[1]:
                if job.process.poll() is not None or time.monotonic() > end:
                    raise Wrong(f"there is no warning: {short(' '.join(job.text()))}")
                time.sleep(0.1)
            kill(bed, 1, first_process(bed), "TERM")
            over(bed, job, 143)
    finally:
        for host in bed.hosts.numbers():
            bed.hosts.check(host, ["nft", "-f", "-"], stdin="table inet wall\ndelete table inet wall\n")
