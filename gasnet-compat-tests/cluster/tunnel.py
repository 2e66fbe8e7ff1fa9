#!/usr/bin/env python3
"""A bad network between hosts: a TUN device in each, and between them a relay in user space
(relay.c, compiled here), which loses, doubles, delays, reorders and damages packets, and counts
what it did. The relay ends with the process that made it, however that ends.

    with Hosts(2) as hosts, Tunnel(hosts) as tunnel:
        tunnel.change(loss=20, burst=5)
        hosts.run(1, ["ping", "-c", "1", tunnel.addresses(2)[0]])
        tunnel.counts()["lost"]

    cluster/tunnel.py -n 2 --fault loss=5,delay=1 [--timeout 60] -- command arguments

The tool runs the command on node1, ends with its status (124: out of time), and prints the counts.
Host n is 10.90.0.n and fd90::n in this network."""

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile

from hosts import HERE, Hosts, run_here
from processes import Unavailable, need

DEVICE = "tun0"
ANSWER_SECONDS = 60


def parse_faults(text):
    """`loss=20,delay=1` as a dictionary."""
    return {name: float(value) for name, _, value in (word.partition("=") for word in text.split(","))}


class Tunnel:
    """The network, from `with` (or `start`) to the end of it. `seed` decides about packets; `mtu`
    is that of all its devices."""

    # The faults that `change` takes, each with the count that shows that it happened.
    FAULTS = {
        "loss": "lost",
        "burst": "lost",
        "duplicate": "doubled",
        "delay": "came",
        "late": "held",
        "hold": "overtaken",
        "corrupt": "corrupted",
        "disguise": "disguised",
        "truncate": "truncated",
    }

    def __init__(self, hosts, *, seed=1, mtu=1500):
        self.hosts, self.seed, self.mtu, self.relay = hosts, seed, mtu, None

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def addresses(self, number):
        """A host's addresses in this network."""
        return [f"10.90.0.{number}", *([f"fd90::{number:x}"] if self.hosts.ipv6 else [])]

    def networks(self):
        """The network itself, in each family of addresses."""
        return ["10.90.0.0", *(["fd90::"] if self.hosts.ipv6 else [])]

    def start(self):
        """Makes the devices; returns when they can be used."""
        compiler = os.environ.get("CC") or "gcc"
        need("ip", compiler.split()[0])
        if not os.path.exists("/dev/net/tun"):
            raise Unavailable("this kernel has no TUN devices (/dev/net/tun)")
        spaces = [f"/proc/{host.pid}/ns/net" for _, host in sorted(self.hosts.hosts.items())]
        with tempfile.TemporaryDirectory(prefix="relay-", dir="/tmp") as folder:
            program = f"{folder}/relay"
            built = subprocess.run(
                [
                    *compiler.split(),
                    "-std=gnu11",
                    "-O2",
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    "-o",
                    program,
                    f"{HERE}/relay.c",
                ],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            if built.returncode != 0:
                raise RuntimeError(f"relay.c does not compile: {built.stderr.strip()}")
            # It lives as long as its standard input, which the kernel closes when this process has
            # gone.
            self.relay = subprocess.Popen(
                [program, str(self.seed), DEVICE, *spaces],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
            self.answer("ready")
        for number in self.hosts.numbers():
            lines = [f"link set {DEVICE} mtu {self.mtu} txqueuelen 1000 up"]
            for address in self.addresses(number):
                lines.append(
                    f"address add {address}/64 dev {DEVICE} nodad"
                    if ":" in address
                    else f"address add {address}/16 dev {DEVICE}"
                )
            self.hosts.check(number, ["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
        return self

    def answer(self, expected=None):
        """The relay's next line."""
        if not select.select([self.relay.stdout], [], [], ANSWER_SECONDS)[0]:
            raise RuntimeError("the relay does not answer")
        line = self.relay.stdout.readline().decode().strip()
        if not line:
            raise RuntimeError(f"the relay has ended with {self.relay.wait()}")
        if expected not in (None, line):
            raise RuntimeError(f"the relay said {line} instead of {expected}")
        return line

    def say(self, line):
        """A command."""
        try:
            self.relay.stdin.write(line.encode() + b"\n")
            self.relay.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(f"the relay has ended with {self.relay.wait()}") from None

    def change(self, **faults):
        """Per cent of the packets, from now on: loss; duplicate; late (held back for up to `hold`
        milliseconds more than others, so that they are overtaken); corrupt (a byte of a datagram's
        payload is changed; the checksum shows that); disguise (the same with a checksum that fits);
        truncate (a datagram is cut, and looks like a short one). burst: so many are lost in a row,
        on average. delay: of all, milliseconds."""
        for name, value in faults.items():
            if name not in self.FAULTS:
                raise ValueError(f"{name}: a tunnel has {', '.join(self.FAULTS)}")
            if value < 0 or (name not in ("burst", "delay", "hold") and value > 100):
                raise ValueError(f"{name} is {value}; it must be 0 to 100 per cent, or a positive number")
            self.say(f"{name} {value}")
            self.answer("ok")

    def heal(self):
        """A good network again."""
        self.change(**dict.fromkeys(self.FAULTS, 0))

    def counts(self):
        """Counts of the relay: packets that came and went, and faults by kind; see `names` in
        relay.c."""
        self.say("counts")
        return json.loads(self.answer())

    def close(self):
        """Ends the relay, and the devices with it."""
        if self.relay:
            self.relay.kill()
            self.relay.communicate()
            self.relay = None


def main():
    """The command line tool."""
    parser = argparse.ArgumentParser(description="Runs a command on the first of several hosts with a bad network.")
    parser.add_argument("-n", type=int, default=2, help="number of hosts (2)")
    parser.add_argument(
        "--fault", type=parse_faults, default={}, metavar="NAME=VALUE,…", help=f"names are {', '.join(Tunnel.FAULTS)}"
    )
    parser.add_argument("--seed", type=int, default=1, help="decides about packets (1)")
    parser.add_argument("--mtu", type=int, default=1500, help="of the bad network (1500)")
    parser.add_argument("--timeout", type=float, help="end all after so many seconds, with status 124")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- command arguments")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("give a command")
    try:
        with Hosts(options.n) as hosts, Tunnel(hosts, seed=options.seed, mtu=options.mtu) as tunnel:
            tunnel.change(**options.fault)
            status = run_here(hosts, command, None, options.timeout)
            print(f"tunnel: {tunnel.counts()}", file=sys.stderr)
            return status
    except (Unavailable, RuntimeError, OSError, ValueError) as error:
        print(f"tunnel: {error}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())
