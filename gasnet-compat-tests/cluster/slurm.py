#!/usr/bin/env python3
"""A local Slurm over the hosts of `hosts.py`: slurmctld on node1, slurmd and munged on every node,
with a key, configuration, state and ports of their own, gone when the hosts are.

    with Slurm(nodes=3, cpus=8) as slurm:
        code, out, err = slurm.srun(["-n", "4", "--mpi=pmi2", "hostname"], timeout=60)

    cluster/slurm.py -n 3 [--cpus 8] [--timeout 60] [--user nobody] -- srun -n 4 hostname

The tool runs the command on node1 and ends with its status (124: out of time). `sinfo`, `salloc`,
`sbatch` and so on work as well."""

import argparse
import sys
import time

from hosts import BASE, Hosts, run_here
from processes import Unavailable, need

FOLDER = f"{BASE}/slurm"
START_SECONDS = 60

CONFIGURATION = """ClusterName=test
SlurmctldHost=node1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdSpoolDir=/run/slurmd
TmpFS={base}/tmp
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=2
KillWait=2
NodeName=node[1-{nodes}] CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


class Slurm:
    """Slurm over hosts that are given, or that it makes (`options` as for `Hosts`)."""

    def __init__(self, nodes=2, cpus=8, hosts=None, **options):
        self.cpus, self.given, self.hosts = cpus, hosts is not None, hosts or Hosts(nodes, **options)

    def __enter__(self):
        need("munged", "mungekey", "slurmctld", "slurmd", "srun", "sinfo")
        if not self.given:
            self.hosts.__enter__()
        try:
            self.start()
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind, *_):
        if not self.given:
            self.hosts.__exit__(kind)

    def start(self):
        """Starts the daemons, which then belong to the hosts; returns when all nodes are idle."""
        hosts = self.hosts
        configuration = CONFIGURATION.format(folder=FOLDER, base=BASE, nodes=hosts.count, cpus=self.cpus)
        hosts.check(
            1,
            [
                "sh",
                "-ec",
                f"""mkdir -p {FOLDER}/etc {FOLDER}/state
            cat > {FOLDER}/etc/slurm.conf
            mungekey --create --keyfile={FOLDER}/munge.key""",
            ],
            stdin=configuration,
        )
        for number in hosts.numbers():
            # Commands look for their configuration here, in ssh sessions as well.
            hosts.check(
                number,
                [
                    "sh",
                    "-ec",
                    f"""mount --bind {FOLDER}/etc /etc/slurm
                mkdir -p /run/munge /run/slurmd
                munged --force --key-file={FOLDER}/munge.key --socket=/run/munge/munge.socket.2 \
                    --pid-file=/run/munge/munged.pid \
                    --log-file=/var/log/munged.log --seed-file=/run/munge/munged.seed""",
                ],
            )
        hosts.check(1, ["slurmctld"])
        for number in hosts.numbers():
            hosts.check(number, ["slurmd"])
        self.await_nodes()
        hosts.accept()

    def await_nodes(self):
        """Until every node is idle."""
        end = time.monotonic() + START_SECONDS
        while True:
            result = self.hosts.run(1, ["sinfo", "--noheader", "--Node", "--format=%N %T"])
            if (
                result.code == 0
                and [line.split()[1] for line in result.stdout.splitlines()] == ["idle"] * self.hosts.count
            ):
                return
            if time.monotonic() > end:
                logs = self.hosts.run(1, ["sh", "-c", f"tail -n 5 {FOLDER}/*.log"]).stdout
                raise RuntimeError(
                    f"Slurm's nodes were not ready after {START_SECONDS} s: {result.stdout}{result.stderr}\n{logs}"
                )
            time.sleep(0.1)

    def srun(self, arguments, **options):
        """`srun` with these arguments on node1; the options, and what it returns, are those of
        `Hosts.run`."""
        return self.hosts.run(1, ["srun", *arguments], **options)

    def mpi_types(self):
        """The kinds of process managers that this Slurm has for `--mpi=`."""
        result = self.srun(["--mpi=list"])
        return sorted({"none", "pmi2", "pmix"} & set((result.stdout + result.stderr).split()))


def main():
    """The command line tool."""
    parser = argparse.ArgumentParser(
        description="Runs a command on the first node of a Slurm cluster made of namespaces."
    )
    parser.add_argument("-n", type=int, default=2, help="number of nodes (2)")
    parser.add_argument("--cpus", type=int, default=8, help="processors that Slurm believes each node to have (8)")
    parser.add_argument("--timeout", type=float, help="end all after so many seconds, with status 124")
    parser.add_argument("--user", help="run the command as this user")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- command arguments")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("give a command")
    user = options.user if options.user != "root" else None
    try:
        with Slurm(options.n, options.cpus, user=user or "nobody") as slurm:
            return run_here(slurm.hosts, command, user, options.timeout)
    except (Unavailable, RuntimeError, OSError, ValueError) as error:
        print(f"slurm: {error}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())
