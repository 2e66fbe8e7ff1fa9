"""Compares gasnet_info with /proc, /sys and the limits of this process, also under changed limits,
without /sys, and as nobody."""

import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import jobs
import mpis
import pytest

TITLES = [
    "Processors",
    "Memory",
    "Limits of a process",
    "Kernel",
    "Network interfaces",
    "RDMA devices",
    "Network and launcher libraries",
    "Accelerator libraries",
]
# The program is the same for all conduits of an installation.
pytestmark = pytest.mark.conduits("smp")


class Program:
    """gasnet_info of an installation."""

    def __init__(self, prefix):
        self.path = f"{prefix}/bin/gasnet_info"

    def run(self, *options, before=(), environment=None, **streams):
        """The result, run after the words `before`."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **streams}
        variables = {**os.environ, **(environment or {})}
        command = [*before, self.path, *options]
        return subprocess.run(
            command, text=True, env=variables, stdin=subprocess.DEVNULL, timeout=120, check=False, **streams
        )

    def json(self, *options, **others):
        """The report, without the output of vendor libraries."""
        done = self.run("--json", *options, stderr=subprocess.DEVNULL, **others)
        assert done.returncode == 0, done.stdout
        return json.loads(done.stdout)

    def machine(self, *before, **environment):
        """The report about this machine."""
        return self.json("-l", before=before, environment=environment)["machine"]

    def providers(self, **environment):
        """The providers of libfabric as the conduit ofi would use them: name, facts."""
        return self.json("-p", environment=environment)["providers"].get("ofi", {})


@pytest.fixture(scope="module")
def info(configuration):
    return Program(configuration.prefix)


@pytest.fixture(scope="module")
def machine(info):
    return info.machine()


def meminfo(name):
    """Bytes of a row of /proc/meminfo."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    return int(re.search(rf"^{name}:\s+(\d+)", text, re.M).group(1)) * 1024


def near(a, b):
    """Equal, except for the work of other processes in between."""
    return a is not None and abs(a - b) <= max(a, b) * 0.25 + (64 << 20)


# ---- text and JSON, of every topic


def test_text(info):
    done = info.run()
    assert done.returncode == 0
    assert [t for t in ("Build", "Limits of the library", *TITLES) if f"\n{t}\n" not in done.stdout] == []
    assert re.search(r"^(No advice for|One line with|\d+ lines with)", done.stdout, re.M)


@pytest.fixture(scope="module")
def everything(info):
    done = info.run("--json", "-v", "-c", "-b", "-l", "-e")
    assert done.returncode == 0
    return json.loads(done.stdout)


def test_json(everything):
    assert set(everything) == {"version", "conduits", "build", "library_limits", "machine", "variables"}
    assert list(everything["machine"]) == TITLES
    for section in everything["machine"].values():
        for fact in section.values():
            assert set(fact) <= {"text", "number", "advice"} and fact["text"]


def test_unknown_option(info):
    done = info.run("--nonsense")
    assert done.returncode == 2 and "usage" in done.stdout


def test_build(everything, configuration):
    build = everything["build"]
    assert "rustc" in build["compiler (Rust)"]
    assert build["prefix"] == configuration.prefix
    flavour = "debug" if configuration.build == "debug" else "nodebug"
    for row in everything["conduits"]:
        assert f",{flavour}," in build[f"{row['conduit']}-{row['mode']}"]
    limits = everything["library_limits"]
    assert limits["smp: GASNET_MAXEPS"] == limits["endpoints of a process"]


# ---- the numbers are those of the system


def test_memory(machine):
    memory = machine["Memory"]
    assert memory["total"]["number"] == meminfo("MemTotal")
    assert near(memory["available"]["number"], meminfo("MemAvailable"))
    assert memory["page size"]["number"] == resource.getpagesize()
    if os.path.isdir("/dev/shm"):
        shm = shutil.disk_usage("/dev/shm")
        assert memory["/dev/shm"]["number"] == shm.total
        assert near(memory["/dev/shm free"]["number"], shm.free)


def test_cores(machine):
    cpus, mine = machine["Processors"], len(os.sched_getaffinity(0))
    assert cpus["cores in the affinity mask"]["number"] == mine
    assert 1 <= cpus["ranks that can run at once"]["number"] <= mine


LIMITS = {
    "locked memory": resource.RLIMIT_MEMLOCK,
    "open files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "address space": resource.RLIMIT_AS,
    "file size": resource.RLIMIT_FSIZE,
    "stack": resource.RLIMIT_STACK,
    "core file": resource.RLIMIT_CORE,
}


@pytest.mark.parametrize("name", LIMITS)
def test_limit(machine, name):
    limit = machine["Limits of a process"][name]
    assert limit.get("number", resource.RLIM_INFINITY) == resource.getrlimit(LIMITS[name])[0]


def test_cards(machine):
    cards = {name for name in os.listdir("/sys/class/net") if os.path.exists(f"/sys/class/net/{name}/operstate")}
    found = machine["Network interfaces"]
    assert set(found) - {"interfaces to other hosts"} == cards
    assert "lo" not in cards or "127.0.0.1" in found["lo"]["text"] or not os.path.exists("/proc/net/fib_trie")


# ---- low limits are reported with advice, others without


LOW = {"locked memory": 65536, "open files": 128, "file size": 1048576, "address space": 2147483648}


@pytest.fixture(scope="module")
def poor(info):
    limits = [f"--memlock={LOW['locked memory']}:65536", f"--nofile={LOW['open files']}:4096"]
    limits += [f"--fsize={LOW['file size']}", f"--as={LOW['address space']}"]
    return info.machine("prlimit", *limits)["Limits of a process"]


@pytest.mark.parametrize("name", LOW)
def test_low_limit(poor, name):
    assert poor[name]["number"] == LOW[name]
    assert "ulimit" in poor[name]["advice"]


def test_high_limit(info):
    limits = info.machine("prlimit", "--nofile=4096:4096")["Limits of a process"]
    assert "advice" not in limits["open files"]


def test_bound(info):
    cores = os.sched_getaffinity(0)
    bound = info.machine("taskset", "-c", str(min(cores)))["Processors"]
    assert bound["cores in the affinity mask"]["number"] == 1
    assert bound["affinity mask"]["text"] == str(min(cores))
    assert "advice" in bound["cores in the affinity mask"] or len(cores) == 1


# ---- without /sys, without /proc, and as nobody


@pytest.fixture(scope="module")
def root():
    if os.getuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def mounted(info, root):
    """The report of a process with another file system in some place."""
    if subprocess.run(["unshare", "-m", "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("unshare is not permitted here")

    def report(words):
        return info.machine("unshare", "-m", "sh", "-c", f'mount -t tmpfs {words} && exec "$@"', "sh")

    return report


def test_unprivileged(info, root):
    report = info.machine("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    assert report["Memory"]["total"]["number"] == meminfo("MemTotal")


def test_without_sys(mounted):
    report = mounted("tmpfs /sys")
    assert report["Network interfaces"]["interfaces to other hosts"]["text"] == "unknown"
    assert report["RDMA devices"]["devices"]["text"] == "none"
    assert report["Processors"]["cores online"]["text"] == "unknown"


def test_without_proc(mounted):
    cpus = mounted("tmpfs /proc")["Processors"]
    assert cpus["affinity mask"]["text"] == "unknown"
    assert "advice" not in cpus["cores in the affinity mask"]


def test_small_dev_shm(mounted):
    assert mounted("-o size=64k tmpfs /dev/shm")["Memory"]["/dev/shm"]["number"] == 65536


# ---- standard output


@pytest.mark.parametrize("options", [[], ["--json"], ["-h"], ["-e"]], ids=lambda options: "".join(options) or "text")
def test_full_device(info, options):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = info.run(*options, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert "gasnet_info: cannot write to standard output: No space left" in done.stderr


def test_closed_pipe(info):
    reader, writer = os.pipe()
    os.close(reader)
    done = info.run(stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


# ---- libraries


def test_libraries(info):
    """Stand-ins for vendor libraries are found and described."""
    folder = tempfile.mkdtemp(dir=os.environ[jobs.FOLDER])
    for name in ("libfabric.so.1", "libibverbs.so.1", "libcuda.so.1", "libze_loader.so.1"):
        compiler = (os.environ.get("CC") or "cc").split()
        source = Path(__file__).parent / "fabric.c"
        subprocess.run([*compiler, "-shared", "-fPIC", "-o", f"{folder}/{name}", source], check=True)
    report = info.machine(LD_LIBRARY_PATH=folder)
    networks, accelerators = report["Network and launcher libraries"], report["Accelerator libraries"]
    assert networks["libfabric"]["text"] == "libfabric.so.1: version 1.21"
    assert networks["libibverbs"]["text"] == "libibverbs.so.1: devices standin_0"
    assert accelerators["CUDA driver library"]["text"].endswith("/libcuda.so.1")
    assert accelerators["HIP runtime library"]["text"].startswith("none: ")
    assert accelerators["Level Zero loader library"]["text"].endswith("/libze_loader.so.1")


# ---- the facts about providers follow the environment, as the conduit does

TCP, SHM = "tcp;ofi_rxm", "shm"


@pytest.fixture(scope="module")
def plain(info):
    found = info.providers()
    if not found:
        pytest.skip("gasnet_info is built without conduit ofi")
    if found.get(TCP, {}).get("threading") is None:
        pytest.skip(f"libfabric has no {TCP}: {found}")
    return found


def test_providers(plain):
    labels = list(plain[TCP])
    for facts in plain.values():
        assert list(facts) in (labels, ["use"])
    assert [facts["use"] for facts in plain.values()].count("chosen") == 1
    assert plain["tcp"] == {"use": "impossible: it has no reliable connectionless endpoints (FI_EP_RDM)"}
    assert plain[SHM]["use"] == "excluded: GASNET_OFI_PROVIDER_EXCLUDE has it"
    assert plain[SHM]["atomics"] == "provider"
    assert plain[TCP]["atomics"] == "Active Messages (the provider uses sockets)"


SETTINGS = [
    ("GASNET_OFI_PROVIDER=shm", SHM, "use", "chosen"),
    ("GASNET_OFI_PROVIDER=shm", TCP, "use", "possible: GASNET_OFI_PROVIDER names another one"),
    ("GASNET_OFI_PROVIDER_INCLUDE=sockets,shm", TCP, "use", "excluded: GASNET_OFI_PROVIDER_INCLUDE lacks it"),
    ("GASNET_OFI_PROVIDER_EXCLUDE=tcp", TCP, "use", "excluded: GASNET_OFI_PROVIDER_EXCLUDE has it"),
    ("FI_PROVIDER=shm", SHM, "use", "chosen"),
    ("GASNET_OFI_DEVICE=lo", TCP, "device", "lo"),
    ("GASNET_OFI_DEVICE_TYPE=JRank GASNET_OFI_DEVICE_0=lo", TCP, "device", "lo"),
    (
        "GASNET_OFI_RECEIVE_BUFF_SIZE=recv",
        TCP,
        "Active Messages",
        "a receive buffer per message (GASNET_OFI_RECEIVE_BUFF_SIZE=recv)",
    ),
    ("GASNET_OFI_ATOMICS=0", SHM, "atomics", "Active Messages (GASNET_OFI_ATOMICS=0)"),
    (
        "GASNET_OFI_AM_INJECT_LIMIT=48 GASNET_OFI_RMA_INJECT_LIMIT=16",
        TCP,
        "injected",
        "messages of 48 bytes, puts of 16 bytes",
    ),
]


@pytest.mark.parametrize(("environment", "name", "label", "text"), SETTINGS, ids=[f"{s[0]}-{s[1]}" for s in SETTINGS])
def test_setting_of_providers(info, plain, environment, name, label, text):
    facts = info.providers(**dict(word.split("=") for word in environment.split()))[name]
    assert facts.get(label) == text


def test_unknown_device(info, plain):
    use = info.providers(GASNET_OFI_DEVICE="nic9")[TCP]["use"]
    assert "GASNET_OFI_DEVICE=nic9: no such device. libfabric has " in use
    assert f"lo ({TCP})" in use


def test_text_of_providers(info, plain):
    done = info.run("-p")
    assert done.returncode == 0 and f"\n{TCP}\n  use " in done.stdout


# ---- MPI


ABIS = {mpis.HYDRA: "MPICH's", mpis.OPEN_MPI: "Open MPI's", "": ""}


@pytest.mark.parametrize("mpi", mpis.installed(), ids=lambda mpi: mpi.name)
def test_mpi(info, mpi):
    """The library that a job would open, with its ABI."""
    names = {mpis.HYDRA: "libmpich.so.12", mpis.OPEN_MPI: "libmpi.so.40"}
    library = mpi.environment().get("GASNET_MPI_LIBRARY") or names.get(mpi.family, "")
    # Wheels bring a libfabric of their own, and this process would have that of the system already.
    others = {"GASNET_OFI_LIBRARY": "none", "GASNET_UCX_LIBRARY": "none"}
    environment = {**mpi.environment(), **others, "GASNET_MPI_LIBRARY": library}
    reports = info.json("-p", environment=environment)["providers"]
    if "mpi" not in reports:
        pytest.skip("the installation has no conduit mpi")
    [(name, facts)] = reports["mpi"].items()
    assert "MPI" in name and facts["file"].endswith(library)
    assert ("standard" if mpi.name.endswith("-abi") else ABIS[mpi.family]) in facts["ABI"]
    assert facts["use"].startswith("where it is named")
    assert ("device" in facts) == name.startswith("MPICH")


def test_no_mpi(info):
    reports = info.json("-p", environment={"GASNET_MPI_LIBRARY": "libc.so.6"})["providers"]
    if "mpi" not in reports:
        pytest.skip("the installation has no conduit mpi")
    assert reports["mpi"]["MPI"]["use"].startswith("impossible: libc.so.6")
