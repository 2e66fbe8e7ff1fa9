#!/usr/bin/env python3
"""Several hosts on one machine: network namespaces on a common bridge, each with its own addresses,
host name, processes, shared memory, /run and ssh server. Needs root; touches nothing of the
machine's network, its files or ~/.ssh; ends with the process that made it, however that ends.

    with Hosts(4) as hosts:
        code, out, err = hosts.run(1, ["ssh", "node3", "hostname"], timeout=30)

    cluster/hosts.py -n 4 [--timeout 60] [--user nobody] [--link 2:loss=20,mtu=1400] --
    command arguments

The tool runs the command on node1 and ends with its status (124: out of time). Host n is `node{n}`,
10.77.0.n, fd77::n. README.md has more.
"""

import argparse
import collections
import json
import os
import pwd
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid

from link import Link
from processes import SEARCH_PATH, Unavailable, kill_group, marked, need, processes_in

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = "/run/cluster"
START_SECONDS = 90
END_SECONDS = 60
MOST_HOSTS = 200

Result = collections.namedtuple("Result", "code stdout stderr")


class Host:
    """A host, seen from outside: its process 1, held so that its number cannot become that of
    another process."""

    def __init__(self, number, pid, networks):
        self.number, self.pid, self.links = number, pid, [Link(f"node{number}", n) for n in range(networks)]
        self.pidfd = os.pidfd_open(pid)
        self.namespace = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)

    def alive(self):
        """Whether the host runs."""
        return not select.select([self.pidfd], [], [], 0)[0]

    def close(self):
        """Lets go."""
        os.close(self.pidfd)
        os.close(self.namespace)


class Hosts:
    """N hosts, from `with` (or `start`) to the end of it (or `close`, or this process's end).

    ssh: start ssh servers. ipv4, ipv6: address families (IPv6 only where the kernel has it).
    networks: further ones are eth1 with 10.78.0.n and fd78::n, and so on; names mean the first.
    mtu: of all links. user: who besides root can log in and be named in `run`. routed: a router
    instead of bridges, which answers "too big" (ICMP) where a bridge loses packets silently when
    a host's MTU becomes smaller. own_name_is_loopback: each host's /etc/hosts gives 127.0.1.1
    for its own name, as Debian's installer writes it, and names with a domain, cluster.
    own_identity: a boot_id and machine-id for each host; without it all have the machine's, like
    careless clones."""

    def __init__(
        self,
        count,
        *,
        ssh=True,
        ipv4=True,
        ipv6=True,
        networks=1,
        mtu=1500,
        user="nobody",
        routed=False,
        own_name_is_loopback=False,
        own_identity=True,
    ):
        if not 1 <= count <= MOST_HOSTS or not 1 <= networks <= 9 or not (ipv4 or ipv6):
            raise ValueError(f"1 to {MOST_HOSTS} hosts, 1 to 9 networks, IPv4 or IPv6 are possible")
        self.count, self.ssh, self.ipv4, self.networks, self.user = count, ssh, ipv4, networks, user
        self.ipv6 = ipv6 and os.path.exists("/proc/sys/net/ipv6")
        if user not in {entry.pw_name for entry in pwd.getpwall()}:
            raise ValueError(f"{user} is not a user of this machine")
        self.plan = {
            "ssh": ssh,
            "ipv6": self.ipv6,
            "networks": networks,
            "mtu": mtu,
            "user": [user, pwd.getpwnam(user).pw_uid],
            "routed": routed,
            "own_name_is_loopback": own_name_is_loopback,
            "own_identity": own_identity,
            "hosts": [],
            "names": "",
        }
        for number in self.numbers():
            networks_of_host = [self.addresses(number, n) for n in range(networks)]
            self.plan["hosts"].append(
                {
                    "number": number,
                    "name": self.name(number),
                    "addresses": [a for n in networks_of_host for a in n],
                    "networks": networks_of_host,
                }
            )
            self.plan["names"] += "".join(f"{a} {self.name(number)}\n" for a in networks_of_host[0])
        self.hosts, self.running, self.container, self.control, self.own = {}, [], None, None, set()
        self.mark = f"cluster-mark-{uuid.uuid4().hex}"

    def numbers(self):
        """1 … N."""
        return range(1, self.count + 1)

    @staticmethod
    def name(number):
        """A host's name."""
        return f"node{number}"

    def names(self):
        """All names."""
        return [self.name(n) for n in self.numbers()]

    def addresses(self, number, network=0):
        """A host's addresses in a network: IPv4, then IPv6."""
        return [f"10.{77 + network}.0.{number}"] * self.ipv4 + [f"fd{77 + network}::{number:x}"] * self.ipv6

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close(check=False)
            raise

    def __exit__(self, kind, *_):
        self.close(check=kind is None)

    def start(self):
        """Makes the hosts; returns when all answer."""
        need("unshare", "nsenter", "setpriv", "ip", *(["ssh", "ssh-keygen", "sshd"] if self.ssh else []))
        if not (self.ipv4 or self.ipv6):
            raise Unavailable("this kernel has no IPv6")
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.control.settimeout(START_SECONDS)
        lifeline = os.pidfd_open(os.getpid())
        words = [
            "unshare",
            "--net",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child=SIGKILL",
            sys.executable,
            "-I",
            "-S",
            f"{HERE}/inside.py",
            json.dumps(self.plan),
            str(lifeline),
            str(theirs.fileno()),
            self.mark,
        ]
        # The mark by which the checks find what a job has left.
        environment = {
            "PATH": SEARCH_PATH,
            "LC_ALL": "C.UTF-8",
            **{k: v for k, v in os.environ.items() if k == "GASNET_CHECK_JOB"},
        }
        with theirs, tempfile.TemporaryFile() as said:
            self.container = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/",
                start_new_session=True,
                pass_fds=[lifeline, theirs.fileno()],
                env=environment,
            )
            os.close(lifeline)
            theirs.close()
            self.await_hosts(said)
        self.accept()
        return self

    def await_hosts(self, said):
        """Until the container is built and every host's process 1 has reported."""
        ready = False
        while not (ready and len(self.hosts) == self.count):
            try:
                text, extra, _, _ = self.control.recvmsg(65536, socket.CMSG_SPACE(12))
            except TimeoutError:
                raise RuntimeError(f"the hosts were not there after {START_SECONDS} s") from None
            if not text:
                said.seek(0)
                words = said.read().decode(errors="replace").strip()
                kind = Unavailable if "unshare failed" in words else RuntimeError
                raise kind(f"the hosts could not be made: {words or 'their process 1 has ended'}")
            message = json.loads(text)
            if "error" in message:
                raise RuntimeError(f"the hosts could not be made: {message['error']}")
            ready = ready or "ready" in message
            if "host" in message:
                self.hosts[message["host"]] = Host(message["host"], struct.unpack("3i", extra[0][2])[0], self.networks)

    def accept(self):
        """Records the running processes as those of the hosts, such as ssh servers: they are no
        strays."""
        self.own = {p.pid for p in self.processes()}

    def processes(self):
        """All processes on the hosts."""
        return processes_in({os.fstat(h.namespace).st_ino: h.number for h in self.hosts.values()})

    def strays(self, grace=0):
        """Lists processes that jobs have left running; `grace`: seconds in which they may still
        end."""
        end = time.monotonic() + grace
        while True:
            found = [p for p in self.processes() if p.pid not in self.own]
            if not found or time.monotonic() >= end:
                return found
            time.sleep(0.05)

    def sweep(self):
        """Kills the processes that jobs have left running, and lists them."""
        found = self.strays()
        for process in found:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return found

    def enter(self, number, user=None, cwd=None):
        """The words that, before a command, run it on a host."""
        host = self.hosts[number]
        if not host.alive():
            raise RuntimeError(f"{self.name(number)} has crashed")
        # If this process goes the waiting nsenter must go, even a stopped one: its child could not
        # be collected else.
        words = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "nsenter",
            "--target",
            str(host.pid),
            "--mount",
            "--uts",
            "--ipc",
            "--net",
            "--pid",
            f"--wdns={cwd or os.getcwd()}",
        ]
        if user not in (None, "root"):
            entry = pwd.getpwnam(user)
            words += ["--setgid", str(entry.pw_gid), "--setuid", str(entry.pw_uid)]
        return [*words, "--"]

    def environment(self, env=None, user=None):
        """This process's environment with the hosts' folders, and `env` in it; a value None removes
        a variable."""
        user = user or "root"
        values = {
            **os.environ,
            "PATH": SEARCH_PATH,
            "HOME": f"{BASE}/home/{user}",
            "TMPDIR": f"{BASE}/tmp",
            "USER": user,
            "LOGNAME": user,
        }
        for name in [n for n in values if n.startswith("SSH_")]:
            del values[name]
        values.update(env or {})
        return {k: v for k, v in values.items() if v is not None}

    def popen(self, number, command, *, env=None, user=None, cwd=None, **options):
        """Starts a command on a host in a session of its own, and returns its `subprocess.Popen`
        (its number is that of a process which waits for the command). Call it in a thread that
        lives as long as the command."""
        options.setdefault("start_new_session", True)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(
            self.enter(number, user, cwd) + list(command), env=self.environment(env, user), **options
        )
        self.running = [p for p in self.running if p.poll() is None] + [process]
        return process

    def run(self, number, command, *, env=None, stdin=None, timeout=120, user=None, cwd=None):
        """Runs a command on a host: (exit code, output, errors). The code is None when time ran out
        (then its process group was killed; see `strays`), and negative when a signal ended it.
        `stdin`: text or bytes; else it is empty."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        # Files, not pipes: a daemon that the command leaves behind cannot make us wait.
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            source.write(given or b"")
            source.seek(0)
            process = self.popen(number, command, env=env, user=user, cwd=cwd, stdin=source, stdout=out, stderr=err)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                kill_group(process)
                code = None
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
            return Result(code, *texts)

    def check(self, number, command, **options):
        """`run` whose failure is an error; returns the output."""
        result = self.run(number, command, **options)
        if result.code != 0:
            raise RuntimeError(
                f"{' '.join(command)} on {self.name(number)} ended with {result.code}: "
                f"{(result.stderr or result.stdout).strip()}"
            )
        return result.stdout

    def link(self, number, network=0, **changes):
        """Makes the link of a host (None: of all) to a network strange, from now on: see
        `Link.change`."""
        for n in self.numbers() if number is None else [number]:
            link = self.hosts[n].links[network]
            link.change(**changes)
            for place, words, text in link.commands():
                need(words[0])
                if place == "host":
                    self.check(n, words, stdin=text)
                else:
                    self.at_bridge(words, text)

    def at_bridge(self, words, text=None):
        """A command in the namespace of the bridges, where the other ends of the hosts' cables
        are."""
        enter = ["nsenter", "--target", str(self.bridge_pid()), "--net", "--"]
        result = subprocess.run(enter + words, input=text, capture_output=True, text=True, env=self.environment())
        if result.returncode != 0:
            raise RuntimeError(
                f"{' '.join(words)} at the bridge ended with {result.returncode}: {result.stderr.strip()}"
            )
        return result.stdout

    def bridge_pid(self):
        """The container's process 1: the only child of `unshare`, whose parent waits for it, so
        that the number stays its."""
        with open(f"/proc/{self.container.pid}/task/{self.container.pid}/children", encoding="ascii") as file:
            return int(file.read().split()[0])

    def crash(self, number):
        """Ends a host at once, as a power failure would: all its processes are killed and its link
        is gone."""
        host = self.hosts[number]
        signal.pidfd_send_signal(host.pidfd, signal.SIGKILL)
        select.select([host.pidfd], [], [], END_SECONDS)

    def close(self, check=True):
        """Ends all hosts and their processes. With `check`, anything left is an error."""
        for process in self.running:
            if process.poll() is None:
                kill_group(process)
        if self.control:
            self.control.close()
        if self.container and self.container.poll() is None:
            try:
                self.container.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.container.kill()
                self.container.wait()
        left = self.leftovers()
        for host in self.hosts.values():
            host.close()
        self.hosts = {}
        if check and left:
            raise RuntimeError(
                "left behind by the hosts: " + "; ".join(f"{p.pid} on node{p.host} ({p.command})" for p in left)
            )

    def leftovers(self):
        """After the end: processes of the inside that still run; there must be none."""
        return self.processes() + marked(self.mark)


def parse_link(text):
    """`2:loss=20,mtu=1400` or `all:up=0` as (host, changes)."""
    host, _, words = text.partition(":")
    changes = {}
    for word in words.split(","):
        name, _, value = word.partition("=")
        if name not in Link.KINDS:
            raise argparse.ArgumentTypeError(f"{word}: a link has {', '.join(Link.KINDS)}")
        changes[name] = Link.KINDS[name](value)
    return None if host == "all" else int(host), changes


def main():
    """The command line tool."""
    parser = argparse.ArgumentParser(description="Runs a command on the first of several hosts made of namespaces.")
    parser.add_argument("-n", type=int, default=4, help="number of hosts (4)")
    parser.add_argument("--timeout", type=float, help="end all after so many seconds, with status 124")
    parser.add_argument("--user", help="run the command as this user; root and this one can use ssh")
    parser.add_argument("--networks", type=int, default=1, help="networks that join the hosts (1)")
    parser.add_argument("--mtu", type=int, default=1500, help="of all links (1500)")
    parser.add_argument("--routed", action="store_true", help="a router joins the hosts, not a bridge")
    parser.add_argument("--no-ssh", action="store_true", help="no ssh servers")
    parser.add_argument("--no-ipv4", action="store_true")
    parser.add_argument("--no-ipv6", action="store_true")
    parser.add_argument(
        "--link",
        action="append",
        type=parse_link,
        default=[],
        metavar="HOST:NAME=VALUE,…",
        help=f"HOST is a number or all; names are {', '.join(Link.KINDS)}",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- command arguments")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("give a command")
    user = options.user if options.user != "root" else None
    try:
        with Hosts(
            options.n,
            ssh=not options.no_ssh,
            ipv4=not options.no_ipv4,
            ipv6=not options.no_ipv6,
            networks=options.networks,
            mtu=options.mtu,
            user=user or "nobody",
            routed=options.routed,
        ) as hosts:
            for number, changes in options.link:
                hosts.link(number, **changes)
            return run_here(hosts, command, user, options.timeout)
    except (Unavailable, RuntimeError, OSError, ValueError) as error:
        print(f"hosts: {error}", file=sys.stderr)
        return 125


def run_here(hosts, command, user=None, timeout=None):
    """Runs a command on node1 with this process's input, output and terminal; returns its status as
    a shell gives it."""
    process = hosts.popen(1, command, user=user, stdin=None, start_new_session=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command has got it, too
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        print(f"hosts: out of time after {timeout:g} s", file=sys.stderr)
        process.kill()
        return 124
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
