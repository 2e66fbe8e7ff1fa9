"""Errors at the start: a message that reports them, in time, and nothing left behind."""

import os

import pytest
from bed import blocks
from kinds import BY_ADDRESS


def fails(bed, env, *says, command=(), **options):
    """A job with these variables beside the list of hosts fails, with messages."""
    bed.run(command or bed.launch(3), env={**bed.servers(), **env}, code=None, says=says, **options)


@pytest.mark.parametrize("servers", ("node1 node2 node99", "node99 node2"))
@pytest.mark.hosts("three", quick=True)
def test_a_host_that_is_not_there(bed, servers):
    fails(bed, {"GASNET_SSH_SERVERS": servers}, "node99", "!panicked")


@pytest.mark.parametrize("number", ("0", "1048577", "99999999999999999999", "1025"))
@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_numbers_of_ranks_that_cannot_be(bed, number):
    says = ["first argument.*number of its ranks, 1 to 1048576"]
    if number == "1025":
        says = ["number of ranks 1025: one host starts at most 1024", "!GASNET_PSHM_NODES="]
    bed.run([bed.program.path, number], code=None, says=[*says, "!^rank"])


@pytest.mark.hosts("one", quick=True, conduits=("udp",))
def test_no_number_of_ranks(bed):
    bed.run([bed.program.path, "0"], env={"GASNET_PSHM_NODES": "1"}, ranks=1, arguments=["0"])


@pytest.mark.hosts("seven")
def test_a_host_deep_in_the_tree_is_not_there(bed):
    servers = {"GASNET_SSH_SERVERS": "node1 node2 node3 node99 node5", "GASNET_SSH_OUT_DEGREE": "1"}
    fails(bed, servers, "node99", command=bed.launch(5))


@pytest.mark.parametrize(
    "variable, value, says",
    (
        pytest.param("GASNET_SSH_OPTIONS", "-p 1", ["refused", "remote shell for host node2"], id="port"),
        pytest.param("GASNET_SSH_OPTIONS", "-o 'no end", ["GASNET_SSH_OPTIONS.*no end"], id="options"),
        pytest.param("GASNET_SSH_CMD", "/nowhere/rsh", ["/nowhere/rsh", "GASNET_SSH_CMD"], id="command"),
    ),
)
@pytest.mark.hosts("three", quick=True)
def test_ssh_is_refused(bed, variable, value, says):
    fails(bed, {variable: value}, *says)


@pytest.mark.hosts("three", quick=True)
def test_a_remote_shell_ends_too_soon(bed):
    # More than a pipe holds.
    much = {f"TEST_MUCH_{i}": "x" * 120_000 for i in range(10)}
    fails(bed, {"GASNET_SSH_CMD": "/bin/false", **much}, "remote shell for host node[23]")


@pytest.mark.hosts("three", quick=True)
def test_commands_of_a_remote_shell_are_taken_away(bed):
    with bed.script("taker", 'IFS= read -r line; exec ssh "$@"') as shell:
        fails(bed, {"GASNET_SSH_CMD": shell}, "the start-up line has not arrived", "host node[23]")


@pytest.mark.hosts("three", quick=True)
def test_the_program_is_not_there(bed, folder):
    command = [bed.program.launcher, "-n", "3", f"./{os.path.basename(bed.program.path)}"]
    fails(bed, {"GASNET_SSH_REMOTE_PATH": folder}, "not found", "host node[23]", command=command)
    fails(bed, {"GASNET_SSH_REMOTE_PATH": "/nowhere"}, "/nowhere", "host node[23]")


@pytest.mark.hosts("three")
def test_another_program_is_there(bed, folder):
    name = os.path.basename(bed.program.path)
    os.symlink("/bin/true", f"{folder}/{name}")
    command = [bed.program.launcher, "-n", "3", f"./{name}"]
    fails(bed, {"GASNET_SSH_REMOTE_PATH": folder}, "host node[23] .*status 0", command=command)


@pytest.mark.parametrize("value", ("10.99.0.0", "somewhere"))
@pytest.mark.hosts("three", quick=True)
def test_workerip_of_no_host(bed, value):
    fails(bed, {"GASNET_WORKERIP": value}, f"GASNET_WORKERIP={value}")


@pytest.mark.parametrize("value", ("10.77.0.77", "no.such.name"))
@pytest.mark.hosts("three")
def test_masterip_that_nobody_reaches(bed, value):
    fails(bed, {"GASNET_MASTERIP": value}, value, "GASNET_MASTERIP")


@pytest.mark.hosts("three", conduits=BY_ADDRESS)
def test_addresses_of_both_versions(bed):
    servers = {"GASNET_SSH_SERVERS": "fd77::2 10.77.0.3"}
    fails(bed, servers, "GASNET_WORKERIP", command=bed.launch(4))
    bed.run(bed.launch(4), env={**servers, "GASNET_WORKERIP": "10.77.0.0"}, places=blocks(4, ["node2", "node3"]))


@pytest.mark.hosts("three", quick=True)
def test_hosts_that_never_call(bed):
    with bed.script("sleeper", "exec sleep 1000") as shell:
        env = {"GASNET_SSH_CMD": shell, "GASNET_SPAWN_TIMEOUT": "2"}
        fails(bed, env, "host node[23] has not called", "GASNET_SPAWN_TIMEOUT")


@pytest.mark.parametrize("servers", ("node1 node99 node3", "node99 node3 node2"))
@pytest.mark.hosts("three")
def test_one_host_is_not_there_another_never_calls(bed, servers):
    with bed.script("some", 'case "$*" in *node3*) sleep 1000; exit 1 ;; esac\nexec ssh "$@"') as shell:
        env = {"GASNET_SSH_CMD": shell, "GASNET_SSH_SERVERS": servers}
        fails(bed, env, "host node99", "!^rank", limit=60)


@pytest.mark.parametrize(
    "variable, value, says",
    (
        ("GASNET_SSH_NODEFILE", "/nowhere/x", "GASNET_SSH_NODEFILE=/nowhere/x"),
        ("GASNET_SSH_SERVERS", ", ,", "GASNET_SSH_SERVERS"),
        ("GASNET_SSH_SERVERS", "node2 -oProxyCommand=x", "-oProxyCommand=x is not a host name"),
        ("SLURM_JOB_NODELIST", "node[1-", "SLURM_JOB_NODELIST"),
        ("SLURM_JOB_NODELIST", None, "no hosts are known"),
    ),
    ids=("no-file", "empty", "an-option", "half", "none"),
)
@pytest.mark.hosts("three", quick=True)
def test_lists_of_hosts(bed, variable, value, says):
    bed.run(bed.launch(2, options=["-spawner=ssh"]), env={variable: value}, code=None, says=[says, "!^rank"])


@pytest.mark.hosts("three")
def test_more_hosts_wanted_than_known(bed):
    bed.run(bed.launch(2, options=["-N", "2"]), code=2, says=["GASNET_SSH_SERVERS.*GASNET_SPAWNER=fork"])


@pytest.mark.parametrize("contact", ("x", "0,x,0,10.77.0.1", "1,0,0", "1,9,0,10.77.0.1", "9" * 10000), ids=range(5))
@pytest.mark.hosts("three", quick=True)
def test_a_contact_that_is_none(bed, contact):
    env = {"_GASNET_CONTACT": contact, "_GASNET_KEY": "0" * 32}
    bed.run([bed.program.path], env=env, code=None, says=["_GASNET_CONTACT|cannot connect|cannot resolve"])
