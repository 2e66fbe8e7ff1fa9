"""The list of launch tests: each is a function of a `Bed`, with a name, the kind of hosts that it
needs, and whether a quick check makes it."""

import collections

Case = collections.namedtuple("Case", "name kind quick conduits function")
CASES = []

# Kinds of hosts: what Bed gets. "fresh" ones are for tests that break them: each gets hosts of its
# own.
KINDS = {
    "one": {"count": 1, "ssh": False},
    "three": {"count": 3},
    "seven": {"count": 7},
    "ipv6": {"count": 3, "ipv4": False},
    "loopback": {"count": 3, "own_name_is_loopback": True, "own_identity": False},
    "two networks": {"count": 3, "networks": 2},
    "managers": {"count": 3, "slurm": True},
    "fresh": {"count": 3},
    "bad network": {"count": 3, "tunnel": True},
    "routed": {"count": 2, "routed": True, "ipv6": False},
    "routed, IPv6": {"count": 2, "routed": True, "ipv4": False},
}
NETWORKED = ("udp", "ofi", "any", "ibv", "gni", "elan")
ALL = ("udp", "ofi", "any", "smp", "ibv", "gni", "elan")
# The emulator of verbs joins the processes of one host.
ONE_HOST = ("ibv", "gni", "elan")


def case(name, kind, quick=False, conduits=NETWORKED):
    """Makes a function a test."""

    def add(function):
        CASES.append(Case(name, kind, quick, conduits, function))
        return function

    return add
