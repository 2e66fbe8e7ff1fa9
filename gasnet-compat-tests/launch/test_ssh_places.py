"""Places of ranks, and their environment and input: the fork and the ssh spawner."""

import os
import re
import shutil
from pathlib import Path

import pytest
from bed import blocks
from kinds import ALL, BY_ADDRESS

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


# The tests of one host in this folder do not run with it.
@pytest.mark.hosts("one", quick=True, conduits=("any",))
def test_fork_of_the_universal_library(bed):
    bed.run(bed.launch(4, "--", *ODD), places=["node1"] * 4, nbrhds=1, arguments=ODD)
    bed.run(
        [bed.program.path, "--", "5", "x"], env={"GASNET_PSHM_NODES": "4"}, places=["node1"] * 4, arguments=["5", "x"]
    )
    read_input(bed, {}, ["node1"] * 3)


@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_fork_by_amudprun(bed):
    bed.run(
        [f"{bed.program.prefix}/bin/amudprun", "-np", "3", "-spawn", "L", bed.program.path, "--", "7"],
        places=["node1"] * 3,
        arguments=["7"],
    )


@pytest.mark.hosts("one", conduits=("udp",))
def test_fork_by_spawnfn(bed):
    bed.run(
        [bed.program.path, "3"], env={"GASNET_SPAWNFN": "L", "GASNET_SSH_SERVERS": "node1 node9"}, places=["node1"] * 3
    )


@pytest.mark.hosts("one")
def test_fork_although_hosts_are_named(bed):
    bed.run(bed.launch(3, options=["-spawner=fork"]), env={"GASNET_SSH_SERVERS": "node8 node9"}, places=["node1"] * 3)


@pytest.mark.hosts("one", quick=True, conduits=("udp", "ofi", "ibv", "gni", "elan"))
def test_fork_neighbourhoods_of_1_and_2_ranks(bed):
    bed.run(bed.launch(5), env={"GASNET_SUPERNODE_MAXSIZE": "1"}, places=["node1"] * 5, nbrhds=5)
    bed.run(bed.launch(5), env={"GASNET_SUPERNODE_MAXSIZE": "2"}, places=["node1"] * 5, nbrhds=3)


@pytest.mark.hosts("one", conduits=ALL)
def test_fork_as_nobody(bed):
    bed.run(bed.launch(3), places=["node1"] * 3, user="nobody")


# Several hosts: lists of them.


@pytest.mark.hosts("three", quick=True)
def test_ssh_hosts_between_spaces_or_commas(bed):
    bed.run(bed.launch(5), env=bed.servers(), places=blocks(5, bed.names()), nbrhds=3)
    bed.run(bed.launch(5), env={"GASNET_SSH_SERVERS": "node1,node2, node3,"}, places=blocks(5, bed.names()))


@pytest.mark.hosts("three", quick=True, conduits=("udp",))
def test_ssh_number_of_ranks_first(bed):
    bed.run(
        [bed.program.path, "4", "--", "5", *ODD],
        env=bed.servers(),
        places=blocks(4, bed.names()),
        arguments=["5", *ODD],
    )


@pytest.mark.hosts("three", conduits=("udp",))
def test_ssh_by_spawnfn_and_amudprun(bed):
    bed.run([bed.program.path, "4"], env={"GASNET_SPAWNFN": "S", **bed.servers()}, places=blocks(4, bed.names()))
    bed.run(
        [f"{bed.program.prefix}/bin/amudprun", "-np", "4", "-spawn", "S", bed.program.path],
        env=bed.servers(),
        places=blocks(4, bed.names()),
    )


@pytest.mark.parametrize("name", ("AMUDP_SSH_SERVERS", "SSH_SERVERS"))
@pytest.mark.hosts("three")
def test_ssh_other_names_of_the_list(bed, name):
    bed.run(bed.launch(3), env={name: "node2 node3"}, places=blocks(3, ["node2", "node3"]))


@pytest.mark.parametrize("variable", ("GASNET_SSH_NODEFILE", "GASNET_NODEFILE", ""))
@pytest.mark.hosts("three")
def test_ssh_node_file(bed, folder, variable):
    node_file = Path(folder, "nodes")
    node_file.write_text("# all\nnode3 slots=4 # the first\n\n  node1\t2\nnode2\nnode3 again\n", encoding="ascii")
    # One that counts more than others.
    several = {"GASNET_SSH_NODEFILE": str(node_file), "GASNET_SSH_SERVERS": "node9", "PBS_NODEFILE": "/nowhere"}
    env = {variable: str(node_file)} if variable else several
    bed.run(bed.launch(5), env=env, places=blocks(5, ["node3", "node1", "node2"]))


# By name and value, which may be the file.
LISTS = {
    "PBS_NODEFILE": "",
    "PE_HOSTFILE": "",
    "LSB_HOSTS": "node2 node2 node3",
    "LSB_DJOB_HOSTFILE": "",
    "LSB_MCPU_HOSTS": "node2 42 node3 7 ",
    "SLURM_JOB_NODELIST": "node[2-3]",
    "SLURM_NODELIST": "node2,node3",
}


@pytest.mark.parametrize("variable", LISTS)
@pytest.mark.hosts("three")
def test_ssh_list_of_a_batch_system(bed, folder, variable):
    node_file = Path(folder, "nodes")
    node_file.write_text("node2\nnode2\nnode3\n", encoding="ascii")
    env, two = {variable: LISTS[variable] or str(node_file)}, blocks(5, ["node2", "node3"])
    bed.run(bed.launch(5, options=["-spawner=ssh"]), env=env, places=two)
    # Found without an option, too, where no process manager has precedence.
    if variable in ("PBS_NODEFILE", "LSB_HOSTS", "LSB_MCPU_HOSTS"):
        bed.run(bed.launch(5), env=env, places=two)
        bed.run([bed.program.path], env={"GASNET_PSHM_NODES": "5", **env}, places=two)
        # One rank needs no other host.
        bed.run([bed.program.path], env=env, places=["node1"])


@pytest.mark.hosts("three")
def test_ssh_list_of_a_batch_system_is_not_there(bed):
    for line in (bed.launch(3), [bed.program.path]):
        bed.run(
            line,
            env={"PBS_NODEFILE": "/nowhere", "GASNET_PSHM_NODES": "3"},
            places=["node1"] * 3,
            says=["PBS_NODEFILE=/nowhere.*on this host"],
        )


@pytest.mark.hosts("three", quick=True)
def test_ssh_number_of_hosts(bed):
    bed.run(bed.launch(4, options=["-N", "2"]), env=bed.servers(), places=blocks(4, ["node1", "node2"]))
    bed.run(
        bed.launch(4, options=["-N", "4"]),
        env=bed.servers(),
        places=blocks(4, ["node1", "node2", "node3"]),
        says=["warning: request for 4 hosts ignored .*GASNET_SSH_SERVERS names 3"],
    )


@pytest.mark.hosts("three")
def test_ssh_hosts_named_twice(bed):
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


@pytest.mark.hosts("three", quick=True)
def test_ssh_fewer_ranks_than_hosts(bed):
    bed.run(bed.launch(2), env=bed.servers(), places=["node1", "node2"])
    bed.run(bed.launch(5, options=["-N", "2"]), env=bed.servers(), places=blocks(5, ["node1", "node2"]))
    bed.run(bed.launch(1), env=bed.servers(3, 2), places=["node3"])
    bed.run(bed.launch(1), env=bed.servers(), places=["node1"])


@pytest.mark.hosts("three", quick=True)
def test_ssh_the_first_host_is_another(bed):
    bed.run(bed.launch(4), env=bed.servers(2, 3), places=blocks(4, ["node2", "node3"]))
    bed.run(bed.launch(4), env=bed.servers(3, 1), places=blocks(4, ["node3", "node1"]))


@pytest.mark.parametrize("most, nbrhds", ((1, 8), (2, 5)))
@pytest.mark.hosts("three", quick=True)
def test_ssh_neighbourhoods(bed, most, nbrhds):
    env = {"GASNET_SUPERNODE_MAXSIZE": str(most), **bed.servers()}
    bed.run(bed.launch(8), env=env, places=blocks(8, bed.names()), nbrhds=nbrhds)


@pytest.mark.hosts("three", quick=True)
def test_ssh_as_nobody(bed):
    bed.run(
        bed.launch(5, "--", "x y"), env=bed.servers(), places=blocks(5, bed.names()), user="nobody", arguments=["x y"]
    )


@pytest.mark.parametrize("shell", filter(shutil.which, ("tcsh", "fish", "zsh", "dash")))
@pytest.mark.hosts("fresh")
def test_ssh_login_shell(bed, folder, shell):
    place, passwd = shutil.which(shell), Path(folder, "passwd")
    # Only in the other hosts' own view of the file system.
    accounts = Path("/etc/passwd").read_text(encoding="utf-8")
    passwd.write_text(re.sub(r"^(root:.*):[^:]*$", rf"\1:{place}", accounts, flags=re.M), encoding="utf-8")
    for host in (2, 3):
        bed.hosts.check(host, ["mount", "--bind", str(passwd), "/etc/passwd"])
    name = bed.hosts.check(1, ["ssh", "node2", "sh -c 'cat /proc/$PPID/comm'; true"]).strip()
    assert name == shell, f"the login shell of node2 is {name} instead of {shell}"
    bed.run(
        bed.launch(4, *[f"--env={n}" for n in ODD_VARIABLES], "--", *ODD),
        env={**ODD_VARIABLES, **bed.servers()},
        places=blocks(4, bed.names()),
        arguments=ODD,
        variables=ODD_VARIABLES,
    )


@pytest.mark.hosts("three")
def test_ssh_many_ranks(bed):
    bed.run(bed.launch(48), env=bed.servers(), places=blocks(48, bed.names()), nbrhds=3)


@pytest.mark.parametrize("first", (1, 2))
@pytest.mark.parametrize("degree", ("1", "2", "3", "0", "32"))
@pytest.mark.hosts("seven")
def test_ssh_degree_of_the_tree(bed, degree, first):
    env = {"GASNET_SSH_OUT_DEGREE": degree, **bed.servers(*range(first, 8))}
    bed.run(bed.launch(8, "--", *ODD), env=env, places=blocks(8, bed.names()[first - 1 :]), arguments=ODD)


@pytest.mark.hosts("seven")
def test_ssh_variables_through_a_deep_tree(bed):
    env = {"GASNET_SSH_OUT_DEGREE": "1", **bed.servers(2, 3, 4, 5, 6, 7), **ODD_VARIABLES}
    bed.run(
        bed.launch(7, *[f"--env={n}" for n in ODD_VARIABLES]),
        env=env,
        places=blocks(7, bed.names()[1:]),
        variables=ODD_VARIABLES,
    )


# Addresses.


@pytest.mark.hosts("three")
def test_ssh_hosts_by_address(bed):
    for family in (0, 1):
        names = [bed.hosts.addresses(n)[family] for n in (1, 2, 3)]
        bed.run(bed.launch(5), env={"GASNET_SSH_SERVERS": " ".join(names)}, places=blocks(5, bed.names()))


@pytest.mark.hosts("ipv6")
def test_ssh_ipv6_only(bed):
    bed.run(bed.launch(5), env=bed.servers(), places=blocks(5, bed.names()))
    bed.run(
        bed.launch(5),
        env={"GASNET_WORKERIP": "fd77::", "GASNET_MASTERIP": "fd77::1", **bed.servers()},
        places=blocks(5, bed.names()),
    )


@pytest.mark.hosts("loopback", quick=True)
def test_ssh_own_name_is_loopback(bed):
    bed.run(bed.launch(5), env=bed.servers(), places=blocks(5, bed.names()))
    bed.run(bed.launch(5), env=bed.servers(2, 3), places=blocks(5, ["node2", "node3"]))
    # A longer name than the host's own is the same host, which needs no remote shell to itself, and
    # whose ranks are not at 127.0.1.1 for others.
    long = {"GASNET_SSH_SERVERS": " ".join(f"{name}.cluster" for name in bed.names()), "GASNET_SPAWN_VERBOSE": "1"}
    bed.run(
        bed.launch(5), env=long, places=blocks(5, bed.names()), says=["host node2.cluster:", "!host node1.cluster:"]
    )


@pytest.mark.hosts("three")
def test_ssh_masterip(bed):
    for place in (*bed.hosts.addresses(1), "node1"):
        bed.run(bed.launch(3), env={"GASNET_MASTERIP": place, **bed.servers()}, places=blocks(3, bed.names()))


@pytest.mark.parametrize("network, expected", (("10.78.0.0", "eth1"), ("fd78::", "eth1"), ("10.77.0.0", "eth0")))
@pytest.mark.hosts("two-networks", conduits=BY_ADDRESS)
def test_ssh_workerip_chooses_the_network(bed, network, expected):
    def received():
        with open(f"/proc/{bed.hosts.hosts[2].pid}/net/dev", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.strip().startswith("eth1:"))

    before = received()
    bed.run(bed.launch(6), env={"GASNET_WORKERIP": network, **bed.servers()}, places=blocks(6, bed.names()))
    more = received() - before
    # Three rounds of two ranks' 4000 bytes to each of two, from two hosts, go over it; start and
    # end always use the first network.
    assert more > 90000 if expected == "eth1" else more < 10000, f"{more} bytes came in over eth1"


# Remote shells.


@pytest.mark.hosts("three", quick=True)
def test_ssh_command_and_options(bed, folder):
    log = Path(folder, "log")
    script = f'printf "<%s><%s><%s><%s>\\n" "$1" "$2" "$3" "$4" >> {log}; shift 4; exec ssh "$@"'
    with bed.script("shell", script) as shell:
        bed.run(
            bed.launch(4, "--", *ODD),
            env={"GASNET_SSH_CMD": shell, "GASNET_SSH_OPTIONS": "a 'b  c' \"d'e\" f\\ g", **bed.servers()},
            places=blocks(4, bed.names()),
            arguments=ODD,
        )
    said = log.read_text(encoding="utf-8")
    assert said.splitlines() == ["<a><b  c><d'e><f g>"] * 2, f"the remote shell got {said!r}"


@pytest.mark.hosts("three", quick=True)
def test_ssh_options(bed):
    bed.run(
        bed.launch(3),
        env={"GASNET_SSH_OPTIONS": "-o 'LogLevel ERROR' -o \"ConnectTimeout 20\" -4", **bed.servers()},
        places=blocks(3, bed.names()),
    )


@pytest.mark.hosts("three")
def test_ssh_remote_path(bed, folder):
    other, name = f"{folder}/another folder", os.path.basename(bed.program.path)
    os.mkdir(other)
    shutil.copy(bed.program.path, f"{other}/{name}")
    bed.run(
        [bed.program.launcher, "-n", "3", f"./{name}", "--folder"],
        env={"GASNET_SSH_REMOTE_PATH": other, **bed.servers()},
        places=blocks(3, bed.names()),
        says=[r"rank 2 folder .*another\\x20folder\]$"],
    )


@pytest.mark.hosts("three")
def test_ssh_a_program_on_the_path(bed):
    path = f"{bed.program.folder}:{os.environ['PATH']}"
    name = os.path.basename(bed.program.path)
    bed.run([bed.program.launcher, "-n", "3", name], env={"PATH": path, **bed.servers()}, places=blocks(3, bed.names()))
    bed.run(
        ["sh", "-c", name], env={"PATH": path, "GASNET_PSHM_NODES": "3", **bed.servers()}, places=blocks(3, bed.names())
    )


# Variables and input.


@pytest.mark.hosts("three", quick=True)
def test_ssh_variables(bed):
    bed.run(
        bed.launch(4, *[f"--env={n}" for n in ODD_VARIABLES]),
        env={**ODD_VARIABLES, **bed.servers()},
        places=blocks(4, bed.names()),
        variables=ODD_VARIABLES,
    )


@pytest.mark.hosts("three", quick=True)
def test_ssh_named_variables_win_over_the_session(bed):
    env = {"USER": "zed", "OTHER": "of the starter", **bed.servers(2, 3)}
    bed.run(
        bed.launch(3, "--env=USER", "--env=OTHER"),
        env=env,
        ranks=3,
        variables={"USER": "root", "OTHER": "of the starter"},
    )
    bed.run(bed.launch(3, "--env=USER", options=["-E", "OTHER,USER"]), env=env, ranks=3, variables={"USER": "zed"})
    bed.run(bed.launch(3, "--env=USER", options=["-E", "USER=a  'b'"]), env=env, ranks=3, variables={"USER": "a  'b'"})


@pytest.mark.hosts("three")
def test_ssh_variables_of_a_session_stay(bed):
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
    """All of standard input reaches rank 0, and an empty one ends."""
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


@pytest.mark.hosts("three", quick=True)
def test_ssh_standard_input(bed):
    for hosts in ((1, 2, 3), (2, 3, 1)):
        read_input(bed, bed.servers(*hosts), blocks(4, [f"node{n}" for n in hosts]))
    # Nobody reads.
    bed.run(bed.launch(3), env=bed.servers(2, 3), places=blocks(3, ["node2", "node3"]), stdin=b"x" * 1000000)
