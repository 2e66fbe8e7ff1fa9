"""udp on bad networks: a network that loses, doubles, delays, reorders, damages and cuts datagrams,
paths that change, and ranks that stop or die. The program net_faults checks that nothing is lost,
comes twice or is changed; here is what happens to it meanwhile, and that it really happened."""

import re
import time

import pytest
from bed import blocks
from kinds import QUICK
from working import (
    FIVE_ALONE,
    FIVE_ALONE_ON_TWO,
    FIVE_ON_THREE,
    FIVE_ON_TWO,
    LIMIT,
    PAIR,
    SHAPES,
    all_right,
    environment,
    under_way,
)

# Name, faults of the tunnel, the program's arguments, the shape of a quick check.
FAULTS = [
    ("good", {}, ["--rounds=3", "--steps=300"], None),
    ("loss-1", {"loss": 1}, ["--rounds=3", "--steps=300"], None),
    ("loss-5", {"loss": 5}, ["--rounds=3", "--steps=300"], None),
    ("loss-20", {"loss": 20}, [], FIVE_ON_THREE),
    ("loss-5-in-bursts", {"loss": 5, "burst": 20}, ["--rounds=3"], PAIR),
    ("loss-10-in-bursts", {"loss": 10, "burst": 5}, [], None),
    ("duplicates", {"duplicate": 50}, ["--rounds=3", "--steps=300"], None),
    ("delay", {"delay": 20}, [], None),
    ("reordered", {"late": 30, "hold": 5}, ["--rounds=3"], None),
    ("reordered-far", {"late": 10, "hold": 100, "duplicate": 10}, [], FIVE_ALONE_ON_TWO),
    ("corrupt", {"corrupt": 10}, [], PAIR),
    ("disguised", {"disguise": 10}, [], FIVE_ON_THREE),
    ("truncated", {"truncate": 10}, [], FIVE_ON_TWO),
    (
        "all",
        {
            "loss": 5,
            "burst": 4,
            "duplicate": 5,
            "delay": 1,
            "late": 20,
            "hold": 10,
            "corrupt": 3,
            "disguise": 3,
            "truncate": 3,
        },
        [],
        FIVE_ALONE,
    ),
]
DROPPED = r"rank \d+ dropped (\d+) datagrams"


def counter(text, kind, name):
    """A number of /proc/net/snmp, or of snmp6, which has no kinds."""
    if kind is None:
        return int(re.search(rf"^{name}\s+(\d+)$", text, re.M)[1])
    names, values = [line.split() for line in text.splitlines() if line.startswith(f"{kind}:")]
    return int(dict(zip(names, values))[name])


def of_host(bed, number, file, kind, name):
    """Such a number of a host."""
    with open(f"/proc/{bed.hosts.hosts[number].pid}/net/{file}", encoding="ascii") as opened:
        return counter(opened.read(), kind, name)


def checksum_errors(bed):
    """Datagrams that the hosts' kernels dropped for their checksums."""
    kinds = [("snmp", "Udp", "InCsumErrors"), *([("snmp6", None, "Udp6InCsumErrors")] if bed.hosts.ipv6 else [])]
    return sum(of_host(bed, number, *kind) for number in bed.hosts.numbers() for kind in kinds)


def shapes(quick=None, most_hosts=3):
    """Parametrises a test by the shape of its job; `quick`: that of a slice."""
    found = [
        pytest.param(shape, id=name, marks=[QUICK] * (shape == quick))
        for name, shape in SHAPES.items()
        if shape[1] <= most_hosts
    ]
    return pytest.mark.parametrize("shape", found)


@pytest.mark.parametrize(
    "shape, faults, arguments",
    [
        pytest.param(shape, faults, arguments, id=f"{name}-{words}", marks=[QUICK] * (shape == quick))
        for name, faults, arguments, quick in FAULTS
        for words, shape in SHAPES.items()
    ],
)
@pytest.mark.hosts("bad-network", conduits=("udp",))
def test_network(bed, shape, faults, arguments):
    """A job over a tunnel with these faults, which really happen."""
    ranks, hosts, most = shape
    bed.tunnel.heal()
    bed.tunnel.change(**faults)
    before, shown = bed.tunnel.counts(), checksum_errors(bed)
    text = bed.run(
        bed.launch(ranks, *arguments, client="launch/net_faults"),
        env={"GASNET_VERBOSEENV": "1", **environment(bed, shape)},
        places=blocks(ranks, bed.names()[:hosts]),
        nbrhds=ranks if most else hosts,
        limit=LIMIT,
    )
    done = {name: number - before[name] for name, number in bed.tunnel.counts().items()}
    all_right(text, ranks)
    idle = [name for name in faults if not done[bed.tunnel.FAULTS[name]]]
    assert not idle and done["came"] >= 100, (
        f"the network did not do what it should ({', '.join(idle) or 'it had nothing to carry'}): {done}"
    )
    # Kernels drop datagrams with a wrong checksum. The library must find the rest, and nothing
    # else.
    dropped, harmed = sum(map(int, re.findall(DROPPED, text))), done["disguised"] + done["truncated"]
    assert 0 < dropped <= harmed if harmed else dropped == 0, (
        f"{dropped} datagrams were dropped, {harmed} were damaged: {done}"
    )
    shown = checksum_errors(bed) - shown
    assert 0 < shown <= done["corrupted"] if done["corrupted"] else shown == 0, (
        f"the hosts dropped {shown} datagrams for their checksums: {done}"
    )


def loses_for_a_while(bed, shape, seconds, steps):
    """All datagrams are lost for some seconds."""
    bed.tunnel.heal()
    with under_way(bed, shape, f"--steps={steps}") as job:
        before = bed.tunnel.counts()["lost"]
        bed.tunnel.change(loss=100)
        time.sleep(seconds)
        bed.tunnel.heal()
        assert bed.tunnel.counts()["lost"] != before, "nothing was sent meanwhile"
        job.rounds()
        job.end()


@pytest.mark.hosts("bad-network", quick=True, conduits=("udp",))
def test_nothing_comes_through_for_3_s(bed):
    loses_for_a_while(bed, PAIR, 3, 100)


@pytest.mark.hosts("bad-network", conduits=("udp",))
def test_nothing_comes_through_for_60_s(bed):
    loses_for_a_while(bed, FIVE_ON_THREE, 60, 100)


def stops(bed, shape, rank, seconds):
    """A rank is stopped on a bad network."""
    bed.tunnel.heal()
    bed.tunnel.change(loss=5)
    with under_way(bed, shape) as job:
        job.stop(rank, seconds)


@pytest.mark.hosts("bad-network", quick=True, conduits=("udp",))
def test_a_rank_is_stopped_for_5_s(bed):
    stops(bed, FIVE_ON_THREE, 4, 5)


@pytest.mark.parametrize(
    "shape, rank", ((PAIR, 1), (FIVE_ON_THREE, 0), (FIVE_ALONE, 3)), ids=("pair", "5-on-3", "5-on-3-alone")
)
@pytest.mark.hosts("bad-network", conduits=("udp",))
def test_a_rank_is_stopped_for_60_s(bed, shape, rank):
    stops(bed, shape, rank, 60)


@shapes(quick=FIVE_ON_THREE)
@pytest.mark.hosts("bad-network", conduits=("udp",))
def test_sigkill_of_a_rank(bed, shape):
    bed.tunnel.heal()
    bed.tunnel.change(loss=20)
    with under_way(bed, shape) as job:
        job.lose(-1)


def is_cut_off(bed, shape, seconds):
    """The cable of the network that everything uses, control connections, too, is out for some
    seconds."""
    with under_way(bed, shape) as job:
        try:
            bed.hosts.link(2, up=False)
            time.sleep(seconds)
        finally:
            bed.hosts.link(2, up=True)
        job.rounds()
        job.end()


@pytest.mark.hosts("three", quick=True, conduits=("udp", "ofi"))
def test_a_cable_is_out_for_3_s(bed):
    is_cut_off(bed, PAIR, 3)


@shapes()
@pytest.mark.hosts("three", conduits=("udp", "ofi"))
def test_a_cable_is_out_for_8_s(bed, shape):
    is_cut_off(bed, shape, 8)


@pytest.mark.hosts("three", quick=True, conduits=("udp",))
def test_udp_is_blocked(bed):
    try:
        bed.hosts.link(2, loss=100, protocol="udp")
        env = {"GASNET_REQUESTTIMEOUT_MAX": "13000000", **environment(bed, (3, 3, 0))}
        # The rank that never sent anything is named, soon in a warning, and then as the reason for
        # the end. (Others did receive from the rank that receives nothing.)
        warning = (
            r"WARNING.*: rank \d \S+ has not answered for 1\d seconds \(never connected\)"
            r".*may drop UDP.*ends after 13 seconds"
        )
        bed.run(
            bed.launch(3),
            env=env,
            code=None,
            limit=90,
            says=[warning, r"not answered for 1[3-9] seconds.*GASNET_REQUESTTIMEOUT_MAX"],
        )
    finally:
        bed.hosts.link(2, loss=0, protocol="all")


@pytest.mark.parametrize(
    "word, says",
    (
        ("port-unreachable", r"reported closed \(never connected\)\. A firewall at \S+ may reject UDP"),
        ("admin-prohibited", "cannot be sent: No route to host.*A firewall may reject UDP"),
    ),
    ids=("unreachable", "prohibited"),
)
@pytest.mark.hosts("three", conduits=("udp",))
def test_udp_is_rejected(bed, word, says):
    with bed.firewall(f"meta l4proto udp reject with icmpx type {word}"):
        bed.run(bed.launch(3), env=environment(bed, (3, 3, 0)), code=None, limit=60, says=[says])


def changes_mtu(bed, shape, host, seen=None):
    """A job goes on over links, of all hosts (None) or of one, that take smaller and longer packets
    than they did."""
    for number in bed.hosts.numbers():
        # Path MTUs that hosts have learnt.
        bed.hosts.check(number, ["ip", "-6", "route", "flush", "cache"])
    before = seen and seen()
    try:
        with under_way(bed, shape, "--steps=200") as job:
            for mtu in (1300, 9000, 1500, 1280, 1500):
                bed.hosts.link(host, mtu=mtu)
                job.rounds()
            job.end()
    finally:
        bed.hosts.link(host, mtu=1500)
    assert not (seen and seen() == before), "no packet was too long"


@shapes(quick=PAIR)
@pytest.mark.hosts("three", conduits=("udp",))
def test_another_mtu_of_all_links(bed, shape):
    changes_mtu(bed, shape, None)


# Packets that a host's link does not take any more.


@shapes()
@pytest.mark.hosts("three", conduits=("udp",))
def test_another_mtu_unknown_to_other_hosts(bed, shape):
    changes_mtu(bed, shape, 2)


@shapes(most_hosts=2)
@pytest.mark.hosts("routed", conduits=("udp",))
def test_another_mtu_and_a_router_that_cuts(bed, shape):
    changes_mtu(bed, shape, 2, lambda: counter(bed.hosts.at_bridge(["cat", "/proc/net/snmp"]), "Ip", "FragCreates"))


@shapes(most_hosts=2)
@pytest.mark.hosts("routed-ipv6", conduits=("udp",))
def test_another_mtu_and_a_router_that_reports(bed, shape):
    changes_mtu(bed, shape, 2, lambda: of_host(bed, 1, "snmp6", None, "Icmp6InPktTooBigs"))


@pytest.mark.parametrize("shape", (PAIR, FIVE_ON_THREE), ids=("pair", "5-on-3"))
@pytest.mark.hosts("three", quick=True, conduits=("udp",))
def test_a_link_takes_less_from_the_start(bed, shape):
    bed.hosts.link(2, mtu=1300)
    try:
        command = bed.launch(shape[0], client="launch/net_faults")
        all_right(bed.run(command, env=environment(bed, shape), ranks=shape[0], limit=LIMIT), shape[0])
    finally:
        bed.hosts.link(2, mtu=1500)
