"""Where ranks go, and what reaches them: the fork and the ssh spawner."""

import os
import re
import shutil

from bed import Skip, Wrong, blocks
from cases import ALL, case

ODD = [
    "",
    "a b",
    "c'd",
    'e"f',
    "$HOME",
    "`id`",
    "*",
    "\\",
    "-n",
    "--",
    "tab\there",
    "é",
    "new\nline",
    "\n",
    "end\n",
    "$(id)",
    "!x",
    "#",
    "~",
    "a;b&c|d",
]
ODD_VARIABLES = {
    "PLAIN": "x",
    "SPACES": " a  b ",
    "QUOTES": "a'b\"c",
    "LINES": "one\ntwo\n\n",
    "EMPTY": "",
    "DOLLAR": "$x ${HOME} `id` \\",
    "BASH_FUNC_x%%": "() {  echo x\n}",
    "with.dot": "d",
    "with-dash": "e",
    "GASNET_NOT_KNOWN": "k'k",
    "UTF": "ü€",
    "n": "5",
    "line": "one\ntwo",
}


# One host.


@case("fork: launcher", "one", quick=True, conduits=ALL)
def _(bed):
    bed.run(bed.launch(4, "--", *ODD), places=["node1"] * 4, nbrhds=1, arguments=ODD)


@case("fork: number of ranks as first argument", "one", quick=True, conduits=("udp",))
def _(bed):
    bed.run([bed.program.path, "4", "--", "5", "x"], places=["node1"] * 4, arguments=["5", "x"])


@case("fork: GASNET_PSHM_NODES", "one", quick=True, conduits=ALL)
def _(bed):
    bed.run(
        [bed.program.path, "--", "5", "x"], env={"GASNET_PSHM_NODES": "4"}, places=["node1"] * 4, arguments=["5", "x"]
    )


@case("fork: amudprun -np N -spawn L", "one", quick=True, conduits=("udp",))
def _(bed):
    bed.run(
        [f"{bed.program.prefix}/bin/amudprun", "-np", "3", "-spawn", "L", bed.program.path, "--", "7"],
        places=["node1"] * 3,
        arguments=["7"],
    )


@case("fork: GASNET_SPAWNFN=L", "one", conduits=("udp",))
def _(bed):
    bed.run(
        [bed.program.path, "3"], env={"GASNET_SPAWNFN": "L", "GASNET_SSH_SERVERS": "node1 node9"}, places=["node1"] * 3
    )


@case("fork: -spawner=fork, although hosts are named", "one")
def _(bed):
    bed.run(bed.launch(3, options=["-spawner=fork"]), env={"GASNET_SSH_SERVERS": "node8 node9"}, places=["node1"] * 3)


@case("fork: neighbourhoods of 1 and 2 ranks", "one", quick=True, conduits=("udp", "ofi", "ibv", "gni", "elan"))
def _(bed):
    bed.run(bed.launch(5), env={"GASNET_SUPERNODE_MAXSIZE": "1"}, places=["node1"] * 5, nbrhds=5)
    bed.run(bed.launch(5), env={"GASNET_SUPERNODE_MAXSIZE": "2"}, places=["node1"] * 5, nbrhds=3)


@case("fork: many ranks", "one", conduits=ALL)
def _(bed):
    bed.run(bed.launch(40), places=["node1"] * 40)


@case("fork: as nobody", "one", conduits=ALL)
def _(bed):
    bed.run(bed.launch(3), places=["node1"] * 3, user="nobody")


@case("fork: standard input", "one", quick=True, conduits=ALL)
def _(bed):
    read_input(bed, {}, ["node1"] * 3)


# Several hosts: lists of them.


@case("ssh: hosts between spaces or commas", "three", quick=True)
def _(bed):
    bed.run(bed.launch(5), env=bed.servers(), places=blocks(5, bed.names()), nbrhds=3)
    bed.run(bed.launch(5), env={"GASNET_SSH_SERVERS": "node1,node2, node3,"}, places=blocks(5, bed.names()))


@case("ssh: number of ranks as first argument", "three", quick=True, conduits=("udp",))
def _(bed):
    bed.run(
        [bed.program.path, "4", "--", "5", *ODD],
        env=bed.servers(),
        places=blocks(4, bed.names()),
        arguments=["5", *ODD],
    )


@case("ssh: GASNET_SPAWNFN=S, amudprun -spawn S", "three", conduits=("udp",))
def _(bed):
    bed.run([bed.program.path, "4"], env={"GASNET_SPAWNFN": "S", **bed.servers()}, places=blocks(4, bed.names()))
    bed.run(
        [f"{bed.program.prefix}/bin/amudprun", "-np", "4", "-spawn", "S", bed.program.path],
        env=bed.servers(),
        places=blocks(4, bed.names()),
    )


@case("ssh: the other names of the list", "three")
def _(bed):
    for name in ("AMUDP_SSH_SERVERS", "SSH_SERVERS"):
        bed.run(bed.launch(3), env={name: "node2 node3"}, places=blocks(3, ["node2", "node3"]))


@case("ssh: node files", "three")
def _(bed):
    path = f"{bed.program.folder}/hosts"
    with open(path, "w", encoding="ascii") as file:
        file.write("# all\nnode3 slots=4 # the first\n\n  node1\t2\nnode2\nnode3 again\n")
    try:
        expected = blocks(5, ["node3", "node1", "node2"])
        for name in ("GASNET_SSH_NODEFILE", "GASNET_NODEFILE"):
            bed.run(bed.launch(5), env={name: path}, places=expected)
        bed.run(
            bed.launch(5),
            env={"GASNET_SSH_NODEFILE": path, "GASNET_SSH_SERVERS": "node9", "PBS_NODEFILE": "/nowhere"},
            places=expected,
        )
    finally:
        os.remove(path)


@case("ssh: lists of batch systems", "three")
def _(bed):
    path = f"{bed.program.folder}/nodes"
    with open(path, "w", encoding="ascii") as file:
        file.write("node2\nnode2\nnode3\n")
    try:
        two = blocks(5, ["node2", "node3"])
        for env in (
            {"PBS_NODEFILE": path},
            {"PE_HOSTFILE": path},
            {"LSB_HOSTS": "node2 node2 node3"},
            {"LSB_DJOB_HOSTFILE": path},
            {"LSB_MCPU_HOSTS": "node2 42 node3 7 "},
            {"SLURM_JOB_NODELIST": "node[2-3]"},
            {"SLURM_NODELIST": "node2,node3"},
        ):
            bed.run(bed.launch(5, options=["-spawner=ssh"]), env=env, places=two)
        # Found without a word, too, where no process manager is nearer.
        for env in (
            {"PBS_NODEFILE": path},
            {"LSB_HOSTS": "node2 node2 node3"},
            {"LSB_MCPU_HOSTS": "node2 42 node3 7 "},
        ):
            bed.run(bed.launch(5), env=env, places=two)
            bed.run([bed.program.path], env={"GASNET_PSHM_NODES": "5", **env}, places=two)
            # One rank needs no other host.
            bed.run([bed.program.path], env=env, places=["node1"])
        for line in (bed.launch(3), [bed.program.path]):
            bed.run(
                line,
                env={"PBS_NODEFILE": "/nowhere", "GASNET_PSHM_NODES": "3"},
                places=["node1"] * 3,
                says=["PBS_NODEFILE=/nowhere.*on this host"],
            )
    finally:
        os.remove(path)


@case("ssh: -N", "three", quick=True)
def _(bed):
    bed.run(bed.launch(4, options=["-N", "2"]), env=bed.servers(), places=blocks(4, ["node1", "node2"]))
    bed.run(
        bed.launch(4, options=["-N", "4"]),
        env=bed.servers(),
        places=blocks(4, ["node1", "node2", "node3"]),
        says=["warning: request for 4 hosts ignored .*GASNET_SSH_SERVERS names 3"],
    )


@case("ssh: GASNET_SSH_KEEPDUP", "three")
def _(bed):
    env = {"GASNET_SSH_SERVERS": "node2 node3 node2"}
    bed.run(bed.launch(6), env=env, places=blocks(6, ["node2", "node3"]), nbrhds=2)
    env = {**env, "GASNET_SSH_KEEPDUP": "1"}
    bed.run(bed.launch(6), env=env, places=blocks(6, ["node2", "node3", "node2"]), nbrhds=2)
    # As Chapel's launcher has it: each entry of the list is a node.
    bed.run(
        bed.launch(4, options=["-N", "2", "-c", "0"]),
        env={**env, "GASNET_SSH_SERVERS": "node2 node2 node3"},
        places=["node2"] * 4,
        says=["!warning"],
    )


@case("ssh: fewer ranks than hosts, and -N", "three", quick=True)
def _(bed):
    bed.run(bed.launch(2), env=bed.servers(), places=["node1", "node2"])
    bed.run(bed.launch(5, options=["-N", "2"]), env=bed.servers(), places=blocks(5, ["node1", "node2"]))
    bed.run(bed.launch(1), env=bed.servers(3, 2), places=["node3"])
    bed.run(bed.launch(1), env=bed.servers(), places=["node1"])


@case("ssh: the first host is another", "three", quick=True)
def _(bed):
    bed.run(bed.launch(4), env=bed.servers(2, 3), places=blocks(4, ["node2", "node3"]))
    bed.run(bed.launch(4), env=bed.servers(3, 1), places=blocks(4, ["node3", "node1"]))


@case("ssh: neighbourhoods of 1 and 2 ranks", "three", quick=True)
def _(bed):
    bed.run(
        bed.launch(8), env={"GASNET_SUPERNODE_MAXSIZE": "1", **bed.servers()}, places=blocks(8, bed.names()), nbrhds=8
    )
    bed.run(
        bed.launch(8), env={"GASNET_SUPERNODE_MAXSIZE": "2", **bed.servers()}, places=blocks(8, bed.names()), nbrhds=5
    )


@case("ssh: as nobody", "three", quick=True)
def _(bed):
    bed.run(
        bed.launch(5, "--", "x y"), env=bed.servers(), places=blocks(5, bed.names()), user="nobody", arguments=["x y"]
    )


@case("ssh: login shells of other kinds", "fresh")
def _(bed):
    with open("/etc/passwd", encoding="utf-8") as file:
        accounts = file.read()
    found = [path for path in map(shutil.which, ("tcsh", "fish", "zsh", "dash")) if path]
    if not found:
        raise Skip("there is no other shell: tcsh, fish, zsh, dash")
    path = f"{bed.program.folder}/passwd"
    for shell in found:
        # Only in the other hosts' own view of the file system.
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r"^(root:.*):[^:]*$", rf"\1:{shell}", accounts, flags=re.M))
        for host in (2, 3):
            bed.hosts.check(host, ["sh", "-c", f"umount /etc/passwd 2>/dev/null; mount --bind {path} /etc/passwd"])
        name = bed.hosts.check(1, ["ssh", "node2", "sh -c 'cat /proc/$PPID/comm'; true"]).strip()
        if name != os.path.basename(shell):
            raise Wrong(f"the login shell of node2 is {name} instead of {shell}")
        try:
            bed.run(
                bed.launch(4, *[f"--env={n}" for n in ODD_VARIABLES], "--", *ODD),
                env={**ODD_VARIABLES, **bed.servers()},
                places=blocks(4, bed.names()),
                arguments=ODD,
                variables=ODD_VARIABLES,
            )
        except Wrong as wrong:
            raise Wrong(f"{shell}: {wrong}") from None
    os.remove(path)


@case("ssh: many ranks", "three")
def _(bed):
    bed.run(bed.launch(48), env=bed.servers(), places=blocks(48, bed.names()), nbrhds=3)


@case("ssh: degree of the tree", "seven")
def _(bed):
    for degree in ("1", "2", "3", "0", "32"):
        for servers in (bed.servers(), bed.servers(2, 3, 4, 5, 6, 7)):
            names = servers["GASNET_SSH_SERVERS"].split()
            bed.run(
                bed.launch(8, "--", *ODD),
                env={"GASNET_SSH_OUT_DEGREE": degree, **servers},
                places=blocks(8, names),
                arguments=ODD,
            )


@case("ssh: what reaches the ranks through a deep tree", "seven")
def _(bed):
    env = {"GASNET_SSH_OUT_DEGREE": "1", **bed.servers(2, 3, 4, 5, 6, 7), **ODD_VARIABLES}
    bed.run(
        bed.launch(7, *[f"--env={n}" for n in ODD_VARIABLES]),
        env=env,
        places=blocks(7, bed.names()[1:]),
        variables=ODD_VARIABLES,
    )


# Addresses.


@case("ssh: hosts by address", "three")
def _(bed):
    for family in (0, 1):
        names = [bed.hosts.addresses(n)[family] for n in (1, 2, 3)]
        bed.run(bed.launch(5), env={"GASNET_SSH_SERVERS": " ".join(names)}, places=blocks(5, bed.names()))


@case("ssh: hosts with IPv6 only", "ipv6")
def _(bed):
    bed.run(bed.launch(5), env=bed.servers(), places=blocks(5, bed.names()))
    bed.run(
        bed.launch(5),
        env={"GASNET_WORKERIP": "fd77::", "GASNET_MASTERIP": "fd77::1", **bed.servers()},
        places=blocks(5, bed.names()),
    )


@case("ssh: a host's own name means 127.0.1.1, and all have the same identity", "loopback", quick=True)
def _(bed):
    bed.run(bed.launch(5), env=bed.servers(), places=blocks(5, bed.names()))
    bed.run(bed.launch(5), env=bed.servers(2, 3), places=blocks(5, ["node2", "node3"]))
    # A longer name than the host's own is the same host, which needs no remote shell to itself, and
    # whose ranks are not at 127.0.1.1 for others.
    long = {"GASNET_SSH_SERVERS": " ".join(f"{name}.cluster" for name in bed.names()), "GASNET_SPAWN_VERBOSE": "1"}
    bed.run(
        bed.launch(5), env=long, places=blocks(5, bed.names()), says=["host node2.cluster:", "!host node1.cluster:"]
    )


@case("ssh: GASNET_MASTERIP", "three")
def _(bed):
    for place in (*bed.hosts.addresses(1), "node1"):
        bed.run(bed.launch(3), env={"GASNET_MASTERIP": place, **bed.servers()}, places=blocks(3, bed.names()))


@case("ssh: GASNET_WORKERIP chooses the network", "two networks")
def _(bed):
    def received(interface):
        with open(f"/proc/{bed.hosts.hosts[2].pid}/net/dev", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.strip().startswith(f"{interface}:"))

    for network, expected in (("10.78.0.0", "eth1"), ("fd78::", "eth1"), ("10.77.0.0", "eth0")):
        before = {i: received(i) for i in ("eth0", "eth1")}
        bed.run(bed.launch(6), env={"GASNET_WORKERIP": network, **bed.servers()}, places=blocks(6, bed.names()))
        more = {i: received(i) - before[i] for i in before}
        # Three rounds of two ranks' 4000 bytes to each of two, from two hosts, go over it; start
        # and end always use the first network.
        if not (more["eth1"] > 90000 if expected == "eth1" else more["eth1"] < 10000):
            raise Wrong(f"GASNET_WORKERIP={network}: {more} bytes came in")


# Remote shells.


def remote_shell(bed, text, *arguments):
    """Runs a job with a remote shell of our own; returns what it noted."""
    path, log = f"{bed.program.folder}/shell", f"{bed.program.folder}/log"
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\nLOG={log}\n{text}")
    os.chmod(path, 0o755)
    try:
        bed.run(
            bed.launch(4, "--", *ODD),
            env={"GASNET_SSH_CMD": path, "GASNET_SSH_OPTIONS": " ".join(arguments), **bed.servers()},
            places=blocks(4, bed.names()),
            arguments=ODD,
        )
        if os.path.exists(log):
            with open(log, encoding="utf-8") as file:
                return file.read()
        return ""
    finally:
        for name in (path, log):
            if os.path.exists(name):
                os.remove(name)


@case("ssh: GASNET_SSH_CMD and GASNET_SSH_OPTIONS", "three", quick=True)
def _(bed):
    said = remote_shell(
        bed,
        'printf "<%s><%s><%s><%s>\\n" "$1" "$2" "$3" "$4" >> $LOG; shift 4; exec ssh "$@"\n',
        "a",
        "'b  c'",
        '"d\'e"',
        "f\\ g",
    )
    if said.splitlines() != ["<a><b  c><d'e><f g>"] * 2:
        raise Wrong(f"the remote shell got {said!r}")
    bed.run(
        bed.launch(3),
        env={"GASNET_SSH_OPTIONS": "-o 'LogLevel ERROR' -o \"ConnectTimeout 20\" -4", **bed.servers()},
        places=blocks(3, bed.names()),
    )


@case("ssh: GASNET_SSH_REMOTE_PATH", "three")
def _(bed):
    other = f"{bed.program.folder}/another folder"
    os.mkdir(other)
    try:
        name = os.path.basename(bed.program.path)
        shutil.copy(bed.program.path, f"{other}/{name}")
        text = bed.run(
            [bed.program.launcher, "-n", "3", f"./{name}", "--folder"],
            env={"GASNET_SSH_REMOTE_PATH": other, **bed.servers()},
            places=blocks(3, bed.names()),
        )
        if "rank 2 folder" not in text or not text.split("rank 2 folder ")[1].splitlines()[0].endswith(
            "another\\x20folder]"
        ):
            raise Wrong(f"rank 2 was elsewhere: {text}")
    finally:
        shutil.rmtree(other)


@case("ssh: a program on the path", "three")
def _(bed):
    path = f"{bed.program.folder}:{os.environ['PATH']}"
    name = os.path.basename(bed.program.path)
    bed.run([bed.program.launcher, "-n", "3", name], env={"PATH": path, **bed.servers()}, places=blocks(3, bed.names()))
    bed.run(
        ["sh", "-c", name], env={"PATH": path, "GASNET_PSHM_NODES": "3", **bed.servers()}, places=blocks(3, bed.names())
    )


# What reaches the ranks.


@case("ssh: variables as they are", "three", quick=True)
def _(bed):
    bed.run(
        bed.launch(4, *[f"--env={n}" for n in ODD_VARIABLES]),
        env={**ODD_VARIABLES, **bed.servers()},
        places=blocks(4, bed.names()),
        variables=ODD_VARIABLES,
    )


@case("ssh: -E wins over the session there", "three", quick=True)
def _(bed):
    env = {"USER": "zed", "OTHER": "of the starter", **bed.servers(2, 3)}
    bed.run(
        bed.launch(3, "--env=USER", "--env=OTHER"),
        env=env,
        ranks=3,
        variables={"USER": "root", "OTHER": "of the starter"},
    )
    bed.run(bed.launch(3, "--env=USER", options=["-E", "OTHER,USER"]), env=env, ranks=3, variables={"USER": "zed"})
    bed.run(bed.launch(3, "--env=USER", options=["-E", "USER=a  'b'"]), env=env, ranks=3, variables={"USER": "a  'b'"})


@case("ssh: variables of a session are not carried", "three")
def _(bed):
    env = {"DISPLAY": ":7", "SSH_AUTH_SOCK": "/nowhere", "DBUS_SESSION_BUS_ADDRESS": "x", **bed.servers(2, 3)}
    bed.run(
        bed.launch(
            3, "--env=DISPLAY", "--env=SSH_AUTH_SOCK", "--env=DBUS_SESSION_BUS_ADDRESS", "--env=_GASNET_CONTACT"
        ),
        env=env,
        ranks=3,
        variables={"DISPLAY": None, "SSH_AUTH_SOCK": None, "DBUS_SESSION_BUS_ADDRESS": None, "_GASNET_CONTACT": None},
    )


def read_input(bed, env, places):
    """Standard input reaches rank 0, all of it, and an empty one ends."""
    data = bytes(range(256)) * 2000
    total = 0
    for byte in data:
        total = (total * 31 + byte) & 0xFFFFFFFF
    bed.run(
        bed.launch(len(places), "--input"),
        env=env,
        places=places,
        stdin=data,
        says=[f"^rank 0 input {len(data)} bytes sum {total}$"],
    )
    bed.run(bed.launch(len(places), "--input"), env=env, places=places, says=["^rank 0 input 0 bytes sum 0$"])


@case("ssh: standard input, rank 0 here and elsewhere", "three", quick=True)
def _(bed):
    for hosts in ((1, 2, 3), (2, 3, 1)):
        read_input(bed, bed.servers(*hosts), blocks(4, [f"node{n}" for n in hosts]))
    # Nobody reads.
    bed.run(bed.launch(3), env=bed.servers(2, 3), places=blocks(3, ["node2", "node3"]), stdin=b"x" * 1000000)
