"""How a link between hosts misbehaves: packets dropped, doubled or changed by nftables as they come
in, its capacity, its MTU, its cable."""

import math

CHANCES = 1_000_000
# The bytes of the payload of which one is overwritten; kernels of virtual links do not look at the
# checksum, so that the program gets it.
PLACES = (0, 4, 20, 60)


class Link:
    """The state of one host's link, and the commands that bring it about."""

    # The properties that can be changed, and the type of their values.
    KINDS = {
        "loss": float,
        "burst": int,
        "duplicate": float,
        "corrupt": float,
        "protocol": str,
        "mtu": int,
        "up": lambda v: bool(int(v)),
        "rate": str,
        "segments": int,
    }

    def __init__(self, host, network):
        self.device, self.port, self.table = f"eth{network}", f"{host}-{network}", f"{host}_{network}"
        self.state = {
            "loss": 0.0,
            "burst": 1,
            "duplicate": 0.0,
            "corrupt": 0.0,
            "protocol": "all",
            "mtu": None,
            "up": True,
            "rate": "",
            "segments": None,
        }
        self.changed = set()

    def change(self, **changes):
        """loss, duplicate, corrupt: per cent of the packets that come in. burst: lost packets in a
        row, at regular distances. protocol: which packets that concerns: udp, tcp, all. mtu: of
        both ends. up: whether the cable is plugged in. rate: capacity towards the host as `tc`
        writes it, like 10mbit; "" for none. segments: how many packets may go bundled (1: each by
        itself; 65535 is usual)."""
        for name, value in changes.items():
            if name not in self.KINDS:
                raise ValueError(f"{name}: a link has {', '.join(self.KINDS)}")
            if name in ("loss", "duplicate", "corrupt") and not 0 <= value <= 100:
                raise ValueError(f"{name} is {value}; it must be 0 to 100 per cent")
            if name == "protocol" and value not in ("udp", "tcp", "all"):
                raise ValueError(f"protocol is {value}; it must be udp, tcp or all")
            self.state[name] = value
            self.changed.add(name)

    def commands(self):
        """(place, command, its input) for the changes; place is `host` or `bridge`."""
        state, changed, self.changed = self.state, self.changed, set()
        port, found = self.port, []
        if "mtu" in changed:
            for place, device in (("host", self.device), ("bridge", port)):
                found.append((place, ["ip", "link", "set", device, "mtu", str(state["mtu"])], None))
        if "segments" in changed:
            for place, device in (("host", self.device), ("bridge", port)):
                found.append(
                    (place, ["ip", "link", "set", "dev", device, "gso_max_segs", str(state["segments"])], None)
                )
        if "up" in changed:
            found.append(("bridge", ["ip", "link", "set", port, "up" if state["up"] else "down"], None))
        if "rate" in changed:
            queue = (
                ["root", "tbf", "rate", state["rate"], "burst", "32kb", "latency", "50ms"]
                if state["rate"]
                else ["root"]
            )
            found.append(("bridge", ["tc", "qdisc", "replace" if state["rate"] else "del", "dev", port, *queue], None))
        if changed & {"loss", "burst", "corrupt", "protocol"}:
            found.append(("host", ["nft", "-f", "-"], self.rules("host")))
        if changed & {"duplicate", "protocol"}:
            found.append(("bridge", ["nft", "-f", "-"], self.rules("bridge")))
        return found

    def rules(self, place):
        """The nftables rules of one place, in the stead of those before."""
        state = self.state
        what = {"udp": "meta l4proto udp ", "tcp": "meta l4proto tcp ", "all": "meta protocol { ip, ip6 } "}[
            state["protocol"]
        ]
        lines = []
        if place == "bridge":
            if state["duplicate"]:
                lines.append(f'{what}{some(state["duplicate"])} counter dup to "{self.port}"')
            return table(self.table, "egress", self.port, lines)
        if state["loss"] and state["burst"] > 1:
            period = math.ceil(state["burst"] * 100 / state["loss"])
            lines.append(f"{what}numgen inc mod {period} < {state['burst']} counter drop")
        elif state["loss"]:
            lines.append(f"{what}{some(state['loss'])} counter drop")
        if state["corrupt"]:
            chance = round(state["corrupt"] / 100 * CHANCES / len(PLACES))
            lines += [
                f"{what}numgen random mod {CHANCES} < {chance} counter @ih,{8 * place},8 set 0x5a" for place in PLACES
            ]
        return table(self.table, "ingress", self.device, lines)


def some(percent):
    """The condition that matches this percentage of packets, at random."""
    share = round(percent / 100 * CHANCES)
    return f"numgen random mod {CHANCES} < {share}" if share < CHANCES else ""


def table(name, hook, device, lines):
    """One table with one chain at a device, made anew."""
    body = "\n".join(f"    {line}" for line in lines)
    chain = (
        f'  chain packets {{\n    type filter hook {hook} device "{device}" priority 0;\n{body}\n  }}\n'
        if lines
        else ""
    )
    return f"table netdev {name}\ndelete table netdev {name}\ntable netdev {name} {{\n{chain}}}\n"
