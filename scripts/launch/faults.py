"""What udp bears: a network that loses, doubles, delays, reorders, damages and cuts datagrams,
paths that change, and ranks that stop or die. The program net_faults checks that nothing is lost,
comes twice or is changed; here is what happens to it meanwhile, and that it really happened."""

import contextlib
import os
import re
import time

from bed import Wrong, blocks, short
from cases import KINDS, case
from ends import kill, over, starting

# Ranks, hosts, and the most ranks that share memory (0: all of a host).
PAIR, FIVE_ON_TWO, FIVE_ON_THREE, FIVE_ALONE_ON_TWO, FIVE_ALONE = (2, 2, 0), (5, 2, 0), (5, 3, 0), (5, 2, 1), (5, 3, 1)
SHAPES = (PAIR, FIVE_ON_TWO, FIVE_ON_THREE, FIVE_ALONE_ON_TWO, FIVE_ALONE)
# Name, what the tunnel does, the program's arguments, the shape of a quick check.
FAULTS = [
    ("nothing", {}, ["--rounds=3", "--steps=300"], None),
    ("1 % loss", {"loss": 1}, ["--rounds=3", "--steps=300"], None),
    ("5 % loss", {"loss": 5}, ["--rounds=3", "--steps=300"], None),
    ("20 % loss", {"loss": 20}, [], FIVE_ON_THREE),
    ("5 % loss in bursts of 20", {"loss": 5, "burst": 20}, ["--rounds=3"], PAIR),
    ("10 % loss in bursts of 5", {"loss": 10, "burst": 5}, [], None),
    ("half of all twice", {"duplicate": 50}, ["--rounds=3", "--steps=300"], None),
    ("a long way", {"delay": 20}, [], None),
    ("order", {"late": 30, "hold": 5}, ["--rounds=3"], None),
    ("order, far apart", {"late": 10, "hold": 100, "duplicate": 10}, [], FIVE_ALONE_ON_TWO),
    ("damage that checksums show", {"corrupt": 10}, [], PAIR),
    ("damage with checksums that fit", {"disguise": 10}, [], FIVE_ON_THREE),
    ("cuts", {"truncate": 10}, [], FIVE_ON_TWO),
    (
        "all at once",
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
LIMIT = 300
DROPPED = r"rank \d+ dropped (\d+) datagrams"
RIGHT = r"^rank \d+: \d+ messages, \d+ transfers, all right$"


def words(shape):
    """A shape in words."""
    ranks, hosts, most = shape
    return f"{ranks} ranks on {hosts} hosts{', no shared memory' if most else ''}"


def environment(bed, shape):
    """What a job of this shape is started with."""
    _, hosts, most = shape
    values = {
        "TEST_WATCHDOG": str(LIMIT - 20),
        "GASNET_SUPERNODE_MAXSIZE": str(most),
        **bed.servers(*range(1, hosts + 1)),
    }
    networks = (
        bed.tunnel.networks() if bed.tunnel else [re.sub(r"1$", "0", address) for address in bed.hosts.addresses(1)]
    )
    if bed.tunnel or len(networks) > 1:
        # Some tests are over IPv4, the others over IPv6, where there are both.
        values["GASNET_WORKERIP"] = networks[most % len(networks)]
    return values


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


def all_right(text, ranks):
    """Every rank said so."""
    found = re.findall(RIGHT, text, re.M)
    if len(found) != ranks:
        raise Wrong(f"{len(found)} of {ranks} ranks found all right: {short(text)}")


def survives(bed, shape, faults, arguments):
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
    if idle or done["came"] < 100:
        raise Wrong(f"the network did not do what it should ({', '.join(idle) or 'it had nothing to carry'}): {done}")
    # Kernels drop what has a wrong checksum. The rest is the library's to find, and it finds
    # nothing else.
    dropped, harmed = sum(map(int, re.findall(DROPPED, text))), done["disguised"] + done["truncated"]
    if not (0 < dropped <= harmed if harmed else dropped == 0):
        raise Wrong(f"{dropped} datagrams were dropped, {harmed} were damaged: {done}")
    shown = checksum_errors(bed) - shown
    if not (0 < shown <= done["corrupted"] if done["corrupted"] else shown == 0):
        raise Wrong(f"the hosts dropped {shown} datagrams for their checksums: {done}")


def of_fault(name, faults, arguments, quick):
    """A fault with every shape of job."""
    for shape in SHAPES:

        @case(f"faults: {name}, {words(shape)}", "bad network", quick=shape == quick, conduits=("udp",))
        def _(bed, shape=shape):
            survives(bed, shape, faults, arguments)


for _fault in FAULTS:
    of_fault(*_fault)


class UnderWay:
    """A job that does rounds until its stop file appears."""

    def __init__(self, bed, job, ranks, path):
        self.bed, self.job, self.size, self.path = bed, job, ranks, path
        self.ranks = job.await_ranks("round 1\n")

    def rounds(self, more=2):
        """Until it has done more rounds: the first of them may have been under way before."""
        done = self.job.text()[0].count("\nround ")
        self.job.await_text(f"\nround {done + more}\n", LIMIT)

    def end(self):
        """It ends in order, and everything was right."""
        with open(self.path, "w", encoding="ascii"):
            pass
        over(self.bed, self.job, 0, limit=LIMIT)
        all_right(self.job.text()[0], self.size)


@contextlib.contextmanager
def under_way(bed, shape, *arguments):
    """A job with the ssh spawner that does rounds for as long as the test wants."""
    path = f"{bed.program.folder}/enough"
    command = bed.launch(shape[0], "--rounds=1", f"--until={path}", *arguments, client="launch/net_faults")
    try:
        with starting(bed, command, environment(bed, shape)) as job:
            yield UnderWay(bed, job, shape[0], path)
    finally:
        if os.path.exists(path):
            os.remove(path)


def loses_for_a_while(bed, shape, seconds, steps):
    """All datagrams are lost for some seconds."""
    bed.tunnel.heal()
    with under_way(bed, shape, f"--steps={steps}") as job:
        before = bed.tunnel.counts()["lost"]
        bed.tunnel.change(loss=100)
        time.sleep(seconds)
        bed.tunnel.heal()
        if bed.tunnel.counts()["lost"] == before:
            raise Wrong("nothing was sent meanwhile")
        job.rounds()
        job.end()


@case("faults: nothing comes through for 3 s", "bad network", quick=True, conduits=("udp",))
def _(bed):
    loses_for_a_while(bed, PAIR, 3, 100)


@case("faults: nothing comes through for 60 s", "bad network", conduits=("udp",))
def _(bed):
    loses_for_a_while(bed, FIVE_ON_THREE, 60, 100)


def stops(bed, shape, rank, seconds, faults):
    """A rank is stopped while others send to it."""
    bed.tunnel.heal()
    bed.tunnel.change(**faults)
    with under_way(bed, shape) as job:
        place = job.ranks[rank]
        host = int(place.host.removeprefix("node"))
        kill(bed, host, place.pid, "STOP")
        time.sleep(seconds)
        kill(bed, host, place.pid, "CONT")
        job.rounds()
        job.end()


@case("faults: a rank is stopped for 5 s", "bad network", quick=True, conduits=("udp",))
def _(bed):
    stops(bed, FIVE_ON_THREE, 4, 5, {"loss": 5})


@case("faults: a rank is stopped for 60 s", "bad network", conduits=("udp",))
def _(bed):
    for shape, rank in ((PAIR, 1), (FIVE_ON_THREE, 0), (FIVE_ALONE, 3)):
        stops(bed, shape, rank, 60, {"loss": 5})


def of_kill(shape, quick):
    """A rank is killed while its network loses much."""

    @case(f"faults: SIGKILL of a rank under 20 % loss, {words(shape)}", "bad network", quick=quick, conduits=("udp",))
    def _(bed):
        bed.tunnel.heal()
        bed.tunnel.change(loss=20)
        with under_way(bed, shape) as job:
            last = job.ranks[-1]
            kill(bed, int(last.host.removeprefix("node")), last.pid)
            over(bed, job.job, 137, f"rank {last.rank} of {last.size} .*SIGKILL")


for _shape in SHAPES:
    of_kill(_shape, _shape == FIVE_ON_THREE)


def of_cable(shape, seconds, quick=False):
    """The cable of the network that everything uses, control connections, too, is out for some
    seconds."""

    @case(f"faults: a cable is out for {seconds} s, {words(shape)}", "three", quick=quick, conduits=("udp", "ofi"))
    def _(bed):
        with under_way(bed, shape) as job:
            try:
                bed.hosts.link(2, up=False)
                time.sleep(seconds)
            finally:
                bed.hosts.link(2, up=True)
            job.rounds()
            job.end()


@case("faults: UDP is blocked between the hosts", "three", quick=True, conduits=("udp",))
def _(bed):
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


@case("faults: UDP is rejected between the hosts", "three", conduits=("udp",))
def _(bed):
    for word, says in (
        ("port-unreachable", r"reported closed \(never connected\)\. A firewall at \S+ may reject UDP"),
        ("admin-prohibited", "cannot be sent: No route to host.*A firewall may reject UDP"),
    ):
        rule = f"meta l4proto udp reject with icmpx type {word}"
        table = f"table inet wall {{ chain input {{ type filter hook input priority 0; {rule}; }}; }}\n"
        try:
            for host in bed.hosts.numbers():
                bed.hosts.check(host, ["nft", "-f", "-"], stdin=table)
            bed.run(bed.launch(3), env=environment(bed, (3, 3, 0)), code=None, limit=60, says=[says])
        finally:
            for host in bed.hosts.numbers():
                bed.hosts.check(host, ["nft", "-f", "-"], stdin="table inet wall\ndelete table inet wall\n")


of_cable(PAIR, 3, quick=True)
for _shape in SHAPES:
    of_cable(_shape, 8)


# What becomes of packets that a host's link does not take any more: kind of hosts, name of the
# case, what shows that it happened to some.
PATHS = [
    ("three", "unknown to the other hosts", None),
    (
        "routed",
        "the router cuts packets",
        lambda bed: counter(bed.hosts.at_bridge(["cat", "/proc/net/snmp"]), "Ip", "FragCreates"),
    ),
    ("routed, IPv6", "the router reports it", lambda bed: of_host(bed, 1, "snmp6", None, "Icmp6InPktTooBigs")),
]


def changes_mtu(bed, shape, host, seen=None):
    """A job goes on over links, of all hosts (None) or of one, that take smaller and longer packets
    than they did."""
    for number in bed.hosts.numbers():
        # What hosts have learnt of paths.
        bed.hosts.check(number, ["ip", "-6", "route", "flush", "cache"])
    before = seen and seen(bed)
    try:
        with under_way(bed, shape, "--steps=200") as job:
            for mtu in (1300, 9000, 1500, 1280, 1500):
                bed.hosts.link(host, mtu=mtu)
                job.rounds()
            job.end()
    finally:
        bed.hosts.link(host, mtu=1500)
    if seen and seen(bed) == before:
        raise Wrong("no packet was too long")


def of_mtu(shape):
    """Other MTUs, for a shape of job."""

    @case(f"faults: another MTU of all links, {words(shape)}", "three", quick=shape == PAIR, conduits=("udp",))
    def _(bed):
        changes_mtu(bed, shape, None)

    for kind, name, seen in PATHS:
        if shape[1] <= KINDS[kind]["count"]:

            @case(f"faults: another MTU of a link, {name}, {words(shape)}", kind, conduits=("udp",))
            def _(bed, seen=seen):
                changes_mtu(bed, shape, 2, seen)


for _shape in SHAPES:
    of_mtu(_shape)


@case("faults: a link takes less than hosts believe, from the start", "three", quick=True, conduits=("udp",))
def _(bed):
    bed.hosts.link(2, mtu=1300)
    try:
        for shape in (PAIR, FIVE_ON_THREE):
            text = bed.run(
                bed.launch(shape[0], client="launch/net_faults"),
                env=environment(bed, shape),
                ranks=shape[0],
                limit=LIMIT,
            )
            all_right(text, shape[0])
    finally:
        bed.hosts.link(2, mtu=1500)
