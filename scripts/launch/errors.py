"""Errors at the start: a message that reports them, in time, and nothing left behind."""

import os

from bed import blocks
from cases import case


@case("errors: a host that is not there", "three", quick=True)
def _(bed):
    bed.run(bed.launch(3), env={"GASNET_SSH_SERVERS": "node1 node2 node99"}, code=None, says=["node99", "!panicked"])
    bed.run(bed.launch(3), env={"GASNET_SSH_SERVERS": "node99 node2"}, code=None, says=["node99"])


@case("errors: numbers of ranks that cannot be", "one", quick=True, conduits=("udp",))
def _(bed):
    for number in ("0", "1048577", "99999999999999999999"):
        bed.run(
            [bed.program.path, number], code=None, says=["first argument.*number of its ranks, 1 to 1048576", "!^rank"]
        )
    bed.run(
        [bed.program.path, "1025"],
        code=None,
        says=["number of ranks 1025: one host starts at most 1024", "!GASNET_PSHM_NODES=", "!^rank"],
    )
    bed.run([bed.program.path, "0"], env={"GASNET_PSHM_NODES": "1"}, ranks=1, arguments=["0"])


@case("errors: deep in the tree, a host that is not there", "seven")
def _(bed):
    servers = {"GASNET_SSH_SERVERS": "node1 node2 node3 node99 node5", "GASNET_SSH_OUT_DEGREE": "1"}
    bed.run(bed.launch(5), env=servers, code=None, says=["node99"])


@case("errors: ssh is refused", "three", quick=True)
def _(bed):
    bed.run(
        bed.launch(3),
        env={"GASNET_SSH_OPTIONS": "-p 1", **bed.servers()},
        code=None,
        says=["refused", "remote shell for host node2"],
    )
    bed.run(
        bed.launch(3),
        env={"GASNET_SSH_OPTIONS": "-o 'no end", **bed.servers()},
        code=None,
        says=["GASNET_SSH_OPTIONS.*no end"],
    )
    bed.run(
        bed.launch(3),
        env={"GASNET_SSH_CMD": "/nowhere/rsh", **bed.servers()},
        code=None,
        says=["/nowhere/rsh", "GASNET_SSH_CMD"],
    )


@case("errors: a remote shell ends before it has received its commands", "three", quick=True)
def _(bed):
    # More than a pipe holds.
    much = {f"TEST_MUCH_{i}": "x" * 120_000 for i in range(10)}
    bed.run(
        bed.launch(3),
        env={"GASNET_SSH_CMD": "/bin/false", **much, **bed.servers()},
        code=None,
        says=["remote shell for host node[23]"],
    )


@case("errors: what a remote shell shall do is taken away", "three", quick=True)
def _(bed):
    with bed.script("taker", 'IFS= read -r line; exec ssh "$@"') as shell:
        bed.run(
            bed.launch(3),
            env={"GASNET_SSH_CMD": shell, **bed.servers()},
            code=None,
            says=["the start-up line has not arrived", "host node[23]"],
        )


@case("errors: the program is not on the other host", "three", quick=True)
def _(bed):
    empty = f"{bed.program.folder}/empty"
    os.mkdir(empty)
    try:
        bed.run(
            [bed.program.launcher, "-n", "3", f"./{os.path.basename(bed.program.path)}"],
            env={"GASNET_SSH_REMOTE_PATH": empty, **bed.servers()},
            code=None,
            says=["not found", "host node[23]"],
        )
        bed.run(
            bed.launch(3),
            env={"GASNET_SSH_REMOTE_PATH": "/nowhere", **bed.servers()},
            code=None,
            says=["/nowhere", "host node[23]"],
        )
    finally:
        os.rmdir(empty)


@case("errors: a program on the other host that is none of ours", "three")
def _(bed):
    other = f"{bed.program.folder}/other"
    os.mkdir(other)
    try:
        name = os.path.basename(bed.program.path)
        os.symlink("/bin/true", f"{other}/{name}")
        bed.run(
            [bed.program.launcher, "-n", "3", f"./{name}"],
            env={"GASNET_SSH_REMOTE_PATH": other, **bed.servers()},
            code=None,
            says=["host node[23] .*status 0"],
        )
    finally:
        os.remove(f"{other}/{name}")
        os.rmdir(other)


@case("errors: GASNET_WORKERIP where no host has an address, or none at all", "three", quick=True)
def _(bed):
    bed.run(
        bed.launch(3),
        env={"GASNET_WORKERIP": "10.99.0.0", **bed.servers()},
        code=None,
        says=["GASNET_WORKERIP=10.99.0.0"],
    )
    bed.run(
        bed.launch(3),
        env={"GASNET_WORKERIP": "somewhere", **bed.servers()},
        code=None,
        says=["GASNET_WORKERIP=somewhere"],
    )


@case("errors: GASNET_MASTERIP that nobody reaches", "three")
def _(bed):
    bed.run(
        bed.launch(3),
        env={"GASNET_MASTERIP": "10.77.0.77", **bed.servers()},
        code=None,
        says=["10.77.0.77", "GASNET_MASTERIP"],
    )
    bed.run(
        bed.launch(3),
        env={"GASNET_MASTERIP": "no.such.name", **bed.servers()},
        code=None,
        says=["no.such.name", "GASNET_MASTERIP"],
    )


@case("errors: hosts named by addresses of both versions", "three")
def _(bed):
    bed.run(bed.launch(4), env={"GASNET_SSH_SERVERS": "fd77::2 10.77.0.3"}, code=None, says=["GASNET_WORKERIP"])
    bed.run(
        bed.launch(4),
        env={"GASNET_SSH_SERVERS": "fd77::2 10.77.0.3", "GASNET_WORKERIP": "10.77.0.0"},
        places=blocks(4, ["node2", "node3"]),
    )


@case("errors: hosts that never call", "three", quick=True)
def _(bed):
    with bed.script("sleeper", "exec sleep 1000") as shell:
        bed.run(
            bed.launch(3),
            env={"GASNET_SSH_CMD": shell, "GASNET_SPAWN_TIMEOUT": "2", **bed.servers()},
            code=None,
            says=["host node[23] has not called", "GASNET_SPAWN_TIMEOUT"],
        )


@case("errors: one host is not there, another never calls", "three")
def _(bed):
    shell = f"{bed.program.folder}/some"
    with open(shell, "w", encoding="ascii") as file:
        file.write('#!/bin/sh\ncase "$*" in *node3*) sleep 1000; exit 1 ;; esac\nexec ssh "$@"\n')
    os.chmod(shell, 0o755)
    try:
        for servers in ("node1 node99 node3", "node99 node3 node2"):
            bed.run(
                bed.launch(3),
                env={"GASNET_SSH_CMD": shell, "GASNET_SSH_SERVERS": servers},
                code=None,
                says=["host node99", "!^rank"],
                limit=60,
            )
    finally:
        os.remove(shell)


@case("errors: lists of hosts", "three", quick=True)
def _(bed):
    for env, message in (
        ({"GASNET_SSH_NODEFILE": "/nowhere/x"}, "GASNET_SSH_NODEFILE=/nowhere/x"),
        ({"GASNET_SSH_SERVERS": ", ,"}, "GASNET_SSH_SERVERS"),
        ({"GASNET_SSH_SERVERS": "node2 -oProxyCommand=x"}, "-oProxyCommand=x is not a host name"),
        ({"SLURM_JOB_NODELIST": "node[1-"}, "SLURM_JOB_NODELIST"),
        ({}, "no hosts are known"),
    ):
        bed.run(bed.launch(2, options=["-spawner=ssh"]), env=env, code=None, says=[message, "!^rank"])


@case("errors: more hosts wanted than known", "three")
def _(bed):
    bed.run(bed.launch(2, options=["-N", "2"]), code=2, says=["GASNET_SSH_SERVERS.*GASNET_SPAWNER=fork"])


@case("errors: a contact that is none", "three", quick=True)
def _(bed):
    for contact in (
        "x",
        "0,x,0,10.77.0.1",
        "1,0,0",
        "1,9,0,10.77.0.1",
        "9" * 10000,
    ):
        bed.run(
            [bed.program.path],
            env={"_GASNET_CONTACT": contact, "_GASNET_KEY": "0" * 32},
            code=None,
            says=["_GASNET_CONTACT|cannot connect|cannot resolve"],
        )
